package counters

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// jittery refreshes at phase + k·period, each up to j later.
func jittery(period, phase, j float64, seed uint64) func(float64) float64 {
	rnd := rand.New(rand.NewPCG(seed, 1))
	last, next := 0.0, phase
	k := 0.0
	return func(at float64) float64 {
		for next <= at {
			last = next
			k++
			next = phase + k*period + j*rnd.Float64()
		}
		return last
	}
}

// Whatever the source does, as long as it is slower than the readings: no Δt is further
// from the truth than it says, no busy port is ever said to be silent, and an idle one is
// never said to send. The truth is the box's own. A timer that strays between
// two readings does so unseen: by that much more Δt may be off.
func TestRefreshAgainstTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gap := 1.0
		// From 1.1 on: a period that is hardly longer than the readings' looks like
		// none for a while: see TestPeriodHardlyLongerThanTheReadings.
		period := rapid.Float64Range(1.1, 12).Draw(t, "period")
		if rapid.Bool().Draw(t, "whole") {
			period = float64(int(period) + 1)
		}
		phase := rapid.Float64Range(0, 1).Draw(t, "phase") * period
		late := rapid.SampledFrom([]float64{0, 0.0005, 0.01, 0.05, 0.3}).Draw(t, "jitter of the source") * period
		late = max(0, min(late, period-1.3*gap)) // two refreshes between two readings cannot be seen
		jitter := rapid.SampledFrom([]float64{0, 0.0003, 0.005, 0.1}).Draw(t, "jitter of the readings")
		period = max(period, gap+2.5*jitter*gap) // the same
		rate := rapid.Float64Range(1000, 100_000).Draw(t, "rate")
		kind := rapid.SampledFrom([]string{"timer", "ttl"}).Draw(t, "kind")
		seed := rapid.Uint64().Draw(t, "seed")

		shown := jittery(period, phase, late, seed)
		if kind == "ttl" {
			// A life of a whole number of readings makes gaps whose order is chance;
			// one in some ten thousand looks like a timer for long enough.
			if off := math.Abs(period - math.Round(period)); off < 0.05 && jitter < 0.1 {
				period += 0.5
			}
			shown = ttl(period)
		}
		b := &box{frames: []func(float64) uint64{steady(rate), steady(0), steady(rate / 3)}, shown: shown}
		times := every(gap, 200)
		rnd := rand.New(rand.NewPCG(seed, 2))
		for i := range times {
			times[i] += jitter * gap * (2*rnd.Float64() - 1)
		}
		drop := rapid.IntRange(0, 400).Draw(t, "a hole in the readings at")
		if drop < len(times)-10 && late <= 0.01*period {
			times = append(times[:drop:drop], times[drop+rapid.IntRange(1, 9).Draw(t, "of"):]...)
		}
		valid := 0
		r := watch(b, times, RefreshConfig{}, func(i int, at float64, est []Estimate) {
			for p, rate := range []float64{rate, 0, rate / 3} {
				e := &est[p]
				if e.State != OK {
					continue
				}
				valid++
				lo, hi := e.LoadRange()
				want := rate * 8192
				// What a frame more or less makes of it.
				tolerance := 2 * 8192 / max(e.End.Sub(e.Start)-e.Error, time.Millisecond).Seconds()
				if float64(lo) <= want*1.00001+tolerance && float64(hi) >= want*0.99999-tolerance {
					continue
				}
				if off := math.Abs(float64(e.Bits)/want-e.End.Sub(e.Start).Seconds()) - e.Error.Seconds(); off > 2*late || late == 0 {
					t.Fatalf("reading %d, port %d: Δt %v ±%v, load %d in [%d, %d], want %.0f", i, p, e.End.Sub(e.Start), e.Error, e.Load(), lo, hi, want)
				}
			}
			for p := range est {
				if e := &est[p]; e.State == OK && (e.Load() == 0) != (p == 1) {
					t.Fatalf("reading %d, port %d: load %d", i, p, e.Load())
				}
			}
		})
		if valid < 3*len(times)/20 {
			t.Fatalf("only %d estimates of %d readings", valid, len(times))
		}
		st := r.Status()
		if kind == "timer" && late == 0 && st.Kind != RefreshLive && st.Refreshes > 3 {
			if off := (st.Period - seconds(period)).Abs(); off > st.PeriodError+time.Microsecond {
				t.Fatalf("period %v ±%v, want %v", st.Period, st.PeriodError, seconds(period))
			}
		}
	})
}

