package vlanrules_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// TestRandom compiles random intents for random devices from random observed
// tables: our own, our own after a change that was cut short, with rows lost
// or strange, and foreign ones. rapid shrinks what fails.
func TestRandom(t *testing.T) {
	for range max(1, 10/thinned) { // a hundred cases each
		rapid.Check(t, randomCase)
	}
}

func randomCase(t *rapid.T) {
	caps := drawCaps(t)
	layout := rapid.SampledFrom(layouts).Draw(t, "layout")
	var opts []vlanrules.Option
	if budget := rapid.SampledFrom([]int{0, 1, 3, 5, 6, 7, 8, 12, 40}).Draw(t, "budget"); budget > 0 {
		opts = append(opts, vlanrules.WithBudget(budget))
	}
	excluded, absent := drawExclusions(t, caps, layout)
	c := vlanrules.NewCompiler(caps, layout, append(opts, excluded...)...)
	m := &matcher{absent: absent}
	have := drawObserved(t, caps, layout, c, m)
	var res vlanrules.Result
	for range rapid.IntRange(1, 3).Draw(t, "changes") {
		want := drawIntents(t, caps, layout)
		c.Compile(&res, have, want)
		check(t, m, caps, layout, have, want, &res)
		if res.Verdict.Level == vlanrules.Refused {
			return
		}
		have = slices.Clone(res.Table)
		if rapid.Bool().Draw(t, "read back without IDs") && !usesValues(have) {
			for i := range have {
				have[i].ID = 0
			}
		}
		// A result that knows the table, and one that has to look at it.
		for _, again := range []*vlanrules.Result{&res, {}} {
			c.Compile(again, have, want)
			if len(again.Ops) != 0 || again.Gap {
				t.Fatalf("nothing changed, but %d operations\n%s", len(again.Ops), describe(have, again))
			}
			check(t, m, caps, layout, again.Table, want, again)
		}
		have = slices.Clone(res.Table)
	}
}

// evenly draws 0…7, each as likely: rapid's own ranges favour small numbers.
func evenly(t *rapid.T, label string) (n int) {
	for bit := range 3 {
		if rapid.Bool().Draw(t, label) {
			n |= 1 << bit
		}
	}
	return n
}

// rarely draws true once in four times.
func rarely(t *rapid.T, label string) bool {
	return evenly(t, label) > 5
}

func usesValues(t vlanrules.Table) bool {
	return slices.ContainsFunc(t, func(e vlanrules.Entry) bool { return e.Type == vlanrules.Value })
}

func drawCaps(t *rapid.T) vlanrules.Caps {
	caps := vlanrules.Caps{
		// Exact tables with few locators: the others are thousands of entries (TestExactPairs).
		Match: []vlanrules.MatchKind{vlanrules.MatchTernary, vlanrules.MatchTernaryUnordered, vlanrules.MatchTernary, vlanrules.MatchRange,
			vlanrules.MatchTernary, vlanrules.MatchTernaryUnordered, vlanrules.MatchRange, vlanrules.MatchExact}[evenly(t, "match")],
		MatchPCP:    rapid.SampledFrom([]bool{true, true, true, false}).Draw(t, "matchPCP"),
		MatchD:      rapid.Bool().Draw(t, "matchD"),
		Txn:         rapid.SampledFrom([]vlanrules.Txn{vlanrules.TxnEntry, vlanrules.TxnEntry, vlanrules.TxnBatch, vlanrules.TxnTable}).Draw(t, "txn"),
		Modify:      rapid.Bool().Draw(t, "modify"),
		ModifyMatch: rapid.Bool().Draw(t, "modifyMatch"),
		Values:      rapid.Bool().Draw(t, "values"),
	}
	if caps.Match == vlanrules.MatchRange {
		caps.Ranges, caps.Prefixes = rapid.SampledFrom([]int{0, 0, 2, 10}).Draw(t, "ranges"), rapid.Bool().Draw(t, "prefixes")
	}
	caps.ModifyEntry = caps.Modify && caps.ModifyMatch && rapid.Bool().Draw(t, "modifyEntry")
	if rapid.Bool().Draw(t, "limited") {
		caps.Entries = rapid.IntRange(1, 40).Draw(t, "entries")
		if rarely(t, "shared") {
			caps.Shared, caps.Ports = true, rapid.IntRange(1, 4).Draw(t, "ports")
			caps.Positions = rapid.IntRange(0, 2).Draw(t, "positions")
		}
	}
	if rarely(t, "VIDs") {
		caps.VIDMin = rapid.SampledFrom([]uint16{0, 1, 128}).Draw(t, "VIDMin")
		caps.VIDMax = rapid.SampledFrom([]uint16{0, 4094, 4092, 3967}).Draw(t, "VIDMax")
		caps.MatchReserved = rapid.Bool().Draw(t, "matchReserved")
		if rapid.Bool().Draw(t, "reserved") {
			first := rapid.SampledFrom([]uint16{3968, 1002, 0, 2560}).Draw(t, "first reserved")
			caps.Reserved = []vlanrules.VIDRange{{First: first, Last: first + rapid.SampledFrom([]uint16{0, 3, 127}).Draw(t, "more reserved")}}
		}
	}
	return caps
}

