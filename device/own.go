package device

import (
	"context"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/all"
)

// Own opens what the agent of a device needs in this process, whose lock it has until it is closed.
type Own struct {
	Lock
	Who    string         // names the process to the device
	Owner  *vendors.Owner // where several controllers share the device; nil: none do
	Shadow bool           // nothing is programmed, and nothing locked
}

// OpenSource opens the counters of a device of a fleet, for its schedule.
func (o *Own) OpenSource(ctx context.Context, f *inventory.Fleet, d *inventory.Device) (counters.Source, error) {
	return OpenSource(ctx, &f.Profile, d, 0)
}

// OpenDriver opens the driver of a device, and locks the device.
func (o *Own) OpenDriver(d *inventory.Device) (vendors.Driver, error) {
	cfg := vendors.Config{Device: *d, Who: o.Who, Owner: o.Owner, Note: func(what string) { o.Log.Warn(what) }}
	if o.Owner != nil {
		cfg.Dial = o.Owner.Guard()
	}
	if !o.Shadow { // another configuration may be of another platform
		if err := o.Take(d); err != nil {
			return nil, err
		}
		cfg.Claim = func(identity string) error { return o.Claim(d.Name, identity) }
	}
	return all.Open(d.Platform, cfg)
}

// KnowsPlatform is the error of a platform's name that there is not.
func (o *Own) KnowsPlatform(name string) error {
	_, err := all.Default().Platform(name)
	return err
}
