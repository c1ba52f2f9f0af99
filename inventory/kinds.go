package inventory

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/csig-agent/csig/quantize"
)

// kind is what the value of a key may be.
type kind struct {
	read   func(r *reader, n ast.Node, what string, to reflect.Value) bool // false: it is wrong, and reported
	form   func() *schema
	write  func(w *writer, v reflect.Value)
	keys   *keySet // of a mapping
	block  bool    // outside of braces it is written on lines of its own
	secret bool    // it is a Secret, or may have one in it
}

// fileValue is a pointer to a value that has a form of its own in the file.
type fileValue interface {
	readFrom(r *reader, n ast.Node, what string) bool
	form() *schema
	writeTo(w *writer)
}

// kindOf is the kind that a field's type and its tags describe.
func kindOf(f reflect.StructField) *kind {
	if f.Type.Kind() == reflect.Pointer {
		return pointerKind(valueKind(f.Type.Elem(), f.Tag))
	}
	return valueKind(f.Type, f.Tag)
}

func valueKind(t reflect.Type, tag reflect.StructTag) *kind {
	least, most, _ := strings.Cut(tag.Get("range"), " ")
	words := tag.Get("words")
	pointer := reflect.PointerTo(t)
	switch {
	case pointer.Implements(reflect.TypeFor[fileValue]()):
		return ownKind(t)
	case pointer.Implements(reflect.TypeFor[parted]()):
		return layeredKind(t, tag.Get("without"))
	case t.Kind() == reflect.Slice:
		return listKind(valueKind(t.Elem(), tag), tag.Get("many") == "or one")
	case words != "":
		return wordKind(strings.Fields(words))
	case t.Kind() == reflect.Struct:
		return mappingKind(keySetOf(t, tag.Get("without")))
	case t.Kind() == reflect.Bool:
		return &kind{read: readBool, form: boolForm, write: writeBool}
	case least != "" && t == reflect.TypeFor[time.Duration]():
		return durationKind(parseDuration(least), parseDuration(most))
	case least != "":
		low, err := strconv.Atoi(least)
		high, err2 := strconv.Atoi(most)
		if err != nil || err2 != nil {
			panic(fmt.Sprintf("inventory: %q to %q is no range of numbers", least, most))
		}
		return numberKind(low, high, tag.Get("low"), tag.Get("hint"))
	}
	is, argument, _ := strings.Cut(tag.Get("is"), " ")
	if k := namedKind(is, argument); k != nil {
		return k
	}
	panic(fmt.Sprintf("inventory: there is no kind for a %s that is %q", t, is))
}

func namedKind(is, argument string) *kind {
	asText := func(form *schema, read textReader) *kind { return textKind(form, false, read) }
	asIs := func(form *schema, read textReader) *kind { return textKind(form, true, read) }
	any := (*reader).text
	switch is {
	case "line":
		most, err := strconv.Atoi(argument)
		if err != nil {
			return nil
		}
		return asText(textForm(""), lineReader(most))
	case "text":
		return asText(textForm(""), any)
	case "word":
		return asIs(textForm(""), any)
	case "names":
		return asIs(textForm(patternRegexp), ranged(notName))
	case "hosts":
		return asText(textForm(patternRegexp), ranged(notName))
	case "ports":
		return asText(textForm(""), ranged(notPort))
	case "peers":
		return asText(textForm(""), ranged(notPeer))
	case "field":
		return asIs(textForm(fieldName.String()), any)
	case "hash":
		return asText(textForm(profileRegexp), checked(notProfileHash))
	case "date":
		return asText(stringForm(`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`), checked(notDate))
	case "name":
		return asIs(textForm(plainName.String()), (*reader).name)
	case "format":
		return asIs(wordForm(Format), any)
	case "schedule":
		return asIs(textForm(""), (*reader).schedule)
	case "interface":
		return asText(textForm(""), checked(notInterface))
	case "address":
		return asText(textForm(""), checked(notAddress))
	case "addresses":
		return asText(textForm(""), (*reader).addresses)
	case "prefix":
		return asIs(textForm(`/[0-9]+$`), checked(notPrefix))
	case "port-ranges":
		return asIs(textForm(`^[0-9]+(-[0-9]+)?$`), checked(notPortRange))
	case "share":
		return asIs(stringForm(`^(all|1/[0-9]+)$`), checked(notShare))
	case "ips":
		return asText(textForm(""), ranged(notIP))
	case "path":
		return asText(stringForm("^/"), (*reader).path)
	case "paths":
		return asText(stringForm("^/"), (*reader).paths)
	case "single-path":
		return asText(stringForm("^/"), (*reader).onePath)
	case "variable":
		return asText(stringForm(variable.String()), any)
	case "links":
		return &kind{form: func() *schema { return anyForm(listForm(textForm("")), textForm("")) }}
	case "port":
		return numberKind(1, 1<<16-1, "port 0 cannot be asked", "")
	case "mtu":
		return checkedKind(func() *schema { return numberForm(minMTU, maxMTU) }, parseMTU, writeNumber)
	case "speed":
		return checkedKind(speedForm, parseSpeed, func(w *writer, v reflect.Value) {
			w.out = append(w.out, FormatSpeed(v.Uint())...)
		})
	case "rate":
		return checkedKind(speedForm, parseRate, func(w *writer, v reflect.Value) {
			w.out = append(w.out, FormatSpeed(v.Uint())...)
		})
	case "bytes":
		return checkedKind(func() *schema { return textForm(`^[0-9]+[kMGT]?$`) }, parseBytes, writeNumber)
	case "margin":
		return checkedKind(func() *schema { return textForm(`^[0-9]`) }, parseMargin, func(w *writer, v reflect.Value) {
			w.plain(valueText(quantize.MinABWC, v.Uint()))
		})
	case "tpid":
		return checkedKind(tpidForm, parseTPID, writeTPID)
	case "profile-tpid":
		return checkedKind(profileTPIDForm, parseTPID, writeTPID)
	case "interval":
		return checkedKind(durationForm, parseInterval, writeDuration)
	}
	return nil
}

