package vlanrules_test

import (
	"fmt"
	"testing"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

var layouts = []quantize.Layout{quantize.Draft00, quantize.UEC}

// tablesUnderTest is one device for each form of table and way of changing it.
var tablesUnderTest = []struct {
	name string
	caps vlanrules.Caps
	opts []vlanrules.Option
	form vlanrules.Form
}{
	{"range, in one transaction", vlanrules.Caps{Match: vlanrules.MatchRange, MatchPCP: true}, nil, vlanrules.FormRange},
	{"range, D tested before", vlanrules.Caps{Match: vlanrules.MatchRange, MatchPCP: true, MatchD: true}, nil, vlanrules.FormRange},
	{"range, entry by entry", vlanrules.Caps{Match: vlanrules.MatchRange, MatchPCP: true, Txn: vlanrules.TxnEntry}, nil, vlanrules.FormRange},
	{"range, whole entries modified", vlanrules.Caps{Match: vlanrules.MatchRange, MatchPCP: true, Txn: vlanrules.TxnEntry, ModifyEntry: true}, nil, vlanrules.FormRange},
	{"range, match and value in two writes", vlanrules.Caps{Match: vlanrules.MatchRange, MatchPCP: true, Txn: vlanrules.TxnEntry, Modify: true, ModifyMatch: true}, nil, vlanrules.FormRange},
	{"range, one value for all", vlanrules.Caps{Match: vlanrules.MatchRange, MatchPCP: true, Txn: vlanrules.TxnEntry, Values: true, ModifyMatch: true}, nil, vlanrules.FormSharedRange},
	{"range, held as prefixes", vlanrules.Caps{Match: vlanrules.MatchRange, MatchPCP: true, Txn: vlanrules.TxnEntry, Modify: true, Prefixes: true, Entries: 40}, nil, vlanrules.FormRange},
	{"range, no PCP", vlanrules.Caps{Match: vlanrules.MatchRange, Txn: vlanrules.TxnEntry}, nil, vlanrules.FormRange},
	{"ternary, lazy", vlanrules.Caps{Match: vlanrules.MatchTernary, MatchPCP: true, Txn: vlanrules.TxnEntry, Modify: true}, nil, vlanrules.FormLazy},
	{"ternary, lazy, nothing modified", vlanrules.Caps{Match: vlanrules.MatchTernary, MatchPCP: true, Txn: vlanrules.TxnEntry}, nil, vlanrules.FormLazy},
	{"ternary, lazy, in batches", vlanrules.Caps{Match: vlanrules.MatchTernary, MatchPCP: true, Txn: vlanrules.TxnBatch, Modify: true}, nil, vlanrules.FormLazy},
	{"ternary, lazy, budget 6", vlanrules.Caps{Match: vlanrules.MatchTernary, MatchPCP: true, Txn: vlanrules.TxnEntry, Modify: true}, []vlanrules.Option{vlanrules.WithBudget(6)}, vlanrules.FormLazy},
	{"ternary, lazy, budget 20", vlanrules.Caps{Match: vlanrules.MatchTernary, MatchPCP: true, Txn: vlanrules.TxnEntry, Modify: true}, []vlanrules.Option{vlanrules.WithBudget(20)}, vlanrules.FormLazy},
	{"ternary, no PCP", vlanrules.Caps{Match: vlanrules.MatchTernary, Txn: vlanrules.TxnEntry, Modify: true}, nil, vlanrules.FormLazy},
	{"ternary, smallest", vlanrules.Caps{Match: vlanrules.MatchTernary, MatchPCP: true, Txn: vlanrules.TxnEntry, Modify: true}, []vlanrules.Option{vlanrules.WithBudget(3)}, vlanrules.FormOrdered},
	{"ternary, smallest, nothing modified", vlanrules.Caps{Match: vlanrules.MatchTernary, MatchPCP: true, Txn: vlanrules.TxnEntry}, []vlanrules.Option{vlanrules.WithBudget(3)}, vlanrules.FormOrdered},
	{"ternary, shared value", vlanrules.Caps{Match: vlanrules.MatchTernary, MatchPCP: true, Txn: vlanrules.TxnEntry, Values: true}, nil, vlanrules.FormSharedPrefix},
	{"unordered", vlanrules.Caps{Match: vlanrules.MatchTernaryUnordered, MatchPCP: true, Txn: vlanrules.TxnEntry, Modify: true}, nil, vlanrules.FormPrefix},
	{"unordered, in one transaction", vlanrules.Caps{Match: vlanrules.MatchTernaryUnordered, MatchPCP: true}, nil, vlanrules.FormPrefix},
	{"unordered, shared value", vlanrules.Caps{Match: vlanrules.MatchTernaryUnordered, MatchPCP: true, Txn: vlanrules.TxnEntry, Values: true}, nil, vlanrules.FormSharedPrefix},
}

// TestEveryPair goes from every bucket to every other, on every kind of
// table, in both layouts, and holds each state on the way against the whole
// tag space. The locator changes with the bucket, and one pair in a while
// only changes the locator.
func TestEveryPair(t *testing.T) {
	for i, tc := range tablesUnderTest {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, layout := range layouts {
				for _, sig := range []quantize.Signal{quantize.MinABWC, quantize.MaxPD} {
					everyPair(t, i+int(layout)+int(sig), tc.caps, tc.opts, tc.form, layout, sig)
				}
			}
		})
	}
}

