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
	t.Parallel()
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

// A target that leaves out what has not changed: a port that was busy and falls silent is
// asked about first, and idle once the target says that it stands still.
func TestSuppressedUpdates(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Ports: []string{"e1", "e2"}})
	est := counters.NewEstimator(counters.EstimatorConfig{})
	b.begin("e1", 0, 0)
	b.begin("e2", 0, 0)
	b.sync()
	start := b.clock()
	var loads []uint64
	octets, asked := 0, 0
	for i := 1; i <= 12; i++ {
		b.pass(time.Second)
		b.take(leafNote(b.clock(), "e2", outOctets, i*1000, outPkts, i))
		// e1 sends in the first three seconds and in the last two.
		if i <= 3 || i >= 11 {
			octets += 125000
			b.take(leafNote(b.clock(), "e1", outOctets, octets, outPkts, 0))
		}
		b.pass(500 * time.Millisecond)
		if silent := b.s.silent(b.now, nil); len(silent) > 0 {
			if asked++; silent[0] != 0 || len(silent) > 1 {
				t.Fatalf("second %d: ports %v are asked about, want e1", i, silent)
			}
			b.s.asked = true
			b.s.take(leafNote(b.clock(), "e1", outOctets, octets, outPkts, 0), b.now)
			b.s.asked = false
		}
		s := b.read()[0]
		b.pass(-500 * time.Millisecond)
		if s.Err != nil {
			t.Fatalf("second %d: %v", i, s.Err)
		}
		if at := start + int64(i)*int64(time.Second); at-s.At.UnixNano() > int64(time.Second) || s.At.UnixNano() > at+int64(time.Second) {
			t.Fatalf("second %d: the sample is of %v before", i, time.Duration(at-s.At.UnixNano()))
		}
		if e := est.Update(s); e.State == counters.OK {
			if loads = append(loads, e.Load()/1e6); e.Load() == 0 && asked == 0 {
				t.Errorf("second %d: idle, and the target was not asked", i)
			}
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times about a port that stands still, want once", asked)
	}
	if loads[0] != 1 || loads[1] != 1 || slices.Max(loads[3:len(loads)-2]) != 0 || loads[len(loads)-1] != 1 || loads[len(loads)-2] > 1 {
		t.Errorf("loads %v Mbit/s: want 1 while e1 sends, 0 while it does not", loads)
	}
}

// A busy port that is no longer sampled, while its neighbours are, is not idle: what the
// target says when asked counts, and without an answer nothing is known.
func TestBusyPortThatIsNoLongerSampled(t *testing.T) {
	t.Parallel()
	for _, answers := range []bool{true, false} {
		b := newBench(t, Config{Ports: []string{"e1", "e2"}})
		est := counters.NewEstimator(counters.EstimatorConfig{})
		b.begin("e1", 0, 0)
		b.begin("e2", 0, 0)
		b.sync()
		silent := false
		for i := 1; i <= 20; i++ {
			b.pass(time.Second)
			b.take(leafNote(b.clock(), "e2", outOctets, i*1000, outPkts, i))
			if i <= 3 {
				b.take(leafNote(b.clock(), "e1", outOctets, i*125000, outPkts, 0))
			}
			b.pass(500 * time.Millisecond)
			if answers && slices.Contains(b.s.silent(b.now, nil), 0) {
				b.s.asked = true
				b.s.take(leafNote(b.clock(), "e1", outOctets, i*125000+62500, outPkts, 0), b.now)
				b.s.asked = false
			}
			s := b.read()[0]
			b.pass(-500 * time.Millisecond)
			silent = silent || errors.Is(s.Err, ErrSilent)
			if e := est.Update(s); e.State == counters.OK && e.Load() != 1e6 {
				t.Errorf("answers %v, second %d: load %d over %v, want 1 Mbit/s", answers, i, e.Load(), e.End.Sub(e.Start))
			}
		}
		if silent == answers {
			t.Errorf("answers %v: silent %v", answers, silent)
		}
	}
}

// That a port stands still is believed for a while, then the target is asked again.
func TestIdleIsNotForEver(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Ports: []string{"e1", "e2"}})
	for i := range 2 {
		b.begin("e1", 0, 0)
		b.begin("e2", i, i)
		b.sync()
		b.pass(time.Second)
	}
	b.s.info.Repeats = false // what came twice was the beginning of two streams
	for i := 1; i <= 40; i++ {
		b.take(leafNote(b.clock(), "e2", outOctets, i*1000, outPkts, i))
		b.pass(100 * time.Millisecond)
		s := b.read()[0]
		b.pass(900 * time.Millisecond)
		if asked := slices.Contains(b.s.silent(b.now, nil), 0); asked != (i >= 9) {
			t.Errorf("second %d: asked %v", i, asked)
		}
		if silent := errors.Is(s.Err, ErrSilent); silent != (i >= 19) {
			t.Errorf("second %d: %v", i, s.Err)
		}
	}
}

// Where samples are not quite at equal distances, the instant until which a silent port
// stood still is only known to within that.
func TestIdleInstantSaysHowFarItMayBeOff(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Ports: []string{"e1", "e2"}})
	b.begin("e1", 0, 0)
	b.begin("e2", 0, 0)
	b.sync()
	for i := 1; i <= 8; i++ {
		b.pass(time.Second + time.Duration(i%2)*40*time.Millisecond - 20*time.Millisecond)
		b.take(leafNote(b.clock(), "e2", outOctets, i*1000, outPkts, i))
		b.take(leafNote(b.clock(), "e1", outOctets, 1000*min(i, 6), outPkts, min(i, 6)))
		b.s.info.Repeats = false
	}
	for i := 9; i <= 12; i++ {
		b.pass(time.Second)
		b.take(leafNote(b.clock(), "e2", outOctets, i*1000, outPkts, i))
	}
	b.pass(200 * time.Millisecond)
	b.read()
	b.pass(200 * time.Millisecond)
	s := b.read()[0]
	if off := time.Duration(b.clock()-s.At.UnixNano()) % time.Second; s.Err != nil || s.Within < 100*time.Millisecond || s.Within > 200*time.Millisecond || off < 0 {
		t.Errorf("within %v of %v before (%v), want 40 ms a sample", s.Within, time.Duration(b.clock()-s.At.UnixNano()), s.Err)
	}
}

func TestSilenceOfATargetThatRepeatsIsNotIdleness(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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
