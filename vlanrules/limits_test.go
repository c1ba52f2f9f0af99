package vlanrules_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// TestVIDLimits goes between pairs of buckets on devices that keep some
// VIDs for themselves, at either end or in the middle, and holds every state
// against the whole tag space. What such a device cannot match is what no tag
// of the domain has, and no operation names a VID that the device refuses.
func TestVIDLimits(t *testing.T) {
	kinds := []vlanrules.Caps{
		{Match: vlanrules.MatchRange, Txn: vlanrules.TxnEntry},
		{Match: vlanrules.MatchRange, Txn: vlanrules.TxnEntry, Modify: true, ModifyMatch: true},
		{Match: vlanrules.MatchRange, Txn: vlanrules.TxnEntry, Ranges: 10},
		{Match: vlanrules.MatchRange, Txn: vlanrules.TxnEntry, Ranges: 10, Values: true},
		{Match: vlanrules.MatchRange, Txn: vlanrules.TxnEntry, Ranges: 2, Values: true, ModifyMatch: true, Prefixes: true},
		{Match: vlanrules.MatchTernary, Txn: vlanrules.TxnEntry, Modify: true},
		{Match: vlanrules.MatchTernaryUnordered, Txn: vlanrules.TxnEntry, Values: true},
		{Match: vlanrules.MatchExact, Txn: vlanrules.TxnEntry, Modify: true},
		{Match: vlanrules.MatchExact, Txn: vlanrules.TxnEntry, Values: true},
	}
	for _, tc := range []struct {
		name     string
		min, max uint16
		reserved vlanrules.VIDRange
		inUse    uint32 // buckets
	}{
		{"1-4094", 1, 4094, vlanrules.VIDRange{}, 0xffffffff},
		{"up to 3967", 0, 3967, vlanrules.VIDRange{}, 0x7fffffff},
		{"from 128", 128, 0, vlanrules.VIDRange{}, 0xfffffffe},
		{"without 1002-1005", 1, 4094, vlanrules.VIDRange{First: 1002, Last: 1005}, 0xffffff7f},
		{"without 3968-4095", 0, 0, vlanrules.VIDRange{First: 3968, Last: 4095}, 0x7fffffff},
	} {
		for i, caps := range kinds {
			layout, sig := layouts[i%2], quantize.Signals[(i+i/2)%4]
			t.Run(fmt.Sprintf("%s, %s %d, %s, %s", tc.name, caps.Match, i, layout, sig), func(t *testing.T) {
				t.Parallel()
				caps.MatchPCP, caps.VIDMin, caps.VIDMax = true, tc.min, tc.max
				if tc.reserved.Last > 0 {
					caps.Reserved = []vlanrules.VIDRange{tc.reserved}
				}
				opts := []vlanrules.Option{vlanrules.WithBuckets(sig, tc.inUse)}
				exact := caps.Match == vlanrules.MatchExact
				if exact {
					opts = append(opts, vlanrules.WithLocators(sig, []uint16{5, 6}))
				}
				c := vlanrules.NewCompiler(caps, layout, opts...)
				m := &matcher{absent: notInUse(tc.inUse, layout, exact)}
				var from, res vlanrules.Result
				done, pairs := 0, 0
				for pair := i; pair < 1024; pair += 7 * min(thinned, 12) {
					pairs++
					s, to := uint8(pair/32), uint8(pair%32)
					was, will := []vlanrules.Intent{update(sig, s, 5)}, []vlanrules.Intent{update(sig, to, 6)}
					c.Compile(&from, nil, was)
					c.Compile(&res, from.Table, will)
					check(t, m, caps, layout, from.Table, will, &res)
					if res.Verdict.Level != vlanrules.Refused {
						done++
					}
				}
				if done*3 < pairs*2 {
					t.Errorf("%d of %d changes, the others are refused: %s", done, pairs, res.Verdict.Reason)
				}
			})
		}
	}
}

