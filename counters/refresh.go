package counters

import (
	"math"
	"math/bits"
	"time"
)

// RefreshConfig is what is known of a source before it has been read.
type RefreshConfig struct {
	// Period is the documented period of a source that refreshes more often than
	// it is read, so that every reading differs and nothing can be learned: its
	// values are up to that old. 0 takes what the samples say (Sample.Cache). A longer
	// period than that of the readings is learned and need not be given.
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

	// liveAfter is how many readings in a row have to differ for a source to pass
	// for one that is current at each. Until then, one refresh a reading is also
	// what a period a little longer than the readings' looks like, and 1/n of a
	// gap after n readings is how wrong that would be.
	liveAfter = 32

	// shortest is the shortest period that a source is held to when it stops being
	// current at every reading.
	shortest = 100 * time.Millisecond

	// stuckAfter is how many periods may pass without a refresh.
	stuckAfter = 3
)

// Refresh distinguishes a counter that does not move because nothing is sent from one
// that has not been refreshed yet, and works out when the values of a cached
// counter were read: agents keep counters for 1 s to 10 s, and a rate over the
// times of the readings would be wrong by a reading's distance either way.
//
// It looks at all ports of a device together. As soon as any counter has moved the
// source has refreshed, and a port that has not moved is idle; while none moves
// although traffic was passing, the reading only repeats the one before. What
// it finds out goes into the samples' At, Fresh, AtError and StepError, for an
// Estimator.
//
// A source that differs at every reading is taken to be live: its samples are left
// as they are. Of a source on a timer of its own this is wrong by up to one period if
// that is shorter than the readings'. RefreshConfig.Period or Sample.Cache state it;
// of a steady load it shows as interference between the two periods.
//
// When no counter of a busy device moves any more, it has lost all its traffic
// or has stopped counting. Counters cannot distinguish the two, and the second
// must never be advertised as free bandwidth: the samples are Held, then Stuck,
// until something moves, if only by a frame.
//
// A Refresh serves one device and is not safe for concurrent use.
type Refresh struct {
	cfg    RefreshConfig
	ports  []refreshPort
	stamps []stamp

	base       time.Time // of all int64 times
	last       int64     // the reading before
	span0      extent    // of the reading before
	span1      extent    // of this one, while it is observed
	read       bool      // there was one
	incomplete bool      // this one has no news of some port
	gaps       gaps      // the last distances of readings
	gap        int64     // the usual one

	kind    phase
	fit     periodFit
	demand  demand
	run     uint64  // number of the refresh; ports remember in which they moved
	open    bool    // the reading before was part of the run
	row     int     // readings in a row that differed
	rowFrom int64   // the reading before these
	now     instant // of the run
	before  instant // of the run before
	filled  int64   // how long the reading took that showed the run first

	beforeFrom   int64 // while live: when the reading before the last one began
	stuck        bool
	paused       bool // it was live, and then a reading repeated
	seen         uint64
	begun        uint64 // of these, those before learning started over
	incomparable int64  // the last reading in which no port could be compared

	longest int64 // how long a period may be while none has been learned

	frames uint64 // sent by all ports between the last two refreshes
	span   int64  // and the time between these

	mix   interference
	cache time.Duration // what the last reading's samples say of their period

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

// phase is what the samples mean at present.
type phase uint8

const (
	silent phase = iota // nothing has moved yet
	live                // every reading is current
	cached              // readings repeat
)

// instant is when a refresh took place.
type instant struct {
	at    int64
	error time.Duration // how far at may be off
	steps time.Duration // what all gaps up to now may be off, added up
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
		*r = Refresh{
			cfg: r.cfg, ports: make([]refreshPort, len(samples)), stamps: make([]stamp, len(samples)),
			fit: periodFit{seen: make([]refreshAt, 0, maxSeen)},
		}
	}
	first, declared, whole := r.take(samples)
	switch {
	case declared >= 0 && first < 0 && whole:
		r.declared.add(samples[declared].At)
		return
	case first < 0 || !whole && r.kind != live:
		return
	}
	r.declared.now = false
	lead := &r.stamps[first]
	if !r.read {
		r.base, lead.skew = samples[first].At, 0
	}
	r.cache = 0
	for i := first; i < len(samples); i++ {
		if s := &samples[i]; s.Err == nil && !s.Live {
			r.cache = max(r.cache, s.Cache)
		}
	}
	now, gap := int64(lead.at.Sub(r.base)-lead.skew), int64(lead.gap)
	if r.read {
		// Its timer or cache restarts with the device, and no counter continues from an
		// instant before. After a clock was set the instants before mean nothing.
		if lead.stepped || r.restarted(samples) {
			r.startOver(samples, lead.at)
			return
		}
		// One port's news may arrive after later ones of another.
		now = max(now, r.last+1)
		if gap == 0 {
			gap = now - r.last
		}
		r.gap = r.gaps.add(gap)
	}
	r.span1 = r.extent(samples, now)
	moved, again, frames, due := r.compare(samples, now)
	switch {
	case !r.read:
		r.read = true
	case r.kind == silent:
		r.whileSilent(samples, now, moved)
	case r.kind == live:
		r.whileLive(samples, now, moved, frames, due, 0)
	default:
		r.whileCached(samples, now, moved, again, frames)
	}
	r.last, r.span0 = now, r.span1
	r.remember(samples)
}

