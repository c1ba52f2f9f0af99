package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/csig-agent/csig/vendors/sai"
)

// units are words of the comments that package sai relies on: it converts values by them.
var units = map[sai.Enum]string{
	"SAI_CSIG_SIGNAL_TYPE_ABW":   "bytes per second",
	"SAI_CSIG_SIGNAL_TYPE_ABWC":  "percentage",
	"SAI_CSIG_SIGNAL_TYPE_DELAY": "nanoseconds",
	"SAI_CSIG_SIGNAL_TYPE_NQD":   "normalized port speed",
}

// compare says of each name whether the headers have it as package sai does.
func compare(h *headers) (text string, differ int) {
	var b strings.Builder
	fmt.Fprintf(&b, "SAI %s.%s.%s\n", h.version["MAJOR"], h.version["MINOR"], h.version["REVISION"])
	say := func(want, got string) {
		if want == got {
			fmt.Fprintf(&b, "ok      %s\n", want)
			return
		}
		differ++
		fmt.Fprintf(&b, "DIFFERS %s\n        %s\n", want, got)
	}
	for _, t := range []sai.ObjectType{sai.PortObject, sai.SwitchObject, sai.TAMObject, sai.TAMIntObject} {
		say(objectLine(t.String(), int64(t)), h.found(t.String(), func(v value) string { return objectLine(t.String(), v.number) }))
	}
	for i := range sai.Attributes {
		a := &sai.Attributes[i]
		say(attrLine(a), h.found(a.Name, func(v value) string {
			def := v.def
			if def == "" {
				def = "none"
			}
			return fmt.Sprintf("%s %s, %s, default %s", a.Name, v.typ, v.flags, def)
		}))
	}
	for _, enum := range slices.Sorted(maps.Keys(sai.Values)) {
		for n, name := range sai.Values[enum] {
			say(valueLine(enum, name, n), h.found(string(name), func(v value) string {
				unit, number := units[name], n
				if unit != "" { // its number is T
					number = int(v.number)
				}
				if !strings.Contains(v.comment, unit) {
					unit = v.comment
				}
				text := line(v.enum, name, number, unit)
				if want, used := sai.Numbers[name]; used && v.number != want && unit == "" {
					text += fmt.Sprintf(" = %d, not %d", v.number, want)
				}
				return text
			}))
		}
	}
	return b.String(), differ
}

// found is what the headers have of a name.
func (h *headers) found(name string, as func(value) string) string {
	if v, ok := h.values[name]; ok {
		return as(v)
	}
	return "not in the headers"
}

func objectLine(name string, number int64) string { return fmt.Sprintf("%s = %d", name, number) }

// attrLine is what package sai has of an attribute, as the headers write it.
func attrLine(a *sai.AttrType) string {
	flags, def := "CREATE_AND_SET", "none"
	switch {
	case a.ReadOnly:
		flags = "READ_ONLY"
	case a.Mandatory:
		flags = "MANDATORY_ON_CREATE | CREATE_ONLY"
	case a.CreateOnly:
		flags = "CREATE_ONLY"
	}
	if a.Default != nil {
		if def = a.Default.String(); def == "0:null" {
			def = "empty"
		}
	}
	return fmt.Sprintf("%s %s, %s, default %s", a.Name, a.Type, flags, def)
}

// valueLine is what package sai has of an enum's value.
func valueLine(enum string, name sai.Enum, n int) string { return line(enum, name, n, units[name]) }

func line(enum string, name sai.Enum, n int, unit string) string {
	if unit == "" {
		return fmt.Sprintf("%s %s", enum, name)
	}
	return fmt.Sprintf("%s %s = %d, in %s", enum, name, n, unit)
}
