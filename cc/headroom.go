package cc

import (
	"math"

	"github.com/csig-agent/csig/quantize"
)

// Headroom is what csig's congestion control on hosts does beside CUBIC (draft-ravi-ippm-csig-00 §8.1.2, §8.1.3): a connection
// that begins, or ramps up, takes a share of the bandwidth that the signal shows to be free. It follows hosts/tcp/control.bpf.c
// line by line, in its integers: times are ns, rates bytes/s, windows packets.
type Headroom struct {
	Age       uint64 // what a port writes now is known to no sender before; without the path's delay
	Current   uint64 // an older signal gives no head-room
	JumpShare uint64 // N of 1/N
	RampShare uint64

	At      uint64 // of the last valid signal; 0: none, or it was stale
	Room    uint64 // that it leaves at least
	Jump    bool   // it may jump once
	Jumps   int
	Ramps   int
	Failed  int
	Cap     uint64 // bytes/s that it is limited to; 0: none
	next    uint64
	sampled uint64
	before  uint64 // packets delivered when the measurement began
	rate    uint64
	took    uint64
	seen    uint64
	held    uint
}

// Path is what TCP knows of the connection.
type Path struct {
	MSS       uint64
	SRTT      uint64 // ns
	MinRTT    uint64 // ns
	Window    uint64 // snd_cwnd
	Threshold uint64 // snd_ssthresh
	MostSent  uint64 // packets in flight at most, lately
	Delivered uint64 // packets
	Unlimited bool   // slow start has no threshold yet
}

const (
	headSecond   = 1_000_000_000
	headMostHeld = 4 // 16 s
)

// NewHeadroom is a connection that csig's control has got just now.
func NewHeadroom(age, current uint64, jump, ramp uint64) *Headroom {
	return &Headroom{Age: age, Current: current, JumpShare: max(jump, 1), RampShare: max(ramp, 1), Jump: true}
}

// inPackets is how many packets a rate has in flight over the path's own delay: a queue that head-room made would ask for more.
func (p *Path) inPackets(rate uint64) uint64 {
	us := p.MinRTT / 1000
	if us == 0 || us > p.SRTT/1000 {
		us = p.SRTT / 1000
	}
	return rate * min(us, 1_000_000) / 1_000_000 / max(p.MSS, 1)
}

// usesWindow is whether the window limits the connection, and not the application or the receiver.
func (p *Path) usesWindow() bool { return p.MostSent >= p.Window-p.Window/4 }

// Slow is a loss: no head-room until its effects are in the signal.
func (h *Headroom) Slow(p *Path, now uint64) {
	if h.took > 0 {
		h.hold(now)
	}
	h.next = max(h.next, now+h.Age+p.SRTT)
}

// hold takes no head-room for a time, where what was taken did not come through: another one took it, or it was never there.
func (h *Headroom) hold(now uint64) {
	h.took = 0
	h.next = now + headSecond<<h.held
	h.held = min(h.held+1, headMostHeld)
	h.Failed++
}

// Acked ends a measurement that has lasted until its effects are in the signal.
func (h *Headroom) Acked(p *Path, now uint64) {
	if lasted := now - h.sampled; lasted >= h.Age+p.SRTT {
		rate := (p.Delivered - h.before) * p.MSS * 1_000_000 / max(lasted/1000, 1)
		if h.took > 0 {
			if rate < h.rate+h.took/4 && p.usesWindow() {
				h.hold(now)
			} else {
				h.held = 0
			}
			h.took = 0
		}
		h.rate = rate
		h.Begin(p, now)
	}
	if h.took == 0 {
		h.Cap = 0
	}
}

// Begin begins to measure what is delivered.
func (h *Headroom) Begin(p *Path, now uint64) { h.sampled, h.before = now, p.Delivered }

// Take takes head-room where the signal shows some that this connection has not taken yet: it changes the path's window and
// threshold.
func (h *Headroom) Take(p *Path, now uint64) {
	room := h.Room
	if h.At == 0 || now-h.At >= h.Current || p.SRTT/1000 == 0 {
		return
	}
	if h.took > 0 {
		// What was taken makes the room smaller, sooner or later: what it is larger by now is new.
		if room <= h.seen || p.Window < p.Threshold {
			return
		}
		room -= h.seen
	} else if h.At < h.next {
		return
	}
	if p.Window < p.Threshold {
		if !h.Jump { // §8.1.3. What slow start adds it adds to the larger window, up to where the room ends.
			return
		}
		h.Jump = false
		all := p.inPackets(room)
		if all < 2*p.Window {
			return // slow start is nearly there
		}
		if p.Unlimited {
			p.Threshold, p.Unlimited = all, false
		}
		if share := room / h.JumpShare; h.raise(p, p.inPackets(share), share, now) {
			h.Jumps++
		}
		return
	}
	// §8.1.2, of a connection that uses its window and whose rate is known.
	if h.rate == 0 || !p.usesWindow() {
		return
	}
	share := room / h.RampShare
	had := max(p.Window*p.MSS*1_000_000/(p.SRTT/1000), h.rate)
	if !h.raise(p, p.Window+p.inPackets(share), share, now) {
		return
	}
	if rate := had + share + (had+share)/16; rate < math.MaxUint32 { // and headers; of 32 bits, as the socket's option is
		h.Cap = rate
	}
	h.Ramps++
}

