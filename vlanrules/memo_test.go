package vlanrules_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// TestMemo compiles again what a result knows, after something about it has
// changed in place: each difference, in whatever row and field, has to be seen.
func TestMemo(t *testing.T) {
	for _, tc := range append(slices.Clone(tablesUnderTest), shortExactTables...) {
		t.Run(tc.name, func(t *testing.T) {
			want := []vlanrules.Intent{update(quantize.MinABW, 9, 5), update(quantize.MaxPD, 3, 6)}
			c := vlanrules.NewCompiler(tc.caps, quantize.Draft00, tc.opts...)
			var res vlanrules.Result
			c.Compile(&res, nil, want)
			ours := slices.Clone(res.Table)
			for row := range ours {
				for _, f := range []func(e *vlanrules.Entry){
					func(e *vlanrules.Entry) { e.VID ^= 1 << 9 },
					func(e *vlanrules.Entry) { e.Match.PCP.Value ^= 1 },
					func(e *vlanrules.Entry) {
						e.Match.DEI = vlanrules.Field{Kind: vlanrules.Ternary, Value: 1, Mask: 1}
					},
				} {
					if f(&res.Table[row]); ours[row].Type == vlanrules.NoOp || ours[row].Type == vlanrules.UseValue {
						res.Table[row].VID = 0
					}
					if slices.Equal(res.Table, ours) || ours[row].Type == vlanrules.Value && res.Table[row].VID == ours[row].VID {
						copy(res.Table, ours) // a value's match has no meaning
						continue
					}
					if c.Compile(&res, res.Table, want); len(res.Ops) == 0 {
						t.Fatalf("row %d was %+v and is %+v: nothing to do", row, ours[row], res.Table[row])
					}
					c.Compile(&res, nil, want)
					if !slices.Equal(res.Table, ours) {
						t.Fatalf("a fresh table is\n%v\nand was\n%v", res.Table, ours)
					}
				}
			}
		})
	}
}

// TestMemoIsAboutOneCompile changes what else a compile depends on: the
// intents, the table's length, the compiler.
func TestMemoIsAboutOneCompile(t *testing.T) {
	caps := vlanrules.Caps{Match: vlanrules.MatchTernary, MatchPCP: true, Txn: vlanrules.TxnEntry, Modify: true}
	c, other := vlanrules.NewCompiler(caps, quantize.Draft00), vlanrules.NewCompiler(caps, quantize.UEC)
	want := []vlanrules.Intent{update(quantize.MinABW, 9, 5)}
	start := func() (res vlanrules.Result) {
		c.Compile(&res, nil, want)
		if c.Compile(&res, res.Table, want); len(res.Ops) > 0 {
			t.Fatal("the memo is of no use")
		}
		return res
	}
	for name, f := range map[string]func(res *vlanrules.Result){
		"another bucket": func(res *vlanrules.Result) {
			c.Compile(res, res.Table, []vlanrules.Intent{update(quantize.MinABW, 10, 5)})
		},
		"another locator": func(res *vlanrules.Result) {
			c.Compile(res, res.Table, []vlanrules.Intent{update(quantize.MinABW, 9, 6)})
		},
		"another action":  func(res *vlanrules.Result) { c.Compile(res, res.Table, []vlanrules.Intent{{S: 9, LM: 5}}) },
		"a second signal": func(res *vlanrules.Result) { c.Compile(res, res.Table, append(want, update(quantize.MaxPD, 9, 5))) },
		"no signal":       func(res *vlanrules.Result) { c.Compile(res, res.Table, nil) },
		"a row less":      func(res *vlanrules.Result) { c.Compile(res, res.Table[:len(res.Table)-1], want) },
		"a row more": func(res *vlanrules.Result) {
			c.Compile(res, append(res.Table, vlanrules.Entry{ID: 1, Priority: 1}), want)
		},
		"an empty table":   func(res *vlanrules.Result) { c.Compile(res, nil, want) },
		"another compiler": func(res *vlanrules.Result) { other.Compile(res, res.Table, want) },
		"a copy's change": func(res *vlanrules.Result) {
			copied := *res
			c.Compile(&copied, copied.Table, []vlanrules.Intent{update(quantize.MinABW, 10, 5)})
			have := copied.Table
			c.Compile(res, have, want)
		},
	} {
		t.Run(name, func(t *testing.T) {
			res := start()
			if f(&res); len(res.Ops) == 0 {
				t.Errorf("no operations: %+v", res.Verdict)
			}
		})
	}
	// What was refused leaves the memo as it was, and reports it.
	res := start()
	if c.Compile(&res, res.Table, []vlanrules.Intent{update(quantize.MinABW, 99, 5)}); res.Verdict.Level != vlanrules.Refused {
		t.Errorf("%+v", res.Verdict)
	}
	if c.Compile(&res, res.Table, want); res.Verdict.Level != vlanrules.Full || len(res.Ops) > 0 || res.Choice == nil {
		t.Errorf("%+v, %d operations", res.Verdict, len(res.Ops))
	}
}

// TestEntryHasNoGaps holds the memory of an entry against that of its fields.
func TestEntryHasNoGaps(t *testing.T) {
	var fields func(typ reflect.Type) uintptr
	fields = func(typ reflect.Type) (n uintptr) {
		if typ.Kind() != reflect.Struct {
			return typ.Size()
		}
		for i := range typ.NumField() {
			n += fields(typ.Field(i).Type)
		}
		return n
	}
	if typ := reflect.TypeFor[vlanrules.Entry](); fields(typ) != typ.Size() {
		t.Errorf("%d bytes of fields in %d of memory", fields(typ), typ.Size())
	}
}
