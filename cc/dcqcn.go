package cc

import "math"

// DCQCNConfig are the parameters of DCQCN (Zhu et al., SIGCOMM 2015, §3 and §5).
type DCQCNConfig struct {
	Line     float64 // bit/s
	Least    float64
	G        float64
	Alpha    int64  // alpha decays each such time
	Decrease int64  // no two decreases are nearer
	Increase int64  // the timer of increases
	Bytes    uint64 // the byte counter of increases; 0: none, as in the ns-3 form
	F        int    // stages of fast recovery
	AI, HAI  float64
	Notify   int64   // the receiver sends no two CNPs nearer; 0: each marked packet has one
	Clamp    bool    // a decrease sets the target, also where no increase was since the last one
	Window   float64 // bytes at line rate, which follow the rate (DCQCN+w of the HPCC paper); 0: no window
}

// DefaultDCQCN are the parameters of the paper: timers of 55 and 50 µs, a byte counter of 10 MB, g 1/256, F 5, R_AI 40 Mbit/s. R_HAI
// and the least rate are ours.
func DefaultDCQCN(rate uint64) DCQCNConfig {
	r := float64(rate)
	return DCQCNConfig{
		Line: r, Least: r / 1000, G: 1.0 / 256, Alpha: 55 * microsecond, Decrease: 50 * microsecond, Increase: 55 * microsecond,
		Bytes: 10_000_000, F: 5, AI: 40e6, HAI: 200e6, Notify: 50 * microsecond, Clamp: true,
	}
}

// DCQCNWindow is the form of HPCC's public ns-3 code, dcqcn_vwin of its run.py: timers of a vendor's NICs and a window that follows
// the rate.
func DCQCNWindow(rate uint64, t int64) DCQCNConfig {
	r := float64(rate)
	return DCQCNConfig{
		Line: r, Least: 1e9, G: 1.0 / 256, Alpha: microsecond, Decrease: 4 * microsecond, Increase: 300 * microsecond,
		F: 1, AI: r / 5000, HAI: r / 500, Window: r / 8 * float64(t) / Second,
	}
}

// DCQCN is the state of one flow: both the reaction point, and the notification point at the receiver.
type DCQCN struct {
	DCQCNConfig
	R, Target  float64 // bit/s
	A          float64 // alpha
	marked     bool    // a CNP since alpha was last updated
	alphaAt    int64   // when that was
	cnp        bool    // one since the last decrease
	decreaseAt int64   // may be; 0: no CNP was ever
	increaseAt int64
	timers     int // increases by the timer since the last decrease
	counts     int // and by the byte counter
	bytes      uint64
	notified   int64
	notifies   bool
}

// NewDCQCN is a flow's control, which begins at line rate.
func NewDCQCN(c DCQCNConfig) *DCQCN { return &DCQCN{DCQCNConfig: c, R: c.Line, Target: c.Line, A: 1} }

// Data is the notification point (§3.2, Figure 6).
func (d *DCQCN) Data(e *Event) {
	if !e.Marked || d.notifies && e.Now < d.notified+d.Notify {
		return
	}
	e.CNP, d.notified, d.notifies = true, e.Now, true
}

// On is the reaction point (§3.2, Figure 7).
func (d *DCQCN) On(e *Event, o *Output) {
	switch e.Kind {
	case Began:
		o.Sent = d.Bytes > 0
	case Sent:
		if d.decreaseAt > 0 {
			d.bytes += uint64(e.Size)
			for d.bytes >= d.Bytes {
				d.bytes -= d.Bytes
				d.counts++
				d.increase()
			}
		}
	case Acked:
		if e.CNP {
			d.notify(e.Now)
		}
	}
	if d.increaseAt > 0 && e.Now >= d.increaseAt {
		d.increaseAt = e.Now + d.Increase
		d.timers++
		d.increase()
	}
	if d.cnp && e.Now >= d.decreaseAt {
		d.decrease(e.Now)
	}
	o.Rate, o.Window = d.R, math.MaxUint64
	if d.Window > 0 {
		o.Window = window(d.Window * d.R / d.Line)
	}
	o.Timer = d.increaseAt
	if d.cnp && (o.Timer == 0 || d.decreaseAt < o.Timer) {
		o.Timer = d.decreaseAt
	}
}

