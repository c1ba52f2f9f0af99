package counters

import (
	"testing"

	"pgregory.net/rapid"
)

// Two refreshes that are both off their places by the jitter still leave room for the
// period.
func TestJitterCountsAtBothEnds(t *testing.T) {
	for _, off := range []int64{10, -10} { // the first, and the second as far the other way
		var f periodFit
		f.restart(off-1, off)
		f.jitter = 10
		f.add(999-off, 1000-off, 1, 1000)
		if f.lo > 1000 || f.hi < 1000 {
			t.Errorf("period in [%d, %d], is 1000", f.lo, f.hi)
		}
	}
}

// Each time that the count is lost the period is remembered, if it had been counted again
// in between.
func TestCountLostMoreThanOnce(t *testing.T) {
	var f periodFit
	at := int64(0)
	f.restart(at-10, at)
	for range 5 {
		for range 10 {
			at += 1000
			f.add(at-10, at, 1, 100)
		}
		at += 7654
		f.recount(at-10, at)
		if !f.known() || f.lo > 1000 || f.hi < 1000 {
			t.Fatalf("period in [%d, %d], is 1000", f.lo, f.hi)
		}
	}
	f.recount(at+500, at+600)
	if f.known() {
		t.Error("a period that did not help to count is still believed")
	}
}

// The oldest quarter of the refreshes goes when there are too many, and those that
// are left keep their numbers.
func TestOldRefreshesAreDropped(t *testing.T) {
	var f periodFit
	f.restart(-10, 0)
	for i := int64(1); i < maxSeen; i++ {
		f.add(1000*i-10, 1000*i, 1, 100)
	}
	if len(f.seen) != maxSeen || f.seen[0].k != 0 {
		t.Fatalf("%d refreshes from number %d on", len(f.seen), f.seen[0].k)
	}
	f.jitter = 8
	f.add(1000*maxSeen-10, 1000*maxSeen, 1, 100)
	if len(f.seen) != maxSeen-dropSeen+1 || f.seen[0].k != dropSeen || f.last.k != maxSeen || f.jitter != 4 {
		t.Errorf("%d refreshes from number %d to %d, jitter %d", len(f.seen), f.seen[0].k, f.last.k, f.jitter)
	}
	if !f.known() || f.lo > 1000 || f.hi < 1000 || f.hi-f.lo > 4 {
		t.Errorf("period in [%d, %d], is 1000", f.lo, f.hi)
	}
}

// A source without a period fails again and again, soon after each time; one whose period
// changes once in a while fails once each time.
func TestPeriodsThatFailSoon(t *testing.T) {
	for _, tc := range []struct{ after, want int }{{3 * enough / 4, 4}, {3*enough/4 + 1, 1}, {2 * enough, 1}} {
		var f periodFit
		f.restart(0, 1)
		at, period := int64(0), int64(1000)
		for range 5 {
			for range tc.after {
				at += period
				f.add(at, at+1, 1, 100)
			}
			period = 3000 - period // 1000 and 2000 in turn
		}
		if f.quick != tc.want {
			t.Errorf("a new period every %d refreshes: %d failed soon, want %d", tc.after, f.quick, tc.want)
		}
		if (f.broken == 0) != (tc.after > brokenFor) {
			t.Errorf("a new period every %d refreshes: broken for %d more", tc.after, f.broken)
		}
	}
}

// The next refresh has number one more, until readings are missing: then the period says.
func TestCount(t *testing.T) {
	fit := func() *periodFit {
		f := &periodFit{}
		f.restart(-10, 0)
		for i := int64(1); i <= 20; i++ {
			f.add(1000*i-10, 1000*i, 1, 100)
		}
		return f
	}
	for name, tc := range map[string]struct {
		a, b int64 // after the last
		n    int64
		sure bool
	}{
		"the next":                       {990, 1000, 1, true},
		"late":                           {1390, 1490, 1, true},
		"too late":                       {1800, 1900, 0, false},
		"late, or one was missed":        {1300, 2300, 1, false},
		"readings are missing, for four": {3300, 4300, 4, true},
		"between two":                    {3100, 3500, 4, true}, // the fit finds out what is wrong
		"two are possible":               {1700, 3700, 2, false},
	} {
		last := int64(20_000)
		n, sure := fit().count(last+tc.a, last+tc.b, 100)
		if n != tc.n || sure != tc.sure {
			t.Errorf("%s: %d, %v; want %d, %v", name, n, sure, tc.n, tc.sure)
		}
	}
	f := fit()
	f.seen = f.seen[:15]
	if n, sure := f.count(22_300, 23_300, 100); n != 0 || sure {
		t.Errorf("readings are missing, and little is known: %d, %v", n, sure)
	}
}

// TestBoundsOfAPeriod: the bounds hold the period, and are no wider than what the readings
// at both ends of what was seen leave open.
func TestBoundsOfAPeriod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		period := rapid.Int64Range(1_000, 10_000).Draw(t, "period")
		gap := rapid.Int64Range(50, period-1).Draw(t, "gap")
		phase := rapid.Int64Range(0, period-1).Draw(t, "phase")
		n := rapid.Int64Range(2, 60).Draw(t, "refreshes")
		seen := func(k int64) (a, b int64) { // the readings before and after a refresh
			b = -floorDiv(-(phase+k*period), gap) * gap
			return b - gap, b
		}
		var f periodFit
		f.restart(seen(0))
		for k := int64(1); k <= n; k++ {
			a, b := seen(k)
			f.add(a, b, 1, gap)
		}
		if f.lo > period || f.hi < period {
			t.Fatalf("a period of %d is not in %d to %d", period, f.lo, f.hi)
		}
		if most := 2*gap/n + 2; f.jitter == 0 && f.hi-f.lo > most {
			t.Errorf("%d refreshes each %d, read each %d: bounds %d to %d, want at most %d apart", n, period, gap, f.lo, f.hi, most)
		}
		if f.jitter != 0 {
			t.Errorf("an exact timer has a jitter of %d", f.jitter)
		}
	})
}
