package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/inventory/outfile"
	"github.com/csig-agent/csig/vendors"
)

// leaving is the name that the daemon's file has while what it set up is being
// removed: the next agent that is started goes on with the removal.
func (d *Daemon) leaving() string { return RemovingFile(d.cfg.File) }

// RemovingFile is where a daemon with that file has what it is to remove from the device.
func RemovingFile(file string) string { return file + ".removing" }

// RemoveSetup removes everything of ours from the device, and the configuration. A
// daemon without one looks at the device that is described. The daemon then waits
// for the next configuration. token is as for Configure.
func (d *Daemon) RemoveSetup(ctx context.Context, device api.Described, token string) error {
	release, err := d.beginChange(ctx, token)
	if err != nil {
		return err
	}
	defer release()
	return errors.Join(d.removeSetup(ctx, device, token), d.keepConfig(ctx))
}

func (d *Daemon) removeSetup(ctx context.Context, device api.Described, token string) error {
	if err := d.saveHistory(d.current()); err != nil {
		return refuse(err)
	}
	theirs, err := d.retireFile(token == "")
	if err != nil {
		return refuse(fmt.Errorf("removing the configuration: %w", err))
	}
	d.again = false
	ctx, cancel := d.changing(ctx, d.current())
	defer cancel()
	if r := d.current(); r != nil {
		r.end()
		err = r.driver.Remove(ctx)
		d.wait("for csig off to be run again: the removal is not finished")
		if err = errors.Join(err, r.close(nil)); err != nil {
			return fmt.Errorf("device %s: removing csig's objects: %w", r.dev.Name, err)
		}
		err = d.removalDone()
	} else if err = d.finishRemoval(ctx); err == nil && device != (api.Described{}) {
		// Also where nothing ran: an earlier agent may have left something.
		err = d.look(device, func(driver vendors.Driver) error { return driver.Remove(ctx) })
	}
	if err == nil && !theirs {
		err = d.clearOffMarker()
	}
	if err != nil {
		return err
	}
	if theirs {
		d.wait(fmt.Sprintf("for csig apply with the configuration of %s, or a restart without the off-marker file %s: csig off removed everything of ours, and the file, which csig did not write, stays", d.cfg.File, d.cfg.OffMarker))
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
		return errors.Join(err, d.removalDone())
	}
	dev, err := fleet.LocalDevice()
	if err != nil {
		return err
	}
	err = d.open(dev, func(driver vendors.Driver) error { return driver.Remove(ctx) })
	if err != nil {
		return fmt.Errorf("device %s: removing csig's objects: %w", dev.Name, err)
	}
	return d.removalDone()
}

func (d *Daemon) removalDone() error {
	if err := os.Remove(d.leaving()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return outfile.SyncDir(filepath.Dir(d.leaving()))
}
