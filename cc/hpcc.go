// Package cc has congestion control as pure functions and small states: what a sender does with what it learns of its
// path. It has no clock, no I/O and no randomness; times are picoseconds, sizes bytes.
package cc

import "math"

// Second is how many units of time a second has: picoseconds.
const Second = 1_000_000_000_000

// Hop is what a packet has read at one egress port, all at one instant (draft-miao-tsv-hpcc §3).
type Hop struct {
	Port  uint32 // which of the network; another one in its place is another path
	Rate  uint64 // bit/s
	Bytes uint64 // that it had sent by then
	Queue uint64 // bytes behind the packet
	Time  int64
}

// HPCCConfig are the parameters of HPCC++ (draft-miao-tsv-hpcc §4.1, Figure 3).
type HPCCConfig struct {
	T        int64   // the round trip without queues
	Eta      float64 // the utilisation that is aimed at
	MaxStage int     // additive increases before a multiplicative one
	AI       float64 // bytes that one adds
	Initial  float64 // the window of a flow that begins, bytes: at line rate
	Least    float64 // no window is smaller; bytes
}

// DefaultHPCC are the draft's defaults for a host of so many bit/s, a round trip T, and as many flows on a link
// (§5: W_ai = W_init·(1−η)/N).
func DefaultHPCC(rate uint64, t int64, flows int) HPCCConfig {
	const eta = 0.95
	w := float64(rate) / 8 * float64(t) / Second
	return HPCCConfig{T: t, Eta: eta, MaxStage: 5, AI: w * (1 - eta) / float64(flows), Initial: w, Least: 1}
}

// Inflight is MeasureInflight (Figure 4): the bytes in flight of the link that has most of them, by what it can have, as
// a moving average of u. had is what the packet before has read on the same path.
func (c *HPCCConfig) Inflight(u float64, had, has []Hop) float64 {
	most, tau := 0.0, int64(0)
	for i := range has {
		a, l := &has[i], &had[i]
		dt := a.Time - l.Time
		if dt <= 0 {
			continue // two packets of one instant say nothing about a rate
		}
		b := float64(a.Rate) / 8 / Second // bytes a picosecond
		rate := float64(a.Bytes-l.Bytes) / float64(dt)
		if one := float64(min(a.Queue, l.Queue))/(b*float64(c.T)) + rate/b; one > most {
			most, tau = one, dt
		}
	}
	part := float64(min(tau, c.T)) / float64(c.T)
	return (1-part)*u + part*most
}

// HPCC is the state of one flow. Its zero value is none: Begin.
type HPCC struct {
	HPCCConfig
	W, Wc float64 // bytes
	U     float64
	Stage int
	until uint64 // an ACK behind it commits Wc (Figure 6, lastUpdateSeq)
	path  []Hop
}

// NewHPCC is a flow's control that has its parameters.
func NewHPCC(c HPCCConfig) *HPCC {
	h := &HPCC{}
	h.Begin(c)
	return h
}

// On is NewAck at each acknowledgement that has telemetry.
func (h *HPCC) On(e *Event, o *Output) {
	if e.Kind == Acked && e.Path != nil {
		h.Ack(e.Seq, e.Next, e.Path)
	}
	o.Window, o.Rate, o.Ask = h.Window(), h.Rate(), AskTelemetry
}

// Begin is a flow that has sent nothing.
func (h *HPCC) Begin(c HPCCConfig) {
	*h = HPCC{HPCCConfig: c, W: c.Initial, Wc: c.Initial, U: 1, path: h.path[:0]}
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
// has read on its way. Where the path is another one than before, what is known of it begins anew.
func (h *HPCC) Ack(seq, next uint64, path []Hop) {
	if !h.samePath(path) {
		h.U, h.Stage, h.Wc = 1, 0, h.W
		h.path = append(h.path[:0], path...)
		h.until = next
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

func (h *HPCC) samePath(path []Hop) bool {
	if len(h.path) != len(path) {
		return false
	}
	for i := range path {
		if path[i].Port != h.path[i].Port {
			return false
		}
	}
	return true
}

// Rate is how fast the flow is paced, bit/s (Figure 6: R = W/T).
func (h *HPCC) Rate() float64 { return h.W * 8 * Second / float64(h.T) }

// Window is how many bytes may be in flight.
func (h *HPCC) Window() uint64 { return uint64(math.Ceil(h.W)) }
