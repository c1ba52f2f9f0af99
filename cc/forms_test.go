package cc

import (
	"math"
	"testing"
)

// ack is an acknowledgement with telemetry of one link.
func ack(seq, next uint64, path []Hop, now int64) *Event {
	return &Event{Kind: Acked, Now: now, Seq: seq, Next: next, Path: path, RTT: 5 * us}
}

// TestQueues has §9.3: what packets wait counts in place of the queue's length, and the rate is what DWRR leaves.
func TestQueues(t *testing.T) {
	t.Parallel()
	c := DefaultHPCC(100e9, 5*us, 1)
	c.Sojourn = true
	had := []Hop{{Rate: 100e9, Queue: 9e6, Sojourn: 10 * us}}
	has := []Hop{{Rate: 100e9, Bytes: 31250, Queue: 9e6, Sojourn: 2 * us, Time: 5 * us}}
	if u := c.Inflight(0, had, has); !near(u, 2.0/5+0.5) {
		t.Errorf("a sojourn of 2 µs at half the rate is %v", u)
	}
	has[0].Share, has[0].Sojourn = 0.5, 0
	if u := c.Inflight(0, had, has); !near(u, 1) {
		t.Errorf("half the rate is %v of half the rate", u)
	}
	c.Sojourn, has[0].Queue = false, 31250
	if u := c.Inflight(0, had, has); !near(u, 2) {
		t.Errorf("a queue of what half the rate drains in T is %v", u)
	}
}

// TestNewINT has the lines of Figure 8: the receiver commits once in T, and only then returns a window.
func TestNewINT(t *testing.T) {
	t.Parallel()
	c := DefaultHPCC(100e9, 5*us, 100)
	peers := new(Peers)
	h := NewHPCCReceiver(c, peers)
	data := func(bytes, queue uint64, at int64) float64 {
		e := Event{Kind: Data, Now: at, Path: hops(1, bytes, queue, at)}
		if h.Data(&e); e.Path != nil {
			t.Error("telemetry goes back")
		}
		return e.Window
	}
	for _, x := range []struct {
		name         string
		bytes, queue uint64
		at           int64
		sends        bool
	}{
		{"the first one: nothing to compare with", 0, 0, us, false},
		{"line 34: before T has passed", 62500, 62500, 6 * us, false},
		{"line 30: after it", 62500 + 12500, 62500, 7 * us, true},
		{"line 34: and no second one", 62500 + 25000, 62500, 8 * us, false},
	} {
		wc := h.Wc
		got := data(x.bytes, x.queue, x.at)
		if x.sends != (got > 0) || x.sends && got != h.W {
			t.Errorf("%s: it sends a window of %v", x.name, got)
		}
		if !x.sends && h.Wc != wc {
			t.Errorf("%s: committed", x.name)
		}
	}
	if want := c.Initial * (1 - c.Eta); !near(h.AI, want) {
		t.Errorf("alone at the last link W_ai is %v, not %v", h.AI, want)
	}
	other := NewHPCCReceiver(c, peers)
	other.Data(&Event{Now: 9 * us, Path: hops(1, 0, 0, 9*us)})
	data(200_000, 62500, 10*us)
	if want := c.Initial * (1 - c.Eta) / 2; !near(h.AI, want) {
		t.Errorf("with another flow W_ai is %v, not %v", h.AI, want)
	}
	for i := range int64(5) { // and each is counted once, in the first T too
		NewHPCCReceiver(c, peers).Data(&Event{Now: 40*us + i, Path: hops(1, 0, 0, 9*us)})
		h.Data(&Event{Now: 40*us + i, Path: hops(1, 0, 0, 9*us)})
	}
	first, alone := new(Peers), NewHPCCReceiver(c, nil)
	alone.peers = first
	for i := range int64(3) {
		alone.Data(&Event{Now: i, Path: hops(1, 0, 0, 0)})
	}
	if peers.now != 6 || first.now != 1 {
		t.Errorf("six flows are %d, one is %d", peers.now, first.now)
	}
	var o Output
	h.On(&Event{Kind: Acked, Window: 5000}, &o)
	h.On(&Event{Kind: Acked}, &o)
	if o.Window != 5000 || o.Rate != 5000*8/5e-6 {
		t.Errorf("the sender has %+v", o)
	}
	h.Data(&Event{Now: 11 * us, Path: hops(2, 0, 0, 11*us)})
	if h.U != 1 || h.Wc != h.W || h.Stage != 0 {
		t.Errorf("on another path: %+v", h.HPCC)
	}
}

