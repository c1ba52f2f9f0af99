package counters

import (
	"math"
	"slices"
)

// periodFit finds the period of a source that refreshes its counters on a clock of
// its own, from when the refreshes were seen. It is pure geometry: refresh k is
// known to have happened in (a, b], between the last reading with the old values
// and the first with the new ones. If the source keeps a period P, every two
// refreshes i < j bound it,
//
//	(a[j]-b[i]) / (k[j]-k[i])  <  P  <  (b[j]-a[i]) / (k[j]-k[i]),
//
// and together the bounds are exact: any P that satisfies all pairs also has a
// phase that fits all intervals. So with readings g apart, n refreshes leave an
// error of at most g/(n-1) either way, and much less where the readings' phase moves
// against the refreshes'.
//
// Real timers are late at times. jitter is how far refreshes may be from their
// place for the period still to be called one; it starts at 0 and grows only when
// the readings demand it.
//
// All times are ns since an instant that the owner chose.
type periodFit struct {
	seen   []refreshAt
	last   refreshAt // the newest refresh, seen or only inferred
	lo, hi int64     // the period is in [lo, hi]; hi is math.MaxInt64 while it is unknown

	lost   int // how often in a row the count of refreshes was lost
	jitter int64
	// broken counts down the refreshes for which no fixed period is believed,
	// after one had failed.
	broken int
	// age counts the refreshes since a period failed last, and quick how many
	// times in a row that took few of them.
	age, quick int
}

// refreshAt is when one refresh was: number k, after a and not after b.
type refreshAt struct{ a, b, k int64 }

const (
	maxSeen    = 64
	dropSeen   = maxSeen / 4
	brokenFor  = 32 // refreshes
	maxJitters = 4  // the jitter may be a gap divided by this
	minJitters = 256
)

// restart keeps nothing but that refresh 0 happened in (a, b].
func (f *periodFit) restart(a, b int64) {
	f.last = refreshAt{a, b, 0}
	f.seen = append(f.seen[:0], f.last)
	f.lo, f.hi = 0, math.MaxInt64
	f.jitter, f.age = 0, 0
}

// recount starts to count again at a refresh in (a, b], with what is known of the
// period.
// Where that does not help to count the next one either, it is of no use.
func (f *periodFit) recount(a, b int64) {
	lo, hi, jitter := f.lo, f.hi, f.jitter
	first := f.lost == 0
	f.restart(a, b)
	if f.lost++; first {
		f.lo, f.hi, f.jitter = lo, hi, jitter
	}
}

// known reports whether there are bounds for the period.
func (f *periodFit) known() bool { return f.hi != math.MaxInt64 }

// period is the middle of what the period may be.
func (f *periodFit) period() int64 { return f.lo + (f.hi-f.lo)/2 }

// add takes a refresh in (a, b], n refreshes after the last one; gap is the usual
// distance of two readings.
func (f *periodFit) add(a, b, n, gap int64) {
	f.last, f.lost = refreshAt{a, b, f.last.k + n}, 0
	if len(f.seen) == maxSeen {
		f.seen = append(f.seen[:0], f.seen[dropSeen:]...)
		f.jitter /= 2 // may do by now; else it grows again
		f.fit()
	}
	f.seen = append(f.seen, f.last)
	f.broken = max(0, f.broken-1)
	f.age++
	f.narrow(len(f.seen) - 1)
	failed := false
	for f.lo > f.hi {
		f.jitter = max(2*f.jitter, gap/minJitters, 1)
		if f.jitter > max(gap/maxJitters, 1) {
			// Not one period, or another one than before: what is newer counts.
			failed = true
			f.jitter = 0
			f.seen = append(f.seen[:0], f.seen[len(f.seen)-max(2, len(f.seen)/2):]...)
		}
		f.fit()
	}
	if failed {
		if f.quick++; f.age > 3*enough/4 {
			f.quick = 1
		}
		f.broken, f.age = brokenFor, 0
	}
}

// fit computes the bounds from all points.
func (f *periodFit) fit() {
	f.lo, f.hi = 0, math.MaxInt64
	for j := 1; j < len(f.seen); j++ {
		f.narrow(j)
	}
}

// narrow takes point j against all before it into the bounds.
func (f *periodFit) narrow(j int) {
	q := f.seen[j]
	for i := range f.seen[:j] {
		p := &f.seen[i]
		n := q.k - p.k
		f.lo = max(f.lo, floorDiv(q.a-p.b-2*f.jitter, n))
		f.hi = min(f.hi, -floorDiv(-(q.b-p.a+2*f.jitter), n))
	}
}

// count is how many refreshes after the last one a refresh seen in (a, b] is; sure is
// false where that cannot be known. One is the answer whenever it is possible, unless
// readings are missing, gap being their usual distance.
func (f *periodFit) count(a, b, gap int64) (n int64, sure bool) {
	missing := 2*(b-a) > 3*gap
	switch {
	case !f.known(), f.lo <= 0:
		return 1, !missing
	case missing && (f.jitter > gap/64 || len(f.seen) < 16):
		return 0, false
	}
	from, to := f.last.a, f.last.b
	tolerance := 2 * max(2*f.jitter, gap/minJitters)
	if missing {
		tolerance = max(tolerance, gap/4) // a wrong count would be a whole period off
	}
	least := -floorDiv(-(a - to - tolerance), f.hi) // the first that may be after a
	most := floorDiv(b-from+tolerance, f.lo)        // the last that may be before b
	switch {
	case a-to <= f.hi+f.hi/2:
		// A timer that is late, not refreshes that no reading showed: a busy device shows
		// each. So all but the first came between a and b.
		least, most = min(least, 1), min(most, 1+floorDiv(b-a+tolerance, f.lo))
	case !missing:
		return 0, false // the period became longer, or all traffic paused
	}
	// Where most is less than least the fit finds out what is wrong.
	least = max(least, 1)
	return least, least == 1 && !missing || least >= most
}

// skip moves on by one refresh that no reading showed, up to now at the latest. Nothing
// is to be learned from it, but the next one is counted from it.
func (f *periodFit) skip(now int64) {
	f.last = refreshAt{min(f.last.a+f.lo, now), min(f.last.b+f.hi, now), f.last.k + 1}
}

// timer reports whether one period explains what was seen.
func (f *periodFit) timer(gap int64) bool { return f.broken == 0 && f.jitter <= gap/8 }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// gaps are the last distances of two readings.
type gaps struct {
	last [8]int64
	n    int
}

// add takes the next one and returns the usual distance.
func (g *gaps) add(d int64) (usual int64) {
	g.last[g.n%len(g.last)] = d
	g.n++
	sorted := g.last
	n := min(g.n, len(g.last))
	slices.Sort(sorted[:n])
	if n < 4 {
		return sorted[0]
	}
	return sorted[(n-1)/2]
}
