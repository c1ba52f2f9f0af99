package qos

import (
	"context"
	"errors"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/reconcile"
	"github.com/csig-agent/csig/vlanrules"
)

// Update gives ports their entries, each bound before the old one is taken out, and the old one taken out where the
// switch reports the new one in hardware. There is no lease: what is written stays until it is changed.
func (d *Driver) Update(ctx context.Context, updates []vendors.PortUpdate, _ time.Duration) (vendors.UpdateResult, error) {
	if !d.Updates {
		return vendors.UpdateResult{}, &vendors.PermanentError{Err: errors.New(reconcile.NotAllowed)}
	}
	return d.Loop.Update(ctx, updates)
}

// device is the driver as its loop sees it.
type device struct{ *Driver }

func (d device) Read(ctx context.Context) error {
	_, err := d.Look(ctx)
	return err
}

func (d device) Known() bool { return d.View != nil && !d.Lost() }

func (d device) Have() vendors.Setup { return d.View.Setup(d.At) }

func (d device) Refusals(want *vendors.Setup) []error { return d.refusals(reconcile.Updating(want)) }

func (d device) InForce(port string) bool { return d.View.inForce(port) }

// Diff has ports that have fallen back, too, which Apply would leave alone.
func (d device) Diff(have, want vendors.Setup) ([]vendors.Change, error) {
	changes, err := d.Driver.Diff(have, want)
	if err != nil {
		return nil, err
	}
	for _, p := range reconcile.Updating(&want).Ports {
		if d.View.fallen(d.View.Port(p.Port)) {
			changes = append(changes, vendors.Change{Kind: vendors.Alter, Port: p.Port, What: "policy", Detail: "repair: it has fallen back: the dead-man on the switch has fired"})
		}
	}
	return changes, nil
}

// Write changes ports, and looks at all of them, also at what is configured since long, or not in force alone.
func (d device) Write(ctx context.Context, ports []reconcile.Port) (map[string]int, error) {
	var changes []*Change
	for _, p := range ports {
		changes = append(changes, &Change{port: p.Name, compile: func(have vlanrules.Table) ([]vlanrules.Op, error) {
			if err := p.Signal.Compile(d.Compiler, p.Name, have); err != nil {
				return nil, err
			}
			return p.Signal.Result.Ops, nil
		}})
	}
	done, err := d.CarryOut(ctx, nil, changes)
	errs := []error{err}
	for _, p := range ports {
		if !d.Known() {
			break
		}
		if p.Refused || reconcile.Of(errs, p.Name) != nil {
			continue
		}
		why, asked := d.View.Hardware[p.Name]
		if !d.AllAtOnce && (!asked || why != nil) {
			if err := d.Hardware(ctx, d.View, []string{p.Name}); err != nil {
				return done, errors.Join(append(errs, err)...)
			}
			why = d.View.Hardware[p.Name]
		}
		if why != nil {
			errs = append(errs, &vendors.PortError{Port: p.Name, Err: why})
		} else if why := d.View.elsewhere(); why != nil {
			errs = append(errs, &vendors.PermanentError{Port: p.Name, Err: why})
		}
	}
	return done, errors.Join(errs...)
}
