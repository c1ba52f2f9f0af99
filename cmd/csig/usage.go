package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/quantize"
)

// usageError is a command line that cannot be meant; it names the page that
// explains how to type it.
func usageError(cmd *cobra.Command, format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	if cmd.HasParent() { // every error begins with "csig:" already
		what = strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ") + ": " + what
	}
	return fmt.Errorf("%s; see %s --help", what, cmd.CommandPath())
}

// noArgs is for commands that take flags only.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if f := cmd.Flags().Lookup("interface"); f != nil && !f.Changed && !strings.HasSuffix(args[0], ".yaml") {
		return usageError(cmd, "unexpected %q: a network interface goes with -I: %s -I %s", args[0], cmd.CommandPath(), untrusted.ShellWord(args[0]))
	}
	if f := cmd.Flags().Lookup("inventory"); f != nil && !f.Changed {
		return usageError(cmd, "unexpected %q: a fleet file goes with -i: %s -i %s", args[0], cmd.CommandPath(), untrusted.ShellWord(args[0]))
	}
	return usageError(cmd, "unexpected %q: it takes flags only", args[0])
}

// oneArg is for commands that take one argument; what describes it.
func oneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return usageError(cmd, "%s is missing", what)
		case len(args) > 1:
			return usageError(cmd, "unexpected %q: it takes one %s at a time", args[1], what)
		}
		return nil
	}
}

// groupArgs is for commands that only have sub-commands.
func groupArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	hint := "it has " + strings.Join(names, ", ")
	cmd.SuggestionsMinimumDistance = 1 // cobra's own default is none
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return fmt.Errorf("unknown command %q for %q: %s", args[0], cmd.CommandPath(), hint)
}

// flagError adds to a wrong flag's error what to do next.
func flagError(cmd *cobra.Command, err error) error {
	if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
		return groupArgs(cmd, words) // a command that does not exist has no flags
	}
	var value *pflag.InvalidValueError
	if errors.As(err, &value) {
		name := "--" + value.GetFlag().Name
		var number *strconv.NumError
		var bound *boundError
		switch {
		case errors.As(value.Unwrap(), &bound):
			return usageError(cmd, "%s %s: %v", name, value.GetValue(), bound)
		case errors.As(value.Unwrap(), &number) && errors.Is(number.Err, strconv.ErrRange):
			return usageError(cmd, "%s %q is out of range: %s", name, value.GetValue(), purpose(value.GetFlag()))
		case errors.As(value.Unwrap(), &number), value.GetFlag().Value.Type() == "duration":
			return usageError(cmd, "%s %q is not a %s", name, value.GetValue(), kindOf(value.GetFlag()))
		}
		return usageError(cmd, "%s %q: %v", name, value.GetValue(), value.Unwrap())
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedName() == "c" && cmd.Flags().Lookup("inventory") != nil {
		return usageError(cmd, "%v: the fleet file goes with -i", err) // -c is the habit of other programs
	}
	return usageError(cmd, "%v", err)
}

// purpose is a flag's help, without its default.
func purpose(f *pflag.Flag) string {
	what, _, _ := strings.Cut(f.Usage, " (")
	return what
}

// kindOf names what a flag takes.
func kindOf(f *pflag.Flag) string {
	switch kind := f.Value.Type(); {
	case strings.HasPrefix(kind, "uint"):
		return "whole number from 0 up"
	case strings.HasPrefix(kind, "int"):
		return "whole number"
	case kind == "duration":
		return "duration, e.g. 500ms, 10s or 2m"
	case kind == "bool":
		return "yes or no: leave out the value, or write true or false"
	default:
		return kind
	}
}

// requireFlags names the flags that a command cannot do without, in place of
// cobra's list of bare names.
func requireFlags(cmd *cobra.Command, _ []string) error {
	var missing []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if v := f.Value.String(); f.Changed && (v == "" || v == "[]") && slices.Contains(neverEmpty, f.Name) {
			missing = append(missing, fmt.Sprintf("--%s is empty: %s", f.Name, purpose(f)))
			return
		}
		if _, ok := f.Annotations[cobra.BashCompOneRequiredFlag]; !ok || f.Changed {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + "/" + name
		}
		missing = append(missing, fmt.Sprintf("%s is missing: %s", name, purpose(f)))
	})
	if len(missing) > 0 {
		return usageError(cmd, "%s", strings.Join(missing, "; "))
	}
	return flagGroups(cmd)
}

// cobra's errors about flags that go with each other, or do not.
var (
	notTogether  = regexp.MustCompile(`none of the others can be; \[(.*)\] were all set$`)
	onlyTogether = regexp.MustCompile(`group \[(.*)\] are set they must all be set; missing \[(.*)\]$`)
)

// flagGroups is cobra's check of them, in plainer words.
func flagGroups(cmd *cobra.Command) error {
	err := cmd.ValidateFlagGroups()
	if err == nil {
		return nil
	}
	list := func(names string) string { return "--" + strings.ReplaceAll(names, " ", ", --") }
	if m := notTogether.FindStringSubmatch(err.Error()); m != nil {
		return usageError(cmd, "%s do not go together: give one of them", list(m[1]))
	}
	if m := onlyTogether.FindStringSubmatch(err.Error()); m != nil {
		return usageError(cmd, "%s go together: %s is missing", list(m[1]), list(m[2]))
	}
	return usageError(cmd, "%v", err)
}

