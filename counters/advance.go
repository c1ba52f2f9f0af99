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
)

const (
	ambiguous = "32-bit octet counter can wrap more than once between readings at this speed: read it more often, or read the 64-bit counter"
	reset     = "counter went down by more than a wrap explains: it was reset"
)

// advance returns how far the octet and packet counters moved from prev to s,
// or why that cannot be told. A counter that went down has wrapped when what
// the wrap implies could have been sent at the capacity in the gap (twice over,
// for a timestamp that is off), and has been reset otherwise.
func advance(prev, s *Sample, capacity uint64, gap time.Duration) (octets, packets uint64, why string) {
	limit := sendable(capacity, gap)
	wide := s.Bits != 32
	if !wide && limit >= 1<<32 {
		return 0, 0, ambiguous
	}
	if limit < 1<<63 {
		limit = 2*limit + overshoot
	}
	octets, wrapped := delta(prev.Octets, s.Octets, wide)
	if wrapped && octets > limit {
		return 0, 0, reset
	}
	// A packet counter beside a 32-bit octet counter may be 32 or 64 bits wide;
	// one that is past 32 bits is wide.
	packets, wrapped = delta(prev.Packets, s.Packets, wide || prev.Packets>>32 != 0)
	if wrapped && packets > limit/minFrame {
		return 0, 0, reset
	}
	return octets, packets, ""
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
