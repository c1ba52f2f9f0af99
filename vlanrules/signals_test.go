package vlanrules_test

import (
	"slices"
	"testing"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// TestInterrupted cuts every change of every kind of table short after every
// operation, and recompiles what is there: to where it was going, back to
// where it came from, and to a third bucket.
func TestInterrupted(t *testing.T) {
	for i, tc := range tablesUnderTest {
		if tc.caps.Txn != vlanrules.TxnEntry {
			continue // a transaction is not cut short
		}
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			layout, sig := layouts[i%2], quantize.MinABWC
			if i%4 > 1 {
				sig = quantize.MaxPD
			}
			c := vlanrules.NewCompiler(tc.caps, layout, tc.opts...)
			m := new(matcher)
			var from, whole, res vlanrules.Result
			for pair := range 1024 {
				if !chosen(i, pair) {
					continue
				}
				s, to := uint8(pair/32), uint8(pair%32)
				was, will := update(sig, s, 5), update(sig, to, 5+uint16(s+to)%2)
				c.Compile(&from, nil, []vlanrules.Intent{was})
				c.Compile(&whole, from.Table, []vlanrules.Intent{will})
				d := &device{caps: tc.caps, table: slices.Clone(from.Table)}
				for n, op := range whole.Ops[:max(0, len(whole.Ops)-1)] {
					if err := d.do(op); err != nil {
						t.Fatalf("%d→%d operation %d: %v", s, to, n+1, err)
					}
					have := sorted(d.table)
					third := update(sig, uint8(pair*7+n*11)%32, 7)
					// One of the three in turn: the others come in other pairs.
					want := []vlanrules.Intent{[]vlanrules.Intent{will, was, third}[(pair+n)%3]}
					c.Compile(&res, have, want)
					check(t, m, tc.caps, layout, have, want, &res)
					if res.Gap {
						t.Fatalf("%d→%d, cut after operation %d: a gap", s, to, n+1)
					}
				}
			}
		})
	}
}

// TestSignalsComeAndGo takes one port of every kind of device through sets of
// intents: signals added and removed, actions changed between update,
// passthrough and strip, one locator alone changed.
func TestSignalsComeAndGo(t *testing.T) {
	abw, abwc, pd, nqd := quantize.MinABW, quantize.MinABWC, quantize.MaxPD, quantize.MaxNQD
	is := func(sig quantize.Signal, a vlanrules.Action) vlanrules.Intent {
		return vlanrules.Intent{Signal: sig, Action: a}
	}
	targets := []struct {
		name string
		want []vlanrules.Intent
	}{
		{"nothing", nil},
		{"one signal", []vlanrules.Intent{update(abw, 12, 5)}},
		{"a second comes", []vlanrules.Intent{update(abw, 12, 5), update(pd, 12, 5)}},
		{"all four, and the first moves", []vlanrules.Intent{update(abw, 13, 5), update(abwc, 30, 5), update(pd, 12, 5), update(nqd, 1, 5)}},
		{"the locator changes", []vlanrules.Intent{update(abw, 13, 6), update(abwc, 30, 6), update(pd, 12, 6), update(nqd, 1, 6)}},
		{"in another order", []vlanrules.Intent{update(nqd, 1, 6), update(pd, 12, 6), update(abwc, 30, 6), update(abw, 13, 6)}},
		{"two are passed through", []vlanrules.Intent{is(abw, vlanrules.Passthrough), update(abwc, 3, 6), is(pd, vlanrules.Passthrough), update(nqd, 30, 6)}},
		{"and come back", []vlanrules.Intent{update(abw, 3, 6), update(abwc, 3, 6), update(pd, 30, 6), update(nqd, 30, 6)}},
		{"the worst of all", []vlanrules.Intent{update(abw, 0, 6), update(abwc, 0, 6), update(pd, 31, 6), update(nqd, 31, 6)}},
		{"the best of all", []vlanrules.Intent{update(abw, 31, 6), update(abwc, 31, 6), update(pd, 0, 6), update(nqd, 0, 6)}},
		{"one goes", []vlanrules.Intent{update(abw, 7, 6), update(abwc, 8, 6), update(pd, 9, 6)}},
		{"all are stripped", []vlanrules.Intent{is(abw, vlanrules.Strip), is(abwc, vlanrules.Strip), is(pd, vlanrules.Strip)}},
		{"updated again", []vlanrules.Intent{update(abw, 7, 6), update(abwc, 8, 6)}},
		{"nothing at all", nil},
	}
	devices := append(slices.Clone(tablesUnderTest), shortExactTables...)
	for n, tc := range devices {
		if !tc.caps.MatchPCP {
			continue // one signal only: TestRandom
		}
		for k, layout := range layouts {
			if thinned > 1 && k != n%2 {
				continue
			}
			t.Run(tc.name+", "+layout.String(), func(t *testing.T) {
				t.Parallel()
				c := vlanrules.NewCompiler(tc.caps, layout, tc.opts...)
				m := &matcher{absent: absentFrom(tc.opts != nil && tc.caps.Match == vlanrules.MatchExact, layout)}
				var res vlanrules.Result
				for i, w := range targets {
					have := slices.Clone(res.Table)
					c.Compile(&res, have, w.want)
					check(t, m, tc.caps, layout, have, w.want, &res)
					switch {
					case res.Verdict.Level == vlanrules.Refused || res.Gap:
						t.Fatalf("%s: %s %s", w.name, res.Verdict.Level, res.Verdict.Reason)
					case w.name == "in another order" && len(res.Ops) > 0:
						t.Errorf("%s: %d operations", w.name, len(res.Ops))
					case len(w.want) == 0 && len(res.Table) > 0:
						t.Errorf("%s: %d entries are left", w.name, len(res.Table))
					}
					// From each target straight to the next but one, too.
					if next := targets[(i+2)%len(targets)]; thinned == 1 || (i+n)%3 == 0 {
						var jump vlanrules.Result
						c.Compile(&jump, res.Table, next.want)
						check(t, m, tc.caps, layout, res.Table, next.want, &jump)
					}
				}
			})
		}
	}
}