// lineReader reads a line of text, of so many bytes at most.
func lineReader(most int) textReader {
	return checked(func(text string, quote func(string) string) (problem, hint string) {
		if text == "" || !printableLine(text, most) {
			return fmt.Sprintf("want 1 to %d bytes of text, found %s", most, quote(text)), ""
		}
		return "", ""
	})
}

type textReader func(r *reader, n ast.Node, what string) (string, bool)

// check says what is wrong with a text and what to do, "" where it is right; quote
// is for what it repeats of the text.
type check func(text string, quote func(string) string) (problem, hint string)

// checked reads a text that has to pass a check.
func checked(wrong check) textReader {
	return func(r *reader, n ast.Node, what string) (string, bool) {
		return parsed(r, n, what, func(text string, quote func(string) string) (string, string, string) {
			problem, hint := wrong(text, quote)
			return text, problem, hint
		})
	}
}

// ranged reads a text that may have ranges. Each name that it stands for has to pass
// a check.
func ranged(wrong check) textReader {
	return func(r *reader, n ast.Node, what string) (string, bool) {
		text, ok := r.text(n, what)
		if !ok {
			return "", false
		}
		list, ok := r.expand(n, text, what)
		for _, name := range list {
			if problem, hint := wrong(name, r.quote); problem != "" {
				r.errorf(n, hint, "%s: %s", what, problem)
				return "", false
			}
		}
		return text, ok
	}
}

// textParser makes a value of a text, or says what is wrong as a check does.
type textParser[T any] func(text string, quote func(string) string) (value T, problem, hint string)

// parsed reads a value from one word or number.
func parsed[T any](r *reader, n ast.Node, what string, from textParser[T]) (out T, ok bool) {
	text, ok := r.text(n, what)
	if !ok {
		return out, false
	}
	v, problem, hint := from(text, r.quote)
	if problem != "" {
		r.errorf(n, hint, "%s: %s", what, problem)
		return out, false
	}
	return v, true
}

// checkedKind is a number that has a parser of its own.
func checkedKind[T int | uint16 | uint64 | time.Duration](form func() *schema, from textParser[T], write func(w *writer, v reflect.Value)) *kind {
	return &kind{
		read: func(r *reader, n ast.Node, what string, to reflect.Value) bool {
			v, ok := parsed(r, n, what, from)
			setNumber(to, uint64(v))
			return ok
		},
		form: form, write: write,
	}
}

// pointerKind is for a pointer, which is nil where the file says nothing.
func pointerKind(k *kind) *kind {
	out := *k
	out.read = func(r *reader, n ast.Node, what string, to reflect.Value) bool {
		v := reflect.New(to.Type().Elem())
		ok := k.read(r, n, what, v.Elem())
		to.Set(v)
		return ok
	}
	out.write = func(w *writer, v reflect.Value) { k.write(w, v.Elem()) }
	return &out
}

func ownKind(t reflect.Type) *kind {
	k := &kind{
		read: func(r *reader, n ast.Node, what string, to reflect.Value) bool {
			return to.Addr().Interface().(fileValue).readFrom(r, n, what)
		},
		form: func() *schema { return reflect.New(t).Interface().(fileValue).form() },
		write: func(w *writer, v reflect.Value) {
			own := reflect.New(t)
			own.Elem().Set(v)
			own.Interface().(fileValue).writeTo(w)
		},
		secret: t == reflect.TypeFor[Secret](),
	}
	if keys := t.Kind() == reflect.Struct && !k.secret; keys && len(keySetOf(t, "").keys) > 0 {
		k.keys = keySetOf(t, "")
		k.secret = k.keys.secret
	}
	form := k.form()
	_, named := form.Additional.(*schema)
	k.block = named || slices.Contains(form.Type, "array")
	return k
}

