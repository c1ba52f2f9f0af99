package inventory

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// maxValues bounds what one file may expand to through its aliases.
const maxValues = 1 << 19

// reader walks a syntax tree and reports what is wrong with it. Its methods
// return false, or a zero value, for what they have reported.
type reader struct {
	c       *compiler
	src     source
	file    uint16 // its number, and that of the layer that is being read
	layer   uint16
	anchors map[string]ast.Node
	visits  int // values looked at

	// quiet says that words of the file which belong nowhere may be a
	// credential, and are not repeated.
	quiet bool
}

// full says that there is no point in reading on.
func (r *reader) full() bool { return r.c.full() || r.visits > maxValues }

// mistakes is how many were found until now, in any file.
func (r *reader) mistakes() int { return len(r.c.errs) }

func (r *reader) errorf(at ast.Node, hint, format string, args ...any) {
	r.errorfAt(place(at), hint, format, args...)
}

func (r *reader) errorfAt(at position, hint, format string, args ...any) {
	if !r.c.full() {
		r.c.errs = append(r.c.errs, r.src.errorAt(at, hint, fmt.Sprintf(format, args...)))
	}
}

// quietly makes the reader quiet until the function it returns is called.
func (r *reader) quietly() (undo func()) {
	before := r.quiet
	r.quiet = true
	return func() { r.quiet = before }
}

// show is a piece of the file for a message; a quiet reader does not repeat it.
func (r *reader) show(text string) string {
	if r.quiet {
		return hidden
	}
	return text
}

// quote is show for a value that is wrong in its place, in quotes. A word can be
// repeated; more than a word may go on into a credential.
func (r *reader) quote(value string) string {
	if plainWord.MatchString(value) {
		return strconv.Quote(value)
	}
	return r.show(strconv.Quote(value))
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9._/%+-]{1,40}$`)

var plainKey = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,23}$`)

// showKey is show for a key. They can be repeated, unless one has no value or
// does not look like a key: then a colon may have been forgotten in front of a
// credential.
func (r *reader) showKey(name string, hasValue bool) string {
	text := strconv.Quote(name)
	if hasValue && plainKey.MatchString(name) {
		return text
	}
	return r.show(text)
}

// Visit collects the anchors (ast.Visitor).
func (r *reader) Visit(n ast.Node) ast.Visitor {
	if a, ok := n.(*ast.AnchorNode); ok {
		name := a.Name.GetToken().Value
		if r.anchors[name] != nil {
			r.errorf(a, "", "this anchor is there twice") // a password may begin with &
		}
		r.anchors[name] = a.Value
	}
	return r
}

// resolve returns the value that a node stands for, nil when there is none.
func (r *reader) resolve(n ast.Node) ast.Node {
	if r.visits++; r.visits > maxValues {
		if r.visits == maxValues+1 {
			r.errorf(n, "repeat less with aliases", "the file stands for more than %d values", maxValues)
		}
		return nil
	}
	for range 8 { // an alias of an anchor of an alias …
		switch v := n.(type) {
		case nil:
			return nil
		case *ast.AnchorNode:
			n = v.Value
		case *ast.AliasNode:
			name := v.Value.GetToken().Value
			if n = r.anchors[name]; n == nil {
				r.errorf(v, "", "there is no anchor &%s for the alias *%s", r.show(name), r.show(name))
				return nil
			}
		case *ast.TagNode:
			r.errorf(v, "leave the tag out", "YAML tags such as %s are not part of the fleet format", r.show(v.GetToken().Value))
			return nil
		default:
			return n
		}
	}
	r.errorf(n, "", "this alias stands for itself")
	return nil
}

// entry is one key with its value.
type entry struct {
	name       string
	key, value ast.Node // value is nil when it is missing and reported
}

// entries reads a mapping's entries in their order. It reports keys that are
// not plain text, that are there twice or have no value.
func (r *reader) entries(n ast.Node, what string) ([]entry, bool) {
	v := r.resolve(n)
	if v == nil {
		return nil, false
	}
	mapping, ok := v.(ast.MapNode)
	if !ok {
		r.errorf(v, "", `%s: want "key: value" pairs here, found %s`, what, r.show(foundText(v)))
		return nil, false
	}
	var out []entry
	seen := make(map[string]position)
	for iter := mapping.MapRange(); iter.Next() && !r.full(); {
		e := entry{key: iter.Key()}
		name, plain := scalar(e.key)
		if !plain {
			hint := "write the key as plain text"
			if e.key.Type() == ast.MergeKeyType {
				hint = "give the value of each key an alias instead"
			}
			r.errorf(e.key, hint, "%s: %s is not a key of the fleet format", what, r.showKey(e.key.GetToken().Value, true))
			continue
		}
		e.name = name
		if first, twice := seen[name]; twice {
			r.errorf(e.key, fmt.Sprintf("the first is on line %d", first.line), "%s: %s is there twice", what, r.showKey(name, true))
			continue
		}
		seen[name] = place(e.key)
		if e.value = r.resolve(iter.Value()); e.value != nil && e.value.Type() == ast.NullType {
			r.errorf(e.key, "give it a value or leave the key out", "%s: %s has no value", what, r.showKey(name, false))
			e.value = nil
		}
		out = append(out, e)
	}
	return out, true
}