// drawExclusions draws which tags the domain excludes, and returns the
// tags that it thus cannot have: other buckets, other locators, and on devices
// that do not match every VID those with locators that are not allocated.
func drawExclusions(t *rapid.T, caps vlanrules.Caps, layout quantize.Layout) (opts []vlanrules.Option, absent *tags) {
	limits := caps.VIDMin > 0 || caps.VIDMax > 0 || len(caps.Reserved) > 0
	exact := caps.Match == vlanrules.MatchExact
	if !limits && !exact && !rapid.SampledFrom([]bool{false, false, false, true}).Draw(t, "excludes") {
		return nil, nil
	}
	ones := int(layout.LMAllOnes())
	buckets, lms := ^uint32(0), []uint16{}
	switch rapid.SampledFrom([]string{"", "from 30", "eight", "any"}).Draw(t, "buckets") {
	case "from 30":
		buckets = 0x7fffffff
	case "eight":
		buckets = 0x88888888
	case "any":
		buckets = 1 | rapid.Uint32().Draw(t, "buckets in use")
	}
	if exact || rapid.Bool().Draw(t, "locators") {
		lms = []uint16{1, 9, uint16(rapid.IntRange(1, ones-3).Draw(t, "locator in use"))}
	}
	for _, sig := range quantize.Signals {
		opts = append(opts, vlanrules.WithBuckets(sig, buckets))
		if len(lms) > 0 {
			opts = append(opts, vlanrules.WithLocators(sig, lms))
		}
	}
	lms = append(lms, uint16(ones)-1, uint16(ones)-2) // none and stale
	absent = new(tags)
	for tci := range 1 << 16 {
		lm, d := tci&127, false
		if layout == quantize.UEC {
			lm, d = tci&127>>1, tci&1 == 1
		}
		if buckets>>(tci>>7&31)&1 == 0 || len(lms) > 2 && !slices.Contains(lms, uint16(lm)) ||
			exact && d && caps.MatchD || limits && (lm == 0 || lm == ones || d && (caps.MatchD || caps.Match == vlanrules.MatchRange)) {
			absent.bits[tci>>6] |= 1 << (tci & 63)
		}
	}
	absent.reach(0, len(absent.bits))
	return opts, absent
}

func drawIntents(t *rapid.T, caps vlanrules.Caps, layout quantize.Layout) []vlanrules.Intent {
	var want []vlanrules.Intent
	for _, sig := range quantize.Signals {
		if rapid.SampledFrom([]bool{true, false}).Draw(t, "skip "+sig.String()) {
			continue
		}
		want = append(want, vlanrules.Intent{
			Signal: sig,
			Action: rapid.SampledFrom([]vlanrules.Action{vlanrules.Update, vlanrules.Update, vlanrules.Update, vlanrules.Passthrough, vlanrules.Strip}).Draw(t, "action"),
			S:      uint8(rapid.IntRange(0, 31).Draw(t, "S")),
			LM:     uint16(rapid.IntRange(1, int(layout.LMAllOnes())-1).Draw(t, "LM")),
		})
		if !caps.MatchPCP {
			break
		}
	}
	return want
}

