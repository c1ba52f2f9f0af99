package vlanrules_test

import (
	"slices"
	"testing"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// TestCosts holds the numbers that docs/rules.md shows: entries, and
// operations for a step of one bucket and for any change.
func TestCosts(t *testing.T) {
	entry := vlanrules.Caps{MatchPCP: true, Txn: vlanrules.TxnEntry, Modify: true}
	with := func(kind vlanrules.MatchKind, f func(*vlanrules.Caps)) vlanrules.Caps {
		caps := entry
		if caps.Match = kind; f != nil {
			f(&caps)
		}
		return caps
	}
	budget := func(n int) []vlanrules.Option { return []vlanrules.Option{vlanrules.WithBudget(n)} }
	for _, tc := range []struct {
		name          string
		caps          vlanrules.Caps
		opts          []vlanrules.Option
		entries, peak int     // at most
		meanEntries   float64 // at most, as are those below
		fresh, walk   float64 // for ±1
		anyChange     int     // for any change
	}{
		{"range", with(vlanrules.MatchRange, func(c *vlanrules.Caps) { c.ModifyEntry = true }), nil, 1, 1, 0.97, 1, 1, 1},
		{"range, added then deleted", with(vlanrules.MatchRange, func(c *vlanrules.Caps) { c.Modify = false }), nil, 1, 2, 0.97, 1.97, 1.98, 2},
		{"range, one value for all", with(vlanrules.MatchRange, func(c *vlanrules.Caps) { c.Modify, c.ModifyMatch, c.Values = false, true, true }), nil, 2, 2, 1.94, 1.99, 1.98, 2},
		{"ternary, smallest", with(vlanrules.MatchTernary, nil), budget(3), 3, 6, 2.094, 2.88, 2.88, 6},
		{"ternary, budget 6", with(vlanrules.MatchTernary, nil), budget(6), 6, 6, 4.29, 2.12, 2.24, 11},
		{"ternary, budget 7", with(vlanrules.MatchTernary, nil), nil, 6, 7, 4.29, 2.05, 2.16, 11},
		{"ternary, nothing modified", with(vlanrules.MatchTernary, func(c *vlanrules.Caps) { c.Modify = false }), nil, 6, 7, 4.29, 3.09, 3.25, 12},
		{"unordered", with(vlanrules.MatchTernaryUnordered, nil), nil, 5, 6, 2.5, 3.42, 3.47, 9},
		{"unordered, shared value", with(vlanrules.MatchTernaryUnordered, func(c *vlanrules.Caps) { c.Values = true }), nil, 6, 7, 4.32, 1.99, 2.17, 11},
		{"exact", with(vlanrules.MatchExact, nil), nil, 3968, 3968, 1984, 2048, 2048, 3968},
		{"exact, three locators", with(vlanrules.MatchExact, nil), []vlanrules.Option{vlanrules.WithLocators(quantize.MinABW, []uint16{1, 2, 3})}, 155, 155, 77.5, 80, 82, 155},
		{"exact, shared value", with(vlanrules.MatchExact, func(c *vlanrules.Caps) { c.Values = true }), nil, 3969, 3969, 1985, 129, 129, 3969},
	} {
		if tc.entries > 1000 && thinned > 1 {
			continue // TestLongEveryCase has them, and the other bounds of the table
		}
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cost, v := vlanrules.Costs(tc.caps, quantize.Draft00, tc.opts...)
			if v.Level != vlanrules.Full {
				t.Fatalf("%s: %s", v.Level, v.Reason)
			}
			if cost.Entries.Max > tc.entries || cost.Peak > tc.peak || cost.Entries.Mean > tc.meanEntries {
				t.Errorf("entries %+v, at once %d; want at most %d, mean %g, at once %d", cost.Entries, cost.Peak, tc.entries, tc.meanEntries, tc.peak)
			}
			for _, ch := range cost.Changes {
				if ch.Step == 1 && (ch.Fresh.Mean > tc.fresh || ch.Walk.Mean > tc.walk) {
					t.Errorf("±1: %.3f from fresh tables, %.3f on a walk, want at most %g and %g", ch.Fresh.Mean, ch.Walk.Mean, tc.fresh, tc.walk)
				}
				if n := max(ch.Fresh.Max, ch.Walk.Max); n > tc.anyChange {
					t.Errorf("±%d: %d operations, want at most %d", ch.Step, n, tc.anyChange)
				}
			}
		})
	}
}

// TestBudgetHolds changes the bucket at random, a little or a lot, and looks
// at the number of entries after every operation.
func TestBudgetHolds(t *testing.T) {
	for _, tc := range tablesUnderTest {
		if tc.form != vlanrules.FormLazy && tc.form != vlanrules.FormSharedPrefix || tc.caps.Txn != vlanrules.TxnEntry {
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := vlanrules.NewCompiler(tc.caps, quantize.Draft00, tc.opts...)
			var res vlanrules.Result
			r, s := walk{state: 11}, 8
			for range 10_000 / thinned {
				if reach := 1 << r.next(6); true {
					s = min(max(s+r.next(2*reach+1)-reach, 0), 31)
				}
				n := len(res.Table)
				c.Compile(&res, res.Table, []vlanrules.Intent{{Signal: quantize.MaxPD, Action: vlanrules.Update, S: uint8(s), LM: 1}})
				for _, op := range res.Ops {
					switch op.Kind {
					case vlanrules.Add:
						n++
					case vlanrules.Delete:
						n--
					}
					if n > res.Choice.Entries {
						t.Fatalf("%d entries, the budget is %d\n%s", n, res.Choice.Entries, describe(nil, &res))
					}
				}
			}
		})
	}
}

