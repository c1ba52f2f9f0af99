package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
)

// What status and log say of the data plane is what was last seen there, never
// what the agent remembers having done: csig off, another process or a reboot of
// the device may have come in between. An update that the device took is such an
// observation; where cycles fail, or none comes, the driver looks.

const (
	lookEvery = time.Second     // how often it looks while cycles do not complete
	lookLimit = 2 * time.Second // how long one look may take, where no lease is to be renewed, and no command line is read
)

// lookLimit is how long one look at this device may take, where no lease is to be renewed.
func (a *Agent) lookLimit() time.Duration {
	if a.facts.ConfigUpdates != nil {
		return a.writeLimit()
	}
	return lookLimit
}

// writeLimit is how long the device may take to write all ports.
func (a *Agent) writeLimit() time.Duration {
	buckets := 0
	for i := range a.ports {
		buckets += len(a.ports[i].intents)
	}
	return a.facts.WriteTime(buckets)
}

// observation is what was last seen of the data plane. The lease aside, which is
// cycleState.leaseEnds.
type observation struct {
	at       time.Time         // when; zero: never
	tried    time.Time         // the last look, also one that saw nothing
	plane    string            // DataPlaneForeign or DataPlaneAbsent; "": the setup was there
	why      string            // of plane
	fallback bool              // ports were seen to fall back, or made to
	all      string            // what is not as Apply leaves it, of all ports
	ports    map[string]string // the same of single ports
	unseen   string            // why the last look saw nothing; "" where it did
	because  string            // the error of the cycle that it looked for
}

// lookDueLocked reports whether the last look was long ago, or the lease has ended
// since.
func (a *Agent) lookDueLocked(now time.Time) bool {
	c := &a.cycle
	return now.Sub(c.seen.tried) >= lookEvery || c.seen.tried.Before(c.LeaseEnds) && !now.Before(c.LeaseEnds)
}

// checkAfterFailure looks at the data plane after a failed cycle, at once after the first
// one. While a lease runs, which the next cycle is to renew, it has until then.
func (a *Agent) checkAfterFailure(ctx context.Context, next time.Time) {
	now := time.Now()
	a.mu.Lock()
	due := a.cycle.seen.because == "" || a.lookDueLocked(now)
	limit := a.lookLimit()
	if now.Before(a.cycle.LeaseEnds) {
		limit = min(limit, next.Sub(now))
	}
	a.mu.Unlock()
	if due && limit > 0 && ctx.Err() == nil {
		a.look(ctx, limit)
	}
}

// checkExpired looks at the data plane where a lease has ended and no cycle has
// come since, as the counters hang. A driver that hangs is not asked.
func (a *Agent) checkExpired(ctx context.Context) {
	now := time.Now()
	a.mu.Lock()
	c := &a.cycle
	due := !c.LeaseEnds.IsZero() && !now.Before(c.LeaseEnds) && a.lookDueLocked(now)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if due {
		a.cancelLook = cancel
	}
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		a.cancelLook = nil
		a.mu.Unlock()
	}()
	if !due || !a.driverMu.TryLock() {
		return
	}
	defer a.driverMu.Unlock()
	if a.waiters.Load() == 0 {
		a.look(ctx, a.lookLimit())
	}
}

