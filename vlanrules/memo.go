package vlanrules

import "slices"

// Most ports do not change in most cycles, and most callers hand in the table
// that the last Compile left. A memo is what a compile has found out, for the
// next to look up: that the port's intents leave this very table as it is.

// memo records that a compiler, asked to make table do want, changes nothing.
// That stays true wherever the memo is held; copies of a Result may share it.
type memo struct {
	by      *Compiler
	want    []Intent
	table   Table
	verdict Verdict
	choice  *Choice
}

// holds reports whether the memo is about this compile. It compares every
// row: the caller may have put what was read back from the device into the
// memory of the table that Compile left.
func (m *memo) holds(c *Compiler, have Table, want []Intent) bool {
	return m != nil && m.by == c && slices.Equal(m.want, want) && m.table.equal(have)
}

// keep makes the memo one about t, a table that carries out want.
func (m *memo) keep(c *Compiler, t Table, want []Intent, v Verdict, choice *Choice) *memo {
	if m == nil {
		m = new(memo)
	}
	m.by, m.verdict, m.choice = c, v, choice
	m.want = append(m.want[:0], want...)
	m.table = append(m.table[:0], t...)
	return m
}

// equal reports whether two tables have the same rows in the same order.
func (t Table) equal(o Table) bool {
	if len(t) != len(o) {
		return false
	}
	// Eight rows at a time are one comparison of memory.
	const n = 8
	for ; len(t) >= n; t, o = t[n:], o[n:] {
		if *(*[n]Entry)(t) != *(*[n]Entry)(o) {
			return false
		}
	}
	return slices.Equal(t, o)
}

// keepTable makes t a copy of have; it does nothing where t is have.
func keepTable(t, have Table) Table {
	if len(have) > 0 && len(t) == len(have) && &t[0] == &have[0] {
		return t
	}
	return append(t[:0], have...)
}
