package qualify

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"
)

// sampled are VIDs of all groups, of which a switch that bridges by the tag's VID has few
// configured.
var sampled = []uint16{1, 2, 7, 100, 126, 639, 1002, 1278, 2385, 3071, 3198, 3966, 3968, 4094}

func runBridging(ctx context.Context, t *Trial) error {
	bad, total := []int{}, 0
	err := t.bothWays(ctx, func(to int) []Frame { return t.allVIDs(t.Profile.TPID, to)[2:3968] }, func(_ int, s *Seen) {
		vid := int(binary.BigEndian.Uint16(s.Tags[2:]))
		total++
		if s.Fate() == lost && vidGroup(vid) == len(special)-1 && !slices.Contains(bad, vid) {
			bad = append(bad, vid)
		}
	})
	switch {
	case err != nil:
		return err
	case 2*len(bad) >= total-8:
		return Cannot("no frame with the tag arrives: see the experiment tpid")
	case len(bad) > 0:
		t.Fault("bridging-follows-vid", "frames with some VIDs are forwarded, and with others not, which are in no special range: %s", strings.Join(ranges(bad), ", "))
	}
	t.Found("all VIDs are bridged alike, save for those in special ranges")
	return nil
}

func runLearning(ctx context.Context, t *Trial) error {
	x := t.Address(1)
	// A frame to an address that is learned at the port where it came in goes nowhere.
	toX := Frame{To: 1, Dst: x}
	frames := []Frame{toX}
	for _, vid := range sampled {
		frames = append(frames, Frame{To: 1, Dst: x, Tags: VLAN(t.Profile.TPID, vid)})
	}
	seen, err := t.Repeated(ctx, 0, frames)
	if err != nil {
		return err
	}
	if err := t.Positive("a frame to an unknown address is flooded", seen[0].Fate() == "", "it %s", seen[0].Fate()); err != nil {
		return err
	}
	// A tag that does not pass would look like one whose address is found.
	var vids []uint16
	var left []int
	for i, vid := range sampled {
		if seen[1+i].Count(1) > 0 {
			vids = append(vids, vid)
		} else {
			left = append(left, int(vid))
		}
	}
	if len(left) > 0 {
		t.Note("left out, as their frames to an unknown address are not flooded: VIDs %s", some(ranges(left)))
	}
	if len(vids) < 2 {
		return Cannot("frames with %d of %d VIDs to an unknown address are flooded, two are needed: see the experiments tpid and vids", len(vids), len(sampled))
	}
	if err := t.Positive("frames with the tag to an unknown address are flooded", true, ""); err != nil {
		return err
	}
	if _, err := t.Repeated(ctx, 0, []Frame{{To: 1, Src: x}}); err != nil {
		return err
	}
	// A switch may forward by what it knew a moment before.
	if seen, err = t.filtered(ctx, []Frame{toX}); err != nil {
		return err
	}
	if err := t.Negative("a frame to an address that was learned at its own port is not forwarded", seen[0].Fate() == lost, "it arrives: the ports do not learn"); err != nil {
		return err
	}
	frames = nil
	for _, vid := range vids {
		frames = append(frames, Frame{To: 1, Dst: x, Tags: VLAN(t.Profile.TPID, vid)})
	}
	if seen, err = t.filtered(ctx, frames); err != nil {
		return err
	}
	flooded := []int{}
	for i, vid := range vids {
		if seen[i].Fate() != lost {
			flooded = append(flooded, int(vid))
		}
	}
	if len(flooded) > 0 {
		t.Fault("learning-follows-vid", "an address that was learned without the tag is unknown in frames with the tag: they are flooded, with the VIDs %s", strings.Join(ranges(flooded), ", "))
	}
	if err := t.learnedTagged(ctx, vids); err != nil {
		return err
	}
	t.Found("addresses that were learned without the tag are found with %d VIDs, and the other way round", len(vids))
	return nil
}

// learnedTagged has the switch learn an address with each VID, and looks it up without the
// tag and with another VID.
func (t *Trial) learnedTagged(ctx context.Context, vids []uint16) error {
	station := func(i int) MAC { return t.Address(uint8(20 + i)) }
	var learn, lookup []Frame
	for i, vid := range vids {
		other := vids[(i+1)%len(vids)]
		learn = append(learn, Frame{To: 1, Src: station(i), Tags: VLAN(t.Profile.TPID, vid)})
		lookup = append(lookup, Frame{To: 1, Dst: station(i)}, Frame{To: 1, Dst: station(i), Tags: VLAN(t.Profile.TPID, other)})
	}
	if _, err := t.Repeated(ctx, 0, learn); err != nil {
		return err
	}
	seen, err := t.filtered(ctx, lookup)
	if err != nil {
		return err
	}
	untagged := []int{}
	for i, vid := range vids {
		if seen[2*i].Fate() != lost {
			untagged = append(untagged, int(vid))
		}
		if seen[2*i+1].Fate() != lost {
			t.faultOnce("learning-follows-vid", "an address that was learned with VID %d is unknown with VID %d", vid, vids[(i+1)%len(vids)])
		}
	}
	if len(untagged) > 0 {
		t.Fault("learning-not-from-tagged", "an address that was learned with the tag is unknown in frames without it, with the VIDs %s", strings.Join(ranges(untagged), ", "))
	}
	return nil
}

