package inventory

import (
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/token"
)

// writer writes a fleet file.
type writer struct {
	out    []byte
	indent int
	flow   bool // in braces
	item   bool // what follows is the first key of an entry of a list
}

// line begins a line, unless a dash has.
func (w *writer) line() {
	if w.item {
		w.item = false
		return
	}
	w.out = append(w.out, '\n')
	for range w.indent {
		w.out = append(w.out, ' ')
	}
}

// keys writes a struct of keys: below its own key, or in braces. Those that are
// zero are left out.
func (w *writer) keys(s *keySet, v reflect.Value) {
	before := "{"
	for i := range s.keys {
		k := &s.keys[i]
		value, given := k.get(v)
		if !given && (!k.always || k.kind.secret) {
			continue
		}
		if w.flow {
			w.out, before = append(w.out, before...), ", "
		} else {
			w.line()
			before = ""
		}
		w.out = append(append(w.out, k.name...), ':')
		w.value(k, value)
	}
	switch {
	case before == "{":
		w.out = append(w.out, "{}"...)
	case w.flow:
		w.out = append(w.out, '}')
	}
}

// value writes the value of a key.
func (w *writer) value(k *key, v reflect.Value) {
	flow, indent := w.flow, w.indent
	w.flow = flow || k.flow
	switch {
	case w.flow || !k.kind.block:
		w.out = append(w.out, ' ')
	case k.kind.keys != nil:
		w.indent += 2
	}
	k.kind.write(w, v)
	w.flow, w.indent = flow, indent
}

// flowKeys writes a struct of keys, to which s points, in braces.
func (w *writer) flowKeys(s any) {
	v := reflect.ValueOf(s).Elem()
	inBraces := w.flow
	w.flow = true
	w.keys(keySetOf(v.Type(), ""), v)
	w.flow = inBraces
}

// list writes the entries of a list: in brackets, or one a line.
func (w *writer) list(n int, entry func(i int)) {
	if w.flow {
		w.out = append(w.out, '[')
		for i := range n {
			if i > 0 {
				w.out = append(w.out, ", "...)
			}
			entry(i)
		}
		w.out = append(w.out, ']')
		return
	}
	if n == 0 {
		w.out = append(w.out, " []"...)
	}
	indent := w.indent
	for i := range n {
		w.indent = indent + 2
		w.line()
		w.out, w.item, w.indent = append(w.out, "- "...), true, indent+4
		entry(i)
		w.item = false
	}
	w.indent = indent
}

// block writes named values on lines of their own, deeper than the key above them.
func (w *writer) block(names []string, value func(name string)) {
	w.indent += 2
	for _, name := range names {
		w.line()
		w.plain(name)
		w.out = append(w.out, ':')
		value(name)
	}
	w.indent -= 2
}

var plainText = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._/-]*$`)

// text writes what a device or a person chose, in quotes unless it is a plain
// word: YAML libraries leave some texts plain, such as $[, that cannot stand so
// between braces.
func (w *writer) text(s string) {
	switch {
	case plainText.MatchString(s):
		w.plain(s)
	case strings.ContainsAny(s, `"\\`):
		w.out = append(w.out, "'"+strings.ReplaceAll(s, "'", "''")+"'"...)
	default:
		w.out = append(append(append(w.out, '"'), s...), '"')
	}
}

// plain writes a word, in quotes where YAML would take it for something else. None
// of YAML's own words has a digit in it.
func (w *writer) plain(s string) {
	if plainText.MatchString(s) && strings.ContainsAny(s, "0123456789") || !token.IsNeedQuoted(s) && !(w.flow && strings.ContainsAny(s, `]},'":`)) {
		w.out = append(w.out, s...)
		return
	}
	w.out = strconv.AppendQuote(w.out, s)
}
