package setup

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// Slots are the objects that can have the record.
var Slots = [2]string{"csig-setup-a", "csig-setup-b"}

// Numbers of comments in a slot. The head is written last: without it a record is none.
const (
	seqHead  = 10
	seqTime  = 20
	seqFirst = 30
	seqStep  = 10
)

const (
	head  = "csig-record" // generation, comments of text
	since = "csig-set"    // when a port was given its TPID last, in seconds since 1970
)

// stored is the record of a slot.
type stored struct {
	slot       string
	generation int
	text       string
	set        time.Time // zero: unknown
}

// read is the record of a view; its slot is "" where there is none.
func (v *View) read() (best stored) {
	for _, slot := range Slots {
		if s, ok := readSlot(slot, v.Slots[slot]); ok && (best.slot == "" || s.generation > best.generation) {
			best = s
		}
	}
	return best
}

func readSlot(slot string, comments []Comment) (s stored, ok bool) {
	s.slot = slot
	var text []string
	lines := -1
	slices.SortFunc(comments, func(a, b Comment) int { return a.Seq - b.Seq })
	for _, c := range comments {
		w := strings.Fields(c.Text)
		switch {
		case len(w) == 3 && w[0] == head && c.Seq == seqHead:
			var err1, err2 error
			s.generation, err1 = strconv.Atoi(w[1])
			lines, err2 = strconv.Atoi(w[2])
			if errors.Join(err1, err2) != nil {
				return s, false
			}
		case len(w) == 2 && w[0] == since:
			if n, err := strconv.ParseInt(w[1], 10, 64); err == nil {
				s.set = time.Unix(n, 0)
			}
		case c.Seq >= seqFirst:
			text = append(text, c.Text)
		}
	}
	b, err := base64.RawURLEncoding.DecodeString(strings.Join(text, ""))
	s.text = string(b)
	return s, err == nil && lines == len(text)
}

// store adds the lines that make the record text; "" removes it. set is when ports were given
// their TPID last; zero: unknown.
func (d *Dialect) store(v *View, text string, set time.Time) (lines []string, err error) {
	if v.Foreign != "" {
		return nil, &vendors.PermanentError{Err: &vendors.ForeignError{What: "an object with the name of csig's record has a line of another user: " + v.Foreign + "; remove it"}}
	}
	old := v.read()
	drop := func(slot string) {
		if _, there := v.Slots[slot]; there {
			lines = append(lines, d.Drop(slot))
			delete(v.Slots, slot)
		}
	}
	for _, slot := range slices.Sorted(maps.Keys(v.Slots)) {
		if slot != old.slot { // of a change that was cut off
			drop(slot)
		}
	}
	if text == "" {
		drop(old.slot)
		return lines, nil
	}
	slot := Slots[0]
	if old.slot == slot {
		slot = Slots[1]
	}
	var notes []string
	note := func(seq int, text string) {
		c := Comment{seq, text}
		notes = append(notes, d.Note(slot, c))
		v.Slots[slot] = append(v.Slots[slot], c)
	}
	code := base64.RawURLEncoding.EncodeToString([]byte(text))
	n := 0
	for ; code != ""; n++ {
		piece := code[:min(len(code), d.MaxNote)]
		code = code[len(piece):]
		note(seqFirst+n*seqStep, piece)
	}
	if !set.IsZero() && d.Lost != nil {
		note(seqTime, fmt.Sprintf("%s %d", since, set.Unix()))
	}
	note(seqHead, fmt.Sprintf("%s %d %d", head, old.generation+1, n))
	lines = append(lines, d.inside(slot, notes)...)
	drop(old.slot)
	return lines, nil
}

// stamp adds the lines that note when ports were given their TPID.
func (d *Dialect) stamp(v *View, set time.Time) (lines []string) {
	slot := v.read().slot
	if slot == "" || d.Lost == nil || set.IsZero() {
		return nil
	}
	c := Comment{seqTime, fmt.Sprintf("%s %d", since, set.Unix())}
	i := slices.IndexFunc(v.Slots[slot], func(c Comment) bool { return c.Seq == seqTime })
	switch {
	case i < 0:
		v.Slots[slot] = append(v.Slots[slot], c)
	case v.Slots[slot][i] == c:
		return nil
	default:
		lines = []string{d.Erase(slot, v.Slots[slot][i])}
		v.Slots[slot][i] = c
	}
	return d.inside(slot, append(lines, d.Note(slot, c)))
}

// inside are lines given inside a slot.
func (d *Dialect) inside(slot string, lines []string) []string {
	if enter := d.Within(slot); enter != "" {
		return append(append([]string{enter}, lines...), d.Out)
	}
	return lines
}
