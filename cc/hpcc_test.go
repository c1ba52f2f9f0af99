package cc

import (
	"math"
	"testing"
)

const us = Second / 1_000_000

// hops is one link of 100 Gbit/s.
func hops(port uint32, bytes, queue uint64, at int64) []Hop {
	return []Hop{{Port: port, Rate: 100e9, Bytes: bytes, Queue: queue, Time: at}}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(1, math.Abs(b)) }

// TestInflight has the lines of Figure 4 as a table: T is 5 µs, in which the link sends 62,500 bytes.
func TestInflight(t *testing.T) {
	t.Parallel()
	c := DefaultHPCC(100e9, 5*us, 1)
	two := func(a, b []Hop) []Hop { return append(append([]Hop(nil), a...), b...) }
	for _, x := range []struct {
		name     string
		u        float64
		had, has []Hop
		want     float64
	}{
		{"a full link without a queue, for T", 0.2, hops(1, 0, 0, 0), hops(1, 62500, 0, 5*us), 1},
		{"half of it", 1, hops(1, 0, 0, 0), hops(1, 31250, 0, 5*us), 0.5},
		{"line 5: the smaller queue counts", 1, hops(1, 0, 62500, 0), hops(1, 62500, 6250, 5*us), 1.1},
		{"line 5: also where it is the one before", 1, hops(1, 0, 6250, 0), hops(1, 62500, 62500, 5*us), 1.1},
		{"line 8: what is longer than T counts as T", 0, hops(1, 0, 0, 0), hops(1, 125000, 0, 10*us), 1},
		{"line 9: a fifth of T", 0.5, hops(1, 0, 0, 0), hops(1, 12500, 0, us), 0.8*0.5 + 0.2},
		{"line 6: the link that has most", 0, two(hops(1, 0, 0, 0), hops(2, 0, 0, 0)), two(hops(1, 12500, 0, 5*us), hops(2, 50000, 0, 5*us)), 0.8},
		{"line 7: and its own time", 0, two(hops(1, 0, 0, 0), hops(2, 0, 0, 0)), two(hops(1, 0, 0, 5*us), hops(2, 12500, 0, us)), 0.2},
		{"two packets of one instant", 0.7, hops(1, 5, 9, us), hops(1, 5, 9, us), 0.7},
	} {
		if got := c.Inflight(x.u, x.had, x.has); !near(got, x.want) {
			t.Errorf("%s: %v, want %v", x.name, got, x.want)
		}
	}
}

// TestComputeWind has the lines of Figure 5: a window of 1000 bytes at the commit, 10 bytes of additive increase.
func TestComputeWind(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name      string
		u         float64
		stage     int
		update    bool
		w, wc     float64
		thenStage int
	}{
		{"line 13: too much in flight", 1.9, 0, false, 510, 1000, 0},
		{"line 15: committed", 1.9, 3, true, 510, 510, 0},
		{"line 12: just as much as is aimed at", 0.95, 1, true, 1010, 1010, 0},
		{"line 17: less", 0.475, 0, false, 1010, 1000, 0},
		{"line 19: committed, a stage more", 0.475, 2, true, 1010, 1010, 3},
		{"line 12: after maxStage it is multiplied", 0.475, 5, true, 2010, 2010, 0},
	} {
		h := HPCC{HPCCConfig: HPCCConfig{T: 5 * us, Eta: 0.95, MaxStage: 5, AI: 10, Initial: 5000, Least: 1}, Wc: 1000, U: x.u, Stage: x.stage}
		h.Compute(x.update)
		if !near(h.W, x.w) || !near(h.Wc, x.wc) || h.Stage != x.thenStage {
			t.Errorf("%s: W %v, Wc %v, stage %d; want %v, %v, %d", x.name, h.W, h.Wc, h.Stage, x.w, x.wc, x.thenStage)
		}
	}
	h := HPCC{HPCCConfig: HPCCConfig{Eta: 0.95, MaxStage: 5, AI: 10, Initial: 1005, Least: 900}, Wc: 1000, U: 0.1}
	if h.Compute(false); h.W != 1005 {
		t.Errorf("a window of %v is larger than line rate", h.W)
	}
	h.U = 9
	if h.Compute(false); h.W != 900 {
		t.Errorf("a window of %v is smaller than the least", h.W)
	}
}

// TestAck has the lines of Figure 6: Wc is committed once in a round trip, and another path is begun anew.
func TestAck(t *testing.T) {
	t.Parallel()
	var h HPCC
	h.Begin(HPCCConfig{T: 5 * us, Eta: 0.95, MaxStage: 5, AI: 10, Initial: 62500, Least: 1})
	h.Ack(1000, 60000, hops(1, 0, 0, 0)) // the first one: nothing to compare with
	if h.W != 62500 || h.Wc != 62500 {
		t.Fatalf("after the first ACK the window is %v, %v", h.W, h.Wc)
	}
	h.Ack(60000, 120000, hops(1, 125000, 62500, 5*us))
	if h.Wc != 62500 || h.W == 62500 {
		t.Errorf("an ACK of what was sent before the commit: W %v, Wc %v", h.W, h.Wc)
	}
	h.Ack(60001, 120000, hops(1, 250000, 62500, 10*us))
	if h.Wc != h.W {
		t.Errorf("an ACK behind it commits nothing: W %v, Wc %v", h.W, h.Wc)
	}
	w := h.W
	h.Ack(120001, 180000, hops(2, 7, 99999, 11*us))
	if h.W != w || h.Wc != w || h.U != 1 || h.Stage != 0 {
		t.Errorf("on another path: W %v, Wc %v, U %v, stage %d", h.W, h.Wc, h.U, h.Stage)
	}
	if got, want := h.Rate(), w*8/5e-6; !near(got, want) {
		t.Errorf("the rate is %v, of W/T %v", got, want)
	}
}

// TestReclaims: bandwidth that is free is taken in as many round trips as stages and one, and by plain additive increase in 200
// (draft-miao-tsv-hpcc §9.2 is about this; 80 Gbit/s at 400 Mbit/s a round trip).
func TestReclaims(t *testing.T) {
	t.Parallel()
	trips := func(maxStage int) int {
		var h HPCC
		c := DefaultHPCC(100e9, 5*us, 1)
		c.MaxStage, c.AI = maxStage, 400e6/8*5e-6
		h.Begin(c)
		h.W, h.Wc = c.Initial/5, c.Initial/5 // 20 Gbit/s
		sent, at := uint64(0), int64(0)
		h.Ack(0, 0, hops(1, 0, 0, 0))
		for n := 1; ; n++ {
			sent, at = sent+uint64(h.W), at+5*us
			h.Ack(sent, sent-1, hops(1, sent, 0, at))
			if h.W >= 0.95*c.Initial || n == 1000 {
				return n
			}
		}
	}
	if n := trips(5); n > 9 {
		t.Errorf("with 5 stages it takes %d round trips", n)
	}
	if n := trips(math.MaxInt); n < 180 || n > 200 {
		t.Errorf("by additive increase alone it takes %d round trips", n)
	}
}
