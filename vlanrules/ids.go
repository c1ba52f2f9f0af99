package vlanrules

// IDs follow from what an entry says, so that they are the same after a
// restart: 10,000 for each signal, plus the VID or class of an exact entry,
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
	case e.Match.Class != 0:
		id = (t+1)*signalIDs + uint32(e.Match.Class)
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

// manyRows is the length from which IDs are looked up in a map.
const manyRows = 64

func (c *Compiler) taken(id uint32) bool {
	if len(c.cur) >= manyRows {
		_, is := c.ids[id]
		return is
	}
	for i := range c.cur {
		if c.cur[i].ID == id && !c.gone[i] {
			return true
		}
	}
	return false
}

// indexIDs fills ids where the table is long.
func (c *Compiler) indexIDs() {
	clear(c.ids)
	if len(c.cur) < manyRows {
		return
	}
	if c.ids == nil {
		c.ids = make(map[uint32]struct{}, len(c.cur))
	}
	for i := range c.cur {
		if c.cur[i].ID != 0 && !c.gone[i] {
			c.ids[c.cur[i].ID] = struct{}{}
		}
	}
}

// noteID keeps ids up to date when a row was added.
func (c *Compiler) noteID(id uint32) {
	switch {
	case len(c.cur) == manyRows:
		c.indexIDs()
	case len(c.cur) > manyRows:
		c.ids[id] = struct{}{}
	}
}
