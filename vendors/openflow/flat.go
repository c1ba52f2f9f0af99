package openflow

import (
	"fmt"
	"slices"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// A switch with one table that masks VIDs, or without metadata, has all of csig's
// flows beside the operator's, in that table. A flow there does not see by which
// port a frame leaves: each is written once for each of the forwarding flows that
// the operator declares (Forwarding), which makes flows × entries.
//
// For a port and a signal, of the buckets beside the worst (a tag with that bucket
// leaves as it came, by the operator's own flows):
//
//	band 1   direct values, expire   each bucket in one entry: rewritten to the value, or left as it is
//	band 0   the same
//	stale    direct values, stay     every bucket rewritten to the stale value
//
// Entries of a band are disjoint, and every bucket is in one of them. A tag's result
// is that of band 1's entry where it is there, else of band 0's, else the stale
// value. Between updates one band has entries. An update writes the other:
//
//  1. What is left in the other band is deleted. Where both bands have entries, as
//     after an update that was cut short, band 0's go: those of band 1 hide them.
//  2. The other band's groups get the new value. No flow refers to them.
//  3. Its entries are added, with a new timer. In band 1 each takes its buckets from
//     the old value to the new one; in band 0 they are hidden.
//  4. When they have taken effect, the first band's entries are deleted. Each gives
//     its buckets to band 0's new value, or was hidden.
//
// So each tag has the old value or the new one after any prefix of any of these
// steps in any order. A timer that ends meanwhile takes an entry away, in any
// order: the tag then has what is under it, which is the band below or the stale
// value. What is never there is an entry that leaves tags alone over one that
// rewrites to anything but the stale value, and a live rewrite that takes tags that
// an entry of its own band is to keep from it: an expired no-op cannot overclaim,
// and an expired rewrite is not a passthrough. With on_stale: passthrough there is
// no stale value, and what expires passes.
//
// Nothing is modified and nothing is added over itself: OpenFlow's MODIFY keeps the
// old timer, ADD of what is there may be a deletion first (floodlight/indigo,
// OFStateManager), and OF-DPA's groups are modified by deleting their buckets
// (Broadcom-Switch/of-dpa, ind_ofdpa_groups.c). Groups stay when their flows expire;
// each update writes those that it is going to use, so that a flow never refers to
// a value of before.

// Bands, counted from the priority of flatConfig on.
const (
	rowStale  = 0
	rowBand0  = 1
	rowBand1  = 2
	rowRecord = 3
	flatRows  = 4
)

// flat makes the flows and groups of a setup.
type flat struct {
	table    uint8
	priority uint16 // of rowStale
	ofdpa    bool   // L2 Rewrite groups in place of set_field
	setup    *vendors.Setup
	compiler *vlanrules.Compiler
	forwards []forward
}

func newFlat(table uint8, priority uint16, ofdpa bool, s *vendors.Setup, forwards []forward) *flat {
	return &flat{table, priority, ofdpa, s, vlanrules.NewCompiler(FlatRules(), s.Layout), forwards}
}

// FlatRules is what the table is to the compiler: without priorities, so that it
// makes covers of direct values (vlanrules.FormPrefix), and as if their values changed in
// place, as bands make it look. The table's capacity counts otherwise: see flat.entries.
func FlatRules() vlanrules.Caps {
	return vlanrules.Caps{Match: vlanrules.MatchTernaryUnordered, MatchPCP: true, Txn: vlanrules.TxnEntry, Modify: true}
}

// cover is one entry of a band: buckets of a signal, as VIDs and a mask.
type cover struct {
	signal  quantize.Signal
	match   vlanrules.Field // on the VID
	rewrite bool
	vid     uint16
}

// rewrites are the entries that rewrite to an intent's value.
func (f *flat) rewrites(in vlanrules.Intent) ([]cover, error) {
	var res vlanrules.Result
	f.compiler.Compile(&res, nil, []vlanrules.Intent{in})
	if res.Verdict.Level != vlanrules.Full {
		return nil, fmt.Errorf("%s", res.Verdict.Reason)
	}
	var out []cover
	for i := range res.Table {
		e := &res.Table[i]
		out = append(out, cover{in.Signal, e.Match.VID, true, e.VID})
	}
	return out, nil
}

// keeps are the entries that leave tags as they are: those whose bucket is no
// better than s, but for the worst bucket.
func (f *flat) keeps(sig quantize.Signal, s uint8) (out []cover) {
	low, high := 1, int(s)
	if sig.Max() {
		low, high = int(s), quantize.NumBuckets-2
	}
	for low <= high {
		size := 1 // of the largest block of buckets that begins at low and has one mask
		for low%(2*size) == 0 && low+2*size-1 <= high {
			size *= 2
		}
		m := vlanrules.Field{Kind: vlanrules.Ternary, Value: uint16(low) << 7, Mask: uint16(quantize.NumBuckets-size) << 7}
		if f.setup.Layout == quantize.UEC {
			m.Mask |= 1 // D=0
		}
		out = append(out, cover{signal: sig, match: m})
		low += size
	}
	return out
}

// live are the entries of a band for a port's intents: none where they are the
// fallback, which the table has anyway.
func (f *flat) live(intents []vlanrules.Intent) (out []cover, err error) {
	for _, in := range intents {
		switch {
		case in.Action == vlanrules.Update && f.setup.OnStale == inventory.Conservative && in.S == in.Signal.WorstBucket() && in.LM == f.setup.Layout.LMStale():
		case in.Action == vlanrules.Update:
			r, err := f.rewrites(in)
			if err != nil {
				return nil, err
			}
			out = append(append(out, r...), f.keeps(in.Signal, in.S)...)
		case f.setup.OnStale == inventory.Conservative: // it is not updated, and nothing is stale
			best := uint8(quantize.NumBuckets - 1)
			if in.Signal.Max() {
				best = 0
			}
			out = append(out, f.keeps(in.Signal, best)...)
		}
	}
	return out, nil
}

// stale are the entries that stay.
func (f *flat) stale() (out []cover, err error) {
	for _, in := range f.setup.Fallback() {
		if in.Action == vlanrules.Update {
			r, err := f.rewrites(in)
			if err != nil {
				return nil, fmt.Errorf("the stale fallback: %w", err)
			}
			out = append(out, r...)
		}
	}
	return out, nil
}

// flows are the flows of a row of entries for a port: one for each of its
// forwarding flows and each entry.
func (f *flat) flows(row int, number uint32, entries []cover, seconds uint16) (out []ofp.Flow) {
	for i := range f.forwards {
		if f.forwards[i].number != number {
			continue
		}
		for _, c := range entries {
			m := f.forwards[i].match
			m.PCP, m.MatchPCP = uint8(c.signal), true
			m.VID, m.VIDMask = ofp.VLANPresent|c.match.Value, ofp.VLANPresent|c.match.Mask
			fl := ofp.Flow{Table: f.table, Priority: f.priority + uint16(row), Cookie: cookie, HardTimeout: seconds, Match: m}
			f.act(&fl, row, number, c)
			out = append(out, fl)
		}
	}
	return out
}

// act gives a flow its instructions.
func (f *flat) act(fl *ofp.Flow, row int, number uint32, c cover) {
	switch {
	case !f.ofdpa && c.rewrite:
		fl.Actions = ofp.Actions(nil).SetVID(c.vid).Output(number)
	case !f.ofdpa:
		fl.Actions = output(number)
	case c.rewrite: // what Bridging wrote goes
		fl.Clear, fl.Write = true, ofp.Actions(nil).Group(rewriteGroup(number, c.signal, row))
	default:
		fl.Clear, fl.Write = true, ofp.Actions(nil).Group(unfiltered(number))
	}
}

// Groups of OF-DPA: the type is in the four highest bits (ofdpa-2.02 TTP,
// group_entry_types). Those of csig are L2 Rewrite groups of their own part of the
// IDs: "c", the port, the signal and the row.
const (
	l2Rewrite    = 1 << 28
	l2Unfiltered = 11 << 28

	ownGroup, ownGroupMask = l2Rewrite | 'c'<<21, 0xf<<28 | 0x7f<<21
	rowMask                = 3

	maxOFDPAPort = 0xffff
)

func rewriteGroup(number uint32, sig quantize.Signal, row int) uint32 {
	return ownGroup | number<<5 | uint32(sig)<<2 | uint32(row)
}

// unfiltered is the L2 Unfiltered Interface of a port, which the operator makes: a
// port has one, for every application.
func unfiltered(number uint32) uint32 { return l2Unfiltered | number }

// groups are the groups that entries of a row refer to.
func (f *flat) groups(row int, number uint32, entries []cover) (out []ofp.Group) {
	seen := map[quantize.Signal]bool{}
	for _, c := range entries {
		if f.ofdpa && c.rewrite && !seen[c.signal] {
			seen[c.signal] = true
			out = append(out, ofp.Group{ID: rewriteGroup(number, c.signal, row), Type: ofp.GroupIndirect, Buckets: []ofp.Actions{ofp.Actions(nil).SetVID(c.vid).Group(unfiltered(number))}})
		}
	}
	return out
}

// size is what csig needs of the table at most: with both bands of every port that
// updates full, which is how it is during an update.
type size struct {
	need  int // entries
	flows int // forwarding flows to ports that update
	per   int // entries that each needs
}

// String is the count as messages have it.
func (n size) String() string {
	return fmt.Sprintf("%d entries (%d for each of %s, and %d)", n.need, n.per, count(n.flows, "forwarding flow", "forwarding flows"), n.need-n.flows*n.per)
}

// bandSizes are the entries of a band for a signal, by bucket.
func (f *flat) bandSizes(sig quantize.Signal) (out []int) {
	for s := range uint8(quantize.NumBuckets) {
		n := 0
		if r, err := f.rewrites(vlanrules.Intent{Signal: sig, Action: vlanrules.Update, S: s, LM: 1}); err == nil {
			n = len(r) + len(f.keeps(sig, s))
		}
		out = append(out, n)
	}
	return out
}

// flatLayout is what a signal takes of the table for each forwarding flow.
func flatLayout() *vendors.Layout {
	f := newFlat(0, 0, false, &vendors.Setup{Signals: []quantize.Signal{quantize.MinABW}, OnStale: inventory.Conservative}, nil)
	sizes := f.bandSizes(quantize.MinABW)
	most := slices.Max(sizes)
	l := &vendors.Layout{Entries: f.entries().per - most, Headroom: most}
	for i := range len(sizes) - 1 { // a band is added, and the other one deleted
		ops := sizes[i] + sizes[i+1]
		l.OpsMean += float64(ops) / float64(len(sizes)-1)
		l.OpsMax = max(l.OpsMax, ops)
	}
	return l
}

func (f *flat) entries() (n size) {
	for _, sig := range f.setup.Signals {
		n.per += 2 * slices.Max(f.bandSizes(sig))
	}
	if fallback, err := f.stale(); err == nil { // Apply returns it
		n.per += len(fallback)
	}
	for i := range f.forwards {
		if f.setup.ActionOf(f.forwards[i].Port) == vlanrules.Update {
			n.flows++
		}
	}
	n.need = n.flows*n.per + len(words(f.setup)) + len(f.setup.Ports)
	return n
}

// record are the flows that record the setup: no frame meets them.
func (f *flat) record(number map[string]uint32) (out []ofp.Flow) {
	for i, w := range words(f.setup) {
		out = append(out, ofp.Flow{Table: f.table, Priority: f.priority + rowRecord, Cookie: cookie | uint64(w), Match: nowhereFlat(byte(i))})
	}
	for i := range f.setup.Ports {
		p := &f.setup.Ports[i]
		m := nowhereFlat(portRecord)
		m.InPort = number[p.Port]
		out = append(out, ofp.Flow{Table: f.table, Priority: f.priority + rowRecord, Cookie: cookie | uint64(p.Action), Match: m})
	}
	return out
}

// portRecord tells the flows that record ports from those with words.
const portRecord = 0xff