// TestWhen: which packets carry telemetry, and what the receiver returns of it.
func TestWhen(t *testing.T) {
	t.Parallel()
	c := DefaultHPCC(100e9, 5*us, 1)
	asks := func(h *HPCC, n int) (text string) {
		var o Output
		h.On(&Event{Kind: Began}, &o)
		for range n {
			if o.Sent {
				h.On(&Event{Kind: Sent, Seq: 2}, &o)
			}
			text += string("-t"[o.Ask])
		}
		return text
	}
	if got := asks(NewHPCC(c), 4); got != "tttt" {
		t.Errorf("each: %s", got)
	}
	c.When, c.Every = WhenSome, 3
	if got := asks(NewHPCC(c), 7); got != "--t--t-" {
		t.Errorf("one in three: %s", got)
	}
	c.When = WhenTrip
	h := NewHPCC(c)
	if got := asks(h, 3); got != "t--" {
		t.Errorf("once a trip: %s", got)
	}
	var o Output
	h.On(&Event{Kind: Acked, Seq: 1}, &o)
	if got := asks(h, 2); got != "--" {
		t.Errorf("the telemetry is not back: %s", got)
	}
	h.On(ack(2, 3, hops(1, 0, 0, 0), 0), &o)
	if got := asks(h, 2); got != "t-" {
		t.Errorf("it is back: %s", got)
	}
	h.On(&Event{Kind: Lost}, &o)
	if got := asks(h, 2); got != "t-" {
		t.Errorf("it may be lost: %s", got)
	}
	h.On(&Event{Kind: Acked, Seq: 2}, &o)
	if got := asks(h, 2); got != "t-" {
		t.Errorf("its acknowledgement was lost: %s", got)
	}
	c.When = WhenCongested
	h = NewHPCC(c)
	for _, x := range []struct {
		at    int64
		queue uint64
		back  bool
	}{{6 * us, 0, true}, {7 * us, 0, false}, {8 * us, 1, true}, {12 * us, 0, false}, {13 * us, 0, true}} {
		e := Event{Now: x.at, Path: hops(1, 0, x.queue, x.at)}
		if h.Data(&e); (e.Path != nil) != x.back {
			t.Errorf("on congestion, at %d with a queue of %d: %v", x.at, x.queue, e.Path)
		}
	}
}

// TestRoCE has §7.1: the receiver returns the link with most bytes in flight, and another one of the same path is no other path.
func TestRoCE(t *testing.T) {
	t.Parallel()
	c := DefaultHPCC(100e9, 5*us, 1)
	c.RoCE = true
	h := NewHPCC(c)
	two := func(a, b, queue uint64, at int64) []Hop { return append(hops(1, a, 0, at), hops(2, b, queue, at)...) }
	back := func(path []Hop) []Hop {
		e := Event{Path: path}
		h.Data(&e)
		return e.Path
	}
	var o Output
	for _, x := range []struct {
		path []Hop
		port uint32
	}{
		{two(0, 0, 0, 0), 2}, {two(50000, 10000, 0, 5*us), 1}, {two(60000, 60000, 0, 10*us), 2}, {two(120000, 120000, 1000, 15*us), 1},
	} {
		if got := back(x.path); len(got) != 1 || got[0].Port != x.port {
			t.Fatalf("it returns %v, not port %d", got, x.port)
		} else {
			h.On(ack(1, 1, got, 0), &o)
		}
	}
	h.U = 0.5
	h.On(ack(2, 2, two(0, 0, 0, 20*us)[1:], 0), &o)
	if h.U != 0.5 {
		t.Errorf("another link of the path has U be %v", h.U)
	}
}

