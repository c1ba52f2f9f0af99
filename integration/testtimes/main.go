// Command testtimes says where the time of tests goes:
//
//	go run ./integration/testtimes FILE ...
//
// A FILE is what gotestsum --jsonfile wrote: one run of go test. For each the time from its first
// to its last event, then all packages and the slowest tests, in seconds of the real clock, waits
// included and pauses of parallel tests left out. A test is one with its subtests; what ran
// more than once is summed, and says how often. Last come the ends of what failed, whole in FILE.
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
	"slices"
	"strings"
	"time"
)

const (
	most  = 40 // tests that are printed
	lines = 80 // of the output of one that failed
)

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
	failed          []string               // the same of those that failed, each a text
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
	all := times{packages: map[string]*taken{}, tests: map[string]*taken{}, output: map[[2]string][]string{}}
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
	for _, text := range all.failed {
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
	said := t.output[of]
	switch e.Action {
	case "output":
		t.output[of] = append(said[max(0, len(said)-lines+1):], e.Output)
		return
	case "pass", "skip", "fail":
		delete(t.output, of)
	}
	if e.Action == "fail" {
		t.failed = append(t.failed, failure(of, said))
	}
	if e.Action == "fail" && e.Test == "" { // a panic or the end of go test's time ends others
		for _, other := range slices.SortedFunc(maps.Keys(t.output), func(a, b [2]string) int { return cmp.Compare(a[1], b[1]) }) {
			if other[0] == e.Package {
				t.failed = append(t.failed, failure(other, t.output[other]))
				delete(t.output, other)
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

func failure(of [2]string, said []string) string {
	return fmt.Sprintf("\n=== failed: %s %s\n%s", of[0], of[1], strings.Join(said, ""))
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
