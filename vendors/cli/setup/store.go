package setup

import (
	"encoding/base64"
	"fmt"
	"hash/crc32"
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
	head  = "csig-record" // generation, comments of text, their checksum (CRC-32)
	since = "csig-set"    // when a port was given its TPID last, in seconds since the switch started
)

// stored is the record of a slot.
type stored struct {
	slot       string
	generation int
	text       string
	set        time.Duration // since the switch started; 0: unknown
	damaged    string        // why a slot with a head has no record; "": there is none
}

// read is the record of a view; its slot is "" where there is none.
func (v *View) read() (best stored) {
	damaged := ""
	for _, slot := range Slots {
		switch s, headed := readSlot(slot, v.Slots[slot]); {
		case s.damaged != "":
			damaged = s.damaged
		case headed && (best.slot == "" || s.generation > best.generation):
			best = s
		}
	}
	best.damaged = damaged
	return best
}

// readSlot is the record of a slot; headed reports whether one was written there to its end.
func readSlot(slot string, comments []Comment) (s stored, headed bool) {
	s.slot = slot
	var text, sum string
	lines, want := 0, 0
	slices.SortFunc(comments, func(a, b Comment) int { return a.Seq - b.Seq })
	for _, c := range comments {
		w := strings.Fields(c.Text)
		switch {
		case len(w) > 0 && w[0] == head:
			headed = true
			if n, _ := fmt.Sscanf(c.Text, head+" %d %d %s", &s.generation, &want, &sum); n != 3 {
				s.damaged = slot + " has no head of csig's"
			}
		case len(w) == 2 && w[0] == since:
			if n, err := strconv.ParseInt(w[1], 10, 32); err == nil {
				s.set = time.Duration(n) * time.Second
			}
		case c.Seq >= seqFirst:
			text += c.Text
			lines++
		}
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if s.text = string(b); headed && s.damaged == "" && (err != nil || lines != want || sum != checksum(text)) {
		s.damaged = slot + " is not as csig wrote it"
	}
	return s, headed
}

func checksum(text string) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(text))) }

// store adds the lines that make the record text; "" removes it. set is when ports were given
// their TPID last; 0: unknown.
func (d *Dialect) store(v *View, text string, set time.Duration) (lines []string, err error) {
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
	sum := checksum(code)
	n := 0
	for ; code != ""; n++ {
		piece := code[:min(len(code), d.MaxNote)]
		code = code[len(piece):]
		note(seqFirst+n*seqStep, piece)
	}
	if set != 0 && d.Lost != nil {
		note(seqTime, fmt.Sprintf("%s %d", since, int(set.Seconds())))
	}
	note(seqHead, fmt.Sprintf("%s %d %d %s", head, old.generation+1, n, sum))
	lines = append(lines, d.inside(slot, notes)...)
	drop(old.slot)
	return lines, nil
}

// stamp adds the lines that note when ports were given their TPID.
func (d *Dialect) stamp(v *View) (lines []string) {
	slot := v.read().slot
	if slot == "" || d.Lost == nil || v.Up == 0 {
		return nil
	}
	c := Comment{seqTime, fmt.Sprintf("%s %d", since, int(v.Up.Seconds()))}
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
