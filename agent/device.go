package agent

import (
	"context"
	"errors"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
)

// look does something with a driver of its own, beside the one that the cycles
// use. device is for a daemon that runs no configuration.
func (d *Daemon) look(device api.Described, do func(vendors.Driver) error) error {
	r := d.current()
	if r != nil {
		return d.open(r.dev, do)
	}
	dev, err := d.described(device)
	if err != nil {
		return refuse(err)
	}
	return d.open(dev, do)
}

// described is the device that a client describes: by its platform, or by a fleet file
// of it alone.
func (d *Daemon) described(device api.Described) (*inventory.Device, error) {
	switch {
	case device == api.Described{}:
		return nil, errors.New("this daemon has no configuration, and so does not know its device: name its platform with ?platform=, or have a client that may change it describe it with ?device=")
	case device.Platform != "" && device.File != "":
		return nil, errors.New("the device is described twice: give ?platform= or ?device=, not both")
	case device.Platform != "":
		if d.cfg.KnowsPlatform != nil {
			if err := d.cfg.KnowsPlatform(device.Platform); err != nil {
				return nil, err
			}
		}
		return &inventory.Device{Name: "this device", Platform: device.Platform, Local: true}, nil
	}
	fleet, err := inventory.Parse("device", []byte(device.File))
	if err == nil && d.cfg.NoCommands {
		err = withoutCommands(fleet)
	}
	if err != nil {
		return nil, err
	}
	return fleet.LocalDevice()
}

// open does something with a driver of a device.
func (d *Daemon) open(dev *inventory.Device, do func(vendors.Driver) error) error {
	driver, err := d.cfg.OpenDriver(dev)
	if err != nil {
		return err
	}
	return errors.Join(do(driver), driver.Close())
}

// Facts is what the device can do.
func (d *Daemon) Facts(ctx context.Context, device api.Described) (facts vendors.Facts, err error) {
	err = d.look(device, func(driver vendors.Driver) error {
		facts, err = driver.Probe(ctx)
		return err
	})
	r := d.current()
	if r == nil {
		return facts, err
	}
	if facts.ConfigUpdates != nil {
		seen := *facts.ConfigUpdates
		seen.Changes = r.agent.observedChanges()
		facts.ConfigUpdates = &seen
	}
	return r.agent.withMeasured(facts), err
}

// Setup is what the device has, with the name of the configuration that the
// daemon runs.
func (d *Daemon) Setup(ctx context.Context, device api.Described) (s vendors.Setup, err error) {
	d.change.Lock() // half a change is not to be seen
	defer d.change.Unlock()
	d.bypassed()
	err = d.look(device, func(driver vendors.Driver) error {
		s, err = d.observe(ctx, driver)
		return err
	})
	if r := d.current(); r != nil {
		s.Config = r.hash
	}
	return s, err
}

// How many times Setup reads a device that seems damaged while cycles write, and how much longer it waits before each time.
const (
	setupReads = 6
	readLater  = 20 * time.Millisecond
)

// observe reads the setup by a driver other than the cycles' own. Damage that it finds while a cycle writes may
// be a partial update: it reads again.
func (d *Daemon) observe(ctx context.Context, driver vendors.Driver) (s vendors.Setup, err error) {
	r := d.current()
	if r == nil { // no cycle writes
		return driver.Observe(ctx)
	}
	for n := range setupReads {
		if err = vendors.Wait(ctx, time.Duration(n)*readLater); err != nil {
			return s, err
		}
		before := r.agent.writes.Load()
		s, err = driver.Observe(ctx)
		wrote := before%2 == 1 || r.agent.writes.Load() != before
		if err != nil || !wrote || !s.IsDamaged() {
			return s, err
		}
	}
	return s, err
}

// Health is the error and drop counters of the device's ports; none where its driver cannot tell.
func (d *Daemon) Health(ctx context.Context, device api.Described) (list []vendors.PortHealth, err error) {
	err = d.look(device, func(driver vendors.Driver) error {
		list, err = vendors.Health(ctx, driver)
		return err
	})
	return list, err
}

// MTUs is the MTU of the device's ports, in bytes; none where its driver cannot
// tell.
func (d *Daemon) MTUs(ctx context.Context, device api.Described) (mtus map[string]int, err error) {
	err = d.look(device, func(driver vendors.Driver) error {
		mtus, err = vendors.MTUs(ctx, driver)
		return err
	})
	return mtus, err
}

// SetMTU sets the MTU of one port, in bytes. Like the configuration it is not
// changed by a daemon that does not own the setup.
func (d *Daemon) SetMTU(ctx context.Context, device api.Described, port string, mtu int) error {
	release, err := d.lockChanges(ctx)
	if err != nil {
		return err
	}
	defer release()
	return d.look(device, func(driver vendors.Driver) error {
		m, ok := vendors.As[vendors.MTUSetter](driver)
		if !ok {
			return refuse(errors.New("csig cannot set the MTU of its ports"))
		}
		return m.SetMTU(ctx, port, mtu)
	})
}
