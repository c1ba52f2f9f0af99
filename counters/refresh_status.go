package counters

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// RefreshKind says how a source refreshes its counters, as far as readings show.
type RefreshKind uint8

// The kinds of sources.
const (
	// RefreshUnknown: there is too little to go by yet.
	RefreshUnknown RefreshKind = iota
	// RefreshLive: the values are those of the reading.
	RefreshLive
	// RefreshHidden: every reading has news, but nothing shows that the values are those of the
	// reading: they are up to a Period old.
	RefreshHidden
	// RefreshTimer: a timer of the source's own.
	RefreshTimer
	// RefreshOnDemand: a cache that a reading refills when it is too old.
	RefreshOnDemand
	// RefreshIrregular: no rule; the instants are only known to lie between two
	// readings.
	RefreshIrregular
)

var refreshNames = [...]string{"unknown", "live", "hidden", "timer", "on-demand", "irregular"}

// String returns the kind's name as JSON and logs spell it.
func (k RefreshKind) String() string { return refreshNames[k] }

// MarshalText is String, for JSON.
func (k RefreshKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (k *RefreshKind) UnmarshalText(text []byte) error {
	i := slices.Index(refreshNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("no kind of refresh: %q", text)
	}
	*k = RefreshKind(i)
	return nil
}

// EveryReading reports whether each reading has news.
func (k RefreshKind) EveryReading() bool { return k == RefreshLive || k == RefreshHidden }

// RefreshStatus is what has been learned of a source.
type RefreshStatus struct {
	Kind RefreshKind `json:"kind"`
	// Period is how long the source takes from refresh to refresh, right to within
	// PeriodError: a timer's, the longest that was seen where there is no rule, and that of the
	// readings for a live source. 0 while it is unknown. It is that of the port which takes longest, of those
	// that send all the while; where none does, of the one which takes the least, as the others may have sent nothing.
	Period      time.Duration `json:"period_ns"`
	PeriodError time.Duration `json:"period_error_ns"`
	Jitter      time.Duration `json:"jitter_ns"` // how far refreshes are off the period
	Refreshes   uint64        `json:"-"`         // seen so far
	Last        time.Time     `json:"-"`         // the instant of the last refresh, in the samples' clock
	Stuck       bool          `json:"stuck"`     // nothing has moved for longer than expected
}

// Status returns what has been learned up to now.
func (r *Refresh) Status() RefreshStatus {
	st := RefreshStatus{Refreshes: r.seen, Stuck: r.stuck}
	if r.declared.now {
		st.Kind, st.Period = RefreshLive, time.Duration(r.declared.gap)
		st.Last, st.Refreshes, st.Stuck = r.declared.last, r.declared.seen, false
		return st
	}
	var shown *refreshPort
	for i := range r.ports {
		if p := &r.ports[i]; p.ticking && (shown == nil || p.tells(shown)) {
			shown = p
		}
	}
	if shown != nil {
		st.Last = r.base.Add(time.Duration(shown.at))
		r.describe(&st, shown)
	}
	return st
}

// tells reports whether the source's period is that of p rather than that of q.
func (p *refreshPort) tells(q *refreshPort) bool {
	switch sends := p.steady >= steadyAfter; {
	case sends != (q.steady >= steadyAfter):
		return sends
	case sends:
		return p.clock.age() > q.clock.age()
	default:
		return p.clock.age() < q.clock.age()
	}
}

// describe is what is known of a port.
func (r *Refresh) describe(st *RefreshStatus, p *refreshPort) {
	documented, every := cmp.Or(r.cfg.Period, r.cache), cmp.Or(r.every, r.gap)
	if r.stamps.known {
		every = p.span // the device's, of this port
	}
	switch t := &p.timer; {
	case p.live():
		st.Kind, st.Period = RefreshLive, time.Duration(every)
	case p.clock.timed():
		st.Kind, st.Period = RefreshTimer, time.Duration(t.least+(t.most-t.least)/2)
		st.PeriodError, st.Jitter = time.Duration((t.most-t.least+1)/2), time.Duration(t.slack)
		if t.most < every {
			st.Kind = RefreshHidden
		}
	case p.inRow > everyReading && expected(p.frames, p.span, every) >= suspect, documented > 0 && int64(documented) < every:
		st.Kind, st.Period = RefreshHidden, cmp.Or(documented, time.Duration(every))
	case p.onDemand():
		life, _, _ := p.filled.life()
		st.Kind, st.Period, st.PeriodError = RefreshOnDemand, time.Duration(life), time.Duration((p.filled.old-p.filled.young+1)/2)
	default:
		if p.timer.dead > 0 {
			st.Kind = RefreshIrregular
		}
		least, most := min(p.sure, p.stand), p.stand
		usual := min(max(p.usual, least), most)
		st.Period, st.PeriodError = time.Duration(usual), time.Duration(max(usual-least, most-usual))
	}
}

// everyReading is after how many readings in a row with news each of them seems to have some.
const everyReading = 8

// Achieved is the averaging window Δt (draft-00 §5.3.2) that comes of a configured
// one: the nearest number of whole refreshes, and one at least. It is 0 while the
// period is unknown.
func (st RefreshStatus) Achieved(interval time.Duration) time.Duration {
	switch {
	case st.Kind.EveryReading():
		return interval
	case st.Period <= 0:
		return 0
	}
	n := max(1, (interval+st.Period/2)/st.Period)
	return n * st.Period
}

// IntervalNote says what is wrong with a configured Δt in view of the source's
// refreshes, and what to configure; "" where the achieved one is within a tenth, or
// nothing is known.
func (st RefreshStatus) IntervalNote(interval time.Duration) string {
	if st.Kind == RefreshHidden {
		if 10*st.Period <= interval {
			return ""
		}
		period := st.Period.Round(10 * time.Millisecond)
		return fmt.Sprintf("Δt is %v, but the source refreshes every %v, between the readings, and the window may be off by that: set a schedule of at most %v, so that refreshes show", interval, period, (st.Period / 2).Round(10*time.Millisecond))
	}
	achieved := st.Achieved(interval)
	if achieved == 0 || (achieved-interval).Abs() <= interval/10+st.PeriodError {
		return ""
	}
	period := st.Period.Round(10 * time.Millisecond).String()
	if st.PeriodError > st.Period/20 {
		period = fmt.Sprintf("%v to %v", (st.Period - st.PeriodError).Round(10*time.Millisecond), (st.Period + st.PeriodError).Round(10*time.Millisecond))
	}
	if st.Period > interval {
		return fmt.Sprintf("Δt is %v, but the source has news only every %v: make the device's interval at least that", interval, period)
	}
	return fmt.Sprintf("Δt is %v, but the source has news every %v, which gives windows of %v: make the device's interval a multiple of the source's", interval, period, achieved.Round(10*time.Millisecond))
}