// neverEmpty are flags that name something: an empty name is a script's unset
// variable.
var neverEmpty = []string{"device", "interface", "output", "pcap", "platform", "socket", "svg", "target"}

// notNegative refuses a time that would read as "for ever".
func notNegative(cmd *cobra.Command, flag string, d time.Duration) error {
	if d < 0 {
		return usageError(cmd, "--%s %v is negative", flag, d)
	}
	return nil
}

// helpCommand is "csig help", with an error for a page that does not exist.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Help about any command",
		Example: "  csig help tag decode",
		RunE: func(cmd *cobra.Command, args []string) error {
			page, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				if page == nil {
					page = cmd.Root()
				}
				return groupArgs(page, append(rest, args...))
			}
			page.InitDefaultHelpFlag()
			return page.Help()
		},
	}
}

// strictCompletion gives cobra's completion command the errors of the others.
func strictCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	cmd, _, err := root.Find([]string{"completion"})
	if err != nil {
		return // cobra has left it out
	}
	cmd.Args, cmd.RunE = groupArgs, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.Example = "  csig completion bash > csig.bash"
	for _, shell := range cmd.Commands() {
		shell.Args = noArgs
		shell.Example = "  csig completion " + shell.Name()
	}
}

// choices are the values of flags that take one of a few, for completion.
var choices = map[string][]string{
	"layout":     {"draft-00", "uec"},
	"signal":     quantize.SignalNames(),
	"t":          quantize.SignalNames(),
	"change":     {"entry", "apart", "shared", "replace"},
	"match":      {"range", "ternary", "ternary-unordered", "exact"},
	"estimator":  {"raw", "ewma", "dre"},
	"graph":      {"svg", "dot"},
	"log-level":  {"error", "warn", "info", "debug"},
	"log-format": {"text", "json"},

	"snmp-version": {"2c", "3"},
	"level":        {"noAuthNoPriv", "authNoPriv", "authPriv"},
	"auth":         authNames,
	"priv":         privNames,
	"encoding":     {"proto", "json_ietf", "json"},
}

// fileFlags are the flags that take a file, with the endings to offer.
var fileFlags = map[string][]string{
	"pcap": {"pcap"}, "svg": {"svg"},
	"inventory": {"yaml", "yml"}, "journal": {"journal"}, "resume": {"journal"},
	"tls-cert": {"pem", "crt"}, "tls-key": {"pem", "key"}, "tls-ca": {"pem", "crt"}, "tls-client-ca": {"pem", "crt"}, "sign": {}, "verify": {}, "calibration": {"json"},
	"web-cert": {"pem", "crt"}, "web-key": {"pem", "key"}, "web-ca": {"pem", "crt"}, "web-token": {}, "web-plan": {"plan"},
}

// ofFleet are the flags that take a name of the fleet file that is already typed.
var ofFleet = []string{"device", "target", "from", "to"}

// fleetNames are the devices of that file and, for the ends of a path, its hosts; for a
// target, its tags and groups.
func fleetNames(cmd *cobra.Command, flag string) (names []string) {
	path, err := cmd.Flags().GetString("inventory")
	if err != nil || path == "" {
		return nil
	}
	fleet, err := inventory.Load(path)
	if err != nil {
		return nil
	}
	for i := range fleet.Devices {
		names = append(names, fleet.Devices[i].Name)
	}
	switch flag {
	case "device":
	case "target":
		tags, groups := fleet.TagsAndGroups()
		for _, tag := range tags {
			names = append(names, "tag:"+tag)
		}
		for _, group := range groups {
			names = append(names, "group:"+group)
		}
	default:
		for i := range fleet.Hosts {
			names = append(names, fleet.Hosts[i].Name)
		}
	}
	return names
}

// completeFlags registers what the shells offer behind the flags of a command
// and of all below it.
func completeFlags(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		values, fixed := choices[f.Name]
		named := slices.Contains(ofFleet, f.Name)
		ends, file := fileFlags[f.Name]
		if !fixed && !named && !file {
			return // before cobra is asked, which collects the flags of all commands above each time
		}
		if _, done := cmd.GetFlagCompletionFunc(f.Name); done {
			return
		}
		if fixed {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(slices.Clone(values), cobra.ShellCompDirectiveNoFileComp))
		}
		if named {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
				return fleetNames(cmd, f.Name), cobra.ShellCompDirectiveNoFileComp
			})
		}
		if file {
			_ = cmd.MarkFlagFilename(f.Name, ends...)
		}
	})
	for _, sub := range cmd.Commands() {
		completeFlags(sub)
	}
}

// checkedWriter keeps the first error: output to a full disk is a failure, also
// where a caller does not check. A reader that went away wants no more, which is
// no error; it kills the commands that do nothing but print.
type checkedWriter struct {
	w    io.Writer
	err  error
	gone bool // the reader is
}

func (c *checkedWriter) Write(p []byte) (int, error) {
	if c.gone {
		return len(p), nil
	}
	n, err := c.w.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		c.gone = true
		return len(p), nil
	}
	if err != nil && c.err == nil {
		c.err = err
	}
	return n, err
}
