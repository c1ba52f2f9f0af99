package comware

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// notAllowed is why nothing is written without the operator's word.
const notAllowed = "an update is lines of configuration here, which the switch's accounting and archives keep: allow it with updates: cli in the fleet file"

// Update gives ports their entries, each change made before the old one is broken. There
// is no lease: what is written stays until it is changed. The switch's own report of each
// policy is read back.
func (d *Driver) Update(ctx context.Context, updates []vendors.PortUpdate, _ time.Duration) (vendors.UpdateResult, error) {
	var res vendors.UpdateResult
	if !d.cfg.Updates {
		return res, &vendors.PermanentError{Err: errors.New(notAllowed)}
	}
	if d.setup == nil {
		if err := vendors.TakeOver(ctx, d, func() bool { return d.setup != nil }); err != nil {
			return res, err
		}
	}
	if err := d.refresh(ctx, &res); err != nil {
		return res, err
	}
	s := &script{view: d.view, at: d.at()}
	var errs []error
	var changed []string
	for i := range updates {
		ops, err := d.update(s, &updates[i])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if ops > 0 {
			res.Ports++
			res.Ops += ops
			changed = append(changed, updates[i].Port)
		}
	}
	if err := d.write(ctx, s); err != nil {
		for i := range updates {
			if g := d.signals[updates[i].Port]; g != nil {
				g.Reset()
			}
		}
		return vendors.UpdateResult{}, errors.Join(append(errs, err)...)
	}
	for _, port := range changed {
		if err := d.inHardware(ctx, port); err != nil {
			if d.session.Err() != nil {
				return res, errors.Join(append(errs, err)...)
			}
			errs = append(errs, &vendors.PortError{Port: port, Err: err})
		}
	}
	res.Leased = true
	return res, errors.Join(errs...)
}

// refresh reads the configuration where that is due, and restores what is not as csig left
// it.
func (d *Driver) refresh(ctx context.Context, res *vendors.UpdateResult) error {
	if d.view != nil && d.session.Err() == nil && d.cfg.Now().Sub(d.read) < recheck {
		return nil
	}
	v, err := d.look(ctx)
	if err != nil {
		return err
	}
	changes, err := Diff(v.setup(d.at()), *d.setup)
	if err != nil || len(changes) == 0 {
		return err
	}
	if err := d.Apply(ctx, *d.setup); err != nil {
		return err
	}
	res.NoteRepairs(changes)
	return nil
}

// update adds to a script what gives a port its entries, and returns how many operations
// that is.
func (d *Driver) update(s *script, u *vendors.PortUpdate) (int, error) {
	if !d.setup.HasPort(u.Port) {
		return 0, vendors.NotInSetup(u.Port)
	}
	g := d.signals[u.Port]
	if g == nil {
		g = &vendors.PortSignal{}
		d.signals[u.Port] = g
	}
	if _, err := g.Give(d.setup, u.Port, d.setup.ActionOf(u.Port), u.Intents); err != nil {
		return 0, err
	}
	if d.setup.ActionOf(u.Port) != vlanrules.Update {
		return 0, nil
	}
	have, _ := s.view.table(d.tables, u.Port, d.at())
	d.tables = have
	if err := g.Compile(d.compiler, u.Port, have); err != nil || len(g.Result.Ops) == 0 {
		return 0, err
	}
	if err := s.change(policyName(u.Port), g.Result.Ops, nil); err != nil {
		return 0, g.Refuse(u.Port, err.Error())
	}
	return len(g.Result.Ops), nil
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
		d.start(&have)
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

// inHardware is why a port's policy is not in force as it is configured, by the switch's
// own report; nil where it is.
func (d *Driver) inHardware(ctx context.Context, port string) error {
	lines, err := d.session.Run(ctx, "display qos policy interface "+port+" outbound")
	if err != nil {
		return err
	}
	class, reported := "", map[string]bool{}
	for _, line := range lines {
		text := strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(text, "Classifier: "); ok {
			class, _, _ = strings.Cut(name, " ")
			reported[class] = true
		}
		if strings.Contains(strings.ToLower(text), "failed") {
			return fmt.Errorf("class %s of its policy is configured and not in hardware: %s", class, text)
		}
	}
	pairs := d.view.policies[policyName(port)]
	if i := slices.IndexFunc(pairs, func(p pair) bool { return !reported[p.class] }); i >= 0 {
		return fmt.Errorf("class %s of its policy is configured, and the switch does not report it at the port", pairs[i].class)
	}
	return nil
}
