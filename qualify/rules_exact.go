package qualify

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// middle is a bucket that leaves about half of all tags alone.
const middle = 15

// ruleKey sends tags with every S through rules that distinguish them, of both ports.
func ruleKey(ctx context.Context, t *Trial) error {
	value := local{middle, 5}
	setup, err := t.program(ctx, value, heldFor)
	if err != nil {
		return err
	}
	judged, total := 0, 0
	for _, port := range both {
		arrived, of, err := t.keyOf(ctx, &setup, port, value.intents(&setup))
		if err != nil {
			return err
		}
		judged, total = judged+arrived, total+of
		if !nearlyAll(arrived, of) {
			return Cannot("%d of %d frames with the tag arrive from %s, which is too few to judge by: see the experiments tpid and vids", arrived, of, t.way(1-port, port))
		}
	}
	t.Measured("judged_percent", percent(judged, total))
	t.Found("rules of %s take and leave tags by the VID on the wire, as %d of %d frames show", t.bothNames(), judged, total)
	return nil
}

// keyOf is how many of the frames through a port's rules arrive; a rule that does not see the
// VID on the wire is a fault.
func (t *Trial) keyOf(ctx context.Context, setup *vendors.Setup, port int, intents []vlanrules.Intent) (arrived, of int, err error) {
	var frames []Frame
	for s := range uint8(quantize.NumBuckets) {
		for _, sig := range setup.Signals {
			frames = append(frames, tagged(port, setup.TPID, uint16(sig)<<13|setup.Layout.VID(s, probeLM))...)
		}
	}
	right, changed := 0, 0
	turned := reversals{}
	p := patient{Trial: t}
	err = p.try(ctx, func() (bool, error) {
		seen, err := t.insist(ctx, 1-port, frames)
		right, changed, arrived = 0, 0, 0
		clear(turned.wrong)
		for i := range seen {
			sent, got, rest := tagOf(&seen[i])
			if rest == lost {
				continue
			}
			arrived++
			if got != sent {
				changed++
			}
			if turned.saw(sent, wrote(sent, got, setup, intents)) {
				right++
			}
		}
		return right < arrived, err
	})
	if err != nil || !nearlyAll(arrived, len(frames)) {
		return arrived, len(frames), err
	}
	switch name := t.Ports[port].Name; {
	case right == arrived:
	case changed == 0:
		t.faultOnce("no-rewrite", "out of %s no tag is rewritten, whatever its VID: rules do not see the VID on the wire but perhaps the VLAN that the frame is bridged in, or they are not in effect at all", name)
	case changed == arrived:
		t.faultOnce("all-rewritten", "out of %s every tag is rewritten, whatever its VID: rules do not see the VID on the wire", name)
	default:
		t.faultOnce("wrong-key", "out of %s %d of %d tags are taken or left as the VID on the wire does not ask for%s", name, arrived-right, arrived, turned.text())
	}
	return arrived, len(frames), nil
}

// reversals are tags that a rule treats wrongly after it treated them right, while no rule
// changes: rules cannot do that, and what a switch remembers of earlier frames can.
type reversals struct{ right, wrong map[uint16]bool }

// saw notes what became of a tag, and returns right.
func (c *reversals) saw(tag uint16, right bool) bool {
	if c.right == nil {
		c.right, c.wrong = map[uint16]bool{}, map[uint16]bool{}
	}
	if right {
		c.right[tag] = true
	} else if c.right[tag] {
		c.wrong[tag] = true
	}
	return right
}

func (c *reversals) text() string {
	if len(c.wrong) == 0 {
		return ""
	}
	return fmt.Sprintf("; %d of them were treated right before, and no rule changed between: not the rules but what the switch remembers of earlier frames (a flow cache) decides there", len(c.wrong))
}

// written are what ports write in the experiment about every tag: the first with all
// tags, the others with some.
var written = []local{{middle, 41}, {0, 1}, {1, 50}, {7, 33}, {16, 2}, {24, 52}, {30, 30}, {31, 12}}

