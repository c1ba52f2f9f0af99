package vlanrules

import (
	"math/bits"
	"slices"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules/internal/cover"
)

// Two forms keep a table of aligned runs of S. The bucket determines what the
// runs cover together:
//
//   - lazy: no-ops cover 0…s, over one catch-all rewrite (min signal);
//   - shared prefixes: entries that use one shared value cover s+1…31.
//
// For a step of one bucket it takes one run more or less and one change of
// the catch-all or of the value. Runs that have become part of a larger one
// stay until their entries are needed, because the bucket will come back:
// what is added is always the largest run that ends there, and what is
// deleted to free entries are the spare runs farthest away.
// BenchmarkLeastOperations compares this rule with the best possible one.

// maxRuns bounds the runs of one signal during a change; a table with more
// than foreignRuns before it is not one of ours.
const (
	maxRuns     = 64
	foreignRuns = 40
)

// minRuns is the number of runs that every bucket and every change can do
// with: at most 5 cover 0…30, and 4 beside the one they replace.
const minRuns = 5

// runs is the runs in one signal's table, on the scale of the form: covered
// is always some 0…m.
type runs struct {
	n   int
	set [maxRuns]uint32
	row [maxRuns]int
}

func (r *runs) union() uint32 {
	var u uint32
	for _, set := range r.set[:r.n] {
		u |= set
	}
	return u
}

func (r *runs) push(set uint32, row int) {
	r.set[r.n], r.row[r.n] = set, row
	r.n++
}

func (r *runs) remove(i int) {
	r.n--
	r.set[i], r.row[i] = r.set[r.n], r.row[r.n]
}

// runLimit is how many runs the budget leaves one signal.
func (c *Compiler) runLimit(form Form) int {
	n := c.budget - 1 // the catch-all or the value
	if form == FormLazy && !c.caps.Modify {
		n-- // its successor
	}
	return min(n, maxRuns/2)
}

// runEntry is the entry of one run.
func (c *Compiler) runEntry(form Form, in *Intent, q cover.Cube) Entry {
	if form == FormLazy {
		return c.noop(in.Signal, q)
	}
	q = q.Mirror() // covered from the top
	e := Entry{Match: c.pattern(in.Signal, q, c.dMask()), Type: UseValue, Ref: c.valueID(in)}
	if c.caps.Match == MatchTernary {
		e.Priority = priority(q)
	}
	return e
}

// readRun is the inverse of runEntry; it reports false for any other entry.
func (c *Compiler) readRun(form Form, sig quantize.Signal, e *Entry) (set uint32, ok bool) {
	kind, low := NoOp, uint16(0)
	if form == FormSharedPrefix {
		kind, low = UseValue, c.dMask()
	}
	q, ok := cubeOf(sig, &e.Match, low)
	if !ok || e.Type != kind || !q.IsPrefix() || q.Mask == 0 {
		return 0, false
	}
	if c.caps.Match == MatchTernary && e.Priority/priorityBand != priority(q)/priorityBand {
		return 0, false
	}
	if form == FormSharedPrefix {
		q = q.Mirror()
	}
	return q.Set(), true
}

// canonicalRuns calls f with the runs of a fresh table that covers 0…m: those
// of 0…m-1 and the largest that ends at m, so that both next steps are short.
func canonicalRuns(m int, f func(cover.Cube)) {
	if m < 0 {
		return
	}
	f(cover.Largest(cover.UpTo(m), m))
	for v := m - 1; v >= 0; {
		q := cover.Largest(cover.UpTo(m-1), v)
		f(q)
		v = bits.TrailingZeros32(q.Set()) - 1
	}
}

// appendLazy appends a fresh lazy table: no-ops for 0…s, then the catch-all.
func (c *Compiler) appendLazy(in *Intent) {
	s := level(in)
	if s == quantize.NumBuckets-1 {
		return
	}
	first := len(c.want)
	canonicalRuns(s, func(q cover.Cube) { c.want = append(c.want, c.noop(in.Signal, q)) })
	c.want = append(c.want, c.rewrite(in, cover.Cube{}))
	sortTable(c.want[first:])
}

