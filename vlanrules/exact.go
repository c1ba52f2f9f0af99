package vlanrules

import (
	"slices"

	"github.com/csig-agent/csig/quantize"
)

func sharedForm(form Form) bool { return form == FormSharedExact || form == FormSharedPrefix }

// keyList is the keys of one signal's exact entries, which are VIDs, in the
// order of their S: those of S=v are keys[first[v]:first[v+1]].
type keyList struct {
	keys  []uint16
	first [quantize.NumBuckets + 1]int
}

// keysOf is the keys of the entries that a signal needs when its local bucket
// is s.
func (c *Compiler) keysOf(sig quantize.Signal, s uint8) []uint16 {
	list := c.exact[sig]
	if list == nil {
		list = c.listKeys(sig)
		c.exact[sig] = list
	}
	if sig.Max() {
		return list.keys[:list.first[s]]
	}
	return list.keys[list.first[s+1]:]
}

// listKeys lists the keys of all S that tags of the domain can carry.
func (c *Compiler) listKeys(sig quantize.Signal) *keyList {
	list := new(keyList)
	for v := range uint8(quantize.NumBuckets) {
		if c.inUse(sig, v) {
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

// bucketsAbove is how many S that tags of the domain can carry are replaced
// when the local bucket is the worst.
func (c *Compiler) bucketsAbove(sig quantize.Signal) (n int) {
	for v := range uint8(quantize.NumBuckets) {
		if v != sig.WorstBucket() && c.inUse(sig, v) {
			n++
		}
	}
	return n
}

// keyMatch is the match of an entry with this key, keyOf its inverse.
func (c *Compiler) keyMatch(sig quantize.Signal, key uint16) Match {
	return Match{PCP: c.pcp(sig), VID: Field{Kind: Ternary, Value: key, Mask: 0xfff}}
}

func keyOf(m *Match) (uint16, bool) {
	return m.VID.Value, m.DEI.Kind == Any && m.VID.Kind == Ternary && m.VID.Mask == 0xfff
}

// keyEntry is the entry of one key, which uses the shared value ref or writes
// the VID itself.
func (c *Compiler) keyEntry(form Form, in *Intent, key uint16, ref uint32) Entry {
	e := Entry{Match: c.keyMatch(in.Signal, key), Type: RewriteVID, VID: c.layout.VID(in.S, in.LM)}
	if sharedForm(form) {
		e.Type, e.VID, e.Ref = UseValue, 0, ref
	}
	return e
}

func (c *Compiler) appendExact(form Form, in *Intent) {
	if sharedForm(form) && in.S != in.Signal.InitialBucket() {
		c.want = append(c.want, c.valueRow(in))
	}
	for _, key := range c.keysOf(in.Signal, in.S) {
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
	keys := c.keysOf(in.Signal, in.S)
	c.dropKeys(keys, rows)
	ref := c.setValue(form, in, value)
	c.changeKeys(form, in, rows, ref)
	e := c.keyEntry(form, in, 0, ref)
	for _, key := range keys {
		if c.keys[key] {
			e.Match = c.keyMatch(in.Signal, key)
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
func (c *Compiler) dropKeys(wanted []uint16, rows []int) {
	if c.keys == nil {
		c.keys = make([]bool, 4096)
	}
	clear(c.keys)
	for _, key := range wanted {
		c.keys[key] = true
	}
	c.odd = c.odd[:0]
	for _, i := range slices.Backward(rows) {
		e := &c.cur[i]
		if e.Type == Value {
			continue
		}
		key, ok := keyOf(&e.Match)
		switch {
		case !ok: // it may take tags that the new table rewrites
			c.odd = append(c.odd, i)
		case c.keys[key]:
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

// changeKeys makes the exact entries that dropKeys has left do what in wants.
func (c *Compiler) changeKeys(form Form, in *Intent, rows []int, ref uint32) {
	want := c.keyEntry(form, in, 0, ref)
	for _, i := range rows {
		e := &c.cur[i]
		if c.gone[i] || e.Type == Value || e.Type == want.Type && e.VID == want.VID && e.Ref == want.Ref {
			continue
		}
		if _, ok := keyOf(&e.Match); !ok {
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