func everyPair(t *testing.T, kind int, caps vlanrules.Caps, opts []vlanrules.Option, form vlanrules.Form, layout quantize.Layout, sig quantize.Signal) {
	c := vlanrules.NewCompiler(caps, layout, opts...)
	m := new(matcher)
	var from, res vlanrules.Result
	for s := range uint8(32) {
		was := []vlanrules.Intent{{Signal: sig, Action: vlanrules.Update, S: s, LM: 5}}
		c.Compile(&from, nil, was)
		if from.Choice.Form != form {
			t.Fatalf("form %s, want %s", from.Choice.Form, form)
		}
		check(t, m, caps, layout, nil, was, &from)
		for to := range uint8(32) {
			if !chosen(kind, int(s)*32+int(to)) {
				continue
			}
			will := []vlanrules.Intent{{Signal: sig, Action: vlanrules.Update, S: to, LM: 5 + uint16(s+to)%2}}
			c.Compile(&res, from.Table, will)
			check(t, m, caps, layout, from.Table, will, &res)
			if n := len(res.Ops); n > 11 {
				t.Fatalf("%d→%d: %d operations, more than 11\n%s", s, to, n, describe(from.Table, &res))
			}
		}
	}
}

// TestWalks changes the bucket again and again, so that tables are met in the
// states that long use leaves them in, and cuts sequences short.
func TestWalks(t *testing.T) {
	for _, tc := range tablesUnderTest {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, layout := range layouts {
				c := vlanrules.NewCompiler(tc.caps, layout, tc.opts...)
				m := new(matcher)
				var res vlanrules.Result
				var have vlanrules.Table
				r := walk{state: 7}
				s := 15
				for range 400 / thinned {
					switch r.next(4) {
					case 0:
						s = r.next(32)
					default:
						s = min(max(s+r.next(3)-1, 0), 31)
					}
					want := []vlanrules.Intent{{Signal: quantize.MinABWC, Action: vlanrules.Update, S: uint8(s), LM: 9}}
					c.Compile(&res, have, want)
					check(t, m, tc.caps, layout, have, want, &res)
					if tc.caps.Txn == vlanrules.TxnEntry && r.next(4) == 0 {
						d := &device{caps: tc.caps, table: append(vlanrules.Table(nil), have...)}
						for _, op := range res.Ops[:r.next(len(res.Ops)+1)] {
							if err := d.do(op); err != nil {
								t.Fatal(err)
							}
						}
						have = sorted(d.table)
						continue
					}
					have = append(have[:0:0], res.Table...)
					c.Compile(&res, have, want)
					if len(res.Ops) != 0 {
						t.Fatalf("nothing changed, but %d operations\n%s", len(res.Ops), describe(have, &res))
					}
				}
			}
		})
	}
}

func sorted(t vlanrules.Table) vlanrules.Table {
	out := append(vlanrules.Table(nil), t...)
	for i := range out {
		for j := i; j > 0 && out[j-1].Priority < out[j].Priority; j-- {
			out[j-1], out[j] = out[j], out[j-1]
		}
	}
	return out
}

// walk is a small generator of numbers, the same in every run.
type walk struct{ state uint64 }

func (w *walk) next(n int) int {
	w.state = w.state*6364136223846793005 + 1442695040888963407
	return int(w.state >> 33 % uint64(n))
}

func ExampleCompiler_Compile() {
	caps := vlanrules.Caps{Match: vlanrules.MatchTernary, MatchPCP: true, Txn: vlanrules.TxnEntry, Modify: true}
	c := vlanrules.NewCompiler(caps, quantize.Draft00)
	var res vlanrules.Result
	c.Compile(&res, nil, []vlanrules.Intent{{Signal: quantize.MinABW, Action: vlanrules.Update, S: 7, LM: 5}})
	c.Compile(&res, res.Table, []vlanrules.Intent{{Signal: quantize.MinABW, Action: vlanrules.Update, S: 8, LM: 5}})
	for _, op := range res.Ops {
		fmt.Printf("%s: S %05b/%05b, %s\n", op.Kind, op.Entry.Match.VID.Value>>7, op.Entry.Match.VID.Mask>>7, op.Entry.Type)
	}
	// Output:
	// add: S 01000/11111, none
	// modify: S 00000/00000, rewrite
}
