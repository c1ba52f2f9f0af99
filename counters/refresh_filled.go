package counters

// filled tests another rule: a cache that is filled by the reading which finds it too old. One life separates the
// readings that found it young enough from those that did not. As a timer, it is relied on when enough readings just
// before and just after that age would have refuted it.
type filled struct {
	at            int64 // when the reading began that showed the last refresh
	until         int64 // and ended
	young, old    int64 // a cache of young was used, and one of old was not
	fits          int   // refreshes in a row that agree with that
	used, renewed int   // readings that would have refuted it, either side
	refuted       int   // how often one has, up to enoughRefuted
}

const (
	// enoughRefuted is how many refreshes that it does not explain rule it out.
	enoughRefuted = 3
	// lifeKnown is to which part of it the life of a cache has to be known.
	lifeKnown = 128
)

// trusted reports whether the rule is relied on, where no timer is.
func (f *filled) trusted() bool { return min(f.used, f.renewed) >= 2*enough }

// excluded reports whether it is not the rule.
func (f *filled) excluded() bool { return f.refuted >= enoughRefuted }

// life is how old a cache may be to be used, and by how much a reading has to be off that to tell; ok is false while
// that is not known well enough.
func (f *filled) life() (life, off int64, ok bool) {
	off = max(2*(f.until-f.at), f.old/lifeKnown)
	return f.young + (f.old-f.young)/2, off, f.fits > 1 && f.old-f.young <= 2*off && off <= f.young/8
}

// take takes a refresh.
func (f *filled) take(s *sighting) {
	young, old := s.old-f.until, s.until-f.at
	life, off, ok := f.life()
	f.at, f.until = s.from, s.until
	if f.fits > 0 && max(f.young, young) > min(f.old, old)+(s.until-s.from) {
		f.fits, f.used, f.renewed, f.refuted = 0, 0, 0, min(f.refuted+1, enoughRefuted)
	}
	if f.fits == 0 {
		f.young, f.old = young, old
	}
	if f.fits++; ok && f.fits > 1 {
		if young < life-off && young >= life-tested*off {
			f.used++
		}
		if old > life+off && old <= life+tested*off {
			f.renewed++
		}
	}
	f.young, f.old = max(f.young, young), min(f.old, old)
}

// look is when a reading of a length would tell more; 0 where none would.
func (f *filled) look(took int64, late bool) int64 {
	if f.fits <= 2 || f.trusted() {
		return 0
	}
	life, off, ok := f.life()
	switch at := f.at + life; {
	case !ok:
		return at
	case late:
		return at + 2*off - took
	default:
		return at - 2*off
	}
}
