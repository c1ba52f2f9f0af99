package qos

import (
	"context"
	"errors"
	"slices"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/reconcile"
	"github.com/csig-agent/csig/vlanrules"
)

// Apply makes the setup that of want. A port that is new among those that update has the entries of the fallback,
// until Update. What ports cannot have as they are configured is refused before anything is written; what the
// switch refuses is that port's error.
func (d *Driver) Apply(ctx context.Context, want vendors.Setup) error {
	if err := d.Validate(&want); err != nil {
		return err
	}
	v, err := d.Look(ctx)
	if err != nil {
		return err
	}
	want = *want.Wanted()
	ports := reconcile.Updating(&want)
	refused := d.refusals(ports)
	if why := v.elsewhere(); why != nil && len(refused) == 0 {
		for i := range ports.Ports {
			refused = append(refused, &vendors.PermanentError{Port: ports.Ports[i].Port, Err: why})
		}
	}
	if len(refused) > 0 {
		return errors.Join(refused...)
	}
	d.Start(&want)
	err = d.onTrial(ctx, func() error { return d.Program(ctx) })
	if d.Lost() {
		d.Stop() // the next Update takes over what is there
	}
	return err
}

func (d *Driver) onTrial(ctx context.Context, change func() error) error {
	if d.OnTrial == nil {
		return change()
	}
	return d.OnTrial(ctx, change)
}

// Program gives the switch what its setup lacks, but for ports that are refused. The record of another setup goes last:
// what stands at any moment between is csig's by a record, or by its name.
func (d *Driver) Program(ctx context.Context) error {
	if err := d.see(ctx); err != nil {
		return err
	}
	want, record := reconcile.Updating(d.Want), ""
	if want.TPID != 0 {
		record = RecordName(want, d.At)
	}
	old := d.View.Setup(d.At)
	fresh := describe(&old) != describe(want) || old.Damaged != ""
	was := d.View.Ours()
	gone := slices.DeleteFunc(slices.Clone(was), want.HasPort)
	if d.Withdraw != nil && (fresh || len(gone) > 0 || len(was) < len(want.Ports)) { // the dead-man is of other ports
		if err := d.Give(ctx, func(s *Script) { s.Note(record) }); err != nil {
			return err
		}
		if err := d.Withdraw(ctx, d.Want); err != nil {
			return err
		}
		if err := d.see(ctx); err != nil {
			return err
		}
	}
	var foreign []error
	for _, name := range gone {
		if why := d.View.foreignIn(name); why != nil {
			foreign = append(foreign, &vendors.PermanentError{Port: name, Err: why})
		}
	}
	dropped := false
	_, err := d.CarryOut(ctx, func(s *Script, bad func(string) bool) {
		if record != "" {
			s.Note(record)
		}
		for _, name := range gone {
			if d.Held(name) == nil && !bad(name) && s.View.ForeignIn(name) == "" {
				s.For(name)
				s.Drop(name)
				dropped = true
			}
		}
		s.For("")
		if d.At == Inner && len(want.Ports) > 0 {
			s.TPID(nil, want.TPID)
		}
	}, d.changes(want, fresh))
	err = errors.Join(append(foreign, err)...)
	if d.Lost() {
		return err
	}
	return errors.Join(err, d.Give(ctx, func(s *Script) {
		s.Orphans()
		s.GiveBack(func(f Found, p *Port) bool {
			switch {
			case f.At != d.At:
				return false
			case f.At == Inner:
				return len(want.Ports) > 0 && f.Now == want.TPID
			}
			return p != nil && (want.HasPort(p.Name) && p.Ours() || (d.Held(p.Name) != nil)) // also of one whose policy the switch did not take
		})
		s.Forget(record)
		if dropped || len(s.Lines) > 0 { // what Update made and has no use for is no reason to write
			s.Tidy(0)
		}
	}))
}

// changes are what gives ports their policies. The entries of one that had it already stay, unless what all ports
// share changes.
func (d *Driver) changes(want *vendors.Setup, fresh bool) (out []*Change) {
	for i := range want.Ports {
		port := want.Ports[i].Port
		if d.Held(port) != nil {
			continue
		}
		_, there := d.View.Policies[PolicyName(port)]
		_, strays := d.View.Table(nil, port, d.At)
		fell := d.View.fallen(d.View.Port(port))
		c := &Change{port: port, apply: true}
		if d.At == Outer {
			c.tpid = want.TPID
		}
		if !there || fresh || fell || len(strays) > 0 {
			intents := want.Fallback()
			if g := d.Signal(port); g != nil && !fresh && !fell {
				intents = slices.Clone(g.Intents())
			}
			c.compile = d.compile(port, intents)
		}
		out = append(out, c)
	}
	return out
}

