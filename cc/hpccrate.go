package cc

import "math"

// RateConfig are the parameters of HPCC by rate, the form of the public ns-3 code of its authors
// (alibaba-edu/High-Precision-Congestion-Control, CC_MODE 3 and 10).
type RateConfig struct {
	T        int64   // base RTT: GLOBAL_T's, the longest of all pairs of hosts
	Line     float64 // bit/s of the host
	Window   float64 // bytes at line rate: line rate · T
	Eta      float64 // U_TARGET
	MaxStage int     // MI_THRESH
	AI       float64 // RATE_AI, bit/s
	Least    float64 // MIN_RATE, bit/s
	PINT     bool    // CC_MODE 10: the largest utilisation alone, by EncodePower
}

// DefaultRate are the parameters of that code's config.txt for 100 Gbit/s.
func DefaultRate(rate uint64, t int64) RateConfig {
	return RateConfig{T: t, Line: float64(rate), Window: float64(rate) / 8 * float64(t) / Second, Eta: 0.95, AI: 50e6, Least: 100e6}
}

// HPCCRate is HPCC by rate: the rate follows the utilisation, and the window is the rate's part of that at line rate
// (VAR_WIN). Between the updates of a round trip it reacts to each packet (FAST_REACT), as the drafts' W does to Wc.
type HPCCRate struct {
	RateConfig
	R, Rc float64 // bit/s: now, and as committed
	U     float64
	Stage int
	until uint64
	path  []Hop
	like  HPCCConfig // that Inflight takes
}

// NewHPCCRate is a flow's control, which begins at line rate.
func NewHPCCRate(c RateConfig) *HPCCRate {
	return &HPCCRate{RateConfig: c, R: c.Line, Rc: c.Line, U: 1, like: HPCCConfig{T: c.T}}
}

// On updates the rate at each acknowledgement.
func (h *HPCCRate) On(e *Event, o *Output) {
	o.Ask = AskTelemetry
	if h.PINT {
		o.Ask = AskPower
	}
	if e.Kind == Acked && (e.Path != nil || h.PINT) {
		h.ack(e)
	}
	o.Rate, o.Window = h.R, window(h.Window*h.R/h.Line)
}

func (h *HPCCRate) ack(e *Event) {
	update := e.Seq > h.until
	first := h.until == 0
	if update {
		h.until = e.Next
	}
	if h.PINT {
		if first {
			return
		}
		h.U = DecodePower(e.Power)
	} else {
		if first || !samePath(h.path, e.Path) {
			h.path = append(h.path[:0], e.Path...)
			return
		}
		h.U = h.like.Inflight(h.U, h.path, e.Path)
		copy(h.path, e.Path)
	}
	c, stage := h.U/h.Eta, h.Stage+1
	if c >= 1 || h.Stage >= h.MaxStage {
		h.R, stage = h.Rc/c+h.AI, 0
	} else {
		h.R = h.Rc + h.AI
	}
	h.R = min(max(h.R, h.Least), h.Line)
	if update {
		h.Rc, h.Stage = h.R, stage
	}
}

// PINTPort is what a port of a switch keeps for PINT: its utilisation, as a moving average over T.
type PINTPort struct {
	U    float64
	at   int64
	last int32 // bytes of the packet before
}

// Send is a packet of so many bytes that a port of rate bit/s begins to send, and queue the bytes behind it. It returns the
// utilisation, of the packets before this one.
func (p *PINTPort) Send(now int64, size int32, queue, rate uint64, t int64) float64 {
	dt := min(now-p.at, t)
	part := float64(dt) / float64(t)
	bdp := float64(rate) / 8 / Second * float64(t)
	p.U = p.U*(1-part) + float64(p.last)/bdp + part*float64(queue)/bdp
	p.at, p.last = now, size
	return p.U
}

// SendNS3 is Send in the arithmetic of the public ns-3 code's switch: times are in ns, products sums of logarithms of which 15 bits
// behind the point count, the queue is in units of 256 bytes and the average in those of 1/8192. (Above 16 bits it rounds by chance
// before; no such number comes up below a utilisation of 8.)
func (p *PINTPort) SendNS3(now int64, size int32, queue, rate uint64, t int64) float64 {
	const nanosecond, unit, part = Second / 1e9, 256, 8192
	dt, trip := min(now/nanosecond-p.at/nanosecond, t/nanosecond), t/nanosecond
	perT := math.Log2(1e9/float64(rate/8)) - math.Log2(float64(trip)) // of a byte
	u := 0.0
	if queue >= unit && dt > 0 {
		u += unit * math.Exp2(shortLog(dt)+shortLog(int64(queue/unit))+perT-math.Log2(float64(trip)))
	}
	if p.last > 0 {
		u += math.Exp2(shortLog(int64(p.last)) + perT)
	}
	if before := int64(math.Round(p.U * part)); trip > dt && before > 0 {
		u += math.Exp2(shortLog(trip-dt)+shortLog(before)-math.Log2(float64(trip))) / part
	}
	p.U = u
	p.Passes(now, size)
	return u
}

// Passes is a packet without PINT.
func (p *PINTPort) Passes(now int64, size int32) { p.at, p.last = now, size }

// shortLog is a logarithm to the base of two, of which 15 bits behind the point count.
func shortLog(x int64) float64 { return math.Trunc(math.Log2(float64(x))*(1<<15)) / (1 << 15) }

// powerBase and powerUnit are PINT's: a power of 1.05 of u·512, which 512 flows on a link may need.
const (
	powerBase = 1.05
	powerUnit = 512
)

var powerFactor = 1 / math.Log(powerBase)

// EncodePower is u as the exponent of powerBase, rounded up or down by chance, so that it is right in the mean: draw is
// from 0 to 1.
func EncodePower(u, draw float64) uint16 {
	n := max(math.Ceil(u*powerUnit), 1)
	low := math.Floor(math.Log(n) * powerFactor)
	least := math.Pow(powerBase, low)
	if draw < (n-least)/(least*powerBase-least) {
		low++
	}
	return uint16(min(low, math.MaxUint16))
}

// DecodePower is what EncodePower has encoded.
func DecodePower(p uint16) float64 { return math.Pow(powerBase, float64(p)) / powerUnit }
