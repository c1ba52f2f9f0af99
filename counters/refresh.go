package counters

import (
	"cmp"
	"math"
	"math/bits"
	"time"
)

// RefreshConfig is what is known of a source before it has been read.
type RefreshConfig struct {
	// Period is how often the source is documented to refresh its counters: values are up to
	// that old. 0 takes what the samples say (Sample.Cache).
	Period time.Duration

	// MaxPeriod is the longest period to expect: a source whose counters stand
	// still for longer is Stuck even if nothing has been learned. 0 is a minute, or
	// three times Period where that is longer.
	MaxPeriod time.Duration
}

const (
	defaultMaxPeriod = time.Minute

	// suspect is how many frames would have to be missing for an unchanged
	// counter to look like a source that has not refreshed. Fewer may just not
	// have come; the error of believing so is less than that many frames.
	suspect = 16

	// stuckAfter is how many periods may pass without a refresh.
	stuckAfter = 3

	// quickWithin is how shortly after one another two readings are that tell whether a
	// source is current at each. One that refreshes more often than that passes for it.
	quickWithin = 50 * time.Millisecond
)

// Refresh finds out of when the values are that a device shows: agents keep counters for 1 s to
// 10 s, and a rate over the times of the readings would be wrong by as much. What it finds out goes
// into the samples' At, Fresh, AtError, StepError and Doubt, for an Estimator.
//
// Each port is looked at by itself. When its counters have moved they were refreshed since the reading
// before, and its clock learns from that. While they have not, though frames were due, the port has not
// been refreshed, or is idle: it is Held, until it has stood still for longer than refreshes take while
// other ports moved. When no counter of a busy device moves any more, it has lost all its traffic or has
// stopped counting. The second must never be advertised as free bandwidth: the samples are Held, then
// Stuck, until something moves, if only by a frame.
//
// A port that is current at each reading shows that in readings which follow one another shortly and
// differ (see Look). Its samples are left as they are.
//
// A Refresh serves one device and is not safe for concurrent use.
type Refresh struct {
	cfg   RefreshConfig
	ports []refreshPort

	base     time.Time // of all int64 times
	readings uint64
	now      int64         // of this reading
	took     time.Duration // how long it took
	gaps     gaps          // the last distances of readings
	gap      int64         // the usual one
	due      int64         // when the next reading of the schedule is, by Look
	every    int64         // how long it is from one of these to the next
	looks    int           // readings beside the schedule's since the last one
	cache    time.Duration // what the samples say of their period
	dice     uint64

	seen    uint64 // readings in which anything moved
	movedAt int64  // the last one
	slowAt  int64  // the last one in which a port moved that is not current at each
	fresh   int64  // the last refresh that has shown, at least
	age     int64  // how old values can be, of the ports that are known best
	current bool   // in this one, of a port that is current at each
	live    bool   // a port is current at each reading
	slow    bool   // one is not
	overdue bool   // frames have been due for longer than refreshes take, while nothing moves
	stuck   bool   // and that for too long

	stamps   stamps
	declared declared
}

// declared follows readings all of whose samples are Live: there is nothing to
// learn, but it is known how the source refreshes.
type declared struct {
	now  bool // the last reading was one
	seen uint64
	last time.Time
	gaps gaps
	gap  int64
}

func (d *declared) add(at time.Time) {
	if gap := at.Sub(d.last); d.now && gap > 0 {
		d.gap = d.gaps.add(int64(gap))
	}
	d.now, d.last = true, at
	d.seen++
}

// NewRefresh returns a Refresh that has seen no reading.
func NewRefresh(cfg RefreshConfig) *Refresh {
	if cfg.MaxPeriod <= 0 {
		cfg.MaxPeriod = max(defaultMaxPeriod, stuckAfter*cfg.Period)
	}
	return &Refresh{cfg: cfg}
}

// Observe takes the next reading of the device, all its ports in an order that stays
// the same, and writes into the samples what it means. Samples that are Live pass
// untouched. A sample with the time of the port's last one is that one again: it is
// Held. It allocates nothing in the steady state.
func (r *Refresh) Observe(samples []Sample) {
	if len(r.ports) != len(samples) {
		*r = Refresh{cfg: r.cfg, ports: make([]refreshPort, len(samples))}
	}
	lead, live, moved := r.compare(samples)
	switch {
	case lead != nil:
		r.declared.now = false
		r.note(samples, lead, moved)
	case live != nil:
		r.declared.add(live.At)
	}
	for i := range samples {
		s, p := &samples[i], &r.ports[i]
		switch {
		case !usable(s):
		case !p.again:
			r.take(s, p)
		case r.stuck:
			s.Fresh = Stuck
		default:
			s.Fresh = Held
		}
	}
}

