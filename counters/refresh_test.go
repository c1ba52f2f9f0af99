package counters

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// box is a device for tests, kept apart from everything that is tested: ports send
// at known rates, and an agent shows what they had sent when it last looked.
type box struct {
	frames []func(at float64) uint64 // frames sent up to a time in seconds, a port each
	shown  func(at float64) float64  // the time as of which the agent shows counters
	per    []func(at float64) float64
	speed  uint64
	cache  time.Duration // what the agent is documented to do
	lag    time.Duration
}

const frameOctets = 1000

// steady sends that many frames a second.
func steady(rate float64) func(float64) uint64 {
	return func(at float64) uint64 { return uint64(rate * at) }
}

func seconds(s float64) time.Duration { return time.Duration(s * 1e9) }

func (b *box) read(at float64, dst []Sample) []Sample {
	dst = dst[:0]
	for i, f := range b.frames {
		shown := b.shown
		if b.per != nil && b.per[i] != nil {
			shown = b.per[i]
		}
		n := f(max(shown(at), 0))
		dst = append(dst, Sample{
			Port: string(rune('a' + i)), Octets: n * frameOctets, Packets: n, Speed: max(b.speed, gbps), Up: true,
			At: epoch0.Add(seconds(at)), Bits: 64, Overhead: 24, Epoch: 1, Cache: b.cache, Lag: b.lag,
		})
	}
	return dst
}

// onTimer refreshes at phase + k·period.
func onTimer(period, phase float64) func(float64) float64 {
	return func(at float64) float64 {
		if at < phase {
			return 0
		}
		return phase + float64(int64((at-phase)/period))*period
	}
}

// ttl refills at the reading that finds the cache older than life.
func ttl(life float64) func(float64) float64 {
	filled := -1e9
	return func(at float64) float64 {
		if at-filled >= life {
			filled = at
		}
		return filled
	}
}

// onRead shows what is.
func onRead(at float64) float64 { return at }

// watch reads a box at times and returns what the estimator of port 0 said at each,
// and the Refresh.
func watch(b *box, times []float64, cfg RefreshConfig, visit func(i int, at float64, est []Estimate)) *Refresh {
	r := NewRefresh(cfg)
	watchWith(r, b, times, visit)
	return r
}

func watchWith(r *Refresh, b *box, times []float64, visit func(i int, at float64, est []Estimate)) {
	methods := make([]*Estimator, len(b.frames))
	for i := range methods {
		methods[i] = NewEstimator(EstimatorConfig{})
	}
	est := make([]Estimate, len(b.frames))
	var samples []Sample
	for i, at := range times {
		for due := at; ; {
			samples = b.read(due, samples)
			r.Observe(samples)
			for j := range samples {
				est[j] = methods[j].Update(samples[j])
			}
			visit(i, due, est)
			if i+1 == len(times) {
				break
			}
			look := r.Look(epoch0.Add(seconds(times[i+1])))
			if look.IsZero() {
				break
			}
			due = look.Sub(epoch0).Seconds()
		}
	}
}

func every(gap float64, n int) []float64 {
	times := make([]float64, n)
	for i := range times {
		times[i] = gap * float64(i)
	}
	return times
}

// jittered moves times by up to j either way.
func jittered(times []float64, j float64) []float64 {
	rnd := rand.New(rand.NewPCG(7, 7))
	for i := range times {
		times[i] += j * (2*rnd.Float64() - 1)
	}
	return times
}

// The case that a cached agent makes of every poller: counters refreshed each 5 s on
// the agent's own timer and read each second. Over the readings' times the window
// would be off by up to 20 % either way and four of five readings would be zero. Here
// no reading is zero, no Δt is further from the truth than it says, and once the timer has been put to
// the test that is next to nothing.
func TestTimerCacheOf5sReadEachSecond(t *testing.T) {
	const rate = 50_000 // frames/s: 409.6 Mb/s on the wire
	for _, phase := range []float64{0.01, 0.37, 0.5, 0.999} {
		b := &box{frames: []func(float64) uint64{steady(rate), steady(0)}, shown: onTimer(5, phase)}
		refreshes, valid, held := 0, 0, 0
		var worst time.Duration
		r := watch(b, jittered(every(1, 1001), 0.002), RefreshConfig{}, func(_ int, at float64, est []Estimate) {
			e := &est[0]
			switch e.State {
			case OK:
				valid++
			case NotRefreshed:
				held++
				return
			case First:
				return
			default:
				t.Fatalf("at %v: %v (%s)", at, e.State, e.Reason)
			}
			refreshes++
			dt := e.End.Sub(e.Start)
			if off := (dt - 5*time.Second).Abs(); off > e.Error+time.Microsecond {
				t.Fatalf("at %.3f: Δt %v is off by %v and says ±%v", at, dt, off, e.Error)
			}
			if refreshes > 150 && e.Error > 100*time.Millisecond {
				t.Errorf("after %d refreshes Δt ±%v", refreshes, e.Error)
			}
			if refreshes == 160 {
				worst = e.Error
			}
			lo, hi := e.LoadRange()
			if want := uint64(rate * 8 * 1024); lo > want || hi < want {
				t.Fatalf("at %.3f: load %d in [%d, %d], want %d", at, e.Load(), lo, hi, want)
			}
			if est[1].State == OK && est[1].Load() != 0 {
				t.Fatalf("the idle port sends %d", est[1].Load())
			}
		})
		st := r.Status()
		if off := (st.Period - 5*time.Second).Abs(); off > st.PeriodError || st.PeriodError > 20*time.Millisecond {
			t.Errorf("phase %v: period %v ±%v", phase, st.Period, st.PeriodError)
		}
		if st.Kind != RefreshTimer || st.Stuck || valid < 190 || held < 600 {
			t.Errorf("phase %v: %+v, %d valid, %d held", phase, st, valid, held)
		}
		t.Logf("phase %v: %v ±%v after %d refreshes; Δt ±%v at the 160th", phase, st.Period, st.PeriodError, st.Refreshes, worst)
	}
}

