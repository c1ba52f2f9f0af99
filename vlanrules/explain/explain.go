// Package explain draws what the rule compiler does: the table for one signal
// and bucket, and the steps that lead there from another. It is the whole of
// `csig rules explain` but the flags, and its JSON is made to be checked by
// a simulator elsewhere (docs/rules.md describes it).
package explain

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// Format names the JSON form of a Result.
const Format = "csig.rules/v1"

// Options selects what to explain.
type Options struct {
	Layout quantize.Layout
	Signal quantize.Signal
	Bucket uint8  // 0…31
	LM     uint16 // the locator written
	From   *State // nil: no steps

	Match    vlanrules.MatchKind // the kind of table; ignored with Caps
	Values   bool                // entries can share a value: ternary-unordered and exact; ignored with Caps
	Change   string              // how a range changes, one of Changes, "" for the first; ignored with Caps
	Budget   int                 // entries for the signal in a ternary table; 0: as few as possible
	Platform string              // whose capabilities Caps are, "" for a generic device
	Caps     *vlanrules.Caps     // of a platform; nil: a generic device of kind Match
}

// State is a bucket with the locator that goes with it.
type State struct {
	Bucket uint8  `json:"bucket"`
	LM     uint16 `json:"lm"`
}

// Result is the explanation. Numbers are plain integers and empty lists [].
type Result struct {
	Format    string              `json:"format"`
	Layout    string              `json:"layout"`
	Signal    string              `json:"signal"`
	T         uint8               `json:"t"`
	Aggregate string              `json:"aggregate"` // "min" or "max"
	Bucket    uint8               `json:"bucket"`
	LM        uint16              `json:"lm"`
	VID       uint16              `json:"vid"` // what bucket and locator are as a VID
	From      *State              `json:"from,omitempty"`
	Match     vlanrules.MatchKind `json:"match"`
	Platform  string              `json:"platform,omitempty"`
	Budget    int                 `json:"budget,omitempty"`
	Form      string              `json:"form"` // the compiler's choice, "" where it refuses
	Why       string              `json:"why"`
	Verdict   vlanrules.Verdict   `json:"verdict"`

	Entries Table  `json:"entries"`          // in match order
	Initial Table  `json:"initial,omitzero"` // with From: the table of that bucket
	Steps   []Step `json:"steps,omitzero"`   // with From: from Initial to the new bucket
	// Transaction is how many of the steps the device takes at once: "table",
	// "batch" or "entry" for one after the other.
	Transaction string `json:"transaction,omitempty"`

	layout quantize.Layout
}

// Table is rows in match order. Higher priorities match first; where they are
// equal any entry that matches may win, and it does not matter which.
type Table vlanrules.Table

// MarshalJSON writes each row with its ID, priority, conditions and action.
func (t Table) MarshalJSON() ([]byte, error) {
	out := make([]entry, len(t))
	for i := range t {
		out[i] = entryOf(&t[i])
	}
	return json.Marshal(out)
}

// Step is one operation with the whole entry, with delete as it was.
type Step vlanrules.Op

// MarshalJSON writes "add", "modify" or "delete" with the ID and the entry.
func (s Step) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Op    string `json:"op"`
		ID    uint32 `json:"id"`
		Entry entry  `json:"entry"`
	}{s.Kind.String(), s.Entry.ID, entryOf(&s.Entry)})
}

// entry is one row in JSON. An absent condition is a wildcard.
type entry struct {
	ID       uint32 `json:"id"`
	Priority uint16 `json:"priority"`
	Match    struct {
		PCP field `json:"pcp,omitzero"`
		DEI field `json:"dei,omitzero"`
		VID field `json:"vid,omitzero"`
	} `json:"match"`
	// "rewrite" sets the VID, "none" leaves the tag as it is, "use-value" sets the
	// VID of the "value" row with that id.
	Action struct {
		Type  string `json:"type"`
		VID   uint16 `json:"vid,omitempty"`   // rewrite and value; never 0
		Value uint32 `json:"value,omitempty"` // use-value
	} `json:"action"`
}

// field is one condition: value and mask, or first and last, inclusive.
type field struct {
	Value *uint16 `json:"value,omitempty"`
	Mask  *uint16 `json:"mask,omitempty"`
	First *uint16 `json:"first,omitempty"`
	Last  *uint16 `json:"last,omitempty"`
}