func usable(s *Sample) bool { return s.Err == nil && s.Up && !s.Live }

// compare finds out which ports have news, and which of these have moved: lead and live are the last ones with news
// and Live, nil where there is none.
func (r *Refresh) compare(samples []Sample) (lead, live *Sample, moved bool) {
	r.current, r.cache = false, 0
	for i := range samples {
		s := &samples[i]
		if s.Live && s.Err == nil {
			live = s
			continue
		}
		p := &r.ports[i]
		p.moved, p.again = false, true
		switch {
		case s.Err != nil:
			continue // it has moved since the last good reading, or has not
		case !s.Up:
			*p = refreshPort{stamp: p.stamp, again: true}
			continue
		}
		r.cache = max(r.cache, s.Cache)
		if !p.news(s) {
			continue
		}
		set := s.At.Before(p.stamp) // its clock was set back
		p.stamp, p.again, lead = s.At, false, s
		if r.base.IsZero() {
			r.base = s.At
		}
		if !s.Local.IsZero() {
			if r.stamps.take(s) {
				r.forget() // no instant before means anything
			}
		}
		if p.have = p.have && !set && s.Epoch == p.epoch && s.Bits == p.width; p.have {
			p.compare(s)
			moved = moved || p.moved
			r.current = r.current || p.moved && p.live()
		}
	}
	return lead, live, moved
}

// forget begins again with the next reading of each port.
func (r *Refresh) forget() {
	for i := range r.ports {
		r.ports[i].have = false
	}
}

// note notes what a reading says of the device as a whole.
func (r *Refresh) note(samples []Sample, lead *Sample, moved bool) {
	now := int64(lead.At.Sub(r.base))
	if r.readings > 0 && now > r.now {
		r.gap = r.gaps.add(now - r.now)
	}
	r.readings++
	r.now, r.took = now, 2*lead.Within
	r.age, r.overdue = 0, false
	live, slow, cached := false, false, false
	for i := range r.ports {
		p := &r.ports[i]
		cached = cached || p.moved && !p.live()
		r.age = max(r.age, p.clock.age())
		live, slow = live || p.live(), slow || p.slow
	}
	r.live, r.slow = live, slow
	r.age = cmp.Or(r.age, r.maxPeriod())
	for i := range samples {
		s, p := &samples[i], &r.ports[i]
		if moved || p.again || !p.have || !p.ticking {
			continue
		}
		at := int64(s.At.Sub(r.base))
		r.overdue = r.overdue || p.due(at) && at-p.until > cmp.Or(p.clock.age(), r.age)
	}
	switch {
	case moved:
		if r.movedAt, r.stuck = now, false; cached {
			r.slowAt = now
		}
		r.seen++
	case r.seen == 0:
		r.stuck = now > r.maxPeriod()
	default:
		r.stuck = now-r.movedAt > stuckAfter*r.age+r.gap
	}
}

// take finds out of when a port's new sample is.
func (r *Refresh) take(s *Sample, p *refreshPort) {
	at := int64(s.At.Sub(r.base))
	from, to := at-int64(s.Within), at+int64(s.Within)
	if !s.Local.IsZero() {
		to += int64(r.stamps.grain)
	}
	switch {
	case !p.have:
		p.begin(s, from, to)
		s.Fresh = Anchor
		return
	case p.partial:
		p.partTo = to
		s.Fresh = Held // the next one will be whole
		return
	case p.moved:
		r.moved(s, p, at, from, to)
	default:
		r.still(s, p, from, to)
	}
	p.from, p.to = from, to
}

