package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors/all"
	"github.com/csig-agent/csig/vlanrules"
	"github.com/csig-agent/csig/vlanrules/explain"
)

func newRules() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "rules",
		Short:   "The match/action rules that carry a signal",
		Example: `  csig rules explain --signal abw --bucket 11 --lm 5`,
		Args:    groupArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newRulesExplain())
	return cmd
}

// matchKinds are the kinds of --match.
var matchKinds = []vlanrules.MatchKind{vlanrules.MatchRange, vlanrules.MatchTernary, vlanrules.MatchTernaryUnordered, vlanrules.MatchExact}

func parseMatchKind(name string) (vlanrules.MatchKind, error) {
	for _, k := range matchKinds {
		if k.String() == name {
			return k, nil
		}
	}
	return 0, fmt.Errorf("--match %q: want range, ternary, ternary-unordered or exact", name)
}

func newRulesExplain() *cobra.Command {
	var (
		signal, layout, match, platform string
		bucket, from                    uint8
		lm, fromLM                      uint16
		budget                          int
		costs, asJSON                   bool
	)
	cmd := &cobra.Command{
		Use:   "explain --signal SIGNAL --bucket S",
		Short: "The rule table for a signal and bucket, and the steps from another",
		Long: `Draw the table that makes a switch compare and replace one signal: each entry's
bits with wildcards, its priority and action, and how many of the 32 buckets and
of the tag's values it takes. With --from, the ordered steps that lead there from
another bucket, with the state after each.`,
		Example: `  csig rules explain --signal abw --bucket 11 --lm 5 --match ternary
  csig rules explain --signal abwc --bucket 12 --from 11 --lm 5 --match ternary --budget 7
  csig rules explain --signal abw --bucket 7 --lm 3 --platform linux --json
  csig rules explain --costs --layout uec`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if costs {
				l, err := quantize.ParseLayout(layout)
				if err != nil {
					return err
				}
				table := explain.Costs(l)
				if asJSON {
					return printJSON(cmd.OutOrStdout(), table)
				}
				_, err = fmt.Fprint(cmd.OutOrStdout(), table.Text())
				return err
			}
			if !cmd.Flags().Changed("bucket") {
				return usageError(cmd, "--bucket is missing: the port's own bucket, 0 to 31")
			}
			o := explain.Options{Bucket: bucket, LM: lm, Budget: budget, Platform: platform}
			var err error
			if o.Signal, err = quantize.ParseSignal(signal); err != nil {
				return err
			}
			if o.Layout, err = quantize.ParseLayout(layout); err != nil {
				return err
			}
			if o.Match, err = parseMatchKind(match); err != nil {
				return err
			}
			if platform != "" {
				p, err := all.Default().Platform(platform)
				if err != nil {
					return fmt.Errorf("--platform: %w", err)
				}
				o.Caps = &p.Rules
			}
			if cmd.Flags().Changed("from") {
				o.From = &explain.State{Bucket: from, LM: lm}
				if cmd.Flags().Changed("from-lm") {
					o.From.LM = fromLM
				}
			} else if cmd.Flags().Changed("from-lm") {
				return fmt.Errorf("--from-lm goes with --from")
			}
			res, err := explain.Explain(o)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), res)
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), res.Text())
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&signal, "signal", "abw", "abw, abwc, pd or nqd")
	f.Uint8Var(&bucket, "bucket", 0, "the port's own bucket, 0 to 31")
	f.Uint16Var(&lm, "lm", 1, "the locator written")
	f.Uint8Var(&from, "from", 0, "explain the change from this bucket")
	f.Uint16Var(&fromLM, "from-lm", 0, "the locator before the change (default: --lm)")
	f.StringVar(&layout, "layout", "draft-00", "draft-00 or uec")
	f.StringVar(&match, "match", "range", "what the table can match: range, ternary, ternary-unordered or exact")
	f.IntVar(&budget, "budget", 0, "ternary: entries to spend on fewer changes later (default: as few as possible)")
	f.StringVar(&platform, "platform", "", "a platform's own capabilities instead of --match")
	f.BoolVar(&costs, "costs", false, "count, by compiling, what every kind of table costs")
	addJSON(cmd, &asJSON)
	for name, values := range map[string][]string{
		"signal": {"abw", "abwc", "pd", "nqd"}, "layout": {"draft-00", "uec"},
		"match": {"range", "ternary", "ternary-unordered", "exact"}, "platform": all.Default().Platforms(),
	} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	return cmd
}