// TestChoiceIsCheapest gives a ternary and an exact device every ability, and
// takes the abilities or the capacity away: each time the form chosen has the
// fewest operations for a step of one bucket among those that are left.
func TestChoiceIsCheapest(t *testing.T) {
	for _, tc := range []struct {
		name  string
		caps  vlanrules.Caps
		opts  []vlanrules.Option
		form  vlanrules.Form
		level vlanrules.Level
	}{
		{"ternary", vlanrules.Caps{Match: vlanrules.MatchTernary, Modify: true, Values: true}, nil, vlanrules.FormLazy, vlanrules.Full},
		{"ternary, nothing modified", vlanrules.Caps{Match: vlanrules.MatchTernary, Values: true}, nil, vlanrules.FormSharedPrefix, vlanrules.Full},
		{"ternary, no values", vlanrules.Caps{Match: vlanrules.MatchTernary}, nil, vlanrules.FormLazy, vlanrules.Full},
		{"ternary, six entries", vlanrules.Caps{Match: vlanrules.MatchTernary, Modify: true, Entries: 6}, nil, vlanrules.FormOrdered, vlanrules.Full},
		{"ternary, five entries", vlanrules.Caps{Match: vlanrules.MatchTernary, Modify: true, Entries: 5}, nil, 0, vlanrules.Refused},
		{"ternary, five entries in batches", vlanrules.Caps{Match: vlanrules.MatchTernary, Modify: true, Entries: 5, Txn: vlanrules.TxnBatch}, nil, vlanrules.FormOrdered, vlanrules.Full},
		{"ternary, 64 ports", vlanrules.Caps{Match: vlanrules.MatchTernary, Modify: true, Entries: 448, Shared: true, Ports: 64}, nil, vlanrules.FormLazy, vlanrules.Full},
		{"ternary, 65 ports", vlanrules.Caps{Match: vlanrules.MatchTernary, Modify: true, Entries: 448, Shared: true, Ports: 65}, nil, vlanrules.FormOrdered, vlanrules.Full},
		{"ternary, two positions", vlanrules.Caps{Match: vlanrules.MatchTernary, Modify: true, Entries: 13, Positions: 2}, nil, vlanrules.FormOrdered, vlanrules.Full},
		{"unordered", vlanrules.Caps{Match: vlanrules.MatchTernaryUnordered, Modify: true, Values: true}, nil, vlanrules.FormSharedPrefix, vlanrules.Full},
		{"unordered, no values", vlanrules.Caps{Match: vlanrules.MatchTernaryUnordered, Modify: true}, nil, vlanrules.FormPrefix, vlanrules.Full},
		{"exact, values", vlanrules.Caps{Match: vlanrules.MatchExact, Modify: true, Values: true}, fewLocators, vlanrules.FormSharedExact, vlanrules.Full},
		{"exact", vlanrules.Caps{Match: vlanrules.MatchExact, Modify: true}, fewLocators, vlanrules.FormExact, vlanrules.Full},
		{"exact, nothing modified", vlanrules.Caps{Match: vlanrules.MatchExact}, nil, 0, vlanrules.Refused},
	} {
		if thinned > 1 && (tc.caps.Match == vlanrules.MatchExact || slices.Contains([]string{"ternary, 64 ports", "ternary, 65 ports", "ternary, two positions", "ternary, five entries in batches"}, tc.name)) {
			continue // TestLongEveryCase has them
		}
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.caps.MatchPCP = true
			if tc.caps.Txn == vlanrules.TxnTable {
				tc.caps.Txn = vlanrules.TxnEntry
			}
			cost, v := vlanrules.Costs(tc.caps, quantize.Draft00, tc.opts...)
			if v.Level != tc.level || v.Level == vlanrules.Full && cost.Choice.Form != tc.form {
				t.Fatalf("%s %s %s, want %s %s", v.Level, cost.Choice.Form, v.Reason, tc.level, tc.form)
			}
			if v.Level == vlanrules.Refused {
				return
			}
			if share := tc.caps.Entries / max(1, tc.caps.Ports) / max(1, tc.caps.Positions); share > 0 && cost.Peak > share && tc.caps.Txn == vlanrules.TxnEntry {
				t.Errorf("%d entries at once, %d are the port's", cost.Peak, share)
			}
			if i := tc.form; i != vlanrules.FormLazy && i != vlanrules.FormSharedPrefix || tc.caps.Entries > 0 {
				return // TestCosts has the numbers of the others
			}
			// Every ability less must not make a step of one bucket shorter.
			for _, less := range []func(*vlanrules.Caps){
				func(c *vlanrules.Caps) { c.Values = false },
				func(c *vlanrules.Caps) { c.Modify = false },
			} {
				caps := tc.caps
				less(&caps)
				other, v := vlanrules.Costs(caps, quantize.Draft00, tc.opts...)
				if v.Level == vlanrules.Full && other.Changes[0].Walk.Mean < cost.Changes[0].Walk.Mean-0.02 {
					t.Errorf("%s takes %.3f operations, %s would take %.3f", cost.Choice.Form, cost.Changes[0].Walk.Mean, other.Choice.Form, other.Changes[0].Walk.Mean)
				}
			}
		})
	}
}
