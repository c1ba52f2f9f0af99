package cc

import (
	"math"
	"testing"

	"github.com/csig-agent/csig/quantize"
)

// TestDCTCP has RFC 8257 §3.3 and §3.4.
func TestDCTCP(t *testing.T) {
	t.Parallel()
	d := NewDCTCP(DefaultDCTCP(1000))
	var o Output
	send := func(seq, next uint64, marked bool) {
		d.On(&Event{Kind: Acked, Acked: 1000, Seq: seq, Next: next, Marked: marked}, &o)
	}
	send(1000, 10000, false)
	if o.Window != 11000 {
		t.Errorf("slow start: %d", o.Window)
	}
	d.Alpha, d.W = 0.5, 100_000
	d.until, d.acked, d.marked = 20000, 7000, 1000 // and now two of eight
	send(20001, 30000, true)
	if want := 0.5*15/16 + 0.25/16; !near(d.Alpha, want) || !near(d.W, 100_000*(1-want/2)) {
		t.Errorf("alpha %v, window %v; want %v", d.Alpha, d.W, want)
	}
	w := d.W
	if send(30000, 31000, true); d.W != w {
		t.Errorf("a second mark in the same window of data: %v, of %v", d.W, w)
	}
	send(31000, 32000, false)
	if !near(d.W, w+1000*1000/w) {
		t.Errorf("congestion avoidance: %v after %v", d.W, w)
	}
	d.W = 50_000
	d.On(&Event{Kind: Lost, Seq: 40000, Next: 50000}, &o)
	if o.Window != 25000 {
		t.Errorf("a loss: %d", o.Window)
	}
	if d.On(&Event{Kind: TimedOut, Next: 60000}, &o); o.Window != 1000 {
		t.Errorf("a timeout: %d", o.Window)
	}
	d = NewDCTCP(DefaultDCTCP(1000))
	for range 2 {
		if d.On(&Event{Kind: Lost, Next: 10000}, &o); o.Window != 5000 {
			t.Errorf("the first packet is lost: %d", o.Window)
		}
	}
}

// TestDCTCPRate has the ns-3 form.
func TestDCTCPRate(t *testing.T) {
	t.Parallel()
	d := NewDCTCPRate(DefaultDCTCPRate(100e9, 10*us, 1000))
	var o Output
	d.On(&Event{Kind: Acked, Seq: 1000, Next: 10000}, &o)
	if o.Rate != 100e9 {
		t.Errorf("%+v is more than line rate", o)
	}
	d.On(&Event{Kind: Acked, Seq: 2000, Next: 11000, Marked: true}, &o)
	if o.Rate != 50e9 || o.Window != 62500 {
		t.Errorf("a mark: %+v", o)
	}
	d.On(&Event{Kind: Acked, Seq: 10001, Next: 20000, Marked: true}, &o)
	if want := 15.0/16 + 2.0/11/16; !near(d.Alpha, want) || o.Rate != 50e9 {
		t.Errorf("two of eleven marked: alpha %v, of %v; %+v", d.Alpha, want, o)
	}
	d.On(&Event{Kind: Acked, Seq: 20001, Next: 30000}, &o)
	if o.Rate != 50e9+615e6 {
		t.Errorf("a round trip without a mark: %+v", o)
	}
}

