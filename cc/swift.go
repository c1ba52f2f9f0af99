package cc

import (
	"math"

	"github.com/csig-agent/csig/quantize"
)

// SwiftConfig are the parameters of Swift (Kumar et al., SIGCOMM 2020, Algorithm 1 and §3.5), and of what CSIG adds
// (draft-ravi-ippm-csig-00 §8.1).
type SwiftConfig struct {
	MSS       float64 // bytes
	AI        float64 // packets a round trip
	Beta      float64
	MaxMDF    float64
	Base      int64   // target: base_target, with what the hops add
	FSRange   int64   // target: what flow scaling adds at most
	FSMin     float64 // packets: windows between which it does
	FSMax     float64
	Least     float64 // packets
	Most      float64
	Initial   float64
	ResetTime int // timeouts in a row after which the window is Least

	MaxPD bool    // §8.1.1: the bottleneck's delay in place of the round trip's; Base is of a hop then
	T     int64   // the round trip without queues: where no signal comes back, what is longer counts as the bottleneck's
	Ramp  float64 // §8.1.2: kλ; 0: no ramp-up
	Guard bool    // of the ramp-up: what was taken shows in the signal before more is
	Age   int64   // how long that takes, besides a round trip
	Jump  bool    // §8.1.3: a flow that begins has what min(ABW) leaves
}

// DefaultSwift is Swift for a path whose round trip is t, at a rate. The target, a quarter of t above it, what flow scaling adds, and
// bounds of the window are ours, as they depend on the fabric.
func DefaultSwift(rate uint64, t int64, mss int) SwiftConfig {
	bdp := float64(rate) / 8 * float64(t) / Second / float64(mss)
	return SwiftConfig{
		MSS: float64(mss), AI: 1, Beta: 0.8, MaxMDF: 0.5, Base: t + t/4, FSRange: 4 * t, FSMin: 0.1, FSMax: 100, Least: 0.001,
		Most: max(4*bdp, 10), Initial: max(bdp, 1), ResetTime: 5, Guard: true, T: t,
	}
}

// Swift is the state of one flow.
//
// Of S the lower end is used: of ABW and ABW/C the bandwidth that is there for certain, of PD the delay that was there for
// certain, as HPCCCSIG has it.
type Swift struct {
	SwiftConfig
	W         float64 // packets
	alpha     float64 // flow scaling, ps
	beta      float64
	rtt       int64
	decreased int64 // when
	timeouts  int
	free      float64 // 1 − max(U/C), as it was last seen
	wait      int64   // the ramp-up takes nothing before
	began     bool    // a jump-start is over
	turn      bool    // of packets that ask for one signal or the other
}

// NewSwift is a flow's control.
func NewSwift(c SwiftConfig) *Swift {
	s := &Swift{SwiftConfig: c, W: c.Initial, rtt: c.Base}
	s.alpha = float64(c.FSRange) / (1/math.Sqrt(c.FSMin) - 1/math.Sqrt(c.FSMax))
	s.beta = -s.alpha / math.Sqrt(c.FSMax)
	return s
}

// Target is TargetDelay (§3.5): with few packets in flight there are many flows, whose bursts need room.
func (s *Swift) Target() float64 {
	scaled := s.alpha/math.Sqrt(s.W) + s.beta
	return float64(s.Base) + max(0, min(scaled, float64(s.FSRange)))
}

// On is Algorithm 1.
func (s *Swift) On(e *Event, o *Output) {
	before := s.W
	switch e.Kind {
	case Began:
		s.decreased = e.Now
		o.Sent = s.MaxPD && s.Ramp > 0
	case Sent:
		s.turn = !s.turn
	case Acked:
		if e.Acked > 0 {
			s.timeouts = 0
		}
		s.acked(e)
	case Lost: // fast recovery
		s.decrease(e.Now, 1-s.MaxMDF)
	case TimedOut:
		if s.timeouts++; s.timeouts >= s.ResetTime {
			s.W = s.Least
		} else {
			s.decrease(e.Now, 1-s.MaxMDF)
		}
	}
	s.W = min(max(s.W, s.Least), s.Most)
	if s.W < before {
		s.decreased = e.Now
	}
	s.output(o)
}

// decrease is at most once in a round trip.
func (s *Swift) decrease(now int64, part float64) {
	if now-s.decreased >= s.rtt {
		s.W *= part
	}
}

func (s *Swift) acked(e *Event) {
	if e.RTT > 0 {
		s.rtt = e.RTT
	}
	delay, known := float64(s.rtt), e.RTT > 0
	if g := &e.Signal; g.Valid {
		switch g.Type {
		case quantize.MinABW:
			if s.jump(float64(g.Low)) {
				s.wait = e.Now + s.rtt + s.Age
			}
		case quantize.MinABWC:
			s.free = float64(min(g.Low, 1e6)) / 1e6
		case quantize.MaxPD:
			if s.MaxPD {
				delay, known = float64(g.Low)*nanosecond, true
			}
		}
		known = known && (!s.MaxPD || g.Type == quantize.MaxPD)
	} else if s.MaxPD {
		delay = float64(max(s.rtt-s.T, 0))
	}
	packets := float64(e.Acked) / s.MSS
	target := s.Target()
	switch {
	case known && delay >= target:
		s.decrease(e.Now, max(1-s.Beta*(delay-target)/delay, 1-s.MaxMDF))
	case e.Acked == 0:
	case s.W >= 1:
		s.W += (s.AI*packets + s.ramp(e, packets)) / s.W
	default:
		s.W += s.AI * packets
	}
}

// paced is how much faster than its window in a round trip a flow is paced, so that the window limits it.
const paced = 1.2

