package explain

import (
	"fmt"
	"strings"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// CostsFormat names the JSON form of CostTable.
const CostsFormat = "csig.rule-costs/v1"

// CostTable is what one signal of one port costs on each kind of table, in
// entries and operations. All of it is counted, by compiling.
type CostTable struct {
	Format string     `json:"format"`
	Layout string     `json:"layout"`
	Rows   []CostRow  `json:"rows"`
	Goals  []CostGoal `json:"goals"`
}

// CostGoal is a documented limit of operations, and
// what was counted.
type CostGoal struct {
	Goal    string  `json:"goal"`
	AtMost  float64 `json:"at_most"`
	Counted float64 `json:"counted"`
	Met     bool    `json:"met"`
}

// CostRow is one kind of table.
type CostRow struct {
	Table        string       `json:"table"`
	Form         string       `json:"form"`
	EntriesMax   int          `json:"entries_max"`  // of a fresh table
	EntriesMean  float64      `json:"entries_mean"` // over the 32 buckets
	EntriesOf    []int        `json:"entries_by_bucket"`
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

// costRow is one kind of table to be counted.
type costRow struct {
	name   string
	caps   vlanrules.Caps
	budget int
	opts   []vlanrules.Option
}

// costRows are the kinds of table, in the order of docs/rules.md.
func costRows() []costRow {
	kind := func(k vlanrules.MatchKind, f func(*vlanrules.Caps)) vlanrules.Caps {
		caps := Generic(k)
		if f != nil {
			f(&caps)
		}
		return caps
	}
	// With none and stale, eight locators.
	locators := []vlanrules.Option{vlanrules.WithLocators(quantize.MinABW, []uint16{1, 2, 3, 4, 5, 6})}
	return []costRow{
		{name: "range, one write", caps: kind(vlanrules.MatchRange, nil)},
		{name: "range, match and value apart", caps: kind(vlanrules.MatchRange, func(c *vlanrules.Caps) { change(c, "apart") })},
		{name: "range, match and shared value", caps: kind(vlanrules.MatchRange, func(c *vlanrules.Caps) { change(c, "shared") })},
		{name: "range, add and delete only", caps: kind(vlanrules.MatchRange, func(c *vlanrules.Caps) { change(c, "replace") })},
		{name: "range to 4094, as prefixes", caps: kind(vlanrules.MatchRange, func(c *vlanrules.Caps) { change(c, "replace"); c.VIDMin, c.VIDMax, c.Prefixes = 1, 4094, true })},
		{name: "ternary, budget 3", caps: kind(vlanrules.MatchTernary, nil), budget: smallest},
		{name: "ternary, budget 6", caps: kind(vlanrules.MatchTernary, nil), budget: 6},
		{name: goalRow, caps: kind(vlanrules.MatchTernary, nil), budget: 7},
		{name: "ternary, budget 12", caps: kind(vlanrules.MatchTernary, nil), budget: 12},
		{name: "ternary, add and delete only", caps: kind(vlanrules.MatchTernary, func(c *vlanrules.Caps) { c.Modify = false }), budget: 7},
		{name: "unordered", caps: kind(vlanrules.MatchTernaryUnordered, nil)},
		{name: "unordered, shared value", caps: kind(vlanrules.MatchTernaryUnordered, func(c *vlanrules.Caps) { c.Values = true }), budget: 7},
		{name: "exact", caps: kind(vlanrules.MatchExact, nil)},
		{name: "exact, 8 locators in use", caps: kind(vlanrules.MatchExact, nil), opts: locators},
		{name: "exact, shared value", caps: kind(vlanrules.MatchExact, func(c *vlanrules.Caps) { c.Values = true })},
	}
}

// Costs counts the cost table of a layout; it takes a second or two.
func Costs(layout quantize.Layout) *CostTable {
	t := &CostTable{Format: CostsFormat, Layout: layout.String(), Rows: []CostRow{}, Goals: []CostGoal{}}
	for _, row := range costRows() {
		opts := row.opts
		if row.budget > 0 {
			opts = append(opts, vlanrules.WithBudget(row.budget))
		}
		cost, _ := vlanrules.Costs(row.caps, layout, opts...)
		r := CostRow{
			Table: row.name, Form: cost.Choice.Form.String(),
			EntriesMax: cost.Entries.Max, EntriesMean: cost.Entries.Mean, EntriesOf: cost.Fresh[:], EntriesAtAll: cost.Peak,
		}
		for _, c := range cost.Changes {
			r.Changes = append(r.Changes, CostChange{c.Step, c.Fresh.Mean, c.Fresh.Max, c.Walk.Mean, c.Walk.Max})
		}
		t.Rows = append(t.Rows, r)
	}
	t.countGoals()
	return t
}

// goalRow names the table to which the goal for the mean applies.
const goalRow = "ternary, budget 7"

// countGoals compares the rows with the goals for steps of one bucket.
func (t *CostTable) countGoals() {
	goal := func(name string, atMost, counted float64) {
		t.Goals = append(t.Goals, CostGoal{name, atMost, counted, counted <= atMost})
	}
	most := 0
	for _, r := range t.Rows {
		one := r.Changes[0]
		switch r.Table {
		case "range, one write":
			goal(r.Table+": most operations for ±1", 1, float64(max(one.WalkMax, one.FreshMax)))
		case goalRow:
			goal(r.Table+": mean operations for ±1", 2.3, one.WalkMean)
		}
		if r.Form == vlanrules.FormOrdered.String() || r.Form == vlanrules.FormLazy.String() ||
			r.Form == vlanrules.FormPrefix.String() || r.Form == vlanrules.FormSharedPrefix.String() {
			most = max(most, one.WalkMax, one.FreshMax)
		}
	}
	goal("ternary, every kind: most operations for ±1", 11, float64(most))
}

// Text draws the table. Operations are the mean on a long walk; the maximum
// of each row is over all changes, on walks and from fresh tables.
func (t *CostTable) Text() string {
	lines := [][]string{{"table", "form", "entries", "mean", "at once", "±1", "±2", "±4", "±8", "any", "max", "±1 fresh"}}
	for _, r := range t.Rows {
		line := []string{r.Table, r.Form, quantize.FormatCount(r.EntriesMax), decimals(r.EntriesMean), quantize.FormatCount(r.EntriesAtAll)}
		most := 0
		for _, c := range r.Changes {
			line = append(line, decimals(c.WalkMean))
			most = max(most, c.WalkMax, c.FreshMax)
		}
		lines = append(lines, append(line, quantize.FormatCount(most), decimals(r.Changes[0].FreshMean)))
	}
	right := map[int]bool{}
	for i := 2; i < len(lines[0]); i++ {
		right[i] = true
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s, one min signal of one port:\n\n", t.Layout)
	drawColumns(&b, lines, right)
	b.WriteByte('\n')
	t.drawEntries(&b)
	b.WriteByte('\n')
	lines = [][]string{{"goal", "at most", "counted", ""}}
	for _, g := range t.Goals {
		met := "met"
		if !g.Met {
			met = "NOT MET"
		}
		lines = append(lines, []string{g.Goal, decimals(g.AtMost), decimals(g.Counted), met})
	}
	drawColumns(&b, lines, map[int]bool{1: true, 2: true})
	return b.String()
}

// drawEntries draws the entries of each bucket as one digit, one line for each
// form. Longer tables have an entry for each VID
// of each S that the bucket is worse than, and no line.
func (t *CostTable) drawEntries(b *strings.Builder) {
	lines := [][]string{{"entries of a fresh table, for S=0…31"}}
	seen := map[string]bool{}
	for _, r := range t.Rows {
		if r.EntriesMax > 9 || seen[r.Form] {
			continue
		}
		seen[r.Form] = true
		digits := ""
		for _, n := range r.EntriesOf {
			digits += fmt.Sprint(n)
		}
		lines = append(lines, []string{r.Form, digits})
	}
	lines[0] = append(lines[0], "01234567890123456789012345678901")
	drawColumns(b, lines, nil)
}

// decimals writes two decimals, or none above a hundred.
func decimals(v float64) string {
	if v >= 100 {
		return quantize.FormatCount(int(v + 0.5))
	}
	return fmt.Sprintf("%.2f", v)
}
