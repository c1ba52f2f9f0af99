package counters

import (
	"time"
)

// EstimatorConfig is what one port's estimator needs to know.
type EstimatorConfig struct {
	// Interval is the averaging window Δt (draft-00 §5.3.2). 0 means from one
	// sample to the next.
	Interval time.Duration
	// Least is the shortest window of the raw method: after readings that came late, or took long,
	// or at the beginning, the next one may come so soon that a window says nothing about Δt. Nor
	// does one whose Error is as long as it is: then it is up to three times Δt long. 0 takes any.
	Least time.Duration
	// Speed is the configured speed in bit/s, 0 where none is. See Capacity.
	Speed uint64
	// Tau is the time constant of EWMA and DRE; 0 takes the Interval.
	Tau time.Duration
}

// Estimator turns the samples of one port into available bandwidth with the
// raw method of draft-00 §5.1.1: the bits sent over the last Δt, preamble, gap
// and FCS included, subtracted from the capacity.
//
// Sampling may be faster than Δt. The window always ends at the newest sample
// and starts at the oldest one that is not older than Δt plus half the gap
// between the two newest samples; where every earlier sample is older than
// that, it starts at the one before the newest. So a schedule equal to Δt
// takes consecutive samples in spite of jitter, a faster schedule comes as
// close to Δt as the samples allow, and while there is less than Δt of history
// the window is what there is, from EstimatorConfig.Least on. Start and End of the Estimate are the truth:
// the rate is always computed over the window really taken.
//
// An Estimator is not safe for concurrent use.
type Estimator struct {
	cfg  EstimatorConfig
	prev Sample // the newest usable reading
	have bool   // prev holds one

	reported uint64 // the speed that the newest reading has which did not fail

	// octets and packets count from where this estimator started: wraps are
	// resolved one gap at a time, so that a window may hold several.
	octets, packets uint64
	steps           time.Duration // sum of the samples' StepErrors
	window          window

	deficit deficit
	still   bool // octets were missing up to prev
}

// maxPoints is how many window starts an estimator keeps at most, and
// perInterval how many of them it takes in one Δt. Faster schedules are
// thinned to that.
const (
	maxPoints   = 128
	perInterval = 64
)

// widest is how many Δt a window may be long where a shorter one has an Error as long as itself.
const widest = 3

const capacityUnknown = "capacity unknown: the device does not report it; set speed: for this port in the fleet file"

// NewEstimator returns an estimator that has seen no sample.
func NewEstimator(cfg EstimatorConfig) *Estimator {
	e := &Estimator{}
	e.configure(cfg)
	return e
}

func (e *Estimator) configure(cfg EstimatorConfig) {
	cfg.Interval = max(cfg.Interval, 0)
	e.cfg = cfg
}

// Update takes the port's next sample and returns the estimate over the window
// that ends with it. It allocates nothing once the window is full, as long as
// the samples are good.
func (e *Estimator) Update(s Sample) Estimate { return e.update(&s) }

