package counters

import "time"

// refreshPort is a port's last reading.
type refreshPort struct {
	have            bool
	anchored        bool // an instant has been given out
	pending         bool // did not move in the run, and its counters may come later
	ownCache        bool // refreshes apart from the others
	moved           bool // in this reading
	again           bool // this reading has the sample of the one before
	partial         bool // updated in part in this reading: one of octets and packets has moved
	wasPartial      bool // in the reading before
	partials        int  // in a row
	octets, packets uint64
	epoch           uint64
	width           uint8
	run             uint64 // the run in which it moved last
	frames          uint64 // sent between its last two instants
	span            int64  // and the time between these
	at              int64  // the last instant given out, or since
	since           int64  // its first reading in this epoch
	steps           time.Duration
	off, wasOff     time.Duration // its time less the reading's, and less the last instant given out

	// What a clock of its own would look like.
	doubt    bool   // said to be idle since it moved last, against expectation
	odd      int    // how often in a row that looked wrong afterwards
	movedAt  int64  // when it moved last
	movedBy  uint64 // by how many frames
	movedFor int64  // and how long after it had moved before
}

// maxPartial is for how many readings in a row a port may be between two refreshes; one
// that is for longer counts only one of the two.
const maxPartial = 2

// notePartial notes whether the source refreshed in the middle of the port: no frame
// without octets is sent, nor octets without a frame.
func (p *refreshPort) notePartial(octets, packets bool) {
	switch {
	case octets == packets:
		p.partials = 0
	case p.partials < maxPartial:
		p.partials++
		p.partial = true
	}
}

// follows reports whether s can be compared with the reading before.
func (p *refreshPort) follows(s *Sample) bool {
	return p.have && usable(s) && s.Epoch == p.epoch && s.Bits == p.width
}

// ownClock looks for a port that was said to be idle because others moved, and was
// not: its counters are refreshed apart from the others'. One that then shows more
// than it can have sent since is proof; one that shows, several times in a row, as
// much as if it had never been idle is proof enough.
func (p *refreshPort) ownClock(s *Sample, at int64) {
	if !p.moved || at <= p.movedAt {
		return
	}
	frames, _ := delta(p.packets, s.Packets, s.Bits != 32)
	octets, _ := delta(p.octets, s.Octets, s.Bits != 32)
	switch {
	case !p.doubt || p.ownCache:
	case s.Speed != 0 && octets/2 > sendable(s.Speed, time.Duration(at-p.at))+overshoot:
		p.ownCache = true
	case alike(frames, p.expected(at)) && !alike(frames, expected(p.movedBy, p.movedFor, at-p.at)):
		p.odd++
		p.ownCache = p.odd >= oddOnes
	default:
		p.odd = 0
	}
	p.doubt = false
	p.movedAt, p.movedBy, p.movedFor = at, frames, at-p.movedAt
}

// oddOnes is how many odd coincidences in a row are no coincidence.
const oddOnes = 3

func alike(a, b uint64) bool { return a <= b+b/8 && b <= a+a/8 }

// expected is how many frames the port would have sent by now, had it sent as
// it did before it moved last.
func (p *refreshPort) expected(now int64) uint64 {
	return expected(p.movedBy, p.movedFor, now-p.movedAt)
}

// record notes that the port's values are those of the instant at, and how much it
// sent up to then.
func (p *refreshPort) record(s *Sample, at int64) {
	if p.have {
		p.frames, _ = delta(p.packets, s.Packets, s.Bits != 32)
		p.span = at - p.at
	}
	p.doubt = p.doubt || !p.moved && p.expected(at) >= suspect
	p.at, p.pending = at, false
}
