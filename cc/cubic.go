package cc

import "math"

// Cubic is the state of one flow under CUBIC (RFC 9438): a window of packets, which slow start begins. It has no HyStart++.
type Cubic struct {
	MSS     float64 // bytes
	Most    float64 // packets
	W       float64 // packets
	SSThr   float64
	wMax    float64
	k       float64 // s
	epoch   int64   // when congestion avoidance began; -1: it has not
	wEst    float64
	atEpoch float64
	rtt     int64
	until   uint64 // no second reduction before it is acknowledged
}

// Constants of RFC 9438 §5 and §4.6.
const (
	cubicC    = 0.4
	cubicBeta = 0.7
)

// NewCubic is a flow's control, with an initial window of ten segments (RFC 6928).
func NewCubic(mss int) *Cubic {
	return &Cubic{MSS: float64(mss), Most: math.MaxInt32, W: 10, SSThr: math.MaxFloat64, epoch: -1}
}

// On follows RFC 9438 §4.
func (c *Cubic) On(e *Event, o *Output) {
	switch e.Kind {
	case Acked:
		if e.RTT > 0 && (c.rtt == 0 || e.RTT < c.rtt) {
			c.rtt = e.RTT
		}
		switch {
		case e.Marked:
			c.congested(e)
		case e.Acked > 0:
			c.grow(e.Now, float64(e.Acked)/c.MSS)
		}
	case Lost:
		c.congested(e)
	case TimedOut: // §4.8
		c.reduce()
		c.W = 1
		c.until = e.Next
	}
	c.W = min(max(c.W, 1), c.Most)
	o.Window = window(c.W * c.MSS)
}

func (c *Cubic) grow(now int64, packets float64) {
	if c.W < c.SSThr {
		c.W = min(c.W+packets, max(c.SSThr, c.W))
		return
	}
	if c.epoch < 0 { // a congestion avoidance stage begins (§4.2)
		c.epoch, c.wEst, c.atEpoch = now, c.W, c.W
		c.k = 0
		if c.wMax > c.W {
			c.k = math.Cbrt((c.wMax - c.W) / cubicC)
		} else {
			c.wMax = c.W
		}
	}
	t := float64(now-c.epoch) / Second
	// §4.3: the Reno-friendly region.
	alpha := 3 * (1 - cubicBeta) / (1 + cubicBeta)
	if c.wEst >= c.wMax {
		alpha = 1
	}
	c.wEst += alpha * packets / c.W
	if c.at(t) < c.wEst {
		c.W = max(c.W, c.wEst)
		return
	}
	// §4.4, §4.5: what W_cubic is a round trip ahead, at most 1.5 times the window.
	target := min(max(c.at(t+float64(c.rtt)/Second), c.W), 1.5*c.W)
	c.W += (target - c.W) / c.W * packets
}

// at is W_cubic(t).
func (c *Cubic) at(t float64) float64 { return cubicC*math.Pow(t-c.k, 3) + c.wMax }

// congested is a loss, or a mark, which counts as one (§4.6): all of a round trip are one (RFC 3168 §6.1.2).
func (c *Cubic) congested(e *Event) {
	if e.Seq > c.until || c.until == 0 {
		c.reduce()
		c.until = e.Next
	}
}

// reduce is §4.6, with fast convergence (§4.7).
func (c *Cubic) reduce() {
	if c.W < c.wMax {
		c.wMax = c.W * (1 + cubicBeta) / 2
	} else {
		c.wMax = c.W
	}
	c.SSThr = max(c.W*cubicBeta, 2)
	c.W = c.SSThr
	c.epoch = -1
}
