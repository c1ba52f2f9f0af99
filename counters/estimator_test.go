package counters

import (
	"errors"
	"strings"
	"testing"
	"time"
)

const (
	gbps = 1_000_000_000
	tbps = 1000 * gbps
)

var epoch0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// at returns an up, 64-bit, 1 Gb/s reading so many milliseconds after epoch0.
func at(ms int, octets, packets uint64, edit ...func(*Sample)) Sample {
	s := Sample{
		Port: "swp1", Octets: octets, Packets: packets, Speed: gbps, Up: true,
		At: epoch0.Add(time.Duration(ms) * time.Millisecond), Bits: 64, Overhead: 24, Epoch: 1,
	}
	for _, f := range edit {
		f(&s)
	}
	return s
}

func down(s *Sample)                   { s.Up = false }
func narrow(s *Sample)                 { s.Bits = 32 }
func failed(s *Sample)                 { *s = Sample{Port: s.Port, At: s.At, Err: errors.New("no such instance")} }
func speed(v uint64) func(*Sample)     { return func(s *Sample) { s.Speed = v } }
func restarted(e uint64) func(*Sample) { return func(s *Sample) { s.Epoch = e } }

type want struct {
	state  State
	window int // ms
	bits   uint64
	abw    uint64
	abwc   uint32
	reason string // contained in Reason
}

