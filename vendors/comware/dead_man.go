package comware

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vendors/reconcile"
)

// The dead-man on the switch is three things: an NQA operation that sends datagrams to this
// process and wants them back, a track entry that follows it, and an EAA policy that applies
// the fallback to every port when the entry turns negative. This process, not its kernel,
// sends the datagrams back, and only for a time after each renewal.

const (
	deadPort   = "dead-man" // what its policy is named for, in the place of a port
	deadPolicy = qos.Prefix + deadPort
	nqaEntry   = qos.Prefix + "agent alive" // its administrator and tag
)

// Where Comware's own text is.
const (
	nqaText   = "HP 5920 Network Management and Monitoring Configuration Guide, NQA, p. 136: reaction … probe-fail threshold-type consecutive … action-type trigger-only; H3C SR6600-X Configuration Manual p. 20: udp-echo, destination port"
	trackText = "HP 6125XLG High Availability Command Reference p. 122, track nqa"
	eaaText   = "H3C S6300 Network Management and Monitoring Command Reference R243x, EAA commands: action cli, commit; HPE VSR1000 High Availability Configuration Guide 5200-3150, Associating Track with EAA"
)

var _ vendors.DeadMan = (*Driver)(nil)

// deadTimes are those of a dead-man that fires within After of the last renewal.
type deadTimes struct {
	After     time.Duration
	Answered  time.Duration // so long after a renewal probes are answered
	Frequency time.Duration // of probes
	Timeout   time.Duration // of a probe
}

const (
	deadProbes = 3               // that fail one after the other
	deadRun    = 5 * time.Second // that the switch takes to run the policy (assumed)
	deadLeast  = 24 * time.Second
)

// deadTimesOf divides a time: what the switch takes to find out is half of it at most.
func deadTimesOf(after time.Duration) deadTimes {
	d := deadTimes{After: max(after, deadLeast)}
	d.Frequency = min(d.After/15, 20*time.Second).Truncate(time.Millisecond)
	d.Timeout = min(d.Frequency, 3*time.Second)
	d.Answered = d.After - d.found() - deadRun
	return d
}

// found is what the switch takes to find the agent gone.
func (d *deadTimes) found() time.Duration { return deadProbes*d.Frequency + d.Timeout }

// deadMan is what is known of the one that this driver has armed.
type deadMan struct {
	conn  net.PacketConn
	times deadTimes

	mu    sync.Mutex               // guards what follows
	until time.Time                // probes are answered
	last  map[netip.Addr]time.Time // one was, by its sender
	came  time.Time                // one did, or the dead-man was armed
}

// silent is whether no probe has come for so long that the switch has found the agent gone.
func (m *deadMan) silent(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return now.Sub(m.came) > m.times.found()
}

// senders is how many senders of probes are told apart.
const senders = 64

// answers is whether a probe that has come is answered now. A sender gets ten a second: others
// do not keep the switch from its own, and this process is no use to who forges senders.
func (m *deadMan) answers(now time.Time, from netip.Addr) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.came = now
	last, known := m.last[from]
	if !now.Before(m.until) || known && now.Sub(last) < 100*time.Millisecond && !now.Before(last) {
		return false
	}
	if m.last == nil || !known && len(m.last) == senders {
		m.last = make(map[netip.Addr]time.Time, senders)
	}
	m.last[from] = now
	return true
}

func (m *deadMan) renew(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.until = now.Add(m.times.Answered)
}

// armed is after the switch has it: its first probe is still to come.
func (m *deadMan) armed(now time.Time) {
	m.mu.Lock()
	m.came = now
	m.mu.Unlock()
	m.renew(now)
}

// echo sends probes back until the connection is closed.
func (m *deadMan) echo(conn net.PacketConn) {
	b := make([]byte, 9000)
	for {
		n, from, err := conn.ReadFrom(b)
		if err != nil {
			return
		}
		sender, ok := from.(*net.UDPAddr)
		if ok && m.answers(time.Now(), sender.AddrPort().Addr()) {
			_, _ = conn.WriteTo(b[:n], from) // a probe that is lost is one that failed
		}
	}
}

// ArmDeadMan has the switch apply the fallback to every port that updates, when this
// process has not renewed it for so long. Ports that have fallen back get their policies
// again, with the entries of the fallback.
func (d *Driver) ArmDeadMan(ctx context.Context, after time.Duration) (time.Duration, error) {
	if err := d.Restore(ctx); err != nil { // ports that have fallen back
		return 0, err
	}
	if err := d.fallBack(ctx, d.Want); err != nil {
		return 0, err
	}
	m, err := d.listen(deadTimesOf(after))
	if err != nil {
		return 0, err
	}
	if err := d.arm(ctx, m); err != nil {
		return 0, errors.Join(err, d.unarm(ctx))
	}
	m.armed(time.Now())
	return m.times.After, nil
}

