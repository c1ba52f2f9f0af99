package counters

import "testing"

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
