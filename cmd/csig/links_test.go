package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// repository is where the pages are.
const repository = "../.."

// docPages returns README.md and docs/*.md by name, with their text.
func docPages(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(repository, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{}
	for _, name := range append(names, filepath.Join(repository, "README.md")) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		rel, err := filepath.Rel(repository, name)
		if err != nil {
			t.Fatal(err)
		}
		pages[rel] = string(text)
	}
	return pages
}

var (
	linkText = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	codeSpan = regexp.MustCompile("`([^`]+)`")
	// A command in a block: behind a prompt, a path, sudo, or nothing.
	command      = regexp.MustCompile(`^(?:\$ )?(?:sudo )?(?:[A-Za-z]+=)?(?:[\w./-]*/)?csig( .*)?$`)
	heading      = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	notInAnchors = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// notCommands are code spans that only look like commands.
var notCommands = map[string]string{"csig v1": "the comment of the nftables table"}

// anchors are the names that a page's headings get.
func anchors(text string) []string {
	var out []string
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		name := notInAnchors.ReplaceAllString(strings.ToLower(m[1]), "")
		out = append(out, strings.ReplaceAll(name, " ", "-"))
	}
	return out
}

// Every link and picture of the pages that stays in the repository leads
// somewhere.
func TestDocLinks(t *testing.T) {
	n, has := 0, map[string][]string{} // headings of each page
	for name, text := range docPages(t) {
		for _, m := range linkText.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			n++
			file, anchor, _ := strings.Cut(m[1], "#")
			target := filepath.Join(repository, filepath.Dir(name), file)
			if file == "" {
				target = filepath.Join(repository, name)
			}
			if strings.HasPrefix(file, "/") {
				t.Errorf("%s: the link %s is not relative", name, m[1])
				continue
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link %s leads nowhere: %v", name, m[1], err)
				continue
			}
			if anchor == "" {
				continue
			}
			if _, read := has[target]; !read {
				page, err := os.ReadFile(target)
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				has[target] = anchors(string(page))
			}
			if !slices.Contains(has[target], anchor) {
				t.Errorf("%s: %s has no heading #%s", name, file, anchor)
			}
		}
	}
	if n < 5 {
		t.Errorf("only %d links found: this test checks nothing", n)
	}
}

// Every csig command that a page or an example file shows has its sub-command
// and its flags.
func TestDocCommands(t *testing.T) {
	spans, lines := 0, 0
	type way struct {
		line  string
		whole bool
	}
	right := map[way]bool{} // pages show most lines more than once
	check := func(name, line string, whole bool) {
		if is := (way{line, whole}); right[is] {
			return
		} else if err := checkLine(line, whole); err != nil {
			t.Errorf("%s: csig%s: %v", name, line, err)
		} else {
			right[is] = true
		}
	}
	for name, text := range docPages(t) {
		fence := ""
		var joined, prose string
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if kind, ok := strings.CutPrefix(line, "```"); ok {
				if fence != "" {
					fence = ""
				} else if fence = kind; kind == "" {
					fence = "plain"
				}
				continue
			}
			if fence == "" {
				prose += line + " "
				continue
			}
			joined += line
			if rest, more := strings.CutSuffix(joined, `\`); more {
				joined = rest
				continue
			}
			if c := command.FindStringSubmatch(joined); c != nil && fence != "text" {
				lines++
				check(name, c[1], true)
			}
			joined = ""
		}
		for _, m := range codeSpan.FindAllStringSubmatch(prose, -1) {
			if c := command.FindStringSubmatch(m[1]); c != nil && notCommands[m[1]] == "" {
				spans++
				check(name, c[1], false)
			}
		}
	}
	quoted := regexp.MustCompile(`"csig( [^"]*)"`)
	examples, err := filepath.Glob(filepath.Join(repository, "examples", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range examples {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range quoted.FindAllStringSubmatch(string(text), -1) {
			spans++
			check(filepath.Base(name), m[1], false)
		}
	}
	if spans < 10 || lines < 5 {
		t.Errorf("%d commands in the text and %d in blocks found: this test checks too little", spans, lines)
	}
}

// tableNames returns the code spans in the first column of the tables behind a
// heading, up to the next.
func tableNames(text, title string) []string {
	_, part, ok := strings.Cut(text, title)
	if !ok {
		return nil
	}
	if i := strings.Index(part, "\n## "); i >= 0 {
		part = part[:i]
	}
	var out []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| \\S").FindAllStringSubmatch(part, -1) {
		out = append(out, m[1])
	}
	return out
}

func sameNames(t *testing.T, what string, listed, there []string) {
	t.Helper()
	slices.Sort(listed)
	slices.Sort(there)
	for _, name := range there {
		if !slices.Contains(listed, name) {
			t.Errorf("docs/development.md lacks what %s %s is for: add a line", what, name)
		}
	}
	for i, name := range listed {
		if !slices.Contains(there, name) {
			t.Errorf("docs/development.md names the %s %s, which is not there: remove the line", what, name)
		}
		if i > 0 && listed[i-1] == name {
			t.Errorf("docs/development.md names the %s %s twice", what, name)
		}
	}
}

// docs/development.md has what each direct requirement of go.mod is for.
func TestDocNamesEveryDependency(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join(repository, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	var direct []string
	for _, m := range regexp.MustCompile(`(?m)^(?:require |\t)([^\s()]+\.[^\s()]+/\S+) v\S+$`).FindAllStringSubmatch(string(mod), -1) {
		direct = append(direct, m[1])
	}
	if len(direct) < 10 {
		t.Fatalf("go.mod: only %d direct requirements found", len(direct))
	}
	sameNames(t, "module", tableNames(docPages(t)["docs/development.md"], "## What it builds on"), direct)
}

// docs/development.md has what is in each folder with Go files.
func TestDocNamesEveryPackage(t *testing.T) {
	var folders []string
	err := filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != repository && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" || name == "dist") {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		rel, err := filepath.Rel(repository, filepath.Dir(path))
		if !slices.Contains(folders, rel) {
			folders = append(folders, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	sameNames(t, "folder", tableNames(docPages(t)["docs/development.md"], "# How csig is built"), folders)
}
