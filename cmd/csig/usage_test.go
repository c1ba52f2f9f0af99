package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// eachCommand visits every command but cobra's hidden ones.
func eachCommand(root *cobra.Command, visit func(*cobra.Command)) {
	if root.Hidden {
		return
	}
	visit(root)
	for _, cmd := range root.Commands() {
		eachCommand(cmd, visit)
	}
}

// words splits a line as a shell does, up to a pipe, a redirection or a
// comment.
func words(line string) []string {
	var out []string
	for _, w := range strings.Fields(line) {
		if strings.HasPrefix(w, "|") || strings.HasPrefix(w, ">") || strings.HasPrefix(w, "#") || w == "&&" || w == "&" {
			break
		}
		end := strings.HasSuffix(w, ";")
		out = append(out, strings.Trim(w, `"';`))
		if end {
			break
		}
	}
	return out
}

// checkLine returns what is wrong with a command line behind "csig": an unknown
// command or flag and, where the line is whole, a wrong number of arguments or
// a flag that is missing.
func checkLine(line string, whole bool) error {
	root := newRoot()
	args := words(line)
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); errors.Is(err, pflag.ErrHelp) {
		return nil
	} else if err != nil {
		return flagError(cmd, err)
	}
	if cmd.HasSubCommands() {
		return groupArgs(cmd, cmd.Flags().Args())
	}
	if !whole {
		return nil
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		return err
	}
	return requireFlags(cmd, nil)
}

func TestCheckLineFindsMistakes(t *testing.T) {
	for _, line := range []string{"nope", "tag nope", "tag decode --nope 99", "tag decode", "version x", "agent", "agent -c", "counters replay a b", "status --watch=x"} {
		if checkLine(line, true) == nil {
			t.Errorf("csig %s: no mistake found", line)
		}
	}
}

// Every help page ends with lines that can be typed.
func TestEveryCommandHasExamplesThatParse(t *testing.T) {
	n := 0
	eachCommand(newRoot(), func(cmd *cobra.Command) {
		n++
		if cmd.Short == "" || cmd.Example == "" {
			t.Errorf("%s has no Short or no Example", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Example) {
			line = strings.TrimSpace(line)
			rest, ok := strings.CutPrefix(line, "csig")
			if !ok {
				t.Errorf("%s: the example %q does not start with csig", cmd.CommandPath(), line)
				continue
			}
			if err := checkLine(rest, true); err != nil {
				t.Errorf("%s: the example %q: %v", cmd.CommandPath(), line, err)
			}
		}
	})
	if n < 15 {
		t.Errorf("only %d commands found", n)
	}
}

// The shells offer the values of every flag that takes one of a few, and files
// for every flag that takes a file. A new text flag is either completed or
// listed here as free text.
func TestTextFlagsAreCompleted(t *testing.T) {
	free := map[string]string{
		"device": "a name of the fleet file", "dst": "an address", "interface": "a name", "note": "a sentence", "tpid": "a number", "wide-tpid": "a number",
		"vlan": "numbers", "socket": "a path that the agent chose", "socket-group": "a name or a number", "listen": "an address", "sflow": "an address", "output": "a new file",
		"model": "as the switch reports it", "line-card": "as its maker calls it", "asic": "as its maker calls it", "version": "as the switch reports it",
		"tcam-profile": "as the switch calls it", "config-hash": "a hash", "restart": "a command",
	}
	eachCommand(newRoot(), func(cmd *cobra.Command) {
		cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() != "string" || free[f.Name] != "" {
				return
			}
			_, values := cmd.GetFlagCompletionFunc(f.Name)
			if _, file := f.Annotations[cobra.BashCompFilenameExt]; !values && !file {
				t.Errorf("%s --%s: neither completed nor free text", cmd.CommandPath(), f.Name)
			}
		})
	})
	for _, c := range []struct{ args, want string }{
		{"agent --log-level ", "debug"}, {"agent --log-format ", "json"}, {"tag encode --signal ", "abwc"}, {"tag encode --t ", "pd"}, {"tag decode --layout ", "uec"},
		{"probe send --layout ", "uec"}, {"rules explain --match ", "ternary-unordered"}, {"rules explain --platform ", "linux"}, {"counters replay --estimator ", "ewma"},
	} {
		out, err := csig(append([]string{"__complete"}, strings.Split(c.args, " ")...)...)
		if err != nil || !strings.Contains(out, c.want) {
			t.Errorf("csig %s<TAB> offers %q, %v, want %s among it", c.args, out, err, c.want)
		}
	}
}

// Times and numbers that no run can have are refused while the command line is
// read, before there is a journal; those at the edge are taken.
func TestBounds(t *testing.T) {
	apply, rollback, off, plan, assess := "apply P ", "rollback J ", "off -i F ", "plan -i F ", "assess -i F "
	for line, want := range map[string]string{
		apply + "--revert 500ms":      "apply: --revert 500ms: want 1s or more, or 0; see csig apply --help",
		apply + "--revert=-5s":        "apply: --revert -5s: want 1s or more, or 0",
		apply + "--soak=-1s":          "apply: --soak -1s: want 1ms or more, or 0",
		apply + "--check-timeout=-1s": "apply: --check-timeout -1s: want 1ms or more, or 0",
		apply + "--timeout=-1s":       "apply: --timeout -1s: want 1ms or more",
		apply + "--timeout 0":         "apply: --timeout 0: want 1ms or more",
		apply + "--parallel=-3":       "apply: --parallel -3: want 1 or more",
		apply + "--parallel 0":        "apply: --parallel 0: want 1 or more",
		apply + "--timeout soon":      "apply: --timeout \"soon\" is not a duration",
		rollback + "--revert 999ms":   "rollback: --revert 999ms: want 1s or more, or 0",
		rollback + "--timeout=-1s":    "rollback: --timeout -1s: want",
		rollback + "--parallel 0":     "rollback: --parallel 0: want",
		off + "--timeout=-1s":         "off: --timeout -1s: want",
		off + "--parallel=-3":         "off: --parallel -3: want",
		plan + "--timeout 0s":         "plan: --timeout 0s: want",
		plan + "--parallel 0":         "plan: --parallel 0: want",
		assess + "--timeout=-1s":      "assess: --timeout -1s: want",
		assess + "--parallel 0":       "assess: --parallel 0: want",

		apply + "--revert 0 --soak 0 --check-timeout 0 --parallel 1 --timeout 1ms": "",
		rollback + "--revert 1s": "",
	} {
		switch err := checkLine(line, false); {
		case want == "" && err != nil:
			t.Errorf("%s: %v", line, err)
		case want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)):
			t.Errorf("%s: got %v, want %s", line, err, want)
		}
	}
}
