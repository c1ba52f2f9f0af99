package gnmi

import "time"

// A target may leave out values that did not change (and gateways do), so an idle
// port falls silent. It is distinguished from a port that is no longer sampled by
// looking at the device as a whole: the counters of another port that arrive with
// a later timestamp show that the target has sampled its ports since. That is
// believed of a port that the target has said to stand still, and for a while. One that
// was busy is asked about first: it may be no longer sampled at all.

// moment is an instant in both clocks.
type moment struct {
	at    int64     // by the target's clock, ns since 1970
	local time.Time // by ours
}

// evidence is the newest timestamp on the octets of any port, and the one that was the newest
// at least a grace period ago: whatever the target sent before that one has
// arrived.
type evidence struct {
	newest, snapshot, settled moment
	taken                     time.Time // when snapshot was
}

// note takes a timestamp of a port's octets.
func (e *evidence) note(m moment, grace time.Duration) {
	e.advance(m.local, grace)
	if m.at >= e.newest.at {
		e.newest = m
	}
}

func (e *evidence) advance(now time.Time, grace time.Duration) {
	if now.Sub(e.taken) >= grace {
		e.settled, e.snapshot, e.taken = e.snapshot, e.newest, now
	}
}

// idle returns the latest instant of which it is known that the port's counters had
// the row's values, where that is later than the row. A sampling target samples a
// port at equal distances, so that instant is a whole number of them after the
// row: once there is traffic again, the window has its true length.
func (s *Source) idle(p *port, now time.Time) (at int64, local time.Time, ok bool) {
	if s.info.Repeats {
		return 0, time.Time{}, false // silence is not idleness with this target
	}
	if s.live {
		s.evidence.advance(now, s.grace())
	}
	step := int64(s.period.get(s.cfg.Interval))
	n := (s.evidence.settled.at - p.sampled) / step
	believed := p.still && now.Sub(p.leaves[outOctets].arrived) < 3*s.belief()/2
	if at := p.sampled + n*step; believed && at > max(p.row.at, p.held.at) && !p.pending(s.tolerance()) {
		// Our clock at that instant, as far as that of the evidence shows.
		p.held = moment{at, s.evidence.settled.local.Add(time.Duration(at - s.evidence.settled.at))}
		p.heldWithin = min(time.Duration(n)*s.period.spread(), time.Duration(step))
	}
	// What was known to hold at an instant does, whatever is known of the period by now.
	return p.held.at, p.held.local, p.held.at > p.row.at
}

// belief is how long a silent port may stand still before it is asked about.
func (s *Source) belief() time.Duration { return 10 * s.interval() }

// silent lists the ports that are up and are to be asked about, though the stream is
// complete: of which nothing is known any more, that stood still for long, or were busy.
func (s *Source) silent(now time.Time, list []int) []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.live || !s.pruneDue(now) {
		return list
	}
	for i := range s.ports {
		p := &s.ports[i]
		if up, _ := p.up(); !up || !p.row.set {
			continue
		}
		silence := now.Sub(p.leaves[outOctets].arrived)
		_, local, ok := s.idle(p, now)
		switch {
		case !p.still && silence >= 3*s.interval()/2, silence >= s.belief(),
			silence >= 3*s.interval() && (!ok || now.Sub(local) > 3*s.interval()):
			list = append(list, i)
		}
	}
	return list
}

// periods learns how far apart a target's samples are, from the distances of
// successive timestamps of the same port. The shortest of the last ones counts: a port
// that was idle shows multiples.
type periods struct {
	gaps [16]time.Duration
	n    int
}

func (p *periods) note(gap time.Duration) {
	p.gaps[p.n%len(p.gaps)] = gap
	p.n++
}

// get returns the period; def while too little is known.
func (p *periods) get(def time.Duration) time.Duration {
	if p.n < len(p.gaps)/4 {
		return def
	}
	least := p.gaps[0]
	for _, g := range p.gaps[:min(p.n, len(p.gaps))] {
		least = min(least, g)
	}
	return max(least, time.Millisecond)
}

// spread is how much longer than the shortest of them single gaps are.
func (p *periods) spread() (d time.Duration) {
	least := p.get(0)
	for _, g := range p.gaps[:min(p.n, len(p.gaps))] {
		if g < least*3/2 {
			d = max(d, g-least)
		}
	}
	return d
}
