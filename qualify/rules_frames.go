package qualify

import (
	"context"
	"fmt"
	"slices"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// ordinary are VLANs that are tried beside one that the ports carry.
var ordinary = []uint16{1, 2, 10, 20, 100, 200}

// leavesAlone compares frames without the tag with rules and without.
func leavesAlone(ctx context.Context, t *Trial) error {
	if err := t.Apply(ctx, t.Setup(vlanrules.Passthrough)); err != nil {
		return Cannot("the driver cannot apply a setup without rules: %v", err)
	}
	vlans := ordinary
	if vid, err := t.carried(ctx); err == nil && !slices.Contains(vlans, vid) {
		vlans = append(slices.Clone(vlans), vid)
	}
	foreign := uint16(0x9ab0)
	if foreign == t.Profile.TPID || foreign == t.Profile.WideTPID {
		foreign++
	}
	var frames [2][]Frame
	for from := range frames {
		add := func(f Frame) { f.To = 1 - from; frames[from] = append(frames[from], f) }
		add(Frame{})
		for _, size := range []int{60, 128, 512, 1400} {
			add(Frame{Size: size})
		}
		like := VLAN(t.Profile.TPID, 0x0f7e) // a tag behind another ethertype is none
		for _, typ := range []uint16{0x0800, 0x86dd, 0x0806, foreign} {
			add(Frame{Type: typ, Header: like})
		}
		for _, typ := range []uint16{0x8100, 0x88a8} {
			if typ == t.Profile.TPID {
				continue
			}
			host := t.Address(uint8(0x81 + 1 - from)) // flows of OpenFlow hand over to csig by address
			for mark := range uint16(16) {
				for _, vid := range vlans {
					add(Frame{Dst: host, Tags: VLAN(typ, mark<<12|vid)})
				}
			}
			add(Frame{Dst: host, Tags: VLAN(typ, 0x2000)}) // a priority tag
		}
	}
	plain := 0
	for from := range frames {
		seen, err := t.Exchange(ctx, from, frames[from])
		if err != nil {
			return err
		}
		frames[from] = nil
		for i := range seen {
			if seen[i].Fate() == "" { // what is lost or altered without rules is for other experiments
				frames[from], plain = append(frames[from], seen[i].Frame), plain+1
			}
		}
	}
	if plain == 0 {
		return Cannot("no frame without the tag passes untouched, with or without rules")
	}
	setup, err := t.program(ctx, local{0, 1}, heldFor)
	if err != nil {
		return err
	}
	for port := range 2 {
		if err := t.inEffect(ctx, &setup, local{0, 1}, port); err != nil {
			return err
		}
	}
	count, vids := 0, map[string]bool{}
	for from := range frames {
		seen, err := t.Repeated(ctx, from, frames[from])
		if err != nil {
			return err
		}
		for i := range seen {
			s := &seen[i]
			if len(s.Tags) > 0 {
				vids[fmt.Sprintf("%x", s.Tags[:2])] = true
			}
			fate := s.Fate()
			if fate == "" {
				continue
			}
			count++
			code := "frame-without-tag-altered"
			if fate == lost {
				code = "frame-without-tag-lost"
			}
			t.faultOnce(code, "with rules, a frame without the tag from %s (%x behind the addresses): %s; without rules it passes untouched", t.way(from, s.To), s.Sent[12:18], fate)
		}
	}
	if count == 0 {
		t.Found("%d frames without the tag, of %d VLAN TPIDs and of none, pass with rules as without", plain, len(vids))
	} else {
		t.Note("%d of %d frames without the tag are not as without rules", count, plain)
	}
	if len(vids) == 0 {
		t.Note("no frame with a VLAN tag passes these ports, so that none was tried: make both members of one to try it")
	}
	return nil
}

// inEffect is the error of a port whose rules rewrite no tag, right or wrong: everything passes
// there as without rules.
func (t *Trial) inEffect(ctx context.Context, setup *vendors.Setup, l local, port int) error {
	rewrites, err := t.onWire(ctx, setup, l, port)
	if err == nil && !rewrites { // not as they should: that is for the experiment rewrite
		var seen []Seen
		seen, err = t.insist(ctx, 1-port, tagged(port, setup.TPID, probes(setup)...))
		rewrites = slices.ContainsFunc(seen, func(s Seen) bool {
			sent, got, _ := tagOf(&s)
			return got != sent
		})
	}
	if err != nil {
		return err
	}
	return t.Positive("rules rewrite tags", rewrites, "out of %s none within %v: see the experiments rule-key and rewrite", t.Ports[port].Name, t.patience())
}

// strip has a port remove tags.
func strip(ctx context.Context, t *Trial) error {
	facts, err := t.Driver.Probe(ctx)
	if err != nil {
		return Cannot("probing the device: %v", err)
	}
	if facts.Strip.Level == vlanrules.Refused {
		return Cannot("its driver cannot remove tags: %s", facts.Strip.Reason)
	}
	total := 0
	for _, port := range both {
		n, err := t.stripAt(ctx, port)
		if err != nil || len(t.Faults) > 0 {
			return err
		}
		total += n
	}
	t.Found("%s removed the tags of %d frames, and nothing else", t.bothNames(), total)
	return nil
}

// stripAt has one port remove tags, of so many frames.
func (t *Trial) stripAt(ctx context.Context, port int) (int, error) {
	setup := t.Setup(vlanrules.Passthrough)
	setup.Ports[port].Action = vlanrules.Strip
	if err := t.Apply(ctx, setup); err != nil {
		return 0, Cannot("the driver cannot apply a setup that strips: %v", err)
	}
	var frames []Frame
	for mark := range uint16(16) {
		for _, vid := range []uint16{1, 0x385, 0x7fe, 0xf0a} {
			frames = append(frames, tagged(port, setup.TPID, mark<<12|vid)...)
		}
	}
	for _, size := range []int{60, 61, 500, 1400} {
		frames = append(frames, Frame{To: port, Size: size}, Frame{To: port, Size: size, Tags: VLAN(setup.TPID, 0x0385)})
	}
	for i := range frames { // a frame of which too much is taken is still known
		frames[i].Header = make([]byte, 16)
	}
	bad, code, text := 0, "", ""
	p := patient{Trial: t}
	err := p.try(ctx, func() (bool, error) {
		seen, err := t.insist(ctx, 1-port, frames)
		bad = 0
		for i := range seen {
			if c, how := stripped(&seen[i]); c != "" {
				if bad++; bad == 1 {
					code, text = c, how
				}
			}
		}
		return bad > 0, err
	})
	if err == nil && bad > 0 {
		t.Fault("strip-"+code, "out of %s %d of %d frames: %s", t.Ports[port].Name, bad, len(frames), text)
	}
	return len(frames), err
}

// stripped says how a frame did not leave as one whose tag is removed; "" for nothing.
func stripped(s *Seen) (code, how string) {
	want := append(append([]byte(nil), s.Sent[:12]...), s.Sent[12+len(s.Tags):]...)
	got := s.At(s.To)
	switch {
	case got == nil:
		return "lost", fmt.Sprintf("one with the tag %x %s", s.Tags, lost)
	case len(s.Tags) > 0 && Difference(s.Sent, got) == "":
		return "not-removed", fmt.Sprintf("the tag %x is still there", s.Tags)
	case Difference(want, got) != "":
		return "altered", fmt.Sprintf("%x behind the addresses became %x, and has to be %x", head(s.Sent), head(got), head(want))
	}
	return "", ""
}
