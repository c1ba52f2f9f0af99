package quantize

import "fmt"

// Buckets is the table that turns a signal's value into the compact tag's S
// (draft-00 §4.1.3.2, §5.3.3): 32 half-open ranges [low, high), the first
// starting at 0, the last taking everything from its low end up. The zero
// value is not valid; make one with NewBuckets or Preset.
type Buckets struct {
	Signal Signal
	Preset string // the preset's name, "" for a table written out
	bounds [NumBuckets + 1]uint64
}

// NewBuckets builds a table from 33 bounds in the signal's unit: bounds[i] is
// the low end of bucket i, bounds[32] the nominal upper end of the last. It
// refuses a table that does not start at 0 or is not strictly increasing.
func NewBuckets(sig Signal, bounds []uint64) (Buckets, error) {
	b := Buckets{Signal: sig}
	if len(bounds) != len(b.bounds) {
		return b, fmt.Errorf("%s: %d bounds, want 33 (the low end of each of the 32 buckets, then the upper end of the last)", sig, len(bounds))
	}
	if bounds[0] != 0 {
		return b, fmt.Errorf("%s: the first bucket starts at %d, want 0", sig, bounds[0])
	}
	for i := 1; i < len(bounds); i++ {
		if bounds[i] <= bounds[i-1] {
			return b, fmt.Errorf("%s: bound %d (%d) is not above bound %d (%d)", sig, i, bounds[i], i-1, bounds[i-1])
		}
	}
	copy(b.bounds[:], bounds)
	return b, nil
}

// Bucket returns the S of value v, in the signal's unit.
func (b *Buckets) Bucket(v uint64) uint8 {
	lo, hi := 0, NumBuckets-1 // the answer is in [lo, hi]
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if v >= b.bounds[mid] {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return uint8(lo)
}

// Range returns bucket s as [low, high) in the signal's unit. The last
// bucket also takes everything from high up.
func (b *Buckets) Range(s uint8) (low, high uint64) {
	return b.bounds[s], b.bounds[s+1]
}
