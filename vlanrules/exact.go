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

// keyList is the keys of one signal's entries, in the order of their S: those
// of S=v are keys[first[v]:first[v+1]].
type keyList struct {
	keys  []uint16
	first [quantize.NumBuckets + 1]int
}

// keysOf is the keys of the entries that a signal needs when its local bucket
// is s.
func (c *Compiler) keysOf(form Form, sig quantize.Signal, s uint8) []uint16 {
	kind := 0
	if classForm(form) {
		kind = 1
	}
	list := c.exact[sig][kind]
	if list == nil {
		list = c.listKeys(form, sig)
		c.exact[sig][kind] = list
	}
	if sig.Max() {
		return list.keys[:list.first[s]]
	}
	return list.keys[list.first[s+1]:]
}

// listKeys lists the keys of all S that tags of the domain can carry.
func (c *Compiler) listKeys(form Form, sig quantize.Signal) *keyList {
	list := new(keyList)
	for v := range uint8(quantize.NumBuckets) {
		switch {
		case !c.inUse(sig, v):
		case classForm(form):
			list.keys = append(list.keys, uint16(v)+1)
		default:
			for lm := range c.layout.LMAllOnes() + 1 {
				if vid := c.layout.VID(v, lm); c.carried(sig, lm) && c.caps.matchable(vid) {
					list.keys = append(list.keys, vid)
				}
			}
		}
		list.first[v+1] = len(list.keys)
	}
	return list
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
	for _, key := range c.keysOf(form, in.Signal, in.S) {
		c.want = append(c.want, c.keyEntry(form, in, key, 0))
	}
}

// exactSignal changes one signal's exact entries. Those that the new bucket
// leaves alone go first; then the others, or the value they share, change;
// then those come that the old bucket left alone. No two take the same tag,
// so each tag sees its own change alone. Entries that are not of this kind go
// last, when what they took is taken care of, and then the values that nothing
// uses any more.
func (c *Compiler) exactSignal(form Form, in *Intent, rows []int) {
	value := -1
	for _, i := range slices.Backward(rows) {
		if c.cur[i].Type == Value && sharedForm(form) {
			value = i
		}
	}
	keys := c.keysOf(form, in.Signal, in.S)
	c.dropKeys(form, keys, rows)
	ref := c.setValue(form, in, value)
	c.changeKeys(form, in, rows, ref)
	e := c.keyEntry(form, in, 0, ref)
	for _, key := range keys {
		if c.keys[key] {
			e.Match = c.keyMatch(form, in.Signal, key)
			c.add(e)
		}
	}
	for _, i := range slices.Backward(c.odd) {
		c.drop(i)
	}
	for _, i := range rows {
		if c.cur[i].Type == Value && i != value {
			c.drop(i)
		}
	}
}

// dropKeys deletes the exact entries among rows whose keys are not wanted, or
// are there twice. It leaves in c.keys the wanted keys that are missing, and in
// c.odd the rows that are no exact entries.
func (c *Compiler) dropKeys(form Form, wanted []uint16, rows []int) {
	n := 4096
	if classForm(form) {
		n = quantize.NumBuckets + 1
	}
	if len(c.keys) < n {
		c.keys = make([]bool, n)
	}
	clear(c.keys[:n])
	for _, key := range wanted {
		c.keys[key] = true
	}
	c.odd = c.odd[:0]
	for _, i := range slices.Backward(rows) {
		e := &c.cur[i]
		if e.Type == Value {
			continue
		}
		key, ok := keyOf(form, &e.Match)
		switch {
		case !ok: // it may take tags that the new table rewrites
			c.odd = append(c.odd, i)
		case c.keys[key] && e.Type != SetClass:
			c.keys[key] = false
		default:
			c.drop(i)
		}
	}
}

// setValue makes the shared value, in row value or missing, what in writes,
// and returns its ID. While nothing uses the value it is left alone: what it
// would be need not be a VID that the device can write.
func (c *Compiler) setValue(form Form, in *Intent, value int) (ref uint32) {
	want := c.valueRow(in)
	if value >= 0 {
		ref = c.cur[value].ID
	}
	switch {
	case !sharedForm(form), in.S == in.Signal.InitialBucket():
	case value < 0:
		ref = c.cur[c.add(want)].ID
	case c.cur[value].VID != want.VID:
		c.modify(value, want)
	}
	return ref
}

// changeKeys makes the exact entries that dropKeys has left do what in says.
func (c *Compiler) changeKeys(form Form, in *Intent, rows []int, ref uint32) {
	want := c.keyEntry(form, in, 0, ref)
	for _, i := range rows {
		e := &c.cur[i]
		if c.gone[i] || e.Type == Value || e.Type == want.Type && e.VID == want.VID && e.Ref == want.Ref {
			continue
		}
		if _, ok := keyOf(form, &e.Match); !ok {
			continue
		}
		want.Match = e.Match
		switch {
		case c.caps.Modify:
			c.modify(i, want)
		case c.caps.Txn != TxnEntry:
			c.drop(i)
			c.add(want)
		default:
			c.stuck = true
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
