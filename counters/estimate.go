package counters

import (
	"math/bits"
	"time"
)

// State says what an Estimate is worth.
type State uint8

// The states of an estimate.
const (
	// First is the first reading of a port, or the first after its link came
	// up: there is no window yet.
	First State = iota
	// OK is a complete window.
	OK
	// Down is a port whose link is down: its available bandwidth is 0, which
	// is a valid statement and not a failure.
	Down
	// Discontinuity is a window that cannot be computed because the counter
	// restarted, or the port became faster, inside it; the next window
	// starts here.
	Discontinuity
	// NoProgress is a reading that is not later than the one before: the same
	// reading again, or a clock that was set back.
	NoProgress
	// Error is a reading that cannot be used; Reason says why and what to do.
	Error
	// NotRefreshed is a reading that repeats the one before because the source
	// caches its counters. What was measured last still holds; traffic is not 0.
	NotRefreshed
	// Stale is a reading that repeats the one before for longer than the source
	// needs to refresh: it may have stopped counting.
	Stale
)

var stateNames = [...]string{"first", "ok", "down", "discontinuity", "no-progress", "error", "not-refreshed", "stale"}

// String returns the state's name as logs and JSON spell it.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "invalid"
}

// Valid reports whether the estimate's bandwidths may be advertised.
func (s State) Valid() bool { return s == OK || s == Down }

// Estimate is a port's available bandwidth over one averaging window
// (CSIG draft-00 §5.1.1, §5.2.1).
type Estimate struct {
	Start, End time.Time // the window, in the clock of the samples
	Bits       uint64    // bits the port put on the wire in the window, overhead included
	Capacity   uint64    // C in bit/s
	ABW        uint64    // C - Bits/(End-Start) in bit/s, rounded down, never below 0
	ABWC       uint32    // ABW/C in parts per million, rounded down
	State      State     // the bandwidths mean something only if State.Valid()
	Reason     string    // why there is no estimate, or in what way it is degraded; "" for an exact one

	// Error is how far End-Start may be from the time in which Bits were sent,
	// either way: half of what its first and its last reading took, and how well a
	// Refresh could work out when cached counters were read.
	Error time.Duration

	likelier time.Duration // how much longer than End-Start that time most likely is, within Error

	unsure bool   // the load may be anything up to what was counted
	more   uint64 // bits that may have been sent beyond Bits

	smoothed loads // of EWMA and DRE
}

// as is an estimate without a window, and why it has none.
func (e Estimate) as(state State, reason string) Estimate {
	e.State, e.Reason = state, reason
	return e
}

// loads are bit rates in bit/s: the nominal one and its bounds.
type loads struct {
	set            bool
	load, min, max uint64
}

// Load returns the average bit rate in bit/s, rounded up, or 0 where there is
// no window: that of the window with the raw method, the filter's output with
// the others. It may exceed the capacity: a shaper lets bursts through.
func (e *Estimate) Load() uint64 {
	if e.State != OK {
		return 0
	}
	if e.smoothed.set {
		return e.smoothed.load
	}
	return rate(e.Bits, e.End.Sub(e.Start)+e.likelier)
}

// Likely is the window as it most likely was, that of Load: from start to End, give or take off.
func (e *Estimate) Likely() (start time.Time, off time.Duration) {
	return e.Start.Add(-e.likelier), e.Error + e.likelier.Abs()
}

// LoadRange returns what the load may have been, in bit/s, given Error and how far
// octets, packets and capacity agree. Both are Load where there is no doubt. Where the window may have had any length, max is
// the largest number.
func (e *Estimate) LoadRange() (min, max uint64) {
	switch {
	case e.State != OK:
		return 0, 0
	case e.smoothed.set:
		return e.smoothed.min, e.smoothed.max
	}
	d := e.End.Sub(e.Start)
	if !e.unsure {
		min = rate(e.Bits, d+e.Error)
	}
	most := e.Bits + e.more // neither is more than 2^63
	switch {
	case most == 0:
	case e.Error < d:
		max = rate(most, d-e.Error)
	default:
		max = 1<<64 - 1
	}
	return min, max
}

// ABWRange returns the least and the most that the available bandwidth may have
// been, in bit/s (see LoadRange); both are ABW where there is no doubt.
func (e *Estimate) ABWRange() (low, high uint64) {
	if e.State != OK {
		return e.ABW, e.ABW
	}
	min, max := e.LoadRange()
	return left(e.Capacity, max), left(e.Capacity, min)
}

// ABWCRange is ABWRange relative to the capacity, in parts per million.
func (e *Estimate) ABWCRange() (low, high uint32) {
	if e.State != OK {
		return e.ABWC, e.ABWC
	}
	l, h := e.ABWRange()
	return ppm(l, e.Capacity), ppm(h, e.Capacity)
}

// left is what a load leaves of a capacity.
func left(capacity, load uint64) uint64 {
	if load >= capacity {
		return 0
	}
	return capacity - load
}

// rate returns n bits over d as bit/s, rounded up so that what is left of the
// capacity is never overstated. It saturates.
func rate(n uint64, d time.Duration) uint64 {
	if d <= 0 {
		return 0
	}
	ns := uint64(d)
	hi, lo := bits.Mul64(n, uint64(time.Second))
	if hi >= ns {
		return 1<<64 - 1
	}
	q, r := bits.Div64(hi, lo, ns)
	if r != 0 && q < 1<<64-1 {
		q++
	}
	return q
}

// ppm returns a/c in parts per million, rounded down; a must not exceed c.
func ppm(a, c uint64) uint32 {
	hi, lo := bits.Mul64(a, 1_000_000)
	q, _ := bits.Div64(hi, lo, c) // a <= c, so hi < c and the quotient fits
	return uint32(q)
}

// wireBits returns 8·(octets + overhead·packets) and whether it fits 64 bits.
func wireBits(octets, packets uint64, overhead uint8) (uint64, bool) {
	hi, lo := bits.Mul64(packets, uint64(overhead))
	sum, carry := bits.Add64(lo, octets, 0)
	if hi != 0 || carry != 0 || sum>>61 != 0 {
		return 0, false
	}
	return sum << 3, true
}
