package sai

import (
	"math"
	"math/bits"

	"github.com/csig-agent/csig/quantize"
)

// unit is what SAI counts a signal in, in csig's units: bytes/s for bit/s, percent for ppm.
// 0: SAI states no unit that a profile's values could be converted to.
func unit(sig quantize.Signal) uint64 {
	switch sig {
	case quantize.MinABW:
		return 8
	case quantize.MinABWC:
		return 10_000
	case quantize.MaxPD:
		return 1
	}
	return 0
}

// bands are the buckets in SAI's units. Both ends of a band are part of it, and the last
// takes all above it, too.
func bands(sig quantize.Signal, b *quantize.Buckets) (Ranges, error) {
	u := unit(sig)
	if u == 0 {
		return nil, lacks("signal "+sig.String(), "SAI has it as bytes in flight by a normalized speed, without saying by which; the profile has ppm of the queue")
	}
	bounds, out := b.Bounds(), make(Ranges, quantize.NumBuckets)
	for s := range out {
		low, high := bounds[s], bounds[s+1]
		// SAI compares whole units. Bytes/s are whole numbers anyway, so that a bound between
		// two is the upper one; of percents a chip may see fractions.
		if sig == quantize.MinABWC && low%u != 0 {
			return nil, lacks("abwc in percent", "SAI counts abwc in whole percents, and bucket %d begins at %s: give the profile buckets of whole percents", s, quantize.FormatValue(sig, low))
		}
		out[s] = Range{ceil(low, u), ceil(high, u) - 1}
		if s == quantize.NumBuckets-1 {
			out[s].Max = math.MaxUint64
			if sig == quantize.MinABWC {
				out[s].Max = 100
			}
		}
		if out[s].Min > out[s].Max {
			return nil, lacks("bands", "bucket %d of %s has no whole number of SAI's unit in it", s, sig)
		}
	}
	return out, nil
}

func ceil(a, b uint64) uint64 {
	if a%b == 0 {
		return a / b
	}
	return a/b + 1
}

// step is the quantum of wide tags in SAI's units, a power of two.
func step(sig quantize.Signal, quantum uint64) (uint64, error) {
	u := unit(sig)
	if u == 0 {
		_, err := bands(sig, nil)
		return 0, err
	}
	n := quantum / u
	if quantum%u == 0 && n > 0 && n <= math.MaxUint32 && n&(n-1) == 0 {
		return n, nil
	}
	near := uint64(1) << max(0, min(31, bits.Len64(n)-1)) * u
	return 0, lacks("wide step", "the step of wide tags is a power of two of SAI's unit, up to 2147483648, and the profile's quantum of %s is %s: %s would be one", sig, quantize.FormatValue(sig, quantum), quantize.FormatValue(sig, near))
}
