package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/csig-agent/csig/cmd/process"
	"github.com/csig-agent/csig/inventory/outfile"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:     "csig",
		Version: version, // csig --version prints the same as csig version
		Short:   "Congestion Signaling on switches that were never built for it",
		Long: `csig reads a switch's byte counters, computes the available bandwidth of each
egress port, and updates the VLAN match/action rules that write it into the CSIG
tag of passing frames, so that receivers learn their path's bottleneck.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Example: `  csig demo
  csig agent -i tor.yaml --dry-run
  csig tag decode 99002385`,
		Args:              groupArgs,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: requireFlags,
	}
	root.InitDefaultVersionFlag()
	root.SetVersionTemplate(process.VersionText("csig", version) + "\n")
	process.ExitCodes(root, "{{exitCodes .}}")
	root.SetFlagErrorFunc(flagError)
	for _, cmd := range []*cobra.Command{newDemo(), newAgent(), newStatus(), newVersion()} {
		cmd.Args = noArgs
		root.AddCommand(cmd)
	}
	root.AddCommand(newApply(), newAssess(), newCounters(), newHost(), newInventory(), newJournals(), newMesh(), newOff(), newPlan(), newPlatforms(), newProbe(), newQualify(), newRollback(), newRules(), newSimulate(), newTag(), newWhy())
	root.SetHelpCommand(helpCommand())
	strictCompletion(root)
	completeFlags(root)
	return root
}

// group is a command that only has sub-commands.
func group(use, short, example string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Example: example, Args: groupArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(subs...)
	return cmd
}

// addFleet adds the flag that names the fleet file.
func addFleet(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVarP(file, "inventory", "i", "", "fleet file (required)")
	_ = cmd.MarkFlagRequired("inventory")
}

// addAtOnce adds the flags that say how many devices csig works on at once, and how
// long it waits for one.
func addAtOnce(f *pflag.FlagSet, parallel *int, most int, what string, timeout *time.Duration, wait time.Duration, each string) {
	f.IntVar(parallel, "parallel", most, what)
	f.DurationVar(timeout, "timeout", wait, each)
	atLeast(f, "parallel", parallel, 1, false)
	atLeast(f, "timeout", timeout, time.Millisecond, false)
}

// addJSON adds the --json flag that every command with a result has.
func addJSON(cmd *cobra.Command, v *bool) {
	cmd.Flags().BoolVar(v, "json", false, "print one JSON object instead of text")
}

// printJSON prints one result.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

type versionInfo struct {
	Format  string `json:"format"`
	Version string `json:"version"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  csig version --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := versionInfo{"csig.version/v1", version, runtime.Version(), runtime.GOOS, runtime.GOARCH}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), v)
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), process.VersionText("csig", version))
			return err
		},
	}
	addJSON(cmd, &asJSON)
	return cmd
}

// printLine prints one result of many, a line each.
func printLine(w io.Writer, v any) error { return json.NewEncoder(w).Encode(v) }

// createNew opens a file for output. What is there already stays, unless it is
// empty, a pipe or a terminal, and no link is followed.
func createNew(path string) (*os.File, error) { return outfile.Create(path, 0o644, nil) }
