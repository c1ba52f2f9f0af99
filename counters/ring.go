package counters

import "time"

// point is the state of a port's counters at one instant, counted from where
// its estimator started.
type point struct {
	at              time.Time
	octets, packets uint64

	// atError is how far at may be off, steps the sum of what each gap since the
	// estimator started may be off.
	// within is how far the reading's own time may be off.
	atError, steps, within time.Duration

	lag time.Duration // Sample.Lag
}

// apart is how far the time between two points may be off. It is bounded in two
// ways: errors of a learned period add up from gap to gap, errors of single
// instants do not.
func apart(from, to *point) time.Duration {
	return min(to.steps-from.steps, from.atError+to.atError) + from.within + to.within + max(from.lag, to.lag)
}

// ring holds the points a window may start at, oldest first. It grows to what
// the schedule needs and then stays.
type ring struct {
	buf  []point // a power of two long
	head int     // index of the oldest
	n    int
}

func (r *ring) at(i int) *point { return &r.buf[(r.head+i)&(len(r.buf)-1)] }

func (r *ring) oldest() *point { return r.at(0) }

// expire drops the points older than age at the instant now, except the last
// one: a window that is too long is better than none.
func (r *ring) expire(now time.Time, age time.Duration) {
	for r.n > 1 && now.Sub(r.oldest().at) > age {
		r.drop()
	}
}

func (r *ring) drop() {
	r.head = (r.head + 1) & (len(r.buf) - 1)
	r.n--
}

// push appends p. A newest point that is less than spacing after the one before
// it gives way to p, so that a fast schedule does not need more than maxPoints.
func (r *ring) push(p point, spacing time.Duration) {
	if r.n >= 2 && r.at(r.n-1).at.Sub(r.at(r.n-2).at) < spacing {
		*r.at(r.n - 1) = p
		return
	}
	switch {
	case r.n < len(r.buf):
	case r.n == maxPoints:
		r.drop()
	default:
		r.grow()
	}
	r.n++
	*r.at(r.n - 1) = p
}

func (r *ring) grow() {
	buf := make([]point, max(2, 2*len(r.buf)))
	for i := range r.n {
		buf[i] = *r.at(i)
	}
	r.buf, r.head = buf, 0
}
