package vlanrules

import (
	"math/bits"

	"github.com/csig-agent/csig/quantize"
)

// appendRange appends the entry of a signal on a device that matches VID
// ranges: every S the local bucket is worse than, whatever its LM. Where one entry can list
// several ranges it is a row for each.
func (c *Compiler) appendRange(form Form, in *Intent) {
	if in.S == in.Signal.InitialBucket() {
		return
	}
	first, last := c.rangeOf(in)
	if first > last {
		return
	}
	e := Entry{Type: RewriteVID, VID: c.layout.VID(in.S, in.LM)}
	if form == FormSharedRange {
		c.want = append(c.want, c.valueRow(in))
		e = Entry{Type: UseValue, Ref: c.valueID(in)}
	}
	for first <= last {
		end := last
		if c.caps.Ranges > 1 {
			for end = first; end < last && c.caps.matchable(end+1); end++ {
			}
		}
		e.Match = Match{PCP: c.pcp(in.Signal), VID: Field{Kind: Range, First: first, Last: end}}
		c.want = append(c.want, e)
		for first = end + 1; first < last && !c.caps.matchable(first); first++ {
		}
	}
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
func (c *Compiler) rangeSignal(form Form, in *Intent, rows []int) {
	c.wantSignal(form, in)
	switch {
	case form == FormSharedRange:
		if c.changeShared(in, rows) {
			return
		}
	case len(rows) == 1 && len(c.want) == 1 && c.changeRange(rows[0], &c.want[0]):
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
	step := *h
	switch {
	case w.Match.VID.within(&h.Match.VID):
		step.Match = w.Match
	case h.Match.VID.within(&w.Match.VID):
		step.VID = w.VID
	default:
		return false
	}
	c.modify(i, step)
	c.modify(i, *w)
	return true
}

// within reports whether a range is a part of another.
func (f *Field) within(o *Field) bool { return o.First <= f.First && f.Last <= o.Last }

// changeShared makes the ranges among rows those of want, which starts with the
// value that they share, and the value what in writes. Ranges get narrower while the old
// value holds, and wider when the new one does. It reports false for rows that are others.
func (c *Compiler) changeShared(in *Intent, rows []int) bool {
	value, wide, narrow := -1, true, true // the old ranges are wider, narrower
	for _, i := range rows {
		if c.cur[i].Type == Value {
			if value >= 0 {
				return false
			}
			value = i
		}
	}
	if value < 0 {
		return false
	}
	for _, i := range rows {
		e := &c.cur[i]
		if i != value && (e.Type != UseValue || e.Ref != c.cur[value].ID || e.Match.DEI.Kind != Any || e.Match.VID.Kind != Range) {
			return false
		}
	}
	var ranges []Entry
	if len(c.want) > 0 {
		ranges = c.want[1:]
	}
	for k := range ranges {
		wide = wide && c.anyRange(rows, func(f *Field) bool { return ranges[k].Match.VID.within(f) })
	}
	for _, i := range rows {
		f := &c.cur[i].Match.VID
		narrow = narrow && (i == value || anyEntry(ranges, func(w *Field) bool { return f.within(w) }))
	}
	switch {
	case wide:
		c.reshape(rows, ranges)
		c.shareValue(in, value, len(ranges))
	case narrow:
		c.shareValue(in, value, len(ranges))
		c.reshape(rows, ranges)
	default:
		return false
	}
	return true
}

// shareValue makes the value what in writes. One that nothing uses stays as it is: what it
// would be need not be a VID that the device can write.
func (c *Compiler) shareValue(in *Intent, value, users int) {
	if want := c.valueRow(in); users > 0 && c.cur[value].VID != want.VID {
		c.modify(value, want)
	}
}

// reshape makes the ranges among rows, which all write the same, those wanted, where one
// covers all that the other does. What is new comes before what is over goes.
func (c *Compiler) reshape(rows []int, ranges []Entry) {
	row := make([]int, len(ranges)) // of each range, there or to become it
	used := func(i int) bool {
		for _, r := range row {
			if r == i+1 {
				return true
			}
		}
		return false
	}
	find := func(k int, like func(f *Field) bool) {
		for _, i := range rows {
			if e := &c.cur[i]; row[k] == 0 && e.Type == UseValue && !used(i) && like(&e.Match.VID) {
				row[k] = i + 1
			}
		}
	}
	for k := range ranges {
		find(k, func(f *Field) bool { return *f == ranges[k].Match.VID })
	}
	for k := range ranges {
		if w := &ranges[k].Match.VID; c.caps.ModifyMatch {
			find(k, func(f *Field) bool { return f.within(w) || w.within(f) })
		}
		if row[k] == 0 {
			row[k] = c.addFree(ranges[k]) + 1
		}
	}
	for k := range ranges {
		if e := c.cur[row[k]-1]; e.Match != ranges[k].Match {
			e.Match = ranges[k].Match
			c.modify(row[k]-1, e)
		}
	}
	for _, i := range rows {
		if c.cur[i].Type == UseValue && !used(i) {
			c.drop(i)
		}
	}
}

func (c *Compiler) anyRange(rows []int, is func(*Field) bool) bool {
	for _, i := range rows {
		if e := &c.cur[i]; e.Type == UseValue && is(&e.Match.VID) {
			return true
		}
	}
	return false
}

func anyEntry(list []Entry, is func(*Field) bool) bool {
	for i := range list {
		if is(&list[i].Match.VID) {
			return true
		}
	}
	return false
}

// weight is how many entries of the table a row takes.
func (c *Compiler) weight(e *Entry) int {
	switch {
	case !c.caps.Prefixes:
		return 1
	case e.Type == Value:
		return 0
	case e.Match.VID.Kind == Range:
		return prefixes(e.Match.VID.First, e.Match.VID.Last)
	}
	return 1
}

func (c *Compiler) weightOf(t Table) (n int) {
	for i := range t {
		n += c.weight(&t[i])
	}
	return n
}

// prefixes is how many value/mask entries the VIDs first to last take: each is the
// largest aligned block that starts where the one before ended.
func prefixes(first, last uint16) (n int) {
	for at, end := uint(first), uint(last)+1; at < end; n++ {
		size := uint(1) << min(bits.TrailingZeros(at), 12)
		for at+size > end {
			size >>= 1
		}
		at += size
	}
	return n
}

// rangeEntries is the most entries that a signal's ranges take, over all buckets.
func (c *Compiler) rangeEntries(form Form, in Intent) (n int) {
	kept := c.want
	for in.S = 0; in.S < quantize.NumBuckets; in.S++ {
		c.want = nil
		c.appendRange(form, &in)
		n = max(n, c.weightOf(c.want))
	}
	c.want = kept
	return n
}
