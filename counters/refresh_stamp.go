package counters

import "time"

// stamp is when a port's last sample was taken. A device that stamps samples itself
// may give a new one of one port and repeat that of another, each with its own time.
type stamp struct {
	at, local time.Time
	skew      time.Duration // at, less the reading's
	news      int           // samples since the last reading that was complete
	gap       time.Duration // between that one's and the newest
	stepped   bool          // and the clock was set meanwhile
	absent    bool          // nothing comes of it any more: it is not waited for
}

// take notes a sample, unless it is the one before.
func (t *stamp) take(s *Sample) {
	if s.At.Equal(t.at) {
		return
	}
	if !t.at.IsZero() {
		gap := s.At.Sub(t.at)
		t.stepped = t.stepped || gap < 0 || stepped(gap, t.local, s.Local)
		t.gap += gap
	}
	t.at, t.local, t.absent = s.At, s.Local, false
	t.news++
}

// settle makes the newest sample part of a reading of that time.
func (t *stamp) settle(reading time.Time) {
	t.skew, t.news, t.gap, t.stepped = t.at.Sub(reading), 0, 0, false
}

// take notes the samples' times and holds those that are there again. whole says
// whether every port has a new one: the reading is complete. A port that has none while another
// one has its second is not waited for. first is the first port with news, declared a
// port whose sample is Live, and -1 where there is none.
func (r *Refresh) take(samples []Sample) (first, declared int, whole bool) {
	first, declared, whole = -1, -1, true
	down, twice := -1, false
	for i := range samples {
		s, t := &samples[i], &r.stamps[i]
		switch {
		case s.Err != nil:
			t.news = 0
		case s.Live:
			declared = i
		case !s.Up:
			t.take(s)
			r.ports[i], down = refreshPort{}, i
		default:
			t.take(s)
			switch {
			case t.news == 0:
				whole = whole && t.absent
			case first < 0:
				first = i
			}
			twice = twice || t.news > 1
		}
	}
	if first < 0 && whole {
		first = down
	}
	whole = whole || twice
	for i := range samples {
		s, t := &samples[i], &r.stamps[i]
		if !usable(s) {
			continue
		}
		t.absent = t.absent || whole && t.news == 0
		if t.news == 0 || !whole && r.kind != live {
			s.Fresh = Held
		}
	}
	return first, declared, whole
}
