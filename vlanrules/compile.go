package vlanrules

import (
	"fmt"

	"github.com/csig-agent/csig/quantize"
)

// Compiler compiles intents for one device. It keeps scratch space and is not
// safe for concurrent use.
type Compiler struct {
	caps   Caps
	layout quantize.Layout
	want   Table
	kept   []bool // have[i] is part of the wanted table
}

// NewCompiler returns a compiler for a device with these capabilities.
func NewCompiler(caps Caps, layout quantize.Layout) *Compiler {
	return &Compiler{caps: caps, layout: layout}
}

// Result is what Compile found: the table wanted, the operations that lead
// there from the observed one in a safe order, and how faithful it is. A
// refused result has no operations, and its Table is the observed one.
type Result struct {
	Table   Table
	Ops     []Op
	Verdict Verdict
}

// Compile finds the table that carries out want, the intents of one egress
// port (at most one for each signal), and the operations that turn have, the
// table observed on that port, into it. Entries of have are recognised by
// content, so one read back without IDs will do; what nobody wants is
// deleted. dst's slices are reused, and have may be dst.Table.
func (c *Compiler) Compile(dst *Result, have Table, want []Intent) {
	dst.Ops = dst.Ops[:0]
	dst.Verdict = c.judge(want)
	if dst.Verdict.Level == Refused {
		dst.Table = append(dst.Table[:0], have...)
		return
	}
	c.want = c.want[:0]
	for i := range want {
		c.rangeEntry(&want[i])
	}
	c.diff(dst, have)
	dst.Table = append(dst.Table[:0], c.want...)
}

// judge decides how well the device can carry out want.
func (c *Compiler) judge(want []Intent) Verdict {
	if c.caps.Match != MatchRange {
		return Verdict{Refused, fmt.Sprintf("match kind %s: not supported yet", c.caps.Match)}
	}
	updates := 0
	for i := range want {
		in := &want[i]
		for j := range want[:i] {
			if want[j].Signal == in.Signal {
				return Verdict{Refused, fmt.Sprintf("%s: two intents for one signal", in.Signal)}
			}
		}
		if in.Action != Update {
			continue
		}
		updates++
		if reason := c.refuseIntent(in); reason != "" {
			return Verdict{Refused, reason}
		}
	}
	switch {
	case updates == 0:
		return Verdict{}
	case !c.caps.MatchPCP && len(want) > 1:
		return Verdict{Refused, "the device cannot match the PCP, where the tag says which signal it asks for: two signals cannot be told apart"}
	case !c.caps.MatchPCP:
		return Verdict{Degraded, fmt.Sprintf("the device cannot match the PCP: every CSIG tag is treated as %s, whatever signal it asks for", want[0].Signal)}
	case c.layout == quantize.UEC && !c.caps.MatchD:
		return Verdict{Degraded, "a VID range cannot test D, the lowest bit of the VID in the uec layout: tags of trimmed packets (D=1) are updated too and lose their D"}
	}
	return Verdict{}
}

// refuseIntent says why in cannot be carried out at all, or "".
func (c *Compiler) refuseIntent(in *Intent) string {
	switch {
	case !in.Signal.Known():
		return fmt.Sprintf("%s: unknown signal types pass through untouched", in.Signal)
	case in.S >= quantize.NumBuckets:
		return fmt.Sprintf("%s: bucket %d does not fit 5 bits", in.Signal, in.S)
	case in.LM > c.layout.LMAllOnes():
		return fmt.Sprintf("%s: locator %d does not fit the %d bits of %s", in.Signal, in.LM, c.layout.LMBits(), c.layout)
	case in.S == in.Signal.InitialBucket():
		return "" // nothing is worse than the start value: nothing is written
	}
	vid, limit := c.layout.VID(in.S, in.LM), c.caps.VIDMax
	if limit == 0 {
		limit = 4095
	}
	switch {
	case vid == 0 || vid == 4095:
		return fmt.Sprintf("%s: bucket %d with locator %d is VID %d, which VLAN hardware refuses: choose another locator", in.Signal, in.S, in.LM, vid)
	case vid < c.caps.VIDMin || vid > limit:
		return fmt.Sprintf("%s: bucket %d with locator %d is VID %d, outside the device's %d-%d", in.Signal, in.S, in.LM, vid, c.caps.VIDMin, limit)
	}
	return ""
}

// rangeEntry appends the one entry of a signal on a device that matches VID
// ranges: every S the local bucket is worse than, whatever its LM.
func (c *Compiler) rangeEntry(in *Intent) {
	if in.Action != Update || in.S == in.Signal.InitialBucket() {
		return
	}
	e := Entry{ID: (uint32(in.Signal) + 1) << 8, Type: RewriteVID, VID: c.layout.VID(in.S, in.LM)}
	e.Match.VID = Field{Kind: Range, First: (uint16(in.S) + 1) << 7, Last: 4095}
	if in.Signal.Max() {
		e.Match.VID = Field{Kind: Range, First: 0, Last: uint16(in.S)<<7 - 1}
	}
	if c.caps.MatchPCP {
		e.Match.PCP = Field{Kind: Ternary, Value: uint16(in.Signal), Mask: 7}
	}
	c.want = append(c.want, e)
}

// diff appends the operations from have to c.want. In a transaction deletes
// come first, so that ranges never overlap; one operation at a time, an added
// entry stands beside the one it replaces and both its results are right, the
// old or the new.
func (c *Compiler) diff(dst *Result, have Table) {
	c.kept = c.kept[:0]
	for range have {
		c.kept = append(c.kept, false)
	}
	adds := 0
	for i := range c.want {
		w, found := &c.want[i], false
		for j := range have {
			h := &have[j]
			if !c.kept[j] && h.Match == w.Match && h.Type == w.Type && h.VID == w.VID {
				c.kept[j], found = true, true
				if h.ID != 0 {
					w.ID = h.ID
				}
				w.Priority = h.Priority
				break
			}
		}
		if !found {
			adds++
			w.Priority = newEntry
		}
	}
	if c.caps.Txn != TxnEntry {
		c.deletes(dst, have)
	}
	for i := range c.want {
		if w := &c.want[i]; adds > 0 && w.Priority == newEntry {
			w.Priority = 0
			for j := range have {
				if have[j].ID == w.ID && c.caps.Txn == TxnEntry {
					w.ID ^= 1
				}
			}
			dst.Ops = append(dst.Ops, Op{Add, *w})
		}
	}
	if c.caps.Txn == TxnEntry {
		c.deletes(dst, have)
	}
}

// newEntry marks, for the length of a diff, an entry that have lacks.
const newEntry = 0xffff

func (c *Compiler) deletes(dst *Result, have Table) {
	for j := range have {
		if !c.kept[j] {
			dst.Ops = append(dst.Ops, Op{Delete, have[j]})
		}
	}
}
