package deploy

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/csig-agent/csig/docs"
)

// files is where csig's own are.
const files = docs.Repository + "/blob/main/"

// suffix ends a name, as a program's strings have nothing between them.
const suffix = `\.(?:md|ya?ml|json|lua|svg|trace|service|conf)`

var (
	// address is one of csig's own, of a file.
	address = regexp.MustCompile(regexp.QuoteMeta(files) + `([a-z]+/[a-z]+` + suffix + `)`)
	// document is a name of a file, or a folder, as the repository has it, with what is before it.
	document = regexp.MustCompile(`([\w.:/~-]*/)?((?:docs|deploy|examples)/[\w/-]*\w(?:` + suffix + `)?)`)
	link     = regexp.MustCompile(`\]\(([^)#\s]+)(?:#[^)]*)?\)`)
)

// documents: documentation, examples, alert rules and the dashboard are in a package, links between them hold,
// and what csig prints, its manual pages, units and configuration name files by an address, or by a path that
// exists.
func documents(t *testing.T, deb, program string) {
	t.Helper()
	tree := t.TempDir()
	run(t, nil, "dpkg-deb", "--extract", deb, tree)
	own := filepath.Join("usr/share/doc", program)
	is := func(name ...string) bool {
		_, err := os.Stat(filepath.Join(name...))
		return err == nil
	}
	for _, name := range []string{
		"README.md", "CHANGELOG.md", "LICENSE", "docs/operations.md", "docs/csig.lua", "examples/fleet.yaml", "examples/fleet/spines.yaml",
		"deploy/prometheus/csig-alerts.yml", "deploy/prometheus/csig-alertmanager.yml", "deploy/grafana/csig.json",
	} {
		if !is(tree, own, name) {
			t.Errorf("%s has no %s", program, name)
		}
	}
	named := map[string]int{} // names by the folder of their files
	for file, text := range texts(t, tree) {
		for _, m := range address.FindAllStringSubmatch(text, -1) {
			named[filepath.Dir(file)]++
			if !is("..", m[1]) {
				t.Errorf("%s: %s names %s, which is not in the repository", program, file, m[0])
			}
		}
		for _, m := range document.FindAllStringSubmatch(address.ReplaceAllString(text, ""), -1) {
			switch before, name := m[1], m[2]; {
			case !is("..", name): // a document of other people
			case strings.HasPrefix(before, "/"):
				named[filepath.Dir(file)]++
				if !is(tree, before, name) {
					t.Errorf("%s: %s names %s, which is not in the package", program, file, m[0])
				}
			case !strings.HasPrefix(file, own):
				t.Errorf("%s: %s names %s, which only a checkout has", program, file, m[0])
			case !is(tree, own, name):
				t.Errorf("%s: %s names %s, which is not in the package", program, file, m[0])
			}
		}
		if strings.HasSuffix(file, ".md") {
			for _, m := range link.FindAllStringSubmatch(text, -1) {
				rest, own := strings.CutPrefix(m[1], files)
				if own && !is("..", rest) || !own && !strings.Contains(m[1], "://") && !is(tree, filepath.Dir(file), m[1]) {
					t.Errorf("%s: the link %s of %s leads nowhere", program, m[1], file)
				}
			}
		}
	}
	if named["usr/bin"] < 5 {
		t.Errorf("%s: this found %v: it checks nothing", program, named)
	}
}

// texts are the texts of a package's files by name: manual pages unpacked, and of programs what they may print.
func texts(t *testing.T, tree string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(tree, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		file, err := filepath.Rel(tree, name)
		if err != nil {
			return err
		}
		raw, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		switch {
		case strings.HasSuffix(name, ".gz"):
			if raw, err = unzip(raw); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			raw = bytes.ReplaceAll(raw, []byte(`\-`), []byte("-"))
		case strings.HasPrefix(file, "usr/bin/"):
			if raw, err = constants(raw); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		if strings.HasSuffix(name, ".md") { // what is marked down
			raw = bytes.ReplaceAll(raw, []byte(`\`), nil)
		}
		out[file] = string(raw)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func unzip(raw []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// constants are a program's strings, and not the names of its source files.
func constants(raw []byte) ([]byte, error) {
	bin, err := elf.NewFile(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	section := bin.Section(".rodata")
	if section == nil {
		return nil, fmt.Errorf("it has no section .rodata")
	}
	return section.Data()
}