// rewrite compares what every tag becomes with the draft's comparison.
func rewrite(ctx context.Context, t *Trial) error {
	setup := t.Setup(vlanrules.Update)
	if err := t.Apply(ctx, setup); errors.Is(err, vendors.ErrNotInHardware) {
		return t.notInHardware(ctx, &setup, err)
	} else if err != nil {
		return Cannot("the driver cannot apply the setup: %v", err)
	}
	every := make([]uint16, 0, 1<<16)
	for tci := 0; tci < 1<<16; tci += max(1, t.Every) {
		every = append(every, uint16(tci))
	}
	var some []uint16
	for mark := range uint16(16) {
		for s := range uint8(quantize.NumBuckets) {
			for _, lm := range []uint16{0, 10, setup.Layout.LMNone()} {
				some = append(some, mark<<12|setup.Layout.VID(s, lm))
			}
		}
	}
	if t.Every > 1 {
		n := 0
		some = slices.DeleteFunc(some, func(uint16) bool { n++; return n%7 != 0 })
	}
	facts, err := t.Driver.Probe(ctx)
	if err != nil {
		return Cannot("probing the device: %v", err)
	}
	w, p := wrongs{caps: facts.Rules}, patient{Trial: t}
	for i, l := range written {
		tcis, from := some, i%2
		if i == 0 {
			tcis = every
		}
		intents := l.intents(&setup)
		// In pieces: the lease is renewed before each.
		for len(tcis) > 0 {
			n := min(len(tcis), 8192)
			if _, err := t.write(ctx, &setup, l, heldFor, 1-from); err != nil {
				return err
			}
			frames := tagged(1-from, setup.TPID, tcis[:n]...)
			var bad, other []wrong
			err := p.try(ctx, func() (bool, error) {
				seen, err := t.insist(ctx, from, frames)
				bad = nil
				for _, x := range wrongOnes(seen, setup.Layout, intents, from) {
					if w.unmatched(x) {
						continue
					}
					if x.rest != "" || wrote(x.sent, x.got, &setup, intents) {
						other = append(other, x) // no rule that is late does that
					} else {
						bad = append(bad, x)
					}
				}
				frames = framesOf(bad, setup.TPID)
				return len(bad) > 0, err
			})
			if err != nil {
				return err
			}
			w.add(other)
			w.total += n
			w.add(bad)
			tcis = tcis[n:]
		}
	}
	if err := w.withoutRules(ctx, t); err != nil {
		return err
	}
	if w.without > 0 {
		t.Note("%d tags with other VIDs than %d to %d are left as they came: its driver says that no rule can match them", w.without, w.caps.VIDMin, w.caps.VIDMax)
	}
	w.report(t)
	judged := w.total - w.unjudged
	share := percent(judged, w.total)
	t.Measured("judged_percent", share)
	switch {
	case len(t.Faults) > 0:
	case !nearlyAll(judged, w.total):
		return Cannot("%d of %d frames (%.1f %%) could be judged, which is too few: the others are lost or altered without rules, too: see the experiments tpid and vids", judged, w.total, share)
	default:
		t.Found("%d of %d frames (%.1f %%), out of %s, are as the draft has them, and none was wrong by a rule", judged, w.total, share, t.bothNames())
	}
	return nil
}

// notInHardware is after the device has reported that it has no rules for what was configured:
// frames show whether that is so.
func (t *Trial) notInHardware(ctx context.Context, setup *vendors.Setup, why error) error {
	seen, err := t.insist(ctx, 0, tagged(1, setup.TPID, probes(setup)...))
	if err != nil {
		return err
	}
	came := 0
	for i := range seen {
		if sent, got, rest := tagOf(&seen[i]); rest == "" && sent == got {
			came++
		}
	}
	t.Fault("not-in-hardware", "%v; %d of %d tags that rules would replace leave %s as they came", why, came, len(seen), t.Ports[1].Name)
	return nil
}

// nearlyAll reports whether so many frames are enough for what is said of all: reserved VIDs,
// which some switches drop, are less than this leaves out.
func nearlyAll(n, of int) bool { return of > 0 && n*20 >= of*19 }

func percent(n, of int) float64 { return 100 * float64(n) / float64(max(of, 1)) }

// chances is how often a frame is sent again before a loss counts as more than chance.
const chances = 4

// insist is Exchange; a frame that does not arrive once is sent again, unless most do not:
// losses by chance are no fault of a rule.
func (t *Trial) insist(ctx context.Context, from int, frames []Frame) ([]Seen, error) {
	seen, err := t.Exchange(ctx, from, frames)
	for range chances {
		var again []Frame
		var at []int
		for i := range seen {
			if seen[i].Count(seen[i].To) != 1 {
				again, at = append(again, seen[i].Frame), append(at, i)
			}
		}
		if err != nil || len(again) == 0 || 2*len(again) > len(frames) {
			break
		}
		var list []Seen
		list, err = t.Exchange(ctx, from, again)
		for i := range list {
			if seen[at[i]].Fate() == lost && list[i].Fate() != lost {
				t.returned++
			}
			seen[at[i]] = list[i]
		}
	}
	return seen, err
}
