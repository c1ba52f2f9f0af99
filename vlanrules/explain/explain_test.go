package explain_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
	"github.com/csig-agent/csig/vlanrules/explain"
)

// The types below are an independent reader of the JSON, as a user who checks
// the rules elsewhere would write it.
type (
	fieldJSON struct{ Value, Mask, First, Last *int }
	entryJSON struct {
		ID, Priority *int
		Match        struct {
			PCP, DEI, VID *fieldJSON
		}
		Action struct {
			Type       string
			VID, Value int
		}
	}
	resultJSON struct {
		Format  string
		VID     int
		Verdict struct{ Level, Reason string }
		Entries []entryJSON
		Initial []entryJSON
		Steps   []struct {
			Op    string
			ID    int
			Entry *entryJSON
		}
	}
)

func (f *fieldJSON) takes(v int) bool {
	switch {
	case f == nil:
		return true
	case f.Mask != nil:
		return v&*f.Mask == *f.Value
	}
	return v >= *f.First && v <= *f.Last
}

// leaves makes a function of a table: the VID a tag leaves with. In order of
// priority the first entry that matches decides.
func leaves(t []entryJSON) func(tci int) int {
	var rows []entryJSON
	values := map[int]int{}
	for _, e := range t {
		switch e.Action.Type {
		case "value":
			values[*e.ID] = e.Action.VID
		default:
			rows = append(rows, e)
		}
	}
	return func(tci int) int {
		for _, e := range rows {
			if !e.Match.PCP.takes(tci>>13) || !e.Match.DEI.takes(tci>>12&1) || !e.Match.VID.takes(tci&0xfff) {
				continue
			}
			switch e.Action.Type {
			case "rewrite":
				return e.Action.VID
			case "use-value":
				return values[e.Action.Value]
			}
			return tci & 0xfff
		}
		return tci & 0xfff
	}
}

func ideal(o explain.Options, bucket uint8, lm uint16, tci int) int {
	s := uint8(tci >> 7 & 31)
	worse := s > bucket
	if o.Signal == quantize.MaxPD || o.Signal == quantize.MaxNQD {
		worse = s < bucket
	}
	if quantize.Signal(tci>>13) != o.Signal || !worse || o.Layout == quantize.UEC && tci&1 == 1 {
		return tci & 0xfff
	}
	if o.Layout == quantize.UEC {
		return int(bucket)<<7 | int(lm)<<1
	}
	return int(bucket)<<7 | int(lm)
}

// TestJSONIsComplete explains changes on every kind of device, and follows
// them from the JSON alone: entries, initial, and each step.
func TestJSONIsComplete(t *testing.T) {
	linux := vlanrules.Caps{Match: vlanrules.MatchRange, MatchPCP: true, MatchD: true}
	shared := vlanrules.Caps{Match: vlanrules.MatchTernaryUnordered, MatchPCP: true, Values: true, Txn: vlanrules.TxnEntry}
	for _, dev := range []struct {
		name string
		opts explain.Options
	}{
		{"range", explain.Options{Match: vlanrules.MatchRange}},
		{"ternary", explain.Options{Match: vlanrules.MatchTernary}},
		{"ternary, budget 7", explain.Options{Match: vlanrules.MatchTernary, Budget: 7}},
		{"unordered", explain.Options{Match: vlanrules.MatchTernaryUnordered}},
		{"platform", explain.Options{Platform: "linux", Caps: &linux}},
		{"shared value", explain.Options{Platform: "other", Caps: &shared}},
		{"unordered, values", explain.Options{Match: vlanrules.MatchTernaryUnordered, Values: true}},
	} {
		for _, layout := range []quantize.Layout{quantize.Draft00, quantize.UEC} {
			for _, pair := range [][2]uint8{{7, 8}, {8, 7}, {31, 30}, {0, 19}, {22, 5}, {11, 11}} {
				for _, sig := range []quantize.Signal{quantize.MinABW, quantize.MaxNQD} {
					o := dev.opts
					o.Layout, o.Signal, o.Bucket, o.LM = layout, sig, pair[1], 5
					o.From = &explain.State{Bucket: pair[0], LM: 9}
					name := fmt.Sprintf("%s/%s/%s/%d-%d", dev.name, layout, sig, pair[0], pair[1])
					t.Run(name, func(t *testing.T) { follow(t, o) })
				}
			}
		}
	}
}

