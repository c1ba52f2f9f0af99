package vlanrules

import "slices"

// missing is at for a wanted entry that is no row.
const missing = -1

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
	for i := range c.want {
		if c.at[i] != missing {
			continue
		}
		e := c.want[i]
		if e.Type == UseValue {
			e.Ref = c.refOf(i)
		}
		if c.caps.Match != MatchRange && !ordered && c.sameMatch(rows, &e) >= 0 && !deleteFirst {
			c.stuck = c.stuck || !c.caps.Modify // else changed in place below
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
			if c.gone[j] || h.Match != w.Match || h.Type != w.Type || h.VID != w.VID || slices.Contains(c.at, j) {
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

// dropRest deletes the rows that are not wanted, from the bottom up, and
// shared values last, when nothing uses them.
func (c *Compiler) dropRest(rows []int) {
	for _, j := range slices.Backward(rows) {
		if !c.gone[j] && c.cur[j].Type != Value && !slices.Contains(c.at, j) {
			c.drop(j)
		}
	}
	for _, j := range rows {
		if !c.gone[j] && c.cur[j].Type == Value && !slices.Contains(c.at, j) {
			c.drop(j)
		}
	}
}
