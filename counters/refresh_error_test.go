package counters

import (
	"testing"
	"time"
)

// What is learned from the first refresh is off by the distance of its readings, whenever
// that is.
func TestErrorOfTheFirstRefresh(t *testing.T) {
	r := NewRefresh(RefreshConfig{})
	r.span0, r.span1 = extent{from: 5e9, to: 5e9 + 3e6}, extent{from: 6e9, to: 6e9 + 2e6}
	r.restartFit(5e9, 6e9)
	if want := (instant{at: 6e9, error: time.Second}); r.now != want || r.filled != 3e6 {
		t.Errorf("%+v, filled in %d ns, want %+v", r.now, r.filled, want)
	}
}

// Readings that all differ leave less and less doubt, until it ends.
func TestDoubtBeforeASourceIsLive(t *testing.T) {
	b := &box{frames: []func(float64) uint64{steady(5_000)}, shown: onRead}
	r := NewRefresh(RefreshConfig{})
	for i, at := range every(1, liveAfter+3) {
		samples := b.read(at, nil)
		r.Observe(samples)
		want := time.Second / time.Duration(max(i-1, 1)) // of one refresh more or less
		switch {
		case i == 0:
			continue
		case i > liveAfter:
			want = 0
		}
		if got := samples[0].AtError; got != want {
			t.Errorf("reading %d is off by %v, want %v", i, got, want)
		}
	}
}

// A port whose time is always as far from the device's has windows as good as the device's;
// one whose time moves has not.
func TestErrorOfAPortsOwnTime(t *testing.T) {
	const ms = time.Millisecond
	for name, tc := range map[string]struct{ was, off, at, step time.Duration }{
		"the device's": {0, 0, 10 * ms, 20 * ms},
		"as before":    {300 * ms, 300 * ms, 310 * ms, 20 * ms},
		"before it":    {-300 * ms, -300 * ms, 310 * ms, 20 * ms},
		"moved":        {300 * ms, -200 * ms, 710 * ms, 520 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewRefresh(RefreshConfig{})
			r.base = epoch0
			p := refreshPort{anchored: true, at: 1, wasOff: tc.was, off: tc.off, steps: 5 * ms}
			s := Sample{At: epoch0.Add(2 * time.Second)}
			r.give(&s, &p, &instant{at: 1e9, error: 10 * ms, steps: 25 * ms}, 0)
			if s.AtError != tc.at || s.StepError != tc.step || s.Fresh != Current || !s.At.Equal(epoch0.Add(time.Second)) {
				t.Errorf("off by %v, the window by %v, %v at %v; want %v and %v", s.AtError, s.StepError, s.Fresh, s.At, tc.at, tc.step)
			}
		})
	}
}

// TestErrorOfALearnedTimer: once a timer is learned, the stated error of a window is what
// the readings leave open, and not more: next to nothing where they fall at the same places
// of each period, and less than half their distance anywhere.
func TestErrorOfALearnedTimer(t *testing.T) {
	for _, tt := range []struct{ period, gap, most float64 }{
		{5, 1, 0.03}, {3, 1, 0.03}, {10, 2, 0.03}, // of the gap
		{5, 0.7, 0.45}, {2, 0.3, 0.36}, {5, 4, 0.4},
	} {
		b := &box{frames: []func(float64) uint64{steady(50_000)}, shown: timer(tt.period, 0.1)}
		n := 0
		watch(b, every(tt.gap, int(200*tt.period/tt.gap)), RefreshConfig{}, func(_ int, at float64, est []Estimate) {
			e := &est[0]
			if at < 100*tt.period || e.State != OK {
				return
			}
			n++
			if e.Error > seconds(tt.most*tt.gap) {
				t.Errorf("each %v s, read each %v s, at %v: the error is %v", tt.period, tt.gap, at, e.Error)
			}
			if lo, hi := e.LoadRange(); lo > 50_000*8192 || hi < 50_000*8192 {
				t.Errorf("each %v s, read each %v s, at %v: load in [%d, %d]", tt.period, tt.gap, at, lo, hi)
			}
		})
		if n < 90 {
			t.Errorf("each %v s, read each %v s: %d estimates", tt.period, tt.gap, n)
		}
	}
}
