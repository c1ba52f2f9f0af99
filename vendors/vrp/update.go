package vrp

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vlanrules"
)

// notAllowed is why nothing is written without the operator's word.
const notAllowed = "an update is lines of configuration here, which the switch's accounting and archives keep: allow it with updates: cli in the fleet file"

// Update gives ports their entries, each bound before the old one is taken out, and the old
// one taken out where the switch reports the new one in hardware. There is no lease: what is
// written stays until it is changed.
func (d *Driver) Update(ctx context.Context, updates []vendors.PortUpdate, _ time.Duration) (vendors.UpdateResult, error) {
	if !d.cfg.Updates {
		return vendors.UpdateResult{}, &vendors.PermanentError{Err: errors.New(notAllowed)}
	}
	return d.update(ctx, updates)
}

func (d *Driver) update(ctx context.Context, updates []vendors.PortUpdate) (res vendors.UpdateResult, err error) {
	if d.setup == nil {
		if err := d.takeOver(ctx); err != nil {
			return res, err
		}
	}
	var errs []error
	if err := d.refresh(ctx, &res); err != nil {
		if !d.alive() {
			return res, err
		}
		errs = append(errs, err)
	}
	var changes []*change
	for i := range updates {
		u := updates[i]
		if err := refusal(append(errs, d.refused...), u.Port); err != nil {
			if refusal(errs, u.Port) == nil {
				errs = append(errs, err)
			}
			if !d.view.inForce(u.Port) {
				continue
			}
			u.Intents = d.setup.Fallback() // it advertises no value that csig does not stand behind
		}
		c, err := d.give(&u)
		if err != nil {
			errs = append(errs, err)
		} else if c != nil {
			changes = append(changes, c)
		}
	}
	done, err := d.carryOut(ctx, func(*qos.Script) {}, changes)
	for _, ops := range done {
		res.Ports++
		res.Ops += ops
	}
	for i := range updates {
		if g := d.signals[updates[i].Port]; g != nil && (!d.alive() || refusal([]error{err}, updates[i].Port) != nil && !g.Refused()) {
			g.Reset()
		}
	}
	errs = append(errs, err)
	for i := range updates { // also what is configured since long
		if name := updates[i].Port; d.view != nil && d.setup.ActionOf(name) == vlanrules.Update && refusal(errs, name) == nil {
			if why := d.view.notInHardware(name); why != nil {
				errs = append(errs, &vendors.PortError{Port: name, Err: why})
			}
		}
	}
	if !d.alive() {
		return vendors.UpdateResult{}, errors.Join(errs...)
	}
	res.Leased, res.ReadBack = true, vendors.ReadBackAfter // carryOut has seen the policies in hardware
	return res, errors.Join(errs...)
}

// takeOver makes the setup that is found on the switch the driver's; refresh repairs what it
// lacks.
func (d *Driver) takeOver(ctx context.Context) error {
	have, err := d.Observe(ctx)
	if err != nil {
		return err
	}
	if have.TPID == 0 {
		return vendors.NoSetup(have.Damaged)
	}
	d.start(have.Wanted())
	d.compared = time.Time{}
	return nil
}

// alive reports whether the driver knows what the switch has.
func (d *Driver) alive() bool { return d.view != nil && !d.lost() }

// refresh reads the configuration where that is due, and restores what is not as csig left
// it. Ports that cannot have their setup any more keep their policy, with the fallback in it.
func (d *Driver) refresh(ctx context.Context, res *vendors.UpdateResult) error {
	if d.alive() && time.Since(d.compared) < recheck {
		return nil
	}
	if err := d.look(ctx); err != nil {
		return err
	}
	d.compared = time.Now()
	d.refused = d.view.refusals(updating(d.setup))
	changes, err := Diff(d.cfg.Platform, d.view.setup(), *d.setup)
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		return nil
	}
	err = d.apply(ctx)
	if d.view == nil {
		return err
	}
	left, bad := Diff(d.cfg.Platform, d.view.setup(), *d.setup)
	res.NoteRepairs(slices.DeleteFunc(changes, func(c vendors.Change) bool { return slices.Contains(left, c) }))
	return errors.Join(err, bad)
}

// give is what gives a port its entries; nil where it needs none.
func (d *Driver) give(u *vendors.PortUpdate) (*change, error) {
	if !d.setup.HasPort(u.Port) {
		return nil, vendors.NotInSetup(u.Port)
	}
	g := d.signals[u.Port]
	if g == nil {
		g = &vendors.PortSignal{}
		d.signals[u.Port] = g
	}
	if _, err := g.Give(d.setup, u.Port, d.setup.ActionOf(u.Port), u.Intents); err != nil {
		return nil, err
	}
	if d.setup.ActionOf(u.Port) != vlanrules.Update {
		return nil, nil
	}
	return &change{port: u.Port, compile: func(have vlanrules.Table) ([]vlanrules.Op, error) {
		if err := g.Compile(d.compiler, u.Port, have); err != nil {
			return nil, err
		}
		return g.Result.Ops, nil
	}}, nil
}

// Release writes the fallback: nothing else ends what the ports write, also where an Apply
// that failed has left the driver without a setup.
func (d *Driver) Release(ctx context.Context) error {
	if d.setup == nil {
		if err := d.look(ctx); err != nil {
			return err
		}
		have := d.view.setup()
		if len(have.Ports) == 0 {
			return nil
		}
		if d.start(have.Wanted()); have.TPID != 0 {
			d.compared = time.Time{} // a change that broke off is repaired first
		}
	}
	var list []vendors.PortUpdate
	for _, p := range updating(d.setup).Ports {
		list = append(list, vendors.PortUpdate{Port: p.Port, Intents: d.setup.Fallback()})
	}
	if len(list) == 0 {
		return nil
	}
	_, err := d.update(ctx, list) // the end of the signal is no update
	return err
}
