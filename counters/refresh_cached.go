package counters

import "time"

// whileCached serves a source whose readings repeat.
//
// A refresh shows as a run of readings that differ: one reading, or several where
// the source was still copying its counters while it was read. A run ends with a
// reading that repeats the one before, or where a port moves that already has.
func (r *Refresh) whileCached(samples []Sample, now int64, moved int, again bool, frames uint64) {
	if moved == 0 {
		r.row = 0
		r.nothingMoved(samples, now)
		return
	}
	late := r.open && !again // the run continues
	if late {
		r.frames += frames
	} else {
		if r.missing(now - r.last) {
			r.row = 0 // a reading that repeats may have been missed
		}
		r.row++
		r.refreshed(frames)
	}
	if again && (r.row >= liveAfter || r.row == 2 && r.seen-r.begun == 2 && !r.missing((now-r.fit.seen[0].a)/2)) {
		// At the very start two readings in a row are enough. What was learned
		// because a reading repeated takes more to be undone.
		r.nowLive(samples, now, frames)
		return
	}
	r.open, r.stuck = true, false
	var extra time.Duration
	if late {
		extra = time.Duration(r.span1.to - min(r.span0.from, r.fit.last.b))
	}
	for i := range samples {
		s, p := &samples[i], &r.ports[i]
		if !usable(s) || !p.have || p.again {
			continue // or new: its first window starts at a refresh after this
		}
		if !s.Local.IsZero() {
			p.off += extra
		}
		if p.partial {
			p.pending = true
			s.Fresh = Held
			continue
		}
		p.ownClock(s, r.now.at)
		late := extra
		switch {
		case p.ownCache:
			late = max(extra, time.Duration(r.gap))
		case p.wasPartial:
			late = 0 // the refresh was in the middle of it
		}
		switch {
		case !p.anchored && (!p.moved || r.now.at < p.since):
			p.pending = true
			s.Fresh = Held
		case p.moved:
			r.give(s, p, &r.now, late)
		case r.holdOwn(s, p, now):
		case expected(p.frames, p.span, r.now.at-p.at) < suspect:
			r.give(s, p, &r.now, late)
		case p.pending && extra == 0:
			// It was to move in the run before and did not, nor does it now.
			r.give(s, p, &r.before, 0)
		default:
			p.pending = true // its row may not have been copied yet
			s.Fresh = Held
		}
	}
}

// missing reports whether two readings this far apart have lost one between them.
func (r *Refresh) missing(d int64) bool { return 2*d > 3*r.gap }

// nowLive stops learning: the source is current at every reading.
func (r *Refresh) nowLive(samples []Sample, now int64, frames uint64) {
	extra := r.before.error
	if r.seen-r.begun == 2 {
		r.row, extra = 0, 0
		r.rowFrom = r.last - int64(r.before.error) // the first refresh was since then
	}
	r.kind, r.stuck = live, false
	r.run--
	r.seen--
	r.whileLive(samples, now, 1, frames, 0, extra)
}

// nothingMoved decides what a reading that repeats the one before means.
func (r *Refresh) nothingMoved(samples []Sample, now int64) {
	longest := r.longest
	if r.fit.known() {
		longest = r.fit.hi + 2*r.fit.jitter
	}
	since := now - r.fit.last.b
	unmoved := now - max(r.fit.last.b, r.incomparable) // for so long that could be seen
	switch {
	case r.open:
		// The refresh is complete: who was to move in it and has not is idle.
		r.open = false
		r.hold(samples, false)
	case r.fit.known() && since > longest && expected(r.frames, r.span, now-r.now.at) < suspect:
		// A refresh must have come, and hardly anything was being sent.
		r.inferred(now)
		for i := range r.ports {
			r.ports[i].pending = true
		}
	case r.fit.known():
		r.hold(samples, unmoved > stuckAfter*longest+r.gap)
	default:
		r.hold(samples, unmoved > stuckAfter*longest)
	}
	for i := range samples {
		s, p := &samples[i], &r.ports[i]
		switch {
		case !usable(s) || !p.have || p.again:
		case r.holdOwn(s, p, now):
		case !p.anchored && r.now.at < p.since:
			// Its counters do not continue from an instant before it was there, or
			// nothing was sent from then on: a window from there would say too little.
			s.Fresh = max(s.Fresh, Held)
		case p.pending && !r.stuck:
			// Now it is as old as the others.
			r.give(s, p, &r.now, 0)
		}
	}
}