func mappingKind(s *keySet) *kind {
	return &kind{
		read: func(r *reader, n ast.Node, what string, to reflect.Value) bool {
			_, ok := s.read(r, n, what, to, nil)
			return ok
		},
		form: s.schema, write: func(w *writer, v reflect.Value) { w.keys(s, v) }, keys: s, block: true, secret: s.secret,
	}
}

// listKind is a list, or also one entry without the brackets, which those read that
// take the entries one by one.
func listKind(of *kind, orOne bool) *kind {
	form := func() *schema {
		if orOne {
			return anyForm(of.form(), listForm(of.form()))
		}
		return listForm(of.form())
	}
	read := func(r *reader, n ast.Node, what string, to reflect.Value) bool {
		list, ok := r.list(n, what)
		out := reflect.MakeSlice(to.Type(), len(list), len(list))
		for i, item := range list {
			ok = of.read(r, item, what, out.Index(i)) && ok
		}
		to.Set(out)
		return ok
	}
	return &kind{read: read, form: form, block: true, write: func(w *writer, v reflect.Value) {
		w.list(v.Len(), func(i int) { of.write(w, v.Index(i)) })
	}}
}

func wordKind(words []string) *kind {
	k := textKind(wordForm(words...), true, func(r *reader, n ast.Node, what string) (string, bool) { return r.word(n, what, words...) })
	k.write = func(w *writer, v reflect.Value) { w.plain(fmt.Sprint(v)) } // some have a word for what is zero
	return k
}

func boolForm() *schema { return &schema{Type: []string{"boolean"}} }

func readBool(r *reader, n ast.Node, what string, to reflect.Value) bool {
	to.SetBool(r.bool(n, what))
	return true
}

func writeBool(w *writer, v reflect.Value) { w.out = strconv.AppendBool(w.out, v.Bool()) }

// textKind is a text; one of csig's own words, or of a form that is checked, needs
// no quotes.
func textKind(form *schema, plain bool, read textReader) *kind {
	write := func(w *writer, v reflect.Value) { w.text(v.String()) }
	if plain {
		write = func(w *writer, v reflect.Value) { w.plain(v.String()) }
	}
	return &kind{
		read: func(r *reader, n ast.Node, what string, to reflect.Value) bool {
			s, ok := read(r, n, what)
			to.SetString(s)
			return ok
		},
		form: func() *schema { one := *form; return &one }, write: write,
	}
}

// numberKind is a whole number. One below the least is wrong here where there are
// words for it, and otherwise where it is used.
// numberKind is a number of a range; low says why there is a least one, and hint what to
// write instead.
func numberKind(least, most int, low, hint string) *kind {
	return &kind{
		read: func(r *reader, n ast.Node, what string, to reflect.Value) bool {
			v, ok := r.number(n, what, uint64(least), uint64(most))
			if ok && v < uint64(least) {
				r.errorf(n, hint, "%s: %s", what, cmp.Or(low, fmt.Sprintf("%d is too small: want %d to %d", v, least, most)))
			}
			setNumber(to, v)
			return ok
		},
		form: func() *schema { return numberForm(least, most) }, write: writeNumber,
	}
}

func setNumber(to reflect.Value, v uint64) {
	if to.CanUint() {
		to.SetUint(v)
	} else {
		to.SetInt(int64(v))
	}
}

func writeNumber(w *writer, v reflect.Value) {
	if v.CanUint() {
		w.out = strconv.AppendUint(w.out, v.Uint(), 10)
	} else {
		w.out = strconv.AppendInt(w.out, v.Int(), 10)
	}
}

func durationKind(least, most time.Duration) *kind {
	return checkedKind(durationForm, func(text string, quote func(string) string) (time.Duration, string, string) {
		d, err := time.ParseDuration(text)
		switch {
		case err != nil:
			return 0, quote(text) + " is not a duration", "write it with its unit: 500ms, 2s"
		case d < least || d > most:
			return 0, fmt.Sprintf("want %s to %s, found %s", least, most, text), ""
		}
		return d, "", ""
	}, writeDuration)
}

func durationForm() *schema { return stringForm(`^[0-9.]+(ns|us|µs|μs|ms|s|m|h)`) }

func writeDuration(w *writer, v reflect.Value) { w.plain(time.Duration(v.Int()).String()) }

func parseDuration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(fmt.Sprintf("inventory: the range of a key: %v", err))
	}
	return d
}
