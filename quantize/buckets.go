package quantize

import (
	"errors"
	"fmt"
	"slices"
)

// Buckets is the table that turns a signal's value into the compact tag's S
// (draft-00 §4.1.3.2, §5.3.3): 32 half-open ranges [low, high), the first
// starting at 0, the last taking everything from its low end up. The zero
// value is not valid; make one with NewBuckets, NewBucketsFromRanges or Preset.
type Buckets struct {
	Signal Signal
	Preset string // the preset's name, "" for a table written out
	bounds [NumBuckets + 1]uint64
}

// Range is the values [Low, High) of one bucket, in the signal's unit.
type Range struct {
	Low, High uint64
}

// BucketError is what is wrong with one bound or range of a table.
type BucketError struct {
	Signal Signal
	Index  int // of the bound or range as it was given; -1: the table as a whole
	Reason string
}

func (e *BucketError) Error() string { return e.Signal.String() + ": " + e.Reason }

// NewBuckets builds a table from 33 bounds in the signal's unit: bounds[i] is
// the low end of bucket i, bounds[32] the nominal upper end of the last. It
// refuses a table that does not start at 0, is not strictly increasing or, for
// abwc, goes above 100 %. Every problem is a *BucketError, all of them joined.
func NewBuckets(sig Signal, bounds []uint64) (Buckets, error) {
	b := Buckets{Signal: sig}
	if len(bounds) != len(b.bounds) {
		return Buckets{}, &BucketError{sig, -1, fmt.Sprintf("%d bounds, want 33 (the low end of each of the 32 buckets, then the upper end of the last)", len(bounds))}
	}
	copy(b.bounds[:], bounds)
	if err := b.validate(); err != nil {
		return Buckets{}, err
	}
	return b, nil
}

const whole = 1_000_000 // ppm

func (b *Buckets) validate() error {
	var errs []error
	add := func(i int, format string, args ...any) {
		errs = append(errs, &BucketError{b.Signal, i, fmt.Sprintf(format, args...)})
	}
	if b.bounds[0] != 0 {
		add(0, "the first bucket starts at %s, want 0", FormatValue(b.Signal, b.bounds[0]))
	}
	for i := 1; i < len(b.bounds); i++ {
		if b.bounds[i] <= b.bounds[i-1] {
			add(i, "bound %d (%s) is not above bound %d (%s)", i, FormatValue(b.Signal, b.bounds[i]), i-1, FormatValue(b.Signal, b.bounds[i-1]))
		}
	}
	if top := b.bounds[NumBuckets]; b.Signal == MinABWC && top > whole {
		add(NumBuckets, "the last bucket ends at %s: available bandwidth is never above 100 %% of the capacity", FormatValue(b.Signal, top))
	}
	return errors.Join(errs...)
}

// NewBucketsFromRanges builds a table from 32 ranges [Low, High) in the order
// of S, in the signal's unit. It refuses an empty range, ranges out of order,
// gaps and overlaps, and what NewBuckets refuses. Every problem is a
// *BucketError, all of them joined.
func NewBucketsFromRanges(sig Signal, ranges []Range) (Buckets, error) {
	if len(ranges) != NumBuckets {
		return Buckets{}, &BucketError{sig, -1, fmt.Sprintf("%d ranges, want 32, one for each value of S", len(ranges))}
	}
	var errs []error
	add := func(i int, format string, args ...any) {
		errs = append(errs, &BucketError{sig, i, fmt.Sprintf(format, args...)})
	}
	bounds := make([]uint64, 0, NumBuckets+1)
	for i, r := range ranges {
		if r.Low >= r.High {
			add(i, "range %d is empty: %s is not below %s", i, FormatValue(sig, r.Low), FormatValue(sig, r.High))
		}
		bounds = append(bounds, r.Low)
		if i == 0 {
			continue
		}
		before := ranges[i-1]
		switch {
		case r.Low < before.Low:
			add(i, "range %d (%s) is out of order: range %d (%s) starts above it", i, FormatRange(sig, r.Low, r.High), i-1, FormatRange(sig, before.Low, before.High))
		case r.Low < before.High:
			add(i, "ranges %d and %d overlap: both contain %s", i-1, i, FormatRange(sig, r.Low, min(r.High, before.High)))
		case r.Low > before.High:
			add(i, "gap between ranges %d and %d: neither contains %s", i-1, i, FormatRange(sig, before.High, r.Low))
		}
	}
	if len(errs) > 0 {
		return Buckets{}, errors.Join(errs...)
	}
	return NewBuckets(sig, append(bounds, ranges[NumBuckets-1].High))
}

// Bucket returns the S of value v, in the signal's unit. It allocates nothing.
func (b *Buckets) Bucket(v uint64) uint8 {
	above, at := slices.BinarySearch(b.bounds[1:NumBuckets], v)
	if at {
		above++
	}
	return uint8(above)
}

// Range returns bucket s, 0…31, as [low, high) in the signal's unit. The last
// bucket also takes everything from high up.
func (b *Buckets) Range(s uint8) (low, high uint64) {
	return b.bounds[s], b.bounds[s+1]
}

// Misfit says why S cannot tell the values 0…top apart, in the signal's unit, where all of them are in
// the first bucket, or the highest is above the last bound by more than the last bucket's width; else "".
func (b *Buckets) Misfit(top uint64) string {
	low, high := b.Range(NumBuckets - 1)
	switch {
	case top < b.bounds[1]:
		return fmt.Sprintf("%s is never above %s here, which is in the first bucket (%s): S is 0, saturated, even without load",
			b.Signal, FormatValue(b.Signal, top), b.FormatRange(0))
	case top > high && top-high > high-low:
		return fmt.Sprintf("%s goes up to %s here, and the last bucket takes all from %s up: S is 31 for every load that leaves so much",
			b.Signal, FormatValue(b.Signal, top), FormatValue(b.Signal, low))
	}
	return ""
}

// Bounds returns a copy of the table as NewBuckets takes it, in the signal's
// unit.
func (b *Buckets) Bounds() [NumBuckets + 1]uint64 { return b.bounds }

// FormatRange writes bucket s, 0…31, as people read it: "1.12–1.4 Gbit/s", and
// "90 Gbit/s and above" for the last.
func (b *Buckets) FormatRange(s uint8) string {
	low, high := b.Range(s)
	if s == NumBuckets-1 {
		return FormatValue(b.Signal, low) + " and above"
	}
	return FormatRange(b.Signal, low, high)
}
