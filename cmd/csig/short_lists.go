package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
)

// briefly is a list of names for a person: in order when they are few, else by
// families, the names that differ in their numbers alone: "leaf-0-1 … leaf-313-32
// (5,024)". Of many families it says how many names are in the others.
func briefly(names []string) string {
	if text := vendors.Names(names); strings.Count(text, ", ") < maxNames {
		return text
	}
	var parts []string
	shown, _ := atMost(findings.Alike(names, familyOf), maxNames)
	left := len(names)
	for _, of := range shown {
		left -= len(of)
		slices.SortFunc(of, inventory.CompareNames)
		text := vendors.Names(of)
		if strings.Count(text, ", ") > 1 {
			text = fmt.Sprintf("%s … %s (%s)", of[0], of[len(of)-1], quantize.FormatCount(len(of)))
		}
		parts = append(parts, text)
	}
	if left > 0 {
		parts = append(parts, fmt.Sprintf("and %s more", quantize.FormatCount(left)))
	}
	return strings.Join(parts, ", ")
}

// maxNames is how many names, or runs of them, a text lists.
const maxNames = 6

// familyOf is a name without its numbers.
func familyOf(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, name)
}