// extent is the time in which a reading was taken, in ns: its values are of no
// earlier and no later instant.
type extent struct{ from, to int64 }

// extent returns that of a reading at now. Readings whose times are the device's own
// have an extent of 0.
func (r *Refresh) extent(samples []Sample, now int64) extent {
	x := extent{now, now}
	for i := range samples {
		if s := &samples[i]; usable(s) && s.Local.IsZero() {
			at, within := int64(s.At.Sub(r.base)), int64(s.Within)
			x.from, x.to = min(x.from, at-within), max(x.to, at+within)
		}
	}
	return x
}

// compare finds the ports that moved: how many, whether any of them had already
// moved in this run, how many frames they all sent, and how many were due if all
// had sent as before. A port that is new, or came back, starts here.
func (r *Refresh) compare(samples []Sample, now int64) (moved int, again bool, frames uint64, due float64) {
	followed := false
	r.incomplete = false
	for i := range samples {
		s, p, t := &samples[i], &r.ports[i], &r.stamps[i]
		if p.again = t.news == 0; p.again {
			r.incomplete = r.incomplete || usable(s)
			p.moved = false
			continue
		}
		t.settle(r.base.Add(time.Duration(now)))
		if p.off = 0; !s.Local.IsZero() {
			p.off = t.skew // where our clock is the samples', the extent has it
		}
		p.wasPartial = p.partial
		if p.moved, p.partial = false, false; !p.follows(s) {
			// A port that could not be read may have moved or not.
			if s.Err == nil {
				*p = refreshPort{at: now, since: now, steps: p.steps, ownCache: p.ownCache && usable(s)}
			}
			continue
		}
		followed = true
		if p.span > 0 {
			due += float64(p.frames) * float64(now-p.at) / float64(p.span)
		}
		octets, packets := s.Octets != p.octets, s.Packets != p.packets
		p.notePartial(octets, packets)
		if p.partial {
			moved++ // in part: the source has refreshed, or is about to have
			continue
		}
		if p.moved = octets || packets; p.moved {
			moved++
			again = again || p.run == r.run
			d, _ := delta(p.packets, s.Packets, s.Bits != 32)
			frames += d
		}
	}
	if !followed {
		r.incomparable = now
	}
	return moved, again, frames, due
}

func usable(s *Sample) bool { return s.Err == nil && s.Up && !s.Live }

// remember keeps the reading for the next one.
func (r *Refresh) remember(samples []Sample) {
	for i := range samples {
		s, p := &samples[i], &r.ports[i]
		if s.Err != nil || p.again {
			continue // it has moved since the last good one, or has not
		}
		if !usable(s) {
			*p = refreshPort{}
			continue
		}
		p.have, p.epoch, p.width = true, s.Epoch, s.Bits
		if p.partial {
			continue // its last whole reading counts
		}
		if p.moved {
			p.run = r.run
		}
		p.octets, p.packets = s.Octets, s.Packets
	}
}

// restarted reports whether every port that was known and can be compared now has
// started a new epoch: the device restarted, or what counts in it.
func (r *Refresh) restarted(samples []Sample) bool {
	started := false
	for i := range samples {
		s, p := &samples[i], &r.ports[i]
		if !p.have || !usable(s) {
			continue
		}
		if s.Epoch == p.epoch {
			return false
		}
		started = true
	}
	return started
}

// startOver starts to learn again with this reading, at base.
func (r *Refresh) startOver(samples []Sample, base time.Time) {
	clear(r.ports)
	for i := range r.stamps {
		r.stamps[i].settle(base)
	}
	*r = Refresh{
		cfg: r.cfg, ports: r.ports, stamps: r.stamps, base: base, fit: periodFit{seen: r.fit.seen[:0]},
		read: true, seen: r.seen, begun: r.seen,
	}
	r.span0 = r.extent(samples, 0)
	r.remember(samples)
}

