package inventory

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// A struct with tags defines the keys of one kind of mapping in a fleet file.
// Reading, the JSON Schema, defaults, writing, the hash and what is hidden follow
// from it. The tags of a field:
//
//	key      the key's name, or "*" for those of platforms (platform.go); ",need" where it may not be missing, ",flow" where it is
//	         written in one line, ",always" where it is written though it is zero,
//	         ",quiet" where errors do not quote what is in it,
//	         ",short" where its value alone may stand for the mapping
//	doc      what it says, for the schema; on the blank field, of the mapping
//	many     "or one": a list, or one entry without the brackets
//	is       what its value is, where the type does not tell (kinds.go)
//	words    the words that it may be
//	range    its least and its largest value
//	default  its value where the file has none, as the file would have it
//	hint     what to do where it is missing
//	without  keys that a nested or embedded struct has not here
//	hash     how it counts in a fleet's hash (hash.go)
//
// What takes two keys to judge is in the struct's method Check.

// keySet is a struct with tags, prepared.
type keySet struct {
	doc    string
	short  string // the key whose value alone may stand for the mapping
	keys   []key
	names  []string
	filled reflect.Value // the struct with the defaults
	hash   []hashStep
	secret bool // there may be a Secret in it
	count  int  // of the keys with those that are left out
}

// key is one key of a mapping.
type key struct {
	name, doc, hint string
	need, flow      bool
	quiet           bool         // a credential may be in the wrong place in it: errors do not quote it
	always          bool         // it is written though it is zero
	number          int          // among the keys of the struct, with those that a set leaves out
	index           []int        // of the field
	own             reflect.Type // of a platform's key, of which the field is a map
	kind            *kind
}

// Checker is a pointer to a struct of keys with rules about several of them.
type Checker interface {
	// Check is called when all keys have been read, also wrong ones: they are zero.
	Check(m Mapping)
}

var keySets sync.Map // by keySetID

type keySetID struct {
	typ     reflect.Type
	without string
}

// keysOf is what a struct with tags defines, without some of its keys.
func keysOf[T any](without ...string) *keySet {
	return keySetOf(reflect.TypeFor[T](), strings.Join(without, " "))
}

func keySetOf(t reflect.Type, without string) *keySet {
	id := keySetID{t, without}
	s, known := keySets.Load(id)
	if !known {
		s, _ = keySets.LoadOrStore(id, prepareKeys(t, strings.Fields(without)))
	}
	return s.(*keySet)
}

func prepareKeys(t reflect.Type, without []string) *keySet {
	s := &keySet{filled: reflect.New(t).Elem(), hash: hashSteps(t, nil)}
	s.add(t, nil, without)
	return s
}

// add adds the keys of a struct and of those embedded in it.
func (s *keySet) add(t reflect.Type, index []int, without []string) {
	for i := range t.NumField() {
		f, at := t.Field(i), append(slices.Clone(index), i)
		name, options, _ := strings.Cut(f.Tag.Get("key"), ",")
		switch {
		case f.Name == "_" && s.doc == "":
			s.doc = f.Tag.Get("doc")
		case f.Anonymous:
			s.add(f.Type, at, strings.Fields(f.Tag.Get("without")))
		}
		if name == "*" {
			for _, k := range ownKeys(at) {
				k.number = s.count
				s.count++
				s.secret = s.secret || k.kind.secret
				s.keys, s.names = append(s.keys, k), append(s.names, k.name)
			}
			continue
		}
		if name == "" {
			continue
		}
		number := s.count
		if s.count++; slices.Contains(without, name) {
			continue
		}
		text, given := f.Tag.Lookup("default")
		k := key{name: name, doc: f.Tag.Get("doc"), hint: f.Tag.Get("hint"), number: number, index: at, kind: kindOf(f)}
		k.need, k.flow, k.quiet = strings.Contains(options, "need"), strings.Contains(options, "flow"), strings.Contains(options, "quiet")
		if strings.Contains(options, "short") {
			s.short = name
		}
		k.always = k.need || given || strings.Contains(options, "always")
		if given && !k.kind.read(&reader{}, ast.String(token.New(text, text, &token.Position{})), name, s.filled.FieldByIndex(at)) {
			panic(fmt.Sprintf("inventory: the default of %s.%s cannot be read", t, f.Name))
		}
		s.secret = s.secret || k.kind.secret
		s.keys, s.names = append(s.keys, k), append(s.names, name)
	}
}

// open reads a mapping with the keys of a set, which are left to be read. It
// reports those that are not known, and those that are needed and missing.
func (s *keySet) open(r *reader, n ast.Node, what string) (Mapping, bool) {
	m, ok := r.mapping(n, what, s.names...)
	if ok {
		for i := range s.keys {
			if k := &s.keys[i]; k.need {
				m.need(k.name, k.hint)
			}
		}
	}
	return m, ok
}

// read reads a mapping into a struct of the set's type, and notes which keys are
// given unless about is nil. It returns false where there is no mapping.
func (s *keySet) read(r *reader, n ast.Node, what string, to reflect.Value, about *given) (Mapping, bool) {
	to.Set(s.filled)
	if _, pairs := n.(ast.MapNode); s.short != "" && !pairs {
		m := Mapping{r: r, node: n, what: what, values: map[string]entry{s.short: {s.short, n, n}}}
		if !s.key(s.short).read(r, n, what, to) {
			return m, false
		}
		s.check(m, to)
		return m, true
	}
	m, ok := s.open(r, n, what)
	if !ok {
		return m, false
	}
	if about != nil {
		about.at = make([]originID, s.count)
	}
	for i := range s.keys {
		k := &s.keys[i]
		v, before := m.get(k.name), r.mistakes()
		read := v != nil && k.read(r, v, what+": "+k.name, to)
		if about != nil {
			about.note(r, k, v, read, m.tried(k.name) && !read || r.mistakes() > before || r.full())
		}
	}
	s.check(m, to)
	return m, true
}

func (s *keySet) check(m Mapping, to reflect.Value) {
	if c, ok := to.Addr().Interface().(Checker); ok {
		c.Check(m)
	}
}

// readKeys reads a mapping into what to points at.
func (r *reader) readKeys(n ast.Node, what string, to any) (Mapping, bool) {
	v := reflect.ValueOf(to).Elem()
	return keySetOf(v.Type(), "").read(r, n, what, v, nil)
}

// key is the definition of one key.
func (s *keySet) key(name string) *key { return &s.keys[slices.Index(s.names, name)] }

// read reads the value of a key into its struct. A wrong one is left zero.
func (k *key) read(r *reader, n ast.Node, what string, to reflect.Value) bool {
	if k.quiet {
		defer r.quietly()()
	}
	field := to.FieldByIndex(k.index)
	if k.own != nil {
		field = reflect.New(k.own).Elem()
	}
	ok := k.kind.read(r, n, what, field)
	if !ok {
		field.SetZero()
	} else if k.own != nil {
		k.set(to, field)
	}
	return ok
}