// unarm removes what is there of a dead-man that could not be armed.
func (d *Driver) unarm(ctx context.Context) error {
	if d.Lost() {
		return nil
	}
	if _, err := d.Look(ctx); err != nil {
		return err
	}
	return d.Give(ctx, disarm)
}

// listen has probes answered from here on, in the time after renewals.
func (d *Driver) listen(times deadTimes) (*deadMan, error) {
	host, _, err := net.SplitHostPort(d.Session.LocalAddr().String())
	if err != nil {
		return nil, err
	}
	if d.dead != nil { // a session from another address: probes to the old one are lost
		if had, _, err := net.SplitHostPort(d.dead.conn.LocalAddr().String()); err != nil || had != host {
			_ = d.dead.conn.Close()
			d.dead = nil
		}
	}
	if d.dead == nil {
		m := &deadMan{times: times}
		if m.conn, err = d.cfg.Listen("udp", net.JoinHostPort(host, "0")); err != nil {
			return nil, fmt.Errorf("listening for the switch's probes: %w", err)
		}
		go m.echo(m.conn)
		d.dead = m
	}
	d.dead.times = times
	return d.dead, nil
}

// arm replaces the dead-man on the switch. The track entry's lines are a part of their own: with some releases its command
// enters a view.
func (d *Driver) arm(ctx context.Context, m *deadMan) error {
	s, v := d.Script(), d.View
	disarm(s)
	// Only where csig's policy is in force. Another one that comes later stays: the first action
	// names csig's, and a port takes no second policy.
	var ports []string
	for _, p := range reconcile.Updating(d.Want).Ports {
		if at := v.Port(p.Port); at != nil && at.Ours() {
			ports = append(ports, p.Port)
		}
	}
	if err := d.Entries(s, deadPort, d.Want.Fallback()); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(m.conn.LocalAddr().String())
	if err != nil {
		return err
	}
	where := "destination ip "
	if strings.Contains(host, ":") {
		where = "destination ipv6 "
	}
	dead, track := deadIn(v), 1024 // of 1 to 1024
	for slices.Contains(dead.tracks, track) {
		track--
	}
	actions := []string{"system-view"}
	for _, p := range ports {
		actions = append(actions, "interface "+p, dialect.Unapply(qos.PolicyName(p)), dialect.Apply(deadPolicy), "quit")
	}
	if len(actions) > 232 {
		return fmt.Errorf("the dead-man has 232 actions at most, four for each port: %d ports are too many", len(ports))
	}
	s.Append("nqa entry "+nqaEntry, "type udp-echo", where+host, "destination port "+port,
		fmt.Sprint("frequency ", m.times.Frequency.Milliseconds()), fmt.Sprint("probe timeout ", m.times.Timeout.Milliseconds()),
		fmt.Sprintf("reaction 1 checked-element probe-fail threshold-type consecutive %d action-type trigger-only", deadProbes), "quit")
	policy := []string{"rtm cli-policy " + deadPolicy, fmt.Sprintf("event track %d state negative", track)}
	for i, a := range actions {
		policy = append(policy, fmt.Sprintf("action %d cli %s", i, a))
	}
	policy = append(policy, "running-time 60", "commit", "quit", "nqa schedule "+nqaEntry+" start-time now lifetime forever")
	for _, lines := range [][]string{s.Lines, {fmt.Sprintf("track %d nqa entry %s reaction 1", track, nqaEntry)}, policy} {
		part := d.Script()
		part.Append(lines...)
		if err := d.Write(ctx, part); err != nil {
			return err
		}
	}
	dead.probe, dead.scheduled, dead.rtm, dead.track = true, true, true, track
	return nil
}

// fallBack gives every port that has values of csig's the fallback, where a dead-man is about to be removed or replaced: a
// process that ends in between must not leave them there.
func (d *Driver) fallBack(ctx context.Context, s *vendors.Setup) error {
	if dead := deadIn(d.View); !dead.rtm && !dead.probe && dead.track == 0 {
		return nil
	}
	for _, name := range d.View.Ours() {
		if err := d.FallBack(ctx, s, name); err != nil {
			return err
		}
	}
	return nil
}