// whileSilent waits for anything to move. What moves first marks an instant, but
// how old the values before were is unknown.
func (r *Refresh) whileSilent(samples []Sample, now int64, moved int) {
	if moved == 0 {
		r.hold(samples, now > r.maxPeriod())
		return
	}
	r.restartFit(r.span0.from, r.span1.to)
	r.longest = r.maxPeriod()
	for i := range samples {
		switch s, p := &samples[i], &r.ports[i]; {
		case !usable(s) || p.again:
		case p.moved:
			r.give(s, p, &r.now, 0)
		case p.have:
			p.pending = true
			s.Fresh = Held
		}
	}
}

// restartFit restarts the fit of the period with a refresh in (a, b].
func (r *Refresh) restartFit(a, b int64) {
	r.kind = cached
	r.fit.restart(a, b)
	r.demand = demand{}
	r.now = instant{at: b, error: time.Duration(b - a), steps: r.now.steps}
	r.before = r.now
	r.run, r.open, r.row, r.stuck, r.paused = r.run+1, true, 1, false, false
	r.filled = max(r.span0.to-r.span0.from, r.span1.to-r.span1.from)
	r.seen++
}

// hold marks all ports as not refreshed.
func (r *Refresh) hold(samples []Sample, stuck bool) {
	r.stuck = stuck
	f := Held
	if stuck {
		f = Stuck
	}
	for i := range samples {
		if s, p := &samples[i], &r.ports[i]; usable(s) && p.have {
			s.Fresh = f // repeated ones too
		}
	}
}

// holdOwn holds a port of a cache of its own that has not refreshed, and reports whether
// it did.
func (r *Refresh) holdOwn(s *Sample, p *refreshPort, now int64) bool {
	if !p.ownCache || p.expected(now) < suspect {
		return false
	}
	s.Fresh = max(s.Fresh, Held)
	if now-p.movedAt > r.maxPeriod() {
		s.Fresh = Stuck
	}
	return true
}

// whileLive passes the readings on as they are. extra is how far the instants before
// may be off.
func (r *Refresh) whileLive(samples []Sample, now int64, moved int, frames uint64, due float64, extra time.Duration) {
	if moved == 0 && due >= suspect {
		// Not live after all, or all traffic has stopped at once. The refresh
		// before was between the last two readings.
		r.restartFit(r.beforeFrom, r.span0.to)
		r.paused = true
		r.longest = max(2*r.gap, int64(shortest))
		r.row, r.open = 0, false
		r.seen--
		r.hold(samples, false)
		return
	}
	r.frames, r.span = frames, now-r.last
	if moved > 0 {
		if r.row < liveAfter && r.missing(r.span) {
			r.row = -1 // a reading that repeats may have been missed
		}
		if r.row++; r.row == 0 {
			r.rowFrom = r.last
		}
		r.run++
		r.seen++
	}
	r.before.at, r.now.at, r.beforeFrom = r.last, now, r.span0.from
	if r.incomplete || r.missing(r.span) {
		r.mix.n = 0
	} else {
		r.mix.add(frames, r.gap)
	}
	blur := r.hidden()
	if r.row < liveAfter {
		// After a gap that is longer or shorter than the others a refresh more or
		// less may have come.
		odd := min(max(r.span-r.gap, r.gap-r.span), 2*r.gap)
		n := int64(max(r.row, 1))
		blur = max(blur, time.Duration(max(r.gap/n, (now-r.rowFrom)/n-r.span)+odd))
	}
	r.now.error = blur
	for i := range samples {
		s, p := &samples[i], &r.ports[i]
		if !usable(s) || p.again {
			continue
		}
		if p.partial {
			s.Fresh = Held // the next one will be whole
			continue
		}
		p.ownClock(s, now)
		if r.holdOwn(s, p, now) {
			continue
		}
		s.AtError, s.StepError = blur, blur+extra+p.wasOff.Abs()
		if p.ownCache {
			s.AtError = max(blur, time.Duration(r.gap))
			s.StepError = s.AtError
		}
		p.steps, p.anchored, p.wasOff = r.now.steps, true, 0
		p.record(s, now)
	}
}

// give hands the port's values on as those of an instant; extra is how much further
// than the device's the port's may be off.
func (r *Refresh) give(s *Sample, p *refreshPort, in *instant, extra time.Duration) {
	if p.anchored && p.at >= in.at {
		s.Fresh = Held // given already
		return
	}
	read := s.At
	s.At = r.base.Add(time.Duration(in.at))
	if !s.Local.IsZero() {
		s.Local = s.Local.Add(s.At.Sub(read))
	}
	s.Fresh = Current
	if !p.anchored {
		s.Fresh, p.anchored = Anchor, true
	} else {
		// Where the port's own times are right, the device's one instant is not.
		extra += (p.off - p.wasOff).Abs()
	}
	p.wasOff = p.off
	s.AtError, s.Within = in.error+extra+p.off.Abs(), 0 // it is in the instant's error
	s.StepError = in.steps - p.steps + extra
	p.steps = in.steps
	p.record(s, in.at)
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
