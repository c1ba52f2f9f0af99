package qualify

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
)

// Forwarding are the experiments about how a switch forwards frames with tags, whether it
// has a driver or not.
func Forwarding() []Experiment {
	bridge := Needs{Switch: true}
	three, four, lag := Needs{Switch: true, Ports: 3}, Needs{Switch: true, Ports: 4}, Needs{Switch: true, Ports: 3, LAG: true}
	also := func(n Needs, what string) Needs {
		n.Also = what
		return n
	}
	return []Experiment{
		{ID: "tpid", Title: "Does a frame with the TPID pass untouched?", Key: "passthrough", Run: runTPID, Facts: passes},
		{ID: "marks", Title: "Do PCP and DEI of the tag survive, all 16 of them?", Key: "loses", Run: runMarks, Facts: loses},
		{ID: "vids", Title: "Does every VID pass, 0 to 4095?", Key: "dropped_vids", Run: runVIDs, Facts: vidFacts},
		{ID: "positions", Title: "Behind how many VLAN tags does the tag pass, and before one?", Key: "tags_in_front_fail", Run: runPositions, Facts: positionFacts},
		{ID: "mtu", Title: "How large can a frame with the tag be?", Key: "max_frame", Run: runMTU, Facts: func(r *Result, f *inventory.Facts) {
			if n, ok := r.Number("max_frame_bytes"); ok {
				f.MaxFrame = fact(int(n))
			}
		}},
		{ID: "latency", Title: "Does the tag make forwarding slower, or a rule that rewrites it?", Key: "latency_added", Run: runLatency, Facts: func(r *Result, f *inventory.Facts) {
			if n, ok := r.Number("added_with_rules_ns"); ok && n <= float64(time.Second) {
				f.LatencyAdded = fact(time.Duration(n))
			}
		}},
		{ID: "vlans", Title: "Which ordinary VLANs pass, and untouched?", Run: runVLANs},
		{ID: "bridging", Title: "Does the VID choose the VLAN that frames are bridged in?", Key: "bridging_vlan_independent", Needs: bridge, Run: runBridging, Facts: func(r *Result, f *inventory.Facts) {
			f.Independent = fact(r.Outcome == Pass)
		}},
		{ID: "learning", Title: "Are MAC addresses learned and found whatever the VID?", Key: "learning_unaffected", Needs: also(bridge, "learning at the ports"), Run: runLearning, Facts: func(r *Result, f *inventory.Facts) {
			f.Learning = fact(r.Outcome == Pass)
		}},
		{ID: "flooding", Title: "Do unknown and group addresses reach the same ports whatever the VID?", Key: "flooding_unaffected", Needs: three, Run: runFlooding, Facts: func(r *Result, f *inventory.Facts) {
			f.Flooding = fact(r.Outcome == Pass)
		}},
		{ID: "bpdu-lldp", Title: "Are BPDUs and LLDP with a tag treated as those without?", Needs: bridge, Run: runReserved, Facts: func(r *Result, f *inventory.Facts) {
			f.BPDU, f.LLDP = fact(!r.Has("bpdu")), fact(!r.Has("lldp"))
		}},
		{ID: "storm", Title: "Does storm control treat frames with a tag as others?", Needs: bridge, Run: runStorm, Facts: func(r *Result, f *inventory.Facts) {
			if r.Outcome == Pass || r.Has("storm-bypassed") { // else it is not known what broadcast shows
				f.StormControl = fact(r.Outcome == Pass)
			}
		}},
		{ID: "dscp", Title: "Are DSCP and ECN of an IP packet kept behind the tag?", Key: "dscp_unaffected", Run: runDSCP, Facts: func(r *Result, f *inventory.Facts) {
			f.DSCP = fact(r.Outcome == Pass)
		}},
		{ID: "acl", Title: "Does an ACL of the operator apply to frames with the tag?", Key: "acl_unaffected", Needs: also(bridge, "an ACL at the ports that drops destination "+deniedAddress.String()), Run: runACL, Facts: func(r *Result, f *inventory.Facts) {
			f.ACL = fact(r.Outcome == Pass)
		}},
		{ID: "mirror", Title: "Do mirrored frames have the tag?", Key: "mirror_unaffected", Needs: also(three, "a mirror session from the first port to the third"), Run: runMirror, Facts: func(r *Result, f *inventory.Facts) {
			f.Mirror = fact(r.Outcome == Pass)
		}},
		{ID: "lag", Title: "Does a flow stay on one member of a LAG while its tag changes?", Key: "hash", Needs: also(lag, "a LAG of all ports but the first"), Run: runLAG, Facts: lagFacts},
		{ID: "ecmp", Title: "Does a flow stay on one path of a route while its tag changes?", Key: "routing_unaffected", Needs: also(four, "--routed MAC,ADDRESS, with next hops at the third port and the fourth"), Run: runECMP, Facts: ecmpFacts},
		{ID: "pfc", Title: "Does PFC pause frames with the tag as others?", Key: "pfc_unaffected", Needs: also(bridge, "PFC for priority 3 at the second port"), Run: runPFC, Facts: func(r *Result, f *inventory.Facts) {
			f.PFC = fact(r.Outcome == Pass)
		}},
		{ID: "queue", Title: "Do frames with the tag wait in the queue that their DSCP chooses?", Key: "queue_unaffected", Needs: also(bridge, "a slow second port with a queue of strict priority"), Run: runQueue, Facts: func(r *Result, f *inventory.Facts) {
			f.Queue = fact(r.Outcome == Pass)
		}},
		{ID: "ecn", Title: "Does congestion mark ECN behind the tag?", Key: "ecn_unaffected", Needs: also(bridge, "a slow second port that marks ECN"), Run: runECN, Facts: func(r *Result, f *inventory.Facts) {
			f.ECN = fact(r.Outcome == Pass)
		}},
		{ID: "sflow", Title: "Do sFlow samples have the tag?", Key: "sflow_unaffected", Needs: also(bridge, "sFlow from the first port to --sflow ADDRESS"), Run: runSFlow, Facts: func(r *Result, f *inventory.Facts) {
			f.SFlow = fact(r.Outcome == Pass)
		}},
	}
}