// Mapping is a mapping of a fleet file, with the keys that it may have.
type Mapping struct {
	r      *reader
	node   ast.Node
	what   string // how messages call it: "device s1, port swp1"
	values map[string]entry
	meant  []string // keys that unknown ones are slips of
	before int      // mistakes found before it was read
}

// mapping reads a mapping and reports keys that are not known.
func (r *reader) mapping(n ast.Node, what string, known ...string) (Mapping, bool) {
	m := Mapping{r: r, node: n, what: what, values: make(map[string]entry), before: r.mistakes()}
	list, ok := r.entries(n, what)
	for _, e := range list {
		if !slices.Contains(known, e.name) {
			r.errorf(e.key, Suggest(e.name, known), "%s: unknown key %s", what, r.showKey(e.name, e.value != nil))
			m.meant = append(m.meant, nearestWord(e.name, known))
			continue
		}
		m.values[e.name] = e
	}
	return m, ok
}

// called is the name of a mapping, for messages about its other keys; "" where it
// has none that is right. It reports nothing.
func called(n ast.Node, right func(name string) bool) string {
	pairs, ok := n.(ast.MapNode)
	if !ok {
		return ""
	}
	for iter := pairs.MapRange(); iter.Next(); {
		if key, _ := scalar(iter.Key()); key != "name" {
			continue
		}
		if name, _ := scalar(iter.Value()); name != "" && right(name) {
			return name
		}
	}
	return ""
}

// get returns a key's value, nil when it is absent or was reported.
func (m Mapping) get(key string) ast.Node { return m.values[key].value }

// tried reports whether the mapping has a key, be it misspelt or without a value.
func (m Mapping) tried(key string) bool {
	_, there := m.values[key]
	return there || slices.Contains(m.meant, key)
}

// need is get for a key that has to be there.
func (m Mapping) need(key, hint string) ast.Node {
	if _, there := m.values[key]; !there {
		m.r.errorf(m.node, hint, "%s: %q is missing", m.what, key)
	}
	return m.get(key)
}

// needToo reports a key that has to be there because of something else.
func (m Mapping) needToo(because, hint, key string) {
	if _, there := m.values[key]; !there {
		m.r.errorf(m.node, hint, "%s: %q is missing: %s needs it", m.what, key, because)
	}
}

// together reports two keys of which only one is there.
func (m Mapping) together(a, b string) {
	_, hasA := m.values[a]
	_, hasB := m.values[b]
	switch {
	case hasA && !hasB:
		m.needToo(a, "they belong together", b)
	case hasB && !hasA:
		m.needToo(b, "they belong together", a)
	}
}

// refuse reports keys that should not be there because of something else.
func (m Mapping) refuse(because string, keys ...string) {
	for _, key := range keys {
		if e, there := m.values[key]; there {
			m.r.errorf(e.key, "leave it out", "%s: %s %s", m.what, key, because)
		}
	}
}

// Has reports whether a key is there, right or wrong.
func (m Mapping) Has(key string) bool {
	_, there := m.values[key]
	return there
}

// File is the name of the file that the mapping is in.
func (m Mapping) File() string { return m.r.src.name }

// Wrong reports what is wrong with a key that is there, or with the whole
// mapping, "".
func (m Mapping) Wrong(key, hint, format string, args ...any) {
	at := m.node
	if e, there := m.values[key]; there {
		at = e.key
	}
	m.r.errorf(at, hint, "%s: %s", m.what, fmt.Sprintf(format, args...))
}

// WrongValue is Wrong at the value of a key; where it has none, that has been reported.
func (m Mapping) WrongValue(key, hint, format string, args ...any) {
	if at := m.get(key); at != nil {
		m.r.errorf(at, hint, "%s: %s", m.what, fmt.Sprintf(format, args...))
	}
}

// Sound reports whether nothing was wrong in the mapping, or in what was read after it: what is found beside it could be wrong because of that.
func (m Mapping) Sound() bool { return m.r.mistakes() == m.before }

// Error is a mistake at the value of a key, or of the whole mapping, "", that is found after the file was read.
func (m Mapping) Error(key, hint, format string, args ...any) error {
	at := m.get(key)
	if at == nil {
		at = m.node
	}
	return m.r.src.errorAt(place(at), hint, fmt.Sprintf("%s: %s", m.what, fmt.Sprintf(format, args...)))
}

// list reads a sequence's values.
func (r *reader) list(n ast.Node, what string) ([]ast.Node, bool) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		r.errorf(n, "", "%s: want a list here, found %s", what, foundText(n))
		return nil, false
	}
	out := make([]ast.Node, 0, len(seq.Values))
	for _, v := range seq.Values {
		if r.full() {
			break
		}
		v := r.resolve(v)
		switch {
		case v == nil:
			continue
		case v.Type() == ast.NullType:
			r.errorf(v, "", "%s: this entry is empty", what)
			continue
		}
		out = append(out, v)
	}
	return out, true
}

