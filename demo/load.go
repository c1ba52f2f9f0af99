package demo

import (
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
)

// step is one stage of the background load: the wanted utilisation of each
// hop's link, in ppm of its capacity.
type step struct {
	name string
	util []uint64
}

// steps moves the bottleneck from hop to hop. In "split" the two signals name
// different hops: hop 2 has the least bandwidth left, hop 1 the least relative
// to its capacity (draft-00 §5.2.2).
//
// Nothing is busier than 75 %: bandwidth left over is the small difference of
// two large numbers, and at 84 % a load that is off by 2.4 % for one window is
// in another bucket. Here every load may be off by 3.5 %.
var steps = []step{
	{"hop 1 is busy", []uint64{720_000, 150_000, 200_000}},
	{"hop 2 is busy", []uint64{300_000, 790_000, 200_000}},
	{"hop 3 is busy", []uint64{200_000, 200_000, 700_000}},
	{"split", []uint64{640_000, 420_000, 400_000}},
}

// midBucket returns the load in bit/s, within 7 % of the capacity from the
// wanted utilisation, at which both signals stand as far from a bucket's edge
// as can be: there a reading's noise does not change S.
func midBucket(capacity, util uint64, buckets [len(signals)]quantize.Buckets) uint64 {
	best, bestMargin := capacity*util/1_000_000, uint64(0)
	for d := int64(-70_000); d <= 70_000; d += 1_000 {
		u := int64(util) + d
		if u < 10_000 || u > 970_000 {
			continue
		}
		load := capacity * uint64(u) / 1_000_000
		abw := capacity - load
		abwc := abw * 1_000_000 / capacity
		margin := min(edge(&buckets[0], abw)*1_000_000/capacity, edge(&buckets[1], abwc))
		if margin > bestMargin {
			best, bestMargin = load, margin
		}
	}
	return best
}

// bucketsOf are the tables of a fleet's signals.
func bucketsOf(f *inventory.Fleet) (b [len(signals)]quantize.Buckets) {
	for j, sig := range signals {
		b[j] = f.Profile.Signals[sig].Buckets
	}
	return b
}

// edge is the distance from v to the nearer edge of its bucket, in v's unit.
func edge(b *quantize.Buckets, v uint64) uint64 {
	low, high := b.Range(b.Bucket(v))
	return min(v-low, high-v)
}

// drain is how long a link is full when a load begins with a burst of so many
// seconds' worth of itself: what the load leaves free has to carry the burst.
func drain(capacity, load uint64, burst time.Duration) time.Duration {
	if load >= capacity {
		return 0 // it is full for ever
	}
	return time.Duration(float64(burst) * float64(load) / float64(capacity-load))
}
