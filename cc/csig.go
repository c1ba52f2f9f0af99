package cc

import (
	"math"

	"github.com/csig-agent/csig/quantize"
)

// MaxQueueTime is the signal type that draft-miao-ccwg-hpcc-info-03 proposes, max(qlen/B): the time that the longest queue takes
// to drain, in ns. CSIG's drafts do not have it.
const MaxQueueTime = quantize.Signal(4)

// DelayFrom is where HPCC++ on CSIG has u1 from.
type DelayFrom uint8

// The sources of u1. What is computed with DelayRTT is no CSIG signal, and is to be named so in results: the round trip has
// the queues of all hops and of the way back.
const (
	DelayPD        DelayFrom = iota // max(PD)/T
	DelayQueueTime                  // max(qlen/B)/T
	DelayRTT                        // (RTT − T)/T, of paths without a delay signal, as software-assisted ones are
)

// CSIGConfig are the parameters of HPCC++ on CSIG.
type CSIGConfig struct {
	HPCCConfig
	Delay DelayFrom
	// Hold is the least time between two windows that are committed: what the first one does is not in the signal before its
	// measurement window has passed. 0: once in a round trip, as the drafts have it.
	Hold int64
}

// HPCCCSIG is HPCC++ with CSIG's signals (draft-miao-ccwg-hpcc-info-03, "How to use CSIG for HPCC++"). One packet carries one
// signal. As a queue is there only where a link is full, the sender asks for utilisation while links are not, and for delay
// once the bottleneck is: what it has not asked for is what follows from it (u1 = 0, or u2 = 1).
//
// Of S the lower end is used of both. Of ABW/C that is bandwidth that is there for certain; its upper end would have the
// window grow into a full link. Of a delay it is a queue that is there for certain; the upper end of the lowest bucket would be
// a queue on an idle path, and the window would fall for ever.
type HPCCCSIG struct {
	HPCC
	delay     DelayFrom
	hold      int64
	at        int64 // of the last reflection
	committed int64
	locator   uint16
	located   bool
	queued    float64 // u1 of the last one
	full      bool    // the bottleneck's utilisation was eta or more
}

// NewHPCCCSIG is a flow's control.
func NewHPCCCSIG(c CSIGConfig) *HPCCCSIG {
	h := &HPCCCSIG{delay: c.Delay, hold: c.Hold}
	h.Begin(c.HPCCConfig)
	return h
}

// On updates the window at each acknowledgement that has a signal.
func (h *HPCCCSIG) On(e *Event, o *Output) {
	if e.Kind == Began {
		h.at = e.Now
	}
	if e.Kind == Acked {
		if e.Signal.Valid {
			h.reflected(e)
		} else if e.RTT > 0 {
			h.silent(e)
		}
	}
	o.Window, o.Rate = h.Window(), h.Rate()
	o.Ask = AskSignal(quantize.MinABWC)
	if h.full {
		switch h.delay {
		case DelayPD:
			o.Ask = AskSignal(quantize.MaxPD)
		case DelayQueueTime:
			o.Ask = AskSignal(MaxQueueTime)
		}
	}
}

func (h *HPCCCSIG) reflected(e *Event) {
	s := &e.Signal
	var u float64
	switch s.Type {
	case quantize.MinABWC: // u2 = 1 − min(ABW/C)
		u = 1 - float64(min(s.Low, 1e6))/1e6
		h.full = u >= h.Eta
		if h.delay == DelayRTT && e.RTT > 0 {
			u += h.smooth(max(0, float64(e.RTT-h.T)/float64(h.T)), e)
		}
	case quantize.MaxPD, MaxQueueTime: // u1; u2 is 1 where there is a queue
		u = h.smooth(float64(s.Low)*nanosecond/float64(h.T), e)
		if u == 0 {
			h.full = false // utilisation alone says how much
			h.at = e.Now
			return
		}
		u++
	default:
		return
	}
	h.update(e, u)
}

// silent is a path that brought no signal back, as a hop strips tags or knows no delay: what is left is the round trip, which has
// the window shrink where it is longer than T, and else grow by additive increase alone. It is not in the drafts, which have signals
// on every path; without it a flow whose path strips would send at line rate whatever happens.
func (h *HPCCCSIG) silent(e *Event) {
	h.full = false // and delay may be what no port knows
	h.update(e, math.Nextafter(h.Eta, 0)+max(0, float64(e.RTT-h.T)/float64(h.T)))
}

func (h *HPCCCSIG) update(e *Event, u float64) {
	// τ is the time since the last reflection, as CSIG has no timestamp.
	h.U = h.average(h.U, u, e.Now-h.at)
	h.at = e.Now
	update := e.Seq > h.until && e.Now >= h.committed+h.hold
	h.Compute(update)
	if update {
		h.until, h.committed = e.Next, e.Now
	}
}

// smooth is min(qlen, qlen before), which holds for one queue: while the locator stays. Another locator is another bottleneck, and may
// be another path: what is known of the last one is forgotten, at most once in a round trip, as two queues that are as long take
// turns, and each time what was committed is what is in force.
func (h *HPCCCSIG) smooth(u1 float64, e *Event) float64 {
	same := h.located && e.Signal.Locator == h.locator
	before := h.queued
	if h.located && !same && e.Seq > h.until {
		h.reset()
		h.until = e.Next
	}
	h.queued, h.locator, h.located = u1, e.Signal.Locator, true
	if same {
		return min(before, u1)
	}
	return u1
}
