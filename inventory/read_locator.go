package inventory

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/csig-agent/csig/quantize"
)

var fieldName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]{0,62}$`)

// Check wants a name that an lm cannot mean otherwise.
func (k *locatorKeys) Check(m Mapping) {
	_, err := quantize.ParseSignal(k.Name)
	switch {
	case m.get("name") == nil || k.Name == "":
	case !fieldName.MatchString(k.Name):
		m.WrongValue("name", "a letter, then letters, digits, '.', '_' or '-'", "%q is not the name of a field", k.Name)
	case err == nil:
		m.WrongValue("name", "lm: {"+k.Name+": …} would mean the signal", "%s: a field cannot have a signal's name", k.Name)
	}
}

// locator reads a locator format for an LM of that many bits, with the places of its fields; an
// absent one is one unnamed number.
func (p *profileReader) locator(n ast.Node, what string, bits int) (l quantize.Locator, at []originID, ok bool) {
	if n == nil {
		return l, nil, true
	}
	p.layer = p.c.origins.layer("profile")
	list, ok := p.list(n, what)
	for _, item := range list {
		var keys locatorKeys
		before := p.mistakes()
		_, isMapping := p.readKeys(item, what, &keys)
		ok = ok && isMapping && p.mistakes() == before
		l.Fields = append(l.Fields, quantize.LocatorField{Name: keys.Name, Bits: keys.Bits, Names: keys.Values})
		at = append(at, p.at(item))
	}
	if !ok || !p.layoutOK || p.full() {
		return l, at, false
	}
	// What is wrong with a field alone belongs to it, the rest to the list.
	said := make(map[string]bool)
	for i, f := range l.Fields {
		for _, err := range flatten(quantize.Locator{Fields: []quantize.LocatorField{f}}.Validate(bits)) {
			said[err.Error()] = true
			p.errorf(list[i], "", "%s: %v", what, err)
		}
	}
	for _, err := range flatten(l.Validate(bits)) {
		if !said[err.Error()] {
			p.errorf(n, "", "%s: %v", what, err)
		}
		ok = false
	}
	return l, at, ok
}

// lm reads what is given of a port's locators: for each signal of the profile,
// a number or some fields.
func (r *reader) lm(n ast.Node, what string) (out lmSpec, ok bool) {
	signals := r.c.profile.profile.Carried()
	ok = true
	encode := func(sig quantize.Signal, n ast.Node, what string) {
		one, encoded := &out[signalIndex(sig)], false
		one.mask, one.value, encoded = r.encodeLM(sig, n, what)
		ok = ok && encoded
	}
	entries, _ := r.fields(n, what)
	if !slices.ContainsFunc(entries, func(e entry) bool { _, err := quantize.ParseSignal(e.name); return err == nil }) {
		for _, sig := range signals {
			encode(sig, n, what)
		}
		return out, ok
	}
	for _, e := range entries {
		sig, err := quantize.ParseSignal(e.name)
		switch {
		case err != nil || !slices.Contains(signals, sig):
			var names []string
			for _, sig := range signals {
				names = append(names, sig.String())
			}
			r.errorf(e.key, Suggest(e.name, names), "%s: %q is not a signal of the profile", what, e.name)
			ok = false
		case e.value == nil:
			ok = false
		default:
			encode(sig, e.value, what+": "+e.name)
		}
	}
	return out, ok
}

// fields are the entries of a mapping; false where it is none.
func (r *reader) fields(n ast.Node, what string) ([]entry, bool) {
	if _, ok := n.(ast.MapNode); !ok {
		return nil, false
	}
	entries, _ := r.entries(n, what)
	return entries, true
}

// signalIndex is the place of a signal in an lmSpec.
func signalIndex(sig quantize.Signal) int { return slices.Index(quantize.Signals[:], sig) }

// encodeLM reads one locator: a number, or values of fields. mask has the bits
// that are given: those above the fields always are.
func (r *reader) encodeLM(sig quantize.Signal, n ast.Node, what string) (mask, value uint16, ok bool) {
	p := r.c.profile
	if !p.layoutOK || p.badLM[sig] {
		return 0, 0, false
	}
	layout, locator := p.profile.Layout, p.profile.Signals[sig].Locator
	all := layout.LMAllOnes()
	entries, isMapping := r.fields(n, what)
	if !isMapping {
		v, ok := r.number(n, what, 0, 1<<16-1)
		if !ok {
			return 0, 0, false
		}
		lm := uint16(v)
		if why := layout.LMReserved(lm); why != "" {
			r.errorf(n, "", "%s: %s", what, why)
			return 0, 0, false
		}
		if text := locator.Text(layout.LMBits(), lm); strings.Contains(text, "spare") {
			r.errorf(n, "", "%s: %s, the locator's fields do not reach that far", what, text)
			return 0, 0, false
		}
		return all, lm, true
	}
	if len(locator.Fields) == 0 {
		r.errorf(n, "write lm: 17, or describe the fields under profile: locator", "%s: the profile's locator for %s has no fields, so its lm is a number", what, sig)
		return 0, 0, false
	}
	ok = true
	for _, e := range entries {
		i, shift := fieldShift(locator, e.name)
		if i < 0 {
			known := make([]string, len(locator.Fields))
			for i, f := range locator.Fields {
				known[i] = f.Name
			}
			r.errorf(e.key, Suggest(e.name, known), "%s: the locator has no field %q", what, e.name)
			ok = false
			continue
		}
		v, valueOK := r.fieldValue(locator.Fields[i], e.value, what+": "+e.name)
		ok = ok && valueOK
		value |= v << shift
		mask |= (1<<locator.Fields[i].Bits - 1) << shift
	}
	mask |= all &^ fieldBits(locator)
	if why := layout.LMReserved(value); ok && mask == all && why != "" {
		r.errorf(n, "", "%s: locator %s", what, why)
		ok = false
	}
	return mask, value, ok
}

// fieldShift finds a field by its name, with the number of bits below it; -1
// when there is none.
func fieldShift(l quantize.Locator, name string) (i, shift int) {
	for i, f := range slices.Backward(l.Fields) {
		if f.Name == name {
			return i, shift
		}
		shift += f.Bits
	}
	return -1, 0
}

// fieldBits are the bits of all fields.
func fieldBits(l quantize.Locator) uint16 {
	bits := 0
	for _, f := range l.Fields {
		bits += f.Bits
	}
	return 1<<bits - 1
}

var decimal = regexp.MustCompile(`^(0|[1-9][0-9]{0,4})$`)

// fieldValue reads the value of one locator field: a value's name or a number.
func (r *reader) fieldValue(f quantize.LocatorField, n ast.Node, what string) (uint16, bool) {
	text, ok := r.text(n, what)
	if !ok {
		return 0, false
	}
	if v, named := f.Names[text]; named {
		return v, true
	}
	names := slices.Sorted(maps.Keys(f.Names))
	if !decimal.MatchString(text) {
		r.errorf(n, Suggest(text, names), "%s: %q is not a value of this field", what, text)
		return 0, false
	}
	v, _ := strconv.Atoi(text) // five digits at most
	if v >= 1<<f.Bits {
		r.errorf(n, "", "%s: %d does not fit %d bits", what, v, f.Bits)
		return 0, false
	}
	return uint16(v), true
}

// describeLM is a locator in words, for messages about two ports with the same.
func describeLM(p *quantize.Profile, sig quantize.Signal, lm uint16) string {
	text := p.Signals[sig].Locator.Text(p.Layout.LMBits(), lm)
	if text == fmt.Sprint(lm) {
		return text
	}
	return fmt.Sprintf("%d (%s)", lm, text)
}
