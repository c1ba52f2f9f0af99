package counters

import (
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A source that is set to refresh half as often must not look like one that misses
// every second refresh.
func TestPeriodThatChanges(t *testing.T) {
	for _, tt := range []struct{ before, after float64 }{{2, 4}, {3, 6}, {2, 6}, {2, 7}, {1.6, 8}, {5, 3}, {3, 3.5}} {
		first, second := onTimer(tt.before, 0.3), onTimer(tt.after, 100.3)
		b := &box{frames: []func(float64) uint64{steady(50_000)}, shown: func(at float64) float64 {
			if at < 100.3 {
				return first(at)
			}
			return second(at)
		}}
		wrong := 0
		r := watch(b, every(1, 1500), RefreshConfig{}, func(_ int, at float64, est []Estimate) {
			if e := &est[0]; e.State == OK {
				want := uint64(50_000 * 8192)
				if lo, hi := e.LoadRange(); lo > want+want/10_000 || hi < want-want/10_000 {
					wrong++
				}
			}
		})
		st := r.Status()
		if off := (st.Period - seconds(tt.after)).Abs(); off > st.PeriodError+time.Millisecond || st.PeriodError > 50*time.Millisecond {
			t.Errorf("%v s, then %v s: %+v", tt.before, tt.after, st)
		}
		if wrong > 2 {
			t.Errorf("%v s, then %v s: %d estimates are further off than they say", tt.before, tt.after, wrong)
		}
	}
}

func TestClockStepRestartsRefreshLearning(t *testing.T) {
	b := &box{frames: []func(float64) uint64{steady(50_000)}, shown: onTimer(5, 0.4)}
	r := NewRefresh(RefreshConfig{})
	for i, sec := range every(1, 101) {
		s := b.read(sec, nil)
		s[0].Local = s[0].At
		if i == 100 {
			s[0].At = s[0].At.Add(time.Minute)
		}
		r.Observe(s)
	}
	if st := r.Status(); st.Kind != RefreshUnknown || st.Period != 0 {
		t.Errorf("a minute that has not passed is part of what is known: %+v", st)
	}
}

// Errors of instants do not add up from one window start to the next; errors of a
// period do.
func TestErrorOfAWindowOfSeveralRefreshes(t *testing.T) {
	for _, tt := range []struct {
		name     string
		at, step time.Duration
		want     time.Duration
	}{
		{"instants", time.Second, 2 * time.Second, 2 * time.Second},
		{"period", time.Second, 10 * time.Millisecond, 30 * time.Millisecond},
		{"exact", 0, 0, 0},
	} {
		e := NewEstimator(EstimatorConfig{Interval: 15 * time.Second})
		var got Estimate
		for i := range 10 {
			s := at(5000*i, uint64(5000*i), 0)
			s.AtError, s.StepError = tt.at, tt.step
			got = e.Update(s)
		}
		if d := got.End.Sub(got.Start); d != 15*time.Second || got.Error != tt.want {
			t.Errorf("%s: Δt %v ±%v, want ±%v", tt.name, d, got.Error, tt.want)
		}
	}
}

// A documented period that readings cannot show is taken for what it is.
func TestDocumentedPeriod(t *testing.T) {
	b := &box{frames: []func(float64) uint64{steady(50_000)}, shown: onTimer(0.4, 0.1)}
	n := 0
	watch(b, every(1, 100), RefreshConfig{Period: 400 * time.Millisecond}, func(_ int, at float64, est []Estimate) {
		e := &est[0]
		if e.State != OK {
			return
		}
		n++
		want := uint64(50_000 * 8192)
		if lo, hi := e.LoadRange(); lo > want || hi < want {
			t.Errorf("at %v: load %d in [%d, %d], want %d", at, e.Load(), lo, hi, want)
		}
	})
	if n < 90 {
		t.Errorf("%d estimates", n)
	}
}

// Where no rule is relied on yet, the period is known by the readings that showed its two ends, and not by the
// usual distance of readings.
func TestPeriodErrorIsThatOfTheReadings(t *testing.T) {
	b := &box{frames: []func(float64) uint64{steady(50_000)}, shown: onTimer(5, 0.7)}
	var readings []float64
	for sec := range 60 {
		readings = append(readings, float64(sec)+0.5)
		if sec%5 == 0 {
			readings = append(readings, float64(sec)+0.9) // shortly after the refresh
		}
	}
	r := watch(b, readings, RefreshConfig{}, func(int, float64, []Estimate) {})
	if st := r.Status(); st.Kind != RefreshUnknown || (st.Period-5*time.Second).Abs() > st.PeriodError || st.PeriodError > 450*time.Millisecond {
		t.Errorf("learned %+v, want 5 s to within 0.45", st)
	}
}

func TestMixIsTheAverageRoundedUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old, now := rapid.Uint64().Draw(t, "old"), rapid.Uint64().Draw(t, "now")
		keep := rapid.Uint64Range(0, 1<<32).Draw(t, "keep")
		k, whole := new(big.Int).SetUint64(keep), big.NewInt(1<<32)
		want := new(big.Int).Mul(new(big.Int).SetUint64(old), k)
		want.Add(want, new(big.Int).Mul(new(big.Int).SetUint64(now), new(big.Int).Sub(whole, k)))
		want.Add(want, new(big.Int).Sub(whole, big.NewInt(1))).Div(want, whole)
		if got := mix(old, now, keep); want.Cmp(new(big.Int).SetUint64(got)) != 0 {
			t.Fatalf("%d, want %v", got, want)
		}
	})
}

// A port that sends in bursts stands still for its own reasons: the period, and with it the lease, is that of
// a port which sends all the while.
func TestPeriodIsOfPortsThatSend(t *testing.T) {
	bursts := func(each float64) func(float64) uint64 { // on for 3 s of each
		return func(at float64) uint64 {
			whole := float64(int64(at / each))
			return uint64(10_000 * (3*whole + min(at-each*whole, 3)))
		}
	}
	for _, tt := range []struct {
		ports []func(float64) uint64
		most  time.Duration
	}{
		{[]func(float64) uint64{bursts(20), steady(50_000), bursts(30)}, 3 * time.Second},
		{[]func(float64) uint64{bursts(40), bursts(9)}, 9 * time.Second},
	} {
		late := rand.New(rand.NewPCG(1, 2))
		last, next := 0.0, 0.4
		b := &box{frames: tt.ports, shown: func(at float64) float64 {
			for at >= next {
				last, next = next, next+1.5+late.Float64() // no rule
			}
			return last
		}}
		r := watch(b, every(1, 120), RefreshConfig{}, func(int, float64, []Estimate) {})
		if st := r.Status(); st.Period == 0 || st.Period > tt.most {
			t.Errorf("%+v, want a period of at most %v", st, tt.most)
		}
	}
}