// TestDCQCN has §3.2: what CNPs, the timers and the byte counter do.
func TestDCQCN(t *testing.T) {
	t.Parallel()
	d := NewDCQCN(DefaultDCQCN(100e9))
	var o Output
	d.On(&Event{Kind: Began}, &o)
	if o.Rate != 100e9 || o.Window != math.MaxUint64 || o.Timer != 0 {
		t.Fatalf("%+v", o)
	}
	d.On(&Event{Kind: Acked, Now: us, CNP: true}, &o)
	if d.R != 50e9 || d.Target != 100e9 || o.Timer != 56*us {
		t.Fatalf("the first CNP: %v, %v, %+v", d.R, d.Target, o)
	}
	for i := int64(1); i <= 5; i++ {
		d.On(&Event{Kind: Timer, Now: us + i*55*us}, &o)
	}
	if want := 100e9 - 50e9/32; d.R != want || d.Target != 100e9 {
		t.Errorf("fast recovery: %v, want %v", d.R, want)
	}
	d.R, d.Target = 50e9, 60e9
	d.On(&Event{Kind: Timer, Now: 331 * us}, &o)
	if d.Target != 60e9+40e6 || d.R != (50e9+60e9+40e6)/2 {
		t.Errorf("additive increase: %v, %v", d.R, d.Target)
	}
	d.counts = 6
	d.On(&Event{Kind: Timer, Now: 386 * us}, &o)
	if d.Target != 60e9+240e6 {
		t.Errorf("hyper increase: %v", d.Target)
	}
	for range 10_000 {
		d.On(&Event{Kind: Sent, Now: 387 * us, Size: 1000}, &o)
	}
	if d.counts != 7 {
		t.Errorf("10 MB are %d counts", d.counts)
	}
	a := d.A
	d.On(&Event{Kind: Acked, Now: us + 400*us, CNP: true}, &o)
	if want := a * math.Pow(255.0/256, 7); !near(d.A, want) {
		t.Errorf("alpha after seven times: %v, want %v", d.A, want)
	}
	r := d.R
	a = d.A
	d.On(&Event{Kind: Acked, Now: us + 410*us, CNP: true}, &o)
	if d.R != r || o.Timer != 451*us {
		t.Errorf("a CNP 10 µs after a decrease: %v of %v, %+v", d.R, r, o)
	}
	if d.On(&Event{Kind: Timer, Now: 451 * us}, &o); d.R >= r {
		t.Errorf("50 µs after it: %v of %v", d.R, r)
	}
	if want := a*255/256 + 1.0/256; !near(d.A, want) {
		t.Errorf("alpha with a CNP in its time: %v, want %v", d.A, want)
	}
	// The notification point: one CNP in 50 µs.
	text := ""
	for _, at := range []int64{0, 10, 49, 50, 60, 101} {
		e := Event{Now: at * us, Marked: at != 60}
		if d.Data(&e); e.CNP {
			text += "c"
		} else {
			text += "-"
		}
	}
	if text != "c--c-c" {
		t.Errorf("CNPs: %s", text)
	}
}

// TestDCQCNWindow has the ns-3 form: it looks for CNPs each 4 µs, and the window follows the rate.
func TestDCQCNWindow(t *testing.T) {
	t.Parallel()
	d := NewDCQCN(DCQCNWindow(100e9, 10*us))
	var o Output
	d.On(&Event{Kind: Acked, Now: us, CNP: true}, &o)
	if d.R != 100e9 || o.Timer != 5*us || o.Window != 125000 {
		t.Fatalf("%v, %+v", d.R, o)
	}
	d.On(&Event{Kind: Timer, Now: 5 * us}, &o)
	alpha := math.Pow(255.0/256, 4)
	if want := 100e9 * (1 - alpha/2); !near(d.R, want) || o.Window != uint64(math.Ceil(125000*want/100e9)) || o.Timer != 305*us {
		t.Errorf("%v, %+v, want %v", d.R, o, want)
	}
	d.On(&Event{Kind: Acked, Now: 14 * us, CNP: true}, &o)
	if o.Timer != 17*us {
		t.Errorf("the third look is at %d", o.Timer)
	}
	d.On(&Event{Kind: Timer, Now: 17 * us}, &o)
	r := d.R
	d.On(&Event{Kind: Timer, Now: 317 * us}, &o)
	if want := (r + d.Target) / 2; !near(d.R, want) {
		t.Errorf("fast recovery: %v, want %v", d.R, want)
	}
	target := d.Target
	d.On(&Event{Kind: Timer, Now: 617 * us}, &o)
	if d.Target != min(target+20e6, 100e9) {
		t.Errorf("additive increase: %v after %v", d.Target, target)
	}
}

// TestTIMELY has Algorithm 1.
func TestTIMELY(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name      string
		last, rtt int64
		steps     int
		want      float64
	}{
		{"below Tlow", 40 * us, 49 * us, 0, 50e9 + 100e6},
		{"above Thigh", 900 * us, 1000 * us, 0, 50e9 * (1 - 0.8*0.5)},
		{"it falls", 100 * us, 90 * us, 0, 50e9 + 100e6},
		{"for the fifth time", 100 * us, 90 * us, 4, 50e9 + 500e6},
		{"it rises", 100 * us, 102 * us, 0, 50e9 * (1 - 0.8*0.875*2/10)},
	} {
		m := NewTIMELY(DefaultTIMELY(100e9, 10*us))
		m.R, m.last, m.steps, m.until = 50e9, x.last, x.steps, 5
		var o Output
		m.On(&Event{Kind: Acked, Seq: 6, Next: 10, RTT: x.rtt}, &o)
		if !near(m.R, x.want) || o.Rate != m.R || o.Window != math.MaxUint64 {
			t.Errorf("%s: %v, want %v; %+v", x.name, m.R, x.want, o)
		}
		if m.On(&Event{Kind: Acked, Seq: 7, Next: 11, RTT: 1000 * us}, &o); !near(m.R, x.want) {
			t.Errorf("%s: twice in a round trip", x.name)
		}
	}
}

