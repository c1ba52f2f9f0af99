package explain

import (
	"fmt"
	mathbits "math/bits"
	"strings"
	"unicode/utf8"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// row is what a drawn line of a table stands for: one entry, or the exact
// entries of one S.
type row struct {
	entry   vlanrules.Entry
	n       int    // entries
	buckets uint32 // S taken: bit v is S=v
	tags    int    // tag values taken
}

// rows finds what each entry takes when the first that matches wins, and
// gathers exact entries that differ in the locator only.
func (r *Result) rows(t Table) (list []row, left row) {
	var taken [1 << 16]bool
	for i := range t {
		w := row{entry: t[i], n: 1}
		eachTag(&t[i], func(tci int) {
			if !taken[tci] {
				taken[tci] = true
				w.tags++
				w.buckets |= 1 << (tci >> 7 & 31)
			}
		})
		if n := len(list); n > 0 && sameRow(&list[n-1], &w) {
			list[n-1].n++
			list[n-1].tags += w.tags
			continue
		}
		list = append(list, w)
	}
	for tci, is := range taken {
		if !is {
			left.tags++
			left.buckets |= 1 << (tci >> 7 & 31)
		}
	}
	return list, left
}

// eachTag calls f with the tags that an entry matches.
func eachTag(e *vlanrules.Entry, f func(tci int)) {
	if e.Type == vlanrules.Value {
		return
	}
	first, last := 0, 4095
	if vid := &e.Match.VID; vid.Kind == vlanrules.Ternary && vid.Mask == 0xfff {
		first, last = int(vid.Value), int(vid.Value)
	}
	for vid := first; vid <= last; vid++ {
		for top := range 16 {
			if tci := top<<12 | vid; e.Match.Matches(quantize.TCI(tci)) {
				f(tci)
			}
		}
	}
}

// sameRow reports whether two entries make one drawn line.
func sameRow(a, b *row) bool {
	x, y := &a.entry, &b.entry
	exact := func(f *vlanrules.Field) bool { return f.Kind == vlanrules.Ternary && f.Mask == 0xfff }
	return exact(&x.Match.VID) && exact(&y.Match.VID) && x.Match.VID.Value>>7 == y.Match.VID.Value>>7 &&
		x.Match.PCP == y.Match.PCP && x.Match.DEI == y.Match.DEI && x.Type == y.Type && x.VID == y.VID && x.Ref == y.Ref
}

// drawTable writes a table with one line an entry. With a sign, all lines
// leave capacity for it, and the entry with this ID has it.
func (r *Result) drawTable(b *strings.Builder, t Table, sign string, id uint32) {
	list, left := r.rows(t)
	lm := "LM"
	if r.layout == quantize.UEC {
		lm = "LM     D"
	}
	gutter := strings.Repeat(" ", len(sign))
	lines := [][]string{{gutter, "prio", "T", "R", "S", lm, "action", "S taken", "buckets", "tags"}}
	for _, w := range list {
		e := &w.entry
		prio := fmt.Sprint(e.Priority)
		if r.Match == vlanrules.MatchExact || r.Match == vlanrules.MatchTernaryUnordered {
			prio = "-"
		}
		if e.Priority == 0xffff {
			prio = "before"
		}
		mark := gutter
		if e.ID == id {
			mark = sign
		}
		line := []string{mark, prio, bits(e.Match.PCP, 3), bits(e.Match.DEI, 1), "", "", r.action(e)}
		line[4], line[5] = r.drawVID(&w)
		switch e.Type {
		case vlanrules.Value:
			line = append(line, "", "", "")
		default:
			line = append(line, buckets(w.buckets), fmt.Sprint(mathbits.OnesCount32(w.buckets)), quantize.FormatCount(w.tags))
		}
		lines = append(lines, line)
	}
	lines = append(lines, []string{gutter, "", "", "", "", "", "else: as it is", "", "", quantize.FormatCount(left.tags)})
	drawColumns(b, lines, map[int]bool{1: true, 8: true, 9: true})
}

// drawVID draws the condition on the VID as S and LM (and D).
func (r *Result) drawVID(w *row) (s, lm string) {
	f := &w.entry.Match.VID
	split := func(x string) string {
		if r.layout == quantize.UEC {
			return x[:6] + " " + x[6:]
		}
		return x
	}
	switch {
	case w.entry.Type == vlanrules.Value:
		return "", ""
	case f.Kind == vlanrules.Range:
		return fmt.Sprintf("VID %d-%d", f.First, f.Last), ""
	case w.n > 1:
		return fmt.Sprintf("%05b", f.Value>>7), fmt.Sprintf("%d entries", w.n)
	}
	all := bits(*f, 12)
	return all[:5], split(all[5:])
}

// bits draws a condition as bits with x for wildcards.
func bits(f vlanrules.Field, width int) string {
	var b strings.Builder
	for bit := width - 1; bit >= 0; bit-- {
		switch {
		case f.Kind != vlanrules.Ternary || f.Mask>>bit&1 == 0:
			b.WriteByte('x')
		default:
			b.WriteByte('0' + byte(f.Value>>bit&1))
		}
	}
	return b.String()
}

// action draws what an entry does.
func (r *Result) action(e *vlanrules.Entry) string {
	switch e.Type {
	case vlanrules.NoOp:
		return "leave"
	case vlanrules.UseValue:
		return fmt.Sprintf("VID := value %d", e.Ref)
	case vlanrules.Value:
		return fmt.Sprintf("value %d is %s", e.ID, r.written(e.VID))
	}
	return "VID := " + r.written(e.VID)
}

// written is a VID with its decoded fields.
func (r *Result) written(vid uint16) string {
	f := r.layout.Unpack(quantize.TCI(vid))
	return fmt.Sprintf("%d (S=%d LM=%d)", vid, f.S, f.LM)
}

// buckets writes a set of S as runs: 8-15,17.
func buckets(set uint32) string {
	var runs []string
	for v := 0; v < quantize.NumBuckets; v++ {
		if set>>v&1 == 0 {
			continue
		}
		first := v
		for v+1 < quantize.NumBuckets && set>>(v+1)&1 == 1 {
			v++
		}
		if first == v {
			runs = append(runs, fmt.Sprint(v))
		} else {
			runs = append(runs, fmt.Sprintf("%d-%d", first, v))
		}
	}
	if len(runs) == 0 {
		return "none"
	}
	return strings.Join(runs, ",")
}

// drawColumns writes lines in columns as wide as their widest cell; those in
// right are aligned to the right. Columns that are empty vanish.
func drawColumns(b *strings.Builder, lines [][]string, right map[int]bool) {
	width := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	for _, line := range lines {
		var out strings.Builder
		for i, cell := range line {
			if width[i] == 0 {
				continue
			}
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if right[i] {
				cell = pad + cell
			} else {
				cell += pad
			}
			if out.Len() > 0 {
				out.WriteString("  ")
			}
			out.WriteString(cell)
		}
		b.WriteString(strings.TrimRight(out.String(), " "))
		b.WriteByte('\n')
	}
}
