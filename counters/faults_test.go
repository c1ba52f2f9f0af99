package counters

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFaultTable holds the table of faults in docs/counters.md to its word: each row
// names tests, and they exist.
func TestFaultTable(t *testing.T) {
	page, err := os.ReadFile("../docs/counters.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "\n## When things go wrong\n")
	if !found {
		t.Fatal("docs/counters.md has no section of faults")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	files, err := filepath.Glob("../counters/*/*_test.go")
	own, err2 := filepath.Glob("*_test.go")
	live, err3 := filepath.Glob("../integration/*_test.go")
	if err != nil || err2 != nil || err3 != nil {
		t.Fatal(err, err2, err3)
	}
	have := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	for _, file := range append(append(files, own...), live...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range declared.FindAllSubmatch(text, -1) {
			have[filepath.Base(filepath.Dir(file))+"."+string(m[1])] = true
		}
	}
	rows := 0
	named := regexp.MustCompile("`(\\w+)\\.((?:Test|Fuzz)\\w+)`")
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| what happens") {
			continue
		}
		rows++
		tests := named.FindAllStringSubmatch(line, -1)
		if len(tests) == 0 {
			t.Errorf("no test in the row %s", line)
		}
		for _, m := range tests {
			folder := m[1]
			if folder == "counters" {
				folder = "." // this one
			}
			if !have[folder+"."+m[2]] {
				t.Errorf("there is no %s.%s", m[1], m[2])
			}
		}
	}
	if rows < 20 {
		t.Errorf("%d rows: this test checks too little", rows)
	}
}
