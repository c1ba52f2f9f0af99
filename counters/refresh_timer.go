package counters

import (
	"math"
	"math/bits"
)

// timer finds the period and the phase of a source that refreshes its counters on a clock of its own.
//
// What is known of it is a set: its own instant of the last refresh is in [lo, hi], its period in [least, most]
// (most is 0 while that is unknown), and refreshes are up to slack off their instants. Each refresh that is seen
// makes the set smaller; one that does not fit refutes it, and it begins again with twice the slack. It is relied on
// when enough readings just outside of where a refresh may be would have refuted it and have not: those that looked
// too early had to find the old values, and those that looked late enough the new ones.
type timer struct {
	lo, hi      int64
	least, most int64
	slack       int64

	ref   [2]mark // instants long ago, which bound the period
	count int64   // refreshes since ref[0]

	early, late int  // readings that would have refuted it, either side
	missed      int  // refreshes in a row before which one did not come, though frames were sent
	strikes     int  // how often it was relied on and wrong, up to mostStrikes
	dead        int  // refreshes for which none is looked for
	died        bool // that was so before
	both        bool // the next refresh is looked for on both sides of its instant, which tests nothing
}

// mark is a timer's instant of a refresh, and how many refreshes after another one.
type mark struct{ lo, hi, n int64 }

const (
	// enough is how many readings have to test either side, at least.
	enough, mostStrikes = 16, 5
	// tested is how many times its slack a timer is tested with, and wide how many times it is believed with.
	tested, wide = 3, 5
	// tight is how many times its slack a timer's instant has to be known by for that.
	tight = 8
	// exact is which part of a period the slack is at first, and rough that at which there is no timer.
	exact, rough = 8192, 64
	// mostMissed is how many refreshes in a row may be taken for one of several.
	mostMissed = 8
	// deadFor is after how many refreshes a timer is looked for again.
	deadFor = 64
	// baseline is over how many refreshes a period is measured.
	baseline = 64
)

// trusted reports whether the timer is relied on.
func (t *timer) trusted() bool {
	return t.most > 0 && t.dead == 0 && min(t.early, t.late) >= t.needed()
}

// needed is how many readings have to test either side: more after strikes, and the more slack there is.
func (t *timer) needed() int {
	return (enough + 2*bits.Len64(uint64(t.slack*exact/t.most))) << t.strikes
}

// forget begins to look for a timer with a refresh in (after, until].
func (t *timer) forget(after, until int64) {
	*t = timer{strikes: t.strikes, died: t.died}
	t.at(after, until)
}

// at begins to count at an instant.
func (t *timer) at(lo, hi int64) {
	t.lo, t.hi, t.count = lo, hi, 0
	t.ref = [2]mark{{lo: lo, hi: hi}, {lo: lo, hi: hi}}
}

// take takes a refresh and returns how many periods after the last one it came; 0 where that is not known.
func (t *timer) take(s *sighting) int64 {
	switch {
	case t.dead > 0:
		if t.dead--; t.dead == 0 {
			t.forget(s.after, s.until)
		}
		return 0
	case t.most == 0 && !s.busy:
		t.at(s.after, s.until)
		return 0
	case t.most == 0:
		t.least, t.most = max(s.after-t.hi, 1), max(s.until-t.lo, 2)
		t.slack = t.leastSlack(s)
		t.ref[0], t.ref[1] = mark{lo: t.lo, hi: t.hi}, mark{lo: t.lo, hi: t.hi}
		t.lo, t.hi, t.count = s.after-t.slack, s.until+t.slack, 1
		return 1
	}
	if t.missed++; !s.steady || s.old <= t.hi+t.most+wide*t.slack {
		t.missed = 0
	}
	if t.missed >= mostMissed { // the period is a part of the source's
		t.forget(s.after, s.until)
		return 0
	}
	a, b := s.after-t.slack, s.until+t.slack
	both := t.both && !t.trusted()
	if t.both = !t.both; both { // the readings on both sides were placed by what is to be learned
		a, b = a-8*t.slack, b+8*t.slack
	}
	first, last := t.between(a, b)
	next := first == 1 && last > 1 && t.next(s)
	if next {
		last = 1
	}
	// A refresh further off than it has ever been is not to be taken for the one before or after.
	f, l := t.between(s.after-wide*t.slack, s.until+wide*t.slack)
	sure := f == l || next
	switch {
	case last < first:
		t.refute(s)
		return 0
	case last > first:
		if t.hi-t.lo+first*(t.most-t.least) > t.least || !s.busy && first > 1 { // it cannot be counted any more
			t.at(a, b)
		}
		return 0
	}
	if !both {
		t.test(s, t.lo+first*t.least, t.hi+first*t.most)
	}
	t.lo, t.hi, t.count = max(t.lo+first*t.least, a), min(t.hi+first*t.most, b), t.count+first
	for i := range t.ref {
		t.measure(&t.ref[i])
	}
	if t.lo > t.hi || t.least > t.most {
		t.refute(s)
		return 0
	}
	if t.renew(s); !sure {
		return 0
	}
	return first
}