func (h *Headroom) raise(p *Path, window, took, now uint64) bool {
	if window <= p.Window {
		return false
	}
	p.Window = window
	h.took += took
	h.seen = h.Room
	h.Begin(p, now)
	h.next = now + h.Age + p.SRTT
	return true
}

// CubicCSIG is csig's congestion control of hosts: CUBIC, and head-room beside it. Of S the lower end is used, as the hosts do:
// bandwidth that is there for certain.
type CubicCSIG struct {
	Cubic
	*Headroom
	slowest   uint64 // bytes/s of the slowest port, which abwc is a part of, and of the host's own
	path      Path
	delivered float64
	inflight  uint64
	most      uint64 // in flight, in this round trip
	until     uint64
}

// NewCubicCSIG is a flow's control; slowest is the capacity of the slowest port, in bit/s.
func NewCubicCSIG(mss int, h *Headroom, slowest uint64) *CubicCSIG {
	return &CubicCSIG{Cubic: *NewCubic(mss), Headroom: h, slowest: slowest / 8, path: Path{MSS: uint64(mss)}}
}

// On is CUBIC, and what csig's control does at each acknowledgement and loss.
func (c *CubicCSIG) On(e *Event, o *Output) {
	before := c.Cubic.until
	c.Cubic.On(e, o)
	now, p := uint64(e.Now/nanosecond), &c.path
	switch e.Kind {
	case Acked:
		if e.RTT > 0 {
			rtt := uint64(e.RTT / nanosecond)
			if p.SRTT == 0 {
				p.SRTT, p.MinRTT = rtt, rtt
			}
			p.SRTT, p.MinRTT = p.SRTT-p.SRTT/8+rtt/8, min(p.MinRTT, rtt)
		}
		c.delivered += float64(e.Acked) / c.MSS
		p.Delivered = uint64(c.delivered)
		if c.inflight = (e.Next - min(e.Seq, e.Next)) / p.MSS; e.Seq > c.until {
			p.MostSent, c.most, c.until = max(c.most, c.inflight), 0, e.Next
		}
		c.most = max(c.most, c.inflight)
		c.signal(&e.Signal, now)
		c.exchange(func() {
			if c.Cubic.until != before { // a mark, at which the kernel's state changes as at a loss
				c.Slow(p, now)
			}
			c.Acked(p, now)
			c.Take(p, now)
		})
	case Lost, TimedOut:
		c.exchange(func() { c.Slow(p, now) })
	}
	o.Window, o.Ask = window(c.W*c.MSS), AskSignal(quantize.MinABW)
	o.Rate = float64(c.Cap) * 8
}

// signal is what a signal leaves at least, which is no more than the link of the host. Where a port's agent is gone it is none; a tag that
// no port replaced says nothing, as to hosts.
func (c *CubicCSIG) signal(g *Signal, now uint64) {
	switch {
	case !g.Valid, g.Locator == quantize.Draft00.LMNone():
		return
	case g.Type == quantize.MinABW:
		c.At, c.Room = now, min(g.Low/8, c.slowest)
	case g.Type == quantize.MinABWC:
		c.At, c.Room = now, uint64(float64(min(g.Low, 1e6))/1e6*float64(c.slowest))
	}
	if g.Low == 0 && g.Locator == quantize.Draft00.LMStale() {
		c.At = 0
	}
}

// exchange has the head-room see CUBIC's window and threshold, and CUBIC what it has made of them.
func (c *CubicCSIG) exchange(do func()) {
	p := &c.path
	p.Window, p.Unlimited = uint64(c.W), c.SSThr > 1e12
	p.Threshold = 0x7fffffff
	if !p.Unlimited {
		p.Threshold = uint64(c.SSThr)
	}
	was := *p
	do()
	if p.Window != was.Window {
		c.W = float64(p.Window)
	}
	if p.Threshold != was.Threshold {
		c.SSThr = float64(p.Threshold)
	}
}