// passes is whether frames with the tag leave as they came, but for DEI: loses has that.
func passes(r *Result, f *inventory.Facts) { f.Passthrough = fact(r.Outcome == Pass) }

// fact is a fact that was measured.
func fact[T any](v T) *T { return &v }

// bothWays exchanges frames between the first two ports, and calls f with what became of
// each.
func (t *Trial) bothWays(ctx context.Context, frames func(to int) []Frame, f func(from int, s *Seen)) error {
	for from := range 2 {
		seen, err := t.Repeated(ctx, from, frames(1-from))
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

// faultOnce is Fault, unless there is one of this code.
func (t *Trial) faultOnce(code, format string, args ...any) {
	if !slices.ContainsFunc(t.Faults, func(f Fault) bool { return f.Code == code }) {
		t.Fault(code, format, args...)
	}
}

// tciFault names what a switch did to the tag that stands at an offset of a frame: "" for
// nothing, "lost", "altered" where more changed, else the fields that changed.
func tciFault(s *Seen, at int) string {
	fate, got := s.Fate(), s.At(s.To)
	switch {
	case fate == "":
		return ""
	case kindOf(fate) != "altered":
		return kindOf(fate)
	case len(got) != len(s.Sent) || string(s.Sent[:at+2]) != string(got[:at+2]) || string(s.Sent[at+4:]) != string(got[at+4:]):
		return "altered"
	}
	changed, names := binary.BigEndian.Uint16(s.Sent[at+2:])^binary.BigEndian.Uint16(got[at+2:]), []string{}
	for _, field := range []struct {
		mask uint16
		name string
	}{{0xe000, "pcp"}, {0x1000, "dei"}, {0x0fff, "vid"}} {
		if changed&field.mask != 0 {
			names = append(names, field.name)
		}
	}
	return strings.Join(append(names, "altered"), "-")
}

// arriving is how many frames with the tag show that none arrives.
const arriving = 16

// passing is the error of a path on which no frame with the tag arrives: what else the switch
// does with the tag cannot be seen there.
func (t *Trial) passing(ctx context.Context) error {
	seen, err := t.Exchange(ctx, 0, slices.Repeat([]Frame{{To: 1, Tags: VLAN(t.Profile.TPID, 0x2f7e)}}, arriving))
	if err == nil && !slices.ContainsFunc(seen, func(s Seen) bool { return s.Count(1) > 0 }) {
		err = Cannot("no frame with the tag arrives: see the experiments tpid and vids")
	}
	return err
}

// outer is where the outermost tag of a frame stands.
const outer = 12

// wideTag is a tag of 8 bytes.
func wideTag(tpid, lm uint16, rest uint32) []byte {
	return binary.BigEndian.AppendUint32(VLAN(tpid, lm), rest)
}

func runTPID(ctx context.Context, t *Trial) error {
	n, dei := 0, 0
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
		what := tciFault(s, outer)
		if what == "dei-altered" && len(s.Tags) == 4 { // which the experiment marks is about
			dei++
			return
		}
		if what != "" {
			code := "tag-" + what
			if len(s.Tags) > 4 {
				code = "wide-" + code
			}
			changed := ""
			if fields, ok := strings.CutSuffix(what, "-altered"); ok {
				changed = fmt.Sprintf("the TPID passes, and %s of the tag changes: ", strings.ToUpper(strings.ReplaceAll(fields, "-", " and ")))
			}
			t.faultOnce(code, "%sa frame with the tag %x from %s: %s", changed, s.Tags, t.way(from, s.To), s.Fate())
		}
	})
	if t.Found("%d frames with tags passed untouched, both ways", n); dei > 0 {
		t.Found("%d frames with tags passed, both ways, %d of them without their DEI: see the experiment marks", n, dei)
	}
	return err
}