// look reads back what the data plane does. The driver has to be ours alone.
func (a *Agent) look(ctx context.Context, limit time.Duration) {
	if a.cfg.Shadow {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	now := time.Now() // what is left of a lease is left from here on, at least
	seen, err := a.readBack(ctx)
	if errors.Is(ctx.Err(), context.Canceled) {
		return // we are stopping, or a cycle wants the driver
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.cycle
	old := c.seen
	var foreign *vendors.ForeignError
	switch {
	case errors.As(err, &foreign):
		c.seen = observation{at: now, plane: api.DataPlaneForeign, why: foreign.Error()}
	case err != nil:
		c.seen.unseen = err.Error()
	case seen.Setup.Nothing():
		c.seen = observation{at: now, plane: api.DataPlaneAbsent, why: "nothing of csig is on this device: tags pass untouched"}
	default:
		c.seen = a.observationLocked(&seen, now)
	}
	c.seen.tried, c.seen.because = now, c.LastError
	if c.seen.plane != "" && c.seen.plane != old.plane {
		a.log.Warn("looked at the data plane: " + c.seen.why)
	}
}

// readBack is vendors.Look; a driver that panics has not seen anything.
func (a *Agent) readBack(ctx context.Context) (seen vendors.DataPlane, err error) {
	defer untrusted.Recover(&err)
	return vendors.Look(ctx, a.cfg.Driver)
}

// observationLocked is a look that found a setup.
func (a *Agent) observationLocked(seen *vendors.DataPlane, now time.Time) observation {
	c := &a.cycle
	s := observation{at: now, all: seen.Setup.Damaged, fallback: c.seen.fallback}
	note := func(port, what string) {
		if s.ports == nil {
			s.ports = map[string]string{}
		}
		s.ports[port] = what
	}
	for have, want := range vendors.PortPairs(seen.Setup.Ports, a.setup.Ports) {
		switch {
		case want == nil:
		case have == nil:
			note(want.Port, "nothing of csig is on this port: tags pass untouched")
		case have.Damaged != "":
			note(want.Port, have.Damaged)
		case have.Action != want.Action:
			note(want.Port, fmt.Sprintf("it is set up to %s, and is to %s", have.Action, want.Action))
		}
	}
	switch {
	case a.unaided():
	case seen.Signal == vendors.SignalFallback:
		s.fallback = true
		if !c.LeaseEnds.IsZero() && now.Before(c.LeaseEnds) {
			c.LeaseEnds = now
		}
	case seen.Signal == vendors.SignalWritten:
		s.fallback = false
		// What a look finds never makes a lease longer that this agent still counts: a device
		// may report ages in whole seconds.
		if ends := now.Add(seen.Left); seen.Left > 0 && !c.LeaseEnds.IsZero() && (ends.Before(c.LeaseEnds) || !now.Before(c.LeaseEnds)) {
			c.LeaseEnds = ends
		}
	case !a.withoutLeaseLocked():
		s.fallback = !c.LeaseEnds.IsZero() && !now.Before(c.LeaseEnds) // the setup is there, and its lease is over
	}
	return s
}

// dataPlane is what the data plane does now, by what was last seen of it, and why
// where that is not what it should.
func (a *Agent) dataPlane(now time.Time) (plane, why string) {
	c := &a.cycle
	s := &c.seen
	why = s.all
	if s.unseen != "" {
		why = "it cannot be looked at: " + s.unseen
	}
	switch {
	case a.cfg.Shadow:
		return api.DataPlaneShadow, ""
	case s.plane != "":
		return s.plane, s.why
	case c.repairs.recur("", now) != "":
		return api.DataPlaneUnknown, c.repairs.recur("", now)
	case s.fallback && (s.unseen == "" || a.withoutLeaseLocked()): // without a lease nothing changes by itself
		return api.DataPlaneFallback, why
	case c.LeaseEnds.IsZero():
		return api.DataPlaneNone, why
	case a.unaided() && (now.Before(c.LeaseEnds) || s.unseen == "" && now.Before(s.at.Add(max(c.lastLease, 3*lookEvery)))):
		if unread := a.unreadLocked(); unread != "" {
			return api.DataPlaneNone, unread
		}
		return api.DataPlaneNative, why
	case now.Before(c.LeaseEnds) && !a.unaided():
		if unread := a.unreadLocked(); unread != "" {
			return api.DataPlaneNone, unread
		}
		return api.DataPlaneLeased, why
	case a.withoutLeaseLocked():
		return api.DataPlaneFrozen, why
	case s.unseen != "":
		return api.DataPlaneUnknown, why
	}
	before := ", before its lease ended"
	if a.unaided() {
		before = ""
	}
	return api.DataPlaneUnknown, fmt.Sprintf("it was last looked at %v ago%s", now.Sub(s.at).Round(time.Millisecond), before)
}

// Left is what the data plane does, as it was last seen, in a sentence: for the
// end of an agent.
func (a *Agent) Left() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	plane, why := a.dataPlane(now)
	text := ""
	switch plane {
	case api.DataPlaneShadow:
		return "nothing was programmed"
	case api.DataPlaneFallback:
		text = fmt.Sprintf("the data plane has fallen back (%s), and the setup stays", a.cfg.Policy.OnStale)
	case api.DataPlaneNone:
		if text = "no signal was programmed, and the setup stays"; !a.cycle.LeaseEnds.IsZero() {
			text = "the device has confirmed a signal, and the setup stays"
		}
	case api.DataPlaneLeased:
		text = fmt.Sprintf("ports write what they were given last until the lease ends, in %v", a.cycle.LeaseEnds.Sub(now).Round(time.Millisecond))
	case api.DataPlaneNative:
		text = "the chip goes on measuring by itself, as it is set up"
	case api.DataPlaneFrozen:
		text = "ports stay at what was written last: csig off ends that"
	case api.DataPlaneAbsent, api.DataPlaneForeign:
		return why
	default:
		text = "what the data plane does is not known"
	}
	if why != "" {
		text += ": " + why
	}
	return text
}

// gone reports whether nothing of ours was seen on the device.
func (a *Agent) gone() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cycle.seen.plane != "" && a.cycle.seen.unseen == ""
}