func drawObserved(t *rapid.T, caps vlanrules.Caps, layout quantize.Layout, c *vlanrules.Compiler, m *matcher) vlanrules.Table {
	var have vlanrules.Table
	if rapid.Bool().Draw(t, "own entries") {
		var res vlanrules.Result
		for range rapid.IntRange(1, 6).Draw(t, "history") {
			c.Compile(&res, have, drawIntents(t, caps, layout))
			d := &device{caps: caps, table: slices.Clone(have)}
			ops := res.Ops
			if caps.Txn == vlanrules.TxnEntry && len(ops) > 0 && rapid.Bool().Draw(t, "cut short") {
				ops = ops[:rapid.IntRange(0, len(ops)).Draw(t, "after")]
			}
			for _, op := range ops {
				if err := d.do(op); err != nil {
					t.Fatalf("history: %v\n%s", err, describe(have, &res))
				}
			}
			have = sorted(d.table)
		}
	}
	if rapid.Bool().Draw(t, "damage") {
		d := &device{caps: caps, table: slices.Clone(have)}
		for range rapid.IntRange(1, 3).Draw(t, "lost") {
			if n := len(d.table); n > 0 {
				e := d.table[rapid.IntRange(0, n-1).Draw(t, "row")]
				_ = d.do(vlanrules.Op{Kind: vlanrules.Delete, Entry: e}) // refused for a value in use
			}
		}
		have = d.table
	}
	if rapid.Bool().Draw(t, "bent entries") && len(have) > 0 {
		d := &device{caps: caps, table: slices.Clone(have)}
		for range rapid.IntRange(1, 2).Draw(t, "bent") {
			is := d.table[rapid.IntRange(0, len(d.table)-1).Draw(t, "row")]
			if is.Type == vlanrules.UseValue || is.Type == vlanrules.Value {
				continue // whatever the value is, it is one
			}
			_ = d.do(vlanrules.Op{Kind: vlanrules.Delete, Entry: is})
			if d.do(vlanrules.Op{Kind: vlanrules.Add, Entry: bend(t, caps, is)}) != nil {
				_ = d.do(vlanrules.Op{Kind: vlanrules.Add, Entry: is}) // the device would not have it
			}
		}
		have = sorted(d.table)
	}
	if rarely(t, "a match repeated") {
		have = repeat(t, caps, layout, have)
	}
	if rarely(t, "foreign entries") {
		d := &device{caps: caps, table: have}
		for id := range rapid.IntRange(1, 5).Draw(t, "foreign") {
			e := drawEntry(t, caps, layout)
			e.ID = 5000 + uint32(id)
			_ = d.do(vlanrules.Op{Kind: vlanrules.Add, Entry: e}) // refused: not observed
		}
		have = sorted(d.table)
	}
	return have
}

// repeat adds entries with one match, some more than a band of priorities can
// hold: an observed one's, or that of a catch-all.
func repeat(t *rapid.T, caps vlanrules.Caps, layout quantize.Layout, have vlanrules.Table) vlanrules.Table {
	is := drawEntry(t, caps, layout)
	if len(have) > 0 && rapid.Bool().Draw(t, "an observed match") {
		is = have[rapid.IntRange(0, len(have)-1).Draw(t, "row")]
	} else if caps.Match != vlanrules.MatchRange && caps.Match != vlanrules.MatchExact {
		is.Match.VID, is.Priority = vlanrules.Field{}, 10
	}
	if is.Type == vlanrules.Value || is.Type == vlanrules.UseValue {
		return have
	}
	d := &device{caps: caps, table: slices.Clone(have)}
	first := is.Priority / 10 * 10
	for n := range rapid.IntRange(2, 25).Draw(t, "times") {
		e := is
		e.ID, e.Priority = 7000+uint32(n), first+uint16(n)
		e.Type, e.VID = vlanrules.RewriteVID, layout.VID(uint8(n), 7)
		if rarely(t, "leaves") {
			e.Type, e.VID = vlanrules.NoOp, 0
		}
		_ = d.do(vlanrules.Op{Kind: vlanrules.Add, Entry: e}) // refused: not observed
	}
	return sorted(d.table)
}