func runMarks(ctx context.Context, t *Trial) error {
	err := t.bothWays(ctx, func(to int) (out []Frame) {
		for m := range 16 {
			out = append(out, Frame{To: to, Tags: VLAN(t.Profile.TPID, uint16(m)<<12|0x0abc)})
		}
		return out
	}, func(from int, s *Seen) {
		if what := tciFault(s, outer); what != "" {
			m := s.Tags[2] >> 4
			t.faultOnce("marks-"+what, "PCP %d with DEI %d from %s: %s", m>>1, m&1, t.way(from, s.To), s.Fate())
		}
	})
	t.Found("8 PCPs with both DEIs passed untouched, both ways")
	return err
}

// loses are the fields of the tag that were altered.
func loses(r *Result, f *inventory.Facts) {
	list := []string{}
	for _, field := range []vendors.Field{vendors.FieldPCP, vendors.FieldDEI, vendors.FieldVID} {
		if slices.ContainsFunc(r.Faults, func(x Fault) bool {
			return strings.HasSuffix(x.Code, "altered") && strings.Contains(x.Code, "-"+strings.ToLower(string(field)))
		}) {
			list = append(list, string(field))
		}
	}
	if len(list) > 0 || r.Outcome == Pass {
		f.Loses = &list
	}
}

// special are the VIDs that switches treat apart.
var special = []struct {
	first, last int
	name        string
}{
	{0, 0, "0"},                 // a priority tag to switches
	{1, 1, "1"},                 // the default VLAN of many
	{1002, 1005, "1002-1005"},   // reserved where FDDI and token ring were
	{3968, 4094, "3968-4094"},   // internal to many; S=31 of the tag is here
	{4095, 4095, "4095"},        // reserved by IEEE 802.1Q
	{2, 4094, "ordinary range"}, // the others
}

// vidGroup is the index in special.
func vidGroup(vid int) int {
	return slices.IndexFunc(special, func(g struct {
		first, last int
		name        string
	}) bool {
		return vid >= g.first && vid <= g.last
	})
}

// allVIDs are frames with a tag of each VID.
func (t *Trial) allVIDs(tpid uint16, to int) (out []Frame) {
	for vid := range 4096 {
		out = append(out, Frame{To: to, Tags: VLAN(tpid, uint16(vid))})
	}
	return out
}

func runVIDs(ctx context.Context, t *Trial) error {
	type fault struct {
		group int
		what  string
	}
	bad, gone := map[fault][]int{}, []int{}
	err := t.bothWays(ctx, func(to int) []Frame { return t.allVIDs(t.Profile.TPID, to) }, func(_ int, s *Seen) {
		what := tciFault(s, outer)
		if what == "" {
			return
		}
		vid := int(binary.BigEndian.Uint16(s.Tags[2:]))
		if f := (fault{vidGroup(vid), what}); !slices.Contains(bad[f], vid) {
			bad[f] = append(bad[f], vid)
		}
		if what == "lost" && !slices.Contains(gone, vid) {
			gone = append(gone, vid)
		}
	})
	if err != nil {
		return err
	}
	for f, vids := range bad {
		g := &special[f.group]
		of, list := "", some(ranges(vids))
		if list != g.name {
			of = ", of VIDs " + g.name
		}
		t.Fault("vid-"+strings.ReplaceAll(g.name, " ", "-")+"-"+f.what, "frames with these VIDs are %s%s: %s", strings.ReplaceAll(f.what, "-", " "), of, list)
	}
	slices.SortFunc(t.Faults, func(a, b Fault) int { return strings.Compare(a.Code, b.Code) })
	t.Listed("dropped_vids", ranges(gone))
	t.Found("all 4096 VIDs passed untouched, both ways")
	return nil
}

// ranges are numbers in short: "0", "3968-4095". The list is sorted for it.
func ranges(list []int) (out []string) {
	slices.Sort(list)
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		if j == i {
			out = append(out, fmt.Sprint(list[i]))
		} else {
			out = append(out, fmt.Sprintf("%d-%d", list[i], list[j]))
		}
		i = j + 1
	}
	return out
}

// vidFacts are the VIDs that were dropped, in at most so many ranges.
func vidFacts(r *Result, f *inventory.Facts) {
	dropped := []inventory.VIDRange{}
	for _, text := range r.List("dropped_vids") {
		var one inventory.VIDRange
		if n, _ := fmt.Sscanf(text, "%d-%d", &one.First, &one.Last); n == 1 {
			one.Last = one.First
		}
		dropped = append(dropped, one)
	}
	f.DroppedVIDs = &dropped
	f.TriedVIDs = &[]inventory.VIDRange{{First: 0, Last: 4095}}
}