// compile is what leads from a table to intents that are not the port's signal.
func (d *Driver) compile(port string, intents []vlanrules.Intent) func(vlanrules.Table) ([]vlanrules.Op, error) {
	return func(have vlanrules.Table) ([]vlanrules.Op, error) {
		var r vlanrules.Result
		d.Compiler.Compile(&r, have, intents)
		if r.Verdict.Level == vlanrules.Refused || r.Gap {
			return nil, &vendors.PermanentError{Port: port, Err: errors.New(r.Verdict.Reason)}
		}
		return slices.Clone(r.Ops), nil
	}
}

// Restore is Program where the setup may have to be taken over first, and the configuration is read again.
func (d *Driver) Restore(ctx context.Context) error {
	if d.Want == nil {
		if err := d.TakeOver(ctx); err != nil {
			return err
		}
	}
	if _, err := d.Look(ctx); err != nil {
		return err
	}
	if err := d.foreignInner(d.Want); err != nil {
		return err
	}
	d.Refuse()
	if err := d.Program(ctx); err != nil {
		return err
	}
	return d.see(ctx)
}

// Entries are lines that give a policy the entries of intents, in the place of those that it has.
func (d *Driver) Entries(s *Script, policy string, intents []vlanrules.Intent) error {
	have, strays := s.View.Table(nil, policy, s.At)
	ops, err := d.compile(policy, intents)(have)
	if err != nil {
		return err
	}
	out := append(s.View.Deleted(policy, s.At, ops), strays...)
	err = s.Add(policy, ops)
	s.Out(policy, out)
	return err
}

// FallBack gives a port where csig's policy is in force the fallback of a setup.
func (d *Driver) FallBack(ctx context.Context, s *vendors.Setup, name string) error {
	if err := d.see(ctx); err != nil {
		return err
	}
	if !d.View.inForce(name) {
		return nil
	}
	_, err := d.CarryOut(ctx, nil, []*Change{{port: name, compile: d.compile(name, s.Fallback())}})
	return err
}

// Remove deletes everything that is csig's. A policy of csig's name with a line that is not csig's stays, and is that
// port's error.
func (d *Driver) Remove(ctx context.Context) error {
	v, err := d.Look(ctx)
	if err != nil {
		return err
	}
	d.Stop()
	var errs []error
	left := map[string]bool{}
	for _, name := range v.Ours() {
		if why := v.foreignIn(name); why != nil {
			left[name] = true
			errs = append(errs, &vendors.PermanentError{Port: name, Err: why})
		}
	}
	errs = append(errs, d.onTrial(ctx, func() error { return d.remove(ctx, left) }))
	if d.Lost() {
		return errors.Join(errs...)
	}
	return errors.Join(append(errs, d.framesBack(ctx))...)
}

// remove takes csig off the switch, but for ports that keep its policy, with their TPID and the records.
func (d *Driver) remove(ctx context.Context, left map[string]bool) error {
	rest := func(s *Script) {
		s.Orphans()
		s.Tidy(0)
		s.GiveBack(func(f Found, p *Port) bool { return len(left) > 0 && (f.At == Inner || p != nil && left[p.Name]) })
		if len(left) == 0 {
			s.Forget("")
		}
	}
	_, err := d.CarryOut(ctx, func(s *Script, bad func(string) bool) {
		for _, name := range s.View.Ours() {
			if bad(name) {
				left[name] = true
			}
			if !left[name] {
				s.For(name)
				s.Drop(name)
			}
		}
		if s.For(""); d.Disarm == nil {
			rest(s)
		}
	}, nil)
	if d.Disarm == nil || d.Lost() || err != nil && len(left) == 0 {
		return err
	}
	if len(left) == 0 { // after the values that it would withdraw
		if err := d.Disarm(ctx); err != nil {
			return err
		}
	}
	return errors.Join(err, d.Give(ctx, rest))
}
