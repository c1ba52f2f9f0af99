package setuponly

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// Apply gives the ports of a setup its TPID, and those that are no more in it what they had. A
// port that cannot have it stops the others only where the setup did not have it before.
func (d *Driver) Apply(ctx context.Context, want vendors.Setup) error {
	f := d.platform.Offline()
	ours, err := d.platform.validate(&f, &want)
	if err != nil {
		return err
	}
	d.want, d.left = nil, nil
	c, err := d.look(ctx)
	if err != nil {
		return err
	}
	want = *d.platform.managed(&want)
	r, err := c.record()
	if err != nil {
		return &vendors.PermanentError{Err: fmt.Errorf("the record of what the ports had before csig cannot be read: %w; csig off deletes it, after which csig apply is possible again", err)}
	}
	var had vendors.Setup
	if r.Setup != nil {
		had = *r.Setup
	}
	if r.Setup = &want; len(want.Ports) == 0 && d.platform.Inner {
		r.Setup = nil
	}
	var e Edit
	var left []error
	for i := range want.Ports {
		name := want.Ports[i].Port
		p := c.port(name)
		why := "the switch has no such port that can have a TPID"
		switch {
		case p == nil:
		case p.TPID == ours:
			if p.Lost != "" {
				e.port(name).TPID = &ours
			}
			continue
		case p.Refused != "" && !r.ours(p):
			why = p.Refused
		default:
			r.takes(p, ours)
			e.port(name).TPID = &ours
			continue
		}
		err := &vendors.PermanentError{Port: name, Err: errors.New(why)}
		if left = append(left, err); !had.HasPort(name) {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Before)) {
		if !want.HasPort(name) && r.Before[name].TPID != nil {
			r.back(&e, c.port(name), name)
		}
	}
	bad, err := d.write(ctx, c, &e, r)
	if err != nil {
		return err
	}
	d.want, d.read, d.left = &want, time.Now(), errors.Join(append(left, bad...)...)
	return d.left
}

// write carries an edit out with the record that belongs to it, unless nothing changes. Where
// the switch refuses the whole, port by port: bad are the errors of those that it refuses.
func (d *Driver) write(ctx context.Context, c *Config, e *Edit, r record) (bad []error, err error) {
	r.done()
	text, err := r.text()
	if err != nil {
		return nil, err
	}
	change := func(to string) *string {
		if to == c.Record && c.Damaged == "" {
			return nil
		}
		c.Record, c.Damaged = to, ""
		return &to
	}
	var failed error // of all ports at once
	if !d.platform.Stepwise || len(e.Ports) == 0 {
		was, damage := c.Record, c.Damaged
		whole := Edit{Ports: e.Ports, Record: change(text)}
		if whole.Empty() {
			return nil, nil
		}
		if failed = d.sw.Write(ctx, &whole); failed == nil || len(e.Ports) < 2 || !refused(failed) {
			return nil, failed
		}
		c.Record, c.Damaged = was, damage
	}
	again := map[string]string{}
	for i := range e.Ports {
		if p := c.port(e.Ports[i].Port); e.Ports[i].TPID != nil && *e.Ports[i].TPID == p.TPID {
			again[p.Name] = p.TPID
		}
	}
	old, _ := c.record() // of one that cannot be read nothing is known
	meanwhile := r.between(old, again)
	record, err := meanwhile.text()
	if err != nil {
		return nil, err
	}
	if to := change(record); to != nil {
		if err := d.sw.Write(ctx, &Edit{Record: to}); err != nil {
			return nil, err
		}
	}
	if d.platform.Stepwise {
		failed = d.sw.Write(ctx, &Edit{Ports: e.Ports})
	}
	if failed != nil {
		if bad, err = d.each(ctx, e, failed); err != nil {
			return nil, err
		}
		for _, err := range bad {
			if at := (*vendors.PortError)(nil); errors.As(err, &at) {
				r.Before[at.Port] = meanwhile.Before[at.Port]
			}
		}
		if text, err = r.text(); err != nil {
			return bad, err
		}
	}
	if to := change(text); to != nil {
		err = d.sw.Write(ctx, &Edit{Record: to})
	}
	return bad, err
}

// each gives ports their part of an edit one by one, after the switch refused it as a whole.
func (d *Driver) each(ctx context.Context, e *Edit, why error) (bad []error, err error) {
	if !refused(why) {
		return nil, why
	}
	if len(e.Ports) == 1 {
		return []error{&vendors.PortError{Port: e.Ports[0].Port, Err: why}}, nil
	}
	c, err := d.look(ctx)
	if err != nil {
		return nil, errors.Join(why, err)
	}
	for _, edit := range e.Ports {
		p := c.port(edit.Port)
		if p != nil && p.Lost == "" && (edit.TPID == nil || *edit.TPID == p.TPID) && (edit.MTU == nil || *edit.MTU == p.MTU) {
			continue // it has it
		}
		err := d.sw.Write(ctx, &Edit{Ports: []PortEdit{edit}})
		switch {
		case err == nil:
		case refused(err):
			bad = append(bad, &vendors.PortError{Port: edit.Port, Err: err})
		default:
			return bad, err
		}
	}
	return bad, nil
}
