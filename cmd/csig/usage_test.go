package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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
	for _, line := range []string{"nope", "tag nope", "tag decode --nope 99", "tag decode", "version x", "agent", "agent -i", "counters replay a b", "status --watch=x"} {
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
		var help strings.Builder
		cmd.SetOut(&help)
		if err := cmd.Help(); err != nil || !strings.Contains(help.String(), "\nExit codes:\n  0 ") {
			t.Errorf("%s --help has no exit codes: %v", cmd.CommandPath(), err)
		}
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
	shorts := map[string]string{"i": "inventory", "o": "output", "I": "interface", "t": "t", "h": "help", "v": "version", "y": "yes"}
	// Commands that ask one device have the letters of snmpwalk and gnmic.
	walk := map[string]string{
		"v": "snmp-version", "c": "community", "u": "username", "l": "level", "a": "auth", "A": "auth-pass", "x": "priv", "X": "priv-pass",
		"n": "context", "t": "timeout", "r": "retries", "p": "password", "e": "encoding",
	}
	free := map[string]string{
		"device": "a name of the fleet file", "dst": "an address", "interface": "a name", "note": "a sentence", "tpid": "a number", "wide-tpid": "a number",
		"vlan": "numbers", "socket": "a path that the agent chose", "host-signals": "a path that csig host run chose", "pin": "a new directory", "memory": "bytes", "socket-group": "a name or a number", "listen": "an address", "metrics": "an address", "sflow": "an address", "routed": "two addresses", "output": "a new file",
		"records": "a new file", "file": "as --records has it", "at": "a time", "web": "an address", "rate": "a rate",
		"model": "as the switch reports it", "line-card": "as its maker calls it", "asic": "as its maker calls it", "version": "as the switch reports it",
		"tcam-profile": "as the switch calls it", "config-hash": "a hash", "restart": "a command",
		"community": "a secret", "auth-pass": "a secret", "priv-pass": "a secret", "password": "a secret",
		"username": "a name", "context": "a name", "origin": "as the target calls it", "tls-server-name": "a name",
	}
	eachCommand(newRoot(), func(cmd *cobra.Command) {
		asks := cmd.Flags().Lookup("community") != nil
		cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			// One letter means one thing everywhere.
			if f.Shorthand != "" && shorts[f.Shorthand] != f.Name && (!asks || walk[f.Shorthand] != f.Name) {
				t.Errorf("%s: -%s is --%s", cmd.CommandPath(), f.Shorthand, f.Name)
			}
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

// csig plan exits with 2 when there are changes, so that what follows && behind it never
// runs: no help and no page has it.
func TestNothingFollowsAPlan(t *testing.T) {
	never := regexp.MustCompile(`csig plan\b[^\n;|]*&&`)
	if !never.MatchString("  csig plan -i f.yaml -o p && csig apply p") {
		t.Fatal("the pattern finds nothing")
	}
	eachCommand(newRoot(), func(cmd *cobra.Command) {
		if bad := never.FindString(cmd.Long + "\n" + cmd.Example); bad != "" {
			t.Errorf("%s --help: %q", cmd.CommandPath(), bad)
		}
	})
	pages := 0
	for _, pattern := range []string{"../../README.md", "../../docs/*.md", "../../examples/*"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				continue // a folder
			}
			pages++
			if bad := never.FindString(strings.ReplaceAll(string(text), "\\\n", " ")); bad != "" {
				t.Errorf("%s: %q", name, bad)
			}
		}
	}
	if pages < 30 {
		t.Errorf("only %d pages", pages)
	}
}

// Exit codes are of commands that exist.
func TestExitCodesOfCommands(t *testing.T) {
	for name := range exitCodes {
		if cmd, rest, err := newRoot().Find(strings.Fields(name)); err != nil || len(rest) > 0 || cmd.CommandPath() != "csig "+name {
			t.Errorf("%q is no command: %v", name, err)
		}
	}
}

// JSON has one unit of each kind: times are in _ns, and rates in _bps.
func TestUnitsOfJSON(t *testing.T) {
	odd := regexp.MustCompile("`json:\"([a-z0-9_]*_)?(ms|us|seconds?|secs?|ns_[a-z0-9]+|kbps|mbps|gbps|speed)(_(?:[ac-z0-9]|b[^p])[a-z0-9]*)?[\",]")
	kind := regexp.MustCompile(`"csig\.[a-z0-9.-]*_[a-z0-9._-]*/v[0-9]+"`)
	for _, tag := range []string{"`json:\"interval_ms\"`", "`json:\"age_ms_p50,omitempty\"`", "`json:\"seconds\"`", "`json:\"speed\"`"} {
		if !odd.MatchString(tag) {
			t.Fatalf("the pattern does not find %s", tag)
		}
	}
	n := 0
	err := filepath.WalkDir("../..", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		n += strings.Count(string(text), "_ns\"`")
		for _, found := range odd.FindAllString(string(text), -1) {
			if found != "`json:\"speed_from\"" && !strings.Contains(name, "counters/trace/") { // traces have their own form
				t.Errorf("%s: %s: want _ns or _bps at the end", name, found)
			}
		}
		for _, found := range kind.FindAllString(string(text), -1) {
			t.Errorf("%s: %s: kinds have hyphens", name, found)
		}
		return err
	})
	if err != nil || n < 20 {
		t.Errorf("%d times found: %v", n, err)
	}
}

// Every command with a result prints it as JSON, too.
func TestJSONEverywhere(t *testing.T) {
	without := map[string]string{
		"csig agent": "runs until it is ended", "csig host run": "runs until it is ended", "csig mesh run": "runs until it is ended", "csig help": "a page", "csig inventory schema": "is JSON", "csig mesh histograms": "is JSON",
	}
	eachCommand(newRoot(), func(cmd *cobra.Command) {
		if cmd.HasSubCommands() && cmd.Flags().Lookup("json") == nil && cmd.Name() != "qualify" || strings.HasPrefix(cmd.CommandPath(), "csig completion") {
			return
		}
		if has := cmd.Flags().Lookup("json") != nil; has == (without[cmd.CommandPath()] != "") {
			t.Errorf("%s: has --json: %v", cmd.CommandPath(), has)
		}
	})
}

// TestMeantCommandIsNamed: what is typed wrong is answered with what was meant, or with what is wrong.
func TestMeantCommandIsNamed(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"inventory chek -i x":                     `unknown command "chek" for "csig inventory": did you mean check?`,
		"inventori check":                         `unknown command "inventori" for "csig": did you mean inventory?`,
		"tag dcode --json 99":                     "did you mean decode",
		"inventory -i x":                          "unknown shorthand flag: 'i'",
		"tag decode 81000001":                     "HEX is no CSIG tag: 0x8100 is the ethertype of 802.1Q VLAN tags",
		"tag decode --wide 0800" + "000000000000": "HEX is no CSIG tag: 0x0800 is the ethertype of IPv4",
		"tag decode 05dc0001":                     "HEX is no CSIG tag: 0x05dc is below 0x0600",
	} {
		if _, err := csig(strings.Fields(typed)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("csig %s: %v, want %q", typed, err, want)
		}
	}
}