// notify is a CNP.
func (d *DCQCN) notify(now int64) {
	if d.decreaseAt == 0 { // the first one
		d.A, d.alphaAt = 1, now
		d.cnp, d.decreaseAt = true, now
		if d.Bytes == 0 { // the ns-3 form looks at the end of each time, from here on
			d.decreaseAt = now + d.Decrease
		}
		return
	}
	d.decay(now)
	d.marked, d.cnp = true, true
	if now > d.decreaseAt {
		if d.Bytes == 0 {
			d.decreaseAt += (now - d.decreaseAt + d.Decrease - 1) / d.Decrease * d.Decrease
		} else {
			d.decreaseAt = now
		}
	}
}

// decay brings alpha up to a time: (1−g)·α + g once after a CNP, and (1−g)·α each time without one.
func (d *DCQCN) decay(now int64) {
	for now-d.alphaAt >= d.Alpha {
		if !d.marked {
			n := (now - d.alphaAt) / d.Alpha
			d.A *= math.Pow(1-d.G, float64(n))
			d.alphaAt += n * d.Alpha
			return
		}
		d.A = (1-d.G)*d.A + d.G
		d.marked = false
		d.alphaAt += d.Alpha
	}
}

func (d *DCQCN) decrease(now int64) {
	d.decay(now)
	if d.Clamp || d.timers > 0 {
		d.Target = d.R
	}
	d.R = max(d.Least, d.R*(1-d.A/2))
	d.cnp = false
	d.decreaseAt = now + d.Decrease
	d.timers, d.counts, d.bytes = 0, 0, 0
	d.increaseAt = now + d.Increase
}

// increase is fast recovery, additive or hyper increase, by how many there were since the last decrease.
func (d *DCQCN) increase() {
	most, least := max(d.timers, d.counts), min(d.timers, d.counts)
	if d.Bytes == 0 { // with one counter the stage after fast recovery is additive once
		least = most - 1
	}
	switch {
	case most <= d.F:
	case least > d.F:
		d.Target += d.HAI
	default:
		d.Target += d.AI
	}
	d.Target = min(d.Target, d.Line)
	d.R = (d.R + d.Target) / 2
}

// TIMELYConfig are the parameters of TIMELY (Mittal et al., SIGCOMM 2015, Algorithm 1).
type TIMELYConfig struct {
	Line, Least float64 // bit/s
	Alpha       float64 // EWMA's weight
	Beta        float64
	AI          float64 // δ, bit/s
	Low, High   int64   // Tlow, Thigh
	MinRTT      int64
	N           int     // completions of falling round trips until increases are of 5δ
	Window      float64 // as of DCQCN
}

// DefaultTIMELY are the thresholds of the paper (50 and 500 µs, β 0.8, α 0.875), with its δ of 10 Mbit/s at 10 Gbit/s.
func DefaultTIMELY(rate uint64, t int64) TIMELYConfig {
	r := float64(rate)
	return TIMELYConfig{Line: r, Least: r / 1000, Alpha: 0.875, Beta: 0.8, AI: r / 1000, Low: 50 * microsecond, High: 500 * microsecond, MinRTT: max(t, 1), N: 5}
}

// TIMELY is the state of one flow. An update, which the paper has at the completion of a segment, is once in a round trip.
type TIMELY struct {
	TIMELYConfig
	R     float64
	last  int64
	diff  float64 // ps, as an average
	steps int
	until uint64
}

// NewTIMELY is a flow's control, which begins at line rate.
func NewTIMELY(c TIMELYConfig) *TIMELY { return &TIMELY{TIMELYConfig: c, R: c.Line} }

// On is Algorithm 1.
func (t *TIMELY) On(e *Event, o *Output) {
	if e.Kind == Acked && e.RTT > 0 && e.Seq > t.until {
		t.until = e.Next
		if t.last > 0 {
			t.update(e.RTT)
		}
		t.last = e.RTT
	}
	o.Rate, o.Window = t.R, math.MaxUint64
	if t.Window > 0 {
		o.Window = window(t.Window * t.R / t.Line)
	}
}

func (t *TIMELY) update(rtt int64) {
	t.diff = (1-t.Alpha)*t.diff + t.Alpha*float64(rtt-t.last)
	gradient := t.diff / float64(t.MinRTT)
	switch {
	case rtt < t.Low:
		t.R += t.AI
	case rtt > t.High:
		t.R *= 1 - t.Beta*(1-float64(t.High)/float64(rtt))
		t.steps = 0
	case gradient <= 0:
		if t.steps++; t.steps >= t.N {
			t.R += 5 * t.AI
		} else {
			t.R += t.AI
		}
	default:
		t.R *= max(0, 1-t.Beta*gradient)
		t.steps = 0
	}
	t.R = min(max(t.R, t.Least), t.Line)
}
