package eos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
)

// notAllowed is why nothing is written without the operator's word.
const notAllowed = "an update is lines of configuration here, which the switch's accounting and archives keep: allow it with updates: cli in the fleet file"

// Update gives ports their flows: those of the new value are committed and read back from
// hardware before the old ones go. There is no lease: what is written stays until it is
// changed. Ports whose flows are not in hardware keep what they had.
func (d *Driver) Update(ctx context.Context, list []vendors.PortUpdate, _ time.Duration) (vendors.UpdateResult, error) {
	if !d.cfg.Updates {
		return vendors.UpdateResult{}, &vendors.PermanentError{Err: errors.New(notAllowed)}
	}
	return d.update(ctx, list)
}

func (d *Driver) update(ctx context.Context, list []vendors.PortUpdate) (res vendors.UpdateResult, err error) {
	setup := d.trial // is of the setup alone
	d.trial = nil
	defer func() { d.trial = setup }()
	if d.wanted == nil {
		have, err := d.Observe(ctx)
		if err != nil {
			return res, err
		}
		if have.TPID == 0 {
			return res, vendors.NoSetup(have.Damaged)
		}
		d.start(have.Wanted())
		d.compared = time.Time{} // what it lacks is repaired
	}
	var errs []error
	if err := d.refresh(ctx, &res); err != nil {
		if !d.alive() {
			return res, err
		}
		d.compared = time.Time{} // until it is as csig wants it
		errs = append(errs, err)
	}
	adds, olds := newScript(), map[string]*script{}
	for i := range list {
		u := list[i]
		if err := d.refusal(u.Port); err != nil {
			errs = append(errs, &vendors.PortError{Port: u.Port, Err: err})
			if flows, damaged, _ := d.held(d.view, u.Port); len(flows)+len(damaged) == 0 {
				continue
			}
			u.Intents = d.wanted.Fallback() // it advertises no value that csig does not stand behind
		}
		old := newScript()
		before := len(adds.adds)
		if err := d.give(adds, old, &u); err != nil {
			errs = append(errs, err)
			continue
		}
		if n := len(adds.adds) - before + len(old.dels); n > 0 {
			olds[u.Port] = old
			res.Ports++
			res.Ops += n
		}
	}
	failed, err := d.exchange(ctx, adds, olds)
	if errs = append(errs, failed...); err != nil {
		for i := range list {
			if g := d.signals[list[i].Port]; g != nil {
				g.Reset()
			}
		}
		return vendors.UpdateResult{}, errors.Join(append(errs, err)...)
	}
	res.Leased, res.ReadBack = true, vendors.ReadBackAfter // exchange has seen it in hardware
	return res, errors.Join(errs...)
}

// alive reports whether the driver knows what the switch has.
func (d *Driver) alive() bool { return d.view != nil && d.session != nil && d.session.Err() == nil }

// give adds to scripts what gives a port its flows.
func (d *Driver) give(s, old *script, u *vendors.PortUpdate) error {
	if !d.wanted.HasPort(u.Port) {
		return vendors.NotInSetup(u.Port)
	}
	g := d.signals[u.Port]
	if g == nil {
		g = &vendors.PortSignal{}
		d.signals[u.Port] = g
	}
	action := d.wanted.ActionOf(u.Port)
	if _, err := g.Give(d.wanted, u.Port, action, u.Intents); err != nil || action != updates {
		return err
	}
	one := newScript()
	if err := d.replace(one, old, d.view, u.Port, g.Intents()); err != nil {
		return g.Refuse(u.Port, errors.Unwrap(err).Error())
	}
	for name, lines := range one.adds {
		s.adds[name] = lines
	}
	return nil
}

// exchange commits new flows and then takes the old ones out, or the new ones of ports where
// one of them is not in hardware. failed has the ports whose flows the switch does not take:
// they keep what they had.
func (d *Driver) exchange(ctx context.Context, adds *script, olds map[string]*script) (failed []error, err error) {
	bad := map[string]bool{}
	fail := func(port string, why error) {
		bad[port], failed = true, append(failed, &vendors.PortError{Port: port, Err: why})
		if g := d.signals[port]; g != nil {
			g.Reset()
		}
	}
	if err := d.commitPorts(ctx, adds, fail); err != nil {
		return failed, err
	}
	mine := map[string][]string{}
	for _, name := range sorted(adds.adds) {
		port := d.portOf(name)
		mine[port] = append(mine[port], name)
	}
	err = d.inHardware(ctx, adds)
	known := len(failed)
	if vendors.EachPort(err, fail); err != nil && (len(failed) == known || !d.alive()) {
		return failed, err
	}
	var gone [][]string // of each port
	for _, port := range sorted(olds) {
		if bad[port] {
			gone = append(gone, mine[port])
		} else {
			gone = append(gone, olds[port].dels)
		}
	}
	return failed, d.takeOut(ctx, gone, fail)
}

// commitPorts commits a script. Where the switch refuses a line that is one port's, that is
// the port's error, and the rest is committed.
func (d *Driver) commitPorts(ctx context.Context, s *script, fail func(port string, why error)) error {
	for {
		err := d.commit(ctx, s)
		refused := (*vendors.PermanentError)(nil)
		if !errors.As(err, &refused) || refused.Port == "" || !d.alive() {
			return err
		}
		fail(refused.Port, refused.Err)
		other := func(flow string) bool { return d.portOf(flow) == refused.Port }
		s.dels = slices.DeleteFunc(s.dels, other)
		maps.DeleteFunc(s.adds, func(flow string, _ []string) bool { return other(flow) })
	}
}

