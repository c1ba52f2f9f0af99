package docs

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPagesAreThere: each address ends with the name of a page in this folder.
func TestPagesAreThere(t *testing.T) {
	source, err := os.ReadFile("docs.go")
	if err != nil {
		t.Fatal(err)
	}
	pages := regexp.MustCompile(`= At \+ "(.*)"`).FindAllSubmatch(source, -1)
	if len(pages) < 10 {
		t.Fatalf("%d pages", len(pages))
	}
	for _, m := range pages {
		if _, err := os.Stat(string(m[1])); err != nil {
			t.Error(err)
		}
	}
}

// TestNoTextNamesAFileOfTheRepository: what csig prints has no paths that only a checkout has. Tests and their
// helpers may.
func TestNoTextNamesAFileOfTheRepository(t *testing.T) {
	path := regexp.MustCompile(`\b(?:docs|deploy|examples)/[\w./-]*\w`)
	files := 0
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "integration" || d.Name() == ".git" || name == "../docs"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		files++
		var s scanner.Scanner
		file := token.NewFileSet().AddFile(name, -1, len(source))
		s.Init(file, source, nil, 0)
		for {
			at, kind, text := s.Scan()
			if kind == token.EOF {
				return nil
			}
			if kind != token.STRING {
				continue
			}
			for _, p := range path.FindAllString(text, -1) {
				if _, err := os.Stat(filepath.Join("..", p)); err == nil { // and no document of other people
					t.Errorf("%s names %s: use the address in package docs", file.Position(at), p)
				}
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 300 {
		t.Errorf("only %d files", files)
	}
}
