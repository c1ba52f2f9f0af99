package counters

import (
	"math/bits"
	"time"
)

const (
	// minFrame is the least a frame adds to an octet counter: a bare Ethernet
	// header, which is what a virtual device may send and count.
	minFrame = 14
	// overshoot is how many bytes a port may send beyond its capacity in any
	// gap and still be believed: a shaper's burst.
	overshoot = 1 << 20

	// leastFrame and mostFrame are the shortest frame on Ethernet and the longest that a
	// counter takes for one packet (segmentation offload), in octets.
	leastFrame = 64
	mostFrame  = 1 << 19
)

const (
	ambiguous = "32-bit octet counter can wrap more than once between readings at this speed: read it more often, or read the 64-bit counter"
	reset     = "counter went down by more than a wrap explains: it was reset"
	jump      = "counter jumped further than the link can carry in that time: the counter, its time or the port's speed is wrong"
	behind    = "packets are counted and their octets are not: the octet counter stands still, or belongs to something else"
	caughtUp  = "octets are counted again: the window starts here"

	beyond      = "more is counted than the link can carry: the counter, its time or the port's speed is wrong"
	unrefreshed = "nothing is counted, and it is not known yet how often the source refreshes this port's counters"
	few         = "octets are counted and hardly any packets: what preambles and gaps cost is not known"
)

// advance returns how far the octet and packet counters moved from prev to s,
// or why that is unknown. gap is the longest time that they may be apart. What
// could not have been sent at the capacity in the gap (twice over, for a timestamp
// that is off) was not: a counter that went down by that much did not wrap, and one
// that went up did not count.
func advance(prev, s *Sample, capacity uint64, gap time.Duration) (octets, packets uint64, why string) {
	capacity = max(capacity, prev.Speed, s.Speed) // what is configured may be a part of the link, and what is reported nonsense
	limit := sendable(capacity, gap)
	wide := s.Bits != 32
	if !wide && limit >= 1<<32 {
		return 0, 0, ambiguous
	}
	if limit < 1<<63 {
		limit = 2*limit + overshoot
	}
	octets, wrapped := delta(prev.Octets, s.Octets, wide)
	if octets > limit {
		return 0, 0, impossible(wrapped)
	}
	// A packet counter beside a 32-bit octet counter may be 32 or 64 bits wide;
	// one that is past 32 bits is wide.
	packets, wrapped = delta(prev.Packets, s.Packets, wide || prev.Packets>>32 != 0)
	if packets > limit/minFrame {
		return 0, 0, impossible(wrapped)
	}
	return octets, packets, ""
}

func impossible(wrapped bool) string {
	if wrapped {
		return reset
	}
	return jump
}

// deficit is how many octets the packets counted imply beyond the octets counted. A
// little is two columns read one after the other; more is a counter that stands still.
type deficit uint64

const mostDeficit = suspect * minFrame

// add takes what was counted in one gap and reports whether octets are missing. That
// stays so until they have moved.
func (d *deficit) add(octets, packets uint64) bool {
	have := uint64(*d) + minFrame*min(packets, 2*suspect)
	*d = deficit(min(have-min(have, octets), 2*mostDeficit))
	return *d > mostDeficit
}

// delta is the difference of two readings of a 64-bit or 32-bit counter, on the
// assumption that one that went down wrapped once.
func delta(prev, now uint64, wide bool) (d uint64, wrapped bool) {
	switch {
	case now >= prev:
		return now - prev, false
	case wide:
		return now - prev, true
	default:
		return uint64(uint32(now) - uint32(prev)), true
	}
}

// sendable returns how many bytes fit into d at this capacity in bit/s; it
// saturates.
func sendable(capacity uint64, d time.Duration) uint64 {
	const perByte = 8 * uint64(time.Second)
	hi, lo := bits.Mul64(capacity, uint64(d))
	if hi >= perByte {
		return 1<<64 - 1
	}
	q, _ := bits.Div64(hi, lo, perByte)
	return q
}