// moved handles a port whose counters were refreshed since the reading before.
func (r *Refresh) moved(s *Sample, p *refreshPort, at, from, to int64) {
	frames, _ := delta(p.packets, s.Packets, s.Bits != 32)
	p.octets, p.packets = s.Octets, s.Packets
	// A device that stamps its samples says that they are of these times: that is believed where each differs.
	apart := to - p.from
	short := apart <= int64(quickWithin)+3*(to-from) || !s.Local.IsZero()
	slowly := frames*uint64(quickWithin) < suspect*uint64(max(apart, 0)) // too few for such readings
	// More than are due in that time are those of a refresh.
	if p.inRow++; frames >= suspect && frames/4 <= p.expected(at) && (short || slowly && apart <= r.gap/4) {
		if p.quick = min(p.quick+1, proven); !short {
			p.within = max(p.within, apart)
		}
	}
	if r.live && !s.Local.IsZero() {
		p.quick = proven // how a device stamps is the same for all ports
	}
	if p.slow = p.slow && !p.live(); p.live() || slowly && r.live && !r.slow && r.documented() == 0 {
		p.current(from, to)
		r.pass(s, p, at, frames)
		return
	}
	if was := p.expected(at); 4*frames >= 3*was && 3*frames <= 4*was {
		p.steady = min(p.steady+1, steadyAfter)
	} else {
		p.steady = 0
	}
	seen := sighting{
		old: p.from, oldTo: p.to, from: from, until: to, after: p.from,
		busy:   p.due(at) || frames >= suspect && (p.inRow > 1 || p.clock.age() == 0),
		steady: p.steady >= steadyAfter,
	}
	if d := r.oldest(p); d > 0 {
		seen.after = max(seen.after, from-d)
	}
	if p.parted {
		seen.until = max(p.partTo, seen.after+1)
	}
	var least, most int64
	if p.ticking {
		least, most = p.refreshed(&seen)
	} else {
		p.start(seen.after, from, to)
		p.ticking, p.given = true, false // what was shown before is as old as the source's period, which is not known
	}
	r.fresh = max(r.fresh, p.first)
	mid := p.first + (p.last-p.first)/2
	if p.given {
		mid = max(mid, p.at+1)
	}
	off := max(mid-p.first, p.last-mid)
	step, timed := off+p.off, p.timed
	if p.timed = p.clock.timed(); timed && p.timed {
		step = min(step, max(mid-p.at-least, most-(mid-p.at)))
	}
	p.frames, p.span = frames, mid-p.at
	r.give(s, p, mid, off, step)
	s.Likely = time.Duration(p.likely - mid)
	if p.learning() {
		s.Fresh, p.given = Anchor, false
	}
}

// oldest is how old a port's values are at most, by what is documented and by its timer; 0 where nothing is known.
func (r *Refresh) oldest(p *refreshPort) int64 {
	d := int64(r.documented())
	if age := p.clock.age(); p.clock.timed() && (d == 0 || age < d) {
		return age // of several refreshes since the reading before it is the last
	}
	return d
}

// still handles a port that has not moved.
func (r *Refresh) still(s *Sample, p *refreshPort, from, to int64) {
	due := p.due(from)
	if due {
		if p.inRow = 0; !p.live() || !r.current && !r.stamps.known {
			p.quick, p.within, p.slow = 0, 0, p.slow || !p.live()
		}
	}
	own := p.clock.age()
	old := cmp.Or(own, r.age)
	if d := int64(r.documented()); d > 0 {
		old = min(old, d)
	}
	others := r.slowAt // which are refreshed as this one is
	if p.live() {
		others = r.movedAt
	}
	switch {
	case r.stuck, due && from-p.until > r.maxPeriod() && others-p.until < old-old/4:
		s.Fresh = Stuck
		return
	case r.seen == 0, r.overdue, due && from-p.until <= old, due && others-p.until < old-old/4:
		s.Fresh = Held // not refreshed yet, or idle, or nothing else has moved either
		return
	}
	// The values are of when they were refreshed last: no longer ago than that takes, and, since a device may have
	// stopped, no later than anything has shown. Until then the counters stood as they are.
	at := from - old
	switch {
	case p.live():
		at = int64(s.At.Sub(r.base))
	default:
		at = min(at, r.fresh)
	}
	if at < p.last || p.given && at <= p.at {
		s.Fresh = Held
		return
	}
	off := int64(0)
	doubt := own == 0 && r.documented() == 0 && from-max(p.since, p.until) < r.maxPeriod()
	if doubt {
		off = at - p.first
	}
	p.frames, p.span, p.timed = 0, at-p.at, false
	r.give(s, p, at, off, off+p.off)
	s.Doubt = doubt
}

