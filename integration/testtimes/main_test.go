package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	one := write("one.json", `{"ImportPath":"a","Action":"build-output","Output":"x"}
{"Time":"2026-01-02T03:04:05Z","Action":"start","Package":"github.com/csig-agent/csig/agent"}
{"Time":"2026-01-02T03:04:06Z","Action":"pass","Package":"github.com/csig-agent/csig/agent","Test":"TestA/sub","Elapsed":0.5}
{"Time":"2026-01-02T03:04:06Z","Action":"output","Package":"github.com/csig-agent/csig/agent","Test":"TestB","Output":"of another\n"}
{"Time":"2026-01-02T03:04:06Z","Action":"output","Package":"github.com/csig-agent/csig/agent","Test":"TestA","Output":"    a_test.go:3: wrong\n"}
{"Time":"2026-01-02T03:04:07Z","Action":"fail","Package":"github.com/csig-agent/csig/agent","Test":"TestA","Elapsed":1.25}
{"Time":"2026-01-02T03:04:08.5Z","Action":"fail","Package":"github.com/csig-agent/csig/agent","Elapsed":2}
`)
	two := write("two.json", `{"Time":"2026-01-02T03:05:00Z","Action":"pass","Package":"github.com/csig-agent/csig/agent","Test":"TestA","Elapsed":1}
{"Time":"2026-01-02T03:05:00Z","Action":"pass","Package":"github.com/csig-agent/csig/agent","Test":"TestB","Elapsed":3}
{"Time":"2026-01-02T03:05:00Z","Action":"pass","Package":"github.com/csig-agent/csig/agent","Test":"TestQuick","Elapsed":0.01}
{"Time":"2026-01-02T03:05:01Z","Action":"pass","Package":"github.com/csig-agent/csig/agent","Elapsed":4}
`)
	var b strings.Builder
	if err := run(&b, []string{one, two}); err != nil {
		t.Fatal(err)
	}
	want := `     3.5 s  one.json
     1.0 s  two.json
     4.5 s  in all, since the first package began

     6.0 s  1 packages
     6.0    agent, 2 runs, 1 failed

     5.3 s  3 tests
     3.0    agent TestB
     2.2    agent TestA, 2 runs, 1 failed

=== failed: github.com/csig-agent/csig/agent TestA
    a_test.go:3: wrong

=== failed: github.com/csig-agent/csig/agent 

=== failed: github.com/csig-agent/csig/agent TestB
of another

=== TestA says
    a_test.go:3: wrong
`
	if b.String() != want {
		t.Errorf("%s", b.String())
	}
	for name, text := range map[string]string{"none": "", "broken": "{"} {
		files := []string{write(name, text)}
		if name == "none" {
			files = nil
		}
		if err := run(&b, files); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
