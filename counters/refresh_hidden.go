package counters

import (
	"math/bits"
	"slices"
	"time"
)

// interference finds a refresh period that is shorter than the distance of the
// readings. Every reading then differs, but holds k or k+1 refreshes' worth of
// traffic: at a steady load the amounts take two values in the ratio k+1 to k,
// spread as evenly as the two periods' difference spreads them.
type interference struct {
	frames [maxAmounts]uint64 // of the last gaps, a ring
	n      int                // gaps seen

	// period is what showed, 0 for nothing yet. It stays until learning
	// starts over: loads that are less steady hide it again.
	period time.Duration
}

const (
	maxAmounts = 16 // gaps looked at
	minAmounts = 8
	// mostRefreshes is how many refreshes a reading may hold for one more to show.
	mostRefreshes = 6
	// fewestFrames is how many frames a gap must have for its amount to mean
	// anything.
	fewestFrames = 32
)

// add takes how many frames a gap held; gap is the usual distance of readings, in ns.
func (x *interference) add(frames uint64, gap int64) {
	x.frames[x.n%maxAmounts] = frames
	x.n++
	if x.period != 0 || x.n < minAmounts {
		return
	}
	if p := x.find(gap); p != 0 {
		x.period = p
	}
}

// find returns the period that the amounts show, rounded up, or 0.
func (x *interference) find(gap int64) time.Duration {
	n := min(x.n, maxAmounts)
	sorted := x.frames
	slices.Sort(sorted[:n])
	cut, _ := slices.BinarySearch(sorted[:n], (sorted[0]+sorted[n-1])/2+1)
	if cut < 2 || n-cut < 2 || sorted[0] < fewestFrames {
		return 0
	}
	low, high := mean(sorted[:cut]), mean(sorted[cut:n])
	step := high - low
	if step == 0 || 8*max(sorted[cut-1]-sorted[0], sorted[n-1]-sorted[cut]) > step {
		return 0 // not two values
	}
	k := (low + step/2) / step // refreshes of a gap with little in it
	if k < 1 || k > mostRefreshes || 8*max(k*step, low)-8*min(k*step, low) > step {
		return 0 // not in the ratio of k+1 to k
	}
	var long uint32 // bit i: gap i, from the oldest, held one more
	for i := range n {
		if x.frames[(x.n-n+i)%maxAmounts] >= sorted[cut] {
			long |= 1 << i
		}
	}
	if !even(long, n) {
		return 0
	}
	// n gaps hold k·n refreshes and one more for each long one, give or take one.
	return time.Duration(int64(n)*gap/(int64(k)*int64(n)+int64(n-cut)-1) + 1)
}

// even reports whether the n lowest bits of set are spread as evenly as possible: any
// two stretches of one length hold as many, or one more.
func even(set uint32, n int) bool {
	for length := 1; length < n; length++ {
		least, most := n, 0
		for from := 0; from+length <= n; from++ {
			count := bits.OnesCount32(set >> from & (1<<length - 1))
			least, most = min(least, count), max(most, count)
		}
		if most-least > 1 {
			return false
		}
	}
	return true
}

func mean(list []uint64) uint64 {
	var sum uint64
	for _, v := range list {
		sum += v / uint64(len(list))
	}
	return sum
}

// documented is what is known of the source's period without having seen it: what is
// configured, else what its samples say.
func (r *Refresh) documented() time.Duration {
	switch {
	case r.cfg.Period > 0:
		return r.cfg.Period
	case r.row >= liveAfter && r.cache > time.Duration(r.gap+r.gap/2):
		return 0 // readings that would have to repeat do not: it does not apply here
	}
	return r.cache
}

// hidden is the period at which the source refreshes between two readings: values that
// differ at each of them are up to that old. 0 where there is none known.
func (r *Refresh) hidden() time.Duration {
	if d := r.documented(); 2*d > r.mix.period {
		return d // what shows is a rough figure
	}
	return r.mix.period
}

// maxPeriod is RefreshConfig.MaxPeriod, or longer where the source's documented
// period is.
func (r *Refresh) maxPeriod() int64 {
	return int64(max(r.cfg.MaxPeriod, stuckAfter*r.cache))
}
