package eos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/cli"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
)

// The dead-man on the switch is event handlers, one for each flow of the fallback: how long a
// line may be is written nowhere. They look, at their period, how long ago this process had
// the switch copy its uptime into a file, and where that is too long they configure their
// flow, in a band over all others.

const (
	deadBand  = bands // of the fallback's flows
	deadFlows = prefix + "dead-"
	renewal   = "bash timeout 10 cp /proc/uptime /tmp/csig-alive"
	deadLeast = 15 * time.Second // between renewals
	deadRun   = 10 * time.Second // that the switch takes to carry out actions, and one more for each (assumed)
)

// deadTimes are those of a dead-man that is renewed at least so often: how often the switch
// looks, after how long without a renewal it acts, and within how long so many handlers have
// had the ports fall back.
func deadTimes(after time.Duration, handlers int) (poll, limit, within time.Duration) {
	run := deadRun + time.Duration(handlers)*time.Second
	limit = max(after, deadLeast, run).Truncate(time.Second) + time.Second // the agent renews after a quarter of within
	poll = min(max(limit/4, 5*time.Second), 30*time.Second).Truncate(time.Second)
	return poll, limit, limit + poll + run
}

var _ vendors.DeadMan = (*Driver)(nil)

// handlers are the event handlers that a setup is to have, with their lines: the action, the
// condition, and the rest in the opposite of their order. The ports have fallen back within
// the time that is returned.
func (d *Driver) handlers(after time.Duration) (_ map[string][]string, within time.Duration, err error) {
	table, err := d.covers(d.Want.Fallback())
	if err != nil {
		return nil, 0, err
	}
	out := map[string][]string{}
	for i := range d.cfg.Forwarding {
		f := &d.cfg.Forwarding[i]
		if d.Want.ActionOf(f.Port) != updates {
			continue
		}
		for j := range table {
			s, r := newScript(), ruleOf(f, &table[j], deadBand)
			if err := s.add(r, f, d.cfg.Priority); err != nil {
				return nil, 0, err
			}
			out[deadFlows+strings.TrimPrefix(r.name(), prefix)] = []string{
				"action bash FastCli -p15 -c $'" + strings.Join(append([]string{"configure"}, s.lines()...), `\n`) + "'",
			}
		}
	}
	poll, limit, within := deadTimes(after, len(out))
	for name := range out {
		out[name] = append(out[name],
			// A file that is not there counts as one of the switch's start.
			fmt.Sprintf(`condition bashCmd."awk '{ t[NR] = $1 } END { print int(t[1] - t[2]) }' /proc/uptime /tmp/csig-alive" > %d`, limit/time.Second),
			fmt.Sprintf("poll interval %d", poll/time.Second), "trigger on-counters", "asynchronous", "delay 0", "timeout 30")
	}
	return out, within, nil
}

// ArmDeadMan has the switch write the fallback over every port's flows when this process has
// not renewed it for so long. What it wrote is taken out by the next Update.
func (d *Driver) ArmDeadMan(ctx context.Context, after time.Duration) (time.Duration, error) {
	v, err := d.look(ctx)
	if err != nil {
		return 0, err
	}
	if d.Want == nil {
		have := d.setup(v)
		if have.TPID == 0 {
			return 0, vendors.NoSetup(have.Damaged)
		}
		d.Start(have.Wanted())
	}
	if d.Want.OnStale != inventory.Conservative {
		return 0, &vendors.PermanentError{Err: errors.New("the dead-man adds flows of the worst bucket, and on_stale: passthrough has none: make it conservative, or accept that nothing withdraws the signal (lease: none)")}
	}
	if err := d.renew(ctx); err != nil { // before it may look
		return 0, err
	}
	want, within, err := d.handlers(after)
	if err != nil {
		return 0, err
	}
	s := newScript()
	for _, name := range sorted(v.handlers) {
		if want[name] == nil {
			s.handler(v, name, nil)
		}
	}
	for _, name := range sorted(want) {
		if !sameLines(v.handlers[name], want[name]) {
			s.handler(v, name, want[name])
		}
	}
	if !s.empty() {
		if err := d.commit(ctx, s); err != nil {
			return 0, err
		}
		if v, err = d.look(ctx); err != nil {
			return 0, err
		}
		for _, name := range sorted(want) {
			if why := differs(v.handlers[name], want[name]); why != "" {
				return 0, &vendors.PermanentError{Err: fmt.Errorf("event-handler %s reads back otherwise than csig wrote it: %s", name, why)}
			}
		}
	}
	d.armed = want
	return within, d.renew(ctx)
}