// appendPrefixes appends a fresh table of prefixes of s+1…31, sharing a value
// or not.
func (c *Compiler) appendPrefixes(form Form, in *Intent) {
	top := quantize.NumBuckets - 2 - level(in)
	if form == FormSharedPrefix && top >= 0 {
		c.want = append(c.want, c.valueRow(in))
		canonicalRuns(top, func(q cover.Cube) { c.want = append(c.want, c.runEntry(form, in, q)) })
		return
	}
	for v := top; v >= 0; {
		q := cover.Largest(cover.UpTo(top), v)
		v = bits.TrailingZeros32(q.Set()) - 1
		e := c.rewrite(in, q.Mirror())
		e.Priority = 0
		c.want = append(c.want, e)
	}
}

// valueRow is the shared value of a signal. It tests nothing: its PCP names the
// signal.
func (c *Compiler) valueRow(in *Intent) Entry {
	return Entry{Match: Match{PCP: c.pcp(in.Signal)}, Type: Value, VID: c.layout.VID(in.S, in.LM)}
}

// valueID is the ID of the first shared value among a signal's rows, or 0.
func (c *Compiler) valueID(in *Intent) uint32 {
	want := c.pcp(in.Signal)
	for i := range c.cur {
		if e := &c.cur[i]; e.Type == Value && !c.gone[i] && e.Match.PCP == want {
			return e.ID
		}
	}
	return 0
}

// lazySignal changes one signal's lazy table. No-ops that the new bucket
// needs come first, then the catch-all changes its value, then no-ops that
// the new bucket must not have go: at each moment no-ops cover what both
// buckets leave alone, and the catch-all's value is right for the rest.
func (c *Compiler) lazySignal(in *Intent, rows []int) {
	r := &c.runs
	r.n = 0
	catchAll := -1
	for _, i := range rows {
		e := &c.cur[i]
		if set, ok := c.readRun(FormLazy, in.Signal, e); ok && r.n < foreignRuns {
			r.push(set, i)
			continue
		}
		q, ok := cubeOf(in.Signal, &e.Match, c.dMask())
		if !ok || e.Type != RewriteVID || q.Mask != 0 || e.Priority/priorityBand != 1 {
			c.wantSignal(FormLazy, in)
			c.replace(rows)
			return
		}
		if catchAll < 0 {
			catchAll = i
		}
	}
	// Catch-alls below the first take nothing: what a change that was cut
	// short has left.
	for _, i := range slices.Backward(rows) {
		if c.cur[i].Type == RewriteVID && i != catchAll {
			c.drop(i)
		}
	}
	s, limit := level(in), c.runLimit(FormLazy)
	if s == quantize.NumBuckets-1 {
		if catchAll >= 0 {
			c.drop(catchAll) // the no-ops may stay: nothing is under them
		}
		return
	}
	if r.n == 0 && catchAll < 0 {
		c.wantSignal(FormLazy, in)
		c.replace(rows)
		return
	}
	region, covered := cover.UpTo(s), r.union()
	if region&^covered != 0 {
		c.grow(FormLazy, in, region, covered, region, limit)
	}
	e := c.rewrite(in, cover.Cube{})
	switch {
	case catchAll < 0:
		c.addFree(e)
	case c.cur[catchAll].VID == e.VID:
	case c.caps.Modify:
		c.modify(catchAll, e)
	default:
		c.addFree(e)
		c.drop(catchAll)
	}
	c.shrink(FormLazy, in, region, region, limit)
}