func (e *Estimator) update(s *Sample) Estimate {
	if s.Err == nil {
		e.reported = s.Speed
	}
	est := Estimate{Start: s.At, End: s.At, Capacity: Capacity(e.cfg.Speed, e.reported), Reason: s.Degraded}
	if s.Err != nil {
		return est.as(Error, s.Err.Error())
	}
	if !s.Up {
		// What was sent before says nothing about the link that comes back.
		e.drop()
		return est.as(Down, "link down")
	}
	switch s.Fresh {
	case Held:
		return est.as(NotRefreshed, "the source has not refreshed its counters yet")
	case Stuck:
		return est.as(Stale, "no counter of the device has moved for longer than its refreshes take: it may have stopped counting")
	}
	if est.Capacity == 0 {
		e.drop()
		return est.as(Error, capacityUnknown)
	}
	if !e.have {
		e.restart(s)
		return est.as(First, "first reading: no window yet")
	}
	est.Start = e.prev.At
	gap := s.At.Sub(e.prev.At)
	why := e.discontinuity(s)
	switch {
	case why != "":
		e.drop()
		e.restart(s)
		return est.as(Discontinuity, why)
	case s.Fresh == Anchor:
		e.restart(s)
		return est.as(First, "learning how often the source refreshes its counters")
	case gap < 0:
		e.restart(s)
		return est.as(NoProgress, "reading is older than the one before: the clock was set back")
	case gap == 0:
		e.steps += s.StepError // what comes next is that far from this one
		return est.as(NoProgress, "reading has the same time as the one before")
	}

	if stepped(gap, e.prev.Local, s.Local) {
		e.restart(s)
		return est.as(Discontinuity, "the device's clock stepped")
	}
	octets, packets, why := advance(&e.prev, s, max(est.Capacity, e.cfg.Speed), gap+s.StepError+e.prev.Within+s.Within+max(e.prev.Lag, s.Lag))
	if why != "" {
		e.restart(s)
		est.State, est.Reason = Discontinuity, why
		if why == ambiguous {
			est.State = Error
		}
		return est
	}
	switch missing := e.deficit.add(octets, packets); {
	case missing:
		e.restart(s)
		e.still = true
		return est.as(Error, behind)
	case e.still:
		// What was not counted meanwhile may have come at once.
		e.restart(s)
		e.still = false
		return est.as(Discontinuity, caughtUp)
	}
	e.octets += octets
	e.packets += packets
	e.steps += s.StepError
	now := point{s.At, e.octets, e.packets, s.AtError, e.steps, s.Within, s.Likely, s.Lag}
	e.window.expire(&now, e.cfg.Interval+gap/2, widest*e.cfg.Interval+gap/2, e.cfg.Least)
	start := &e.window[0]
	est.Start = start.at
	var fits bool
	octets, packets = e.octets-start.octets, e.packets-start.packets
	est.Bits, fits = wireBits(octets, packets, s.Overhead)
	if !fits {
		e.restart(s)
		return est.as(Discontinuity, jump)
	}
	est.State = OK
	est.Error = apart(start, &now)
	long := est.End.Sub(est.Start)
	if likelier := now.likely - start.likely; likelier != 0 {
		est.likelier = max(min(likelier, est.Error), -est.Error, -long/2)
	}
	if load := rate(est.Bits, long+est.likelier); load < est.Capacity {
		est.ABW = est.Capacity - load
	}
	est.ABWC = ppm(est.ABW, est.Capacity)
	e.judge(&est, octets, packets, s.Overhead)
	if s.Doubt {
		est.more, est.Reason = max(est.more, 8*sendable(est.Capacity, est.End.Sub(est.Start))), unrefreshed
	}
	e.prev = *s
	short := e.cfg.Least > 0 && surely(start, &now) < e.cfg.Least
	unknown := e.cfg.Least > 0 && est.Bits > 0 && !known(start, &now)
	e.window.push(now, e.cfg.Interval/perInterval)
	switch none := (Estimate{Start: s.At, End: s.At, Capacity: est.Capacity}); {
	case short:
		return none.as(First, "the window is too short yet")
	case unknown:
		return none.as(First, "how long the window was is not known yet")
	}
	return est
}

// judge widens what an estimate may be where octets, packets and the link's speed do
// not fit together.
func (e *Estimator) judge(est *Estimate, octets, packets uint64, overhead uint8) {
	longest := est.End.Sub(est.Start) + est.Error
	speed := max(est.Capacity, e.prev.Speed)
	if most := sendable(speed, longest); octets > most+most/4+overshoot {
		est.unsure, est.Reason = true, beyond
	}
	if packets == 0 && octets > 0 || packets < octets/mostFrame {
		if est.more, _ = wireBits(0, octets/leastFrame+1, overhead); est.more > 0 {
			est.Reason = few
		}
	}
}

// drop deletes every reading: the next one is the first.
func (e *Estimator) drop() {
	e.have, e.still, e.deficit = false, false, 0
	e.window = e.window[:0]
}

// restart makes s the start of the next window.
func (e *Estimator) restart(s *Sample) {
	e.prev, e.have = *s, true
	e.window = e.window[:0]
	e.window.push(point{s.At, e.octets, e.packets, s.AtError, e.steps, s.Within, s.Likely, s.Lag}, 0)
}

// stepTolerance is how far apart the device's clock and ours may move between two
// readings: what a reading may be held up on its way.
const stepTolerance = 250 * time.Millisecond

// stepped reports whether a clock that moved by gap was set meanwhile, if our clock went
// from before to now. One that runs wrong by less than an eighth is believed.
func stepped(gap time.Duration, before, now time.Time) bool {
	if before.IsZero() || now.IsZero() {
		return false
	}
	ours := now.Sub(before)
	return (gap - ours).Abs() > ours.Abs()/8+stepTolerance
}

// discontinuity says why s and the reading before it are not of one counter.
func (e *Estimator) discontinuity(s *Sample) string {
	switch p := &e.prev; {
	case s.Epoch != p.Epoch:
		return "counters restarted"
	case s.Speed != p.Speed && Capacity(e.cfg.Speed, s.Speed) > Capacity(e.cfg.Speed, p.Speed): // a window has the smallest capacity of its time
		return "link speed changed"
	case s.Bits != p.Bits || s.Overhead != p.Overhead:
		return "counter changed its kind"
	}
	return ""
}