// between is how many periods after the last refresh the next one came, at least and at most, if its instant is in [from, to].
func (t *timer) between(from, to int64) (first, last int64) {
	return max(-floorDiv(-(from-t.hi), t.most), 1), floorDiv(to-t.lo, t.least)
}

// next reports whether there was no other refresh since the last: frames were sent all the while, the two
// readings are not a period apart, and what is known leaves no better way to count.
func (t *timer) next(s *sighting) bool {
	return s.busy && s.steady && s.until-s.old < t.least-2*wide*t.slack && (2*(t.hi-t.lo) < t.least || 8*(t.most-t.least) > t.least)
}

// test counts readings that would have refuted a refresh in [lo, hi] if they had shown something else.
func (t *timer) test(s *sighting, lo, hi int64) {
	if hi-lo > tight*t.slack {
		return
	}
	if s.oldTo < lo-t.slack && s.old >= lo-tested*t.slack {
		t.early++
	}
	if s.from > hi+t.slack && s.until <= hi+tested*t.slack {
		t.late++
	}
}

// measure bounds the period by an instant of some refreshes ago.
func (t *timer) measure(r *mark) {
	if n := t.count - r.n; n > 0 {
		t.least = max(t.least, floorDiv(t.lo-r.hi, n))
		t.most = min(t.most, -floorDiv(-(t.hi-r.lo), n))
	}
}

// renew takes a newer instant to measure from, and tries less slack after a long time.
func (t *timer) renew(s *sighting) {
	now := mark{t.lo, t.hi, t.count}
	if r := &t.ref[1]; 2*(now.hi-now.lo) < r.hi-r.lo {
		*r = now
	}
	if t.count-t.ref[1].n >= baseline {
		t.ref[0], t.ref[1] = t.ref[1], now
		base := t.ref[0].n
		t.ref[0].n, t.ref[1].n, t.count = 0, now.n-base, now.n-base
		t.least, t.most = 1, math.MaxInt64 // what was learned before may have changed since
		t.measure(&t.ref[0])
	}
	if n := t.needed(); min(t.early, t.late) >= 8*n {
		t.strikes = max(t.strikes-1, 0)
		t.early, t.late = n, n
		t.slack = min(t.slack, max(t.slack*3/4, t.leastSlack(s)))
	}
}

// leastSlack is the least slack that readings can tell.
func (t *timer) leastSlack(s *sighting) int64 { return max(t.most/exact, s.until-s.from, 1) }

// refute takes a refresh that the timer does not explain: it is less exact, or another one.
func (t *timer) refute(s *sighting) {
	if t.trusted() {
		t.strikes = min(t.strikes+1, mostStrikes)
	}
	t.early, t.late = 0, 0
	if t.slack *= 2; t.slack > t.most/rough {
		t.dead, t.died, t.most = deadFor, true, 0
		return
	}
	t.least, t.most = max(t.least-4*t.slack, 1), t.most+4*t.slack
	t.at(s.after-t.slack, s.until+t.slack)
}

// instant is where the last refresh was, as far as the timer says.
func (t *timer) instant() (first, last int64) {
	return t.lo - wide*t.slack, t.hi + wide*t.slack
}

// length is how long n periods are, as far as the timer says.
func (t *timer) length(n int64) (least, most int64) {
	return n*t.least - 2*wide*t.slack, n*t.most + 2*wide*t.slack
}

// age is how old values can be.
func (t *timer) age() int64 { return t.most + wide*t.slack }

// look is when, between now and the next reading of a schedule of gap, one of a length would tell more, if none up to now has shown the next refresh; 0
// where none would.
func (t *timer) look(now, next, gap, took int64, late bool) int64 {
	if t.most == 0 || t.dead > 0 {
		return 0
	}
	lo, hi := t.lo+t.least, t.hi+t.most
	switch {
	case hi-lo > tight*t.slack:
		if lo = max(lo, now); hi > next { // which shows by itself whether it has come up to then
			if hi = next; hi-lo <= gap/3 {
				return 0
			}
		}
		return lo + (hi-lo)/2
	case t.trusted() && t.count%8 > 0: // often enough
		return 0
	case late && !t.both, t.both && now >= lo-tested*t.slack:
		return hi + 2*t.slack - took/2
	}
	return lo - 2*t.slack - took/2
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
