package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/csig-agent/csig/vendors/all"
	"github.com/csig-agent/csig/vlanrules"
)

// The simulator below is written from the JSON of docs/rules.md and from CSIG
// draft-00 §5.4 alone, as a user would write it to check the rules before they go
// on a switch.
type (
	simField struct{ Value, Mask, First, Last *int }
	simEntry struct {
		ID       *int `json:"id"`
		Priority *int `json:"priority"`
		Match    map[string]*simField
		Action   struct {
			Type  string
			VID   *int
			Value *int
		}
	}
	simulation struct {
		Format  string
		VID     int
		Verdict struct{ Level, Reason string }
		Entries []*simEntry
		Initial []*simEntry
		Steps   []struct {
			Op    string
			ID    int
			Entry *simEntry
		}
	}
)

//go:norace
func (f *simField) takes(v int) bool {
	switch {
	case f == nil:
		return true
	case f.Value != nil && f.Mask != nil && f.First == nil && f.Last == nil:
		return v&*f.Mask == *f.Value
	case f.First != nil && f.Last != nil && f.Value == nil && f.Mask == nil:
		return *f.First <= v && v <= *f.Last
	}
	panic("a condition is neither value and mask nor first and last")
}

// tags are all TCIs that an entry matches.
//
//go:norace
func (e *simEntry) tags() (list []int) {
	for field := range e.Match {
		if field != "pcp" && field != "dei" && field != "vid" {
			panic("unknown field " + field)
		}
	}
	if e.Action.Type == "value" {
		return []int{} // it is no match
	}
	first, last := 0, 4095
	if f := e.Match["vid"]; f != nil && f.Mask != nil && *f.Mask == 4095 {
		first, last = *f.Value, *f.Value // thousands of entries are exact ones
	}
	for top := range 16 {
		if !e.Match["pcp"].takes(top>>1) || !e.Match["dei"].takes(top&1) {
			continue
		}
		for vid := first; vid <= last; vid++ {
			if e.Match["vid"].takes(vid) {
				list = append(list, top<<12|vid)
			}
		}
	}
	return list
}

// leaves is the TCI a tag leaves with if this entry takes it.
//
//go:norace
func (t *simTable) leaves(e *simEntry, tci int) int {
	switch e.Action.Type {
	case "rewrite":
		if *e.Action.VID < 1 || *e.Action.VID > 4094 {
			panic("a VID that VLAN hardware refuses")
		}
		return tci&0xf000 | *e.Action.VID
	case "none":
		return tci
	case "use-value":
		return tci&0xf000 | *t.byID[*e.Action.Value].Action.VID
	}
	panic("unknown action " + e.Action.Type)
}

// simTable is a switch's table: the entries that match each tag.
type simTable struct {
	ends  bool // entries match neither VID 0 nor 4095
	byID  map[int]*simEntry
	taken [1 << 16][]*simEntry
}

// clear empties the table. The lists keep their memory, since there are 65,536 of them.
//
//go:norace
func (t *simTable) clear(ends bool) {
	t.ends, t.byID = ends, map[int]*simEntry{}
	for tci := range t.taken {
		t.taken[tci] = t.taken[tci][:0]
	}
}

//go:norace
func (t *simTable) add(e *simEntry) error {
	if e.ID == nil || e.Priority == nil || t.byID[*e.ID] != nil {
		return fmt.Errorf("an entry has no priority or no ID of its own")
	}
	t.byID[*e.ID] = e
	for _, tci := range e.tags() {
		t.taken[tci] = append(t.taken[tci], e)
	}
	return nil
}

//go:norace
func (t *simTable) remove(id int) *simEntry {
	e := t.byID[id]
	if e == nil {
		return nil
	}
	delete(t.byID, id)
	for _, tci := range e.tags() {
		t.taken[tci] = slices.DeleteFunc(t.taken[tci], func(x *simEntry) bool { return x == e })
	}
	return e
}

// other reports that a tag may leave neither as a nor as b: the entries of the
// highest priority that match it decide, any of them, or nothing where none
// does.
//
//go:norace
func (t *simTable) other(tci, a, b int) (is int, wrong bool) {
	best := -1
	for _, e := range t.taken[tci] {
		best = max(best, *e.Priority)
	}
	if best < 0 {
		return tci, tci != a && tci != b
	}
	for _, e := range t.taken[tci] {
		if *e.Priority < best {
			continue
		}
		if is := t.leaves(e, tci); is != a && is != b {
			return is, true
		}
	}
	return 0, false
}