// A missing reading may be the one that would have repeated the one before: it does not
// count towards a source that refreshes for each reading.
func TestMissingReadingIsNoSignOfALiveSource(t *testing.T) {
	const rate, period = 1000, 1.34375
	for _, hole := range []int{2, 3, 4} {
		times := every(1, 40)
		times = append(times[:hole:hole], times[hole+1:]...)
		b := &box{frames: []func(float64) uint64{steady(rate)}, shown: jittery(period, period, 0, 0)}
		watch(b, times, RefreshConfig{}, func(i int, _ float64, est []Estimate) {
			if e := &est[0]; e.State == OK {
				if lo, hi := e.LoadRange(); lo > rate*8192+16384 || hi < rate*8192-16384 {
					t.Errorf("without reading %d: reading %d: Δt %v ±%v, load in [%d, %d], want %d", hole, i, e.End.Sub(e.Start), e.Error, lo, hi, rate*8192)
				}
			}
		})
	}
}

func TestPeriodHardlyLongerThanTheReadings(t *testing.T) {
	const rate = 50_000
	for _, period := range []float64{1.001, 1.003, 1.01, 1.03, 1.1} {
		doubt, wrong, n := 0, 0, 0
		b := &box{frames: []func(float64) uint64{steady(rate)}, shown: timer(period, 0.5)}
		watch(b, every(1, 2000), RefreshConfig{}, func(_ int, at float64, est []Estimate) {
			e := &est[0]
			if e.State != OK {
				return
			}
			n++
			want := uint64(rate * 8192)
			if lo, hi := e.LoadRange(); lo > want+20_000 || hi < want-20_000 {
				wrong++
				if off := float64(e.Load()) / float64(want); off < 1-1.0/liveAfter || off > 1+1.0/liveAfter {
					t.Errorf("period %v, at %v: Δt %v ±%v, load off by %v", period, at, e.End.Sub(e.Start), e.Error, off)
				}
			}
			if e.Error > 50*time.Millisecond {
				doubt++
			}
		})
		t.Logf("period %v: of %d estimates %d are doubtful by more than 50 ms, %d off by up to 1/%d", period, n, doubt, wrong, liveAfter)
	}
}

// The fit's bounds are the tightest there are: a period inside them has a phase
// that fits every refresh, one outside has none.
func TestPeriodBoundsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		period := rapid.Int64Range(1100, 9000).Draw(t, "period")
		phase := rapid.Int64Range(0, 9000).Draw(t, "phase")
		var f periodFit
		var all []refreshAt
		for k := range int64(rapid.IntRange(3, maxSeen).Draw(t, "n")) {
			at := phase + k*period
			b := (at + 999) / 1000 * 1000 // read each 1000; seen at the first reading not before it
			all = append(all, refreshAt{b - 1000, b, k})
			if k == 0 {
				f.restart(b-1000, b)
			} else {
				f.add(b-1000, b, 1, 1000)
			}
		}
		fits := func(p, scale int64) bool { // is there a phase? p is in 1/scale
			lo, hi := all[0].a*scale, all[0].b*scale
			for _, x := range all {
				lo, hi = max(lo, x.a*scale-x.k*p), min(hi, x.b*scale-x.k*p)
			}
			return lo <= hi
		}
		if f.jitter != 0 || f.lo > period || f.hi < period {
			t.Fatalf("%+v, period %d", f, period)
		}
		if !fits(f.lo+1, 1) && f.lo+1 < f.hi || !fits(f.hi-1, 1) && f.hi-1 > f.lo || fits(f.lo-1, 1) || fits(f.hi+1, 1) {
			t.Fatalf("[%d, %d] is not exact", f.lo, f.hi)
		}
	})
}
