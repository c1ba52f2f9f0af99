package gnmi

import (
	"slices"
	"testing"
	"time"

	"github.com/csig-agent/csig/counters"
)

func TestOutOfOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Ports: []string{"e1"}})
	b.begin("e1", 1000, 10)
	b.sync()
	first := b.clock()
	b.pass(2 * time.Second)
	third := b.clock()
	b.take(leafNote(third, "e1", outOctets, 3000, outPkts, 30))
	b.take(leafNote(first+int64(time.Second), "e1", outOctets, 2000, outPkts, 20))
	b.want("e1", b.read()[0], 3000, 30, third)
	if n := b.s.Info().OutOfOrder; n != 2 {
		t.Errorf("out of order %d, want both leaves", n)
	}
	b.pass(time.Second)
	b.take(leafNote(b.clock(), "e1", outOctets, 4000, outPkts, 40))
	b.want("e1", b.read()[0], 4000, 40, b.clock())
}

// Stragglers among newer updates are no clock that was set back, however many they are.
func TestStragglers(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Ports: []string{"e1"}})
	b.begin("e1", 1000, 10)
	b.sync()
	for i := 2; i < 12; i++ {
		b.pass(time.Second)
		late := b.clock() - int64(900*time.Millisecond)
		b.take(leafNote(b.clock(), "e1", outOctets, 1000*i, outPkts, 10*i))
		b.take(leafNote(late, "e1", outOctets, 5, outPkts, 5))
		b.want("e1", b.read()[0], uint64(1000*i), uint64(10*i), b.clock())
	}
}

func TestTargetsClockSetBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Ports: []string{"e1"}})
	est := counters.NewEstimator(counters.EstimatorConfig{})
	b.begin("e1", 0, 0)
	b.sync()
	var states []counters.State
	for i := range 10 {
		if i == 4 {
			b.offset -= time.Hour
		}
		b.take(leafNote(b.clock(), "e1", outOctets, i*125000, outPkts, i*100))
		states = append(states, est.Update(b.read()[0]).State)
		b.pass(time.Second)
	}
	// Three samples are not believed, then the clock is; no window spans both.
	want := []counters.State{counters.First, counters.OK, counters.OK, counters.OK,
		counters.NoProgress, counters.NoProgress, counters.NoProgress, counters.OK, counters.OK, counters.OK}
	if !slices.Equal(states, want) {
		t.Errorf("states %v\nwant   %v", states, want)
	}
	if s := b.read()[0]; s.Octets != 9*125000 {
		t.Errorf("octets %d after the clock was set back, want the newest", s.Octets)
	}
}

func TestTargetsClockSetForward(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Ports: []string{"e1"}})
	est := counters.NewEstimator(counters.EstimatorConfig{})
	b.begin("e1", 0, 0)
	b.sync()
	var states []counters.State
	for i := range 6 {
		if i == 3 {
			b.offset += time.Hour
		}
		b.take(leafNote(b.clock(), "e1", outOctets, i*125000, outPkts, i*100))
		states = append(states, est.Update(b.read()[0]).State)
		b.pass(time.Second)
	}
	// An hour in which little was sent would be a lie.
	want := []counters.State{counters.First, counters.OK, counters.OK, counters.Discontinuity, counters.OK, counters.OK}
	if !slices.Equal(states, want) {
		t.Errorf("states %v\nwant   %v", states, want)
	}
}

// A target that keeps its counters for a second and stamps them with the time of sending
// looks idle nine times out of ten; a Refresh sees through it.
func TestCachingTargetThroughRefresh(t *testing.T) {
	t.Parallel()
	const interval = 100 * time.Millisecond
	b := newBench(t, Config{Ports: []string{"e1", "e2"}, Interval: interval})
	refresh := counters.NewRefresh(counters.RefreshConfig{})
	est := counters.NewEstimator(counters.EstimatorConfig{Interval: time.Second})
	const load = 100_000_000
	worst, idle, n := 0.0, 0, 0
	for i := range 300 {
		sent := i / 10 * 10 * load / 8 / 10 / (1000 + 20) // frames until the cache was filled
		for _, p := range []string{"e1", "e2"} {
			if i == 0 {
				b.begin(p, 0, 0)
			} else {
				b.take(leafNote(b.clock(), p, outOctets, 1000*sent, outPkts, sent))
			}
		}
		if i == 0 {
			b.sync()
		}
		got := b.read()
		if got[0].Live {
			t.Fatal("the sample says that it is live")
		}
		refresh.Observe(got)
		if e := est.Update(got[0]); i > 100 && e.State == counters.OK {
			n++
			if e.Load() == 0 {
				idle++
			}
			lo, hi := e.LoadRange()
			if lo > load || hi < load {
				worst = max(worst, float64(e.Load())/load)
			}
		}
		b.pass(interval)
	}
	if idle > 0 || worst != 0 || n < 10 {
		t.Errorf("%d windows, %d of them idle, and the load is not within the bounds (%.2f of it)", n, idle, worst)
	}
	if st := refresh.Status(); st.Period < 900*time.Millisecond || st.Period > 1100*time.Millisecond {
		t.Errorf("learned %+v, want a period of 1 s", st)
	}
}

func TestCounterReset(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Ports: []string{"e1"}})
	est := counters.NewEstimator(counters.EstimatorConfig{})
	b.begin("e1", 0, 0)
	b.sync()
	var states []counters.State
	for i, octets := range []int{1_000_000_000, 1_000_125_000, 50, 125_050, 250_050, 375_050} {
		leaves := []any{outOctets, octets, outPkts, octets / 1250}
		if i == 4 {
			// Up again, but cleared in between: only last-clear shows it.
			leaves = append(leaves, lastClear, 77)
		} else if i < 4 {
			leaves = append(leaves, lastClear, 1)
		}
		b.take(leafNote(b.clock(), "e1", leaves...))
		states = append(states, est.Update(b.read()[0]).State)
		b.pass(time.Second)
	}
	want := []counters.State{counters.First, counters.OK, counters.Discontinuity, counters.OK, counters.Discontinuity, counters.OK}
	if !slices.Equal(states, want) {
		t.Errorf("states %v\nwant   %v", states, want)
	}
}

func TestWithoutTimestamps(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Ports: []string{"e1"}})
	for i := range 3 {
		b.take(leafNote(0, "e1", operStatus, "UP", portSpeed, "SPEED_10GB", outOctets, 1000*i, outPkts, i))
		b.sync()
		s := b.read()[0]
		if s.Err != nil || !s.At.Equal(b.now) || !s.Local.IsZero() || s.Live || s.Degraded != noTimestamp || s.Octets != uint64(1000*i) {
			t.Errorf("sample %d: %+v, want it of %v", i, s, b.now)
		}
		b.pass(time.Second)
	}
}

func TestLeafByLeafSkewIsReported(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Ports: []string{"e1"}})
	b.begin("e1", 0, 0)
	b.sync()
	b.pass(time.Second)
	b.take(leafNote(b.clock(), "e1", outOctets, 1000))
	b.take(leafNote(b.clock()+int64(60*time.Millisecond), "e1", outPkts, 1))
	if s := b.read()[0]; s.Octets != 1000 || s.Degraded != skewedPackets {
		t.Errorf("octets %d %q, want the skew of 60 ms reported", s.Octets, s.Degraded)
	}
}