func TestEstimator(t *testing.T) {
	const wrap32 = 1 << 32
	const top64 = 1<<64 - 1
	tests := []struct {
		name    string
		cfg     EstimatorConfig
		samples []Sample
		want    []want
	}{
		{
			name:    "idle port",
			samples: []Sample{at(0, 7, 7), at(1000, 7, 7)},
			want:    []want{{state: First, reason: "first"}, {OK, 1000, 0, gbps, 1_000_000, ""}},
		},
		{
			// 10,000 frames of 1,226 octets are 1,250 bytes each on the wire.
			name:    "overhead of preamble, gap and FCS",
			samples: []Sample{at(0, 0, 0), at(1000, 12_260_000, 10_000)},
			want:    []want{{state: First}, {OK, 1000, 100_000_000, 900_000_000, 900_000, ""}},
		},
		{
			name:    "interval comes from the timestamps, not the schedule",
			cfg:     EstimatorConfig{Interval: time.Second},
			samples: []Sample{at(0, 0, 0), at(1250, 12_500_000, 0)},
			want:    []want{{state: First}, {OK, 1250, 100_000_000, 920_000_000, 920_000, ""}},
		},
		{
			name:    "bandwidth is rounded down",
			samples: []Sample{at(0, 0, 0), at(3000, 1, 0)},
			want:    []want{{state: First}, {OK, 3000, 8, gbps - 3, 999_999, ""}},
		},
		{
			name:    "full port",
			samples: []Sample{at(0, 0, 0), at(1000, 125_000_000, 0)},
			want:    []want{{state: First}, {OK, 1000, gbps, 0, 0, ""}},
		},
		{
			name:    "a burst above capacity is no error",
			samples: []Sample{at(0, 0, 0), at(1000, 150_000_000, 0), at(2000, 150_000_000, 0)},
			want:    []want{{state: First}, {OK, 1000, 1_200_000_000, 0, 0, ""}, {OK, 1000, 0, gbps, 1_000_000, ""}},
		},
		{
			name:    "1.6 Tb/s for a day",
			samples: []Sample{at(0, 0, 0, speed(1_600_000_000_000)), at(86_400_000, 86_400*150_000_000_000, 0, speed(1_600_000_000_000))},
			want:    []want{{state: First}, {OK, 86_400_000, 86_400 * 12 * tbps / 10, 4 * tbps / 10, 250_000, ""}},
		},
		{
			name:    "configured speed wins",
			cfg:     EstimatorConfig{Speed: 500_000_000},
			samples: []Sample{at(0, 0, 0), at(1000, 12_500_000, 0, speed(10*gbps))},
			want:    []want{{state: First}, {OK, 1000, 100_000_000, 400_000_000, 800_000, ""}},
		},
		{
			name:    "capacity unknown names the setting",
			samples: []Sample{at(0, 0, 0, speed(0)), at(1000, 0, 0, speed(0)), at(2000, 0, 0), at(3000, 0, 0)},
			want:    []want{{state: Error, reason: "capacity unknown"}, {state: Error, reason: "set speed:"}, {state: First}, {OK, 1000, 0, gbps, 1_000_000, ""}},
		},
		{
			name:    "link down is valid and zero; the link that comes back starts again",
			samples: []Sample{at(0, 0, 0), at(1000, 0, 0, down), at(2000, 12_500_000, 0), at(3000, 12_500_000, 0)},
			want:    []want{{state: First}, {state: Down, reason: "link down"}, {state: First}, {OK, 1000, 0, gbps, 1_000_000, ""}},
		},
		{
			name:    "down needs no capacity",
			samples: []Sample{at(0, 0, 0, down, speed(0))},
			want:    []want{{state: Down, reason: "link down"}},
		},
		{
			name:    "speed change",
			samples: []Sample{at(0, 0, 0), at(1000, 0, 0, speed(10*gbps)), at(2000, 125_000_000, 0, speed(10*gbps))},
			want:    []want{{state: First}, {state: Discontinuity, reason: "speed"}, {OK, 1000, gbps, 9 * gbps, 900_000, ""}},
		},
		{
			name:    "counters restarted",
			samples: []Sample{at(0, 50, 1), at(1000, 60, 2, restarted(2)), at(2000, 60, 2, restarted(2))},
			want:    []want{{state: First}, {state: Discontinuity, reason: "restarted"}, {OK, 1000, 0, gbps, 1_000_000, ""}},
		},
		{
			name:    "64-bit wrap",
			samples: []Sample{at(0, top64-999, 0), at(1000, 12_499_000, 0)},
			want:    []want{{state: First}, {OK, 1000, 100_000_000, 900_000_000, 900_000, ""}},
		},
		{
			name:    "64-bit counter reset to zero",
			samples: []Sample{at(0, 1<<40, 1<<30), at(1000, 500, 5), at(2000, 12_500_500, 5)},
			want:    []want{{state: First}, {state: Discontinuity, reason: "reset"}, {OK, 1000, 100_000_000, 900_000_000, 900_000, ""}},
		},
		{
			name:    "packet counter reset alone",
			samples: []Sample{at(0, 1000, 1<<30), at(1000, 2000, 5)},
			want:    []want{{state: First}, {state: Discontinuity, reason: "reset"}},
		},
		{
			name:    "32-bit wrap of octets",
			samples: []Sample{at(0, wrap32-1000, 0, narrow), at(1000, 12_499_000, 0, narrow)},
			want:    []want{{state: First}, {OK, 1000, 100_000_000, 900_000_000, 900_000, ""}},
		},
		{
			name:    "32-bit wrap of packets",
			samples: []Sample{at(0, 0, wrap32-4, narrow), at(1000, 1202, 6, narrow)},
			want:    []want{{state: First}, {OK, 1000, 8 * (1202 + 240), gbps - 8*1442, 999_988, ""}},
		},
		{
			name:    "a wrap within a burst above capacity",
			samples: []Sample{at(0, wrap32-1000, 0, narrow), at(1000, 150_000_000-1000, 0, narrow)},
			want:    []want{{state: First}, {OK, 1000, 1_200_000_000, 0, 0, ""}},
		},
		{
			name:    "32-bit reset in the middle",
			samples: []Sample{at(0, wrap32/2, 0, narrow), at(1000, 500, 0, narrow), at(2000, 500, 0, narrow)},
			want:    []want{{state: First}, {state: Discontinuity, reason: "reset"}, {OK, 1000, 0, gbps, 1_000_000, ""}},
		},
		{
			name:    "32-bit counter that may have wrapped twice is not guessed",
			samples: []Sample{at(0, 0, 0, narrow), at(40_000, 100, 0, narrow), at(41_000, 12_500_100, 0, narrow)},
			want:    []want{{state: First}, {state: Error, reason: "wrap more than once"}, {OK, 1000, 100_000_000, 900_000_000, 900_000, ""}},
		},
		{
			name:    "64-bit counter may take its time",
			samples: []Sample{at(0, 0, 0), at(40_000, 500_000_000, 0)},
			want:    []want{{state: First}, {OK, 40_000, 4 * gbps, 900_000_000, 900_000, ""}},
		},
		{
			name:    "same reading twice keeps the window open",
			samples: []Sample{at(0, 0, 0), at(0, 0, 0), at(1000, 12_500_000, 0)},
			want:    []want{{state: First}, {state: NoProgress, reason: "same time"}, {OK, 1000, 100_000_000, 900_000_000, 900_000, ""}},
		},
		{
			name:    "clock set back",
			samples: []Sample{at(5000, 0, 0), at(1000, 10, 0), at(2000, 12_500_010, 0)},
			want:    []want{{state: First}, {state: NoProgress, reason: "set back"}, {OK, 1000, 100_000_000, 900_000_000, 900_000, ""}},
		},
		{
			name:    "a failed reading only makes the window longer",
			cfg:     EstimatorConfig{Interval: time.Second},
			samples: []Sample{at(0, 0, 0), at(1000, 0, 0, failed), at(2000, 25_000_000, 0)},
			want:    []want{{state: First}, {state: Error, reason: "no such instance"}, {OK, 2000, 200_000_000, 900_000_000, 900_000, ""}},
		},
		{
			name:    "an impossible jump",
			samples: []Sample{at(0, 0, 0), at(1000, 1<<62, 0), at(2000, 1<<62, 0)},
			want:    []want{{state: First}, {state: Discontinuity, reason: "jumped"}, {OK, 1000, 0, gbps, 1_000_000, ""}},
		},
		{
			name:    "counter kind changed",
			samples: []Sample{at(0, 5, 0), at(1000, 5, 0, narrow)},
			want:    []want{{state: First}, {state: Discontinuity, reason: "kind"}},
		},
		{
			name:    "degraded readings say so",
			samples: []Sample{at(0, 0, 0), at(1000, 0, 0, func(s *Sample) { s.Degraded = "super-frames" })},
			want:    []want{{state: First}, {OK, 1000, 0, gbps, 1_000_000, "super-frames"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := NewEstimator(tt.cfg)
			for i, s := range tt.samples {
				check(t, i, e.Update(s), tt.want[i])
			}
		})
	}
}

func check(t *testing.T, i int, got Estimate, w want) {
	t.Helper()
	if got.State != w.state {
		t.Fatalf("sample %d: state %v (%s), want %v", i, got.State, got.Reason, w.state)
	}
	// Most rows count no packets, which is a doubt of its own (TestCountersThatDoNotFit).
	got.Reason = strings.TrimSuffix(got.Reason, few)
	if (w.reason == "") != (got.Reason == "") && w.state == OK || !strings.Contains(got.Reason, w.reason) {
		t.Errorf("sample %d: reason %q, want %q", i, got.Reason, w.reason)
	}
	if got.State == Down && (got.ABW != 0 || got.ABWC != 0 || got.Start.IsZero()) {
		t.Errorf("sample %d: down: %+v", i, got)
	}
	if got.State != OK {
		return
	}
	if d := got.End.Sub(got.Start); d != time.Duration(w.window)*time.Millisecond {
		t.Errorf("sample %d: window %v, want %d ms", i, d, w.window)
	}
	if got.Bits != w.bits || got.ABW != w.abw || got.ABWC != w.abwc {
		t.Errorf("sample %d: bits %d abw %d abwc %d, want %d %d %d", i, got.Bits, got.ABW, got.ABWC, w.bits, w.abw, w.abwc)
	}
}

// The window's length, in ms, for readings at given times, one octet a ms.
func TestWindow(t *testing.T) {
	every := func(n, step int) (v []int) {
		for i := range n {
			v = append(v, i*step)
		}
		return v
	}
	tests := []struct {
		name      string
		interval  time.Duration
		times     []int
		want      int // of the last window
		tolerance int
	}{
		{"no interval: consecutive", 0, every(50, 10), 10, 0},
		{"schedule equals interval", time.Second, every(10, 1000), 1000, 0},
		{"ten samples an interval", time.Second, every(50, 100), 1000, 0},
		{"history shorter than the interval", time.Second, every(4, 100), 300, 0},
		{"schedule slower than the interval", time.Second, every(5, 3000), 3000, 0},
		{"late sample", time.Second, []int{0, 1000, 2000, 3400}, 1400, 0},
		{"early sample after a late one", time.Second, []int{0, 1000, 2300, 3000}, 700, 0},
		{"just older than the interval, within half a gap", time.Second, []int{0, 340, 690, 1040}, 1040, 0},
		{"a hole longer than the interval", time.Second, append(every(11, 100), 3500), 2500, 0},
		{"hole outside the window", time.Second, append(every(11, 100), 3500, 3600, 3700), 200, 0},
		{"a thousand samples an interval", time.Second, every(5000, 1), 1000, 1000/perInterval + 1},
		{"a thousand samples, not yet full", time.Second, every(500, 1), 499, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := NewEstimator(EstimatorConfig{Interval: tt.interval})
			var got Estimate
			for _, ms := range tt.times {
				got = e.Update(at(ms, uint64(ms), 0))
			}
			d := int(got.End.Sub(got.Start) / time.Millisecond)
			if got.State != OK || d > tt.want || d < tt.want-tt.tolerance {
				t.Errorf("%v window %d ms, want %d (-%d)", got.State, d, tt.want, tt.tolerance)
			}
			if got.Bits != 8*uint64(d) {
				t.Errorf("%d bits in %d ms", got.Bits, d)
			}
			if len(e.window) > maxPoints {
				t.Errorf("the window grew to %d points", len(e.window))
			}
		})
	}
}

