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
	t.Found("no VID outside of the special ranges is treated apart")
	return nil
}

// learned has the switch learn an address at the first port, from a frame with these tags.
func (t *Trial) learned(ctx context.Context, station MAC, tags []byte) error {
	_, err := t.Exchange(ctx, 0, []Frame{{To: 1, Src: station, Tags: tags}})
	return err
}

func runLearning(ctx context.Context, t *Trial) error {
	x, y := t.Address(1), t.Address(2)
	// A frame to an address that is learned at the port where it came in goes nowhere.
	toX := Frame{To: 1, Dst: x}
	seen, err := t.Exchange(ctx, 0, []Frame{toX})
	if err != nil {
		return err
	}
	if err := t.Positive("a frame to an unknown address is flooded", seen[0].Fate() == "", "it %s", seen[0].Fate()); err != nil {
		return err
	}
	if err := t.learned(ctx, x, nil); err != nil {
		return err
	}
	// A switch may forward by what it knew a moment before.
	if seen, err = t.filtered(ctx, []Frame{toX}); err != nil {
		return err
	}
	if err := t.Negative("a frame to an address that was learned at its own port is not forwarded", seen[0].Fate() == lost, "it arrives: the ports do not learn"); err != nil {
		return err
	}
	var frames []Frame
	for _, vid := range sampled {
		frames = append(frames, Frame{To: 1, Dst: x, Tags: VLAN(t.Profile.TPID, vid)})
	}
	if seen, err = t.filtered(ctx, frames); err != nil {
		return err
	}
	flooded := []int{}
	for i, vid := range sampled {
		if seen[i].Fate() != lost {
			flooded = append(flooded, int(vid))
		}
	}
	if len(flooded) > 0 {
		t.Fault("learning-follows-vid", "an address that was learned without the tag is unknown in frames with the tag: they are flooded, with the VIDs %s", strings.Join(ranges(flooded), ", "))
	}
	if err := t.learned(ctx, y, VLAN(t.Profile.TPID, sampled[3])); err != nil {
		return err
	}
	if seen, err = t.filtered(ctx, []Frame{{To: 1, Dst: y}, {To: 1, Dst: y, Tags: VLAN(t.Profile.TPID, sampled[5])}}); err != nil {
		return err
	}
	if seen[0].Fate() != lost {
		t.Fault("learning-not-from-tagged", "an address that was learned with the tag is unknown in frames without it")
	}
	if seen[1].Fate() != lost {
		t.faultOnce("learning-follows-vid", "an address that was learned with VID %d is unknown with VID %d", sampled[3], sampled[5])
	}
	t.Found("addresses that were learned without the tag are found with %d VIDs, and the other way round", len(sampled))
	return nil
}

// filtered exchanges frames that are to go nowhere until they do, for as long as Patience.
func (t *Trial) filtered(ctx context.Context, frames []Frame) (seen []Seen, err error) {
	for until := time.Now().Add(t.Patience); ; {
		seen, err = t.Exchange(ctx, 0, frames)
		arrived := slices.ContainsFunc(seen, func(s Seen) bool { return s.Fate() != lost })
		if err != nil || !arrived || time.Now().After(until) {
			return seen, err
		}
		select {
		case <-time.After(resend):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// reached are the ports that a frame arrived at.
func (t *Trial) reached(from int, s *Seen) (out []string) {
	for _, to := range t.Others(from) {
		if s.Count(to) > 0 {
			out = append(out, t.Ports[to].Name)
		}
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
	if _, err := t.Exchange(ctx, 1, []Frame{{To: 0, Src: t.Address(4)}}); err != nil {
		return err
	}
	for _, r := range rows {
		frames := []Frame{{To: 1, Dst: r.dst}}
		for _, vid := range sampled {
			frames = append(frames, Frame{To: 1, Dst: r.dst, Tags: VLAN(t.Profile.TPID, vid)})
		}
		seen, err := t.Exchange(ctx, 0, frames)
		if err != nil {
			return err
		}
		want := t.reached(0, &seen[0])
		if r.code == "known" {
			if err := t.Negative("a frame to a learned address reaches its port alone", slices.Equal(want, []string{t.Ports[1].Name}), "it reaches %v", want); err != nil {
				return err
			}
		}
		for i, vid := range sampled {
			if got := t.reached(0, &seen[1+i]); !slices.Equal(got, want) {
				t.faultOnce("flooding-"+r.code, "to %s, a frame with VID %d reaches %v, and one without the tag %v", r.name, vid, got, want)
			}
		}
		t.Note("to %s, frames reach %v", r.name, want)
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
	var frames []Frame
	for _, r := range reserved {
		frames = append(frames, Frame{To: 1, Dst: r.dst}, Frame{To: 1, Dst: r.dst, Tags: VLAN(t.Profile.TPID, 0x2f7e)})
	}
	seen, err := t.Exchange(ctx, 0, frames)
	if err != nil {
		return err
	}
	does := map[bool]string{true: "forwarded", false: "not forwarded"}
	for i, r := range reserved {
		without, with := seen[2*i].Fate() != lost, seen[2*i+1].Fate() != lost
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
		t.Found("at %.0f frames a second no storm control acts at these ports", t.Frames.PerSecond)
	}
	return nil
}

func runVLANs(ctx context.Context, t *Trial) error {
	const cTag, sTag = 0x8100, 0x88a8
	for _, tpid := range []uint16{cTag, sTag} {
		if tpid == t.Profile.TPID || tpid == t.Profile.WideTPID {
			continue
		}
		passed, changed := []int{}, []int{}
		seen, err := t.Exchange(ctx, 0, append([]Frame{{To: 1}}, t.allVIDs(tpid, 1)...))
		if err != nil {
			return err
		}
		if fate := seen[0].Fate(); fate != "" {
			t.faultOnce("untagged-"+kindOf(fate), "a frame without any tag from %s: %s", t.way(0, 1), fate)
		}
		for vid := range 4096 {
			switch seen[1+vid].Fate() {
			case "":
				passed = append(passed, vid)
			case lost:
			default:
				changed = append(changed, vid)
			}
		}
		name := fmt.Sprintf("%04x", tpid)
		t.Listed("passed_"+name, ranges(passed))
		t.Listed("altered_"+name, ranges(changed))
		t.Note("TPID 0x%s: VIDs that pass untouched: %s; altered: %s", name, some(ranges(passed)), some(ranges(changed)))
	}
	t.Found("frames without any tag pass untouched")
	return nil
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
