package vlanrules

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"github.com/csig-agent/csig/quantize"
)

// Cost is what one min signal of one port costs on a device: entries, and
// operations when the bucket changes.
type Cost struct {
	Choice  Choice
	Entries Spread                   // of fresh tables, over the 32 buckets
	Fresh   [quantize.NumBuckets]int // entries of the fresh table of each bucket
	Peak    int                      // entries at once, during and between changes, on a ±1 walk
	Changes []ChangeCost
}

// ChangeCost is the number of operations for one kind of change.
type ChangeCost struct {
	Step  int    // the bucket moves by ±Step; 0: to any other, equally likely
	Fresh Spread // from fresh tables, over all buckets
	Walk  Spread // in a long random walk of such changes, each from the table that the last one left
}

// Spread is a mean and a maximum.
type Spread struct {
	Mean float64
	Max  int
}

// CostSteps are the changes that Costs counts: ±1, ±2, ±4, ±8 and uniform.
var CostSteps = [...]int{1, 2, 4, 8, 0}

// Costs counts what Compile does on a device, by compiling: nothing is
// estimated. The walks are the same in every run.
func Costs(caps Caps, layout quantize.Layout, opts ...Option) (Cost, Verdict) {
	m := meter{c: NewCompiler(caps, layout, opts...)}
	m.to(0)
	if m.res.Choice == nil {
		return Cost{}, m.res.Verdict
	}
	cost := Cost{Choice: *m.res.Choice}
	var entries tally
	for s := range uint8(quantize.NumBuckets) {
		m.fresh(s)
		cost.Fresh[s] = m.c.weightOf(m.res.Table)
		entries.add(cost.Fresh[s])
	}
	cost.Entries = entries.spread()
	verdict := m.res.Verdict
	fresh := m.freshSpreads()
	for i, step := range CostSteps {
		cc := ChangeCost{Step: step, Fresh: fresh[i], Walk: fresh[i]}
		if cost.Entries.Max <= longTable {
			m.peak = 0
			cc.Walk = m.walk(step)
		}
		if step == 1 {
			cost.Peak = m.peak
		}
		cost.Changes = append(cost.Changes, cc)
	}
	return cost, verdict
}

// longTable is the length from which a table is certainly one of exact
// entries. Those are the same whatever the history, so a walk costs what
// changes of fresh tables do.
const longTable = 100

// meter compiles changes of one signal and counts their operations.
type meter struct {
	c    *Compiler
	res  Result
	from Table
	peak int

	tables  []Table // that walks met
	places  map[string]int
	changes [][quantize.NumBuckets]change // from each of them to each bucket
	key     []byte
}

// change is what a compile came to: the same from the same table, so that a walk, which meets few, compiles it once.
type change struct {
	ops, peak int
	next      int // place of the table, from 1 on; 0: not compiled yet
}

// place is where a table is among those that walks met.
func (m *meter) place(t Table) int {
	m.key = m.key[:0]
	for i := range t {
		e := &t[i]
		for _, n := range [...]uint32{e.ID, e.Ref, uint32(e.Priority)<<16 | uint32(e.VID), uint32(e.Type)} {
			m.key = binary.LittleEndian.AppendUint32(m.key, n)
		}
		for _, f := range [...]*Field{&e.Match.PCP, &e.Match.DEI, &e.Match.VID} {
			for _, n := range [...]uint16{uint16(f.Kind), f.Value, f.Mask, f.First, f.Last} {
				m.key = binary.LittleEndian.AppendUint16(m.key, n)
			}
		}
	}
	at, met := m.places[string(m.key)]
	if !met {
		if m.places == nil {
			m.places = map[string]int{}
		}
		at = len(m.tables)
		m.places[string(m.key)] = at
		m.tables, m.changes = append(m.tables, slices.Clone(t)), append(m.changes, [quantize.NumBuckets]change{})
	}
	return at
}

// change goes from the table at a place to a bucket: the operations, and the place of the table then.
func (m *meter) change(at, to int) (ops, next int) {
	c := m.changes[at][to]
	if c.next == 0 {
		m.res.Table = append(m.res.Table[:0], m.tables[at]...)
		if c.ops = m.to(uint8(to)); c.ops > 0 {
			c.peak = m.c.peak
		}
		c.next = m.place(m.res.Table) + 1
		m.changes[at][to] = c
	}
	m.peak = max(m.peak, c.peak)
	return c.ops, c.next - 1
}

// to changes the bucket and returns the number of operations.
func (m *meter) to(s uint8) int {
	m.c.Compile(&m.res, m.res.Table, []Intent{{Signal: quantize.MinABW, Action: Update, S: s, LM: 1}})
	if len(m.res.Ops) > 0 {
		m.peak = max(m.peak, m.c.peak)
	}
	return len(m.res.Ops)
}

func (m *meter) fresh(s uint8) {
	m.res.Table = m.res.Table[:0]
	m.to(s)
}

// freshSpreads counts every change of a fresh table, for each of CostSteps.
func (m *meter) freshSpreads() (spreads [len(CostSteps)]Spread) {
	var ops [len(CostSteps)]tally
	for s := range quantize.NumBuckets {
		m.fresh(uint8(s))
		m.from = append(m.from[:0], m.res.Table...)
		for to := range quantize.NumBuckets {
			if s == to {
				continue
			}
			m.res.Table = append(m.res.Table[:0], m.from...)
			n := m.to(uint8(to))
			for i, step := range CostSteps {
				if step == 0 || to-s == step || s-to == step {
					ops[i].add(n)
				}
			}
		}
	}
	for i := range ops {
		spreads[i] = ops[i].spread()
	}
	return spreads
}

// Walks have this many changes, ten times as many for ±1, which has a goal to
// meet. Every walkFresh changes of more than one bucket it moves anywhere,
// uncounted, because such steps alone would never meet some buckets.
const (
	walkLength = 10_000
	walkFresh  = 50
)

func (m *meter) walk(step int) Spread {
	r := rand.New(rand.NewPCG(uint64(step), 0))
	s, n := quantize.NumBuckets/2, walkLength
	m.fresh(uint8(s))
	at := m.place(m.res.Table)
	if step == 1 {
		n *= 10
	}
	var ops tally
	for i := range n {
		if step > 1 && i%walkFresh == 0 {
			s = r.IntN(quantize.NumBuckets)
			_, at = m.change(at, s)
		}
		to := s
		switch {
		case step == 0:
			for to == s {
				to = r.IntN(quantize.NumBuckets)
			}
		default:
			to += step * (1 - 2*r.IntN(2))
			if to < 0 || to >= quantize.NumBuckets {
				to = 2*s - to // the other way
			}
		}
		var count int
		count, at = m.change(at, to)
		ops.add(count)
		s = to
	}
	return ops.spread()
}

// tally gathers a Spread.
type tally struct{ n, sum, max int }

func (t *tally) add(v int) { t.n, t.sum, t.max = t.n+1, t.sum+v, max(t.max, v) }

func (t *tally) spread() Spread {
	return Spread{Mean: float64(t.sum) / float64(max(t.n, 1)), Max: t.max}
}
