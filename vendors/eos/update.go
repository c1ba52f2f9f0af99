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
	"github.com/csig-agent/csig/vendors/reconcile"
)

// Update gives ports their flows: those of the new value are committed and read back from
// hardware before the old ones go. There is no lease: what is written stays until it is
// changed. Ports whose flows are not in hardware keep what they had.
func (d *Driver) Update(ctx context.Context, list []vendors.PortUpdate, _ time.Duration) (vendors.UpdateResult, error) {
	if !d.cfg.Updates {
		return vendors.UpdateResult{}, &vendors.PermanentError{Err: errors.New(reconcile.NotAllowed)}
	}
	defer d.keep()()
	return d.Loop.Update(ctx, list)
}

// Release writes the fallback.
func (d *Driver) Release(ctx context.Context) error {
	defer d.keep()()
	return d.Loop.Release(ctx)
}

// keep has commits kept that are not the setup's, until the function is called.
func (d *Driver) keep() func() {
	setup := d.trial
	d.trial = nil
	return func() { d.trial = setup }
}

// device is the driver as its loop sees it.
type device struct{ *Driver }

func (d device) Read(ctx context.Context) error {
	_, err := d.look(ctx)
	return err
}

// Known reports whether the driver knows what the switch has.
func (d *Driver) Known() bool { return d.view != nil && d.session != nil && d.session.Err() == nil }

func (d device) Have() vendors.Setup { return d.setup(d.view) }

func (d device) Refusals(want *vendors.Setup) []error { return d.refuses(d.view, tagging(want)) }

func (d device) InForce(port string) bool {
	flows, damaged, _ := d.held(d.view, port)
	return len(flows)+len(damaged) > 0
}

func (d device) Program(ctx context.Context) error {
	s, old := newScript(), newScript()
	if err := d.apply(s, old, d.view, d.Want); err != nil {
		return err
	}
	d.Forget()
	failed, err := d.exchange(ctx, s, d.byPort(old))
	if err = errors.Join(append(failed, err)...); !d.Known() {
		return err
	}
	return errors.Join(err, d.Read(ctx))
}

func (d device) Write(ctx context.Context, ports []reconcile.Port) (map[string]int, error) {
	var errs []error
	done, adds, olds := map[string]int{}, newScript(), map[string]*script{}
	for _, p := range ports {
		one, old := newScript(), newScript()
		if err := d.replace(one, old, d.view, p.Name, p.Signal.Intents()); err != nil {
			errs = append(errs, p.Signal.Refuse(p.Name, errors.Unwrap(err).Error()))
			continue
		}
		maps.Copy(adds.adds, one.adds)
		if n := len(one.adds) + len(old.dels); n > 0 {
			olds[p.Name], done[p.Name] = old, n
		}
	}
	failed, err := d.exchange(ctx, adds, olds)
	return done, errors.Join(append(append(errs, failed...), err)...)
}

// exchange commits new flows and then takes the old ones out, or the new ones of ports where
// one of them is not in hardware. failed has the ports whose flows the switch does not take:
// they keep what they had.
func (d *Driver) exchange(ctx context.Context, adds *script, olds map[string]*script) (failed []error, err error) {
	bad := map[string]bool{}
	fail := func(port string, why error) {
		bad[port], failed = true, append(failed, &vendors.PortError{Port: port, Err: why})
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
	if vendors.EachPort(err, fail); err != nil && (len(failed) == known || !d.Known()) {
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
		if !errors.As(err, &refused) || refused.Port == "" || !d.Known() {
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
