package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
	"github.com/csig-agent/csig/vlanrules/explain"
)

// costModels are the devices that rules costs counts for.
func costModels() []costModel {
	with := func(kind vlanrules.MatchKind, change func(*vlanrules.Caps)) vlanrules.Caps {
		caps := explain.Generic(kind)
		change(&caps)
		return caps
	}
	same := func(*vlanrules.Caps) {}
	values := func(c *vlanrules.Caps) { c.Values = true }
	return []costModel{
		{"range", with(vlanrules.MatchRange, same), 0},
		{"range, no modify", with(vlanrules.MatchRange, func(c *vlanrules.Caps) { c.Modify, c.ModifyEntry = false, false }), 0},
		{"ternary, smallest table", with(vlanrules.MatchTernary, same), 3},
		{"ternary, budget 7", with(vlanrules.MatchTernary, same), 7},
		{"ternary, budget 7, no modify", with(vlanrules.MatchTernary, func(c *vlanrules.Caps) { c.Modify = false }), 7},
		{"ternary-unordered", with(vlanrules.MatchTernaryUnordered, same), 0},
		{"ternary-unordered, shared value", with(vlanrules.MatchTernaryUnordered, values), 7},
		{"exact", with(vlanrules.MatchExact, same), 0},
		{"exact, shared value", with(vlanrules.MatchExact, values), 0},
		{"exact, classes", with(vlanrules.MatchExact, func(c *vlanrules.Caps) { c.Classes = true }), 0},
		{"exact, classes, shared value", with(vlanrules.MatchExact, func(c *vlanrules.Caps) { c.Classes, c.Values = true, true }), 0},
	}
}

type costModel struct {
	name   string
	caps   vlanrules.Caps
	budget int
}

type costsResult struct {
	Format string    `json:"format"`
	Layout string    `json:"layout"`
	Rows   []costRow `json:"rows"`
}

type costRow struct {
	Device      string       `json:"device"`
	Form        string       `json:"form"`
	Level       string       `json:"level"`
	Reason      string       `json:"reason"`
	EntriesMean float64      `json:"entries_mean"`
	EntriesMax  int          `json:"entries_max"`
	Peak        int          `json:"peak_entries"` // at once, during a change too
	Changes     []costChange `json:"changes"`
}

type costChange struct {
	Step int     `json:"step"` // ± buckets; 0: to any other, equally likely
	Mean float64 `json:"operations_mean"`
	Max  int     `json:"operations_max"`
}

func newRulesCosts() *cobra.Command {
	var (
		layout string
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "costs",
		Short: "Entries and operations of every kind of table, counted by compiling",
		Long: `Count, by compiling, what one min signal of one port takes on every kind of
device that changes one entry at a time: entries of the table over the 32 buckets,
and operations for a change of bucket by ±1, ±2, ±4, ±8 and to any other, on a
long random walk in which each change starts from the table the last one left.`,
		Example: "  csig rules costs --layout uec",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := quantize.ParseLayout(layout)
			if err != nil {
				return err
			}
			res := costsResult{Format: "csig.rules-costs/v1", Layout: l.String()}
			for _, m := range costModels() {
				var opts []vlanrules.Option
				if m.budget > 0 {
					opts = append(opts, vlanrules.WithBudget(m.budget))
				}
				cost, verdict := vlanrules.Costs(m.caps, l, opts...)
				row := costRow{Device: m.name, Level: verdict.Level.String(), Reason: verdict.Reason, Changes: []costChange{}}
				if verdict.Level != vlanrules.Refused {
					row.Form, row.EntriesMean, row.EntriesMax, row.Peak = cost.Choice.Form.String(), cost.Entries.Mean, cost.Entries.Max, cost.Peak
					for _, ch := range cost.Changes {
						row.Changes = append(row.Changes, costChange{Step: ch.Step, Mean: ch.Walk.Mean, Max: max(ch.Walk.Max, ch.Fresh.Max)})
					}
				}
				res.Rows = append(res.Rows, row)
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), res)
			}
			return res.write(cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&layout, "layout", "draft-00", "draft-00 or uec")
	addJSON(cmd, &asJSON)
	_ = cmd.RegisterFlagCompletionFunc("layout", cobra.FixedCompletions([]string{"draft-00", "uec"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (r *costsResult) write(w io.Writer) error {
	fmt.Fprintf(w, "one min signal of one port, layout %s; operations: mean (most)\n\n", r.Layout)
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprint(tw, "DEVICE\tFORM\tENTRIES\tAT ONCE")
	for _, s := range vlanrules.CostSteps {
		if s == 0 {
			fmt.Fprint(tw, "\tANY")
		} else {
			fmt.Fprintf(tw, "\t±%d", s)
		}
	}
	fmt.Fprintln(tw)
	for _, row := range r.Rows {
		if row.Form == "" {
			fmt.Fprintf(tw, "%s\t%s: %s\n", row.Device, row.Level, row.Reason)
			continue
		}
		fmt.Fprintf(tw, "%s\t%s\t%.2f (%d)\t%d", row.Device, row.Form, row.EntriesMean, row.EntriesMax, row.Peak)
		for _, ch := range row.Changes {
			fmt.Fprintf(tw, "\t%.2f (%d)", ch.Mean, ch.Max)
		}
		fmt.Fprintln(tw)
	}
	return tw.Flush()
}
