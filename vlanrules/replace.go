package vlanrules

import "github.com/csig-agent/csig/vlanrules/internal/cover"

// Values of at for a wanted entry that is no row.
const (
	missing = -1
	spared  = -2 // other entries take its tags
)

// replace makes rows, the rows of one signal or of the whole port, into
// c.want, whatever they are.
//
// With priorities it adds what is missing from the top down and then deletes
// what is left over from the bottom up. While adding, a tag either meets an
// entry of the new table, whose result is the new one since all above it are
// there, or it meets what it met before. While deleting, a tag that loses its
// entry falls to the new table. Where the old entries stand among the new
// ones does not matter.
//
// Without priorities any entry that matches may win. It adds, then changes in
// place, then deletes: each entry a tag can meet gives the old or the new
// result, and none is missing.
func (c *Compiler) replace(rows []int) {
	ordered := c.caps.Match == MatchTernary
	if c.caps.Match == MatchTernaryUnordered && !c.caps.Modify && c.sameMeaning(rows) {
		return
	}
	c.keep(rows, ordered)
	deleteFirst := c.caps.Txn != TxnEntry && !ordered
	if deleteFirst {
		// In a transaction the order is free, and tables that refuse two
		// entries for one key want the old one gone.
		c.dropRest(rows)
	}
	for i := range c.want {
		if c.at[i] == missing && c.want[i].Type == Value {
			c.place(i, c.want[i])
		}
	}
	for i := 0; i < len(c.want); i++ { // split may append to want
		if c.at[i] != missing {
			continue
		}
		e := c.want[i]
		if e.Type == UseValue {
			e.Ref = c.refOf(i)
		}
		if c.caps.Match != MatchRange && !ordered && c.sameMatch(rows, &e) >= 0 && !deleteFirst {
			switch {
			case c.caps.Modify: // changed in place below
			case c.widen(rows, i):
				i--
			case c.split(i):
				i--
			default:
				c.stuck = true
			}
			continue
		}
		c.place(i, e)
	}
	for i := range c.want {
		if c.at[i] != missing {
			continue
		}
		e := c.want[i]
		if e.Type == UseValue {
			e.Ref = c.refOf(i)
		}
		if row := c.sameMatch(rows, &e); row >= 0 && c.caps.Modify {
			c.modify(row, e)
			c.at[i] = row
		}
	}
	if !deleteFirst {
		c.dropRest(rows)
	}
}

// keep finds the rows that are already as wanted. With priorities their order
// has to agree with the new table's, which it does where each has the
// priority that its match calls for.
func (c *Compiler) keep(rows []int, ordered bool) {
	c.at = c.at[:0]
	for i := range c.want {
		w, at := &c.want[i], missing
		for _, j := range rows {
			h := &c.cur[j]
			if c.gone[j] || h.Match != w.Match || h.Type != w.Type || h.VID != w.VID || c.holds(j) {
				continue
			}
			if ordered && h.Priority/priorityBand != w.Priority/priorityBand {
				continue
			}
			if w.Type == UseValue && h.Ref != c.refOf(i) {
				continue
			}
			at = j
			break
		}
		c.at = append(c.at, at)
	}
}

// holds reports whether row is already one of the wanted entries.
func (c *Compiler) holds(row int) bool {
	for _, at := range c.at {
		if at == row {
			return true
		}
	}
	return false
}

// refOf is the ID of the shared value that want[i] uses, 0 while it is not
// there: that of the same signal, which comes before it in want.
func (c *Compiler) refOf(i int) uint32 {
	for j, at := range c.at {
		if w := &c.want[j]; w.Type == Value && at >= 0 && w.Match.PCP == c.want[i].Match.PCP {
			return c.cur[at].ID
		}
	}
	return 0
}

// place adds want[i] as e, at a free priority of its band.
func (c *Compiler) place(i int, e Entry) {
	e.Priority = c.freePriority(&e)
	c.at[i] = c.add(e)
}

// freePriority is the lowest priority for e at which no row has its match.
//
// With masks that is one of the ten of its band: outside it, e would stand
// among patterns that test more bits or fewer. A full band has ten rows with
// one match. Only the highest takes tags, and none is wanted, since e is
// missing: the lowest is deleted, which affects no tag, and e takes its place.
func (c *Compiler) freePriority(e *Entry) uint16 {
	switch {
	case c.caps.Match == MatchTernary:
		for p := e.Priority; p < e.Priority+priorityBand; p++ {
			if c.rowAt(p, &e.Match) < 0 {
				return p
			}
		}
		c.drop(c.rowAt(e.Priority, &e.Match))
		return e.Priority
	case c.caps.Match != MatchRange || c.caps.Txn != TxnEntry:
		return e.Priority
	}
	p := e.Priority
	for j := 0; j < len(c.cur); j++ {
		h := &c.cur[j]
		if !c.gone[j] && h.Priority == p && (h.Match.PCP == e.Match.PCP || c.signalOf(h) < 0) {
			p++
			j = -1
		}
	}
	return p
}

// rowAt is a row with this priority and match, or -1.
func (c *Compiler) rowAt(priority uint16, m *Match) int {
	for j := range c.cur {
		if !c.gone[j] && c.cur[j].Priority == priority && c.cur[j].Match == *m {
			return j
		}
	}
	return -1
}

