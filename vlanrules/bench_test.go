package vlanrules_test

import (
	"testing"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

const benchPorts = 512

var benchTables = []struct {
	name string
	caps vlanrules.Caps
}{
	{"range", vlanrules.Caps{Match: vlanrules.MatchRange, MatchPCP: true}},
	{"ternary", vlanrules.Caps{Match: vlanrules.MatchTernary, MatchPCP: true, Txn: vlanrules.TxnEntry, Modify: true}},
	{"unordered", vlanrules.Caps{Match: vlanrules.MatchTernaryUnordered, MatchPCP: true, Txn: vlanrules.TxnEntry, Modify: true}},
	{"class", vlanrules.Caps{Match: vlanrules.MatchExact, MatchPCP: true, Txn: vlanrules.TxnEntry, Values: true, Classes: true}},
}

// fleet is the state of a switch of 512 ports with two signals each.
type fleet struct {
	c       *vlanrules.Compiler
	ports   [benchPorts]vlanrules.Result
	intents [benchPorts][2]vlanrules.Intent
}

func newFleet(caps vlanrules.Caps) *fleet {
	f := &fleet{c: vlanrules.NewCompiler(caps, quantize.Draft00)}
	for p := range f.ports {
		s := uint8(p % 31)
		f.intents[p] = [2]vlanrules.Intent{
			{Signal: quantize.MinABW, Action: vlanrules.Update, S: s, LM: uint16(p%120 + 1)},
			{Signal: quantize.MinABWC, Action: vlanrules.Update, S: 30 - s, LM: uint16(p%120 + 1)},
		}
	}
	f.compile()
	return f
}

func (f *fleet) compile() (ops int) {
	for p := range f.ports {
		f.c.Compile(&f.ports[p], f.ports[p].Table, f.intents[p][:])
		ops += len(f.ports[p].Ops)
	}
	return ops
}

// BenchmarkUnchanged is a cycle in which no bucket of 512 ports × 2 signals
// moved.
func BenchmarkUnchanged(b *testing.B) {
	for _, bc := range benchTables {
		b.Run(bc.name, func(b *testing.B) {
			f := newFleet(bc.caps)
			b.ReportAllocs()
			for b.Loop() {
				f.compile()
			}
		})
	}
}

// BenchmarkMoved is a cycle in which every bucket moved by one.
func BenchmarkMoved(b *testing.B) {
	for _, bc := range benchTables {
		b.Run(bc.name, func(b *testing.B) {
			f := newFleet(bc.caps)
			r, ops, n := walk{state: 3}, 0, 0
			b.ReportAllocs()
			for b.Loop() {
				for p := range f.intents {
					for i := range f.intents[p] {
						s := &f.intents[p][i].S
						switch {
						case *s == 0:
							*s = 1
						case *s == 31 || r.next(2) == 0:
							*s--
						default:
							*s++
						}
					}
				}
				ops += f.compile()
				n++
			}
			b.ReportMetric(float64(ops)/float64(n)/benchPorts/2, "ops/signal")
		})
	}
}

func TestNothingIsAllocated(t *testing.T) {
	for _, bc := range benchTables {
		t.Run(bc.name, func(t *testing.T) {
			f := newFleet(bc.caps)
			if n := testing.AllocsPerRun(10, func() { f.compile() }); n != 0 {
				t.Errorf("%.0f allocations in a cycle in which nothing changed", n)
			}
			up := true
			move := func() {
				for p := range f.intents {
					for i := range f.intents[p] {
						if up {
							f.intents[p][i].S++
						} else {
							f.intents[p][i].S--
						}
					}
				}
				up = !up
				f.compile()
			}
			for range 8 { // slices find their length
				move()
			}
			if n := testing.AllocsPerRun(10, move); n != 0 {
				t.Errorf("%.0f allocations in a cycle in which every bucket moved", n)
			}
		})
	}
}