func entryOf(e *vlanrules.Entry) entry {
	out := entry{ID: e.ID, Priority: e.Priority}
	out.Match.PCP, out.Match.DEI, out.Match.VID = fieldOf(&e.Match.PCP), fieldOf(&e.Match.DEI), fieldOf(&e.Match.VID)
	out.Action.Type = e.Type.String()
	switch e.Type {
	case vlanrules.RewriteVID, vlanrules.Value:
		out.Action.VID = e.VID
	case vlanrules.UseValue:
		out.Action.Value = e.Ref
	}
	return out
}

func fieldOf(f *vlanrules.Field) field {
	switch f.Kind {
	case vlanrules.Ternary:
		return field{Value: &f.Value, Mask: &f.Mask}
	case vlanrules.Range:
		return field{First: &f.First, Last: &f.Last}
	}
	return field{}
}

// smallest is the budget that asks for the smallest table, roomy one that
// leaves entries for runs over a shared value.
const (
	smallest  = 3
	unordered = 5 // what a table without priorities needs
	roomy     = 7
)

// Device is the capabilities that opts ask for.
func (o *Options) Device() vlanrules.Caps {
	if o.Caps != nil {
		return *o.Caps
	}
	caps := Generic(o.Match)
	if caps.Values = o.Values; o.Change != "" {
		change(&caps, o.Change)
	}
	return caps
}

// budget is the entries to spend, or 0 for the compiler's own default.
func (o *Options) budget() int {
	switch {
	case o.Budget > 0 || o.Caps != nil:
		return o.Budget
	case o.Values:
		return roomy
	case o.Match == vlanrules.MatchTernary:
		return smallest
	}
	return 0
}

// Explain compiles what opts ask for. A device that cannot do it, or could not
// be in the state to come from, is not an error but a verdict; errors are
// options that make no sense.
func Explain(opts Options) (*Result, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	caps, budget := opts.Device(), opts.budget()
	var compile []vlanrules.Option
	if budget > 0 {
		compile = append(compile, vlanrules.WithBudget(budget))
	}
	c := vlanrules.NewCompiler(caps, opts.Layout, compile...)

	r := &Result{
		Format: Format, Layout: opts.Layout.String(),
		Signal: opts.Signal.String(), T: uint8(opts.Signal), Aggregate: "min",
		Bucket: opts.Bucket, LM: opts.LM, VID: opts.Layout.VID(opts.Bucket, opts.LM), From: opts.From,
		Match: caps.Match, Platform: opts.Platform, layout: opts.Layout,
	}
	if opts.Signal.Max() {
		r.Aggregate = "max"
	}
	if TakesBudget(caps) {
		r.Budget = budget
	}
	want := []vlanrules.Intent{{Signal: opts.Signal, Action: vlanrules.Update, S: opts.Bucket, LM: opts.LM}}
	var res vlanrules.Result
	c.Compile(&res, nil, want)
	r.Verdict = res.Verdict
	if res.Choice != nil {
		r.Form, r.Why = res.Choice.Form.String(), res.Choice.Why
	}
	if !r.Refused() {
		r.Entries = append(guard(caps, opts.Layout), res.Table...)
	}
	if opts.From != nil {
		r.explainSteps(c, caps, opts, want)
	}
	return r, nil
}

// Refused reports whether the device cannot be in the state asked for, or
// could not be in the one to come from.
func (r *Result) Refused() bool { return r.Verdict.Level == vlanrules.Refused }

// TakesBudget reports whether a device's tables are of the kinds for which a
// number of entries to spend makes sense.
func TakesBudget(caps vlanrules.Caps) bool {
	return caps.Match == vlanrules.MatchTernary || caps.Match == vlanrules.MatchTernaryUnordered
}

// explainSteps compiles the old bucket afresh and goes from there to the new.
// Where either is refused there are no steps, but what can be shown is.
func (r *Result) explainSteps(c *vlanrules.Compiler, caps vlanrules.Caps, opts Options, want []vlanrules.Intent) {
	r.Initial, r.Steps, r.Transaction = Table{}, []Step{}, caps.Txn.String()
	var old, res vlanrules.Result
	c.Compile(&old, nil, []vlanrules.Intent{{Signal: opts.Signal, Action: vlanrules.Update, S: opts.From.Bucket, LM: opts.From.LM}})
	if old.Verdict.Level == vlanrules.Refused {
		if !r.Refused() {
			r.Verdict = vlanrules.Verdict{Level: vlanrules.Refused, Reason: "the state to come from cannot be: " + old.Verdict.Reason}
		}
		return
	}
	r.Initial = append(append(r.Initial, guard(caps, opts.Layout)...), old.Table...) // an empty table is there, too
	if r.Refused() {
		return
	}
	c.Compile(&res, old.Table, want)
	for _, op := range res.Ops {
		r.Steps = append(r.Steps, Step(op))
	}
}

