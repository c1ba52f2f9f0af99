package cc

import "math"

// DCTCPConfig are the parameters of DCTCP (RFC 8257).
type DCTCPConfig struct {
	MSS     float64 // bytes
	G       float64 // DCTCP.g, of alpha's average
	Initial float64 // bytes
	Most    float64
}

// DefaultDCTCP is DCTCP as RFC 8257 recommends it, with TCP's initial window of ten segments (RFC 6928).
func DefaultDCTCP(mss int) DCTCPConfig {
	m := float64(mss)
	return DCTCPConfig{MSS: m, G: 1.0 / 16, Initial: 10 * m, Most: math.MaxInt32}
}

// DCTCP is the state of one flow: slow start and congestion avoidance of TCP, and a window that falls by the part of the bytes
// that was marked.
type DCTCP struct {
	DCTCPConfig
	W             float64 // bytes
	Alpha         float64
	threshold     float64 // slow start ends
	acked, marked float64 // in this window
	until         uint64  // its end
	reduced       uint64  // no second reduction before
}

// NewDCTCP is a flow's control. Alpha begins with 1 (§3.3).
func NewDCTCP(c DCTCPConfig) *DCTCP {
	return &DCTCP{DCTCPConfig: c, W: c.Initial, Alpha: 1, threshold: math.MaxFloat64}
}

// On follows §3.3 and §3.4.
func (d *DCTCP) On(e *Event, o *Output) {
	switch e.Kind {
	case Acked:
		d.acked += float64(e.Acked)
		if e.Marked {
			d.marked += float64(e.Acked)
		}
		if e.Seq > d.until { // a window has passed: M, and alpha
			m := 0.0
			if d.acked > 0 {
				m = d.marked / d.acked
			}
			d.Alpha = (1-d.G)*d.Alpha + d.G*m
			d.acked, d.marked, d.until = 0, 0, e.Next
		}
		if e.Marked {
			d.reduce(e, d.Alpha/2)
		} else {
			d.grow(float64(e.Acked))
		}
	case Lost: // as TCP (§3.4)
		d.reduce(e, 0.5)
	case TimedOut:
		d.threshold, d.W = max(d.W/2, 2*d.MSS), d.MSS
		d.reduced = e.Next
	}
	d.W = min(max(d.W, d.MSS), d.Most)
	o.Window = window(d.W)
}

func (d *DCTCP) grow(acked float64) {
	if d.W < d.threshold {
		d.W = min(d.W+acked, max(d.threshold, d.W))
	} else {
		d.W += d.MSS * acked / d.W
	}
}

// reduce is at most once in a window of data.
func (d *DCTCP) reduce(e *Event, part float64) {
	if e.Seq <= d.reduced && d.reduced > 0 { // the first packet may be what is lost
		return
	}
	d.W = max(d.W*(1-part), 2*d.MSS)
	d.threshold, d.reduced = d.W, e.Next
}

// DCTCPRateConfig are the parameters of DCTCP by rate, the form of HPCC's public ns-3 code (CC_MODE 8).
type DCTCPRateConfig struct {
	Line   float64 // bit/s
	Window float64 // bytes at line rate
	Least  float64
	AI     float64 // DCTCP_RATE_AI, bit/s a round trip
	G      float64
	MSS    float64
}

// DefaultDCTCPRate are the parameters of that code's run.py.
func DefaultDCTCPRate(rate uint64, t int64, mss int) DCTCPRateConfig {
	return DCTCPRateConfig{Line: float64(rate), Window: float64(rate) / 8 * float64(t) / Second, Least: 1e9, AI: 615e6, G: 1.0 / 16, MSS: float64(mss)}
}

// DCTCPRate is the state of one flow, which begins at line rate.
type DCTCPRate struct {
	DCTCPRateConfig
	R, Alpha float64
	marked   int // packets of this round trip
	batch    float64
	until    uint64
	high     uint64 // in CWR until it is acknowledged
	cwr      bool
}

// NewDCTCPRate is a flow's control.
func NewDCTCPRate(c DCTCPRateConfig) *DCTCPRate {
	return &DCTCPRate{DCTCPRateConfig: c, R: c.Line, Alpha: 1}
}

// On updates alpha once in a round trip, and the rate at marks and then.
func (d *DCTCPRate) On(e *Event, o *Output) {
	if e.Kind == Acked {
		if e.Marked {
			d.marked++
		}
		trip := e.Seq > d.until
		if trip {
			if d.until == 0 {
				d.batch = math.Floor(float64(e.Next)/d.MSS) + 1
			} else {
				d.Alpha = (1-d.G)*d.Alpha + d.G*min(1, float64(d.marked)/d.batch)
				d.marked = 0
				d.batch = math.Floor(float64(e.Next-e.Seq)/d.MSS) + 1
			}
			d.until = e.Next
		}
		if d.cwr && e.Seq > d.high {
			d.cwr = false
		}
		if e.Marked && !d.cwr {
			d.R = max(d.Least, d.R*(1-d.Alpha/2))
			d.cwr, d.high = true, e.Next
		}
		if trip && !d.cwr {
			d.R = min(d.Line, d.R+d.AI)
		}
	}
	o.Rate, o.Window = d.R, window(d.Window*d.R/d.Line)
}