func follow(t *testing.T, o explain.Options) {
	r, err := explain.Explain(o)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(raw, []byte("null")) {
		t.Fatalf("null in %s", raw)
	}
	var got resultJSON
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if got.Format != "csig.rules/v1" || got.VID == 0 {
		t.Errorf("format %q, vid %d", got.Format, got.VID)
	}
	dBlind := o.Match == vlanrules.MatchRange && o.Caps == nil && o.Layout == quantize.UEC
	if dBlind != (got.Verdict.Level == "degraded") || dBlind != (got.Verdict.Reason != "") {
		t.Errorf("verdict %+v", got.Verdict)
	}
	same := func(name string, table []entryJSON, bucket uint8, lm uint16) {
		t.Helper()
		seen := map[int]bool{}
		for i, e := range table {
			if e.ID == nil || seen[*e.ID] || i > 0 && *e.Priority > *table[i-1].Priority {
				t.Fatalf("%s: entry %d has no ID of its own or is not in match order", name, i)
			}
			seen[*e.ID] = true
		}
		leave := leaves(table)
		for tci := range 1 << 16 {
			if dBlind && tci&1 == 1 {
				continue
			}
			if is, want := leave(tci), ideal(o, bucket, lm, tci); is != want {
				t.Fatalf("%s: tag %#04x leaves with VID %d, want %d", name, tci, is, want)
			}
		}
	}
	same("entries", got.Entries, o.Bucket, o.LM)
	same("initial", got.Initial, o.From.Bucket, o.From.LM)
	table := got.Initial
	for n, st := range got.Steps {
		at := slices.IndexFunc(table, func(e entryJSON) bool { return *e.ID == st.ID })
		if (st.Op == "add") != (at < 0) || st.Entry == nil || *st.Entry.ID != st.ID {
			t.Fatalf("step %d: %s of %d, which is at %d", n+1, st.Op, st.ID, at)
		}
		table = slices.Clone(table)
		switch st.Op {
		case "add":
			table = append(table, *st.Entry)
		case "modify":
			table[at] = *st.Entry
		case "delete":
			table = slices.Delete(table, at, at+1)
		}
		slices.SortStableFunc(table, func(a, b entryJSON) int { return *b.Priority - *a.Priority })
		if o.Caps != nil && o.Caps.Txn != vlanrules.TxnEntry {
			continue
		}
		leave := leaves(table)
		for tci := range 1 << 16 {
			is := leave(tci)
			if dBlind && tci&1 == 1 {
				continue
			}
			if is != ideal(o, o.From.Bucket, o.From.LM, tci) && is != ideal(o, o.Bucket, o.LM, tci) {
				t.Fatalf("after step %d (%s %d): tag %#04x leaves with VID %d", n+1, st.Op, st.ID, tci, is)
			}
		}
	}
	same("the end", table, o.Bucket, o.LM)
	if text := r.Text(); strings.Contains(text, "NOT SAFE") {
		t.Error(text)
	}
}

func TestJSONOfExact(t *testing.T) {
	for _, tc := range []struct {
		name   string
		layout quantize.Layout
		n      int
	}{{"draft-00", quantize.Draft00, 3 * 128}, {"uec", quantize.UEC, 3 * 64}} {
		r, err := explain.Explain(explain.Options{Layout: tc.layout, Bucket: 28, LM: 5, Match: vlanrules.MatchExact})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Entries) != tc.n || r.Initial != nil || r.Steps != nil {
			t.Errorf("%s: %d entries, want %d", tc.name, len(r.Entries), tc.n)
		}
		raw, _ := json.Marshal(r)
		if strings.Contains(string(raw), `"steps"`) || strings.Contains(string(raw), `"initial"`) {
			t.Errorf("%s: steps without --from", tc.name)
		}
	}
}

// TestJSONOfAnEmptyTable: with From, initial and steps are there whatever they have; bucket 31
// lets every tag pass, and so has no entries.
func TestJSONOfAnEmptyTable(t *testing.T) {
	empty := 0
	for _, match := range []vlanrules.MatchKind{vlanrules.MatchRange, vlanrules.MatchTernary, vlanrules.MatchTernaryUnordered, vlanrules.MatchExact} {
		for from := range uint8(quantize.NumBuckets) {
			r, err := explain.Explain(explain.Options{Match: match, Bucket: 7, LM: 5, From: &explain.State{Bucket: from, LM: 5}})
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Initial) == 0 {
				empty++
			}
			if raw, _ := json.Marshal(r); !bytes.Contains(raw, []byte(`"initial":[`)) || !bytes.Contains(raw, []byte(`"steps":[`)) || !bytes.Contains(raw, []byte(`"entries":[`)) {
				t.Errorf("%s from bucket %d: %.300s", match, from, raw)
			}
		}
	}
	if empty == 0 {
		t.Error("no table is empty")
	}
}