// TestRate has the ns-3 form's updates: one committed in a round trip, and each packet in between.
func TestRate(t *testing.T) {
	t.Parallel()
	h := NewHPCCRate(DefaultRate(100e9, 5*us))
	var o Output
	h.On(&Event{Kind: Began}, &o)
	if o.Rate != 100e9 || o.Window != 62500 || o.Ask != AskTelemetry {
		t.Errorf("it begins with %+v", o)
	}
	h.On(ack(1000, 60000, hops(1, 0, 0, 0), 5*us), &o)
	h.On(ack(2000, 61000, hops(1, 62500, 62500, 5*us), 6*us), &o) // the queue of line 5 is the smaller one
	if want := 100e9/(1/0.95) + 50e6; !near(o.Rate, want) || h.Rc != 100e9 || o.Window != uint64(math.Ceil(62500*want/100e9)) {
		t.Errorf("within the round trip: %+v, committed %v; want %v", o, h.Rc, want)
	}
	h.On(ack(60001, 120000, hops(1, 125000, 62500, 10*us), 11*us), &o)
	if want := 100e9/(2/0.95) + 50e6; !near(o.Rate, want) || h.Rc != o.Rate {
		t.Errorf("after it: %+v, committed %v; want %v", o, h.Rc, want)
	}
	for range 50 {
		h.Rc = 1
		h.On(ack(1, 1, hops(1, 1e9, 1e9, 15*us), 11*us), &o)
	}
	if o.Rate != 100e6 {
		t.Errorf("the rate falls to %v", o.Rate)
	}
}

// TestPower: what is encoded is right in the mean, to 5 % in each, and grows with u.
func TestPower(t *testing.T) {
	t.Parallel()
	for u := 0.01; u < 20; u *= 1.37 {
		sum := 0.0
		for i := range 1000 {
			one := DecodePower(EncodePower(u, (float64(i)+0.5)/1000))
			if one/u < 0.94 || one/u > 1.3 && u > 0.1 {
				t.Errorf("%v comes back as %v", u, one)
			}
			sum += one / 1000
		}
		if want := math.Ceil(u*512) / 512; math.Abs(sum/want-1) > 0.002 {
			t.Errorf("%v comes back as %v in the mean, of %v", u, sum, want)
		}
	}
	if got := DecodePower(EncodePower(0, 0.5)); got != 1.0/512 {
		t.Errorf("nothing is %v", got)
	}
	// A port that is full for a round trip, and then has a queue.
	var p PINTPort
	for at := int64(0); at < 50*us; at += 80_000 {
		p.Send(at, 1000, 0, 100e9, 5*us)
	}
	if math.Abs(p.U-1) > 0.01 {
		t.Errorf("a full port has %v", p.U)
	}
	if u := p.Send(55*us, 1000, 62500, 100e9, 5*us); !near(u, 1000/62500.0+1) {
		t.Errorf("after T without a packet, and with a queue, it has %v", u)
	}
	// The same in ns-3's arithmetic: less by what its logarithms cut off, and by a queue's last 255 bytes.
	p = PINTPort{}
	for at := int64(0); at < 50*us; at += 80_000 {
		p.SendNS3(at, 1000, 255, 100e9, 5*us)
	}
	if p.U > 1 || p.U < 0.99 {
		t.Errorf("a full port has %v in ns-3's arithmetic", p.U)
	}
	p.Passes(50*us, 64)
	if u, want := p.SendNS3(60*us, 1000, 256*7+255, 100e9, 5*us), (64+256*7)/62500.0; u > want || u < want*0.9999 {
		t.Errorf("after T with a packet of 64 bytes, and with a queue, it has %v, want %v", u, want)
	}
}
