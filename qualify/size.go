package qualify

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
)

// carried is an ordinary VLAN that passes tagged between the first two ports, untouched,
// both ways.
func (t *Trial) carried(ctx context.Context) (uint16, error) {
	var frames []Frame
	for vid := uint16(1); vid < 4095; vid++ {
		frames = append(frames, Frame{To: 1, Tags: VLAN(0x8100, vid)})
	}
	seen, err := t.Exchange(ctx, 0, frames)
	if err != nil {
		return 0, err
	}
	frames = nil
	for i := range seen {
		if seen[i].Fate() == "" {
			frames = append(frames, Frame{To: 0, Tags: seen[i].Tags})
		}
	}
	if seen, err = t.Exchange(ctx, 1, frames); err != nil {
		return 0, err
	}
	// Not one that switches treat apart, if there is another.
	for _, apart := range []bool{false, true} {
		for i := range seen {
			vid := binary.BigEndian.Uint16(seen[i].Tags[2:])
			if seen[i].Fate() == "" && apart == (vidGroup(int(vid)) < len(special)-1) {
				return vid, nil
			}
		}
	}
	return 0, Cannot("no ordinary VLAN passes tagged from %s and back: make both ports members of one", t.way(0, 1))
}

func runPositions(ctx context.Context, t *Trial) error {
	vid, err := t.carried(ctx)
	if err != nil {
		return err
	}
	c, s, tag := VLAN(0x8100, vid), VLAN(0x88a8, vid), VLAN(t.Profile.TPID, 0x2f7e)
	rows := []struct {
		name, code string
		vlans      []byte // must pass without the tag
		with       []byte
	}{
		{"behind a VLAN tag", "behind-1", c, slices.Concat(c, tag)},
		{"behind two VLAN tags", "behind-2", slices.Concat(s, c), slices.Concat(s, c, tag)},
		{"before a VLAN tag", "before-1", c, slices.Concat(tag, c)},
	}
	ways := map[string]int{} // in how many directions each passed
	for from := range 2 {
		var frames []Frame
		for _, r := range rows {
			frames = append(frames, Frame{To: 1 - from, Tags: r.vlans}, Frame{To: 1 - from, Tags: r.with})
		}
		seen, err := t.Repeated(ctx, from, frames)
		if err != nil {
			return err
		}
		for i, r := range rows {
			switch control, fate := seen[2*i].Fate(), seen[2*i+1].Fate(); {
			case fate == "":
				ways[r.code]++
			case control != "":
				t.Note("%s from %s: not tested: without the tag the frame %s, too", r.name, t.way(from, 1-from), control)
			default:
				t.faultOnce(r.code+"-"+kindOf(fate), "%s %x from %s the tag: %s", r.name, r.vlans, t.way(from, 1-from), fate)
			}
		}
	}
	passed := []string{}
	for _, r := range rows {
		if ways[r.code] == 2 {
			passed = append(passed, r.code)
		}
	}
	t.Listed("positions", passed)
	t.Found("in VLAN %d the tag passes %d of %d positions, both ways", vid, len(passed), len(rows))
	return nil
}

// positionFacts is behind how many VLAN tags the tag was seen to pass, and the fewest
// behind which it did not.
func positionFacts(r *Result, f *inventory.Facts) {
	n := 0
	for n < 2 && slices.Contains(r.List("positions"), fmt.Sprintf("behind-%d", n+1)) {
		n++
	}
	for fails := n + 1; fails <= 2 && f.TagsInFrontFail == nil; fails++ {
		if r.Has(fmt.Sprintf("behind-%d", fails)) {
			f.TagsInFrontFail = &fails
		}
	}
	if n > 0 || r.Has("behind-1") {
		f.TagsInFront = &n
	}
}

// tries is how often a size is tried: of so many frames one has to pass.
const tries = 3

// largest is the length of the largest frame with these tags that passes from the first
// port to the second, in bytes without FCS, up to most.
func (t *Trial) largest(ctx context.Context, tags []byte, most int) (int, error) {
	least := minFrame
	for least < most {
		mid := (least + most + 1) / 2
		seen, err := t.Exchange(ctx, 0, slices.Repeat([]Frame{{To: 1, Tags: tags, Size: mid}}, tries))
		if errors.Is(err, syscall.ENOBUFS) { // a virtual cable's other end refuses it at once
			most = mid - 1
			continue
		}
		if err != nil {
			return 0, err
		}
		// An altered tag is no matter of the size, a frame cut short is.
		passed := slices.ContainsFunc(seen, func(s Seen) bool { return len(s.At(1)) == len(s.Sent) })
		if passed {
			least = mid
		} else {
			most = mid - 1
		}
	}
	return least, nil
}

// usualMTU is that of most ports for long frames, in bytes.
const usualMTU = 9216

// raise is how the cards send longer frames; "" where they send long ones already.
func (t *Trial) raise() string {
	if min(t.Ports[0].MTU, t.Ports[1].MTU) >= usualMTU {
		return ""
	}
	return fmt.Sprintf("; ip link set %s mtu %d raises theirs, and the same for %s", t.Ports[0].Card, usualMTU, t.Ports[1].Card)
}