// withdraw removes the dead-man of ports that are about to be others.
func (d *Driver) withdraw(ctx context.Context, s *vendors.Setup) error {
	if err := d.fallBack(ctx, s); err != nil {
		return err
	}
	return d.Give(ctx, disarm)
}

// remove removes the dead-man, and what it has done, which may be meanwhile.
func (d *Driver) remove(ctx context.Context) error {
	if err := d.Give(ctx, disarm); err != nil {
		return err
	}
	v, err := d.Look(ctx)
	if err != nil {
		return err
	}
	return d.Give(ctx, func(s *qos.Script) {
		for _, p := range v.Ports {
			if slices.Contains(p.Applied, deadPolicy) {
				s.Drop(p.Name)
			}
		}
		s.Drop(deadPort)
	})
}

// disarm is lines that remove the dead-man, but for its policy, which ports may have.
func disarm(s *qos.Script) {
	dead := deadIn(s.View)
	if dead.rtm {
		s.Append("undo rtm cli-policy " + deadPolicy)
	}
	if dead.track > 0 {
		s.Append(fmt.Sprint("undo track ", dead.track))
	}
	if dead.scheduled {
		s.Append("undo nqa schedule " + nqaEntry)
	}
	if dead.probe {
		s.Append("undo nqa entry " + nqaEntry)
	}
	*dead = deadObjects{tracks: slices.DeleteFunc(slices.Clone(dead.tracks), func(n int) bool { return n == dead.track })}
}

// RenewDeadMan has this process answer the switch's probes for another time. It reads
// whether that comes too late.
func (d *Driver) RenewDeadMan(ctx context.Context) error {
	if d.dead == nil {
		return vendors.ErrDeadManNotArmed
	}
	any, _, err := d.fallen(ctx)
	switch {
	case err != nil:
		return err
	case any:
		return vendors.ErrDeadManFired
	}
	d.dead.renew(time.Now())
	return nil
}

// DeadManFired reads whether every port has fallen back, in hardware.
func (d *Driver) DeadManFired(ctx context.Context) (bool, error) {
	any, left, err := d.fallen(ctx)
	if err != nil || !any || left {
		return false, err
	}
	v, err := d.Look(ctx)
	if err != nil {
		return false, err
	}
	for _, p := range v.Ports {
		if slices.Contains(p.Applied, deadPolicy) {
			if err := d.prove(ctx, p.Name, associated(v, deadPort)); err != nil {
				if !d.Lost() {
					err = &vendors.PortError{Port: p.Name, Err: err}
				}
				return false, err
			}
		}
	}
	return true, nil
}

// fallen reads whether any port has fallen back, and whether one is left that has not.
func (d *Driver) fallen(ctx context.Context) (any, left bool, err error) {
	if d.Want == nil {
		return false, false, vendors.ErrDeadManNotArmed
	}
	if err := d.Connect(ctx); err != nil {
		return false, false, err
	}
	lines, err := d.Session.Run(ctx, "display current-configuration | include "+qos.Prefix)
	if err != nil {
		return false, false, err
	}
	has := map[string]bool{}
	track := ""
	for _, line := range lines {
		line = strings.TrimSpace(line)
		has[line] = true
		if n, ok := strings.CutSuffix(line, " nqa entry "+nqaEntry+" reaction 1"); ok {
			track = n // track N
		}
		if policy, ok := strings.CutPrefix(line, "qos apply policy "+qos.Prefix); ok {
			any, left = any || policy == deadPort+" outbound", left || policy != deadPort+" outbound"
		}
	}
	if any {
		d.Compared = time.Time{} // what the ports have is read before it is changed
		return any, left, nil
	}
	// The event has no name of csig's in its line.
	events, err := d.Session.Run(ctx, "display current-configuration | include event track")
	if err != nil {
		return false, false, err
	}
	event := slices.ContainsFunc(events, func(l string) bool { return strings.TrimSpace(l) == "event "+track+" state negative" })
	if track == "" || !event || !has["rtm cli-policy "+deadPolicy] || !has["nqa schedule "+nqaEntry+" start-time now lifetime forever"] {
		return false, false, fmt.Errorf("%w: or another user has removed a part of it (rtm cli-policy %s, its event, track, nqa schedule)", vendors.ErrDeadManFired, deadPolicy)
	}
	if m := d.dead; m != nil && m.silent(time.Now()) {
		return false, false, fmt.Errorf("no probe of the switch has reached this process at %s for %v: look for a filter between them", m.conn.LocalAddr(), m.times.found())
	}
	return false, left, nil
}