// simSignal is a signal in a layout.
type simSignal struct {
	t   int
	max bool
	uec bool
	any bool // the device updates D=1, too

	ends bool // its entries match neither VID 0 nor 4095
}

// wants is what the draft makes of a tag at a bucket with a locator.
//
//go:norace
func (g simSignal) wants(tci, bucket, lm int) int {
	s := tci >> 7 & 31
	worse := s > bucket
	if g.max {
		worse = s < bucket
	}
	switch {
	case tci>>13 != g.t || !worse || g.uec && tci&1 == 1 && !g.any:
		return tci
	case g.uec:
		return tci&0xf000 | bucket<<7 | lm<<1
	}
	return tci&0xf000 | bucket<<7 | lm
}

// TestLongRuleCosts: the costs of all tables, as JSON. They take seconds to count.
func TestLongRuleCosts(t *testing.T) {
	out, err := csig("rules", "explain", "--costs", "--layout", "uec", "--json")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"format": "csig.rule-costs/v1"`, `"layout": "uec"`, `"entries_max": 1984`} {
		if !strings.Contains(out, want) {
			t.Errorf("%s is not in %s", want, out)
		}
	}
	for _, never := range []string{`"met": false`, "null"} {
		if strings.Contains(out, never) {
			t.Errorf("%s is in %s", never, out)
		}
	}
}

// TestRulesJSON runs the command for every kind of table, layout and platform, and
// follows its steps from the JSON alone. After each of them, each of the 65,536
// tags leaves as the old bucket would have it or as the new. Each table has one of the layouts.
func TestRulesJSON(t *testing.T) { rulesJSON(t, 12) }

// TestLongRulesJSON has both layouts for every table, every signal, and three changes of each.
func TestLongRulesJSON(t *testing.T) {
	t.Parallel()
	rulesJSON(t, 1)
}

// rulesJSON looks at one of so many cases of each table and layout.
func rulesJSON(t *testing.T, of int) {
	tables := [][]string{
		{"--match", "range"},
		{"--match", "range", "--change", "apart"},
		{"--match", "range", "--change", "shared"},
		{"--match", "range", "--change", "replace"},
		{"--match", "ternary"},
		{"--match", "ternary", "--budget", "3"},
		{"--match", "ternary", "--budget", "6"},
		{"--match", "ternary", "--budget", "7"},
		{"--match", "ternary", "--budget", "12"},
		{"--match", "ternary-unordered"},
		{"--match", "ternary-unordered", "--values"},
		{"--match", "exact"},
	}
	for _, name := range all.Default().Drivers() {
		if p, _ := all.Default().Platform(name); !p.Offline().SetupOnly {
			tables = append(tables, []string{"--platform", name})
		}
	}
	changes := [][4]int{ // from, to, from-lm, lm
		{7, 8, 5, 5}, {8, 7, 5, 5}, {15, 16, 1, 2}, {0, 31, 3, 4}, {31, 0, 4, 3}, {30, 14, 9, 9},
		{11, 11, 1, 60}, {20, 20, 5, 5}, {21, 4, 33, 61}, {3, 29, 62, 17}, {1, 0, 6, 6}, {30, 31, 6, 7},
	}
	signals := []string{"abw", "abwc", "pd", "nqd"}
	for i, table := range tables {
		t.Run(strings.ReplaceAll(strings.Join(table, " "), "--", ""), func(t *testing.T) {
			t.Parallel()
			var states [2]simTable
			for l, layout := range []string{"draft-00", "uec"} {
				if of > 1 && (i/2+i+l)%2 > 0 { // of neighbours, which are alike, the one and the other
					continue
				}
				nth, every := 7*(i+l), of // another case of each kind
				if table[1] == "exact" {
					every = min(of, 4) // it has four
				}
				for n, signal := range signals {
					for k, ch := range changes {
						if k%4 != (n+i)%4 || table[1] == "exact" && k%3 != n%3 {
							continue // sampled; exact tables have thousands of steps
						}
						if nth++; nth%every > 0 {
							continue
						}
						g := simSignal{t: n, max: n >= 2, uec: layout == "uec"}
						g.any = g.uec && slices.Contains(table, "range")
						if name := table[1]; table[0] == "--platform" {
							p, _ := all.Default().Platform(name)
							g.any = g.uec && p.Rules.Match == vlanrules.MatchRange && !p.Rules.MatchD
							g.ends = p.Rules.VIDMin == 1 && p.Rules.VIDMax == 4094
						}
						args := append([]string{
							"rules", "explain", "--json", "--layout", layout, "--signal", signal,
							"--from", fmt.Sprint(ch[0]), "--bucket", fmt.Sprint(ch[1]), "--from-lm", fmt.Sprint(ch[2]), "--lm", fmt.Sprint(ch[3]),
						}, table...)
						if why := play(&states, g, args, ch); why != "" {
							t.Fatalf("csig %s: %s", strings.Join(args, " "), why)
						}
					}
				}
			}
		})
	}
}

// simulate runs the command and returns what is wrong with its rules, or "".
func play(states *[2]simTable, g simSignal, args []string, ch [4]int) string {
	cmd, out := newRoot(), new(bytes.Buffer)
	cmd.SetArgs(args)
	cmd.SetOut(out)
	if err := cmd.Execute(); err != nil {
		return err.Error()
	}
	if bytes.Contains(out.Bytes(), []byte("null")) {
		return "a null: " + out.String()
	}
	var sim simulation
	if err := json.Unmarshal(out.Bytes(), &sim); err != nil {
		return err.Error()
	}
	ends := strings.Contains(sim.Verdict.Reason, "which entries cannot match")
	switch {
	case sim.Format != "csig.rules/v1" || sim.VID == 0:
		return fmt.Sprintf("format %s, VID %d", sim.Format, sim.VID)
	case g.any != strings.Contains(sim.Verdict.Reason, "cannot test D"):
		return "D: " + sim.Verdict.Reason
	case (g.any || ends) != (sim.Verdict.Level == "degraded") || (g.any || ends) == (sim.Verdict.Level == "full"):
		return "verdict " + sim.Verdict.Level + " " + sim.Verdict.Reason
	case (g.any || ends) != (sim.Verdict.Reason != ""):
		return "reason " + sim.Verdict.Reason
	}
	from, to, fromLM, lm := ch[0], ch[1], ch[2], ch[3]
	old := func(tci int) int { return g.wants(tci, from, fromLM) }
	wanted := func(tci int) int { return g.wants(tci, to, lm) }
	want, table := &states[0], &states[1]
	want.clear(ends || g.ends)
	table.clear(ends || g.ends)
	for _, list := range []struct {
		name    string
		entries []*simEntry
		table   *simTable
		means   func(int) int
	}{{"entries", sim.Entries, want, wanted}, {"initial", sim.Initial, table, old}} {
		for i, e := range list.entries {
			if err := list.table.add(e); err != nil {
				return list.name + ": " + err.Error()
			}
			if i > 0 && *e.Priority > *list.entries[i-1].Priority {
				return list.name + " is not in match order"
			}
		}
		if why := list.table.differs(list.means, list.means, nil); why != "" {
			return list.name + ": " + why
		}
	}
	for n, step := range sim.Steps {
		if step.Entry == nil || step.Entry.ID == nil || *step.Entry.ID != step.ID {
			return fmt.Sprintf("step %d has no whole entry", n+1)
		}
		changed := step.Entry.tags()
		if step.Entry.Action.Type == "value" {
			changed = nil // all that use it
		}
		var err error
		switch gone := (*simEntry)(nil); step.Op {
		case "add":
			err = table.add(step.Entry)
		case "modify", "delete":
			if gone = table.remove(step.ID); gone == nil {
				return fmt.Sprintf("step %d: %s of %d, which is not there", n+1, step.Op, step.ID)
			}
			if changed != nil {
				changed = append(changed, gone.tags()...)
			}
			if step.Op == "modify" {
				err = table.add(step.Entry)
			}
		default:
			return "unknown op " + step.Op
		}
		if err != nil {
			return fmt.Sprintf("step %d: %v", n+1, err)
		}
		// Tags that neither the old entry nor the new matches leave as before.
		if why := table.differs(old, wanted, changed); why != "" {
			return fmt.Sprintf("after step %d of %d: %s", n+1, len(sim.Steps), why)
		}
	}
	if why := table.differs(wanted, wanted, nil); why != "" {
		return "at the end: " + why
	}
	return ""
}

// differs returns which of the tags, all for nil, may leave neither as a nor as b.
//
//go:norace
func (t *simTable) differs(a, b func(int) int, tags []int) string {
	n := len(tags)
	if tags == nil {
		n = 1 << 16
	}
	for tci := range n {
		if tags != nil {
			tci = tags[tci]
		}
		if vid := tci & 4095; t.ends && (vid == 0 || vid == 4095) {
			continue
		}
		if is, wrong := t.other(tci, a(tci), b(tci)); wrong {
			return fmt.Sprintf("tag %#04x may leave as %#04x, neither %#04x nor %#04x", tci, is, a(tci), b(tci))
		}
	}
	return ""
}
