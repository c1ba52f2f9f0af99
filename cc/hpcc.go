// Package cc has congestion control as pure functions and small states: what a sender does with what it learns of its
// path. It has no clock, no I/O and no randomness; times are picoseconds, sizes bytes.
package cc

import "math"

// Second is how many units of time a second has: picoseconds.
const Second = 1_000_000_000_000

const (
	microsecond = Second / 1_000_000
	nanosecond  = Second / 1_000_000_000
)

// Hop is what a packet has read at one egress port, all at one instant (draft-miao-tsv-hpcc §3).
type Hop struct {
	Port    uint32 // which of the network; another one in its place is another path
	Rate    uint64 // bit/s
	Bytes   uint64 // that it had sent by then; of the packet's queue, where there are several
	Queue   uint64 // bytes behind the packet
	Time    int64
	Sojourn int64   // that the packet was in the switch (§9.3)
	Share   float64 // of the rate that DWRR leaves its queue at least (§9.3); 0: all, as there is no other queue
}

// drain is how many bytes the hop's queue sends in a picosecond, at least.
func (h *Hop) drain() float64 {
	b := float64(h.Rate) / 8 / Second
	if h.Share > 0 {
		b *= h.Share
	}
	return b
}

// HPCCConfig are the parameters of HPCC++ (draft-miao-tsv-hpcc §4.1, Figure 3).
type HPCCConfig struct {
	T        int64   // the round trip without queues
	Eta      float64 // the utilisation that is aimed at
	MaxStage int     // additive increases before a multiplicative one
	AI       float64 // bytes that one adds
	Initial  float64 // the window of a flow that begins, bytes: at line rate
	Least    float64 // no window is smaller; bytes
	Sojourn  bool    // several queues: what packets wait counts, and not the queue's length (§9.3)
	When     When    // which packets carry telemetry
	Every    uint32  // of WhenSome
	RoCE     bool    // the receiver returns the link with most bytes in flight (§7.1)
}

// When is which packets carry telemetry (draft-miao-tsv-hpcc §6.2.1; draft-miao-iccrg-hpcc-01 §6).
type When uint8

// Telemetry is on each packet; on one in Every; on one in a round trip, the next one when the last one is back, which is a
// probe on the data's path and queue while data is in flight; or on each, and returned where a queue is, or none was for T.
const (
	WhenEach When = iota
	WhenSome
	WhenTrip
	WhenCongested
)

// DefaultHPCC are the draft's defaults for a host of so many bit/s, a round trip T, and as many flows on a link
// (§5: W_ai = W_init·(1−η)/N).
func DefaultHPCC(rate uint64, t int64, flows int) HPCCConfig {
	const eta = 0.95
	w := float64(rate) / 8 * float64(t) / Second
	return HPCCConfig{T: t, Eta: eta, MaxStage: 5, AI: w * (1 - eta) / float64(flows), Initial: w, Least: 1, Every: 1}
}

// busiest are lines 3 to 7 of MeasureInflight (Figure 4): the link that has most bytes in flight by what it can have, and
// the time between what had and has were read there; link -1: nothing can be said.
func (c *HPCCConfig) busiest(had, has []Hop) (u float64, tau int64, link int) {
	link = -1
	for i := range has {
		a, l := &has[i], &had[i]
		dt := a.Time - l.Time
		if dt <= 0 {
			continue // two packets of one instant say nothing about a rate
		}
		b := a.drain()
		waits := float64(min(a.Queue, l.Queue)) / (b * float64(c.T))
		if c.Sojourn {
			waits = float64(min(a.Sojourn, l.Sojourn)) / float64(c.T)
		}
		if one := waits + float64(a.Bytes-l.Bytes)/float64(dt)/b; one > u || link < 0 {
			u, tau, link = one, dt, i
		}
	}
	return u, tau, link
}

// average is lines 8 and 9: u as it is seen for tau, in a moving average over T.
func (c *HPCCConfig) average(before, u float64, tau int64) float64 {
	part := float64(min(tau, c.T)) / float64(c.T)
	return (1-part)*before + part*u
}

// Inflight is MeasureInflight (Figure 4): the bytes in flight of the link that has most of them, by what it can have, as
// a moving average of u. had is what the packet before has read on the same path.
func (c *HPCCConfig) Inflight(u float64, had, has []Hop) float64 {
	most, tau, _ := c.busiest(had, has)
	return c.average(u, most, tau)
}