// sameMatch is the row among rows that has e's match, or -1.
func (c *Compiler) sameMatch(rows []int, e *Entry) int {
	for _, j := range rows {
		if !c.gone[j] && c.cur[j].Match == e.Match && c.cur[j].Type != Value {
			return j
		}
	}
	return -1
}

// widen replaces want[i], a prefix, by a pattern that the table does not have
// and that takes nothing but what the new table rewrites anyway: it stops
// testing the higher bits that the bucket could have either way. It reports
// false if there is none.
func (c *Compiler) widen(rows []int, i int) bool {
	e := c.want[i]
	f := &e.Match.VID
	s, low := f.Mask>>7, f.Mask&0x7f
	lowest := s & -s
	same := f.Value >> 7 & s
	if f.Value>>7&lowest == 0 {
		same = s &^ same
	}
	f.Mask = same<<7 | low
	f.Value &= f.Mask
	if e.Type != RewriteVID || f.Mask == c.want[i].Match.VID.Mask || c.sameMatch(rows, &e) >= 0 {
		return false
	}
	var rewritten uint32
	for j := range c.want {
		if w := &c.want[j]; w.Match.PCP == e.Match.PCP && w.Match.VID.Mask&0x7f == low {
			rewritten |= sValues(&w.Match.VID)
		}
	}
	if sValues(f)&^rewritten != 0 {
		return false
	}
	c.want[i] = e
	return true
}

// sValues is the set of S that a ternary condition on the VID takes.
func sValues(f *Field) uint32 {
	return cover.Cube{Value: uint8(f.Value >> 7 & 31), Mask: uint8(f.Mask >> 7 & 31)}.Set()
}

// split replaces want[i] by two entries that take half of its tags each, for
// a table that can hold one entry a match and change none in place. It
// reports false where a match takes a single VID and cannot be split.
func (c *Compiler) split(i int) bool {
	bit := uint16(1 << 11)
	for bit > 0 && c.want[i].Match.VID.Mask&bit != 0 {
		bit >>= 1
	}
	if bit == 0 {
		return false
	}
	half := c.want[i]
	half.Match.VID.Kind = Ternary
	half.Match.VID.Mask |= bit
	other := half
	other.Match.VID.Value |= bit
	if c.at[i] = spared; !c.wanted(&half) {
		c.want[i], c.at[i] = half, missing
	}
	if !c.wanted(&other) {
		c.want, c.at = append(c.want, other), append(c.at, missing)
	}
	return true
}

// wanted reports whether some wanted entry has e's match.
func (c *Compiler) wanted(e *Entry) bool {
	for i := range c.want {
		if c.want[i].Match == e.Match && c.at[i] != spared {
			return true
		}
	}
	return false
}

// sameMeaning reports whether rows, all of them of one signal, already do what
// c.want asks for, be it with other entries: a table of ours that had to avoid
// matches is not to be tidied up at the next compile.
func (c *Compiler) sameMeaning(rows []int) bool {
	if len(rows) == 0 || len(c.want) == 0 {
		return len(rows) == len(c.want)
	}
	pcp, vid, values := c.want[0].Match.PCP, c.want[0].VID, 0 // the first is a value, or like all others
	for _, i := range rows {
		e := &c.cur[i]
		writes := e.VID
		switch e.Type {
		case Value:
			values++
		case UseValue:
			writes, _ = c.cur.value(e.Ref)
		case NoOp:
			return false
		}
		if writes != vid || e.Match.PCP != pcp || e.Match.DEI.Kind != Any {
			return false
		}
	}
	for i := range c.want {
		if c.want[i].Match.PCP != pcp {
			return false
		}
	}
	if c.want[0].Type == Value && values != 1 || c.want[0].Type != Value && values != 0 {
		return false
	}
	if has, ok := c.takenS(c.cur, rows); ok {
		wants, _ := c.takenS(c.want, nil)
		return has == wants
	}
	for v := range uint16(4096) { // split has come down to locator bits
		has, wants := false, false
		for _, i := range rows {
			has = has || c.cur[i].Type != Value && c.cur[i].Match.VID.matches(v)
		}
		for i := range c.want {
			wants = wants || c.want[i].Type != Value && c.want[i].Match.VID.matches(v)
		}
		if has != wants {
			return false
		}
	}
	return true
}

// takenS is the set of S that the entries of t, or those in rows, take
// together. It reports false where some test a locator bit.
func (c *Compiler) takenS(t Table, rows []int) (set uint32, ok bool) {
	n := len(t)
	if rows != nil {
		n = len(rows)
	}
	for i := range n {
		if rows != nil {
			i = rows[i]
		}
		f := &t[i].Match.VID
		switch {
		case t[i].Type == Value:
		case f.Kind == Range || f.Mask&0x7f != c.dMask() || f.Value&^f.Mask != 0:
			return 0, false
		default:
			set |= sValues(f)
		}
	}
	return set, true
}

// dropRest deletes the rows that are not wanted, from the bottom up, and
// shared values last, when nothing uses them.
func (c *Compiler) dropRest(rows []int) {
	for n := len(rows) - 1; n >= 0; n-- {
		if j := rows[n]; !c.gone[j] && c.cur[j].Type != Value && !c.holds(j) {
			c.drop(j)
		}
	}
	for _, j := range rows {
		if !c.gone[j] && c.cur[j].Type == Value && !c.holds(j) {
			c.drop(j)
		}
	}
}