// filtered exchanges frames that are to go nowhere until they do, for as long as Patience.
// They do so where none arrives a few times in a row: one that is lost proves nothing.
func (t *Trial) filtered(ctx context.Context, frames []Frame) ([]Seen, error) {
	quiet := 0
	for a := within(t.Patience); ; {
		seen, err := t.Exchange(ctx, 0, frames)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(seen, func(s Seen) bool { return s.Fate() != lost }) {
			quiet = 0
			if a.over() {
				return seen, nil
			}
		} else if quiet++; quiet == repeats {
			return seen, nil
		}
		select {
		case <-time.After(resend):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// names are those of ports.
func (t *Trial) names(ports []int) (out []string) {
	for _, i := range ports {
		out = append(out, t.Ports[i].Name)
	}
	return out
}

func runFlooding(ctx context.Context, t *Trial) error {
	rows := []struct {
		name, code string
		dst        MAC
	}{
		{"an unknown address", "unknown", t.Address(3)},
		{"broadcast", "broadcast", MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
		{"a group address", "multicast", MAC{0x01, 0x00, 0x5e, 0x45, 0x12, 0x34}},
		{"an address learned at " + t.Ports[1].Name, "known", t.Address(4)},
	}
	if len(t.Others(0)) < len(t.Ports)-1 {
		return Cannot("not all ports receive what %s floods: they have to be members of its VLAN, and none that of a mirror session", t.Ports[0].Name)
	}
	if _, err := t.several(ctx, 1, []Frame{{To: 0, Src: t.Address(4)}}); err != nil {
		return err
	}
	for _, r := range rows {
		frames := []Frame{{To: 1, Dst: r.dst}}
		for _, vid := range sampled {
			frames = append(frames, Frame{To: 1, Dst: r.dst, Tags: VLAN(t.Profile.TPID, vid)})
		}
		seen, err := t.several(ctx, 0, frames)
		if err != nil {
			return err
		}
		want := t.names(seen[0].ports())
		if r.code == "known" {
			if err := t.Negative("a frame to a learned address reaches its port alone", slices.Equal(want, []string{t.Ports[1].Name}), "it reaches %v", want); err != nil {
				return err
			}
		}
		for i, vid := range sampled {
			if got := t.names(seen[1+i].ports()); !slices.Equal(got, want) {
				t.faultOnce("flooding-"+r.code, "to %s, a frame with VID %d reaches %s, and one without the tag %s", r.name, vid, some(got), some(want))
			}
		}
		t.Note("to %s, frames reach %s", r.name, some(want))
	}
	t.Found("frames with %d VIDs reach the ports that frames without the tag reach", len(sampled))
	return nil
}

// reserved are addresses that switches take for protocols.
var reserved = []struct {
	name, code string
	dst        MAC
}{
	{"BPDUs", "bpdu", MAC{0x01, 0x80, 0xc2, 0, 0, 0x00}},
	{"LLDP frames", "lldp", MAC{0x01, 0x80, 0xc2, 0, 0, 0x0e}},
	{"LACP frames", "lacp", MAC{0x01, 0x80, 0xc2, 0, 0, 0x02}},
	{"PVST and CDP frames", "pvst", MAC{0x01, 0x00, 0x0c, 0xcc, 0xcc, 0xcd}},
}

func runReserved(ctx context.Context, t *Trial) error {
	if err := t.passing(ctx); err != nil {
		return err
	}
	var frames []Frame
	for _, r := range reserved {
		frames = append(frames, Frame{To: 1, Dst: r.dst}, Frame{To: 1, Dst: r.dst, Tags: VLAN(t.Profile.TPID, 0x2f7e)})
	}
	seen, err := t.several(ctx, 0, frames)
	if err != nil {
		return err
	}
	does := map[bool]string{true: "forwarded", false: "not forwarded"}
	for i, r := range reserved {
		without, with := seen[2*i].reached(1), seen[2*i+1].reached(1)
		if without != with {
			t.Fault(r.code+"-tagged", "%s are %s without the tag, and with it they are %s", r.name, does[without], does[with])
		} else {
			t.Note("%s are %s, with the tag and without", r.name, does[without])
		}
	}
	t.Found("the tag makes no difference to %d protocols' frames", len(reserved))
	return nil
}

// stormFrames is how long the burst of each kind is.
const stormFrames = 2000

func runStorm(ctx context.Context, t *Trial) error {
	broadcast := MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	tag := VLAN(t.Profile.TPID, 0x2f7e)
	if err := t.passing(ctx); err != nil {
		return err
	}
	var share [4]float64
	for i, f := range []Frame{{To: 1, Dst: broadcast}, {To: 1, Dst: broadcast, Tags: tag}, {To: 1}, {To: 1, Tags: tag}} {
		seen, err := t.Exchange(ctx, 0, slices.Repeat([]Frame{f}, stormFrames))
		if err != nil {
			return err
		}
		for k := range seen {
			if seen[k].Count(1) == 0 {
				share[i] += 1.0 / stormFrames
			}
		}
	}
	t.Measured("broadcast_lost_share", share[0])
	t.Measured("broadcast_tagged_lost_share", share[1])
	t.Measured("unicast_lost_share", share[2])
	t.Measured("unicast_tagged_lost_share", share[3])
	const some = 0.05 // losses of a queue are no storm control
	switch {
	case share[3] > share[2]+some:
		t.Fault("storm-limits-tagged", "unicast frames with the tag are limited: %.0f%% of %d are lost, and %.0f%% without the tag", 100*share[3], stormFrames, 100*share[2])
	case share[0] > share[2]+some && share[1] < share[0]/2:
		t.Fault("storm-bypassed", "broadcast without the tag is limited, %.0f%% of %d frames are lost, and with the tag %.0f%%", 100*share[0], stormFrames, 100*share[1])
	case share[1] > share[0]+some:
		t.Fault("storm-limits-tagged-broadcast", "broadcast with the tag is limited: %.0f%% of %d frames are lost, and %.0f%% without the tag", 100*share[1], stormFrames, 100*share[0])
	case share[0] > share[2]+some:
		t.Found("storm control limits broadcast with the tag as without")
	default:
		return Cannot("no storm control acts at %.0f frames a second: %.1f%% of %d broadcasts without the tag are lost, and %.1f%% of others: configure one at %s for broadcast, below that rate", t.Frames.PerSecond, 100*share[0], stormFrames, 100*share[2], t.Ports[0].Name)
	}
	return nil
}

func runVLANs(ctx context.Context, t *Trial) error {
	var passing []string
	for _, tpid := range []uint16{0x8100, 0x88a8} {
		if tpid == t.Profile.TPID || tpid == t.Profile.WideTPID {
			continue
		}
		var passed, changed [2][]int // by the port they came from
		err := t.bothWays(ctx, func(to int) []Frame { return append([]Frame{{To: to}}, t.allVIDs(tpid, to)...) }, func(from int, s *Seen) {
			what := tciFault(s, outer)
			if len(s.Tags) == 0 {
				if fate := s.Fate(); fate != "" {
					t.faultOnce("untagged-"+kindOf(fate), "a frame without any tag from %s: %s", t.way(from, s.To), fate)
				}
				return
			}
			vid := int(binary.BigEndian.Uint16(s.Tags[2:]))
			switch what {
			case "":
				passed[from] = append(passed[from], vid)
			case "lost":
			default:
				changed[from] = append(changed[from], vid)
			}
		})
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%04x", tpid)
		for from := range 2 {
			for _, vid := range passed[from] {
				if !has(passed[1-from], vid) && !has(changed[1-from], vid) {
					t.faultOnce("vlan-one-way-"+name, "a frame of VLAN %d with TPID 0x%s passes from %s, and not the other way", vid, name, t.way(from, 1-from))
				}
			}
			t.Note("TPID 0x%s from %s: VIDs that pass untouched: %s; altered: %s", name, t.way(from, 1-from), some(ranges(passed[from])), some(ranges(changed[from])))
		}
		both := slices.DeleteFunc(slices.Clone(passed[0]), func(vid int) bool { return !has(passed[1], vid) })
		either := slices.Concat(changed[0], changed[1])
		slices.Sort(either)
		passing = append(passing, fmt.Sprintf("VLANs of TPID 0x%s: %s", name, some(ranges(both))))
		t.Listed("passed_"+name, ranges(both))
		t.Listed("altered_"+name, ranges(slices.Compact(either)))
	}
	t.Found("untouched, both ways: frames without any tag; %s", strings.Join(passing, "; "))
	return nil
}

// has reports whether a sorted list has a VID.
func has(list []int, vid int) bool {
	_, found := slices.BinarySearch(list, vid)
	return found
}

// some is a list in a line.
func some(list []string) string {
	const most = 12
	switch {
	case len(list) == 0:
		return "none"
	case len(list) > most:
		return strings.Join(list[:most], ", ") + fmt.Sprintf(" and %d more", len(list)-most)
	}
	return strings.Join(list, ", ")
}
