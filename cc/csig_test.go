package cc

import (
	"testing"

	"github.com/csig-agent/csig/quantize"
)

// reflect is an acknowledgement that brings a signal back.
func reflect(t quantize.Signal, low uint64, locator uint16, seq, next uint64, now int64) *Event {
	return &Event{Kind: Acked, Seq: seq, Next: next, Now: now, RTT: 6 * us, Acked: 1000, Signal: Signal{Valid: true, Type: t, Low: low, High: low + low/4 + 1000, Locator: locator}}
}

// TestInfo03 has the sentences of draft-miao-ccwg-hpcc-info-03: one signal a packet, the other term follows from it.
func TestInfo03(t *testing.T) {
	t.Parallel()
	const abwc, pd = quantize.MinABWC, quantize.MaxPD
	type step struct {
		name   string
		signal quantize.Signal
		low    uint64
		lm     uint16
		at     int64
		u      float64 // U after it
		asks   quantize.Signal
	}
	for _, x := range []struct {
		delay DelayFrom
		steps []step
	}{
		{DelayPD, []step{
			{"u2 of a link that is not full", abwc, 400_000, 7, 5 * us, 0.6, abwc},
			{"τ: a fifth of T since the last one", abwc, 300_000, 7, 6 * us, 0.8*0.6 + 0.2*0.7, abwc},
			{"a full link: the next packets ask for delay", abwc, 0, 7, 11 * us, 1, pd},
			{"u1 of it, and u2 of 1", pd, 2500, 7, 16 * us, 1.5, pd},
			{"the smaller one of two, while the locator stays", pd, 5000, 7, 21 * us, 1.5, pd},
			{"and no longer where it does not: U begins with 1", pd, 4000, 8, 22 * us, 0.8 + 0.2*1.8, pd},
			{"no queue: utilisation is asked for", pd, 0, 8, 27 * us, 0.8 + 0.2*1.8, abwc},
		}},
		{DelayQueueTime, []step{
			{"a full link", abwc, 50_000, 7, 5 * us, 0.95, MaxQueueTime},
			{"max(qlen/B)", MaxQueueTime, 1000, 7, 10 * us, 1.2, MaxQueueTime},
		}},
		{DelayRTT, []step{
			{"u1 of the round trip, 6 µs of 5", abwc, 0, 7, 5 * us, 1.2, abwc},
		}},
	} {
		c := CSIGConfig{HPCCConfig: DefaultHPCC(100e9, 5*us, 100), Delay: x.delay}
		h := NewHPCCCSIG(c)
		var o Output
		h.On(&Event{Kind: Began}, &o)
		if want := AskSignal(abwc); o.Ask != want {
			t.Errorf("the first packet asks for %d", o.Ask)
		}
		for i, s := range x.steps {
			h.On(reflect(s.signal, s.low, s.lm, uint64(i+1), uint64(i+1), s.at), &o) // each of a round trip of its own
			if asks, _ := o.Ask.Signal(); !near(h.U, s.u) || asks != s.asks {
				t.Errorf("%d: %s: U %v, asks for %v; want %v, %v", x.delay, s.name, h.U, asks, s.u, s.asks)
			}
		}
	}
}

// TestLocatorsTakeTurns: two queues that are as long do not have the window fall with each packet.
func TestLocatorsTakeTurns(t *testing.T) {
	t.Parallel()
	h := NewHPCCCSIG(CSIGConfig{HPCCConfig: DefaultHPCC(100e9, 5*us, 100)})
	var o Output
	h.On(&Event{Kind: Began}, &o)
	h.U = 1.2
	for i := range uint64(60) { // acknowledgements of one round trip
		h.On(reflect(quantize.MaxPD, 1000, uint16(7+i%2), 1000+i, 100_000, int64(i)*80_000), &o)
	}
	if least := h.Initial * 0.79 * 0.79; h.W < least { // committed at the first one, and what each says since
		t.Errorf("a queue of a fifth of T leaves %v of %v bytes", h.W, h.Initial)
	}
}

// TestHold: with a measurement window of a millisecond no two windows are committed within it.
func TestHold(t *testing.T) {
	t.Parallel()
	commits := func(hold int64) (n int) {
		h := NewHPCCCSIG(CSIGConfig{HPCCConfig: DefaultHPCC(100e9, 5*us, 100), Hold: hold})
		var o Output
		h.On(&Event{Kind: Began}, &o)
		for i := range int64(1000) {
			before := h.Wc
			if h.On(reflect(quantize.MinABWC, 100_000, 1, uint64(i+1), uint64(i+1), i*5*us), &o); h.Wc != before {
				n++
			}
			h.W, h.Wc = 30000, 30000
		}
		return n
	}
	if n := commits(0); n < 990 {
		t.Errorf("once a round trip: %d", n)
	}
	if n := commits(1000 * us); n != 4 {
		t.Errorf("once a millisecond: %d in 5", n)
	}
}

// TestSilence: a path that brings no signal back has the round trip speak: the window shrinks where it is long, and grows by additive
// increase alone where it is not. An unknown type changes nothing.
func TestSilence(t *testing.T) {
	t.Parallel()
	c := DefaultHPCC(100e9, 5*us, 100)
	h := NewHPCCCSIG(CSIGConfig{HPCCConfig: c})
	var o Output
	h.On(&Event{Kind: Began}, &o)
	before := o
	h.On(reflect(6, 1, 1, 1, 2, us), &o)
	if o != before {
		t.Errorf("%+v became %+v", before, o)
	}
	h.On(reflect(quantize.MinABWC, 0, 1, 2, 3, 2*us), &o)
	if o.Ask != AskSignal(quantize.MaxPD) {
		t.Fatalf("a full link: it asks for %d", o.Ask)
	}
	h.On(&Event{Kind: Acked, Seq: 4, Next: 4, Now: 10 * us, RTT: 10 * us}, &o)
	if !near(h.U, 1.95) || h.W > c.Initial*0.49 || o.Ask != AskSignal(quantize.MinABWC) {
		t.Errorf("a round trip of 2 T: U %v, %+v", h.U, o)
	}
	w := h.W
	for i := range int64(20) {
		h.On(&Event{Kind: Acked, Seq: uint64(5 + i), Next: uint64(5 + i), Now: (20 + 5*i) * us, RTT: 5 * us}, &o)
		if w = w + c.AI; h.W < w-1 || h.W > w+1 {
			break
		}
	}
	if h.W < w-1 || h.W > w+1 {
		t.Errorf("short round trips: %v, want %v", h.W, w)
	}
}
