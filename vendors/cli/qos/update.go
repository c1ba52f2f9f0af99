package qos

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// notAllowed is why nothing is written without the operator's word.
const notAllowed = "an update is lines of configuration here, which the switch's accounting and archives keep: allow it with updates: cli in the fleet file"

// Update gives ports their entries, each bound before the old one is taken out, and the old one taken out where the
// switch reports the new one in hardware. There is no lease: what is written stays until it is changed. What a port
// lacks is that port's error; the others go on.
func (d *Driver) Update(ctx context.Context, updates []vendors.PortUpdate, _ time.Duration) (vendors.UpdateResult, error) {
	if !d.Updates {
		return vendors.UpdateResult{}, &vendors.PermanentError{Err: errors.New(notAllowed)}
	}
	return d.update(ctx, updates)
}

func (d *Driver) update(ctx context.Context, updates []vendors.PortUpdate) (res vendors.UpdateResult, err error) {
	if d.Setup == nil {
		if err := d.TakeOver(ctx); err != nil {
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
	if err := d.allRefused(); err != nil {
		return res, err
	}
	var changes []*Change
	for i := range updates {
		u := updates[i]
		if err := refusal(append(slices.Clone(errs), d.refused...), u.Port); err != nil {
			if refusal(errs, u.Port) == nil {
				errs = append(errs, err)
			}
			if !d.View.inForce(u.Port) {
				continue
			}
			u.Intents = d.Setup.Fallback() // it advertises no value that csig does not stand behind
		}
		c, err := d.give(&u)
		if err != nil {
			errs = append(errs, err)
		} else if c != nil {
			changes = append(changes, c)
		}
	}
	done, err := d.CarryOut(ctx, nil, changes)
	for _, ops := range done {
		res.Ports++
		res.Ops += ops
	}
	errs = append(errs, err)
	for i := range updates {
		if g := d.signals[updates[i].Port]; g != nil && (!d.alive() || refusal([]error{err}, updates[i].Port) != nil && !g.Refused()) {
			g.Reset()
		}
	}
	if d.alive() {
		errs = append(errs, d.inHardware(ctx, updates, errs))
	}
	if !d.alive() {
		return vendors.UpdateResult{Repaired: res.Repaired}, errors.Join(errs...)
	}
	res.Leased, res.ReadBack = true, vendors.ReadBackAfter // CarryOut has seen the policies in hardware
	return res, errors.Join(errs...)
}

// inHardware is of which ports of an update, without an error of their own, policies are not in hardware, also where they are
// configured since long, or not in force alone.
func (d *Driver) inHardware(ctx context.Context, updates []vendors.PortUpdate, had []error) error {
	var errs []error
	for i := range updates {
		name := updates[i].Port
		if d.Setup.ActionOf(name) != vlanrules.Update || refusal(had, name) != nil {
			continue
		}
		why, asked := d.View.Hardware[name]
		if !d.AllAtOnce && !d.offline && (!asked || why != nil) {
			if err := d.Hardware(ctx, d.View, []string{name}); err != nil {
				return errors.Join(append(errs, err)...)
			}
			why = d.View.Hardware[name]
		}
		if why != nil {
			errs = append(errs, &vendors.PortError{Port: name, Err: why})
		} else if why := d.View.elsewhere(); why != nil {
			errs = append(errs, &vendors.PermanentError{Port: name, Err: why})
		}
	}
	return errors.Join(errs...)
}

// TakeOver makes the setup that is found on the switch the driver's; refresh repairs what it lacks.
func (d *Driver) TakeOver(ctx context.Context) error {
	have, err := d.Observe(ctx)
	if err != nil {
		return err
	}
	if have.TPID == 0 {
		return vendors.NoSetup(have.Damaged)
	}
	d.Start(have.Wanted())
	d.Compared = time.Time{}
	return nil
}

// refresh reads the configuration where that is due, and restores what is not as csig left it. Ports that cannot have
// their setup any more keep their policy, and Update puts the fallback in it.
func (d *Driver) refresh(ctx context.Context, res *vendors.UpdateResult) error {
	if d.alive() && time.Since(d.Compared) < Recheck {
		return nil
	}
	v, err := d.Look(ctx)
	if err != nil {
		return err
	}
	d.Compared = time.Now()
	if d.refuse() != nil {
		return nil // Update says so until then
	}
	changes, err := d.Diff(v.Setup(d.At), *d.Setup)
	if err != nil {
		return err
	}
	for _, p := range Updating(d.Setup).Ports {
		if v.fallen(v.Port(p.Port)) {
			changes = append(changes, vendors.Change{Kind: vendors.Alter, Port: p.Port, What: "policy", Detail: "repair: it has fallen back: the dead-man on the switch has fired"})
		}
	}
	if len(changes) == 0 {
		return nil
	}
	err = d.Program(ctx)
	if d.View == nil {
		return err
	}
	left, bad := d.Diff(d.View.Setup(d.At), *d.Setup)
	res.NoteRepairs(slices.DeleteFunc(changes, func(c vendors.Change) bool { return slices.Contains(left, c) || d.View.fallen(d.View.Port(c.Port)) }))
	return errors.Join(err, bad)
}

// refuse keeps why ports cannot have the setup as they are configured; the error is why none can.
func (d *Driver) refuse() error {
	d.refused = d.refusals(Updating(d.Setup))
	return d.allRefused()
}

func (d *Driver) allRefused() error {
	if len(d.refused) == 1 {
		if why := (*vendors.PermanentError)(nil); errors.As(d.refused[0], &why) && why.Port == "" {
			return why
		}
	}
	return nil
}

// give is what gives a port its entries; nil where it needs none.
func (d *Driver) give(u *vendors.PortUpdate) (*Change, error) {
	if !d.Setup.HasPort(u.Port) {
		return nil, vendors.NotInSetup(u.Port)
	}
	g := d.signals[u.Port]
	if g == nil {
		g = &vendors.PortSignal{}
		d.signals[u.Port] = g
	}
	if _, err := g.Give(d.Setup, u.Port, d.Setup.ActionOf(u.Port), u.Intents); err != nil {
		return nil, err
	}
	if d.Setup.ActionOf(u.Port) != vlanrules.Update {
		return nil, nil
	}
	return &Change{port: u.Port, compile: func(have vlanrules.Table) ([]vlanrules.Op, error) {
		if err := g.Compile(d.compiler, u.Port, have); err != nil {
			return nil, err
		}
		return g.Result.Ops, nil
	}}, nil
}

// Release writes the fallback: nothing else ends what the ports write, also where an Apply that failed has left the
// driver without a setup.
func (d *Driver) Release(ctx context.Context) error {
	if d.Setup == nil {
		v, err := d.Look(ctx)
		if err != nil {
			return err
		}
		have := v.Setup(d.At)
		if len(have.Ports) == 0 {
			return nil
		}
		if d.Start(have.Wanted()); have.TPID != 0 {
			d.Compared = time.Time{} // a change that broke off is repaired first
		}
	}
	var list []vendors.PortUpdate
	for _, p := range Updating(d.Setup).Ports {
		list = append(list, vendors.PortUpdate{Port: p.Port, Intents: d.Setup.Fallback()})
	}
	if len(list) == 0 {
		return nil
	}
	_, err := d.update(ctx, list) // the end of the signal is no update
	return err
}