// What the same readings are worth without: kept here so that the case stays real.
func TestTimerCacheNeedsLearning(t *testing.T) {
	b := &box{frames: []func(float64) uint64{steady(50_000)}, shown: onTimer(5, 0.37)}
	e := NewEstimator(EstimatorConfig{})
	zero, wrong := 0, 0
	for _, at := range every(1, 101) {
		est := e.Update(b.read(at, nil)[0])
		switch load := est.Load(); {
		case est.State != OK:
		case load == 0:
			zero++
		case load > 2*409_600_000:
			wrong++
		}
	}
	if zero < 75 || wrong < 18 {
		t.Errorf("%d of 100 readings say zero and %d twice the load or more", zero, wrong)
	}
}

// A cache that the reading fills, as net-snmp's of 3 s: the instants are the
// readings', and gaps of 3 s and 4 s alternate without a rule.
func TestCacheFilledByTheReading(t *testing.T) {
	const rate = 50_000
	b := &box{frames: []func(float64) uint64{steady(rate)}, shown: ttl(3)}
	n := 0
	r := watch(b, jittered(every(1, 1201), 0.004), RefreshConfig{}, func(_ int, at float64, est []Estimate) {
		e := &est[0]
		if e.State != OK {
			return
		}
		n++
		want := uint64(rate * 8 * 1024)
		if lo, hi := e.LoadRange(); lo > want+20_000 || hi < want-20_000 {
			t.Fatalf("at %v: load %d in [%d, %d], want %d", at, e.Load(), lo, hi, want)
		}
		if n <= 300 {
			return
		}
		if off := float64(e.Load()) / float64(want); e.Error != 0 || off < 0.9999 || off > 1.0001 {
			t.Errorf("at %v: load off by %v, Δt %v ±%v", at, off, e.End.Sub(e.Start), e.Error)
		}
	})
	if st := r.Status(); st.Kind != RefreshOnDemand || (st.Period-3*time.Second).Abs() > st.PeriodError+time.Microsecond {
		t.Errorf("%+v", st)
	}
}

// Refreshes 3.007 s after the one before, one of fifteen a third of a second late, read each second, as net-snmp's: where
// each was is only known to within readings, and the load is right to 3 % nevertheless, since refreshes take what they usually do.
func TestLikeliestWindow(t *testing.T) {
	const rate = 10_000
	rnd := rand.New(rand.NewPCG(3, 3))
	last, next := 0.0, 0.4
	b := &box{frames: []func(float64) uint64{steady(rate)}, shown: func(at float64) float64 {
		for at >= next {
			last, next = next, next+3.007+0.005*(2*rnd.Float64()-1)
			if rnd.IntN(15) == 0 {
				next += 0.33
			}
		}
		return last
	}}
	windows, doubtful, off := 0, 0, 0
	watch(b, every(1, 300), RefreshConfig{}, func(i int, at float64, est []Estimate) {
		e := &est[0]
		if i < 30 || e.State != OK {
			return
		}
		windows++
		want := 8.0 * rate * (frameOctets + 24)
		lo, hi := e.LoadRange()
		if float64(lo) > want || float64(hi) < want || e.Load() < lo || e.Load() > hi {
			t.Errorf("at %.3f: load %d of %d to %d, want %.0f", at, e.Load(), lo, hi, want)
		}
		if math.Abs(float64(e.Load())/want-1) > 0.03 {
			off++
		}
		if float64(hi-lo) > 0.1*want {
			doubtful++
		}
	})
	if windows < 80 || doubtful < windows/4 || off > windows/8 { // a late one is one of fifteen
		t.Errorf("of %d windows %d are known to 10 %% or worse, and %d are 3 %% off or more", windows, doubtful, off)
	}
}
