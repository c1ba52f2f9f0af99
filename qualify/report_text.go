package qualify

import (
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	textHead     = "csig qualification"
	markdownHead = "# " + textHead
)

// title names what a report is about.
func (r *Report) title() string {
	if r.Cable {
		return textHead + ": calibration of the cards"
	}
	return textHead + " of " + r.Switch.Device
}

// rows are what a report says of itself.
func (r *Report) rows() [][2]string {
	var cables []string
	for _, p := range r.Ports {
		name := p.Port + " = " + p.Card
		if r.Cable {
			name = p.Card
		}
		cables = append(cables, fmt.Sprintf("%s (MTU %d)", name, p.MTU))
	}
	or := func(text string) string {
		if text == "" {
			return "not known"
		}
		return text
	}
	tpid := fmt.Sprintf("0x%04x", r.TPID)
	if r.WideTPID != 0 {
		tpid += fmt.Sprintf(", 0x%04x (wide)", r.WideTPID)
	}
	rows := [][2]string{{"cables", strings.Join(cables, ", ")}, {"TPID", tpid}}
	if !r.Cable {
		s := &r.Switch
		calibrated := "not calibrated: what the cards do counts as the switch's"
		if r.Calibrated != "" {
			calibrated = "calibrated " + r.Calibrated
		}
		rows = append([][2]string{
			{"platform", s.Platform}, {"model", or(s.Model)}, {"line card", or(s.LineCard)}, {"ASIC", or(s.ASIC)}, {"version", or(s.Version)},
			{"TCAM profile", or(s.TCAMProfile)}, {"config hash", or(s.ConfigHash)},
		}, append(rows, [2]string{"cards", calibrated})...)
	}
	state := "ended " + r.Ended.Format(time.RFC3339)
	if !r.Complete {
		state = "not complete: --resume continues it"
	}
	rows = append(rows, [2]string{"began", r.Began.Format(time.RFC3339)}, [2]string{"state", state}, [2]string{"csig", r.CSIG})
	if r.Cable && len(r.Only) == 0 {
		rows = append(rows, [2]string{"experiments", "those that need no switch"})
	}
	if len(r.Only) > 0 {
		rows = append(rows, [2]string{"experiments", "only " + strings.Join(r.Only, ", ")})
	}
	if r.Foreign > 0 {
		rows = append(rows, [2]string{"caution", fmt.Sprintf("the ports are not isolated: %d foreign frames arrived, one %s", r.Foreign, r.Example)})
	}
	if r.NoFacts != "" {
		rows = append(rows, [2]string{"facts", r.NoFacts})
	}
	if r.Touched {
		rows = append(rows, [2]string{"caution", "the device may have a setup of this run: --resume or csig off removes it"})
	}
	return rows
}

// Summary counts the outcomes.
func (r *Report) Summary() string {
	return fmt.Sprintf("%d pass, %d fail, %d not tested", r.Count(Pass), r.Count(Fail), r.Count(NotTested))
}

// repeat says how experiments that were not tested are repeated; "" where all were.
func (r *Report) repeat() string {
	if r.Cable {
		return ""
	}
	for i := range r.Results {
		if r.Results[i].Outcome == NotTested {
			return fmt.Sprintf("Once what one needs is there, repeat it: --resume --only %s. The other results stay.", r.Results[i].ID)
		}
	}
	return ""
}

// number is a measured value as people read it.
func (n *Number) number() string { return fmt.Sprintf("%s %.6g", n.Name, n.Value) }

// lines are what a result says below its first line.
func (r *Result) lines() []string {
	var out []string
	for i, f := range r.Faults {
		if i > 0 || f.Text != r.Found {
			out = append(out, f.Text+" ["+f.Code+"]")
		}
	}
	out = append(out, r.Notes...)
	if len(r.Numbers) > 0 {
		var list []string
		for i := range r.Numbers {
			list = append(list, r.Numbers[i].number())
		}
		out = append(out, strings.Join(list, ", "))
	}
	if f := &r.Frames; f.Sent > 0 {
		out = append(out, fmt.Sprintf("frames: %d sent, %d arrived; %.0f a second, listened for %.0f ms more", f.Sent, f.Arrived, f.PerSecond, ms(f.Listened)))
	}
	for _, c := range r.Controls {
		kind, held := "negative", fmt.Sprintf("held %d times", c.Times)
		if c.Positive {
			kind = "positive"
		}
		if c.Times == 1 {
			held = "held once"
		}
		if c.Failed != "" {
			held = "does not hold: " + c.Failed
		}
		out = append(out, fmt.Sprintf("%s control: %s: %s", kind, c.What, held))
	}
	return out
}

// WriteText writes the report for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", r.title())
	for _, row := range r.rows() {
		fmt.Fprintf(&b, "  %-13s %s\n", row[0], row[1])
	}
	b.WriteString("\n")
	for i := range r.Results {
		res := &r.Results[i]
		fmt.Fprintf(&b, "%-10s  %-12s %s\n", res.Outcome, res.ID, res.Title)
		if res.Found != "" {
			fmt.Fprintf(&b, "            %s\n", res.Found)
		}
		for _, line := range res.lines() {
			fmt.Fprintf(&b, "            - %s\n", line)
		}
	}
	fmt.Fprintf(&b, "\n%s\n", r.Summary())
	if how := r.repeat(); how != "" {
		fmt.Fprintln(&b, how)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteMarkdown writes the report for a ticket.
func (r *Report) WriteMarkdown(w io.Writer) error {
	cell := strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n\n| | |\n|---|---|\n", r.title(), strings.TrimSpace(r.Summary()+"\n"+r.repeat()))
	for _, row := range r.rows() {
		fmt.Fprintf(&b, "| %s | %s |\n", row[0], cell(row[1]))
	}
	b.WriteString("\n| experiment | question | outcome | found |\n|---|---|---|---|\n")
	for i := range r.Results {
		res := &r.Results[i]
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", res.ID, cell(res.Title), res.Outcome, cell(res.Found))
	}
	for i := range r.Results {
		res := &r.Results[i]
		fmt.Fprintf(&b, "\n## %s: %s\n\n%s: %s\n\n", res.ID, res.Outcome, cell(res.Title), cell(res.Found))
		for _, line := range res.lines() {
			fmt.Fprintf(&b, "- %s\n", cell(line))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