// sharedSignal changes one signal's runs over a shared value. Entries that
// the new bucket must not have go first, then the value changes, then entries
// come that the old bucket did not have: whatever uses the value is rewritten
// by both buckets while it changes.
func (c *Compiler) sharedSignal(in *Intent, rows []int) {
	r := &c.runs
	r.n = 0
	value := -1
	for _, i := range rows {
		if c.cur[i].Type == Value && value < 0 {
			value = i
		}
	}
	for _, i := range rows {
		e := &c.cur[i]
		set, ok := c.readRun(FormSharedPrefix, in.Signal, e)
		switch {
		case i == value:
		case ok && value >= 0 && e.Ref == c.cur[value].ID && r.n < foreignRuns:
			r.push(set, i)
		default:
			value = -1
		}
		if value < 0 {
			c.wantSignal(FormSharedPrefix, in)
			c.replace(rows)
			return
		}
	}
	if value < 0 {
		c.wantSignal(FormSharedPrefix, in)
		c.replace(rows)
		return
	}
	region, limit := cover.UpTo(quantize.NumBuckets-2-level(in)), c.runLimit(FormSharedPrefix)
	c.shrink(FormSharedPrefix, in, region, region&r.union(), limit)
	if want := c.valueRow(in); region != 0 && c.cur[value].VID != want.VID {
		c.modify(value, want)
	}
	if covered := r.union(); region&^covered != 0 {
		c.grow(FormSharedPrefix, in, region, covered, region, limit)
	}
}

// addFree adds e with a priority of its own.
func (c *Compiler) addFree(e Entry) int {
	e.Priority = c.freePriority(&e)
	return c.add(e)
}

// grow adds runs within allowed until they cover region, the widest first. To
// free entries it deletes spare runs, without uncovering anything of keep.
func (c *Compiler) grow(form Form, in *Intent, region, keep, allowed uint32, limit int) {
	r := &c.runs
	drops := r.n // a foreign table may need more runs than fit
	for region&^r.union() != 0 {
		var widest cover.Cube
		for u := r.union(); region&^u != 0; {
			q := cover.Largest(allowed, top(region&^u))
			if u |= q.Set(); widest.Mask == 0 || q.Len() < widest.Len() {
				widest = q
			}
		}
		if r.n >= limit && drops > 0 && c.dropSpare(keep, region) {
			drops--
			continue // what is missing may have changed
		}
		r.push(widest.Set(), c.addFree(c.runEntry(form, in, widest)))
	}
	for r.n > limit && c.dropSpare(keep|region, region) {
	}
}

// shrink deletes the runs that reach beyond region, and first adds runs
// within allowed for the part of region that only they cover.
func (c *Compiler) shrink(form Form, in *Intent, region, allowed uint32, limit int) {
	r := &c.runs
	widest, keep := -1, r.union()&region
	if r.union()&^region == 0 {
		return
	}
	for i := r.n - 1; i >= 0; i-- {
		if r.set[i]&region == 0 {
			c.drop(r.row[i])
			r.remove(i)
		}
	}
	// Those that reach across lie within each other: the widest covers what
	// the others do.
	for i := range r.n {
		if r.set[i]&^region != 0 && (widest < 0 || r.set[i]&^r.set[widest] != 0) {
			widest = i
		}
	}
	if widest < 0 {
		return
	}
	across, row := r.set[widest], r.row[widest]
	r.remove(widest)
	for i := r.n - 1; i >= 0; i-- {
		if r.set[i]&^region != 0 {
			c.drop(r.row[i])
			r.remove(i)
		}
	}
	if keep&^r.union() != 0 {
		c.grow(form, in, keep, keep&^across, allowed, limit-1)
	}
	c.drop(row)
}

// dropSpare deletes one run that keep can do without: rather one that region
// can do without, too, and of those the one whose place, the end of the run
// around it, is farthest from the end of keep. It reports false if there is
// none.
func (c *Compiler) dropSpare(keep, region uint32) bool {
	r := &c.runs
	victim, score := -1, 0
	for i, set := range r.set[:r.n] {
		var others, around uint32
		for j, other := range r.set[:r.n] {
			if j == i {
				continue
			}
			others |= other
			if set&^other == 0 && (around == 0 || other&^around == 0) {
				around = other
			}
		}
		if keep&^others != 0 {
			continue
		}
		far := 32
		if around != 0 {
			far = 31 - top(around)
		}
		sc := 1 + 64*far + 32 - bits.OnesCount32(set)
		if (keep|r.union()&region)&^others == 0 {
			sc += 1 << 16
		}
		if sc > score {
			victim, score = i, sc
		}
	}
	if victim < 0 {
		return false
	}
	c.drop(r.row[victim])
	r.remove(victim)
	return true
}

// top is the largest value of a set that is not empty.
func top(set uint32) int { return 31 - bits.LeadingZeros32(set) }
