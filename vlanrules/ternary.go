package vlanrules

import (
	"slices"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules/internal/cover"
)

// The priority of a ternary entry is ten times one plus the number of bits of
// S that it tests: the more it tests, the higher. The units are free for an
// entry that has to stand beside one with the same match.
const priorityBand = 10

func priority(q cover.Cube) uint16 { return uint16(q.Len()+1) * priorityBand }

// Patterns over S are kept as for a min signal, where a worse bucket is a
// smaller one; for a max signal S is mirrored on its way to and from an entry.
func orient(sig quantize.Signal, q cover.Cube) cover.Cube {
	if sig.Max() {
		return q.Mirror()
	}
	return q
}

// level is the bucket of an intent on the scale of a min signal.
func level(in *Intent) int {
	if in.Signal.Max() {
		return quantize.NumBuckets - 1 - int(in.S)
	}
	return int(in.S)
}

// pcp is the condition that a tag asks for sig.
func (c *Compiler) pcp(sig quantize.Signal) Field {
	if !c.caps.MatchPCP {
		return Field{}
	}
	return Field{Kind: Ternary, Value: uint16(sig), Mask: 7}
}

// dMask is the VID bit that an entry which rewrites has to test: D, where the
// device does not see to it.
func (c *Compiler) dMask() uint16 {
	if c.layout == quantize.UEC && !c.caps.MatchD {
		return 1
	}
	return 0
}

// pattern is the match of an entry that takes the tags of sig whose S is in q
// and whose low VID bits in low are zero.
func (c *Compiler) pattern(sig quantize.Signal, q cover.Cube, low uint16) Match {
	q = orient(sig, q)
	f := Field{Kind: Ternary, Value: uint16(q.Value) << 7, Mask: uint16(q.Mask)<<7 | low}
	if f.Mask == 0 {
		f = Field{}
	}
	return Match{PCP: c.pcp(sig), VID: f}
}

// cubeOf is the inverse of pattern; it reports false for any other match.
func cubeOf(sig quantize.Signal, m *Match, low uint16) (cover.Cube, bool) {
	f := &m.VID
	if m.DEI.Kind != Any || f.Kind == Range || f.Mask&0x7f != low || f.Value&0x7f != 0 || f.Value&^f.Mask != 0 {
		return cover.Cube{}, false
	}
	return orient(sig, cover.Cube{Value: uint8(f.Value >> 7 & 31), Mask: uint8(f.Mask >> 7 & 31)}), true
}

// noop is an entry that leaves the tags of q as they are.
func (c *Compiler) noop(sig quantize.Signal, q cover.Cube) Entry {
	return Entry{Priority: priority(q), Match: c.pattern(sig, q, 0), Type: NoOp}
}

// rewrite is an entry that updates the tags of q as in asks for.
func (c *Compiler) rewrite(in *Intent, q cover.Cube) Entry {
	return Entry{Priority: priority(q), Match: c.pattern(in.Signal, q, c.dMask()), Type: RewriteVID, VID: c.layout.VID(in.S, in.LM)}
}

// appendOrdered appends the smallest table of one signal.
func (c *Compiler) appendOrdered(in *Intent) {
	for _, r := range cover.Ordered[level(in)] {
		c.want = append(c.want, c.rule(in, r))
	}
}

func (c *Compiler) rule(in *Intent, r cover.Rule) Entry {
	if r.Rewrite {
		return c.rewrite(in, r.Cube)
	}
	return c.noop(in.Signal, r.Cube)
}

// orderedSignal changes one signal's smallest table. Between two tables of
// its own it takes the shortest safe sequence, found by search; anything else
// it replaces.
func (c *Compiler) orderedSignal(in *Intent, rows []int) {
	to := level(in)
	from, vid, ok := c.readOrdered(in.Signal, rows)
	if ok && from == to && (vid == c.layout.VID(in.S, in.LM) || len(rows) == 0) {
		return
	}
	if !ok || !c.caps.Modify {
		c.wantSignal(FormOrdered, in)
		c.replace(rows)
		return
	}
	steps := c.steps[from][to]
	if steps == nil {
		if steps, ok = cover.Sequence(cover.Ordered[from], cover.Ordered[to], from, to); !ok {
			c.wantSignal(FormOrdered, in)
			c.replace(rows)
			return
		}
		c.steps[from][to] = steps
	}
	for _, st := range steps {
		e := c.rule(in, st.Rule)
		at := -1
		for _, i := range rows {
			if q, _ := c.readRule(in.Signal, &c.cur[i]); !c.gone[i] && q.Cube == st.Rule.Cube {
				at = i
			}
		}
		switch st.Kind {
		case cover.Insert:
			c.add(e)
		case cover.Change:
			if e.Type != c.cur[at].Type || e.VID != c.cur[at].VID { // a change that was cut short got here
				c.modify(at, e)
			}
		case cover.Drop:
			c.drop(at)
		}
	}
}

// readRule reads an entry as appendOrdered writes it.
func (c *Compiler) readRule(sig quantize.Signal, e *Entry) (cover.Rule, bool) {
	low := uint16(0)
	if e.Type == RewriteVID {
		low = c.dMask()
	}
	q, ok := cubeOf(sig, &e.Match, low)
	return cover.Rule{Cube: q, Rewrite: e.Type == RewriteVID},
		ok && (e.Type == RewriteVID || e.Type == NoOp) && e.Priority/priorityBand == priority(q)/priorityBand
}

// readOrdered recognises a table of appendOrdered: its bucket on the scale of
// a min signal, and the VID that it writes.
func (c *Compiler) readOrdered(sig quantize.Signal, rows []int) (from int, vid uint16, ok bool) {
	var rules [3]cover.Rule
	if len(rows) > len(rules) {
		return 0, 0, false
	}
	seen := false
	for n, i := range rows {
		e := &c.cur[i]
		r, ok := c.readRule(sig, e)
		if !ok || r.Rewrite && seen && e.VID != vid {
			return 0, 0, false
		}
		if rules[n] = r; r.Rewrite {
			vid, seen = e.VID, true
		}
	}
	list := rules[:len(rows)]
	rewritten := cover.Rewritten(list)
	from = quantize.NumBuckets - 1
	for from >= 0 && cover.All&^cover.UpTo(from) != rewritten {
		from--
	}
	if from < 0 || len(cover.Ordered[from]) != len(list) {
		return 0, 0, false
	}
	for _, r := range cover.Ordered[from] {
		if !slices.Contains(list, r) {
			return 0, 0, false
		}
	}
	return from, vid, true
}
