// Command testtimes says where the time of tests goes:
//
//	go run ./integration/testtimes FILE ...
//
// A FILE is what gotestsum --jsonfile wrote: one run of go test. For each the time from its first
// to its last event, then all packages and the slowest tests, in seconds of the real clock, waits
// included and pauses of parallel tests left out. A test is one with its subtests; what ran
// more than once is summed, and says how often. Then come the ends of what failed, whole in FILE, and
// last, for who sees only the end of this, the messages of tests that failed.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	most  = 40 // tests that are printed
	lines = 80 // of the output of one that failed

	messages = 8   // of one that failed
	length   = 300 // bytes of a message
)

// message is a line with which a test's own t.Log or t.Error begins, not that of what helps it.
var message = regexp.MustCompile(`^ +\w+_test\.go:\d+: `)

// event is one line of go test -json.
type event struct {
	Time          time.Time
	Action        string
	Package, Test string
	Elapsed       float64 // s
	Output        string
}

// taken is how long a package or a test took, and how often it ran to its end.
type taken struct {
	name    string
	seconds float64
	runs    int
	failed  int
}

// times are those of one or more runs.
type times struct {
	packages, tests map[string]*taken
	output          map[[2]string][]string // of packages and tests that have not ended, the last lines
	messages        map[[2]string][]string // of the same, the last messages
	failed, short   []string               // the outputs and the messages of those that failed, each a text
}

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "testtimes:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, files []string) error {
	if len(files) == 0 {
		return errors.New("name files of gotestsum --jsonfile")
	}
	all := times{packages: map[string]*taken{}, tests: map[string]*taken{}, output: map[[2]string][]string{}, messages: map[[2]string][]string{}}
	var total time.Duration
	for _, name := range files {
		took, err := all.file(name)
		if err != nil {
			return err
		}
		total += took
		fmt.Fprintf(w, "%8.1f s  %s\n", took.Seconds(), filepath.Base(name))
	}
	fmt.Fprintf(w, "%8.1f s  in all, since the first package began\n", total.Seconds())
	list(w, "packages", all.packages, len(all.packages))
	list(w, "tests", all.tests, most)
	for _, text := range slices.Concat(all.failed, all.short) {
		fmt.Fprint(w, text)
	}
	return nil
}

// file adds the events of a file, and returns the time from the first to the last.
func (t *times) file(name string) (time.Duration, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // only read
	var first, last time.Time
	events := bufio.NewScanner(f)
	events.Buffer(nil, 16<<20)
	for n := 1; events.Scan(); n++ {
		var e event
		if err := json.Unmarshal(events.Bytes(), &e); err != nil {
			return 0, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		if e.Time.IsZero() { // of a build
			continue
		}
		if first.IsZero() {
			first = e.Time
		}
		last = e.Time
		t.add(e)
	}
	return last.Sub(first), events.Err()
}

func (t *times) add(e event) {
	of := [2]string{e.Package, e.Test}
	switch e.Action {
	case "output":
		t.output[of] = last(t.output[of], lines, e.Output)
		if message.MatchString(e.Output) {
			t.messages[of] = last(t.messages[of], messages, strings.TrimRight(e.Output[:min(len(e.Output), length)], "\n")+"\n")
		}
		return
	case "pass", "skip":
		delete(t.output, of)
		delete(t.messages, of)
	case "fail":
		t.fail(of)
	}
	if e.Action == "fail" && e.Test == "" { // a panic or the end of go test's time ends others
		for _, other := range slices.SortedFunc(maps.Keys(t.output), func(a, b [2]string) int { return cmp.Compare(a[1], b[1]) }) {
			if other[0] == e.Package {
				t.fail(other)
			}
		}
	}
	if e.Action != "pass" && e.Action != "fail" || strings.Contains(e.Test, "/") {
		return
	}
	pkg := e.Package
	if at := strings.Index(pkg, "/csig/"); at >= 0 {
		pkg = pkg[at+len("/csig/"):]
	}
	to, name := t.packages, pkg
	if e.Test != "" {
		to, name = t.tests, pkg+" "+e.Test
	}
	one := to[name]
	if one == nil {
		one = &taken{name: name}
		to[name] = one
	}
	one.seconds += e.Elapsed
	one.runs++
	if e.Action == "fail" {
		one.failed++
	}
}

// last is the last n, with one more.
func last(of []string, n int, one string) []string { return append(of[max(0, len(of)-n+1):], one) }

// fail takes note of a test or a package that failed.
func (t *times) fail(of [2]string) {
	t.failed = append(t.failed, fmt.Sprintf("\n=== failed: %s %s\n%s", of[0], of[1], strings.Join(t.output[of], "")))
	if m := t.messages[of]; len(m) > 0 {
		t.short = append(t.short, fmt.Sprintf("\n=== %s says\n%s", of[1], strings.Join(m, "")))
	}
	delete(t.output, of)
	delete(t.messages, of)
}

// list prints the first n, the slowest first; what took less than a twentieth of a second is left out.
func list(w io.Writer, what string, of map[string]*taken, n int) {
	sorted := slices.SortedFunc(maps.Values(of), func(a, b *taken) int {
		return cmp.Or(cmp.Compare(b.seconds, a.seconds), cmp.Compare(a.name, b.name))
	})
	var sum float64
	for _, one := range sorted {
		sum += one.seconds
	}
	fmt.Fprintf(w, "\n%8.1f s  %d %s\n", sum, len(sorted), what)
	for _, one := range sorted[:min(n, len(sorted))] {
		if one.seconds < 0.05 {
			break
		}
		fmt.Fprintf(w, "%8.1f    %s", one.seconds, one.name)
		if one.runs > 1 {
			fmt.Fprintf(w, ", %d runs", one.runs)
		}
		if one.failed > 0 {
			fmt.Fprintf(w, ", %d failed", one.failed)
		}
		fmt.Fprintln(w)
	}
}
