package counters

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// step feeds a smoother an idle port that starts to send 800 Mb/s at 0, read
// every gap ms, and returns the load after each reading.
func step(f Averager, gapMS, n int) []uint64 {
	f.Update(at(-2*gapMS, 0, 0))
	f.Update(at(-gapMS, 0, 0))
	f.Update(at(0, 0, 0))
	var out []uint64
	for i := 1; i <= n; i++ {
		e := f.Update(at(i*gapMS, uint64(i*gapMS)*100_000, 0))
		out = append(out, e.Load())
	}
	return out
}

func TestTimeConstants(t *testing.T) {
	for _, tt := range []struct {
		name   string
		method Method
		gap    int // ms
		after  int // ms
		want   float64
		off    float64
	}{
		{"ewma, τ in one gap", EWMA, 1000, 1000, 1 - 1/math.E, 1e-6},
		{"ewma, τ in ten", EWMA, 100, 1000, 1 - 1/math.E, 1e-6},
		{"ewma, τ in a thousand", EWMA, 1, 1000, 1 - 1/math.E, 1e-6},
		{"ewma, 3τ", EWMA, 100, 3000, 1 - math.Exp(-3), 1e-6},
		{"ewma, 10τ in one gap", EWMA, 10_000, 10_000, 1 - math.Exp(-10), 1e-6},
		{"dre, like ewma for small gaps", DRE, 1, 1000, 1 - 1/math.E, 1e-3},
		{"dre, ten gaps", DRE, 100, 1000, 1 - math.Pow(0.9, 10), 1e-6},
		{"dre, one gap of τ", DRE, 1000, 1000, 1, 0},
		{"dre, one gap of 3τ", DRE, 3000, 3000, 1, 0},
		{"raw, five of seven readings", Raw, 100, 500, 5.0 / 7, 1e-6}, // two idle gaps before
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := NewAverager(tt.method, EstimatorConfig{Interval: time.Second})
			got := step(f, tt.gap, tt.after/tt.gap)
			if l := float64(got[len(got)-1]) / 800e6; math.Abs(l-tt.want) > tt.off {
				t.Errorf("%.7f of the step, want %.7f", l, tt.want)
			}
		})
	}
}

func TestSmootherReachesAConstantLoad(t *testing.T) {
	for _, m := range []Method{EWMA, DRE} {
		f := NewSmoother(m, EstimatorConfig{Tau: time.Second})
		got := step(f, 100, 600)
		if last := got[len(got)-1]; last != 800_000_000 {
			t.Errorf("%v: %d from below", m, last)
		}
		var e Estimate
		for i := range 1000 { // and back to nothing
			e = f.Update(at(60_000+100*(i+1), 60_000*100_000, 0))
		}
		if l := e.Load(); l > 1 || e.ABW < gbps-1 {
			t.Errorf("%v: %d from above", m, l)
		}
	}
}

func TestSmootherStates(t *testing.T) {
	f := NewSmoother(EWMA, EstimatorConfig{Tau: time.Second})
	for i, tt := range []struct {
		sample Sample
		state  State
		load   uint64
	}{
		{at(0, 0, 0), First, 0},
		{at(1000, 12_500_000, 0), OK, 100_000_000}, // not from zero
		{at(2000, 0, 0, failed), Error, 0},
		{at(2000, 12_500_000, 0, func(s *Sample) { s.Fresh = Held }), NotRefreshed, 0},
		{at(3000, 37_500_000, 0), OK, 100_000_000}, // nothing was dropped
		{at(4000, 0, 0, down), Down, 0},
		{at(5000, 37_500_000, 0), First, 0},
		{at(6000, 137_500_000, 0), OK, 800_000_000}, // the link that came back starts again
		{at(7000, 10, 0, restarted(2)), Discontinuity, 0},
		{at(8000, 10, 0, restarted(2)), OK, 0},
	} {
		e := f.Update(tt.sample)
		if e.State != tt.state || e.Load() != tt.load {
			t.Fatalf("sample %d: %v, load %d, want %v, %d", i, e.State, e.Load(), tt.state, tt.load)
		}
		if e.State == OK && (e.ABW != gbps-tt.load || uint64(e.ABWC) != e.ABW/1000) {
			t.Errorf("sample %d: abw %d, %d ppm", i, e.ABW, e.ABWC)
		}
	}
}

// What is uncertain about each gap stays inside what is uncertain about the average.
func TestSmootherKeepsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom([]Method{EWMA, DRE}).Draw(t, "method")
		f := NewSmoother(m, EstimatorConfig{Tau: time.Duration(rapid.Int64Range(1, 10e9).Draw(t, "tau"))})
		s := at(0, 0, 0)
		s.Overhead = 0 // no packets are counted
		least, most := uint64(math.MaxUint64), uint64(0)
		f.Update(s)
		for range rapid.IntRange(1, 30).Draw(t, "n") {
			gap := time.Duration(rapid.Int64Range(1e6, 5e9).Draw(t, "gap"))
			s.At = s.At.Add(gap)
			s.Octets += rapid.Uint64Range(0, sendable(gbps, gap)).Draw(t, "octets")
			s.StepError = time.Duration(rapid.Int64Range(0, int64(gap)-1).Draw(t, "error"))
			s.AtError = s.StepError
			e := f.Update(s)
			gapLeast, gapMost := (&Estimate{State: OK, Start: e.Start, End: e.End, Bits: e.Bits, Error: e.Error}).LoadRange()
			least, most = min(least, gapLeast), max(most, gapMost)
			lo, hi := e.LoadRange()
			if lo > e.Load() || hi < e.Load() || lo < least || hi > most+1 {
				t.Fatalf("load %d in [%d, %d]; gaps between %d and %d", e.Load(), lo, hi, least, most)
			}
			low, high := e.ABWRange()
			if low > e.ABW || high < e.ABW {
				t.Fatalf("abw %d in [%d, %d]", e.ABW, low, high)
			}
		}
	})
}

func TestExpNeg(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.Uint64Range(0, 1<<40).Draw(t, "a")
		b := rapid.Uint64Range(1, 1<<40).Draw(t, "b")
		want := math.Exp(-float64(a)/float64(b)) * (1 << 32)
		if got := expNeg(a, b); math.Abs(float64(got)-want) > 4 {
			t.Fatalf("e^-(%d/%d) is %d, want %.1f", a, b, got, want)
		}
	})
}

func TestMethodNames(t *testing.T) {
	for _, m := range []Method{Raw, EWMA, DRE} {
		if got, err := ParseMethod(m.String()); err != nil || got != m {
			t.Errorf("%v: %v, %v", m, got, err)
		}
	}
	if _, err := ParseMethod("median"); err == nil || !strings.Contains(err.Error(), "want raw, ewma or dre") || Method(9).String() != "invalid" {
		t.Error(err)
	}
}

func TestSmootherAllocatesNothing(t *testing.T) {
	for _, m := range []Method{EWMA, DRE} {
		f := NewAverager(m, EstimatorConfig{Tau: time.Second})
		s := at(0, 0, 0)
		if n := testing.AllocsPerRun(500, func() {
			s.At = s.At.Add(100 * time.Millisecond)
			s.Octets += 1_000_000
			f.Update(s)
		}); n != 0 {
			t.Errorf("%v: %v allocations an update", m, n)
		}
	}
}
