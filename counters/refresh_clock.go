package counters

import "time"

// clock is what is known of when one port's counters are refreshed. Times are ns since an instant that the owner
// chose.
//
// Certain is that a refresh came after the last reading of the old values had begun, and before the first of the new
// ones had ended. A timer, or a cache that readings fill, says more once it is relied on.
type clock struct {
	first, last int64 // the last refresh was in [first, last]
	until       int64 // and before the end of the reading that showed it
	n           int64 // refreshes after the one before; 0 where that is not known, or no timer is relied on
	timer       timer
	filled      filled
	stand       int64 // how long it was from one refresh to the next, at most
	sure        int64 // and at least, of the one that took longest
	quick       int   // readings in a row, shortly after one another, that differed

	likely, usual int64 // the instant in [first, last] that is likeliest, and how long it usually is to the next
}

// sighting is a refresh as readings show it.
type sighting struct {
	old, oldTo  int64 // when the last reading of the old values was taken, from and to
	from, until int64 // and the first of the new ones
	after       int64 // not before that: old, or later where it is known how old values can be
	busy        bool  // the refresh before showed, too
	steady      bool  // frames are sent all the while
}

// proven is how many readings shortly after one another have to differ for a port that is current at each.
const proven = 16

// live reports whether the counters are current at each reading.
func (c *clock) live() bool { return c.quick >= proven }

// timed reports whether a timer explains the refreshes.
func (c *clock) timed() bool { return c.timer.trusted() && c.filled.excluded() }

// onDemand reports whether readings fill a cache.
func (c *clock) onDemand() bool { return c.timer.died && !c.timer.trusted() && c.filled.trusted() }

// start begins with a refresh in (after, until], which a reading showed that began at from.
func (c *clock) start(after, from, until int64) {
	*c = clock{first: after, last: until, until: until, quick: c.quick}
	c.likely = after + (until-after)/2
	c.timer.at(after, until)
	c.filled.at, c.filled.until = from, until
}

// current notes that the values are those of a reading.
func (c *clock) current(from, to int64) { c.first, c.last, c.until, c.n = from, to, to, 0 }

// refreshed takes a refresh. The time since the one before is at least least and at most most.
func (c *clock) refreshed(s *sighting) (least, most int64) {
	first, last, timed := c.first, c.last, c.timed()
	if s.busy {
		if c.stand -= c.stand / 64; s.until-first >= c.stand {
			c.stand, c.sure = s.until-first, max(s.after-last, 0)
		}
	}
	young := c.filled.young
	c.filled.take(s)
	c.n = 0
	if !c.onDemand() {
		c.n = c.timer.take(s)
	}
	c.first, c.last, c.until = s.after, s.until, s.until
	switch {
	case c.n > 0 && c.timed():
		if f, l := c.timer.instant(); max(f, s.after) <= min(l, s.until) {
			c.first, c.last = max(f, s.after), min(l, s.until)
		}
	case c.onDemand() && s.oldTo-first < young: // nor has the reading before filled it
		c.first = max(s.after, s.from)
	}
	c.guess()
	least, most = max(c.first-last, 0), c.last-first
	if c.n > 0 && c.timed() && timed && c.timer.count > 0 {
		if l, m := c.timer.length(c.n); max(least, l) <= min(most, m) {
			return max(least, l), min(most, m)
		}
	}
	return least, most
}

// guess finds the likeliest instant of a refresh: a whole number of times after the one before that refreshes usually
// take, as near as it may be to that.
func (c *clock) guess() {
	mid := c.first + (c.last-c.first)/2
	if c.usual <= 0 {
		c.likely, c.usual = mid, mid-c.likely
		return
	}
	n := max((mid-c.likely+c.usual/2)/c.usual, 1)
	want := c.likely + n*c.usual
	c.likely = min(max(want, c.first), c.last)
	c.usual += (c.likely - want) / (4 * n)
}

// age is how old the values can be at most, as far as that has shown; 0 where it has not.
func (c *clock) age() int64 {
	switch {
	case c.live():
		return int64(quickWithin)
	case c.timed():
		return c.timer.age()
	}
	return c.stand + c.stand/8
}

// look is when, between now and the next reading of a schedule of gap, one of a length would tell more about the refreshes, if none up to now has
// shown the next one; 0 where none would.
func (c *clock) look(now, next, gap int64, took time.Duration, late bool) int64 {
	switch {
	case c.live() || c.onDemand():
		return 0
	case c.timer.dead > 0:
		if at := c.filled.look(int64(took), late); at > 0 {
			return at
		}
		// No rule: half of where it may be is as much less of an error.
		if lo := max(now, c.first+c.stand/2); next-lo > gap/3 {
			return lo + (next-lo)/2
		}
		return 0
	}
	return c.timer.look(now, next, gap, int64(took), late)
}
