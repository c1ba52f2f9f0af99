package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors/all"
	"github.com/csig-agent/csig/vlanrules"
	"github.com/csig-agent/csig/vlanrules/explain"
)

func newRules() *cobra.Command {
	return group("rules", "The match/action rules that carry a signal", `  csig rules explain --signal abw --bucket 11 --lm 5`, newRulesExplain())
}

// explainFlags are the flags of csig rules explain.
type explainFlags struct {
	signal, layout, match, platform, change string
	bucket, from                            uint8
	lm, fromLM                              uint16
	budget                                  int
	values, costs, asJSON                   bool
}

func newRulesExplain() *cobra.Command {
	var v explainFlags
	cmd := &cobra.Command{
		Use:   "explain --signal SIGNAL --bucket S",
		Short: "The rule table for a signal and bucket, and the steps from another",
		Long: `Draw the table that makes a switch compare and replace one signal: each entry's
bits with wildcards, its priority and action, and how many of the 32 buckets and
of the tag's values it takes. With --from, the ordered steps that lead there from
another bucket, with the state after each.

What the device cannot do is refused with the reason: the exit code is 1, and
with --json the object is printed all the same.`,
		Example: `  csig rules explain --signal abw --bucket 11 --lm 5 --match ternary
  csig rules explain --signal abwc --bucket 12 --from 11 --lm 5 --match ternary --budget 7
  csig rules explain --signal abw --bucket 7 --lm 3 --platform linux --json
  csig rules explain --costs --layout uec`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if v.costs {
				return explainCosts(cmd, &v)
			}
			o, err := v.options(cmd)
			if err != nil {
				return err
			}
			res, err := explain.Explain(o)
			if err != nil {
				return err
			}
			if v.asJSON {
				err = printJSON(cmd.OutOrStdout(), res)
			} else {
				_, err = fmt.Fprint(cmd.OutOrStdout(), res.Text())
			}
			if err == nil && res.Refused() {
				err = fmt.Errorf("rules explain: refused: %s", res.Verdict.Reason)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&v.signal, "signal", "abw", quantize.SignalChoice())
	f.Uint8Var(&v.bucket, "bucket", 0, "the port's own bucket, 0 to 31")
	f.Uint16Var(&v.lm, "lm", 1, "the locator written")
	f.Uint8Var(&v.from, "from", 0, "explain the change from this bucket")
	f.Uint16Var(&v.fromLM, "from-lm", 0, "the locator before the change (default: --lm)")
	f.StringVar(&v.layout, "layout", "draft-00", "draft-00 or uec")
	f.StringVar(&v.match, "match", "range", "what the table can match: range, ternary, ternary-unordered or exact")
	f.BoolVar(&v.values, "values", false, "ternary-unordered, exact: entries can share a value that one operation changes")
	f.StringVar(&v.change, "change", explain.Changes[0], "range: how the device changes one: entry (match and value in one write), apart (a write each), shared (the value is one that entries share) or replace (another is added, the old one deleted)")
	f.IntVar(&v.budget, "budget", 0, "ternary: entries to spend on fewer changes later (default: as few as possible)")
	f.StringVar(&v.platform, "platform", "", "a platform's own capabilities instead of --match")
	f.BoolVar(&v.costs, "costs", false, "count, by compiling, what every kind of table costs")
	addJSON(cmd, &v.asJSON)
	_ = cmd.RegisterFlagCompletionFunc("platform", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return all.Default().Drivers(), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

// explainCosts counts all kinds of table, whatever the other flags: so there
// must be none.
func explainCosts(cmd *cobra.Command, v *explainFlags) error {
	var err error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err == nil && !slices.Contains([]string{"costs", "layout", "json"}, f.Name) {
			err = usageError(cmd, "--costs counts every kind of table for any bucket: it goes with --layout and --json, not with --%s", f.Name)
		}
	})
	if err != nil {
		return err
	}
	l, err := quantize.ParseLayout(v.layout)
	if err != nil {
		return err
	}
	table := explain.Costs(l)
	if v.asJSON {
		return printJSON(cmd.OutOrStdout(), table)
	}
	_, err = fmt.Fprint(cmd.OutOrStdout(), table.Text())
	return err
}

// options is what the flags ask to explain. Flags that contradict each other,
// or that would change nothing, are errors.
func (v *explainFlags) options(cmd *cobra.Command) (explain.Options, error) {
	o := explain.Options{Bucket: v.bucket, LM: v.lm, Budget: v.budget, Platform: v.platform, Values: v.values}
	given := cmd.Flags().Changed
	if !given("bucket") {
		return o, usageError(cmd, "--bucket is missing: the port's own bucket, 0 to 31")
	}
	if given("from-lm") && !given("from") {
		return o, usageError(cmd, "--from-lm goes with --from")
	}
	var err error
	if o.Signal, err = quantize.ParseSignal(v.signal); err != nil {
		return o, err
	}
	if o.Layout, err = quantize.ParseLayout(v.layout); err != nil {
		return o, err
	}
	if o.Match, err = vlanrules.ParseMatchKind(v.match); err != nil {
		return o, usageError(cmd, "--match: %v", err)
	}
	if given("change") {
		o.Change = v.change
	}
	if given("platform") {
		for _, other := range []string{"match", "values", "change"} {
			if given(other) {
				return o, usageError(cmd, "--platform %s brings capabilities of its own: leave out --%s", v.platform, other)
			}
		}
		p, err := all.Default().Platform(v.platform)
		if err != nil {
			return o, fmt.Errorf("--platform: %w", err)
		}
		if p.Open == nil || p.Offline().SetupOnly {
			return o, fmt.Errorf("--platform %s: there are no rules to explain: %s", v.platform, p.Offline().Update.Reason)
		}
		o.Caps = &p.Rules
	}
	if caps := o.Device(); given("budget") && !explain.TakesBudget(caps) {
		return o, usageError(cmd, "--budget is for ternary and ternary-unordered tables: this one is %s", caps.Match)
	}
	if given("from") {
		o.From = &explain.State{Bucket: v.from, LM: v.lm}
		if given("from-lm") {
			o.From.LM = v.fromLM
		}
	}
	return o, nil
}
