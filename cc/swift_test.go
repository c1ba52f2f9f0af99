package cc

import (
	"math"
	"testing"

	"github.com/csig-agent/csig/quantize"
)

func testSwift() SwiftConfig {
	c := DefaultSwift(100e9, 10*us, 1000)
	c.Initial, c.Base, c.FSRange = 100, 20*us, 40*us
	return c
}

func delayed(rtt int64, acked uint64, now int64) *Event {
	return &Event{Kind: Acked, Now: now, RTT: rtt, Acked: acked}
}

// TestSwift has the lines of Algorithm 1: windows of packets, a target of 20 µs and what the flows scale.
func TestSwift(t *testing.T) {
	t.Parallel()
	const never, now = -10_000 * us, 0
	for _, x := range []struct {
		name      string
		w         float64
		decreased int64
		e         *Event
		want      float64
	}{
		{"below the target: ai/cwnd for each packet", 100, never, delayed(10*us, 2000, now), 100 + 2.0/100},
		{"with less than a packet: ai", 0.5, never, delayed(10*us, 1000, now), 1.5},
		{"above it: β of what is too much", 100, never, delayed(40*us, 1000, now), 100 * (1 - 0.8*20/40)},
		{"no more than max_mdf", 100, never, delayed(4000*us, 1000, now), 50},
		{"once in a round trip", 100, -39 * us, delayed(40*us, 1000, now), 100},
		{"a packet is lost", 100, never, &Event{Kind: Lost, Now: now}, 50},
		{"nothing is acknowledged", 100, never, &Event{Kind: TimedOut, Now: now}, 50},
	} {
		s := NewSwift(testSwift())
		s.W, s.decreased, s.rtt = x.w, x.decreased, 10*us
		var o Output
		if s.On(x.e, &o); math.Abs(s.W-x.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", x.name, s.W, x.want)
		}
		if (s.W < x.w) != (s.decreased == now) {
			t.Errorf("%s: the last decrease was at %d", x.name, s.decreased)
		}
	}
	s := NewSwift(testSwift())
	var o Output
	for i := range s.ResetTime {
		s.On(&Event{Kind: TimedOut, Now: int64(i) * us}, &o)
	}
	if s.W != s.Least || o.Window != 1000 || o.Rate <= 0 {
		t.Errorf("after timeouts in a row: %v packets, %+v", s.W, o)
	}
}

// TestTarget has §3.5: many flows, whose windows are small, have room for their bursts.
func TestTarget(t *testing.T) {
	t.Parallel()
	s := NewSwift(testSwift())
	for w, want := range map[float64]float64{0.01: 60e6, 0.1: 60e6, 100: 20e6, 400: 20e6} {
		if s.W = w; math.Abs(s.Target()-want) > 1 {
			t.Errorf("with %v packets: %v, want %v", w, s.Target(), want)
		}
	}
	s.W = 1
	if got := s.Target(); got <= 20e6 || got >= 60e6 {
		t.Errorf("with a packet: %v", got)
	}
}

// TestMaxPD has §8.1.1: the bottleneck's delay counts, and the way back does not.
func TestMaxPD(t *testing.T) {
	t.Parallel()
	c := testSwift()
	c.MaxPD = true
	s := NewSwift(c)
	var o Output
	s.On(reflect(quantize.MaxPD, 1000, 1, 1, 2, 100*us), &o)
	if s.W <= 100 || o.Ask != AskSignal(quantize.MaxPD) {
		t.Errorf("a delay of 1 µs: %v, %+v", s.W, o)
	}
	s.W = 100
	s.On(reflect(quantize.MaxPD, 40000, 1, 1, 2, 200*us), &o)
	if !near(s.W, 100*(1-0.8*20/40)) {
		t.Errorf("a delay of 40 µs: %v", s.W)
	}
	s.W = 100
	if s.On(delayed(50*us, 0, 9000*us), &o); !near(s.W, 100*(1-0.8*20/40)) {
		t.Errorf("a round trip 40 µs longer than T, without a signal: %v", s.W)
	}
	s.Ramp, s.W = 1, 100
	if s.On(reflect(quantize.MinABWC, 0, 1, 1, 2, 19000*us), &o); s.W < 100 {
		t.Errorf("another signal says nothing about delay: %v", s.W)
	}
}