// renew has the switch note the time. It is no change of configuration.
func (d *Driver) renew(ctx context.Context) error {
	answer, err := d.session.Run(ctx, renewal)
	if text := strings.TrimSpace(strings.Join(answer, " ")); err == nil && text != "" {
		err = fmt.Errorf("the switch answers with %.100q", text)
	}
	if refused := (*cli.RefusedError)(nil); errors.As(err, &refused) || err != nil && d.session.Err() == nil {
		return fmt.Errorf("the dead-man is renewed by %q, which the account has to be allowed: %w", renewal, err)
	}
	return err
}

// RenewDeadMan has the time start again, unless it is too late.
func (d *Driver) RenewDeadMan(ctx context.Context) error {
	any, _, err := d.firedFlows(ctx)
	switch {
	case err != nil:
		return err
	case any:
		return vendors.ErrDeadManFired
	}
	return d.renew(ctx)
}

// DeadManFired reads whether every port has fallen back, in hardware.
func (d *Driver) DeadManFired(ctx context.Context) (bool, error) {
	_, all, err := d.firedFlows(ctx)
	if err != nil || !all {
		return false, err
	}
	v, err := d.look(ctx) // what ports have now
	if err != nil {
		return false, err
	}
	s := newScript()
	for name, lines := range v.flows {
		if r, ok := parseRule(name); ok && r.band == deadBand {
			s.adds[name] = lines
		}
	}
	if err := d.inHardware(ctx, s); err != nil {
		return false, err
	}
	return true, nil
}

// firedFlows reads whether any flow that the handlers write is there, and whether all are.
func (d *Driver) firedFlows(ctx context.Context) (any, all bool, err error) {
	if d.armed == nil {
		return false, false, vendors.ErrDeadManNotArmed
	}
	if err := d.connect(ctx); err != nil {
		return false, false, err
	}
	lines, err := d.session.Run(ctx, "show running-config | include "+prefix)
	if err != nil {
		return false, false, err
	}
	has, under := map[string]bool{}, "" // actions and conditions behind their handler
	for _, line := range lines {
		text := strings.TrimSpace(line)
		if has[text] = true; strings.HasPrefix(text, "event-handler ") {
			under = text
		}
		has[under+text] = true
	}
	all = true
	for _, name := range sorted(d.armed) {
		if head := "event-handler " + name; !has[head+d.armed[name][0]] || !has[head+d.armed[name][1]] {
			d.view = nil
			return false, false, fmt.Errorf("%w: or another user has removed or changed it (event-handler %s)", vendors.ErrDeadManFired, name)
		}
		for _, line := range strings.Split(d.armed[name][0], `\n`) {
			if strings.HasPrefix(line, "flow ") {
				any, all = any || has[line], all && has[line]
			}
		}
	}
	if any {
		d.view = nil // what the ports have is read before it is changed
	}
	return any, all, nil
}

// fallen are flows that the dead-man wrote at a port.
func (d *Driver) fallen(v *view, port string) (names []string) {
	for name := range v.flows {
		if r, ok := parseRule(name); ok && r.band == deadBand && d.portOf(name) == port {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// fell reports whether there are flows that the dead-man wrote.
func (v *view) fell() bool {
	for name := range v.flows {
		if r, ok := parseRule(name); ok && r.band == deadBand {
			return true
		}
	}
	return false
}

// handler makes or, without lines, removes an event handler.
func (s *script) handler(v *view, name string, lines []string) {
	head := "event-handler " + name
	if have, there := v.handlers[name]; there {
		s.other = append(s.other, "no "+head)
		s.minus[head] = true
		for _, line := range have {
			s.minus[line] = true
		}
	}
	if lines == nil {
		return
	}
	s.plus[head] = true
	for _, line := range lines {
		s.plus[line] = true
	}
	s.other = append(s.other, head)
	action, rest := lines[0], slices.Clone(lines[1:])
	slices.Reverse(rest) // the trigger, which is a mode, comes last
	s.other = append(append(append(s.other, action), rest...), "exit", "exit")
}

// differs is the first line that is not as csig wrote it, "" for none.
func differs(have, want []string) string {
	for _, line := range have {
		if !slices.Contains(want, line) {
			return fmt.Sprintf("%q is not csig's", untrusted.Text(line, 100))
		}
	}
	for _, line := range want {
		if !slices.Contains(have, line) {
			return fmt.Sprintf("%q is not there", untrusted.Text(line, 100))
		}
	}
	return ""
}
