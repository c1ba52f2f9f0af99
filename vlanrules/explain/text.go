package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// manySteps is the number of steps from which the state after each is no
// longer drawn.
const manySteps = 24

// Text draws the explanation for people.
func (r *Result) Text() string {
	var b strings.Builder
	compare := ">"
	if r.Aggregate == "max" {
		compare = "<"
	}
	fmt.Fprintf(&b, "%s(%s), %s: ", r.Aggregate, r.Signal, r.Layout)
	if r.Bucket == quantize.Signal(r.T).InitialBucket() {
		fmt.Fprintf(&b, "%d is the best bucket: nothing is updated.\n", r.Bucket)
	} else {
		fmt.Fprintf(&b, "a tag with T=%d and S %s %d leaves with S=%d and LM=%d, that is VID %d.\n", r.T, compare, r.Bucket, r.Bucket, r.LM, r.VID)
	}
	device := r.Match.String() + " table"
	if r.Platform != "" {
		device = r.Platform + ", " + device
	}
	if r.Refused() {
		fmt.Fprintf(&b, "%s: refused: %s.\n", device, r.Verdict.Reason)
		if len(r.Initial) > 0 {
			fmt.Fprintf(&b, "\nS=%d LM=%d stays:\n\n", r.From.Bucket, r.From.LM)
			r.drawTable(&b, r.Initial, "", 0)
		}
		return b.String()
	}
	fmt.Fprintf(&b, "%s, form %s: %s.\n", device, r.Form, r.Why)
	if r.Verdict.Level != vlanrules.Full {
		fmt.Fprintf(&b, "%s: %s.\n", r.Verdict.Level, r.Verdict.Reason)
	}
	b.WriteByte('\n')
	if r.From == nil {
		r.drawTable(&b, r.Entries, "", 0)
		return b.String()
	}
	r.drawSteps(&b)
	return b.String()
}

// drawSteps draws the table of the old bucket, and each step with the table
// after it.
func (r *Result) drawSteps(b *strings.Builder) {
	fmt.Fprintf(b, "from S=%d LM=%d:\n\n", r.From.Bucket, r.From.LM)
	r.drawTable(b, r.Initial, " ", 0)
	table := slices.Clone(r.Initial)
	for i, op := range r.Steps {
		if table = do(table, op); len(r.Steps) > manySteps {
			continue
		}
		sign := [...]string{vlanrules.Add: "+", vlanrules.Modify: "~", vlanrules.Delete: "-"}[op.Kind]
		fmt.Fprintf(b, "\nstep %d of %d: %s\n\n", i+1, len(r.Steps), r.describe(&op))
		r.drawTable(b, table, sign, op.Entry.ID)
	}
	if len(r.Steps) > manySteps {
		b.WriteByte('\n')
		for _, line := range r.summary() {
			fmt.Fprintf(b, "%s\n", line)
		}
		b.WriteByte('\n')
		r.drawTable(b, table, " ", 0)
	}
	fmt.Fprintf(b, "\n%s.", count(len(r.Steps), "operation"))
	switch {
	case len(r.Steps) == 0:
	case r.Transaction != vlanrules.TxnEntry.String():
		b.WriteString(" The device takes them as one transaction: no tag sees a table between.")
	default:
		if why := r.wrong(); why != "" {
			fmt.Fprintf(b, " NOT SAFE: %s.", why)
			break
		}
		b.WriteString(" After each of them, each of the 65,536 tag values leaves as before or as wanted")
		if r.Match == vlanrules.MatchTernaryUnordered {
			b.WriteString(",\nwhichever of the entries that match it wins")
		}
		b.WriteByte('.')
	}
	b.WriteByte('\n')
}