// ramp is what §8.1.2 adds for so many packets: in a round trip kλ·fcwnd·(1 − max(U/C)). With the guard it does so in one
// round trip, and takes more once the signal shows what that has taken: without, a round trip that is on its way adds to the
// same room again.
func (s *Swift) ramp(e *Event, packets float64) float64 {
	if s.Ramp == 0 || s.free == 0 {
		return 0
	}
	if s.Guard {
		if e.Now < s.wait {
			return 0
		}
		// All at once, as the signal is of now: what is spread over a round trip is seen in part only at its end.
		s.wait = e.Now + s.rtt + s.Age
		packets = s.W
	}
	return s.Ramp * s.W * s.free * packets
}

// jump is §8.1.3: a flow that has begun sends what min(ABW) leaves it, from the first signal on.
func (s *Swift) jump(room float64) bool {
	if !s.Jump || s.began {
		return false
	}
	s.began = true
	w := s.W
	s.W = max(s.W, room/8*float64(s.rtt)/Second/s.MSS)
	return s.W > w
}

func (s *Swift) output(o *Output) {
	o.Window, o.Rate = window(s.W*s.MSS), 0
	rate := s.W * s.MSS * 8 * Second / float64(s.rtt)
	switch {
	case s.W < 1: // pacing_delay
		o.Window, o.Rate = window(s.MSS), rate
	case s.Ramp > 0 || s.Jump: // what a larger window lets out is spread, and a short measurement window sees no gaps
		o.Rate = paced * rate
	}
	switch {
	case s.Jump && !s.began:
		o.Ask = AskSignal(quantize.MinABW)
	case s.Ramp > 0 && (!s.MaxPD || s.turn):
		o.Ask = AskSignal(quantize.MinABWC)
	case s.MaxPD:
		o.Ask = AskSignal(quantize.MaxPD)
	default:
		o.Ask = AskNothing
	}
}

// PoseidonConfig are the parameters of Poseidon (Wang et al., NSDI 2023, Algorithm 1).
type PoseidonConfig struct {
	MSS     float64
	P, K    int64   // of the target: at line rate it is K, at the least rate P + K
	M       float64 // how fast the ratio of update follows
	MinMD   float64 // the ratio is at least
	MaxMI   float64 // and at most
	Line    float64 // bit/s
	Least   float64 // bit/s
	Initial float64 // packets
	Most    float64
	T       int64
}

// DefaultPoseidon is Poseidon for a path whose round trip is t. Its parameters depend on the fabric: p, k, m and the bounds of the ratio
// are ours.
func DefaultPoseidon(rate uint64, t int64, mss int) PoseidonConfig {
	bdp := float64(rate) / 8 * float64(t) / Second / float64(mss)
	return PoseidonConfig{
		MSS: float64(mss), P: 40 * microsecond, K: 2 * microsecond, M: 0.25, MinMD: 0.5, MaxMI: 2, Line: float64(rate),
		Least: float64(rate) / 1000, Initial: max(bdp, 1), Most: max(4*bdp, 10), T: t,
	}
}

// Poseidon is the state of one flow. It uses the largest delay of a hop both to grow and to shrink: a flow that is fast has a
// lower target than one that is slow, so that they meet. The signal's lower end is used, as of Swift.
type Poseidon struct {
	PoseidonConfig
	W         float64 // packets
	rtt       int64
	decreased int64
}

// NewPoseidon is a flow's control.
func NewPoseidon(c PoseidonConfig) *Poseidon { return &Poseidon{PoseidonConfig: c, W: c.Initial} }

// Target is T(rate).
func (p *Poseidon) Target(rate float64) float64 {
	rate = min(max(rate, p.Least), p.Line)
	return float64(p.P)*(math.Log(p.Line)-math.Log(rate))/(math.Log(p.Line)-math.Log(p.Least)) + float64(p.K)
}

// Ratio is U(rate, MPD): by how much a round trip's window changes.
func (p *Poseidon) Ratio(rate, mpd float64) float64 {
	span := math.Log(p.Line) - math.Log(p.Least)
	return min(max(math.Exp((p.Target(rate)-mpd)/float64(p.P)*span*p.M), p.MinMD), p.MaxMI)
}

// On is Algorithm 1.
func (p *Poseidon) On(e *Event, o *Output) {
	switch {
	case e.Kind == Began:
		p.rtt = p.T
	case e.Kind == Acked:
		if e.RTT > 0 {
			p.rtt = e.RTT
		}
		if g := &e.Signal; g.Valid && g.Type == quantize.MaxPD {
			rate, mpd := p.W*p.MSS*8*Second/float64(p.rtt), float64(g.Low)*nanosecond
			ratio := p.Ratio(rate, mpd)
			if mpd <= p.Target(rate) {
				p.W *= 1 + (ratio-1)*min(float64(e.Acked)/p.MSS/p.W, 1)
			} else {
				p.decrease(e.Now, ratio)
			}
		}
	case e.Kind == Lost || e.Kind == TimedOut:
		p.decrease(e.Now, p.MinMD)
	}
	p.W = min(max(p.W, p.Least*float64(p.T)/8/Second/p.MSS), p.Most)
	o.Ask, o.Window, o.Rate = AskSignal(quantize.MaxPD), window(p.W*p.MSS), 0
	if p.W < 1 {
		o.Window, o.Rate = window(p.MSS), p.W*p.MSS*8*Second/float64(p.rtt)
	}
}

func (p *Poseidon) decrease(now int64, part float64) {
	if now-p.decreased >= p.rtt {
		p.W *= part
		p.decreased = now
	}
}
