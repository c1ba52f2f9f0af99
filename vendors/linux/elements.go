package linux

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/csig-agent/csig/vlanrules"
)

// interval is one element of a map: tags whose 16 data bits are in
// first…last leave with value.
type interval struct {
	first, last, value uint16
}

// lower turns a compiled table into map elements, sorted and disjoint. R is
// part of the key, so an entry for any R becomes two elements.
func lower(dst []interval, t vlanrules.Table) ([]interval, error) {
	dst = dst[:0]
	for i := range t {
		e := &t[i]
		m := &e.Match
		switch {
		case e.Type != vlanrules.RewriteVID,
			m.PCP.Kind != vlanrules.Ternary || m.PCP.Mask != 7,
			m.DEI.Kind != vlanrules.Any,
			m.VID.Kind != vlanrules.Range:
			return dst, fmt.Errorf("entry %d is not a rewrite of one PCP, any DEI and a range of VIDs", e.ID)
		}
		for r := uint16(0); r <= 1; r++ {
			top := m.PCP.Value<<13 | r<<12
			dst = append(dst, interval{top | m.VID.First, top | m.VID.Last, top | e.VID})
		}
	}
	sortIntervals(dst)
	return dst, nil
}

func sortIntervals(s []interval) {
	slices.SortFunc(s, func(a, b interval) int { return cmp.Compare(a.first, b.first) })
}

// difference returns the elements of have that are not in want (to delete)
// and those of want that are not in have (to add), in the slices given. Both
// inputs are sorted.
func difference(del, add, have, want []interval) (d, a []interval) {
	del, add = del[:0], add[:0]
	i, j := 0, 0
	for i < len(have) || j < len(want) {
		switch {
		case i < len(have) && j < len(want) && have[i] == want[j]:
			i++
			j++
		case j == len(want) || i < len(have) && have[i].first <= want[j].first:
			del = append(del, have[i])
			i++
		default:
			add = append(add, want[j])
			j++
		}
	}
	return del, add
}
