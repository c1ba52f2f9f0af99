package explain_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
	"github.com/csig-agent/csig/vlanrules/explain"
)

// TestNoStepIsUnsafe explains changes on every kind of device: the text, which follows the steps over all 65,536
// tags, knows of no tag that leaves neither as before nor as wanted. What the JSON says is followed by
// TestRulesJSON of cmd/csig, which knows the platforms, too.
func TestNoStepIsUnsafe(t *testing.T) {
	linux := vlanrules.Caps{Match: vlanrules.MatchRange, MatchPCP: true, MatchD: true}
	shared := vlanrules.Caps{Match: vlanrules.MatchTernaryUnordered, MatchPCP: true, Values: true, Txn: vlanrules.TxnEntry}
	for _, o := range []explain.Options{
		{Match: vlanrules.MatchRange},
		{Match: vlanrules.MatchTernary},
		{Match: vlanrules.MatchTernary, Budget: 7},
		{Match: vlanrules.MatchTernaryUnordered},
		{Platform: "linux", Caps: &linux},
		{Platform: "other", Caps: &shared},
		{Match: vlanrules.MatchTernaryUnordered, Values: true},
	} {
		for i, pair := range [][2]uint8{{7, 8}, {8, 7}, {31, 30}, {0, 19}, {22, 5}, {11, 11}} {
			o.Layout = []quantize.Layout{quantize.Draft00, quantize.UEC}[i%2]
			o.Signal = []quantize.Signal{quantize.MinABW, quantize.MaxNQD}[i/2%2]
			o.Bucket, o.LM, o.From = pair[1], 5, &explain.State{Bucket: pair[0], LM: 9}
			r, err := explain.Explain(o)
			if err != nil {
				t.Fatal(err)
			}
			if text := r.Text(); r.Refused() || strings.Contains(text, "NOT SAFE") || o.Caps != &linux && !strings.Contains(text, "65,536 tag values leaves as before or as wanted") {
				t.Errorf("%+v: %s", o, text)
			}
		}
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
			if match == vlanrules.MatchExact && from%31 > 0 {
				continue // thousands of entries
			}
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

// TestLongCosts holds the cost table of either layout against the counts that are
// known, and the goals against their limits. TestLongDocs of cmd/csig has the tables' text.
func TestLongCosts(t *testing.T) {
	costs(t, quantize.Draft00, 31*128)
	costs(t, quantize.UEC, 31*64)
}

func costs(t *testing.T, layout quantize.Layout, exact int) {
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

func TestMissedGoal(t *testing.T) {
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