// scalar returns the text of a plain value as it was written, so that 0x9900
// and 1e3 stay what they are.
func scalar(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

func foundText(n ast.Node) string {
	switch n := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return `"key: value" pairs`
	case *ast.SequenceNode:
		return "a list"
	case *ast.BoolNode:
		return n.GetToken().Value
	case *ast.LiteralNode:
		return "a block of text"
	}
	if text, ok := scalar(n); ok {
		return strconv.Quote(text)
	}
	return "something else"
}

// text reads a value that is one word or number.
func (r *reader) text(n ast.Node, what string) (string, bool) {
	if n == nil {
		return "", false
	}
	s, ok := scalar(n)
	if !ok {
		hint := ""
		if n.Type() == ast.BoolType {
			hint = "put quotes around it where it is meant as text"
		}
		r.errorf(n, hint, "%s: want text here, found %s", what, r.show(foundText(n)))
	}
	return s, ok
}

// word reads one of a set of words.
func (r *reader) word(n ast.Node, what string, known ...string) (string, bool) {
	return checked(func(text string, quote func(string) string) (problem, hint string) {
		if slices.Contains(known, text) {
			return "", ""
		}
		return fmt.Sprintf("%s is not one of %s", quote(text), oneOf(known)), Suggest(text, known)
	})(r, n, what)
}

func (r *reader) bool(n ast.Node, what string) bool {
	if n == nil {
		return false
	}
	b, ok := n.(*ast.BoolNode)
	if !ok {
		r.errorf(n, "", "%s: want true or false, found %s", what, r.show(foundText(n)))
		return false
	}
	return b.Value
}

// A leading zero would make an octal number of it for some, not for others.
var wholeNumber = regexp.MustCompile(`^(0|[1-9][0-9]*|0x[0-9a-fA-F]+)$`)

// number reads a whole number up to limit; that it is not below least is its caller's to
// check.
func (r *reader) number(n ast.Node, what string, least, limit uint64) (uint64, bool) {
	return parsed(r, n, what, func(text string, quote func(string) string) (uint64, string, string) {
		if !wholeNumber.MatchString(text) {
			return 0, fmt.Sprintf("want a whole number from %d to %d without leading zeros, found %s", least, limit, quote(text)), ""
		}
		v, err := strconv.ParseUint(text, 0, 64)
		if err != nil || v > limit {
			return 0, fmt.Sprintf("%s is too large: want %d to %d", text, least, limit), ""
		}
		return v, "", ""
	})
}

var (
	hexNumber = regexp.MustCompile(`^0x[0-9a-fA-F]{1,4}$`)
	hexDigits = regexp.MustCompile(`^[0-9a-fA-F]{4}$`)
)

// parseTPID reads a TPID. It has to be hexadecimal: a TPID without its 0x is a slip
// that would otherwise pass as another number.
func parseTPID(text string, _ func(string) string) (uint16, string, string) {
	if !hexNumber.MatchString(text) {
		hint := ""
		if hexDigits.MatchString(text) {
			hint = fmt.Sprintf("did you mean 0x%s?", text)
		}
		return 0, fmt.Sprintf("want a TPID in hexadecimal, 0x0600 to 0xffff, found %q", text), hint
	}
	v, _ := strconv.ParseUint(text, 0, 16) // the pattern leaves nothing to fail
	return uint16(v), "", ""
}

func (r *reader) tpid(n ast.Node, what string) (uint16, bool) { return parsed(r, n, what, parseTPID) }

func writeTPID(w *writer, v reflect.Value) { w.out = fmt.Appendf(w.out, "0x%04x", v.Uint()) }

// MinInterval is the shortest Δt, of devices that measure by themselves.
const MinInterval = 100 * time.Microsecond

// maxInterval is the longest Δt: a day's average, for a schedule of once a day.
const maxInterval = 24 * time.Hour

// parseInterval reads an averaging window Δt.
func parseInterval(text string, _ func(string) string) (time.Duration, string, string) {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, fmt.Sprintf("%q is not a duration", text), "write it with its unit: 100ms, 1s"
	case d < MinInterval:
		return 0, fmt.Sprintf("%s is too short: no data plane measures in less than %s", d, MinInterval), ""
	case d > maxInterval:
		return 0, fmt.Sprintf("%s is too long: a signal is to tell of load that is still there; at most %s", text, maxInterval), ""
	}
	return d, "", ""
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,62})$`)

// isName is plainName without the cost of a regular expression: a large fleet
// has a million names.
func isName(s string) bool {
	if len(s) < 1 || len(s) > 63 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case i > 0 && (c == '.' || c == '_' || c == '-'):
		default:
			return false
		}
	}
	return true
}

const nameHint = "letters, digits, '.', '_' and '-', at most 63, the first a letter or digit"

func notName(text string, _ func(string) string) (problem, hint string) {
	if !isName(text) {
		return fmt.Sprintf("%q is not a name", text), nameHint
	}
	return "", ""
}

// name reads the name of a profile or device.
func (r *reader) name(n ast.Node, what string) (string, bool) { return checked(notName)(r, n, what) }
