package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/inventory/outfile"
	"github.com/csig-agent/csig/vendors"
)

// leaving is the name that the daemon's file has while what it set up is being
// removed: the next agent that is started goes on with the removal.
func (d *Daemon) leaving() string { return d.cfg.File + ".removing" }

// Forget removes everything of ours from the device, and the configuration. A
// daemon without one looks at the platform that is named. The daemon then waits
// for the next configuration. mark is as for Configure.
func (d *Daemon) Forget(ctx context.Context, platform, mark string) error {
	release, err := d.takeTurn(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := d.changing(mark); err != nil {
		return err
	}
	return d.forget(ctx, platform, mark)
}

func (d *Daemon) forget(ctx context.Context, platform, mark string) error {
	if err := d.keepEarlier(d.current()); err != nil {
		return refuse(err)
	}
	theirs, err := d.unfile(mark == "")
	if err != nil {
		return refuse(fmt.Errorf("removing the configuration: %w", err))
	}
	d.again = false
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeLimit)
	defer cancel()
	if r := d.current(); r != nil {
		r.halt()
		err = r.driver.Remove(ctx)
		d.wait("for csig off to be run again: the removal is not finished")
		if err = errors.Join(err, r.close(nil)); err != nil {
			return fmt.Errorf("device %s: removing everything of ours: %w", r.dev.Name, err)
		}
		err = d.forgotten()
	} else if err = d.finishRemoval(ctx); err == nil && platform != "" {
		// Also where nothing ran: an earlier agent may have left something.
		err = d.look(platform, func(driver vendors.Driver) error { return driver.Remove(ctx) })
	}
	if err == nil && !theirs {
		err = d.on()
	}
	if err != nil {
		return err
	}
	if theirs {
		d.wait(fmt.Sprintf("for csig apply with the configuration of %s, or a restart without the mark %s: csig off removed everything of ours, and the file, which csig did not write, stays", d.cfg.File, d.cfg.OffMark))
		d.cfg.Log.WithField("file", d.cfg.File).Warn("everything of ours is removed; the file is not csig's, and stays")
		return nil
	}
	d.wait("for a configuration: csig apply gives it one")
	d.cfg.Log.Info("everything of ours is removed: waiting for a configuration")
	return nil
}

// finishRemoval ends a removal that was cut off.
func (d *Daemon) finishRemoval(ctx context.Context) error {
	if theirs, err := foreign(d.leaving()); err != nil || theirs {
		return errors.Join(err, fmt.Errorf("the file %s is in the way, and was not written by csig: move it away", d.leaving()))
	}
	fleet, err := inventory.Load(d.leaving())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("a removal was cut off: %w; remove what csig has on this device by hand (csig off), and the file", err)
	}
	if _, there, err := d.file(); err != nil || there {
		// Another configuration came after it, and has put things right.
		return errors.Join(err, d.forgotten())
	}
	dev, err := fleet.LocalDevice()
	if err != nil {
		return err
	}
	err = d.look(dev.Platform, func(driver vendors.Driver) error { return driver.Remove(ctx) })
	if err != nil {
		return fmt.Errorf("device %s: removing everything of ours: %w", dev.Name, err)
	}
	return d.forgotten()
}

func (d *Daemon) forgotten() error {
	if err := os.Remove(d.leaving()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return outfile.SyncDir(filepath.Dir(d.leaving()))
}

// look does something with a driver of its own, beside the one that the cycles
// use. platform is for a daemon that runs no configuration.
func (d *Daemon) look(platform string, do func(vendors.Driver) error) error {
	dev := &inventory.Device{Name: "this device", Platform: platform, Local: true}
	if r := d.current(); r != nil {
		dev = r.dev
	}
	if dev.Platform == "" {
		return refuse(errors.New("this daemon has no configuration, and so does not know its platform: name it with ?platform="))
	}
	driver, err := d.cfg.OpenDriver(dev)
	if err != nil {
		return err
	}
	return errors.Join(do(driver), driver.Close())
}

// Facts is what the device can do.
func (d *Daemon) Facts(ctx context.Context, platform string) (facts vendors.Facts, err error) {
	err = d.look(platform, func(driver vendors.Driver) error {
		facts, err = driver.Probe(ctx)
		return err
	})
	return facts, err
}

// Setup is what the device has, with the name of the configuration that the
// daemon runs.
func (d *Daemon) Setup(ctx context.Context, platform string) (s vendors.Setup, err error) {
	d.change.Lock() // half a change is not to be seen
	defer d.change.Unlock()
	err = d.look(platform, func(driver vendors.Driver) error {
		s, err = driver.Observe(ctx)
		return err
	})
	if r := d.current(); r != nil {
		s.Config = r.hash
	}
	return s, err
}

// Health is the error and drop counters of the device's ports; none where its driver cannot tell.
func (d *Daemon) Health(ctx context.Context, platform string) (list []vendors.PortHealth, err error) {
	err = d.look(platform, func(driver vendors.Driver) error {
		list, err = vendors.Health(ctx, driver)
		return err
	})
	return list, err
}

// MTUs is the MTU of the device's ports, in bytes; none where its driver cannot
// tell.
func (d *Daemon) MTUs(ctx context.Context, platform string) (mtus map[string]int, err error) {
	err = d.look(platform, func(driver vendors.Driver) error {
		mtus, err = vendors.MTUs(ctx, driver)
		return err
	})
	return mtus, err
}

// SetMTU sets the MTU of one port, in bytes. Like the configuration it is not
// changed by a daemon that does not own the setup.
func (d *Daemon) SetMTU(ctx context.Context, platform, port string, mtu int) error {
	release, err := d.takeTurn(ctx)
	if err != nil {
		return err
	}
	defer release()
	return d.look(platform, func(driver vendors.Driver) error {
		m, ok := vendors.As[vendors.MTUSetter](driver)
		if !ok {
			return refuse(errors.New("csig cannot set the MTU of its ports"))
		}
		return m.SetMTU(ctx, port, mtu)
	})
}
