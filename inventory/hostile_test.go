package inventory

import (
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// shorter is by how much the huge texts of these tests are shorter than those of TestLongHuge: each is longer
// than any limit that csig sets.
var shorter = 16

// TestLongHuge has the tests read their huge texts in full, and draw more.
func TestLongHuge(t *testing.T) {
	defer func(n int) { shorter = n }(shorter)
	shorter = 1
	for name, test := range map[string]func(*testing.T){
		"hostile files": TestHostileFiles, "odd files": TestOddFiles, "foreign files": TestForeignFilesAreNotShown,
		"above linear": nothingAboveLinear, "odd places": TestOddPlaces, "slips": TestSlipsShowNoSecret, "allocation": TestAllocationOnPaths,
		"round trip": TestRoundTrip, "facts": TestMarshalFacts, "allocation of what is given": TestAllocationRespectsWhatIsGiven,
	} {
		t.Run(name, test)
	}
}

// draw checks a property with a hundred draws, or with 25 where TestLongHuge has the others.
func draw(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	if checks := flag.Lookup("rapid.checks").Value; shorter > 1 && checks.String() == "100" { // nobody has asked for others
		_ = checks.Set("25")
		defer checks.Set("100") //nolint:errcheck // it was that
	}
	rapid.Check(t, property)
}

// TestHostileFiles reads files made to exhaust a reader: refused with a place in the
// file, and where a bound is what keeps them cheap, by that bound.
func TestHostileFiles(t *testing.T) {
	laughs := "format: csig.fleet/v1\na0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha]\n"
	for i := range 12 {
		one := fmt.Sprintf("*a%d", i)
		laughs += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.Join([]string{one, one, one, one, one, one, one, one, one}, ", "))
	}
	// The same where the format takes lists and mappings: 300 devices with 300
	// ports with 300 wrong locator values, 27 million values in 9 kB.
	repeat := func(n int, s string) string { return strings.TrimSuffix(strings.Repeat(s+", ", n), ", ") }
	var fields strings.Builder
	for i := range 300 {
		fmt.Fprintf(&fields, "f%d: 1, ", i)
	}
	good, _, _ := strings.Cut(good, "devices:")
	bomb := good + "devices:\n  - &d {name: s1, platform: linux, ports: &p [&q {name: a, lm: {" + fields.String() + "}}, " + repeat(300, "*q") + "]}\n" + strings.Repeat("  - *d\n", 300)

	n := 1 << 16 / shorter
	rows := []struct{ name, text, want string }{
		{"billion laughs", laughs, `unknown key`},
		{"billion laughs in the format", bomb, `has no field "f0"`},
		{"anchor in itself", "&a [*a]", `found a list`},
		{"anchors in a ring", "format: &a [*b]\nprofile: &b [*a]", `found a list`},
		{"device in itself", good + "devices: &d\n  - *d\n", `found a list`},
		{"ports in themselves", good + "devices:\n  - {name: s1, platform: linux, ports: &p [*p]}\n", `found a list`},
		{"name in itself", good + "devices:\n  - name: &n *n\n", `YAML syntax`},
		{"endless braces", strings.Repeat("{", n), `nested more`},
		{"endless brackets, closed", strings.Repeat("[", n) + strings.Repeat("]", n), `nested more`},
		{"endless mappings in one line", strings.Repeat("{a: ", n), `nested more`},
		{"endless list entries in one line", strings.Repeat("- ", n) + "a", `nested more`},
		{"endless keys in one line", strings.Repeat("a: ", n), `nested more`},
		{"endless complex keys", strings.Repeat("? ", n) + "a", `keys that begin with "?"`},
		{"many complex keys", strings.Repeat("? a\n", n), `keys that begin with "?"`},
		{"endless arrows", strings.Repeat("<", n), `in a row`},
		{"endless tags of nothing", strings.Repeat("- !a\n", n), `values are empty`},
		{"endless documents of a word", strings.Repeat("--- a\n", n), `one YAML document`},
		{"endless tags", strings.Repeat("!a ", n) + "a", `YAML syntax`},
		{"endless anchors", strings.Repeat("&a ", n) + "a", `YAML syntax`},
		{"endless aliases", "a: [" + strings.Repeat("*a,", n) + "]", `unknown key`},
		{"aliases beyond number", strings.Replace(good, "log-10G", "[&r ["+repeat(1100, "0")+"], "+repeat(600, "*r")+"]", 1), "stands for more than"},
		{"endless empty entries", strings.Repeat("-\n", n), `values are empty`},
		{"endless empty keys", strings.Repeat("- a:\n", n), `values are empty`},
		{"endless keys in braces", "{" + strings.Repeat("a: 1,", n) + "}", `keys in one mapping`},
		{"endless empty keys in braces", "{" + strings.Repeat("a,", n) + "}", `values are empty`},
		{"endless empty keys in many braces", "[" + strings.Repeat("{a,b,c},", n/4) + "]", `values are empty`},
		{"endless open ends in brackets", "[" + strings.Repeat("a:,", n) + "]", `found a list`},
		{"keys beyond number", manyKeys(20_000 / shorter), `keys in one mapping`},
		{"keys beyond number, in many mappings", strings.Repeat("- "+strings.ReplaceAll(strings.TrimSpace(manyKeys(1000)), "\n", "\n  ")+"\n", 100/shorter), `found a list`},
		{"endless commas", "[" + strings.Repeat(",", n) + "]", `YAML syntax`},
		{"endless documents", strings.Repeat("---\n", n), `empty`},
		{"endless directives", strings.Repeat("%a\n", n), `YAML syntax`},
		{"endless comments", strings.Repeat("# a\n", n), `empty`},
		{"endless empty lines", strings.Repeat("\n", n), `empty`},
		{"a staircase", staircase(2500 / shorter), `nested more`},
		{"a long word", "format: " + strings.Repeat("a", (4<<20-64)/shorter), `not a fleet format`},
		{"a long line of errors", good + "devices: [" + repeat(n, "1") + "]", `found "1"`},
		{"too long", strings.Repeat("a", MaxFileSize+1), `at most 4194304`},
		{"a long text in quotes", `format: "` + strings.Repeat(`\x41`, n) + `"`, `not a fleet format`},
		{"a long block of text", "format: |\n" + strings.Repeat("  a\n", n), `found a block of text`},
		{"endless quotes", strings.Repeat(`"`, n), `YAML syntax`},
		{"endless apostrophes", strings.Repeat(`'`, n+1), `YAML syntax`},
		{"wrong ports", good + "devices:\n  - name: s1\n    platform: linux\n    ports:\n" + strings.Repeat("      - {nam: 1, spd: 2}\n", 10_000/shorter), `unknown key "nam"`},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			start := time.Now()
			text := "# " + Format + "\n" + row.text // else it is none, and not even looked at
			_, err := Parse("hostile.yaml", []byte(text))
			t.Logf("%d bytes in %s", len(text), time.Since(start))
			checkErrors(t, text, err)
			if !strings.Contains(err.Error(), row.want) {
				text := err.Error()
				t.Errorf("got %s, want %q", text[:min(len(text), 500)], row.want)
			}
		})
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: 1\n", i)
	}
	return b.String()
}