func TestLoad(t *testing.T) {
	for _, tt := range []struct {
		name string
		est  Estimate
		want uint64
	}{
		{"exact", Estimate{State: OK, Start: epoch0, End: epoch0.Add(500 * time.Millisecond), Bits: 50}, 100},
		{"rounded up", Estimate{State: OK, Start: epoch0, End: epoch0.Add(3 * time.Second), Bits: 1}, 1},
		{"saturated", Estimate{State: OK, Start: epoch0, End: epoch0.Add(1), Bits: 1 << 62}, 1<<64 - 1},
		{"no window", Estimate{State: First, Bits: 50}, 0},
	} {
		if got := tt.est.Load(); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestStateNames(t *testing.T) {
	for s, name := range map[State]string{First: "first", OK: "ok", Down: "down", Discontinuity: "discontinuity", NoProgress: "no-progress", Error: "error", 99: "invalid"} {
		if s.String() != name {
			t.Errorf("%d is %q, want %q", s, s, name)
		}
		if s.Valid() != (s == OK || s == Down) {
			t.Errorf("%v valid: %v", s, s.Valid())
		}
	}
}

func TestUpdateAllocatesNothing(t *testing.T) {
	for _, interval := range []time.Duration{100 * time.Millisecond, time.Second, 10 * time.Second} {
		e := NewEstimator(EstimatorConfig{Interval: interval})
		s := at(0, 0, 0)
		step := func() {
			s.At = s.At.Add(100 * time.Millisecond)
			s.Octets += 1_000_000
			s.Packets += 1000
			if est := e.Update(s); est.State != OK && est.State != First {
				t.Fatalf("%+v", est)
			}
		}
		for range 300 {
			step()
		}
		if n := testing.AllocsPerRun(500, step); n != 0 {
			t.Errorf("interval %v: %v allocations an update", interval, n)
		}
	}
}

// Readings that come late, and the next one in time, leave no window that is nearly as short
// as the time between the two.
func TestShortestWindow(t *testing.T) {
	begin := time.Unix(1700000000, 0)
	e := NewEstimator(EstimatorConfig{Interval: 100 * time.Millisecond, Least: 50 * time.Millisecond, Speed: 1e9})
	for _, r := range []struct {
		at     int // ms
		state  State
		window int // ms
		within int // ms
	}{
		{0, First, 0, 0}, {5, First, 0, 0}, {105, OK, 105, 0}, {200, OK, 95, 0},
		{395, OK, 195, 0}, {400, OK, 200, 0}, {500, OK, 105, 0}, {640, OK, 140, 0}, {700, OK, 60, 0}, {800, OK, 100, 0},
		{870, OK, 170, 30}, {960, OK, 90, 0}, {1070, OK, 110, 0},
	} {
		est := e.Update(Sample{Port: "swp1", Octets: uint64(1000 * r.at), Packets: uint64(r.at), At: begin.Add(time.Duration(r.at) * time.Millisecond), Within: time.Duration(r.within) * time.Millisecond, Up: true, Bits: 64})
		if got := int(est.End.Sub(est.Start) / time.Millisecond); est.State != r.state || got != r.window {
			t.Errorf("at %d ms: %s, a window of %d ms; want %s and %d", r.at, est.State, got, r.state, r.window)
		}
	}
}

// A window whose length is not known by more than itself is none: any load fits it. One in
// which nothing was sent says that, however long it was.
func TestUnknownWindow(t *testing.T) {
	begin := time.Unix(1700000000, 0)
	for name, test := range map[string]struct {
		least  time.Duration
		octets uint64
		off    int // ms, of the last reading
		want   State
	}{
		"as long as it":       {time.Millisecond, 1000, 500, First},
		"less":                {time.Millisecond, 1000, 499, OK},
		"nothing was sent":    {time.Millisecond, 0, 500, OK},
		"any window is taken": {0, 1000, 500, OK},
	} {
		e := NewEstimator(EstimatorConfig{Interval: 500 * time.Millisecond, Least: test.least, Speed: 1e9})
		e.Update(Sample{Port: "swp1", At: begin, Up: true, Bits: 64})
		est := e.Update(Sample{Port: "swp1", Octets: test.octets, Packets: test.octets / 100, At: begin.Add(500 * time.Millisecond), StepError: time.Duration(test.off) * time.Millisecond, AtError: time.Duration(test.off) * time.Millisecond, Up: true, Bits: 64})
		if est.State != test.want {
			t.Errorf("%s: %v, error %v", name, est.State, est.Error)
		}
	}
}

// TestWiderWindow: of a source whose readings are known by no more than their distance, as those of
// one that is learned, the window is longer than Δt, and as long as Δt again once they are known.
func TestWiderWindow(t *testing.T) {
	const step = 500 * time.Millisecond
	e := NewEstimator(EstimatorConfig{Interval: step, Least: time.Millisecond, Speed: 1e9})
	at, octets := time.Unix(1700000000, 0), uint64(0)
	read := func(off time.Duration) Estimate {
		at, octets = at.Add(step), octets+1000
		return e.Update(Sample{Port: "swp1", Octets: octets, Packets: octets / 100, At: at, StepError: off, AtError: off, Up: true, Bits: 64})
	}
	for i, want := range []time.Duration{0, 0, 0, 3 * step, 3 * step, 3 * step} {
		est := read(step)
		if got := est.End.Sub(est.Start); est.State.Valid() != (want > 0) || want > 0 && (got != want || est.Error != 2*step) {
			t.Errorf("reading %d: %v, %v with an error of %v, want %v", i, est.State, got, est.Error, want)
		}
	}
	for i, want := range []time.Duration{step, step} {
		if est := read(0); est.State != OK || est.End.Sub(est.Start) != want {
			t.Errorf("known reading %d: %v, %v", i, est.State, est.End.Sub(est.Start))
		}
	}
}