// notInUse is the tags with other buckets than those in use, or reserved locators, or, on exact devices, others than 5 and 6.
//
//go:norace
func notInUse(buckets uint32, layout quantize.Layout, exact bool) *tags {
	absent := new(tags)
	for tci := range 1 << 16 {
		lm, ones := tci&127, 127
		if layout == quantize.UEC {
			lm, ones = tci&127>>1, 63
		}
		if buckets>>(tci>>7&31)&1 == 0 || lm == 0 || lm == ones || exact && lm != 5 && lm != 6 && lm != ones-1 && lm != ones-2 {
			absent.bits[tci>>6] |= 1 << (tci & 63)
		}
	}
	absent.reach(0, len(absent.bits))
	return absent
}

// TestBestBucketWritesNothing compiles buckets that nothing is better than,
// with locators whose VIDs no hardware writes, from nothing and from another
// bucket.
func TestBestBucketWritesNothing(t *testing.T) {
	for _, tc := range append(slices.Clone(tablesUnderTest), shortExactTables...) {
		t.Run(tc.name, func(t *testing.T) {
			for _, best := range []vlanrules.Intent{update(quantize.MinABW, 31, 127), update(quantize.MaxPD, 0, 0)} {
				c := vlanrules.NewCompiler(tc.caps, quantize.Draft00, tc.opts...)
				m := &matcher{absent: absentFrom(tc.caps.Match == vlanrules.MatchExact && tc.opts != nil, quantize.Draft00)}
				want, other := []vlanrules.Intent{best}, []vlanrules.Intent{update(best.Signal, 9, 5)}
				var res vlanrules.Result
				for i, intents := range [][]vlanrules.Intent{want, other, want, other} {
					have := slices.Clone(res.Table)
					c.Compile(&res, have, intents)
					check(t, m, tc.caps, quantize.Draft00, have, intents, &res)
					if i == 0 && len(res.Ops) > 0 {
						t.Errorf("%d operations from an empty table", len(res.Ops))
					}
				}
			}
		})
	}
}

// TestFullTable observes tables in which nothing is free: what was found there
// has to free entries. Where that needs a gap the verdict reports it, and the table
// holds no more entries at any time.
func TestFullTable(t *testing.T) {
	foreign := func(caps vlanrules.Caps, n int) (t vlanrules.Table) {
		for i := range n {
			e := vlanrules.Entry{ID: uint32(i) + 1, Priority: uint16(200 - i), VID: 700}
			e.Match.PCP = vlanrules.Field{Kind: vlanrules.Ternary, Value: 0, Mask: 7}
			e.Match.VID = vlanrules.Field{Kind: vlanrules.Ternary, Value: uint16(i) << 7, Mask: 0xfff}
			if caps.Match == vlanrules.MatchRange {
				e.Match.VID = vlanrules.Field{Kind: vlanrules.Range, First: uint16(i), Last: uint16(i)}
			}
			t = append(t, e)
		}
		return t
	}
	for _, tc := range []struct {
		name    string
		caps    vlanrules.Caps
		found   int
		entries int
		gap     bool
	}{
		{"ternary, full", vlanrules.Caps{Match: vlanrules.MatchTernary, Txn: vlanrules.TxnEntry, Modify: true}, 7, 7, true},
		{"ternary, capacity for the change", vlanrules.Caps{Match: vlanrules.MatchTernary, Txn: vlanrules.TxnEntry, Modify: true}, 7, 13, false},
		{"ternary, in one transaction", vlanrules.Caps{Match: vlanrules.MatchTernary, Modify: true}, 7, 7, false},
		{"unordered, full", vlanrules.Caps{Match: vlanrules.MatchTernaryUnordered, Txn: vlanrules.TxnEntry, Modify: true}, 10, 10, true},
		{"range, full", vlanrules.Caps{Match: vlanrules.MatchRange, Txn: vlanrules.TxnEntry}, 2, 2, true},
		{"range, capacity for the change", vlanrules.Caps{Match: vlanrules.MatchRange, Txn: vlanrules.TxnEntry}, 7, 9, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.caps.MatchPCP, tc.caps.Entries = true, tc.entries
			have := foreign(tc.caps, tc.found)
			want := []vlanrules.Intent{update(quantize.MinABW, 14, 5)}
			var res vlanrules.Result
			vlanrules.NewCompiler(tc.caps, quantize.Draft00).Compile(&res, have, want)
			check(t, new(matcher), tc.caps, quantize.Draft00, have, want, &res)
			if res.Gap != tc.gap || tc.gap != (res.Verdict.Level == vlanrules.Degraded) {
				t.Errorf("gap %t, %s: %s", res.Gap, res.Verdict.Level, res.Verdict.Reason)
			}
		})
	}
}

