package ebpf

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// A port's entry and its state in csig_state cannot change in one step, and a new interval changes
// both: the same S takes other edges and other bytes. So the port is held first: an entry
// with a constant S closes no interval and reads no state. When no frame is at an earlier entry any
// more, the state is written for the new interval, and then the new entry.

// held is what a port measured by its former interval.
type held struct {
	former planePort
	live   bool   // its deadline is to come and an interval has closed; false: it advertises stale
	last   uint64 // bytes of the last interval
}

// startLater is when the first interval begins at the latest, should this process end before it
// says when.
const startLater = uint64(time.Second)

// newIntervals holds the ports whose interval is not the setup's. All are held before any is
// given its signals, so that Update waits twice for frames that are on their way, however many
// ports there are.
func (d *Driver) newIntervals(updates []vendors.PortUpdate) (errs []error) {
	var ports []*port
	for i := range updates {
		p := d.byName[updates[i].Port]
		if p == nil || p.setup.Action != vlanrules.Update || p.index == 0 || p.entry.Interval == uint64(d.setup.Measure.Interval) {
			continue
		}
		p.intents = nil
		if err := d.hold(p); err != nil {
			errs = append(errs, err)
			continue
		}
		ports = append(ports, p)
	}
	if ports == nil {
		return errs
	}
	if err := d.plane.settle(); err != nil {
		for _, p := range ports {
			p.held = nil
			errs = append(errs, &vendors.PortError{Port: p.setup.Port, Err: err})
		}
	}
	return errs
}

// hold has a port write the S of its last interval until its deadline, or advertise stale where
// it does so.
func (d *Driver) hold(p *port) error {
	var s planeState
	p.held = nil
	if err := d.plane.CsigState.Lookup(p.entry.Slot, &s); err != nil {
		return &vendors.PortError{Port: p.setup.Port, Err: fmt.Errorf("read csig_state: %w", err)}
	}
	now := monotonic()
	// An entry without an interval is of a process that ended while it held the port.
	h := held{former: p.entry, live: p.entry.Interval != 0 && p.entry.Deadline > now && s.Closed != 0, last: s.lastAt(now, &p.entry)}
	e := p.entry
	if e.Interval = 0; !h.live {
		e.Deadline = 0
	}
	for i := range e.Signals {
		if g := &e.Signals[i]; g.Carried != 0 && g.Queue == 0 {
			*g = g.constant(h.last)
		}
	}
	if err := d.put(p, &e); err != nil {
		return err
	}
	p.held = &h
	return nil
}

// write gives a port its entry. One that was held goes on with the S of its last interval, which
// stays until the first new one has closed, or its deadline.
func (d *Driver) write(p *port, e *planePort) error {
	h := p.held
	if h == nil {
		return d.put(p, e)
	}
	p.held = nil
	// No interval begins before the new entry is live.
	err := d.plane.change(p, func(s *planeState, now uint64) {
		s.Start, s.Own, s.Closed, s.Last = now+startLater, 0, 0, 0
		if h.live {
			s.Closed, s.Last = 1, scale(h.last, e.Interval, h.former.Interval)
		}
	})
	if err == nil {
		err = d.put(p, e)
	}
	// Where this process was held up, a whole interval may have passed before the kernel had its start.
	late := true
	for i := 0; err == nil && late && i < 10; i++ {
		before := monotonic()
		err = d.plane.change(p, h.begin)
		late = monotonic()-before >= e.Interval
	}
	return err
}

// begin opens the first interval now. What has not been sent yet is of it: by the shaper's counter
// as the last frame saw it, or by what the link cannot have sent (roll, of csig.bpf.c).
func (h *held) begin(s *planeState, now uint64) {
	s.Total += s.Bytes - min(s.Lost, s.Bytes)
	s.Start, s.Bytes, s.Lost = now, 0, 0
	if s.Sent = s.Seen; s.Shaper == 0 {
		s.Sent = s.Total - min(after(s.Free, h.former.Pace, now), s.Total)
	}
}

// change writes a port's state. What frames count at the same time may be lost.
func (p *plane) change(of *port, do func(s *planeState, now uint64)) error {
	var s planeState
	err := p.CsigState.Lookup(of.entry.Slot, &s)
	if err == nil {
		do(&s, monotonic())
		err = p.CsigState.Put(of.entry.Slot, &s)
	}
	if err != nil {
		return &vendors.PortError{Port: of.setup.Port, Err: fmt.Errorf("change csig_state: %w", err)}
	}
	return nil
}

// scale is v·to/from, rounded up: of two values of S that border on it, the worse is advertised.
func scale(v, to, from uint64) uint64 {
	high, low := bits.Mul64(v, to)
	low, carry := bits.Add64(low, from-1, 0)
	if high += carry; high >= from {
		return math.MaxUint64 // more than any interval has
	}
	n, _ := bits.Div64(high, low, from)
	return n
}

// constant is the signal with the S that x bytes have, however many are measured.
func (g planeSignal) constant(x uint64) planeSignal {
	past := g.bucket(x)
	if g.Max == 0 {
		past = quantize.NumBuckets - 1 - past
	}
	wide := uint64(0)
	if g.D != 0 && x < g.Limit {
		wide = (g.A - g.B*x) / g.D
	}
	g.A, g.B, g.D, g.Limit = wide, 0, 1, math.MaxUint64
	for i := range g.Edges {
		g.Edges[i] = math.MaxUint64
		if i < int(past) {
			g.Edges[i] = 0
		}
	}
	return g
}