func TestRefusals(t *testing.T) {
	small := vlanrules.Caps{Match: vlanrules.MatchExact, MatchPCP: true, Modify: true, Entries: 100}
	dFirst := vlanrules.Caps{MatchPCP: true, MatchD: true}
	for _, tc := range []struct {
		name   string
		opts   explain.Options
		reason string
		json   string
		text   string
	}{
		{"both states", explain.Options{Bucket: 20, LM: 5, Caps: &small, Platform: "small", From: &explain.State{Bucket: 3, LM: 5}},
			"needs 3,968 exact entries", `"entries":[],"initial":[],"steps":[]`, "refused: needs 3,968 exact entries"},
		{"the new state", explain.Options{Bucket: 0, LM: 0, From: &explain.State{Bucket: 3, LM: 5}},
			"bucket 0 with locator 0 is VID 0", `"entries":[],"initial":[{"id":`, "S=3 LM=5 stays:"},
		{"the new state, no steps asked for", explain.Options{Bucket: 0, LM: 0, Layout: quantize.UEC, Caps: &dFirst},
			"bucket 0 with locator 0 is VID 0", `"entries":[]`, "refused: abw"},
		{"the old state", explain.Options{Bucket: 3, LM: 5, From: &explain.State{}},
			"the state to come from cannot be: abw: bucket 0 with locator 0 is VID 0", `"initial":[],"steps":[]`, "refused: the state to come from"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := explain.Explain(tc.opts)
			if err != nil {
				t.Fatal(err)
			}
			raw, _ := json.Marshal(r)
			if !r.Refused() || !strings.Contains(r.Verdict.Reason, tc.reason) || !strings.Contains(string(raw), tc.json) || !strings.Contains(r.Text(), tc.text) {
				t.Errorf("%+v\n%s\n%s", r.Verdict, r.Text(), raw)
			}
			if (r.Initial == nil) != (tc.opts.From == nil) || len(r.Steps) > 0 {
				t.Errorf("initial %v, steps %v", r.Initial, r.Steps)
			}
		})
	}
	for name, o := range map[string]explain.Options{
		"bucket 32":       {Bucket: 32},
		"locator 128":     {LM: 128},
		"from bucket 99":  {From: &explain.State{Bucket: 99}},
		"from locator 64": {Layout: quantize.UEC, From: &explain.State{LM: 64}},
		"budget 2":        {Budget: 2},
		"shared values":   {Match: vlanrules.MatchTernary, Values: true},
		"signal t7":       {Signal: 7},
	} {
		if _, err := explain.Explain(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// TestCosts holds the cost table of either layout against the counts that
// are known, and the goals against their limits.
func TestCosts(t *testing.T) {
	for layout, exact := range map[quantize.Layout]int{quantize.Draft00: 31 * 128, quantize.UEC: 31 * 64} {
		table := explain.Costs(layout)
		raw, err := json.Marshal(table)
		if err != nil || bytes.Contains(raw, []byte("null")) || table.Layout != layout.String() {
			t.Errorf("%s: %v %s", layout, err, raw)
		}
		rows := map[string]explain.CostRow{}
		for _, r := range table.Rows {
			rows[r.Table] = r
			most, sum := 0, 0
			for _, n := range r.EntriesOf {
				most, sum = max(most, n), sum+n
			}
			if len(r.EntriesOf) != 32 || most != r.EntriesMax || float64(sum)/32 != r.EntriesMean || len(r.Changes) != len(vlanrules.CostSteps) {
				t.Errorf("%s, %s: %+v", layout, r.Table, r)
			}
		}
		if r := rows["exact"]; r.EntriesMax != exact || r.EntriesOf[30] != exact/31 {
			t.Errorf("%s: exact takes %d entries, want %d", layout, r.EntriesMax, exact)
		}
		if r := rows["exact, 8 locators in use"]; r.EntriesMax != 31*8 {
			t.Errorf("%s: eight locators take %d entries, want %d", layout, r.EntriesMax, 31*8)
		}
		for s, n := range rows["unordered"].EntriesOf {
			if zeros := strings.Count(fmt.Sprintf("%05b", s), "0"); n != zeros {
				t.Errorf("%s: %d entries without priorities for bucket %d, which has %d zero bits", layout, n, s, zeros)
			}
		}
		if len(table.Goals) != 3 || strings.Contains(table.Text(), "NOT MET") {
			t.Errorf("%s:\n%s", layout, table.Text())
		}
		for _, g := range table.Goals {
			if g.Met != (g.Counted <= g.AtMost) || g.Counted == 0 {
				t.Errorf("%s: %+v", layout, g)
			}
		}
	}
	missed := explain.CostTable{Goals: []explain.CostGoal{{Goal: "few", AtMost: 1, Counted: 2}}}
	if text := missed.Text(); !strings.Contains(text, "few      1.00     2.00  NOT MET") {
		t.Error(text)
	}
}

// TestStepsAreSummed draws a change of hundreds of steps.
func TestStepsAreSummed(t *testing.T) {
	r, err := explain.Explain(explain.Options{Match: vlanrules.MatchExact, Bucket: 29, LM: 5, From: &explain.State{Bucket: 30, LM: 5}})
	if err != nil {
		t.Fatal(err)
	}
	text := r.Text()
	for _, want := range []string{
		"128 × modify entries of S=31: VID := 3717 (S=29 LM=5)", "128 × add entries of S=30: VID := 3717 (S=29 LM=5)",
		"256 operations. After each of them, each of the 65,536 tag values leaves as before or as wanted.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}
