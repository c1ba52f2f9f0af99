package vlanrules_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// Exact tables are long, and no two entries take the same tag: their tests
// look, after each operation, at the tags of that operation's entry only, and
// at the whole tag space at the end.

var exactTables = []struct {
	name  string
	caps  vlanrules.Caps
	opts  []vlanrules.Option
	form  vlanrules.Form
	pairs int // check every n-th, and a fifth of those in the other layout and for max signals
}{
	{"exact", vlanrules.Caps{Match: vlanrules.MatchExact, MatchPCP: true, Txn: vlanrules.TxnEntry, Modify: true}, nil, vlanrules.FormExact, 1},
	{"exact, VIDs 1-4094", vlanrules.Caps{Match: vlanrules.MatchExact, MatchPCP: true, Txn: vlanrules.TxnEntry, Modify: true, VIDMin: 1, VIDMax: 4094}, nil, vlanrules.FormExact, 7},
	{"exact, in batches", vlanrules.Caps{Match: vlanrules.MatchExact, MatchPCP: true, Txn: vlanrules.TxnBatch}, nil, vlanrules.FormExact, 7},
	{"exact, shared value", vlanrules.Caps{Match: vlanrules.MatchExact, MatchPCP: true, Txn: vlanrules.TxnEntry, Values: true}, nil, vlanrules.FormSharedExact, 7},
	{"exact, locators in use", vlanrules.Caps{Match: vlanrules.MatchExact, MatchPCP: true, Txn: vlanrules.TxnEntry, Modify: true},
		[]vlanrules.Option{vlanrules.WithLocators(quantize.MinABWC, []uint16{5, 6, 17}), vlanrules.WithLocators(quantize.MaxPD, []uint16{5, 6, 17})}, vlanrules.FormExact, 1},
	{"exact, eight buckets", vlanrules.Caps{Match: vlanrules.MatchExact, MatchPCP: true, Txn: vlanrules.TxnEntry, Modify: true},
		[]vlanrules.Option{vlanrules.WithBuckets(quantize.MinABWC, 0x88888888), vlanrules.WithBuckets(quantize.MaxPD, 0x88888888)}, vlanrules.FormExact, 7},
}

// slots is the number of keys of one T: VIDs.
const slots = 4096

// slotOf is the key of an entry, or -1 where it is not an exact one of T=t:
// then it would take tags that this test does not look at.
//
//go:norace
func slotOf(m *vlanrules.Match, t quantize.Signal) int {
	switch {
	case m.PCP.Kind != vlanrules.Ternary || m.PCP.Mask != 7 || m.PCP.Value != uint16(t) || m.DEI.Kind != vlanrules.Any:
		return -1
	case m.VID.Kind == vlanrules.Ternary && m.VID.Mask == 0xfff:
		return int(m.VID.Value)
	}
	return -1
}

// exactDevice is a strict device of exact keys.
type exactDevice struct {
	t      quantize.Signal
	slot   [slots]vlanrules.Entry // ID 0: empty
	ids    map[uint32]int         // slot, or -1 for a shared value
	values map[uint32]vlanrules.Entry
	users  map[uint32]int
}

func newExactDevice(sig quantize.Signal, t vlanrules.Table) (*exactDevice, error) {
	d := &exactDevice{t: sig, ids: map[uint32]int{}, values: map[uint32]vlanrules.Entry{}, users: map[uint32]int{}}
	for _, e := range t {
		if err := d.do(vlanrules.Caps{}, vlanrules.Op{Kind: vlanrules.Add, Entry: e}); err != nil {
			return nil, err
		}
	}
	return d, nil
}

