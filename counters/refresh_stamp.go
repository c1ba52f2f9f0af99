package counters

import "time"

// stamps is what is known of the clock of a device that stamps its samples itself.
type stamps struct {
	known bool
	grain time.Duration // its times are multiples of that

	// By how much the device's clock is ahead of ours, at most, in a stretch of time that begins at from,
	// and in the one before. Samples arrive late by more or less: the most is that of one that did not.
	from, before    time.Time
	last            time.Time // of the last sample, by our clock
	ahead, wasAhead time.Duration
	length          time.Duration // of the stretch
	drift           int64         // how far the clock is off at most, in parts per million
}

const (
	coarsest = time.Second
	// Each stretch is twice as long as the one before.
	firstStretch, longestStretch = time.Second, 256 * time.Second
	// worstDrift is what is believed of a clock (see stepped).
	worstDrift = 1_000_000 / 8
)

// take notes when a sample was taken, and when it came, and reports whether the clock was set forward since the one
// before. One that was set back looks like samples that are late, and then like a clock that runs wrong.
func (t *stamps) take(s *Sample) (set bool) {
	ahead := s.At.Sub(s.Local)
	most := t.ahead
	if !t.before.IsZero() {
		most = max(most, t.wasAhead)
	}
	set = t.known && ahead-most > stepTolerance+max(0, s.Local.Sub(t.last))/8
	if s.Local.After(t.last) {
		t.last = s.Local // those of other ports may be older
	}
	if !t.known || set {
		*t = stamps{known: true, grain: coarsest, from: s.Local, last: s.Local, ahead: ahead, length: firstStretch, drift: worstDrift}
	}
	for t.grain > 1 && s.At.UnixNano()%int64(t.grain) != 0 {
		t.grain /= 10
	}
	if s.Local.Sub(t.from) >= t.length {
		if d := int64(t.from.Sub(t.before)); !t.before.IsZero() {
			t.drift = min(int64((t.ahead-t.wasAhead).Abs()+t.grain)*1125/(d/1000), worstDrift)
		}
		t.before, t.wasAhead = t.from, t.ahead
		t.from, t.ahead, t.length = s.Local, ahead, min(2*t.length, longestStretch)
	}
	if !s.Local.Before(t.from) {
		t.ahead = max(t.ahead, ahead)
	}
	return set
}

// off is how far a time of the device's clock that took d is off, at most.
func (t *stamps) off(d time.Duration) time.Duration {
	return time.Duration(int64(d/1000) * t.drift / 1000)
}