// HPCC is the state of one flow. Its zero value is none: Begin.
type HPCC struct {
	HPCCConfig
	W, Wc    float64 // bytes
	U        float64
	Stage    int
	until    uint64 // an ACK behind it commits Wc (Figure 6, lastUpdateSeq)
	path     []Hop
	packets  uint32 // sent since one had telemetry
	asked    bool   // of WhenTrip: telemetry is on its way
	behind   uint64 // the packet that has it
	returned int64  // at the receiver: when telemetry was last returned
	seen     []Hop  // at the receiver
}

// NewHPCC is a flow's control that has its parameters.
func NewHPCC(c HPCCConfig) *HPCC {
	h := &HPCC{}
	h.Begin(c)
	return h
}

// On is NewAck at each acknowledgement that has telemetry, and which packets carry it.
func (h *HPCC) On(e *Event, o *Output) {
	switch e.Kind {
	case Began:
		o.Ask, o.Sent = AskTelemetry, h.When == WhenSome || h.When == WhenTrip
	case Sent:
		o.Ask = h.ask(e.Seq)
	case Acked:
		if e.Path != nil {
			h.Ack(e.Seq, e.Next, e.Path)
		}
		if e.Path != nil || e.Seq >= h.behind { // or its own acknowledgement was lost
			h.asked = false
		}
	case Lost, TimedOut: // the telemetry may be among what is lost
		h.asked = false
	}
	o.Window, o.Rate = h.Window(), h.Rate()
}

// ask is what the packet that ends before seq is to bring back.
func (h *HPCC) ask(seq uint64) Ask {
	if h.When == WhenTrip {
		if h.asked {
			return AskNothing
		}
		h.asked, h.behind = true, seq
		return AskTelemetry
	}
	if h.packets++; h.packets < h.Every {
		return AskNothing
	}
	h.packets = 0
	return AskTelemetry
}

// Data is the receiver: it returns all that a packet has read, unless it is to return less.
func (h *HPCC) Data(e *Event) {
	if e.Path == nil {
		return
	}
	if h.When == WhenCongested {
		quiet := e.Now < h.returned+h.T
		for i := range e.Path {
			quiet = quiet && e.Path[i].Queue == 0
		}
		if quiet {
			e.Path = nil
			return
		}
		h.returned = e.Now
	}
	if h.RoCE {
		link := -1
		if samePath(h.seen, e.Path) {
			_, _, link = h.busiest(h.seen, e.Path)
		}
		h.seen = append(h.seen[:0], e.Path...)
		if link < 0 {
			link = len(e.Path) - 1 // the first one says nothing of its path yet
		}
		e.Path = e.Path[link : link+1]
	}
}

// Begin is a flow that has sent nothing.
func (h *HPCC) Begin(c HPCCConfig) {
	*h = HPCC{HPCCConfig: c, W: c.Initial, Wc: c.Initial, U: 1, path: h.path[:0], seen: h.seen[:0]}
}

// Compute is ComputeWind (Figure 5).
func (h *HPCC) Compute(update bool) {
	if h.U >= h.Eta || h.Stage >= h.MaxStage {
		h.W = h.Wc/(h.U/h.Eta) + h.AI
		if update {
			h.Stage = 0
		}
	} else {
		h.W = h.Wc + h.AI
		if update {
			h.Stage++
		}
	}
	h.W = min(max(h.W, h.Least), h.Initial)
	if update {
		h.Wc = h.W
	}
}

// Ack is NewAck (Figure 6): the receiver has all up to seq, next is what the sender sends next, and path what a packet
// has read on its way. Where the path is another one than before, what is known of it begins anew (of RoCE another link may
// be the busiest one of the same path: what was read of the last one is forgotten, and nothing else).
func (h *HPCC) Ack(seq, next uint64, path []Hop) {
	if !samePath(h.path, path) {
		if !h.RoCE || len(h.path) == 0 {
			h.reset()
			h.until = next
		}
		h.path = append(h.path[:0], path...)
		return
	}
	h.U = h.Inflight(h.U, h.path, path)
	update := seq > h.until
	h.Compute(update)
	if update {
		h.until = next
	}
	copy(h.path, path)
}

// reset is a path of which nothing is known yet; what is in flight stays as it is.
func (h *HPCC) reset() { h.U, h.Stage, h.Wc = 1, 0, h.W }

func samePath(a, b []Hop) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Port != b[i].Port {
			return false
		}
	}
	return true
}

// Rate is how fast the flow is paced, bit/s (Figure 6: R = W/T).
func (h *HPCC) Rate() float64 { return h.W * 8 * Second / float64(h.T) }

// Window is how many bytes may be in flight.
func (h *HPCC) Window() uint64 { return window(h.W) }

// window is a window in whole bytes, of which there is one at least.
func window(w float64) uint64 { return uint64(math.Ceil(max(w, 1))) }
