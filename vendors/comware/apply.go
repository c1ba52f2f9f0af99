package comware

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vlanrules"
)

// Apply makes the setup that of want. A port that is new among those that update has the
// entries of the fallback, until Update. What ports cannot have as they are configured is
// refused before anything is written; what the switch refuses is that port's error.
func (d *Driver) Apply(ctx context.Context, want vendors.Setup) error {
	if err := validate(&want); err != nil {
		return err
	}
	v, err := d.look(ctx)
	if err != nil {
		return err
	}
	want = *want.Wanted()
	if err := v.refusesAll(&want, d.at()); err != nil {
		return err
	}
	var errs []error
	for _, p := range updating(&want).Ports {
		if err := cmp.Or(v.refuses(&want, p.Port, d.at()), v.everywhere()); err != nil {
			errs = append(errs, permanent(p.Port, err))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	d.start(&want)
	err = d.program(ctx, &want)
	if d.lost() {
		d.setup = nil // the next Update takes over what is there
	}
	return err
}

// permanent makes an error that of a port, which trying again will not cure.
func permanent(port string, err error) error {
	if vendors.IsPermanent(err) {
		return err
	}
	return &vendors.PermanentError{Port: port, Err: err}
}

// program gives the switch what a setup of its view lacks, but for ports that are refused.
// The record of another setup goes last: what stands at any moment between is csig's by a
// record, or by its name.
func (d *Driver) program(ctx context.Context, want *vendors.Setup) error {
	old, record := d.view.setup(d.at()), qos.RecordName(want, d.at())
	fresh := describe(&old) != describe(want) || old.Damaged != ""
	if err := d.carryOut(ctx, d.shared(func(s *script) { s.Note(record) })); err != nil {
		return err
	}
	wrote := len(d.view.Records()) > 1
	ports := updating(want)
	gone := slices.DeleteFunc(d.view.Ours(), ports.HasPort)
	was := d.view
	if has := d.view.Ours(); fresh || len(gone) > 0 || len(has) < len(ports.Ports) { // the dead-man is of other ports
		if err := d.withdraw(ctx, want); err != nil {
			return err
		}
		if err := d.carryOut(ctx, d.shared((*script).disarm)); err != nil {
			return err
		}
	}
	err := d.each(ctx, gone, d.removal)
	if !d.lost() && d.view != nil && d.at() == inner && len(ports.Ports) > 0 {
		err = errors.Join(err, d.carryOut(ctx, d.shared(func(s *script) { s.tpid(nil, want.TPID) })))
	}
	if !d.lost() {
		err = errors.Join(err, d.each(ctx, names(ports), func(name string) (*change, error) { return d.setUp(want, name, fresh) }))
	}
	if d.lost() {
		return err
	}
	if wrote = wrote || d.view != was; d.view == nil {
		if _, seen := d.look(ctx); seen != nil {
			return errors.Join(err, seen)
		}
	}
	return errors.Join(err, d.carryOut(ctx, d.shared(func(s *script) {
		if wrote {
			s.Orphans()
			s.Tidy(0) // what Update made and has no use for is no reason to write
		}
		s.giveBack(keeps(want, d.at()))
		s.Forget(record)
	})))
}

// each carries out what plan makes of ports, one after the other. What one lacks is its
// error, and the others go on, as long as the session does.
func (d *Driver) each(ctx context.Context, ports []string, plan func(port string) (*change, error)) error {
	var errs []error
	for _, name := range ports {
		if d.refused[name] != nil {
			continue
		}
		if d.view == nil {
			if _, err := d.look(ctx); err != nil {
				return errors.Join(append(errs, err)...)
			}
		}
		c, err := plan(name)
		if err == nil {
			err = d.carryOut(ctx, c)
		}
		if err != nil {
			errs = append(errs, err)
		}
		if d.lost() {
			break
		}
	}
	return errors.Join(errs...)
}

// names are those of a setup's ports.
func names(s *vendors.Setup) (list []string) {
	for i := range s.Ports {
		list = append(list, s.Ports[i].Port)
	}
	return list
}

// start has the driver know the switch's setup.
func (d *Driver) start(s *vendors.Setup) {
	d.setup = s
	d.compiler = vlanrules.NewCompiler(Rules(), s.Layout)
	clear(d.signals)
	clear(d.refused)
	d.refusal = nil
	for _, p := range updating(s).Ports { // it may be another process's
		d.unproved[p.Port] = true
	}
}

// Remove deletes everything that is ours. A policy of csig's name with a line that is not
// csig's stays, and is that port's error.
func (d *Driver) Remove(ctx context.Context) error {
	v, err := d.look(ctx)
	if err != nil {
		return err
	}
	d.setup = nil
	clear(d.refused)
	// The dead-man goes after the values that it would withdraw.
	err = d.each(ctx, v.Ours(), d.removal)
	if d.lost() || err != nil && d.view == nil {
		return err
	}
	if err == nil {
		err = d.carryOut(ctx, d.shared((*script).disarm))
	}
	if err != nil {
		return err
	}
	if v, err = d.look(ctx); err != nil { // it may have fired meanwhile
		return err
	}
	err = d.carryOut(ctx, d.shared(func(s *script) {
		s.Orphans()
		for i := range v.Ports {
			if outbound(v.Ports[i]) == deadPolicy {
				s.drop(v.Ports[i].Name)
			}
		}
		s.drop(deadPort)
		s.Tidy(0)
		s.giveBack(func(found) bool { return false })
		s.Forget("")
	}))
	if d.lost() {
		return err
	}
	return errors.Join(err, d.framesBack(ctx))
}
