package counters

import (
	"testing"
	"time"
)

// A source that misses two refreshes is late, and one that misses more is stuck.
func TestHowLongIsStuck(t *testing.T) {
	shown := onTimer(3, 0.4)
	b := &box{frames: []func(float64) uint64{steady(1000)}, shown: func(at float64) float64 { return shown(min(at, 150)) }}
	first := 0.0
	watch(b, every(1, 180), RefreshConfig{}, func(_ int, at float64, est []Estimate) {
		if est[0].State == Stale && first == 0 {
			first = at
		}
	})
	// The last refresh shows at 149 s.
	if first < 149+9 || first > 149+16 {
		t.Errorf("stale from %v s on, three refreshes of 3 s after 149 s", first)
	}
}

// A port that stops is idle at the second refresh that others show without it, also
// where no reading repeats.
func TestPortThatStops(t *testing.T) {
	for _, period := range []float64{1.1, 3} {
		stops := func(at float64) uint64 { return uint64(1000 * min(at, 100)) }
		b := &box{frames: []func(float64) uint64{steady(1000), stops}, shown: onTimer(period, 0.07)}
		held := 0
		var last Estimate
		watch(b, every(1, 130), RefreshConfig{}, func(_ int, at float64, est []Estimate) {
			if est[1].State == OK {
				last = est[1]
			}
			if at > 101 && est[1].State == NotRefreshed && est[0].State == OK {
				held++
			}
		})
		if last.Load() != 0 || held > 2 {
			t.Errorf("period %v: %v, load %d; not refreshed %d times while the other port was", period, last.State, last.Load(), held)
		}
	}
}

// The time that a live source stood still is not taken for its period, of which leases are a
// multiple. One that refreshes so rarely from then on has that period.
func TestPauseIsNoPeriod(t *testing.T) {
	for _, again := range []bool{false, true} {
		shown := func(at float64) float64 {
			switch {
			case at > 40 && at < 47, again && at > 47 && at < 54, again && at > 54 && at < 61:
				return 40 + 7*float64(int((at-40)/7))
			}
			return at
		}
		b := &box{frames: []func(float64) uint64{steady(1000)}, shown: shown}
		most, r := time.Duration(0), NewRefresh(RefreshConfig{})
		watchWith(r, b, every(0.5, 160), func(_ int, at float64, _ []Estimate) {
			if at > 63 || again && at > 47 {
				most = max(most, r.Status().Period)
			}
		})
		if again != (most > 2*time.Second) {
			t.Errorf("standing still again %v: a period of %v", again, most)
		}
	}
}