// inferred passes a refresh that must have come on a silent device; its instant
// follows from the period.
func (r *Refresh) inferred(now int64) {
	d, e := r.period()
	r.before = r.now
	r.now.at = min(r.now.at+int64(d), now)
	r.now.error += e
	r.now.steps += e
	r.fit.skip(now)
	r.frames, r.span = 0, int64(d)
	r.run++
	r.stuck = false
}

// refreshed works out the instant of a refresh that was first seen in this reading, and
// not in the one before.
func (r *Refresh) refreshed(frames uint64) {
	a, b, last := r.span0.from, r.span1.to, r.fit.last
	took := r.span1.to - r.span1.from
	read := extent{b - took - last.b, b - last.b + r.filled} // where readings fill a cache
	// What is certain: both refreshes lie between two readings.
	lo, hi := max(a-last.b, 0), b-last.a
	if last == r.fit.seen[len(r.fit.seen)-1] {
		r.demand.add(last.b, a, b, r.gap)
	}
	n, sure := r.fit.count(a, b, r.gap)
	if sure {
		r.fit.add(a, b, n, r.gap)
	} else {
		r.fit.recount(a, b)
	}
	if sure {
		// Where what is believed and what is certain exclude each other the belief
		// is wrong.
		if l, h, ok := r.believed(n, read); ok && max(l, lo) <= min(h, hi) {
			lo, hi = max(l, lo), min(h, hi)
		}
	}
	at := min(max(r.now.at+lo+(hi-lo)/2, a+1), b)
	off := time.Duration(max(at-a, b-at))
	if r.refreshKind() == RefreshOnDemand {
		at, off = b-took/2, time.Duration(took-took/2)
	}
	d := at - r.now.at
	r.before, r.filled = r.now, took
	r.now = instant{at, off, r.now.steps + time.Duration(max(hi-d, d-lo))}
	r.frames, r.span = frames, d
	r.run++
	r.seen++
}

// believed is what the learned rule says about the time from the refresh before the
// last one to the last one, n periods; read is the time between the readings
// that showed them.
func (r *Refresh) believed(n int64, read extent) (lo, hi int64, ok bool) {
	f := &r.fit
	// No timer is exact, and what has shown of its jitter may not be all.
	jitter := max(2*f.jitter, r.gap/minJitters)
	lo, hi = n*f.lo-2*jitter, n*f.hi+2*jitter
	switch r.refreshKind() {
	case RefreshOnDemand:
		return read.from, read.to, true
	case RefreshTimer:
		return lo, hi, true
	case RefreshPeriodic:
		// Either rule may be the right one. Where readings are regular and gaps
		// of one length, both say the same.
		return min(lo, read.from), max(hi, read.to), true
	}
	return 0, 0, false
}

// enough is how many refreshes a rule has to explain for another one that explains
// them too to be ruled out.
const enough = 32

// refreshKind is the rule that explains the refreshes up to now.
func (r *Refresh) refreshKind() RefreshKind {
	switch timer := r.fit.timer(r.gap); {
	case !r.fit.known():
		return RefreshUnknown
	case timer && r.demand.n < len(r.fit.seen)-1:
		return RefreshTimer
	case timer:
		return RefreshPeriodic
	case r.demand.n >= 2*enough && r.fit.quick >= 3:
		return RefreshOnDemand
	}
	return RefreshIrregular
}

// period is the time from refresh to refresh, and how far that may be off.
func (r *Refresh) period() (p, e time.Duration) {
	f := &r.fit
	if f.timer(r.gap) || len(f.seen) < 2 {
		return time.Duration(f.period()), time.Duration((f.hi - f.lo + 1) / 2)
	}
	// The mean, and how far a single one may be from it.
	first, last := f.seen[0], f.seen[len(f.seen)-1]
	mean := (last.b - first.b) / (last.k - first.k)
	var off int64
	for i := 1; i < len(f.seen); i++ {
		n := f.seen[i].k - f.seen[i-1].k
		d := (f.seen[i].b - f.seen[i-1].b) / n
		off = max(off, d-mean, mean-d)
	}
	return time.Duration(mean), time.Duration(off)
}
