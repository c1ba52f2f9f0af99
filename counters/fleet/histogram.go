package fleet

import (
	"math/bits"
	"time"
)

// Histogram counts durations in classes that are at most a fifth wide, from 16 µs to
// more than a minute. The zero value is empty.
type Histogram struct {
	counts [classes]uint32
	n      uint64
	max    time.Duration
}

const (
	fineBits = 2  // four classes an octave
	lowest   = 14 // 2^14 ns is the end of the first class
	octaves  = 22
	classes  = octaves<<fineBits + 1
)

// class is the class of d.
func class(d time.Duration) int {
	if d < 1<<lowest {
		return 0
	}
	octave := bits.Len64(uint64(d)) - 1 // 2^octave <= d
	fine := int(uint64(d)>>(octave-fineBits)) & (1<<fineBits - 1)
	return min((octave-lowest)<<fineBits+fine+1, classes-1)
}

// upper is the end of a class.
func upper(c int) time.Duration {
	octave, fine := lowest+c>>fineBits, c&(1<<fineBits-1)
	return time.Duration((1<<fineBits + fine) << (octave - fineBits))
}

// Add counts d; negative durations count as none. The count of a class stops at its
// largest number, after 136 years of one a second.
func (h *Histogram) Add(d time.Duration) {
	d = max(d, 0)
	if c := &h.counts[class(d)]; *c != 1<<32-1 {
		*c++
	}
	h.n++
	h.max = max(h.max, d)
}

// Merge adds what o has counted.
func (h *Histogram) Merge(o *Histogram) {
	for i, c := range o.counts {
		h.counts[i] = uint32(min(uint64(h.counts[i])+uint64(c), 1<<32-1))
	}
	h.n += o.n
	h.max = max(h.max, o.max)
}

// Count is how many durations have been counted.
func (h *Histogram) Count() uint64 { return h.n }

// Max is the longest duration.
func (h *Histogram) Max() time.Duration { return h.max }

// Quantile is a duration that the share q (0 to 1) of all does not exceed: the end of
// a class, and so too long by a quarter at most. It is 0 for an empty histogram.
func (h *Histogram) Quantile(q float64) time.Duration {
	var total uint64
	for _, c := range h.counts {
		total += uint64(c)
	}
	want := uint64(q*float64(total) + 0.999999)
	var sum uint64
	for i, c := range h.counts {
		if sum += uint64(c); sum >= want && sum > 0 {
			if i == classes-1 {
				return h.max // it has no end
			}
			return min(upper(i), h.max)
		}
	}
	return h.max
}