// check finds options that make no sense.
func (o *Options) check() error {
	switch {
	case !o.Signal.Known():
		return fmt.Errorf("signal %s: want %s", o.Signal, quantize.SignalChoice())
	case o.Bucket >= quantize.NumBuckets:
		return fmt.Errorf("bucket %d: want 0 to %d", o.Bucket, quantize.NumBuckets-1)
	case o.LM > o.Layout.LMAllOnes():
		return fmt.Errorf("locator %d: %s has %d bits, want 0 to %d", o.LM, o.Layout, o.Layout.LMBits(), o.Layout.LMAllOnes())
	case o.From != nil && o.From.Bucket >= quantize.NumBuckets:
		return fmt.Errorf("from bucket %d: want 0 to %d", o.From.Bucket, quantize.NumBuckets-1)
	case o.From != nil && o.From.LM > o.Layout.LMAllOnes():
		return fmt.Errorf("from locator %d: %s has %d bits, want 0 to %d", o.From.LM, o.Layout, o.Layout.LMBits(), o.Layout.LMAllOnes())
	case o.Caps == nil && o.Values && o.Match != vlanrules.MatchTernaryUnordered && o.Match != vlanrules.MatchExact:
		return fmt.Errorf("shared values: they help %s and %s tables, not %s ones", vlanrules.MatchTernaryUnordered, vlanrules.MatchExact, o.Match)
	case o.Change != "" && !slices.Contains(Changes, o.Change):
		return fmt.Errorf("change %q: want %s", o.Change, strings.Join(Changes, ", "))
	case o.Caps == nil && o.Change != "" && o.Match != vlanrules.MatchRange:
		return fmt.Errorf("change: it is for range tables, not %s ones", o.Match)
	case o.Budget > 0 && o.Budget < unordered && o.Device().Match == vlanrules.MatchTernaryUnordered:
		return fmt.Errorf("budget %d: a ternary-unordered table needs %d entries for some buckets", o.Budget, unordered)
	case o.Budget < 0 || o.Budget > 0 && o.Budget < smallest:
		return fmt.Errorf("budget %d: a ternary table needs %d entries for some buckets", o.Budget, smallest)
	}
	return nil
}

// Generic is a device of one kind that changes one entry at a time, in place
// where that helps: what a platform without a name is explained with.
func Generic(kind vlanrules.MatchKind) vlanrules.Caps {
	return vlanrules.Caps{
		Match: kind, MatchPCP: true, Txn: vlanrules.TxnEntry,
		Modify: true, ModifyEntry: kind == vlanrules.MatchRange,
	}
}

// Changes are the ways in which a device changes a range: match and value in one write, a
// write each, a write for the match and one for a value that entries share, and no way at
// all, so that another is added and the old one deleted.
var Changes = []string{"entry", "apart", "shared", "replace"}

func change(caps *vlanrules.Caps, how string) {
	caps.ModifyEntry, caps.Modify = how == "entry", how == "entry" || how == "apart"
	caps.ModifyMatch, caps.Values = how == "apart" || how == "shared", how == "shared"
}

// guardID is below all IDs of signals.
const guardID = 9_000

// guard is the entry that stands for a device that leaves tags with D=1 alone
// before it looks at the table.
func guard(caps vlanrules.Caps, layout quantize.Layout) Table {
	if layout != quantize.UEC || !caps.MatchD {
		return nil
	}
	return Table{{
		ID: guardID, Priority: 0xffff, Type: vlanrules.NoOp,
		Match: vlanrules.Match{VID: vlanrules.Field{Kind: vlanrules.Ternary, Value: 1, Mask: 1}},
	}}
}

// do does one operation on a table of its own, which stays in match order.
func do(t Table, op Step) Table {
	at := slices.IndexFunc(t, func(e vlanrules.Entry) bool { return e.ID == op.Entry.ID })
	switch op.Kind {
	case vlanrules.Delete:
		return slices.Delete(t, at, at+1)
	case vlanrules.Modify:
		t[at] = op.Entry
		return t
	}
	at = len(t)
	for at > 0 && t[at-1].Priority < op.Entry.Priority {
		at--
	}
	return slices.Insert(t, at, op.Entry)
}
