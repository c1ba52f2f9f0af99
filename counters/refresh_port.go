package counters

import "time"

// refreshPort is what a Refresh knows of a port.
type refreshPort struct {
	clock
	have     bool  // there was a reading
	ticking  bool  // and then a refresh
	given    bool  // its instant has been given out
	moved    bool  // in this reading
	again    bool  // this reading has the sample of the one before, or none
	partial  bool  // updated in part in this reading: one of octets and packets has moved
	within   int64 // how old its values are at most where it is current at each reading
	slow     bool  // it has been seen not to be current at a reading
	timed    bool  // the last instant given out is a timer's
	partials int   // in a row
	parted   bool  // the refresh that this reading shows was seen in part by the one before

	partOctets, partPackets uint64 // of the last reading that was updated in part
	partTo                  int64  // and when it ended

	inRow           int // readings in a row that differed
	steady          int // refreshes in a row with about as many frames as were due
	octets, packets uint64
	epoch           uint64
	width           uint8
	stamp           time.Time // of the last sample
	since           int64     // the first reading in this epoch
	from, to        int64     // when the last reading was taken
	at, off         int64     // the last instant given out, and how far it may be off
	frames          uint64    // sent up to then since the one before
	span            int64     // and how long that took
}

// maxPartial is for how many readings in a row a port may be between two refreshes; one
// that is for longer counts only one of the two.
const maxPartial = 2

// steadyAfter is how many refreshes in a row with about as many frames as were due mean that frames are sent
// all the while.
const steadyAfter = 4

// undecided is for how many readings in a row a port that differs in each is given time to show whether it
// is current at each.
const undecided = 32

// news reports whether the sample is another one than the last.
func (p *refreshPort) news(s *Sample) bool { return !s.At.Equal(p.stamp) }

// compare finds out whether the port has moved.
func (p *refreshPort) compare(s *Sample) {
	octets, packets := s.Octets != p.octets, s.Packets != p.packets
	p.moved, p.partial = octets || packets, false
	switch {
	case octets == packets:
		// The refresh was no later than the reading that had a part of it, if that part is what it was.
		p.parted = p.partials > 0 && (s.Octets == p.partOctets || s.Packets == p.partPackets)
		p.partials = 0
	case p.partials < maxPartial: // no frame without octets is sent, nor octets without a frame
		p.partials++
		p.moved, p.partial = false, true
		p.partOctets, p.partPackets = s.Octets, s.Packets
	}
}

// begin makes s the port's first reading.
func (p *refreshPort) begin(s *Sample, from, to int64) {
	*p = refreshPort{have: true, octets: s.Octets, packets: s.Packets, epoch: s.Epoch, width: s.Bits, stamp: p.stamp, since: from, from: from, to: to, at: from}
	p.until, p.last = to, to
}

// due reports whether the port would have sent something by now, had it sent as it did.
func (p *refreshPort) due(now int64) bool { return p.expected(now) >= suspect }

// expected is how many frames the port would have sent by now since its last instant.
func (p *refreshPort) expected(now int64) uint64 { return expected(p.frames, p.span, now-p.at) }

// learning reports whether it is not known yet whether the values are those of each reading.
func (p *refreshPort) learning() bool {
	return !p.given && p.inRow < undecided && p.stand == 0 && !p.live()
}