func runMTU(ctx context.Context, t *Trial) error {
	const header, tagSize, usual = 14, 4, 1500
	if err := t.passing(ctx); err != nil {
		return err
	}
	can := min(t.Ports[0].MTU, t.Ports[1].MTU) + header // what the cards send
	without, err := t.largest(ctx, nil, can)
	if err != nil {
		return err
	}
	with, err := t.largest(ctx, VLAN(t.Profile.TPID, 0x2f7e), can)
	if err != nil {
		return err
	}
	t.Measured("max_frame_without_tag_bytes", float64(without))
	t.Measured("max_frame_bytes", float64(with))
	if with == can && !t.Cable() {
		t.Note("the cards send no longer frames: the switch's limit may be higher%s", t.raise())
	}
	payload := usual
	mtus := map[string]int(nil)
	if t.Driver != nil {
		if mtus, err = vendors.MTUs(ctx, t.Driver); err != nil {
			return err
		}
	}
	if m := mtus[t.Ports[1].Name]; m > 0 {
		payload = m
	}
	need := payload + header + tagSize
	t.Measured("needed_bytes", float64(need))
	switch {
	case without < payload+header && without < can:
		return t.Positive("a frame without a tag passes up to the port's MTU", false, "%d bytes with an MTU of %d", without, payload)
	case with >= need:
		t.Found("frames of up to %d bytes pass with the tag, and of up to %d without: a payload of %d bytes passes with the tag, as %d bytes", with, without, payload, need)
	case with == can:
		return Cannot("the cards send frames of at most %d bytes, and %d are needed for a payload of %d with the tag: ip link set %s mtu %d, and the same for %s", can, need, payload, t.Ports[0].Card, need-header, t.Ports[1].Card)
	default:
		t.Fault("mtu-tag", "the tag takes its bytes from the payload: frames up to %d bytes pass, %d are needed for a payload of %d; without the tag %d pass", with, need, payload, without)
	}
	return nil
}

// Latency is measured with so many frames of each kind, one after another.
const (
	latencyFrames = 100
	latencyPace   = 200 * time.Microsecond
)

func runLatency(ctx context.Context, t *Trial) error {
	without, with, err := t.latencies(ctx, 0x2f7e)
	if err != nil {
		return err
	}
	t.Measured("without_tag_ns", float64(without))
	t.Measured("with_tag_ns", float64(with))
	t.Measured("added_ns", float64(with-without))
	own, calibrated := t.Calibrated("latency", "added_ns")
	if calibrated {
		t.Measured("added_by_cards_ns", own)
	}
	added := with - without - time.Duration(own)
	// What a CPU forwards takes far longer than a queue of this machine.
	slow := max(time.Millisecond, 5*without)
	if added > slow {
		t.Fault("slow-path", "a frame with the tag takes %v longer, as if the switch's CPU forwarded it: %v and %v without", added, with, without)
	}
	t.Found("the median is %v with the tag and %v without, cards included", with, without)
	ruled, plain, err := t.latencyOfRules(ctx)
	var why *notTested
	switch {
	case errors.As(err, &why):
		t.Note("not measured with rules: %s", why.why)
		return nil
	case err != nil:
		return err
	}
	t.Measured("with_rules_ns", float64(ruled))
	byRules := ruled - plain - time.Duration(own)
	t.Measured("added_with_rules_ns", float64(max(0, byRules)))
	if byRules > slow && added <= slow {
		t.Fault("slow-rules", "a frame with the tag takes %v longer where a rule rewrites it, as if the switch's CPU forwarded it: %v, and %v without the tag", byRules, ruled, plain)
	}
	t.Found("the median is %v with the tag, %v where a rule rewrites it, and %v without, cards included", with, ruled, without)
	return nil
}

// latencyOfRules is the median of frames whose tag a rule rewrites, and of those without.
func (t *Trial) latencyOfRules(ctx context.Context) (with, without time.Duration, err error) {
	tci, err := t.ruled(ctx)
	if err != nil {
		return 0, 0, err
	}
	without, with, err = t.latencies(ctx, tci)
	return with, without, err
}

// ruled has rules rewrite tags that leave the second port, and returns one that they do.
func (t *Trial) ruled(ctx context.Context) (tci uint16, err error) {
	if err := t.canUpdate(ctx); err != nil {
		return 0, err
	}
	setup, err := t.program(ctx, held, heldFor)
	if err != nil {
		return 0, err
	}
	all, err := t.onWire(ctx, &setup, held, 1)
	if err == nil && !all {
		err = Cannot("no value is on the wire within %v: see the experiments rule-key and rewrite", t.patience())
	}
	return probes(&setup)[0], err
}

// latencies are the medians of frames without the tag and with it, sent in turn.
func (t *Trial) latencies(ctx context.Context, tci uint16) (without, with time.Duration, err error) {
	var frames []Frame
	for range latencyFrames {
		frames = append(frames, Frame{To: 1}, Frame{To: 1, Tags: VLAN(t.Profile.TPID, tci)})
	}
	t.pace = latencyPace
	defer func() { t.pace = 0 }()
	seen, err := t.Exchange(ctx, 0, frames)
	if err != nil {
		return 0, 0, err
	}
	var took [2][]time.Duration // without and with the tag
	for i := range seen {
		if s := &seen[i]; len(s.Where) == 1 && s.Count(1) == 1 {
			took[i%2] = append(took[i%2], s.Where[0].At.Sub(s.Left))
		}
	}
	for i, what := range []string{"without", "with"} {
		if len(took[i]) < latencyFrames/2 {
			return 0, 0, Cannot("%d of %d frames %s the tag arrived: see the experiment tpid", len(took[i]), latencyFrames, what)
		}
	}
	return median(took[0]), median(took[1]), nil
}

func median(list []time.Duration) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}
