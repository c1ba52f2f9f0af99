package inventory

import (
	"errors"
	"strconv"

	"github.com/goccy/go-yaml/ast"
)

// Read reads a file of another kind than a fleet file, e.g. a scenario, into the struct that to points at. The tags of its
// fields are those of this package's keys, and so are the mistakes: Errors, with file, line and column. what is what the file
// is called in them, and format the one that it names.
func Read(name string, data []byte, what, format string, to any) error {
	c := newCompiler(files{text: data})
	src, text, failure := prepare(name, data, fileFormat{what, format})
	c.sources = append(c.sources, src)
	c.origins.files = append(c.origins.files, name)
	var root ast.Node
	if failure == nil {
		root, failure = parseYAML(src, text)
	}
	if failure != nil {
		return Errors{failure}.finish()
	}
	r := &reader{c: c, src: src, anchors: make(map[string]ast.Node)}
	ast.Walk(r, root)
	r.readKeys(root, what, to)
	if len(c.errs) > 0 {
		return c.errs.finish()
	}
	return nil
}

// ParseBytes reads a size as scenarios have it: 1500, 64k, 2M, 4G.
func ParseBytes(text string) (uint64, error) {
	v, problem, hint := parseBytes(text, strconv.Quote)
	if problem != "" {
		return 0, errors.New(problem + ": " + hint)
	}
	return v, nil
}

const maxBytes = 1e15

// parseBytes reads a size: "2M" is 2,000,000 bytes, "1500" as many.
func parseBytes(text string, quote func(string) string) (uint64, string, string) {
	number, scale := text, uint64(1)
	if n := len(text); n > 0 {
		for i, prefix := range []byte("kMGT") {
			if text[n-1] == prefix {
				number = text[:n-1]
				for range i + 1 {
					scale *= 1000
				}
			}
		}
	}
	v, err := strconv.ParseUint(number, 10, 64)
	switch {
	case err == nil && v == 0:
		return 0, "0 bytes are none", "e.g. 1500, 64k or 2M"
	case err == nil && v > maxBytes/scale:
		return 0, quote(text) + " is more than 1000T bytes", "e.g. 1500, 64k or 2M"
	case err != nil:
		return 0, quote(text) + " is not a number of bytes", "e.g. 1500, 64k or 2M"
	}
	return v * scale, "", ""
}

// Filled is a struct of keys as it is where a file gives none of them.
func Filled[T any]() T { return keysOf[T]().filled.Interface().(T) }