// bend changes one thing about an entry of ours.
func bend(t *rapid.T, caps vlanrules.Caps, e vlanrules.Entry) vlanrules.Entry {
	ternary := caps.Match == vlanrules.MatchTernary || caps.Match == vlanrules.MatchTernaryUnordered
	what := []string{"value", "action", "DEI", "mask", "priority", "end", "DEI", "mask"}[evenly(t, "what is bent")]
	switch f := &e.Match.VID; {
	case what == "action" && e.Type == vlanrules.NoOp:
		e.Type, e.VID = vlanrules.RewriteVID, 700
	case what == "action":
		e.Type, e.VID = vlanrules.NoOp, 0
	case what == "DEI" && (ternary || caps.Match == vlanrules.MatchExact):
		e.Match.DEI = vlanrules.Field{Kind: vlanrules.Ternary, Value: uint16(rapid.IntRange(0, 1).Draw(t, "DEI")), Mask: 1}
	case what == "mask" && ternary:
		bit := uint16(1) << rapid.IntRange(0, 11).Draw(t, "bit")
		f.Kind, f.Mask = vlanrules.Ternary, f.Mask^bit
		f.Value &= f.Mask
	case what == "priority" && (caps.Match == vlanrules.MatchTernary || caps.Match == vlanrules.MatchRange):
		e.Priority = uint16(rapid.IntRange(0, 70).Draw(t, "priority"))
	case what == "end" && caps.Match == vlanrules.MatchRange:
		f.Last = uint16(rapid.IntRange(int(f.First), 4095).Draw(t, "last"))
	case e.Type == vlanrules.RewriteVID:
		e.VID = e.VID&^0x7f | 44 // another locator
	}
	return e
}

// drawEntry is an entry that the device could hold, foreign or not.
func drawEntry(t *rapid.T, caps vlanrules.Caps, layout quantize.Layout) vlanrules.Entry {
	e := vlanrules.Entry{
		Type: rapid.SampledFrom([]vlanrules.ActionType{vlanrules.RewriteVID, vlanrules.NoOp}).Draw(t, "type"),
	}
	if e.Type == vlanrules.RewriteVID {
		e.VID = layout.VID(uint8(rapid.IntRange(0, 31).Draw(t, "VID S")), uint16(rapid.IntRange(1, 60).Draw(t, "VID LM")))
	}
	ternary := func(name string, width int) vlanrules.Field {
		mask := uint16(rapid.IntRange(0, 1<<width-1).Draw(t, name+" mask"))
		value := mask & uint16(rapid.IntRange(0, 1<<width-1).Draw(t, name))
		if evenly(t, name+" takes nothing") == 7 {
			value = 1<<width - 1
		}
		return vlanrules.Field{Kind: vlanrules.Ternary, Mask: mask, Value: value}
	}
	if caps.MatchPCP {
		e.Match.PCP = vlanrules.Field{Kind: vlanrules.Ternary, Value: uint16(rapid.IntRange(0, 7).Draw(t, "PCP")), Mask: 7}
	}
	switch caps.Match {
	case vlanrules.MatchRange:
		first := rapid.IntRange(0, 4095).Draw(t, "first")
		e.Match.VID = vlanrules.Field{Kind: vlanrules.Range, First: uint16(first), Last: uint16(rapid.IntRange(first, 4095).Draw(t, "last"))}
		e.Priority = uint16(rapid.IntRange(0, 3).Draw(t, "priority"))
	case vlanrules.MatchTernary:
		e.Priority = uint16(rapid.IntRange(0, 70).Draw(t, "priority"))
		if caps.MatchPCP && rarely(t, "several T") {
			e.Match.PCP = ternary("PCP", 3)
		}
		fallthrough
	case vlanrules.MatchTernaryUnordered:
		e.Match.VID = ternary("VID", 12)
		if rapid.Bool().Draw(t, "S alone") {
			e.Match.VID.Mask &= 0xf80
			e.Match.VID.Value &= 0xf80
		}
		if rarely(t, "DEI too") {
			e.Match.DEI = ternary("DEI", 1)
		}
	case vlanrules.MatchExact:
		e.Match.VID = vlanrules.Field{Kind: vlanrules.Ternary, Value: uint16(rapid.IntRange(0, 4095).Draw(t, "VID")), Mask: 0xfff}
	}
	return e
}
