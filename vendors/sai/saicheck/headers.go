package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Bounds of a header, whatever the folder holds.
const (
	maxHeader = 8 << 20 // bytes
	maxNames  = 1 << 16 // of all headers
)

// files are the headers that have what csig uses.
var files = []string{"saiversion.h", "saitypes.h", "saiacl.h", "saitam.h", "saiport.h", "saiswitch.h"}

// unknown begins the numbers of values that a macro gives.
const unknown = -1 << 40

// value is one value of an enum, with what the comment before it says.
type value struct {
	enum    string // its type
	number  int64
	comment string
	typ     string // @type
	flags   string // @flags
	def     string // @default
}

// headers are the values of all enums by their names, and the version.
type headers struct {
	values  map[string]value
	version map[string]string
}

var (
	enumBegin = regexp.MustCompile(`^typedef enum _(\w+)`)
	enumValue = regexp.MustCompile(`^(SAI_\w+)\s*(?:=\s*([^,/]+?))?\s*,?\s*(?:/[/*].*)?$`)
	versions  = regexp.MustCompile(`^#define SAI_(MAJOR|MINOR|REVISION)\s+(?:\()?(\d+)`)
)

// readHeaders reads the headers below a folder, and follows no link out of it.
func readHeaders(dir string) (*headers, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	h := &headers{values: map[string]value{}, version: map[string]string{}}
	for _, name := range files {
		f, err := root.Open(filepath.Join("inc", name))
		if err != nil {
			return nil, fmt.Errorf("no checkout of SAI: %w", err)
		}
		err = h.parse(f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("inc/%s:%w", name, err)
		}
	}
	return h, nil
}

// parse reads the enums of one header.
func (h *headers) parse(r io.Reader) error {
	lines := bufio.NewScanner(io.LimitReader(r, maxHeader+1))
	size, n := 0, 1
	var enum string
	var next int64
	var comment []string
	inside := false
	var err error
	for ; lines.Scan(); n++ {
		if size += len(lines.Bytes()) + 1; size > maxHeader {
			return fmt.Errorf("%d: it has more than %d bytes", n, maxHeader)
		}
		line := strings.TrimSpace(lines.Text())
		switch {
		case inside || strings.HasPrefix(line, "/*"):
			if !inside {
				comment = nil
			}
			comment = append(comment, strings.Trim(line, "/* "))
			inside = !strings.HasSuffix(line, "*/")
		case line == "" || line == "{":
		case strings.HasPrefix(line, "#"):
			if m := versions.FindStringSubmatch(line); m != nil {
				h.version[m[1]] = m[2]
			}
		case enumBegin.MatchString(line):
			enum, next = enumBegin.FindStringSubmatch(line)[1], 0
		case strings.HasPrefix(line, "}"):
			enum = ""
		case enum != "":
			m := enumValue.FindStringSubmatch(line)
			if m == nil {
				return fmt.Errorf("%d: %q is no value of an enum", n, line)
			}
			if m[2] != "" {
				if next, err = h.number(m[2]); err != nil {
					next = unknown // by a macro, which nothing in use is
				}
			}
			if len(h.values) >= maxNames {
				return fmt.Errorf("%d: there are more than %d names", n, maxNames)
			}
			v := value{enum: enum, number: next, comment: strings.Join(comment, " ")}
			for _, c := range comment {
				tag, text, _ := strings.Cut(c, " ")
				switch text = strings.TrimSpace(text); tag {
				case "@type":
					v.typ = text
				case "@flags":
					v.flags = text
				case "@default":
					v.def = text
				}
			}
			h.values[m[1]] = v
			comment = nil
			next++
		}
	}
	return errors.Join(lines.Err())
}

// number is the value of a sum of numbers and names.
func (h *headers) number(text string) (sum int64, err error) {
	for part := range strings.SplitSeq(text, "+") {
		part = strings.Trim(part, "() ")
		if v, ok := h.values[part]; ok {
			sum += v.number
			continue
		}
		shift := int64(0)
		if a, b, ok := strings.Cut(part, "<<"); ok {
			if shift, err = strconv.ParseInt(strings.TrimSpace(b), 0, 8); err != nil || shift < 0 || shift > 62 {
				return 0, fmt.Errorf("%q is no number", part)
			}
			part = strings.TrimSpace(a)
		}
		n, err := strconv.ParseInt(part, 0, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is no number", part)
		}
		sum += n << shift
	}
	return sum, nil
}
