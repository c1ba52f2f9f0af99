package agent

import (
	"fmt"
	"slices"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Where an update is a change of the device's configuration (Facts.ConfigUpdates) there is at
// most one change in an interval, whatever it is for: a new value, another try, a repair, the
// setup, ports that are to fall back, a dead-man. Each asks mayWrite first, and is noted by
// wrote. The newest values of all ports go together. A worse value goes with the first update
// that may be; a better one waits for an interval of its own, so that it does not take the
// turn of a worse one that comes behind it.

// pacing is the bookkeeping of that.
type pacing struct {
	since   time.Time // when it began
	first   time.Time // the end of the first update that changed something
	last    time.Time // the end of the last change of configuration, or of an attempt
	updated time.Time // the end of the last update that changed something
	writes  bool      // the update under way changes something, or tries to
	failed  error     // of the last one
	sent    uint64
	changes uint64
	dropped uint64 // values that a newer one replaced before they were sent
}

// mayWriteLocked reports whether a change of configuration may be made now, where it is one.
func (a *Agent) mayWriteLocked(now time.Time) bool {
	return a.facts.ConfigUpdates == nil || a.pacing.last.IsZero() || now.Sub(a.pacing.last) >= a.facts.ConfigInterval().Is
}

func (a *Agent) mayWrite() bool {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mayWriteLocked(now)
}

// wrote notes that a change of configuration was made, or tried.
func (a *Agent) wrote() {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pacing.last = now
}

// observedFor is how long bucket changes are counted before a rate is made of them
// (vendors.Facts.UpdatesCost says so).
const observedFor = 10 * time.Minute

// pace takes the ports out of a.updates whose values have to wait, and reports whether there may
// be an update at all: without a lease that it renews there is none that changes nothing. The error is
// that of an update that failed and may not be tried again yet.
func (a *Agent) pace(now time.Time) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.facts.ConfigUpdates == nil {
		return true, nil
	}
	c, every := &a.pacing, a.facts.ConfigInterval().Is
	if c.since.IsZero() {
		c.since = now
	}
	due := a.mayWriteLocked(now)
	if c.failed != nil && (!due || a.fallbackDueLocked(now)) { // that would be the turn of a Release
		return false, fmt.Errorf("programming: %w; tried again when %v have passed, because each try is a change of configuration, or after twice that where its ports have to fall back first", c.failed, every)
	}
	fellBack := a.cycle.seen.fallback // current values have to take its place
	worse, ripe := false, false
	for i := range a.ports {
		p := &a.ports[i]
		p.note(c, now)
		p.urgent = len(p.waiting) > 0 && p.worse()
		worse = worse || p.urgent
		ripe = ripe || len(p.waiting) > 0 && now.Sub(p.pending) >= every
	}
	send := due && (worse || ripe || fellBack)
	c.writes, a.updates = false, a.updates[:0]
	for _, urgent := range []bool{true, false} { // a slow session writes those first that got worse
		for i := range a.ports {
			p := &a.ports[i]
			if p.cfg.Action != vlanrules.Update || p.urgent != urgent {
				continue
			}
			if p.held = !due || len(p.waiting) > 0 && !send; p.held {
				continue
			}
			a.updates = append(a.updates, vendors.PortUpdate{Port: p.cfg.Name, Intents: p.intents})
			c.writes = c.writes || len(p.waiting) > 0 || fellBack
		}
	}
	return due || !a.withoutLeaseLocked(), nil
}

// note takes in the value that a port wants now.
func (p *port) note(c *pacing, now time.Time) {
	switch {
	case p.cfg.Action != vlanrules.Update:
	case p.refused == "" && slices.Equal(p.sent, p.intents):
		if len(p.waiting) > 0 { // it came and went
			c.dropped++
		}
		p.waiting = p.waiting[:0]
	case len(p.waiting) == 0:
		p.waiting, p.pending = append(p.waiting, p.intents...), now
	case !slices.Equal(p.waiting, p.intents):
		c.dropped++
		p.waiting = append(p.waiting[:0], p.intents...)
	}
}

// worse reports whether a port's value is worse than what it was told to write last, for some
// signal. One that it never wrote is.
func (p *port) worse() bool {
	if len(p.sent) != len(p.intents) {
		return true
	}
	for i := range p.intents {
		was, is := p.sent[i], p.intents[i]
		if is.S != was.S && is.Signal.Max() == (is.S > was.S) {
			return true
		}
	}
	return false
}

// changes is how many buckets an update of the port changes.
func (p *port) changes() (n int) {
	for i := range p.intents {
		if p.refused != "" || len(p.sent) != len(p.intents) || p.sent[i] != p.intents[i] {
			n++
		}
	}
	return n
}

// paced takes in what came of an update that was tried. Buckets of ports that refused theirs
// were not changed.
func (a *Agent) paced(res *vendors.UpdateResult, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.facts.ConfigUpdates == nil {
		return
	}
	c, now := &a.pacing, time.Now()
	failed := err != nil && !res.Leased
	if c.writes || res.Ops > 0 || res.Repaired != nil || err != nil {
		c.last = now
	}
	c.failed = nil
	if failed {
		c.failed = err
	}
	refused := map[string]bool{}
	vendors.EachPort(err, func(port string, _ error) { refused[port] = true })
	changed := 0
	for i := range a.ports {
		p := &a.ports[i]
		switch {
		case p.cfg.Action != vlanrules.Update || p.held:
		case failed: // what it has now is not known
			p.sent = p.sent[:0]
		default:
			if !refused[p.cfg.Name] {
				changed += p.changes()
			}
			p.sent, p.waiting = append(p.sent[:0], p.intents...), p.waiting[:0]
		}
	}
	if changed > 0 {
		c.updated = now
		if c.sent++; c.sent == 1 {
			c.first = now
		}
		c.changes += uint64(changed)
	}
}

// pacingStatus is what Status says of it; nil where updates are no changes of configuration.
func (a *Agent) pacingStatus(now time.Time) *api.Updates {
	if a.facts.ConfigUpdates == nil {
		return nil
	}
	c := &a.pacing
	s := &api.Updates{IntervalNS: a.facts.ConfigInterval().Is.Nanoseconds(), Sent: c.sent, Changes: c.changes, Coalesced: c.dropped}
	if c.sent > 1 {
		s.AchievedNS = c.updated.Sub(c.first).Nanoseconds() / int64(c.sent-1)
	}
	for i := range a.ports {
		if len(a.ports[i].waiting) > 0 {
			s.Waiting++
		}
	}
	if ran := now.Sub(c.since); !c.since.IsZero() && ran >= time.Minute {
		lines := uint64(float64(c.changes) * float64(a.facts.ConfigUpdates.Lines) * float64(time.Hour) / float64(ran))
		s.LinesHour = &lines
	}
	return s
}

// observedChanges is how many buckets an hour were changed, where that was observed for
// long enough.
func (a *Agent) observedChanges() vendors.Fact[float64] {
	a.mu.Lock()
	defer a.mu.Unlock()
	c, ran := &a.pacing, time.Duration(0)
	if !c.since.IsZero() {
		ran = time.Since(c.since)
	}
	if ran < observedFor {
		return vendors.Fact[float64]{}
	}
	rate := float64(c.changes) * float64(time.Hour) / float64(ran)
	return vendors.That(rate, vendors.Source{Mark: vendors.Ran, From: fmt.Sprintf("%d changes in the %v that its agent has run", c.changes, ran.Round(time.Minute))})
}
