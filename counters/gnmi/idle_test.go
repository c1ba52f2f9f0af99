package gnmi

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/counters"
)

// What is known of the other ports says nothing of the time since a sample began to
// arrive.
func TestIdleEndsWhereANewSampleBegins(t *testing.T) {
	b := newBench(t, Config{Ports: []string{"e1", "e2"}})
	for _, p := range []string{"e1", "e2"} {
		b.take(leafNote(b.clock(), p, operStatus, "UP", portSpeed, "SPEED_10GB", outOctets, 0, outUnicast, 0, outMulticast, 0, outBroadcast, 0))
	}
	b.sync()
	start := b.clock()
	b.pass(time.Second)
	b.take(leafNote(b.clock(), "e2", outOctets, 100, outUnicast, 1))
	b.take(leafNote(b.clock(), "e1", outOctets, 200))
	b.pass(90 * time.Millisecond)
	b.take(leafNote(start+int64(time.Second), "e1", outMulticast, 1))
	b.pass(20 * time.Millisecond)
	b.read()
	b.pass(40 * time.Millisecond)
	b.take(leafNote(start+int64(time.Second), "e1", outBroadcast, 1))
	b.pass(65 * time.Millisecond) // e2's is old enough by now, e1's may be incomplete
	b.want("e1", b.read()[0], 0, 0, start)
	b.pass(50 * time.Millisecond)
	b.want("e1", b.read()[0], 200, 2, start+int64(time.Second))
}

func TestSuppressedUpdates(t *testing.T) {
	b := newBench(t, Config{Ports: []string{"e1", "e2"}})
	est := counters.NewEstimator(counters.EstimatorConfig{})
	b.begin("e1", 0, 0)
	b.begin("e2", 0, 0)
	b.sync()
	start := b.clock()
	var loads []uint64
	for i := 1; i <= 12; i++ {
		b.pass(time.Second)
		b.take(leafNote(b.clock(), "e2", outOctets, i*1000, outPkts, i))
		// e1 sends in the first three seconds and in the last two.
		if sent := map[int]int{1: 125000, 2: 250000, 3: 375000, 11: 500000, 12: 625000}[i]; sent != 0 {
			b.take(leafNote(b.clock(), "e1", outOctets, sent, outPkts, 0))
		}
		b.pass(500 * time.Millisecond)
		s := b.read()[0]
		b.pass(-500 * time.Millisecond)
		if s.Err != nil {
			t.Fatalf("second %d: %v", i, s.Err)
		}
		if at := start + int64(i)*int64(time.Second); at-s.At.UnixNano() > int64(time.Second) || s.At.UnixNano() > at {
			t.Fatalf("second %d: the sample is of %v before", i, time.Duration(at-s.At.UnixNano()))
		}
		e := est.Update(s)
		if e.State == counters.OK {
			loads = append(loads, e.Load()/1e6)
		}
	}
	if loads[0] != 1 || loads[1] != 1 || slices.Max(loads[2:len(loads)-2]) != 0 || loads[len(loads)-1] != 1 || loads[len(loads)-2] > 1 {
		t.Errorf("loads %v Mbit/s: want 1 while e1 sends, 0 while it does not", loads)
	}
}

func TestSilenceOfATargetThatRepeatsIsNotIdleness(t *testing.T) {
	b := newBench(t, Config{Ports: []string{"e1", "e2"}})
	b.begin("e1", 0, 0)
	b.begin("e2", 0, 0)
	b.sync()
	for i := 1; i <= 10; i++ {
		b.pass(time.Second)
		b.take(leafNote(b.clock(), "e2", outOctets, 0, outPkts, 0)) // unchanged, and sent
		if i == 1 {
			b.take(leafNote(b.clock(), "e1", outOctets, 1000, outPkts, 1))
		}
	}
	got := b.read()
	if !errors.Is(got[0].Err, ErrSilent) || got[1].Err != nil {
		t.Errorf("e1 %v, want ErrSilent; e2 %v", got[0].Err, got[1].Err)
	}
	if !b.s.Info().Repeats {
		t.Error("Info does not say that the target repeats")
	}
}

func TestSilenceOfAllIsNotIdleness(t *testing.T) {
	b := newBench(t, Config{Ports: []string{"e1"}})
	b.begin("e1", 0, 0)
	b.sync()
	at := b.clock()
	b.pass(3 * time.Second)
	b.want("e1", b.read()[0], 0, 0, at) // as old as it is
	b.pass(3 * time.Second)
	if err := b.read()[0].Err; !errors.Is(err, ErrSilent) || !strings.Contains(err.Error(), "6s") {
		t.Errorf("after 6 s: %v, want ErrSilent with the time", err)
	}
	b.take(leafNote(b.clock(), "e1", operStatus, "DOWN"))
	if s := b.read()[0]; s.Err != nil || s.Up {
		t.Errorf("a port that is down may be silent: %v", s.Err)
	}
}

func TestSlowTargetIsNotSilent(t *testing.T) {
	b := newBench(t, Config{Ports: []string{"e1"}})
	b.begin("e1", 0, 0)
	b.sync()
	for i := 1; i < 10; i++ {
		b.pass(10 * time.Second)
		b.take(leafNote(b.clock(), "e1", outOctets, 1000*i, outPkts, i))
	}
	b.pass(9 * time.Second)
	if err := b.read()[0].Err; err != nil {
		t.Errorf("9 s after a sample of a target that sends one in 10 s: %v", err)
	}
}
