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

// sharedLocator reads the format of all signals that have none of their own.
// It is judged here, so that a mistake in it is one mistake.
func (p *profileReader) sharedLocator(n ast.Node, what string, bits int) (quantize.Locator, bool) {
	l, ok := p.locator(n, what)
	if !ok || !p.layoutOK {
		return l, ok
	}
	err := l.Validate(bits)
	for _, one := range flatten(err) {
		p.errorf(n, "", "%s: %v", what, one)
	}
	return l, err == nil
}

// locator reads a locator format; an absent one is one unnamed number.
func (p *profileReader) locator(n ast.Node, what string) (quantize.Locator, bool) {
	var l quantize.Locator
	if n == nil {
		return l, true
	}
	list, ok := p.list(n, what)
	for _, item := range list {
		o, isObject := p.object(item, what, "name", "bits", "values")
		if !isObject {
			ok = false
			continue
		}
		var f quantize.LocatorField
		var nameOK, bitsOK bool
		if f.Name, nameOK = p.text(o.need("name", ""), what); nameOK {
			what := what + ": " + f.Name
			if _, err := quantize.ParseSignal(f.Name); err == nil {
				p.errorf(o.get("name"), "lm: {"+f.Name+": …} would mean the signal", "%s: a field cannot have a signal's name", what)
				nameOK = false
			}
		}
		var bits uint64
		bits, bitsOK = p.number(o.need("bits", "how many bits of the locator the field takes"), what+": bits", 16)
		f.Bits = int(bits)
		if values := o.get("values"); values != nil {
			entries, valuesOK := p.entries(values, what+": values")
			ok = ok && valuesOK
			f.Names = make(map[string]uint16)
			for _, e := range entries {
				v, valid := p.number(e.value, what+": "+e.name, 1<<16-1)
				f.Names[e.name], ok = uint16(v), ok && valid
			}
			if len(f.Names) == 0 {
				f.Names = nil
			}
		}
		ok = ok && nameOK && bitsOK
		l.Fields = append(l.Fields, f)
	}
	return l, ok
}

// lm reads a port's locators: for each signal of the profile, what it writes.
func (p *profileReader) lm(n ast.Node, what string) (map[quantize.Signal]uint16, bool) {
	signals := p.signals()
	out := make(map[quantize.Signal]uint16, len(signals))
	entries, isMapping := []entry(nil), false
	if _, isMapping = n.(ast.MapNode); isMapping {
		entries, _ = p.entries(n, what)
	}
	perSignal := slices.ContainsFunc(entries, func(e entry) bool {
		_, err := quantize.ParseSignal(e.name)
		return err == nil
	})
	if !perSignal {
		ok := true
		for _, sig := range signals {
			if lm, encoded := p.encodeLM(sig, n, entries, isMapping, what); encoded {
				out[sig] = lm
			} else {
				ok = false
			}
		}
		return out, ok
	}
	ok := true
	names := make([]string, len(signals))
	for i, sig := range signals {
		names[i] = sig.String()
	}
	given := make(map[quantize.Signal]bool)
	for _, e := range entries {
		if !slices.Contains(names, e.name) {
			p.errorf(e.key, suggest(e.name, names), "%s: %q is not a signal of the profile", what, e.name)
			ok = false
			continue
		}
		sig, _ := quantize.ParseSignal(e.name) // it is one of the profile's
		given[sig] = true
		if e.value == nil {
			ok = false
			continue
		}
		var fields []entry
		_, isMapping := e.value.(ast.MapNode)
		if isMapping {
			fields, _ = p.entries(e.value, what)
		}
		lm, encoded := p.encodeLM(sig, e.value, fields, isMapping, what+": "+e.name)
		if !encoded {
			ok = false
			continue
		}
		out[sig] = lm
	}
	for i, sig := range signals {
		if !given[sig] {
			p.errorf(n, "", "%s: there is none for signal %s", what, names[i])
			ok = false
		}
	}
	return out, ok
}

// signals are the profile's, in wire order.
func (p *profileReader) signals() []quantize.Signal {
	var out []quantize.Signal
	for _, sig := range quantize.Signals {
		if _, ok := p.profile.Signals[sig]; ok {
			out = append(out, sig)
		}
	}
	return out
}

// encodeLM reads one locator: a number, or a value for each field.
func (p *profileReader) encodeLM(sig quantize.Signal, n ast.Node, entries []entry, isMapping bool, what string) (uint16, bool) {
	if !p.layoutOK || p.reported["signals."+sig.String()+".locator"] {
		return 0, false
	}
	layout, locator := p.profile.Layout, p.profile.Signals[sig].Locator
	if !isMapping {
		v, ok := p.number(n, what, uint64(layout.LMAllOnes()))
		if !ok {
			return 0, false
		}
		lm := uint16(v)
		if why := layout.LMReserved(lm); why != "" {
			p.errorf(n, "", "%s: %s", what, why)
			return 0, false
		}
		if text := locator.Text(layout.LMBits(), lm); strings.Contains(text, "spare") {
			p.errorf(n, "", "%s: %s, the locator's fields do not reach that far", what, text)
			return 0, false
		}
		return lm, true
	}
	if len(locator.Fields) == 0 {
		p.errorf(n, "write lm: 17, or describe the fields under profile: locator", "%s: the profile's locator for %s has no fields, so its lm is a number", what, sig)
		return 0, false
	}
	known := make([]string, len(locator.Fields))
	for i, f := range locator.Fields {
		known[i] = f.Name
	}
	ok := true
	values := make(map[string]string, len(entries))
	for _, e := range entries {
		i := slices.Index(known, e.name)
		if i < 0 {
			p.errorf(e.key, suggest(e.name, known), "%s: the locator has no field %q", what, e.name)
			ok = false
			continue
		}
		var valueOK bool
		values[e.name], valueOK = p.fieldValue(locator.Fields[i], e.value, what+": "+e.name)
		ok = ok && valueOK
	}
	for _, name := range known {
		if _, there := values[name]; !there {
			p.errorf(n, "", "%s: there is no value for the locator's field %s", what, name)
			ok = false
		}
	}
	if !ok {
		return 0, false
	}
	lm, err := locator.Encode(layout.LMBits(), values)
	if err != nil {
		p.errorf(n, "", "%s: %v", what, err)
		return 0, false
	}
	return lm, true
}

var decimal = regexp.MustCompile(`^(0|[1-9][0-9]{0,4})$`)

// fieldValue reads the value of one locator field: a value's name or a number.
func (p *profileReader) fieldValue(f quantize.LocatorField, n ast.Node, what string) (string, bool) {
	text, ok := p.text(n, what)
	if !ok {
		return "", false
	}
	if _, named := f.Names[text]; named {
		return text, true
	}
	names := slices.Sorted(maps.Keys(f.Names))
	if !decimal.MatchString(text) {
		p.errorf(n, suggest(text, names), "%s: %q is not a value of this field", what, text)
		return "", false
	}
	v, _ := strconv.Atoi(text) // five digits at most
	if v >= 1<<f.Bits {
		p.errorf(n, "", "%s: %d does not fit %d bits", what, v, f.Bits)
		return "", false
	}
	return text, true
}

// describe is a locator in words, for messages about two ports with the same.
func (p *profileReader) describe(sig quantize.Signal, lm uint16) string {
	text := p.profile.Signals[sig].Locator.Text(p.profile.Layout.LMBits(), lm)
	if text == fmt.Sprint(lm) {
		return text
	}
	return fmt.Sprintf("%d (%s)", lm, text)
}