// describe is an operation in one line.
func (r *Result) describe(op *Step) string {
	e := &op.Entry
	if e.Type == vlanrules.Value {
		return fmt.Sprintf("%s %s", op.Kind, r.action(e))
	}
	s, lm := r.drawVID(&row{entry: *e, n: 1})
	what := "S=" + s
	if e.Match.VID.Kind == vlanrules.Range {
		what = s
	}
	if strings.Trim(lm, "x ") != "" {
		what += " LM=" + lm
	}
	return fmt.Sprintf("%s T=%s %s: %s", op.Kind, bits(e.Match.PCP, 3), what, r.action(e))
}

// summary counts the steps of a long sequence: those in a row that do the
// same to the same S are one line.
func (r *Result) summary() []string {
	var lines []string
	last, n := "", 0
	flush := func() {
		if n > 0 {
			lines = append(lines, fmt.Sprintf("%6s × %s", quantize.FormatCount(n), last))
		}
	}
	for _, op := range r.Steps {
		what := op.Kind.String()
		if f := &op.Entry.Match.VID; f.Kind == vlanrules.Ternary {
			what += fmt.Sprintf(" entries of S=%d", f.Value>>7)
		}
		if op.Kind != vlanrules.Delete {
			what += ": " + r.action(&op.Entry)
		}
		if what != last {
			flush()
			last, n = what, 0
		}
		n++
	}
	flush()
	return lines
}

// wrong returns after which step a tag leaves neither as before nor as wanted,
// or "". Of the 65,536 tag values it looks at those that the step's entry matches,
// before it and after it: the step changes nothing for the others.
func (r *Result) wrong() string {
	var before, wanted [1 << 16]uint16
	results(r.Initial, &before)
	results(r.Entries, &wanted)
	table := slices.Clone(r.Initial)
	for i, op := range r.Steps {
		changed := Table{op.Entry}
		for _, e := range table {
			if e.ID == op.Entry.ID || e.Type == vlanrules.UseValue && e.Ref == op.Entry.ID {
				changed = append(changed, e)
			}
		}
		table = do(table, op)
		first, left := 1<<16, uint16(0)
		for n := range changed {
			eachTag(&changed[n], func(tci int) {
				if vid, ok := r.leaves(table, tci, before[tci], wanted[tci]); !ok && tci < first {
					first, left = tci, vid
				}
			})
		}
		if first < 1<<16 {
			return fmt.Sprintf("after step %d tag %#04x leaves with VID %d", i+1, first, left)
		}
	}
	return ""
}

// leaves reports whether a tag leaves a table with one of two VIDs, or else with which. Without priorities each
// entry that matches may win.
func (r *Result) leaves(t Table, tci int, before, wanted uint16) (vid uint16, ok bool) {
	vid = uint16(tci & 0xfff)
	matched := false
	for i := range t {
		e := &t[i]
		if e.Type == vlanrules.Value || !e.Match.Matches(quantize.TCI(tci)) {
			continue
		}
		matched, vid = true, writes(t, e, tci)
		if ok = vid == before || vid == wanted; !ok || r.Match != vlanrules.MatchTernaryUnordered {
			return vid, ok
		}
	}
	return vid, matched || vid == before || vid == wanted
}

// results fills in the VID each tag leaves with, the first entry that matches
// deciding.
func results(t Table, out *[1 << 16]uint16) {
	var taken [1 << 16]bool
	for tci := range out {
		out[tci] = uint16(tci & 0xfff)
	}
	for i := range t {
		eachTag(&t[i], func(tci int) {
			if !taken[tci] {
				taken[tci], out[tci] = true, writes(t, &t[i], tci)
			}
		})
	}
}

// writes is the VID that a tag leaves with if entry e of t takes it.
func writes(t Table, e *vlanrules.Entry, tci int) uint16 {
	switch e.Type {
	case vlanrules.RewriteVID:
		return e.VID
	case vlanrules.UseValue:
		for i := range t {
			if t[i].Type == vlanrules.Value && t[i].ID == e.Ref {
				return t[i].VID
			}
		}
	}
	return uint16(tci & 0xfff)
}

// count writes "1 operation" or "2 operations".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return quantize.FormatCount(n) + " " + what + "s"
}
