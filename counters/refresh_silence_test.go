package counters

import (
	"math"
	"testing"
)

// TestSilenceIsInferred: where hardly a frame was sent and then none, refreshes that show
// nothing are taken to come as before: their instants are within their stated error, and
// the period is the same when frames are sent again.
func TestSilenceIsInferred(t *testing.T) {
	const period, phase, end, again = 3, 0.7, 100, 200
	r := NewRefresh(RefreshConfig{})
	few := func(at float64) uint64 { return uint64(2 * (min(at, end) + max(at-again, 0))) }
	b := &box{frames: []func(float64) uint64{few, few}, shown: timer(period, phase)}
	given, last := 0, 0.0
	for i := range again + 60 {
		s := b.read(float64(i), nil)
		r.Observe(s)
		if i < end+2*period || i > again || s[0].Fresh != Current {
			continue
		}
		at := s[0].At.Sub(epoch0).Seconds()
		if given > 0 && math.Abs(at-last-period) > 0.2 {
			t.Errorf("reading %d: refreshes at %.2f and %.2f s, want %d s between them", i, last, at, period)
		}
		if off := math.Abs(math.Remainder(at-phase, period)); off > s[0].AtError.Seconds()+1e-6 {
			t.Errorf("reading %d: the refresh at %.2f s is %.2f s off, stated are %v", i, at, off, s[0].AtError)
		}
		given, last = given+1, at
	}
	if want := (again-end)/period - 4; given < want {
		t.Errorf("%d refreshes in silence, want %d", given, want)
	}
	if st := r.Status(); st.Kind != RefreshTimer && st.Kind != RefreshPeriodic || math.Abs(st.Period.Seconds()-period) > 0.1 {
		t.Errorf("afterwards %+v, want a period of %d s", st, period)
	}
}
