package counters

import (
	"slices"
	"time"
)

// point is the state of a port's counters at one instant, counted from where
// its estimator started.
type point struct {
	at              time.Time
	octets, packets uint64

	// atError is how far at may be off, steps the sum of what each gap since the
	// estimator started may be off.
	// within is how far the reading's own time may be off.
	// likely is where in that error the instant most likely is.
	atError, steps, within, likely time.Duration

	lag time.Duration // Sample.Lag
}

// apart is how far the time between two points may be off. It is bounded in two
// ways: errors of a learned period add up from gap to gap, errors of single
// instants do not.
func apart(from, to *point) time.Duration {
	return min(to.steps-from.steps, from.atError+to.atError) + from.within + to.within + max(from.lag, to.lag)
}

// window holds the points a window may start at, oldest first. It grows to what
// the schedule needs and then stays.
type window []point

// surely is how long the window between two readings is at least: each may have been at any
// instant of the time that it took.
func surely(from, to *point) time.Duration { return to.at.Sub(from.at) - from.within - to.within }

// known reports whether the time between two points is known by less than itself: otherwise any
// load fits it.
func known(from, to *point) bool { return apart(from, to) < to.at.Sub(from.at) }

// expire drops the points older than age at the instant now, except where none would be left that
// is surely as old as least, or, up to most, none from which the time is known; and the last one: a
// window that is too long is better than one that is too short, or none.
func (w *window) expire(now *point, age, most, least time.Duration) {
	n := 0
	for n < len(*w)-1 {
		old, next := now.at.Sub((*w)[n].at), &(*w)[n+1]
		if old <= age || least > 0 && (surely(next, now) < least || old <= most && !known(next, now)) {
			break
		}
		n++
	}
	*w = slices.Delete(*w, 0, n)
}

// push appends p. A newest point that is less than spacing after the one before
// it gives way to p, so that a fast schedule does not need more than maxPoints.
func (w *window) push(p point, spacing time.Duration) {
	switch n := len(*w); {
	case n >= 2 && (*w)[n-1].at.Sub((*w)[n-2].at) < spacing:
		*w = (*w)[:n-1]
	case n == maxPoints:
		*w = slices.Delete(*w, 0, 1)
	}
	*w = append(*w, p)
}
