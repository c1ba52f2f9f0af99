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
		b := &box{frames: []func(float64) uint64{steady(rate)}, shown: timer(3, 1.3), cache: 3 * time.Second}
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
	r := watch(b, every(1, 100), RefreshConfig{}, func(i int, _ float64, est []Estimate) {
		last = est[0]
		if i == liveAfter-2 && last.Error < time.Second {
			t.Errorf("after %d readings Δt is already said to be off by %v only", i, last.Error)
		}
	})
	if st := r.Status(); st.Kind != RefreshLive || last.Error != 0 {
		t.Errorf("%+v, Δt off by %v", st, last.Error)
	}
}

// The documented period of an agent whose readings repeat is learned all the same.
func TestDocumentedCacheReadFaster(t *testing.T) {
	b := &box{frames: []func(float64) uint64{steady(5_000)}, shown: timer(3, 1.3), cache: 3 * time.Second}
	wrong, good, r := outside(b, every(1, 200), 0, 5_000*8192)
	if st := r.Status(); wrong > 0 || good < 50 || st.Kind != RefreshPeriodic && st.Kind != RefreshTimer || (st.Period-3*time.Second).Abs() > st.PeriodError {
		t.Errorf("%d of %d wrong, %+v", wrong, good, st)
	}
}

// Of an agent without documentation, a steady load shows the two periods.
func TestInterferenceShowsAHiddenRefresh(t *testing.T) {
	for _, tt := range []struct{ period, gap float64 }{{3, 5}, {3, 4}, {3, 7}, {1, 1.7}, {5, 7}, {2, 5}, {3, 10.7}, {1, 4.4}} {
		b := &box{frames: []func(float64) uint64{steady(5_000)}, shown: timer(tt.period, 0.31*tt.period)}
		wrong, good, r := outside(b, every(tt.gap, 120), 2*maxAmounts, 5_000*8192)
		st := r.Status()
		if st.Kind != RefreshHidden || st.Period < seconds(tt.period) || st.Period > seconds(1.3*tt.period) {
			t.Errorf("%v s read every %v s: %+v", tt.period, tt.gap, st)
		}
		if wrong > 0 || good < 80 {
			t.Errorf("%v s read every %v s: %d of %d estimates are further off than they say", tt.period, tt.gap, wrong, good)
		}
	}
}

// A cache that is filled from another one: the refreshes have a period, and what they bring
// is up to a second old.
func TestCacheBehindACache(t *testing.T) {
	inner, outer := timer(1.003, 0.2), timer(5, 0.7)
	for _, gap := range []float64{1, 2.1, 7, 10} {
		b := &box{frames: []func(float64) uint64{steady(5_000)}, cache: 5 * time.Second, lag: 1003 * time.Millisecond,
			shown: func(at float64) float64 { return inner(max(outer(at), 0.2)) }}
		if wrong, good, r := outside(b, every(gap, 900), 0, 5_000*8192); wrong > 0 || good < 100 {
			t.Errorf("read every %v s: %d of %d estimates are further off than they say; %+v", gap, wrong, good, r.Status())
		}
	}
}

// What is configured gives way to what shows, if that is far longer.
func TestInterferenceBesideAConfiguredPeriod(t *testing.T) {
	for _, tt := range []struct{ configured, want float64 }{{0.1, 3.4}, {3, 3}, {2.5, 2.5}} {
		b := &box{frames: []func(float64) uint64{steady(5_000)}, shown: timer(3, 1)}
		r := watch(b, every(5, 100), RefreshConfig{Period: seconds(tt.configured)}, func(int, float64, []Estimate) {})
		if st := r.Status(); st.Period < seconds(tt.want-0.4) || st.Period > seconds(tt.want) {
			t.Errorf("%v s configured: %+v", tt.configured, st)
		}
	}
}

// What only varies is no interference.
func TestNoInterference(t *testing.T) {
	for name, frames := range map[string]func(float64) uint64{
		"steady":   steady(5_000),
		"one step": func(at float64) uint64 { return uint64(5_000*at + 5_000*max(at-50, 0)) },
		"slow wave": func(at float64) uint64 { // 10 s of 5,000 and 10 s of 10,000 a second
			whole, part := float64(int(at/20)), at-20*float64(int(at/20))
			return uint64(150_000*whole + 5_000*part + 5_000*max(part-10, 0))
		},
		"uneven": func(at float64) uint64 { // ever more
			return uint64(100*at*at + 1000*at)
		},
		"hardly anything": steady(7.3),
	} {
		b := &box{frames: []func(float64) uint64{frames}, shown: onRead}
		_, _, r := outside(b, every(1, 200), 0, 0)
		if st := r.Status(); st.Kind != RefreshLive {
			t.Errorf("%s: %+v", name, st)
		}
	}
}

func TestEven(t *testing.T) {
	for set, want := range map[uint32]bool{
		0b01101101: true, 0b01010101: true, 0b11101110: true, 0b00000001: true, 0b11111111: true, 0: true,
		0b00110011: false, 0b00001111: false, 0b11100101: false, 0b01010001: false, 0b11111101: true,
	} {
		if even(set, 8) != want {
			t.Errorf("%08b: %v", set, !want)
		}
	}
}