//go:norace
func (d *exactDevice) do(caps vlanrules.Caps, op vlanrules.Op) error {
	e := op.Entry
	at, found := d.ids[e.ID]
	value := e.Type == vlanrules.Value
	is := d.values[e.ID]
	if found && at >= 0 {
		is = d.slot[at]
	}
	slot := -1
	if !value {
		if slot = slotOf(&e.Match, d.t); slot < 0 {
			return fmt.Errorf("%s %v: not an exact match", op.Kind, e)
		}
	}
	switch op.Kind {
	case vlanrules.Add:
		if found || slot >= 0 && d.slot[slot].ID != 0 {
			return fmt.Errorf("add %v: ID or key exists", e)
		}
	case vlanrules.Modify:
		if !found || is.Match != e.Match || is == e || !value && !caps.Modify {
			return fmt.Errorf("modify %v to %v: not in place", is, e)
		}
		d.users[is.Ref]--
	case vlanrules.Delete:
		if is != e || d.users[e.ID] > 0 {
			return fmt.Errorf("delete %v, the table has %v", e, is)
		}
		delete(d.ids, e.ID)
		delete(d.values, e.ID)
		d.users[is.Ref]--
		if slot >= 0 {
			d.slot[slot] = vlanrules.Entry{}
		}
		return nil
	}
	if e.Type == vlanrules.UseValue {
		if _, there := d.values[e.Ref]; !there {
			return fmt.Errorf("%s %v: no such value", op.Kind, e)
		}
	}
	d.users[e.Ref]++
	d.ids[e.ID] = slot
	if value {
		d.values[e.ID] = e
	} else {
		d.slot[slot] = e
	}
	return nil
}

// result is the VID that tags of a key leave with, -1 for unchanged.
//
//go:norace
func (d *exactDevice) result(slot int) int {
	switch e := &d.slot[slot]; {
	case e.ID == 0 || e.Type == vlanrules.NoOp:
		return -1
	case e.Type == vlanrules.UseValue:
		return int(d.values[e.Ref].VID)
	default:
		return int(e.VID)
	}
}

func TestExactPairs(t *testing.T) {
	for _, tc := range exactTables {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, layout := range layouts {
				for _, sig := range []quantize.Signal{quantize.MinABWC, quantize.MaxPD} {
					c := vlanrules.NewCompiler(tc.caps, layout, tc.opts...)
					var from, res vlanrules.Result
					step, spared := tc.pairs*min(thinned, 16)+min(thinned, 16)/2, 0
					if layout != quantize.Draft00 || sig.Max() {
						step *= 5
					}
					for pair := 0; pair < 1024; pair += step {
						s, to := uint8(pair/32), uint8(pair%32)
						c.Compile(&from, nil, []vlanrules.Intent{{Signal: sig, Action: vlanrules.Update, S: s, LM: 5}})
						if from.Choice == nil || from.Choice.Form != tc.form {
							t.Fatalf("%v: form %v", from.Verdict, from.Choice)
						}
						d, err := newExactDevice(sig, from.Table)
						if err != nil {
							t.Fatal(err)
						}
						in := vlanrules.Intent{Signal: sig, Action: vlanrules.Update, S: to, LM: 5 + uint16(s+to)%2}
						c.Compile(&res, from.Table, []vlanrules.Intent{in})
						spared += exactPair(t, d, tc.caps, layout, tc.opts != nil, in, &res)
					}
					if tc.opts != nil && spared == 0 {
						t.Fatal("the options save no key")
					}
				}
			}
		})
	}
}

// exactIdeal is the VID that tags of each key are to leave with, -1 for
// unchanged; absent are the keys that need no entry, because the options
// exclude tags with them, or because the locator is a reserved one.
//
//go:norace
func exactIdeal(caps vlanrules.Caps, layout quantize.Layout, in vlanrules.Intent, excludes bool) (ideal [slots]int, absent [slots]bool) {
	vid := int(in.S)<<7 | int(in.LM)
	if layout == quantize.UEC {
		vid = int(in.S)<<7 | int(in.LM)<<1
	}
	for slot := range slots {
		ideal[slot] = -1
		tagS, trimmed := uint8(slot>>7), layout == quantize.UEC && slot&1 == 1
		worse := tagS > in.S
		if in.Signal == quantize.MaxPD {
			worse = tagS < in.S
		}
		if worse && !trimmed {
			ideal[slot] = vid
			absent[slot] = excludes || caps.VIDMax != 0 && (slot == 0 || slot == 4095)
		}
	}
	return ideal, absent
}

