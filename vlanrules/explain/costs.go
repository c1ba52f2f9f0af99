package explain

import (
	"fmt"
	"strings"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// CostsFormat names the JSON form of CostTable.
const CostsFormat = "csig.rule_costs/v1"

// CostTable is what one signal of one port costs on each kind of table, in
// entries and operations. All of it is counted, by compiling.
type CostTable struct {
	Format string    `json:"format"`
	Rows   []CostRow `json:"rows"`
}

// CostRow is one kind of table.
type CostRow struct {
	Table        string       `json:"table"`
	Form         string       `json:"form"`
	EntriesMax   int          `json:"entries_max"`  // of a fresh table
	EntriesMean  float64      `json:"entries_mean"` // over the 32 buckets
	EntriesAtAll int          `json:"entries_peak"` // at once, on a ±1 walk
	Changes      []CostChange `json:"changes"`
}

// CostChange is the operations for one kind of change.
type CostChange struct {
	Step      int     `json:"step"` // ±step buckets; 0: to any bucket
	FreshMean float64 `json:"fresh_mean"`
	FreshMax  int     `json:"fresh_max"`
	WalkMean  float64 `json:"walk_mean"`
	WalkMax   int     `json:"walk_max"`
}

// costRows are the kinds of table, in the order of docs/rules.md.
func costRows() []struct {
	name   string
	caps   vlanrules.Caps
	budget int
} {
	kind := func(k vlanrules.MatchKind, f func(*vlanrules.Caps)) vlanrules.Caps {
		caps := Generic(k)
		if f != nil {
			f(&caps)
		}
		return caps
	}
	return []struct {
		name   string
		caps   vlanrules.Caps
		budget int
	}{
		{"range, one write", kind(vlanrules.MatchRange, nil), 0},
		{"range, match and value apart", kind(vlanrules.MatchRange, func(c *vlanrules.Caps) { c.ModifyEntry, c.ModifyMatch = false, true }), 0},
		{"range, add and delete only", kind(vlanrules.MatchRange, func(c *vlanrules.Caps) { c.ModifyEntry, c.Modify = false, false }), 0},
		{"ternary, budget 3", kind(vlanrules.MatchTernary, nil), smallest},
		{"ternary, budget 6", kind(vlanrules.MatchTernary, nil), 6},
		{"ternary, budget 7", kind(vlanrules.MatchTernary, nil), 7},
		{"ternary, budget 12", kind(vlanrules.MatchTernary, nil), 12},
		{"ternary, add and delete only", kind(vlanrules.MatchTernary, func(c *vlanrules.Caps) { c.Modify = false }), 7},
		{"unordered", kind(vlanrules.MatchTernaryUnordered, nil), 0},
		{"unordered, add and delete only", kind(vlanrules.MatchTernaryUnordered, func(c *vlanrules.Caps) { c.Modify = false }), 0},
		{"unordered, shared value", kind(vlanrules.MatchTernaryUnordered, func(c *vlanrules.Caps) { c.Values = true }), 7},
		{"exact", kind(vlanrules.MatchExact, nil), 0},
		{"exact, shared value", kind(vlanrules.MatchExact, func(c *vlanrules.Caps) { c.Values = true }), 0},
		{"exact, classes", kind(vlanrules.MatchExact, func(c *vlanrules.Caps) { c.Classes = true }), 0},
		{"exact, classes, shared value", kind(vlanrules.MatchExact, func(c *vlanrules.Caps) { c.Classes, c.Values = true, true }), 0},
	}
}

// Costs counts the cost table; it takes a second or two.
func Costs() *CostTable {
	t := &CostTable{Format: CostsFormat, Rows: []CostRow{}}
	for _, row := range costRows() {
		var opts []vlanrules.Option
		if row.budget > 0 {
			opts = append(opts, vlanrules.WithBudget(row.budget))
		}
		cost, _ := vlanrules.Costs(row.caps, quantize.Draft00, opts...)
		r := CostRow{
			Table: row.name, Form: cost.Choice.Form.String(),
			EntriesMax: cost.Entries.Max, EntriesMean: cost.Entries.Mean, EntriesAtAll: cost.Peak,
		}
		for _, c := range cost.Changes {
			r.Changes = append(r.Changes, CostChange{c.Step, c.Fresh.Mean, c.Fresh.Max, c.Walk.Mean, c.Walk.Max})
		}
		t.Rows = append(t.Rows, r)
	}
	return t
}

// Text draws the table. Operations are the mean on a long walk; the maximum
// of each row is over all changes, on walks and from fresh tables.
func (t *CostTable) Text() string {
	lines := [][]string{{"table", "form", "entries", "mean", "at once", "±1", "±2", "±4", "±8", "any", "max", "±1 fresh"}}
	for _, r := range t.Rows {
		line := []string{r.Table, r.Form, thousands(r.EntriesMax), decimals(r.EntriesMean), thousands(r.EntriesAtAll)}
		most := 0
		for _, c := range r.Changes {
			line = append(line, decimals(c.WalkMean))
			most = max(most, c.WalkMax, c.FreshMax)
		}
		lines = append(lines, append(line, thousands(most), decimals(r.Changes[0].FreshMean)))
	}
	right := map[int]bool{}
	for i := 2; i < len(lines[0]); i++ {
		right[i] = true
	}
	var b strings.Builder
	drawColumns(&b, lines, right)
	return b.String()
}

// decimals writes two decimals, or none above a hundred.
func decimals(v float64) string {
	if v >= 100 {
		return thousands(int(v + 0.5))
	}
	return fmt.Sprintf("%.2f", v)
}
