package vlanrules

import (
	"slices"

	"github.com/csig-agent/csig/quantize"
)

// Exact tables have a key for each entry: a VID, or the class of an S where a
// first stage turns VIDs into classes (ClassTable). Class S+1 stands for S.

func classForm(form Form) bool { return form == FormClass || form == FormSharedClass }

func sharedForm(form Form) bool {
	return form == FormSharedExact || form == FormSharedClass || form == FormSharedPrefix
}

// eachKey calls f with the keys of the entries that a signal needs when its
// local bucket is s.
func (c *Compiler) eachKey(form Form, sig quantize.Signal, s uint8, f func(key uint16)) {
	for v := range uint8(quantize.NumBuckets) {
		if !sig.Worse(s, v) || !c.inUse(sig, v) {
			continue
		}
		if classForm(form) {
			f(uint16(v) + 1)
			continue
		}
		for lm := range c.layout.LMAllOnes() + 1 {
			if vid := c.layout.VID(v, lm); c.carried(sig, lm) && c.caps.matchable(vid) {
				f(vid)
			}
		}
	}
}

func (c *Compiler) countKeys(form Form, sig quantize.Signal, s uint8) (n int) {
	c.eachKey(form, sig, s, func(uint16) { n++ })
	return n
}

// keyMatch is the match of an entry with this key, keyOf its inverse.
func (c *Compiler) keyMatch(form Form, sig quantize.Signal, key uint16) Match {
	if classForm(form) {
		return Match{PCP: c.pcp(sig), Class: key}
	}
	return Match{PCP: c.pcp(sig), VID: Field{Kind: Ternary, Value: key, Mask: 0xfff}}
}

func keyOf(form Form, m *Match) (uint16, bool) {
	switch {
	case m.DEI.Kind != Any:
	case classForm(form):
		return m.Class, m.VID.Kind == Any && 0 < m.Class && m.Class <= quantize.NumBuckets
	case m.Class == 0 && m.VID.Kind == Ternary && m.VID.Mask == 0xfff:
		return m.VID.Value, true
	}
	return 0, false
}

// keyEntry is the entry of one key, which uses the shared value ref or writes
// the VID itself.
func (c *Compiler) keyEntry(form Form, in *Intent, key uint16, ref uint32) Entry {
	e := Entry{Match: c.keyMatch(form, in.Signal, key), Type: RewriteVID, VID: c.layout.VID(in.S, in.LM)}
	if sharedForm(form) {
		e.Type, e.VID, e.Ref = UseValue, 0, ref
	}
	return e
}

func (c *Compiler) appendExact(form Form, in *Intent) {
	if sharedForm(form) && in.S != in.Signal.InitialBucket() {
		c.want = append(c.want, c.valueRow(in))
	}
	c.eachKey(form, in.Signal, in.S, func(key uint16) {
		c.want = append(c.want, c.keyEntry(form, in, key, 0))
	})
}

// exactSignal changes one signal's exact entries. Those that the new bucket
// leaves alone go first; then the others, or the value they share, change;
// then those come that the old bucket left alone. No two take the same tag,
// so each tag sees its own change alone. Entries that are not of this kind go
// last, when what they took is taken care of.
func (c *Compiler) exactSignal(form Form, in *Intent, rows []int) {
	if n := 4096; len(c.keys) == 0 {
		if classForm(form) {
			n = quantize.NumBuckets + 1
		}
		c.keys = make([]bool, n)
	}
	clear(c.keys)
	c.eachKey(form, in.Signal, in.S, func(key uint16) { c.keys[key] = true })
	value, ref := -1, uint32(0)
	for _, i := range rows {
		if e := &c.cur[i]; e.Type == Value && value < 0 && sharedForm(form) {
			value, ref = i, e.ID
		}
	}
	c.odd = c.odd[:0]
	// Rows of wanted keys stay; keys is left with those that are missing.
	for n := len(rows) - 1; n >= 0; n-- {
		i := rows[n]
		e := &c.cur[i]
		key, ok := keyOf(form, &e.Match)
		switch {
		case e.Type == Value:
		case !ok: // not one of ours: goes last, as it may take tags that the new table rewrites
			c.odd = append(c.odd, i)
		case c.keys[key] && (e.Type == RewriteVID || e.Type == UseValue || e.Type == NoOp):
			c.keys[key] = false
		default:
			c.drop(i)
		}
	}
	if want := c.valueRow(in); in.S == in.Signal.InitialBucket() {
		// Nothing uses the value, and what it would be need not be a VID that
		// the device can write.
	} else if value >= 0 && c.cur[value].VID != want.VID {
		c.modify(value, want)
	} else if value < 0 && sharedForm(form) {
		ref = c.cur[c.add(want)].ID
	}
	for _, i := range rows {
		e := &c.cur[i]
		key, ok := keyOf(form, &e.Match)
		if c.gone[i] || e.Type == Value || !ok {
			continue
		}
		want := c.keyEntry(form, in, key, ref)
		switch {
		case e.Type == want.Type && e.VID == want.VID && e.Ref == want.Ref:
		case c.caps.Modify:
			c.modify(i, want)
		case c.caps.Txn != TxnEntry:
			c.drop(i)
			c.add(want)
		default:
			c.stuck = true
		}
	}
	c.eachKey(form, in.Signal, in.S, func(key uint16) {
		if c.keys[key] {
			c.add(c.keyEntry(form, in, key, ref))
		}
	})
	for _, i := range slices.Backward(c.odd) {
		c.drop(i)
	}
	for _, i := range rows {
		if c.cur[i].Type == Value && i != value {
			c.drop(i) // whose entries use another value now
		}
	}
}

// ClassTable is the constant first stage of a device that turns VIDs into
// classes: one table for all ports, written once. It is nil for other devices.
func (c *Compiler) ClassTable() Table {
	if !c.caps.Classes || c.caps.Match != MatchExact {
		return nil
	}
	var t Table
	for vid := range uint16(4096) {
		if c.dMask()&vid == 0 && c.caps.matchable(vid) {
			t = append(t, Entry{
				ID:    uint32(vid) + 1,
				Match: Match{VID: Field{Kind: Ternary, Value: vid, Mask: 0xfff}},
				Type:  SetClass, Ref: uint32(vid>>7) + 1,
			})
		}
	}
	return t
}