// exactPair runs a compile's operations on the device that holds the old
// table, and returns how many keys an option has saved. R is in no key, and
// tags of another T meet no entry.
//
//go:norace
func exactPair(t *testing.T, d *exactDevice, caps vlanrules.Caps, layout quantize.Layout, excludes bool, in vlanrules.Intent, res *vlanrules.Result) (spared int) {
	t.Helper()
	var old [slots]int
	for slot := range slots {
		old[slot] = d.result(slot)
	}
	ideal, absent := exactIdeal(caps, layout, in, excludes)
	right := func(slot int) bool {
		now := d.result(slot)
		return now == ideal[slot] || now == -1 && absent[slot]
	}
	for n, op := range res.Ops {
		if err := d.do(caps, op); err != nil {
			t.Fatalf("to %d, operation %d: %v", in.S, n+1, err)
		}
		first, last := 0, slots-1
		if op.Entry.Type != vlanrules.Value {
			first = slotOf(&op.Entry.Match, d.t)
			last = first
		}
		for slot := first; slot <= last && caps.Txn == vlanrules.TxnEntry; slot++ {
			if d.result(slot) != old[slot] && !right(slot) {
				t.Fatalf("to %d, after operation %d: key %#03x gives %d, neither %d nor %d", in.S, n+1, slot, d.result(slot), old[slot], ideal[slot])
			}
		}
	}
	for slot := range slots {
		if !right(slot) {
			t.Fatalf("to %d: key %#03x gives %d, want %d", in.S, slot, d.result(slot), ideal[slot])
		}
		if d.result(slot) != ideal[slot] {
			spared++
		}
	}
	if len(res.Table) != len(d.ids) {
		t.Fatalf("to %d: the result has %d entries, the device %d", in.S, len(res.Table), len(d.ids))
	}
	for _, e := range res.Table {
		is := d.values[e.ID]
		if at := d.ids[e.ID]; at >= 0 {
			is = d.slot[at]
		}
		if is != e {
			t.Fatalf("to %d: the result has %v, the device %v", in.S, e, is)
		}
	}
	return spared
}

func TestExactPromises(t *testing.T) {
	caps := vlanrules.Caps{Match: vlanrules.MatchExact, MatchPCP: true, Modify: true}
	in := []vlanrules.Intent{{Signal: quantize.MinABW, Action: vlanrules.Update, S: 3, LM: 9}}
	for _, tc := range []struct {
		name string
		opt  vlanrules.Option
		n    int
	}{
		{"all", func(*vlanrules.Compiler) {}, 28 * 128},
		{"three locators with none and stale", vlanrules.WithLocators(quantize.MinABW, []uint16{9, 10, 11}), 28 * 5},
		{"other signal's locators", vlanrules.WithLocators(quantize.MaxPD, []uint16{9}), 28 * 128},
		{"four buckets", vlanrules.WithBuckets(quantize.MinABW, 1<<31|1<<20|1<<10|1<<2), 3 * 128},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var res vlanrules.Result
			vlanrules.NewCompiler(caps, quantize.Draft00, tc.opt).Compile(&res, nil, in)
			if len(res.Table) != tc.n || len(res.Ops) != tc.n {
				t.Errorf("%d entries, %d operations, want %d", len(res.Table), len(res.Ops), tc.n)
			}
		})
	}
}

// TestIDsFollowContent compiles long tables of several ports with one
// compiler: what one port's entries are called must not depend on another's.
func TestIDsFollowContent(t *testing.T) {
	caps := vlanrules.Caps{Match: vlanrules.MatchExact, MatchPCP: true, Txn: vlanrules.TxnEntry, Modify: true}
	shared := vlanrules.NewCompiler(caps, quantize.Draft00, fewLocators...)
	for s := range uint8(31) {
		var first, second, alone vlanrules.Result
		want := []vlanrules.Intent{update(quantize.MinABW, s, 5)}
		shared.Compile(&first, nil, want)
		shared.Compile(&second, nil, []vlanrules.Intent{update(quantize.MinABW, 30-s, 5)})
		shared.Compile(&second, second.Table, want)
		vlanrules.NewCompiler(caps, quantize.Draft00, fewLocators...).Compile(&alone, nil, want)
		for i, e := range alone.Table {
			if first.Table[i] != e || !slices.Contains(second.Table, e) {
				t.Fatalf("bucket %d: entry %+v is %+v beside other ports", s, e, first.Table[i])
			}
		}
	}
}