func staircase(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

// checkErrors wants Errors, each with its place in the text and a bounded
// size.
func checkErrors(t *testing.T, text string, err error) {
	t.Helper()
	var list Errors
	if !errors.As(err, &list) || len(list) == 0 {
		t.Fatalf("got %v, want Errors", err)
	}
	if len(list) > maxErrors+1 {
		t.Errorf("%d errors", len(list))
	}
	lines := strings.Split(strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n"), "\n")
	for _, e := range list {
		if e.Line < 1 || e.Line > len(lines) || e.Col < 1 || e.Col > len([]rune(lines[e.Line-1]))+1 {
			t.Errorf("%d:%d is not in the text", e.Line, e.Col)
		}
		if e.Msg == "" || e.File == "" {
			t.Errorf("%+v says nothing", e)
		}
		if len(e.Snippet) > 1000 {
			t.Errorf("a snippet of %d bytes", len(e.Snippet))
		}
	}
}

// TestTooManyPorts wants one mistake of a fleet with more ports than may be: what
// was left out because of it is not missed.
func TestTooManyPorts(t *testing.T) {
	text := strings.Replace(good, "devices:\n", "devices:\n  - {name: \"b-[1-300]\", platform: linux, ports: [{name: \"swp[1-4000]\"}]}\n", 1)
	_, err := Parse("fleet.yaml", []byte(text+"links: ['b-1:swp1 - s2:swp2']\n"))
	var list Errors
	if !errors.As(err, &list) || len(list) != 1 || !strings.Contains(list[0].Msg, "more than 1048576 ports") {
		t.Errorf("got %v", err)
	}
}
