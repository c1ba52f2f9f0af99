package vlanrules

// appendRange appends the one entry of a signal on a device that matches VID
// ranges: every S the local bucket is worse than, whatever its LM.
func (c *Compiler) appendRange(in *Intent) {
	if in.S == in.Signal.InitialBucket() {
		return
	}
	first, last := c.rangeOf(in)
	if first > last {
		return
	}
	e := Entry{Type: RewriteVID, VID: c.layout.VID(in.S, in.LM)}
	e.Match = Match{PCP: c.pcp(in.Signal), VID: Field{Kind: Range, First: first, Last: last}}
	c.want = append(c.want, e)
}

// rangeOf is the VIDs of tags that in updates, without those at the ends that
// entries may not name; judge has made sure that no tag in use has them.
func (c *Compiler) rangeOf(in *Intent) (first, last uint16) {
	first, last = (uint16(in.S)+1)<<7, 4095
	if in.Signal.Max() {
		first, last = 0, uint16(in.S)<<7-1
	}
	for first <= last && !c.caps.matchable(first) {
		first++
	}
	for last > first && !c.caps.matchable(last) {
		last--
	}
	return first, last
}

// rangeSignal changes the range of one signal.
func (c *Compiler) rangeSignal(in *Intent, rows []int) {
	c.wantSignal(FormRange, in)
	if len(rows) == 1 && len(c.want) == 1 && c.changeRange(rows[0], &c.want[0]) {
		return
	}
	c.replace(rows)
}

// changeRange makes row i into w in place, where the device can do so
// without a wrong value between; it reports false otherwise.
func (c *Compiler) changeRange(i int, w *Entry) bool {
	h := &c.cur[i]
	switch {
	case h.Type != RewriteVID || h.Match.VID.Kind != Range || h.Match.DEI.Kind != Any:
		return false
	case h.Match == w.Match && h.VID == w.VID:
		return true
	case c.caps.ModifyEntry, c.caps.Modify && h.Match == w.Match:
		c.modify(i, *w)
		return true
	case !c.caps.Modify || !c.caps.ModifyMatch:
		return false
	case h.VID == w.VID:
		c.modify(i, *w)
		return true
	}
	// Match and value take a write each. A range that gets narrower does so
	// while the old value still holds; one that gets wider waits for the new.
	step, old, wanted := *h, &h.Match.VID, &w.Match.VID
	switch {
	case old.First <= wanted.First && wanted.Last <= old.Last:
		step.Match = w.Match
	case wanted.First <= old.First && old.Last <= wanted.Last:
		step.VID = w.VID
	default:
		return false
	}
	c.modify(i, step)
	c.modify(i, *w)
	return true
}
