package qualify

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// Forwarding are the experiments about how a switch forwards frames with tags, whether it
// has a driver or not.
func Forwarding() []Experiment {
	return []Experiment{
		{ID: "tpid", Title: "Does a frame with the TPID pass untouched?", Run: runTPID},
		{ID: "marks", Title: "Do PCP and DEI of the tag survive, all 16 of them?", Run: runMarks},
		{ID: "vids", Title: "Does every VID pass, 0 to 4095?", Run: runVIDs},
	}
}

// wideTag is a wide tag, of 8 bytes.
func wideTag(tpid, lm uint16, rest uint32) []byte {
	return binary.BigEndian.AppendUint32(VLAN(tpid, lm), rest)
}

// bothWays exchanges frames between the first two ports, and calls f with what became of
// each.
func (t *Trial) bothWays(ctx context.Context, frames func(to int) []Frame, f func(from int, s *Seen)) error {
	for from := range 2 {
		seen, err := t.Exchange(ctx, from, frames(1-from))
		if err != nil {
			return err
		}
		for i := range seen {
			f(from, &seen[i])
		}
	}
	return nil
}

// way names where a frame went, for people.
func (t *Trial) way(from, to int) string { return t.Ports[from].Name + " to " + t.Ports[to].Name }

// tciFault names what a switch did to a frame's outermost tag, "" for nothing.
func tciFault(s *Seen) string {
	fate := s.Fate()
	got := s.At(s.To)
	switch {
	case fate == "":
		return ""
	case fate == lost:
		return "lost"
	case len(got) != len(s.Sent) || Difference(s.Sent[16:], got[16:]) != "" || Difference(s.Sent[:14], got[:14]) != "":
		return "altered"
	}
	changed, names := binary.BigEndian.Uint16(s.Sent[14:])^binary.BigEndian.Uint16(got[14:]), []string{}
	for _, field := range []struct {
		mask uint16
		name string
	}{{0xe000, "pcp"}, {0x1000, "dei"}, {0x0fff, "vid"}} {
		if changed&field.mask != 0 {
			names = append(names, field.name)
		}
	}
	return strings.Join(names, "-") + "-altered"
}

func runTPID(ctx context.Context, t *Trial) error {
	n := 0
	err := t.bothWays(ctx, func(to int) (out []Frame) {
		for _, tci := range []uint16{0x0f7e, 0x2f7e, 0x1f7e, 0x2385, 0x4abc} {
			out = append(out, Frame{To: to, Tags: VLAN(t.Profile.TPID, tci)})
		}
		if t.Profile.WideTPID != 0 {
			out = append(out, Frame{To: to, Tags: wideTag(t.Profile.WideTPID, 0xfffe, 0x1000ff00)})
		}
		return out
	}, func(from int, s *Seen) {
		n++
		if what := tciFault(s); what != "" {
			code := "tag-" + what
			if len(s.Tags) > 4 {
				code = "wide-" + code
			}
			t.faultOnce(code, "a frame with the tag %x from %s: %s", s.Tags, t.way(from, s.To), s.Fate())
		}
	})
	t.Found("%d frames with tags passed untouched, both ways", n)
	return err
}

// faultOnce is Fault, unless there is one of this code.
func (t *Trial) faultOnce(code, format string, args ...any) {
	if !slices.ContainsFunc(t.Faults, func(f Fault) bool { return f.Code == code }) {
		t.Fault(code, format, args...)
	}
}

func runMarks(ctx context.Context, t *Trial) error {
	err := t.bothWays(ctx, func(to int) (out []Frame) {
		for m := range 16 {
			out = append(out, Frame{To: to, Tags: VLAN(t.Profile.TPID, uint16(m)<<12|0x0abc)})
		}
		return out
	}, func(from int, s *Seen) {
		if what := tciFault(s); what != "" {
			m := s.Tags[2] >> 4
			t.faultOnce("marks-"+what, "PCP %d with DEI %d from %s: %s", m>>1, m&1, t.way(from, s.To), s.Fate())
		}
	})
	t.Found("8 PCPs with both DEIs passed untouched, both ways")
	return err
}

// special are the VIDs that switches treat apart.
var special = []struct {
	first, last int
	name, why   string
}{
	{0, 0, "0", "a priority tag to switches"},
	{1, 1, "1", "the default VLAN of many"},
	{1002, 1005, "1002-1005", "reserved where FDDI and token ring were"},
	{3968, 4094, "3968-4094", "internal to many switches; S=31 is here"},
	{4095, 4095, "4095", "reserved by IEEE 802.1Q"},
	{2, 4094, "others", ""},
}

// vidGroup is the index in special.
func vidGroup(vid int) int {
	for i, g := range special {
		if vid >= g.first && vid <= g.last {
			return i
		}
	}
	return -1
}

func runVIDs(ctx context.Context, t *Trial) error {
	type fault struct {
		group int
		what  string
	}
	bad := map[fault][]int{}
	err := t.bothWays(ctx, func(to int) (out []Frame) {
		for vid := range 4096 {
			out = append(out, Frame{To: to, Tags: VLAN(t.Profile.TPID, uint16(vid))})
		}
		return out
	}, func(_ int, s *Seen) {
		if what := tciFault(s); what != "" {
			vid := int(binary.BigEndian.Uint16(s.Tags[2:]))
			f := fault{vidGroup(vid), what}
			if !slices.Contains(bad[f], vid) {
				bad[f] = append(bad[f], vid)
			}
		}
	})
	if err != nil {
		return err
	}
	for i, g := range special {
		for f, vids := range bad {
			if f.group == i {
				t.Fault("vid-"+g.name+"-"+f.what, "%d VIDs are %s: %s", len(vids), f.what, ranges(vids))
			}
		}
	}
	slices.SortFunc(t.Faults, func(a, b Fault) int { return strings.Compare(a.Code, b.Code) })
	t.Found("all 4096 VIDs passed untouched, both ways")
	return nil
}

// ranges is a short text for a list of numbers: "0, 3968-4095".
func ranges(list []int) string {
	slices.Sort(list)
	var out []string
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		text := fmt.Sprint(list[i])
		if j > i {
			text += fmt.Sprintf("-%d", list[j])
		}
		if out = append(out, text); len(out) == 20 && j+1 < len(list) {
			return strings.Join(out, ", ") + fmt.Sprintf(" and %d more", len(list)-j-1)
		}
		i = j + 1
	}
	return strings.Join(out, ", ")
}
