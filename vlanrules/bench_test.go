package vlanrules_test

import (
	"flag"
	"testing"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

const benchPorts = 512

var benchTables = []struct {
	name   string
	caps   vlanrules.Caps
	layout quantize.Layout
	opts   []vlanrules.Option
}{
	{"range", vlanrules.Caps{}, quantize.Draft00, nil},
	{"range, add and delete only", vlanrules.Caps{Txn: vlanrules.TxnEntry}, quantize.UEC, nil},
	{"ternary", vlanrules.Caps{Match: vlanrules.MatchTernary, Txn: vlanrules.TxnEntry, Modify: true}, quantize.Draft00, nil},
	{"ternary, one transaction", vlanrules.Caps{Match: vlanrules.MatchTernary, Modify: true}, quantize.UEC, nil},
	{"ternary, add and delete only", vlanrules.Caps{Match: vlanrules.MatchTernary, Txn: vlanrules.TxnEntry}, quantize.Draft00, nil},
	{"ternary, budget 3", vlanrules.Caps{Match: vlanrules.MatchTernary, Txn: vlanrules.TxnEntry, Modify: true}, quantize.Draft00, []vlanrules.Option{vlanrules.WithBudget(3)}},
	{"unordered", vlanrules.Caps{Match: vlanrules.MatchTernaryUnordered, Txn: vlanrules.TxnEntry, Modify: true}, quantize.Draft00, nil},
	{"unordered, shared value", vlanrules.Caps{Match: vlanrules.MatchTernaryUnordered, Txn: vlanrules.TxnEntry, Values: true}, quantize.Draft00, nil},
	{"exact, 8 locators", vlanrules.Caps{Match: vlanrules.MatchExact, Txn: vlanrules.TxnEntry, Modify: true}, quantize.Draft00, []vlanrules.Option{
		vlanrules.WithLocators(quantize.MinABW, locatorsTo(6)), vlanrules.WithLocators(quantize.MaxPD, locatorsTo(6)), // with none and stale, eight
	}},
}

// fleet is the state of a switch of some ports with two signals each.
type fleet struct {
	c       *vlanrules.Compiler
	ports   []vlanrules.Result
	intents [][2]vlanrules.Intent
	walk    walk
}

func newFleet(ports int, caps vlanrules.Caps, layout quantize.Layout, opts ...vlanrules.Option) *fleet {
	caps.MatchPCP = true
	f := &fleet{c: vlanrules.NewCompiler(caps, layout, opts...), ports: make([]vlanrules.Result, ports), intents: make([][2]vlanrules.Intent, ports), walk: walk{state: 3}}
	for p := range f.ports {
		s := uint8(p % 31)
		f.intents[p] = [2]vlanrules.Intent{
			{Signal: quantize.MinABW, Action: vlanrules.Update, S: s, LM: uint16(p%60 + 1)},
			{Signal: quantize.MaxPD, Action: vlanrules.Update, S: 30 - s, LM: uint16(p%60 + 1)},
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

// step moves every bucket by one, up or down.
func (f *fleet) step() (ops int) {
	for p := range f.intents {
		for i := range f.intents[p] {
			s := &f.intents[p][i].S
			switch {
			case *s == 0:
				*s = 1
			case *s == 31 || f.walk.next(2) == 0:
				*s--
			default:
				*s++
			}
		}
	}
	return f.compile()
}

// benchHistories are how many steps a fleet has gone before it is measured:
// tables that have a history are not those that are freshly made.
var benchHistories = []struct {
	name  string
	steps int
}{{"fresh", 0}, {"walked", 60}}

func benchmarkFleets(b *testing.B, f func(b *testing.B, fleet *fleet)) {
	for _, bc := range benchTables {
		for _, h := range benchHistories {
			b.Run(bc.name+"/"+h.name, func(b *testing.B) {
				fleet := newFleet(benchPorts, bc.caps, bc.layout, bc.opts...)
				for range h.steps {
					fleet.step()
				}
				b.ReportAllocs()
				f(b, fleet)
			})
		}
	}
}

// BenchmarkUnchanged is a cycle in which no bucket of 512 ports × 2 signals
// moved.
func BenchmarkUnchanged(b *testing.B) {
	benchmarkFleets(b, func(b *testing.B, f *fleet) {
		for b.Loop() {
			f.compile()
		}
	})
}

// BenchmarkMoved is a cycle in which every bucket moved by one.
func BenchmarkMoved(b *testing.B) {
	benchmarkFleets(b, func(b *testing.B, f *fleet) {
		ops, n := 0, 0
		for b.Loop() {
			ops += f.step()
			n++
		}
		b.ReportMetric(float64(ops)/float64(n)/benchPorts/2, "ops/signal")
	})
}

// BenchmarkReadBack is a cycle in which no bucket moved, but each table comes
// back from the device in memory of its own, without the result that knows it.
func BenchmarkReadBack(b *testing.B) {
	benchmarkFleets(b, func(b *testing.B, f *fleet) {
		var res vlanrules.Result
		for b.Loop() {
			for p := range f.ports {
				f.c.Compile(&res, f.ports[p].Table, f.intents[p][:])
			}
		}
	})
}

// BenchmarkCopied is the floor of BenchmarkMoved: the operations and the
// tables of one of its cycles are copied, and nothing is thought about.
func BenchmarkCopied(b *testing.B) {
	benchmarkFleets(b, func(b *testing.B, f *fleet) {
		f.step()
		var ops [benchPorts][]vlanrules.Op
		var tables [benchPorts]vlanrules.Table
		for b.Loop() {
			for p := range f.ports {
				ops[p] = append(ops[p][:0], f.ports[p].Ops...)
				tables[p] = append(tables[p][:0], f.ports[p].Table...)
			}
		}
	})
}

func TestNothingIsAllocated(t *testing.T) {
	for _, bc := range benchTables {
		t.Run(bc.name, func(t *testing.T) {
			f := newFleet(31, bc.caps, bc.layout, bc.opts...)
			if n := testing.AllocsPerRun(4, func() { f.compile() }); n != 0 {
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
			if n := testing.AllocsPerRun(4, move); n != 0 {
				t.Errorf("%.0f allocations in a cycle in which every bucket moved", n)
			}
		})
	}
}

var leastBudget = flag.Int("least-budget", 6, "the budget for which BenchmarkLeastOperations solves the decision problem; 7 takes minutes")

// BenchmarkLeastOperations compares the rule by which lazy tables keep and
// spare no-ops with the best rule there can be: over all tables of at most
// budget-1 runs it solves for the policy with the fewest operations on an
// endless ±1 walk, by value iteration over single operations.
func BenchmarkLeastOperations(b *testing.B) {
	caps := vlanrules.Caps{Match: vlanrules.MatchTernary, MatchPCP: true, Txn: vlanrules.TxnEntry, Modify: true}
	cost, _ := vlanrules.Costs(caps, quantize.Draft00, vlanrules.WithBudget(*leastBudget))
	for b.Loop() {
		low, high := leastOperations(*leastBudget-1, 1500)
		b.ReportMetric(low, "least-ops/step,low")
		b.ReportMetric(high, "least-ops/step,high")
	}
	b.ReportMetric(cost.Changes[0].Walk.Mean, "ops/step")
}

// leastOperations is two bounds, close after many rounds, of the least mean
// number of operations: in each round no table's value grows by less than the
// one or by more than the other, and what the best policy pays a step is
// between them (Odoni's bounds for value iteration). Bucket 31 is the table of bucket 30 without its
// catch-all, one operation away.
func leastOperations(limit, rounds int) (low, high float64) {
	var runs []uint32
	for size := 16; size >= 1; size /= 2 {
		for lo := 0; lo < 32; lo += size {
			runs = append(runs, uint32((uint64(1)<<size-1)<<lo))
		}
	}
	// Tables of bucket s: sets of runs that cover exactly 0…s.
	index := map[uint64]int32{}
	var tables []uint64
	var bucket []int
	for s := range 31 {
		region := uint32(1)<<(s+1) - 1
		var extend func(i int, covered uint32, table uint64, n int)
		extend = func(i int, covered uint32, table uint64, n int) {
			if covered == region {
				index[table] = int32(len(tables))
				tables, bucket = append(tables, table), append(bucket, s)
			}
			for ; i < len(runs) && n < limit; i++ {
				if runs[i]&^region == 0 {
					extend(i+1, covered|runs[i], table|1<<i, n+1)
				}
			}
		}
		extend(0, 0, 0, 0)
	}
	// less[i] are tables of the same bucket with one run less, up[i] those of
	// the next with one more.
	less, up := make([][]int32, len(tables)), make([][]int32, len(tables))
	for i, t := range tables {
		for x := t; x != 0; x &= x - 1 {
			j, ok := index[t&^(x&-x)]
			switch {
			case ok && bucket[j] == bucket[i]:
				less[i] = append(less[i], j)
			case ok && bucket[j] == bucket[i]-1:
				up[j] = append(up[j], int32(i))
			}
		}
	}
	// settle lets tables of one bucket reach each other, an operation a run.
	settle := func(v []float64) {
		for changed := true; changed; {
			changed = false
			for i := range v {
				for _, j := range less[i] {
					if v[j]+1 < v[i]-1e-12 {
						v[i], changed = v[j]+1, true
					}
					if v[i]+1 < v[j]-1e-12 {
						v[j], changed = v[i]+1, true
					}
				}
			}
		}
	}
	value, after := make([]float64, len(tables)), make([]float64, len(tables))
	raise, lower := make([]float64, len(tables)), make([]float64, len(tables))
	without := make([]float64, len(tables)) // in bucket 31, of the tables of bucket 30
	// stuck is the value of a full table without a spare run, which cannot go
	// up: no policy may end there.
	const stuck = 1e18
	for range rounds {
		copy(after, value)
		settle(after)
		for i := range tables {
			raise[i], lower[i] = stuck, stuck
			if bucket[i] == 30 {
				raise[i] = without[i] + 1
			}
		}
		for i := range tables {
			for _, j := range up[i] { // one run and the catch-all
				raise[i] = min(raise[i], after[j]+2)
				lower[j] = min(lower[j], after[i]+2)
			}
		}
		settle(raise)
		settle(lower)
		low, high = stuck, 0
		base := value[0] // bucket 0 has one table
		grow := func(v *float64, next float64) {
			if next < stuck/2 && *v < stuck/1e6 {
				low, high = min(low, next-*v), max(high, next-*v)
			}
			*v = (*v+next)/2 - base
		}
		for i, s := range bucket {
			switch s {
			case 0:
				grow(&value[i], raise[i])
			case 30:
				grow(&without[i], after[i]+1)
				fallthrough
			default:
				grow(&value[i], (raise[i]+lower[i])/2)
			}
		}
	}
	return low, high
}
