package vlanrules

// IDs follow from an entry's content, so that they are the same after a
// restart: 10,000 for each signal, plus the VID of an exact entry,
// or 4,100 and up for the others. An ID that is taken moves up by a million.
const (
	signalIDs    = 10_000
	firstOtherID = 4_100
	nextID       = 1_000_000
)

func (c *Compiler) freeID(e *Entry) uint32 {
	t := uint32(8)
	if s := c.signalOf(e); s >= 0 {
		t = uint32(s)
	}
	f := &e.Match.VID
	id := (t+1)*signalIDs + firstOtherID
	switch {
	case e.Type == Value:
	case f.Kind == Ternary && f.Mask == 0xfff:
		id = (t+1)*signalIDs + uint32(f.Value)
	case f.Kind == Range:
		id += 2000
	default:
		// A pattern over S: its digits 0, 1, wildcard in base 3.
		id += 1
		if e.Type == NoOp {
			id += 1000
		}
		digits := uint32(0)
		for bit := 11; bit >= 7; bit-- {
			d := uint32(2)
			if f.Mask>>bit&1 == 1 {
				d = uint32(f.Value >> bit & 1)
			}
			digits = digits*3 + d
		}
		id += digits
	}
	for c.taken(id) {
		id += nextID
	}
	return id
}

// manyRows is the length from which IDs are looked up in a set.
const manyRows = 64

func (c *Compiler) taken(id uint32) bool {
	if len(c.cur) >= manyRows {
		if !c.ids.current {
			c.indexIDs()
		}
		return c.ids.has(id)
	}
	for i := range c.cur {
		if c.cur[i].ID == id && !c.gone[i] {
			return true
		}
	}
	return false
}

// indexIDs makes ids the IDs of cur.
func (c *Compiler) indexIDs() {
	c.ids.reset()
	for i := range c.cur {
		if c.cur[i].ID != 0 && !c.gone[i] {
			c.ids.insert(c.cur[i].ID)
		}
	}
}

// idSet is a set of IDs. Until it is current it need not be updated.
type idSet struct {
	current bool
	ours    [(9*signalIDs + 63) / 64]uint64 // all that freeID tries first
	others  map[uint32]struct{}
}

func (s *idSet) reset() {
	s.current = true
	clear(s.ours[:])
	clear(s.others)
}

func (s *idSet) has(id uint32) bool {
	if int(id>>6) < len(s.ours) {
		return s.ours[id>>6]>>(id&63)&1 == 1
	}
	_, is := s.others[id]
	return is
}

func (s *idSet) insert(id uint32) {
	switch {
	case !s.current:
	case int(id>>6) < len(s.ours):
		s.ours[id>>6] |= 1 << (id & 63)
	default:
		if s.others == nil {
			s.others = map[uint32]struct{}{}
		}
		s.others[id] = struct{}{}
	}
}

func (s *idSet) remove(id uint32) {
	switch {
	case !s.current:
	case int(id>>6) < len(s.ours):
		s.ours[id>>6] &^= 1 << (id & 63)
	default:
		delete(s.others, id)
	}
}