// takeOut commits the end of flows of ports: of each the lowest band first, and the next
// when that is done, so that none shows what another hid.
func (d *Driver) takeOut(ctx context.Context, ports [][]string, fail func(port string, why error)) error {
	var turns []*script
	for _, names := range ports {
		turn, last := -1, -1
		for _, name := range byBand(names) {
			if r, _ := parseRule(name); r.band != last {
				turn, last = turn+1, r.band
			}
			if turn == len(turns) {
				turns = append(turns, newScript())
			}
			turns[turn].del(d.view, name)
		}
	}
	for _, s := range turns {
		if err := d.commitPorts(ctx, s, fail); err != nil {
			return err
		}
	}
	return nil
}

// byBand are flows, those of the lowest band first.
func byBand(names []string) []string {
	return slices.SortedStableFunc(slices.Values(names), func(a, b string) int {
		x, _ := parseRule(a)
		y, _ := parseRule(b)
		return x.band - y.band
	})
}

// portOf is the port of one of csig's flows.
func (d *Driver) portOf(flow string) string {
	r, _ := parseRule(flow)
	if f := d.forward(r.forward); f != nil {
		return f.Port
	}
	return ""
}

// inHardware is an error for each port of which a new flow is not in hardware.
func (d *Driver) inHardware(ctx context.Context, s *script) error {
	if len(s.adds) == 0 || !d.view.on { // what is shut down is in no hardware, and returns as it is configured
		return nil
	}
	why, err := d.notInHardware(ctx, s)
	if err != nil {
		return err
	}
	var failed []error
	seen := map[string]bool{}
	for _, name := range sorted(why) {
		if port := d.portOf(name); !seen[port] {
			seen[port] = true
			failed = append(failed, &vendors.PortError{Port: port, Err: fmt.Errorf("flow %s is %w: %s", name, vendors.ErrNotInHardware, why[name])})
		}
	}
	return errors.Join(failed...)
}

// refresh reads the configuration where that is due, and restores what is not as csig left
// it, but for ports that are refused.
func (d *Driver) refresh(ctx context.Context, res *vendors.UpdateResult) error {
	if d.alive() && time.Since(d.compared) < recheck {
		return nil
	}
	v, err := d.look(ctx)
	if err != nil {
		return err
	}
	d.compared = time.Now()
	d.refused = d.refuses(v, tagging(d.wanted))
	changes, err := Diff(d.setup(v), *d.wanted)
	if err != nil || len(changes) == 0 {
		return err
	}
	s, old := newScript(), newScript()
	if err := d.apply(s, old, v, d.wanted); err != nil {
		return err
	}
	clear(d.signals)
	failed, err := d.exchange(ctx, s, d.byPort(old))
	if err = errors.Join(append(failed, err)...); !d.alive() {
		return err
	}
	if v, seen := d.look(ctx); seen == nil {
		left, bad := Diff(d.setup(v), *d.wanted)
		res.NoteRepairs(slices.DeleteFunc(changes, func(c vendors.Change) bool { return slices.Contains(left, c) }))
		return errors.Join(err, bad)
	} else {
		return errors.Join(err, seen)
	}
}

// byPort are the flows that a script takes out, of each port.
func (d *Driver) byPort(s *script) map[string]*script {
	out := map[string]*script{}
	for _, flow := range s.dels {
		port := d.portOf(flow)
		if out[port] == nil {
			out[port] = newScript()
		}
		out[port].dels = append(out[port].dels, flow)
	}
	return out
}

// Release writes the fallback: nothing else ends what the ports write, also where an Apply
// that failed has left the driver without a setup.
func (d *Driver) Release(ctx context.Context) error {
	if d.wanted == nil {
		v, err := d.look(ctx)
		if err != nil {
			return err
		}
		have := d.setup(v)
		if len(have.Ports) == 0 {
			return nil
		}
		if d.start(have.Wanted()); have.TPID != 0 {
			d.compared = time.Time{} // a change that broke off is repaired first
		}
	}
	var list []vendors.PortUpdate
	for _, p := range updating(d.wanted).Ports {
		list = append(list, vendors.PortUpdate{Port: p.Port, Intents: d.wanted.Fallback()})
	}
	if len(list) == 0 {
		return nil
	}
	_, err := d.update(ctx, list)
	return err
}

// programmed is what the switch reports of a flow that is in hardware
// (DirectFlowAssist, show_directflow_detail.txt).
const programmed = "Flow programmed"

// notInHardware is why flows are not in hardware, by the switch's own report, when those
// that are on their way have had time to.
func (d *Driver) notInHardware(ctx context.Context, s *script) (map[string]string, error) {
	for end := time.Now().Add(settle); ; {
		lines, err := d.session.Run(ctx, "show directflow detail | json")
		if err != nil {
			return nil, err
		}
		var report struct {
			Details struct {
				Status map[string]string `json:"status"`
			} `json:"details"`
		}
		if err := json.Unmarshal([]byte(strings.Join(lines, "\n")), &report); err != nil {
			return nil, fmt.Errorf("show directflow detail: %w", err)
		}
		why, waits := map[string]string{}, false
		for name := range s.adds {
			switch status := report.Details.Status[name]; {
			case status == programmed:
			case status == "":
				why[name], waits = "the switch does not report it", true
			default:
				why[name] = untrusted.Text(status, 100)
				waits = waits || !strings.Contains(status, "rejected")
			}
		}
		if !waits || !time.Now().Before(end) {
			return why, nil
		}
		if err := vendors.Wait(ctx, settle/20); err != nil {
			return nil, err
		}
	}
}