// TestExactFindings observes exact tables with foreign entries: on keys that are
// wanted, on all T at once, for one R only, or so many that the table is full.
func TestExactFindings(t *testing.T) {
	none, t0 := vlanrules.Field{}, vlanrules.Field{Kind: vlanrules.Ternary, Value: 0, Mask: 7}
	vid := func(v uint16) vlanrules.Field {
		return vlanrules.Field{Kind: vlanrules.Ternary, Value: v, Mask: 0xfff}
	}
	row := func(id uint32, pcp, dei vlanrules.Field, v uint16, a vlanrules.ActionType, to uint16) vlanrules.Entry {
		return vlanrules.Entry{ID: id, Match: vlanrules.Match{PCP: pcp, DEI: dei, VID: vid(v)}, Type: a, VID: to}
	}
	var full vlanrules.Table
	for i := range uint16(96) {
		full = append(full, row(uint32(i)+1, t0, none, i, vlanrules.NoOp, 0))
	}
	const wantedKey = 20<<7 | 5
	for _, tc := range []struct {
		name                    string
		modify, values, limited bool
		have                    vlanrules.Table
		gap                     bool
	}{
		{"a wanted key, changed in place", true, false, false, vlanrules.Table{row(7, t0, none, wantedKey, vlanrules.NoOp, 0)}, false},
		{"a wanted key that cannot change in place", false, true, false, vlanrules.Table{row(7, t0, none, wantedKey, vlanrules.NoOp, 0)}, true},
		{"a wanted key with another value", false, true, false, vlanrules.Table{row(7, t0, none, wantedKey, vlanrules.RewriteVID, 700)}, true},
		{"a key that no intent wants", false, true, false, vlanrules.Table{row(7, t0, none, 2<<7|5, vlanrules.RewriteVID, 700)}, false},
		{"for every T", true, false, false, vlanrules.Table{row(7, none, none, wantedKey, vlanrules.RewriteVID, 700)}, false},
		{"for every T, with shared values", false, true, false, vlanrules.Table{row(7, none, none, 2<<7|5, vlanrules.NoOp, 0), row(8, t0, none, 3<<7|5, vlanrules.RewriteVID, 9)}, false},
		{"for R=1 only", true, false, false, vlanrules.Table{row(7, t0, vlanrules.Field{Kind: vlanrules.Ternary, Value: 1, Mask: 1}, wantedKey, vlanrules.RewriteVID, 700)}, false},
		{"without an ID", true, false, false, vlanrules.Table{row(0, t0, none, wantedKey, vlanrules.RewriteVID, 700), row(0, t0, none, 77, vlanrules.NoOp, 0)}, false},
		{"a full table", true, false, true, full, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			caps := vlanrules.Caps{Match: vlanrules.MatchExact, MatchPCP: true, Txn: vlanrules.TxnEntry, Modify: tc.modify, Values: tc.values}
			if tc.limited {
				caps.Entries = len(tc.have)
			}
			c := vlanrules.NewCompiler(caps, quantize.Draft00, fewLocators...)
			m := &matcher{absent: absentFrom(true, quantize.Draft00)}
			want := []vlanrules.Intent{update(quantize.MinABW, 9, 5)}
			var res, again vlanrules.Result
			c.Compile(&res, tc.have, want)
			check(t, m, caps, quantize.Draft00, tc.have, want, &res)
			if res.Gap != tc.gap || res.Verdict.Level == vlanrules.Refused {
				t.Errorf("gap %t, %s: %s", res.Gap, res.Verdict.Level, res.Verdict.Reason)
			}
			if c.Compile(&again, res.Table, want); len(again.Ops) > 0 || again.Gap {
				t.Errorf("nothing changed, but %d operations", len(again.Ops))
			}
		})
	}
}
