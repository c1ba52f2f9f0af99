package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDocs runs the commands of every console block in README.md and docs/ and
// compares their output with what the page shows. Blocks of other kinds (text,
// sh) show what differs from run to run or what changes a machine. What counts
// all costs of tables takes seconds: TestLongDocs has it.
func TestDocs(t *testing.T) { runDocs(t, false) }

func TestLongDocs(t *testing.T) { runDocs(t, true) }

func runDocs(t *testing.T, costs bool) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		old, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		inBlock, kept := false, false // kept is what the other test runs
		for line := range strings.Lines(string(old)) {
			text := strings.TrimRight(line, "\n")
			switch {
			case text == "```console":
				inBlock, kept = true, false
				blocks++
				out.WriteString(line)
			case inBlock && text == "```":
				inBlock = false
				out.WriteString(line)
			case inBlock && strings.HasPrefix(text, "$ csig "):
				out.WriteString(line)
				if kept = strings.Contains(text, " --costs") != costs; !kept {
					out.Write(runShown(t, root, strings.Fields(text)[2:]))
				}
			case inBlock && strings.HasPrefix(text, "$ "):
				t.Errorf("%s: %q is not a csig command: show it in a sh block", page, text)
			case !inBlock || kept:
				out.WriteString(line)
			}
		}
		if bytes.Equal(out.Bytes(), old) {
			continue
		}
		if *update {
			if err := os.WriteFile(page, out.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		t.Errorf("%s shows output that csig does not print (go test ./cmd/csig -run %s -update):\n%s", filepath.Base(page), t.Name(), out.String())
	}
	if blocks == 0 {
		t.Error("no console block found: this test checks nothing")
	}
}

// runShown runs csig in a folder and returns what it prints.
func runShown(t *testing.T, dir string, args []string) []byte {
	t.Helper()
	var out bytes.Buffer
	code := csigHere(dir, nil, args, &out, &out)
	pending := args[0] == "plan" && code == 2 // the plan has changes
	if code != 0 && !pending {
		t.Errorf("csig %s: exit code %d\n%s", strings.Join(args, " "), code, out.Bytes())
	}
	return out.Bytes()
}