// TestCubic has RFC 9438: after a loss the window is back at K, and grows by what is left until then.
func TestCubic(t *testing.T) {
	t.Parallel()
	c := NewCubic(1000)
	var o Output
	for i := range 10 {
		c.On(&Event{Kind: Acked, Acked: 1000, RTT: Second / 10, Now: int64(i)}, &o)
	}
	if o.Window != 20000 {
		t.Errorf("slow start: %d", o.Window)
	}
	c.W = 1000
	c.On(&Event{Kind: Lost, Seq: 1, Next: 100}, &o)
	if c.W != 700 || c.wMax != 1000 || c.SSThr != 700 {
		t.Errorf("a loss: %v, %v, %v", c.W, c.wMax, c.SSThr)
	}
	if c.On(&Event{Kind: Lost, Seq: 50, Next: 100}, &o); c.W != 700 {
		t.Errorf("another one of the same window: %v", c.W)
	}
	k := math.Cbrt(300 / 0.4)
	now := int64(Second)
	for ; float64(now) < (1+k)*Second; now += Second / 100 {
		c.On(&Event{Kind: Acked, Acked: uint64(c.W * 1000 / 10), RTT: Second / 10, Now: now, Seq: 101}, &o)
	}
	if math.Abs(c.k-k) > 1e-9 || c.W < 985 || c.W > 1001 {
		t.Errorf("at K, %v of %v: %v", c.k, k, c.W)
	}
	for ; float64(now) < (1+k+3)*Second; now += Second / 100 {
		c.On(&Event{Kind: Acked, Acked: uint64(c.W * 1000 / 10), RTT: Second / 10, Now: now, Seq: 101}, &o)
	}
	if want := 0.4*27 + 1000; math.Abs(c.W-want) > 3 {
		t.Errorf("3 s after it: %v, want %v", c.W, want)
	}
	c.W, c.wMax = 900, 1000 // fast convergence
	c.On(&Event{Kind: Lost, Seq: 200, Next: 300}, &o)
	if !near(c.wMax, 900*0.85) {
		t.Errorf("wMax %v", c.wMax)
	}
	if c.On(&Event{Kind: TimedOut, Next: 400}, &o); c.W != 1 {
		t.Errorf("a timeout: %v", c.W)
	}
}

