package counters

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// An agent answers up to so late, looks at its counters at any time meanwhile, and the
// reading's time is the midpoint. No window may be further off than it says.
func TestSlowAnswers(t *testing.T) {
	const rate, want = 50_000, 50_000 * 8192
	for _, tt := range []struct {
		name  string
		shown func() func(float64) float64
		gap   float64
		late  float64
		least int // good estimates of 300 readings
	}{
		{"live", func() func(float64) float64 { return onRead }, 1, 0.25, 290},
		{"live, very late", func() func(float64) float64 { return onRead }, 1, 0.9, 290},
		{"timer", func() func(float64) float64 { return onTimer(3, 0.7) }, 1, 0.25, 90},
		{"timer of 5 s", func() func(float64) float64 { return onTimer(5, 0.7) }, 1, 0.1, 50},
		{"filled by readings", func() func(float64) float64 { return ttl(3) }, 1, 0.25, 70},
		{"filled by readings, quick", func() func(float64) float64 { return ttl(2.5) }, 1, 0.02, 90},
		{"hidden", func() func(float64) float64 { return onTimer(3, 0.7) }, 5, 0.25, 0},
	} {
		for _, method := range []Method{Raw, EWMA} {
			t.Run(fmt.Sprint(tt.name, " ", method), func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(1, 2))
				r := NewRefresh(RefreshConfig{})
				est := NewAverager(method, EstimatorConfig{Interval: 2 * seconds(tt.gap)})
				b := &box{frames: []func(float64) uint64{steady(rate), steady(10)}, shown: tt.shown()}
				if tt.gap > 3 {
					b.cache = 3 * time.Second
				}
				good, worst := 0, 0.0
				sent, next := 0.0, 0.0
				for i := 0; i < 300; {
					if look := r.Look(epoch0.Add(seconds(next))); look.IsZero() {
						sent, next = next, next+tt.gap
						i++
					} else {
						sent = look.Sub(epoch0).Seconds()
					}
					took := tt.late * rnd.Float64()
					s := b.read(sent+took*rnd.Float64(), nil)
					for j := range s {
						s[j].At, s[j].Within = epoch0.Add(seconds(sent+took/2)), seconds(took/2)
					}
					r.Observe(s)
					e := est.Update(s[0])
					if e.State != OK {
						continue
					}
					good++
					lo, hi := e.LoadRange()
					if lo > want+want/100_000 || hi < want-want/100_000 {
						t.Errorf("reading %d: load in [%d, %d], want %d; Δt %v ±%v; %+v", i, lo, hi, want, e.End.Sub(e.Start), e.Error, r.Status())
					}
					if i > 40 && sent+tt.gap == next {
						worst = max(worst, float64(e.Error))
					}
				}
				if good < tt.least {
					t.Errorf("%d good estimates", good)
				}
				if tt.name == "live" && (worst < 1e8 || worst > 2.5e8) {
					t.Errorf("Δt is off by up to %v, answers by 125 ms either way", time.Duration(worst))
				}
			})
		}
	}
}

// The first answers come at once or late, one after the other: what the first windows
// may be off by covers how long each answer took.
func TestLateFirstAnswers(t *testing.T) {
	const rate, want = 50_000, 50_000 * 8192
	wrong := 0
	for seed := range uint64(3000) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		r := NewRefresh(RefreshConfig{})
		est := NewEstimator(EstimatorConfig{})
		b := &box{frames: []func(float64) uint64{steady(rate), steady(10)}, shown: onRead}
		sent := 0.0
		for i := range 6 {
			took := 0.0
			if rnd.IntN(2) == 0 {
				took = rnd.Float64() / 2
			}
			s := b.read(sent+took*rnd.Float64(), nil)
			for j := range s {
				s[j].At, s[j].Within = epoch0.Add(seconds(sent+took/2)), seconds(took/2)
			}
			r.Observe(s)
			e := est.Update(s[0])
			// A window is no shorter than 20 ms, in which a frame is a thousandth.
			if lo, hi := e.LoadRange(); e.State == OK && (lo > want+want/1000 || hi < want-want/1000) {
				if wrong++; wrong < 5 {
					t.Errorf("seed %d, reading %d: load in [%d, %d], want %d; Δt %v ±%v; %+v", seed, i, lo, hi, want, e.End.Sub(e.Start), e.Error, r.Status())
				}
			}
			sent += took + 0.02 + 0.1*rnd.Float64()
		}
	}
	if wrong > 0 {
		t.Errorf("%d wrong windows", wrong)
	}
}
