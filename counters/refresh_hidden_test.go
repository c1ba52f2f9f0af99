package counters

import (
	"strings"
	"testing"
	"time"
)

// outside counts the estimates after the first skip readings whose range does not hold
// the true load.
func outside(b *box, times []float64, skip int, want uint64) (wrong, good int, r *Refresh) {
	r = watch(b, times, RefreshConfig{}, func(i int, _ float64, est []Estimate) {
		if e := &est[0]; e.State == OK && i >= skip {
			good++
			if lo, hi := e.LoadRange(); lo > want || hi < want {
				wrong++
			}
		}
	})
	return wrong, good, r
}

// net-snmp on Linux read every 5 s shows 24, 48 and 48 Mbit/s of a constant 40. An agent
// that is known to do so is believed from the start.
func TestHiddenRefreshOfADocumentedAgent(t *testing.T) {
	const rate = 5_000 // frames of 1,024 bytes on the wire: 41 Mbit/s
	for _, gap := range []float64{5, 4.7, 3.1, 10} {
		b := &box{frames: []func(float64) uint64{steady(rate)}, shown: onTimer(3, 1.3), cache: 3 * time.Second}
		wrong, good, r := outside(b, every(gap, 100), 0, rate*8192)
		if wrong > 0 || good < 90 {
			t.Errorf("read every %v s: %d of %d estimates are further off than they say", gap, wrong, good)
		}
		st := r.Status()
		if st.Kind != RefreshHidden || st.Period != 3*time.Second || !st.Kind.EveryReading() {
			t.Errorf("read every %v s: %+v", gap, st)
		}
		interval := seconds(gap)
		if note := st.IntervalNote(interval); !strings.Contains(note, "refreshes every 3s, between the readings") || st.Achieved(interval) != interval {
			t.Errorf("read every %v s: %q, achieved %v", gap, note, st.Achieved(interval))
		}
	}
}

// The documentation gives way to readings that contradict it: with a cache of 10 s some
// of the readings at 1 s would repeat.
func TestDocumentedCacheThatIsNotThere(t *testing.T) {
	b := &box{frames: []func(float64) uint64{steady(5_000)}, shown: onRead, cache: 10 * time.Second}
	var last Estimate
	r := watch(b, every(1, 100), RefreshConfig{}, func(_ int, _ float64, est []Estimate) {
		last = est[0]
	})
	if st := r.Status(); st.Kind != RefreshLive || last.Error != 0 {
		t.Errorf("%+v, Δt off by %v", st, last.Error)
	}
}

// The documented period of an agent whose readings repeat is learned all the same.
func TestDocumentedCacheReadFaster(t *testing.T) {
	b := &box{frames: []func(float64) uint64{steady(5_000)}, shown: onTimer(3, 1.3), cache: 3 * time.Second}
	wrong, good, r := outside(b, every(1, 400), 0, 5_000*8192)
	if st := r.Status(); wrong > 0 || good < 50 || st.Kind != RefreshTimer || (st.Period-3*time.Second).Abs() > st.PeriodError {
		t.Errorf("%d of %d wrong, %+v", wrong, good, st)
	}
}

// A cache that is filled from another one: the refreshes have a period, and what they bring
// is up to a second old.
func TestCacheBehindACache(t *testing.T) {
	inner, outer := onTimer(1.003, 0.2), onTimer(5, 0.7)
	for _, gap := range []float64{1, 2.1, 7, 10} {
		b := &box{frames: []func(float64) uint64{steady(5_000)}, cache: 5 * time.Second, lag: 1003 * time.Millisecond,
			shown: func(at float64) float64 { return inner(max(outer(at), 0.2)) }}
		if wrong, good, r := outside(b, every(gap, 900), 0, 5_000*8192); wrong > 0 || good < 100 {
			t.Errorf("read every %v s: %d of %d estimates are further off than they say; %+v", gap, wrong, good, r.Status())
		}
	}
}