// TestAllocations: no control allocates once it has seen its path.
func TestAllocations(t *testing.T) {
	path := hops(1, 0, 0, 0)
	h := DefaultHPCC(100e9, 5*us, 1)
	h.RoCE = true
	pint := DefaultRate(100e9, 5*us)
	pint.PINT = true
	for name, c := range map[string]Control{
		"hpcc": NewHPCC(h), "receiver": NewHPCCReceiver(h, new(Peers)), "rate": NewHPCCRate(DefaultRate(100e9, 5*us)), "pint": NewHPCCRate(pint),
		"csig": NewHPCCCSIG(CSIGConfig{HPCCConfig: h}), "swift": NewSwift(testSwift()), "poseidon": NewPoseidon(DefaultPoseidon(100e9, 5*us, 1000)),
		"dctcp": NewDCTCP(DefaultDCTCP(1000)), "dctcp-rate": NewDCTCPRate(DefaultDCTCPRate(100e9, 5*us, 1000)), "dcqcn": NewDCQCN(DefaultDCQCN(100e9)),
		"timely": NewTIMELY(DefaultTIMELY(100e9, 5*us)), "cubic": NewCubic(1000), "host": NewCubicCSIG(1000, NewHeadroom(1000, 1e6, 1, 1), 100e9),
	} {
		var e Event
		var o Output
		seq := uint64(0)
		once := func() {
			seq += 1000
			path[0].Bytes, path[0].Time = seq, int64(seq)*80
			e = Event{Kind: Data, Now: int64(seq) * 80, Seq: seq, Path: path, Marked: seq%3000 == 0}
			if r, ok := c.(Receiver); ok {
				r.Data(&e)
			}
			e.Kind, e.Next, e.Acked, e.RTT, e.Power = Acked, seq+62500, 1000, 6*us, 100
			e.Signal = Signal{Valid: true, Type: 1, Low: seq % 1e6}
			c.On(&e, &o)
		}
		once()
		if n := testing.AllocsPerRun(200, once); n > 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

// TestCubicMarks: a mark counts as a loss, all of a round trip as one; for the hosts' control, too, which takes no head-room then.
func TestCubicMarks(t *testing.T) {
	t.Parallel()
	host := NewCubicCSIG(1000, NewHeadroom(1000, 1e9, 2, 1), 100e9)
	for name, x := range map[string]struct {
		c     Control
		cubic *Cubic
	}{"cubic": func() (x struct {
		c     Control
		cubic *Cubic
	}) {
		x.cubic = NewCubic(1000)
		x.c = x.cubic
		return x
	}(), "csig": {host, &host.Cubic}} {
		var o Output
		ack := func(seq uint64, marked bool) float64 {
			x.c.On(&Event{Kind: Acked, Acked: 1000, Seq: seq, Next: seq + 100_000, RTT: 100 * us, Now: int64(seq) * us / 1000, Marked: marked}, &o)
			return x.cubic.W
		}
		ack(1000, false)
		x.cubic.W = 1000
		if w := ack(2000, true); w != 700 || x.cubic.SSThr != 700 {
			t.Errorf("%s: a mark: %v, %v", name, w, x.cubic.SSThr)
		}
		if w := ack(102_000, true); w != 700 {
			t.Errorf("%s: another one of the same round trip: %v", name, w)
		}
		if w := ack(103_000, true); math.Abs(w-490) > 1e-9 {
			t.Errorf("%s: one of the next round trip: %v", name, w)
		}
		if w := ack(104_000, false); w < 490-1e-9 {
			t.Errorf("%s: no mark: %v", name, w)
		}
	}
	if host.next == 0 {
		t.Error("csig: it takes head-room at once after a mark")
	}
}

// TestCubicCSIG: a flow that begins has its share of the head-room with the first signal, and none where a port's agent is gone; without
// signals it is CUBIC.
func TestCubicCSIG(t *testing.T) {
	t.Parallel()
	after := func(low uint64, locator uint16) float64 {
		c, plain := NewCubicCSIG(1000, NewHeadroom(1000, 1e9, 2, 1), 100e9), NewCubic(1000)
		var o, without Output
		c.On(&Event{Kind: Began}, &o)
		for i := range int64(3) {
			e := Event{Kind: Acked, Acked: 1000, Seq: uint64(i+1) * 1000, Next: uint64(i+11) * 1000, RTT: 100 * us, Now: (100 + i) * us}
			plain.On(&e, &without)
			e.Signal = Signal{Valid: true, Low: low, Locator: locator}
			c.On(&e, &o)
		}
		if o.Ask != AskSignal(0) {
			t.Errorf("it asks for %d", o.Ask)
		}
		return float64(o.Window) / float64(without.Window)
	}
	if by := after(80e9, 7); math.Abs(by-500*1000/13e3) > 1 { // half of 80 Gbit/s over 100 µs
		t.Errorf("80 Gbit/s have the window be %.1f times as large", by)
	}
	if by := after(800e9, 7); math.Abs(by-625*1000/13e3) > 1 {
		t.Errorf("more than the host's link: %.1f times", by)
	}
	if by := after(0, 7); by != 1 {
		t.Errorf("no room: %v times", by)
	}
	c := NewCubicCSIG(1000, NewHeadroom(1000, 1e9, 2, 1), 100e9)
	var o Output
	for i, s := range []Signal{{Valid: true, Locator: quantize.Draft00.LMStale()}, {Valid: true, Low: 80e9}} {
		before := o.Window
		c.On(&Event{Kind: Acked, Acked: 1000, Seq: uint64(i), Next: uint64(i), RTT: 100 * us, Now: int64(100+i) * us, Signal: s}, &o)
		if i == 1 && o.Window < 10*before {
			t.Errorf("the first signal of an agent that is there again: %d after %d", o.Window, before)
		}
	}
}

// TestUntouchedTags: a tag that no port replaced gives the hosts' control no head-room.
func TestUntouchedTags(t *testing.T) {
	c := NewCubicCSIG(1000, NewHeadroom(1, 1, 8, 2), 10_000_000_000)
	c.signal(&Signal{Valid: true, Type: quantize.MinABW, Low: 9_000_000_000, Locator: quantize.Draft00.LMNone()}, 7)
	if c.At != 0 || c.Room != 0 {
		t.Errorf("at %d, room %d", c.At, c.Room)
	}
	c.signal(&Signal{Valid: true, Type: quantize.MinABW, Low: 8_000_000_000, Locator: 5}, 7)
	if c.At != 7 || c.Room != 1_000_000_000 {
		t.Errorf("of a port: at %d, room %d", c.At, c.Room)
	}
}