// shortExactTables are exact ones that the whole tag space can be looked at
// after every operation: with three locators in use.
var shortExactTables = []struct {
	name string
	caps vlanrules.Caps
	opts []vlanrules.Option
	form vlanrules.Form
}{
	{"exact, entry by entry", vlanrules.Caps{Match: vlanrules.MatchExact, MatchPCP: true, Txn: vlanrules.TxnEntry, Modify: true}, fewLocators, vlanrules.FormExact},
	{"exact, in batches", vlanrules.Caps{Match: vlanrules.MatchExact, MatchPCP: true, Txn: vlanrules.TxnBatch}, fewLocators, vlanrules.FormExact},
	{"exact, shared value", vlanrules.Caps{Match: vlanrules.MatchExact, MatchPCP: true, Txn: vlanrules.TxnEntry, Values: true}, fewLocators, vlanrules.FormSharedExact},
}

// fewLocators excludes tags with other locators than 5, none and stale.
var fewLocators = func() (opts []vlanrules.Option) {
	for _, sig := range quantize.Signals {
		opts = append(opts, vlanrules.WithLocators(sig, []uint16{5}))
	}
	return opts
}()

// absentFrom is the tags that fewLocators excludes.
//
//go:norace
func absentFrom(excluded bool, layout quantize.Layout) *tags {
	if !excluded {
		return nil
	}
	s := new(tags)
	for tci := range 1 << 16 {
		lm, none, stale := tci&127, 126, 125
		if layout == quantize.UEC {
			lm, none, stale = tci&127>>1, 62, 61
		}
		if lm != 5 && lm != none && lm != stale {
			s.bits[tci>>6] |= 1 << (tci & 63)
		}
	}
	s.reach(0, len(s.bits))
	return s
}

// TestSharedTable fills one table with the entries of several ports at two
// tag positions, each changed on its own, and counts all of them: the table
// never overflows, and a frame of each port and position leaves as it should.
func TestSharedTable(t *testing.T) {
	const ports, positions = 3, 2
	for _, tc := range []struct {
		name    string
		caps    vlanrules.Caps
		entries int // of one port at one position, at most
	}{
		{"ternary", vlanrules.Caps{Match: vlanrules.MatchTernary, Txn: vlanrules.TxnEntry, Modify: true}, 7},
		{"ternary, too small for the budget", vlanrules.Caps{Match: vlanrules.MatchTernary, Txn: vlanrules.TxnEntry, Modify: true}, 6},
		{"unordered", vlanrules.Caps{Match: vlanrules.MatchTernaryUnordered, Txn: vlanrules.TxnEntry, Modify: true}, 10},
		{"range", vlanrules.Caps{Match: vlanrules.MatchRange, Txn: vlanrules.TxnEntry}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			caps := tc.caps
			caps.MatchPCP, caps.Shared, caps.Ports, caps.Positions = true, true, ports, positions
			caps.Entries = ports * positions * tc.entries
			c := vlanrules.NewCompiler(caps, quantize.Draft00)
			m := new(matcher)
			var copies [ports][positions]vlanrules.Table
			r, n, most := walk{state: 3}, 0, 0
			for range max(100, 300/thinned) {
				port := r.next(ports)
				want := []vlanrules.Intent{update(quantize.MinABW, uint8(r.next(32)), uint16(port)+1)}
				for pos := range positions {
					// The copies change one after the other: in between, a frame
					// with its tag at the first position leaves as wanted, one
					// with its tag at the second as before.
					var res vlanrules.Result
					have := copies[port][pos]
					c.Compile(&res, have, want)
					check(t, m, caps, quantize.Draft00, have, want, &res)
					if res.Verdict.Level != vlanrules.Full {
						t.Fatalf("%s: %s", res.Verdict.Level, res.Verdict.Reason)
					}
					for _, op := range res.Ops {
						switch op.Kind {
						case vlanrules.Add:
							n++
						case vlanrules.Delete:
							n--
						}
						if most = max(most, n); n > caps.Entries {
							t.Fatalf("%d entries in a table of %d", n, caps.Entries)
						}
					}
					copies[port][pos] = slices.Clone(res.Table)
				}
			}
			if most < ports*positions {
				t.Errorf("%d entries at most: this test fills nothing", most)
			}
			var res vlanrules.Result
			caps.Ports = 40 // too many for the same table
			vlanrules.NewCompiler(caps, quantize.Draft00).Compile(&res, nil, []vlanrules.Intent{update(quantize.MinABW, 2, 1)})
			if res.Verdict.Level != vlanrules.Refused {
				t.Errorf("40 ports: %s", res.Verdict.Level)
			}
		})
	}
}