// link is one of 100 Gbit/s whose senders see its utilisation, in a round trip of 10 µs, of late round trips before.
func reclaim(s *Swift, late, trips int) (most float64, taken int) {
	var o Output
	past := make([]float64, late+1)
	rate := func() float64 { return s.W * 1000 * 8 / 10e-6 }
	now, taken := int64(0), -1
	for n := 1; n <= trips; n++ {
		now += 10 * us
		copy(past, past[1:])
		past[late] = rate()
		free := max(0, 1-past[0]/100e9)
		for range 10 { // acknowledgements of a round trip
			e := reflect(quantize.MinABWC, uint64(free*1e6), 1, 1, 2, now)
			e.RTT, e.Acked = 10*us, uint64(s.W*1000/10)
			s.On(e, &o)
		}
		most = max(most, rate()/100e9)
		if taken < 0 && rate() >= 99.5e9 {
			taken = n
		}
	}
	return most, taken
}

// TestRamp has §8.1.2: 80 Gbit/s at 400 Mbit/s a round trip in 200 of them, and with kλ 1 in less than 10; the guard bounds how
// far it goes beyond, also where the signal is of some round trips before.
func TestRamp(t *testing.T) {
	t.Parallel()
	c := testSwift()
	c.Initial, c.Most = 25, 1000 // 20 Gbit/s
	c.AI = 400e6 / 8 * 10e-6 / 1000
	if _, n := reclaim(NewSwift(c), 0, 250); n < 195 || n > 201 {
		t.Errorf("without a ramp-up it takes %d round trips", n)
	}
	c.Ramp = 1
	if _, n := reclaim(NewSwift(c), 0, 100); n < 1 || n > 9 {
		t.Errorf("with the guard it takes %d round trips", n)
	}
	c.AI = 1e-3 // what it adds in full links is bounded by delay, and not by the guard
	for late := range 5 {
		c.Age = int64(late) * 10 * us
		if most, n := reclaim(NewSwift(c), late, 100); most > 1.1 || n < 1 {
			t.Errorf("with the guard, %d late: %v of the link, taken after %d round trips", late, most, n)
		}
	}
	c.Guard = false
	if most, n := reclaim(NewSwift(c), 1, 9); n < 1 || n > 9 || most < 1.1 {
		t.Errorf("without it, one late: %d round trips, %v of the link", n, most)
	}
}

// TestJump has §8.1.3: a flow alone in a network of 200 Gbit/s has it in the second round trip.
func TestJump(t *testing.T) {
	t.Parallel()
	c := DefaultSwift(200e9, 10*us, 1000)
	c.Jump, c.Initial = true, 10
	s := NewSwift(c)
	var o Output
	if s.On(&Event{Kind: Began}, &o); o.Ask != AskSignal(quantize.MinABW) {
		t.Errorf("it begins with %+v", o)
	}
	e := reflect(quantize.MinABW, 195e9, 1, 1, 2, 10*us)
	e.RTT = 10 * us
	s.On(e, &o)
	if rate := float64(o.Window) * 8 / 10e-6; rate < 190e9 || rate > 200e9 {
		t.Errorf("after the first signal it sends at %v", rate)
	}
	w := s.W
	if s.On(reflect(quantize.MinABW, 400e9, 1, 1, 2, 10*us), &o); s.W > w+1 {
		t.Errorf("it jumps twice, to %v", s.W)
	}
}

// TestPoseidon has Algorithm 1: a fast flow shrinks at a delay at which a slow one grows.
func TestPoseidon(t *testing.T) {
	t.Parallel()
	c := DefaultPoseidon(100e9, 10*us, 1000)
	p := NewPoseidon(c)
	if got := p.Target(100e9); got != float64(c.K) {
		t.Errorf("the target at line rate is %v", got)
	}
	if got := p.Target(c.Least); !near(got, float64(c.K+c.P)) {
		t.Errorf("the target of the slowest is %v", got)
	}
	if got := p.Ratio(10e9, p.Target(10e9)); !near(got, 1) {
		t.Errorf("at the target the window changes by %v", got)
	}
	if a, b := p.Ratio(100e9, 10*us), p.Ratio(1e9, 10*us); a >= 1 || b <= 1 {
		t.Errorf("at 10 µs by %v of line rate, %v of a hundredth", a, b)
	}
	if a, b := p.Ratio(1e9, 1000*us), p.Ratio(1e8, 0); a != c.MinMD || b != c.MaxMI {
		t.Errorf("bounds: %v, %v", a, b)
	}
	var o Output
	p.On(&Event{Kind: Began}, &o)
	p.W = 100
	e := reflect(quantize.MaxPD, 1_000_000, 1, 1, 2, 100*us)
	if p.On(e, &o); !near(p.W, 100*c.MinMD) {
		t.Errorf("a delay of 1 ms: %v", p.W)
	}
	if p.On(e, &o); !near(p.W, 100*c.MinMD) {
		t.Errorf("twice in a round trip: %v", p.W)
	}
}