// pass leaves a sample of a port that is current at each reading as it is.
func (r *Refresh) pass(s *Sample, p *refreshPort, at int64, frames uint64) {
	if !p.given {
		s.Fresh = Anchor
	}
	off := p.within / 2
	s.At = s.At.Add(-time.Duration(off))
	s.AtError, s.StepError = time.Duration(off), time.Duration(off+p.off)
	at -= off
	if !s.Local.IsZero() {
		s.At, s.Within = s.At.Add(r.stamps.grain/2), s.Within+r.stamps.grain/2
		r.drift(s, at-p.at)
	}
	r.fresh = max(r.fresh, p.first)
	p.frames, p.span = frames, at-p.at
	p.at, p.off, p.given, p.timed, p.ticking = at, off, true, false, true
}

// give hands the port's values on as those of an instant, give or take off, which is step at most off its
// distance from the one before.
func (r *Refresh) give(s *Sample, p *refreshPort, at, off, step int64) {
	read := s.At
	s.At = r.base.Add(time.Duration(at))
	s.Fresh = Current
	if !p.given {
		s.Fresh, p.given = Anchor, true
	}
	s.AtError, s.StepError, s.Within = time.Duration(off), time.Duration(step), 0
	if !s.Local.IsZero() {
		s.Local = s.Local.Add(s.At.Sub(read))
		r.drift(s, at-p.at)
	}
	p.at, p.off = at, off
}

// drift adds what the device's clock may be wrong by in a time. A window has no more than a few of these.
func (r *Refresh) drift(s *Sample, d int64) {
	off := r.stamps.off(time.Duration(d))
	s.AtError, s.StepError = s.AtError+4*off, s.StepError+off
}

// documented is how old values can be at most by what is known of the source beforehand.
func (r *Refresh) documented() time.Duration {
	d := cmp.Or(r.cfg.Period, r.cache)
	return d + d/8
}

// maxPeriod is RefreshConfig.MaxPeriod, or longer where the source's documented
// period is.
func (r *Refresh) maxPeriod() int64 {
	return int64(max(r.cfg.MaxPeriod, stuckAfter*r.cache))
}

// mostLooks is how many readings may come between two of the schedule, beside those that are to differ from the one before.
// lookApart is how shortly after one another they may follow, and quickApart those.
const (
	mostLooks  = 4
	lookApart  = 3 * time.Millisecond
	quickApart = 20 * time.Millisecond
)

// Look says when, before the next reading of the schedule, one more would tell something about the source's
// refreshes, in the samples' clock; zero where none would, or where a reading takes more than an eighth of the schedule. Observe
// takes it in as any other.
func (r *Refresh) Look(next time.Time) time.Time {
	if r.readings < 2 || r.stamps.known {
		return time.Time{}
	}
	if due := int64(next.Sub(r.base)); due > r.due {
		if r.due > 0 {
			r.every = due - r.due
		}
		r.due, r.looks = due, 0
	}
	if int64(r.took) > r.every/8 && r.every > 0 { // it has enough to do
		return time.Time{}
	}
	r.dice = r.dice*6364136223846793005 + 1442695040888963407
	late := r.dice>>63 == 1 // both sides, in no order that a source could follow
	best, quick := int64(math.MaxInt64), false
	for i := range r.ports {
		p := &r.ports[i]
		soon := p.to + int64(quickApart)
		if p.moved && p.inRow >= 2 && !p.live() && p.due(soon+max(int64(r.took), r.slowest(p))) {
			best, quick = min(best, max(soon, p.to+r.slowest(p))), true
		} else if r.looks >= mostLooks {
			continue
		} else if at := p.look(p.from, r.due, r.every, r.took, late); at >= p.to+int64(lookApart) {
			best = min(best, at)
		}
	}
	if best >= int64(next.Sub(r.base)-r.took-lookApart) {
		return time.Time{}
	}
	if !quick {
		r.looks++
	}
	return r.base.Add(time.Duration(best))
}

// slowest is how long a port takes to send frames enough to tell, a quarter of the readings' distance at most.
func (r *Refresh) slowest(p *refreshPort) int64 {
	if p.frames == 0 {
		return 0
	}
	return min(2*suspect*p.span/int64(p.frames), r.gap/4)
}

// expected is how many frames are to be expected in d if n came in span.
func expected(n uint64, span, d int64) uint64 {
	if span <= 0 || d <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(n, uint64(d))
	if hi >= uint64(span) {
		return math.MaxUint64
	}
	q, _ := bits.Div64(hi, lo, uint64(span))
	return q
}
