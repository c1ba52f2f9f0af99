package comware

import (
	"context"
	"errors"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// notAllowed is why nothing is written without the operator's word.
const notAllowed = "an update is lines of configuration here, which the switch's accounting and archives keep: allow it with updates: cli in the fleet file"

// Update gives ports their entries, each change made, and reported by the switch to be in
// hardware, before the old one is broken. There is no lease: what is written stays until it
// is changed. What a port lacks is that port's error; the others go on.
func (d *Driver) Update(ctx context.Context, updates []vendors.PortUpdate, _ time.Duration) (vendors.UpdateResult, error) {
	var res vendors.UpdateResult
	if !d.cfg.Updates {
		return res, &vendors.PermanentError{Err: errors.New(notAllowed)}
	}
	if d.setup == nil {
		if err := d.takeOver(ctx); err != nil {
			return res, err
		}
	}
	if err := d.refresh(ctx, &res); err != nil {
		return res, err
	}
	if d.refusal != nil {
		return res, d.refusal
	}
	var errs []error
	for i := range updates {
		u := &updates[i]
		if err := d.refused[u.Port]; err != nil {
			errs = append(errs, err)
			continue
		}
		ops, err := d.give(ctx, u)
		if err != nil && d.lost() {
			return vendors.UpdateResult{Repaired: res.Repaired}, errors.Join(append(errs, err)...)
		}
		if err != nil {
			errs = append(errs, err)
		} else if d.view != nil && d.view.everywhere() != nil {
			errs = append(errs, &vendors.PermanentError{Port: u.Port, Err: d.view.everywhere()})
		}
		if ops > 0 {
			res.Ports++
			res.Ops += ops
		}
	}
	res.Leased, res.ReadBack = true, vendors.ReadBackAfter // carryOut and prove have seen the policies in hardware
	return res, errors.Join(errs...)
}

// give gives one port its entries.
func (d *Driver) give(ctx context.Context, u *vendors.PortUpdate) (int, error) {
	if d.view == nil {
		if _, err := d.look(ctx); err != nil {
			return 0, err
		}
	}
	c, err := d.update(u)
	if err != nil {
		return 0, err
	}
	if c == nil { // as configured; where it may not be in hardware, that is looked at again
		if !d.unproved[u.Port] {
			return 0, nil
		}
		return 0, d.prove(ctx, u.Port, d.view.associated(u.Port))
	}
	if err := d.carryOut(ctx, c); err != nil {
		return 0, err
	}
	return c.ops, nil
}

// takeOver makes the setup that is found on the switch the driver's; refresh repairs what
// it lacks.
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

// refresh reads the configuration where that is due, and restores what is not as csig left
// it. What the switch refuses is kept for the updates until then.
func (d *Driver) refresh(ctx context.Context, res *vendors.UpdateResult) error {
	if !d.lost() && time.Since(d.compared) < recheck {
		return nil
	}
	v, err := d.look(ctx)
	if err != nil {
		return err
	}
	d.compared = time.Now()
	changes, err := Diff(v.setup(d.at()), *d.setup)
	if err != nil {
		return err
	}
	if d.refusal = v.refusesAll(d.setup, d.at()); d.refusal != nil {
		return nil
	}
	d.refuse(v)
	for _, p := range updating(d.setup).Ports { // hardware may have lost what it had
		d.unproved[p.Port] = true
	}
	for name, why := range d.refused { // where csig's policy is in force, its last value must not stay
		if err := d.fallBack(ctx, d.setup, name); err != nil {
			if d.refused[name] = errors.Join(why, err); d.lost() {
				return err
			}
		}
	}
	for _, p := range updating(d.setup).Ports {
		if held := v.Port(p.Port); held != nil && outbound(held) == deadPolicy {
			changes = append(changes, vendors.Change{Kind: vendors.Alter, Port: p.Port, What: "policy", Detail: "repair: it has fallen back: the dead-man on the switch has fired"})
		}
	}
	if len(changes) == 0 {
		return nil
	}
	err = d.program(ctx, d.setup)
	if d.lost() {
		return err
	}
	vendors.EachPort(err, func(port string, own error) {
		if d.refused[port] == nil {
			d.refused[port] = own
		}
	})
	for _, c := range changes {
		if c.Port == "" || d.refused[c.Port] == nil {
			res.NoteRepair(c.Port, c.What, string(c.Kind)+" "+c.Detail)
		}
	}
	return nil
}

// refuse keeps why ports cannot have the setup as they are configured.
func (d *Driver) refuse(v *view) {
	clear(d.refused)
	for _, p := range updating(d.setup).Ports {
		if err := v.refuses(d.setup, p.Port, d.at()); err != nil {
			d.refused[p.Port] = err
		}
	}
}

// Release writes the fallback: nothing else ends what the ports write, also where an Apply
// that failed has left the driver without a setup.
func (d *Driver) Release(ctx context.Context) error {
	if d.setup == nil {
		v, err := d.look(ctx)
		if err != nil {
			return err
		}
		have := v.setup(d.at())
		if len(have.Ports) == 0 {
			return nil
		}
		d.start(have.Wanted())
		if have.TPID != 0 {
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
	allowed := d.cfg.Updates
	d.cfg.Updates = true // the end of the signal is no update
	defer func() { d.cfg.Updates = allowed }()
	_, err := d.Update(ctx, list, 0)
	return err
}
