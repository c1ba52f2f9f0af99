package ovs

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

// says has Probe say what is wrong, and an agent that runs say the same.
func (s *sandwich) says(t *testing.T, d *Driver, want ...string) {
	t.Helper()
	f, err := s.open(t, d.cfg.Bridge).Probe(t.Context())
	for _, w := range want {
		if err != nil || !strings.Contains(f.Update.Reason, w) || !strings.Contains(f.Strip.Reason, w) {
			t.Errorf("bridge %s: %s, %v\nwant %s", d.cfg.Bridge, f.Update.Reason, err, w)
		}
	}
	if said := strings.Contains(f.Update.Reason, "parsed again"); said != (len(want) > 0) {
		t.Errorf("bridge %s: %s", d.cfg.Bridge, f.Update.Reason)
	}
	d.checked, d.othersReadAt = time.Time{}, time.Time{}
	res := update(t, d, time.Minute, at7)
	if res.Facts != nil && res.Facts.Update.Reason != f.Update.Reason {
		t.Errorf("an update says %s", res.Facts.Update.Reason)
	}
	if (d.said.recirculation != "") != (len(want) > 0) {
		t.Errorf("the agent knows of %q", d.said.recirculation)
	}
}

// TestHandedOverTwice has one list of actions hand a frame over twice and output it:
// each port has it as without the others, and what is in a group is looked into.
func TestHandedOverTwice(t *testing.T) {
	t.Parallel()
	b := flowBed(t)
	const hand = "load:2->NXM_NX_REG15[],resubmit(,60),load:3->NXM_NX_REG15[],resubmit(,60)"
	const buckets = "group_id=2,type=all,bucket=load:2->NXM_NX_REG15[],resubmit(,60),bucket=load:3->NXM_NX_REG15[],resubmit(,60)"
	b.Ofctl("add-group", "csig", buckets+",bucket=output:4")
	b.Ofctl("add-group", "csig", "group_id=3,type=indirect,bucket=group:2")
	var shapes [][]tag
	for _, tci := range []uint16{31<<7 | 126, 1<<13 | 31<<7 | 126, 0, 100} {
		shapes = append(shapes, stacks(tci)...)
	}
	for _, actions := range []string{hand + ",output:4", "output:4," + hand, "push_vlan:0x8100,set_field:4196->vlan_vid," + hand + ",output:4", "group:3"} {
		b.Ofctl("add-flow", "csig", "cookie=5,priority=7,in_port=1,actions="+actions)
		if n := b.try(t, actions, append(shapes, nil)); n != len(shapes)+1 {
			t.Errorf("%s: %d of %d frames arrive", actions, n, len(shapes)+1)
		}
	}
	b.says(t, b.driver)
	f, err := b.open(t, "csig").Probe(t.Context())
	if err != nil || !strings.Contains(f.Update.Reason, "1 flows of bridge csig send frames to ports without handing them to table 60") {
		t.Errorf("in a group: %s, %v", f.Update.Reason, err)
	}
	b.Ofctl("mod-group", "csig", buckets)
	if f, err = b.open(t, "csig").Probe(t.Context()); err != nil || f.Update.Reason != losesR {
		t.Errorf("a group that hands over: %s, %v", f.Update.Reason, err)
	}
}

// TestBridgesInARow has patch ports lead to another bridge that csig programs.
func TestBridgesInARow(t *testing.T) {
	t.Parallel()
	s := &sandwich{Switch: ovstest.Start(t, ovstest.Options{Dummy: true})}
	s.AddBridge("csig")
	s.AddBridge("csig2")
	s.in, s.out = s.AddWire("csig", "h1", 1), s.AddWire("csig2", "swp1", 2)
	s.AddPatch("csig", "pa", "csig2", "pb")
	s.driver = s.open(t, "csig2")
	s.Ofctl("add-flow", "csig2", "actions=load:2->NXM_NX_REG15[],resubmit(,60)")
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	update(t, s.driver, time.Minute, at7)
	s.says(t, s.driver) // the other one is not programmed

	// One that updates what goes to it is named, before and after that is set up;
	// one that passes it through is not, and neither is the last of the row.
	first, pa := s.open(t, "csig"), swp1
	pa.Port = "pa"
	const want = "the patch ports pa (to csig2) lead to bridges that csig programs as well"
	for _, action := range []vlanrules.Action{vlanrules.Update, vlanrules.Strip, vlanrules.Passthrough} {
		pa.Action = action
		if f, err := first.Probe(t.Context()); err != nil || !strings.Contains(f.Update.Reason, want) {
			t.Errorf("before %s: %s, %v", action, f.Update.Reason, err)
		}
		apply(t, first, setupFor(quantize.Draft00, pa))
		f, err := first.Probe(t.Context())
		if said := strings.Contains(f.Update.Reason, want) && strings.Contains(f.Strip.Reason, want); err != nil || said != (action != vlanrules.Passthrough) {
			t.Errorf("%s: %s, %v", action, f.Update.Reason, err)
		}
	}
	s.says(t, s.driver)
	s.Vsctl("set", "interface", "pa", "ofport_request=9")
	s.Ofctl("add-flow", "csig", "in_port=1,actions=load:9->NXM_NX_REG15[],resubmit(,60)")
	vlan := tag{tpidVLAN, 5}
	s.becomes(t, soon, []tag{vlan, best}, vlan, at7s)

	// A setup without an agent is one as well, and so is one behind a third bridge.
	pa.Action = vlanrules.Update
	apply(t, first, setupFor(quantize.Draft00, pa))
	probe := func(named bool, want string) {
		t.Helper()
		for start := time.Now(); ; { // a writer that ends does not wait for the database
			f, err := s.open(t, "csig").Probe(t.Context())
			if err == nil && strings.Contains(f.Update.Reason, want) == named {
				return
			}
			if time.Since(start) > soon {
				t.Fatalf("%v, %v, want %v of %s", f.Update.Reason, err, named, want)
			}
		}
	}
	if err := s.driver.Close(); err != nil {
		t.Fatal(err)
	}
	probe(true, want)
	s.AddBridge("between")
	s.AddPatch("between", "pc", "csig2", "pd")
	s.Vsctl("set", "interface", "pa", "options:peer=pe", "--", "del-port", "pb",
		"--", "add-port", "between", "pe", "--", "set", "interface", "pe", "type=patch", "options:peer=pa")
	probe(true, want)
	// Patch ports that bring the frames of ports are no way to other bridges.
	s.AddBridge("own")
	for _, port := range []string{"x1", "x2"} {
		s.AddPatch("between", "n-"+port, "own", "c-"+port)
		s.Vsctl("set", "interface", "c-"+port, "external_ids:csig-port="+port)
		s.AddWire("own", port, 7+int(port[1]-'0'))
	}
	own := s.open(t, "own")
	for range 2 {
		if f, err := own.Probe(t.Context()); err != nil || strings.Contains(f.Update.Reason, "parsed again") {
			t.Errorf("csig's own: %s, %v", f.Update.Reason, err)
		}
		apply(t, own, setupFor(quantize.Draft00, vendors.PortSetup{Port: "x1", Action: vlanrules.Update}))
	}
	if flows := s.Ofctl("dump-flows", "own", "table=64"); strings.Contains(flows, "priority=1200") {
		t.Errorf("flows of patch ports that bring frames:\n%s", flows)
	}
	if err := errors.Join(own.Remove(t.Context()), own.Close()); err != nil {
		t.Fatal(err)
	}
	off := s.open(t, "csig2")
	if err := errors.Join(off.Remove(t.Context()), off.Close()); err != nil {
		t.Fatal(err)
	}
	probe(false, "parsed again")
}

// TestPatchPort has a bridge without csig behind a patch port that updates, or
// strips: it sees the tags that are there.
func TestPatchPort(t *testing.T) {
	t.Parallel()
	s := &sandwich{Switch: ovstest.Start(t, ovstest.Options{Dummy: true})}
	s.Together(func() {
		s.AddBridge("csig")
		s.AddBridge("br1")
		s.in, s.out = s.AddWire("csig", "h1", 1), s.AddWire("br1", "h2", 2)
		s.AddPatch("csig", "swp1", "br1", "pb")
		s.Vsctl("set", "interface", "swp1", "ofport_request=2")
	})
	s.Ofctl("add-flow", "csig", "actions=load:2->NXM_NX_REG15[],resubmit(,60)")
	s.driver = s.open(t, "csig")
	five := tag{tpidVLAN, 5}
	for _, action := range []vlanrules.Action{vlanrules.Update, vlanrules.Strip} {
		port := swp1
		port.Action = action
		apply(t, s.driver, setupFor(quantize.Draft00, port))
		intents := vendors.PortUpdate{Port: "swp1"}
		one, two := []tag{}, []tag{five}
		if action == vlanrules.Update {
			intents = at7
			one, two = []tag{at7s}, []tag{five, at7s}
		}
		update(t, s.driver, 10*time.Minute, intents)
		for _, tc := range []struct {
			flow string
			sent []tag
			want []tag
		}{
			{"dl_vlan=5", []tag{five}, []tag{five}},
			{"dl_vlan=5", []tag{five, best}, two},
			{"dl_vlan=5", []tag{five, {tpidVLAN, 6}}, []tag{five, {tpidVLAN, 6}}},
			{"dl_vlan=5,dl_type=0x8100", []tag{five, {tpidVLAN, 6}}, []tag{five, {tpidVLAN, 6}}},
			{"pkt_mark=0", []tag{best}, one},
			{"pkt_mark=0,vlan_tci=0", nil, nil},
		} {
			s.Ofctl("del-flows", "br1")
			s.Ofctl("add-flow", "br1", tc.flow+",actions=output:2")
			s.becomes(t, soon, tc.sent, tc.want...)
			// A tag of the bridge's own goes in front of those that are there.
			s.Ofctl("add-flow", "br1", tc.flow+",actions=push_vlan:0x8100,set_field:4196->vlan_vid,output:2")
			s.becomes(t, soon, tc.sent, append([]tag{{tpidVLAN, 100}}, tc.want...)...)
		}
	}
}

// TestRows has bridges that csig programs joined by patch ports: every frame arrives
// once. Those without a tag of CSIG's are as they came; the others have what the first
// two that update or strip make of one tag, and the first alone of one behind another.
// TestLongRows has either length with either beginning.
func TestRows(t *testing.T) {
	t.Parallel()
	for i, length := range []int{2, 4} {
		for j, first := range []vlanrules.Action{vlanrules.Update, vlanrules.Strip} {
			if i != j && !vendorstest.Long(t) {
				continue
			}
			t.Run(fmt.Sprintf("%d bridges, the first with %s", length, first), func(t *testing.T) {
				row(t, length, first)
			})
		}
	}
}

func TestLongRows(t *testing.T) { TestRows(t) }

func row(t *testing.T, length int, first vlanrules.Action) {
	s := &sandwich{Switch: ovstest.Start(t, ovstest.Options{Dummy: true})}
	bridge := func(i int) string { return fmt.Sprintf("csig%d", i) }
	next := func(i int) string { return fmt.Sprintf("next%d", i) }
	s.Together(func() {
		for i := range length {
			s.AddBridge(bridge(i))
		}
		s.in = s.AddWire(bridge(0), "h1", 1)
		patches := length - 1
		if first == vlanrules.Strip { // a bridge without csig is the last
			patches++
			s.AddBridge(bridge(length))
			s.out = s.AddWire(bridge(length), "h2", 2)
		} else {
			s.out = s.AddWire(bridge(length-1), next(length-1), 2)
		}
		for i := range patches {
			s.AddPatch(bridge(i), next(i), bridge(i+1), fmt.Sprintf("prev%d", i+1))
			s.Vsctl("set", "interface", next(i), "ofport_request=2")
		}
	})
	if first == vlanrules.Strip { // and sees no mark
		s.Ofctl("add-flow", bridge(length), "pkt_mark=0,actions=output:2")
	}
	model := inRow{first: first}
	if length == 4 {
		model.passes = 1
	}
	var drivers []*Driver
	for i := range length {
		drivers = append(drivers, s.open(t, bridge(i)))
		port := vendors.PortSetup{Port: next(i), Action: vlanrules.Update}
		switch i {
		case 0:
			port.Action = first
		case model.passes:
			port.Action = vlanrules.Passthrough
		}
		apply(t, drivers[i], setupFor(quantize.Draft00, port))
		model.buckets = append(model.buckets, bucket(quantize.MinABW, uint8(20-5*i), uint16(i+1)))
	}
	for _, pushes := range []bool{false, true} {
		model.pushes = pushes
		for i, d := range drivers {
			actions := "load:2->NXM_NX_REG15[],resubmit(,60)"
			if i == 1 && pushes {
				actions = "push_vlan:0x8100,set_field:4196->vlan_vid," + actions
			}
			s.Ofctl("add-flow", bridge(i), "actions="+actions)
			u := vendors.PortUpdate{Port: next(i)}
			if i != model.passes && i > 0 || i == 0 && first == vlanrules.Update {
				u.Intents = model.buckets[i : i+1]
			}
			d.checked = time.Time{} // it is time to look at the other bridges
			if res := update(t, d, 10*time.Minute, u); res.Repaired != nil {
				t.Errorf("bridge %d: repaired %s", i, res.Repaired)
			}
		}
		s.settle()
		seq := uint32(0)
		for _, tci := range []uint16{31<<7 | 126, 1 << 7, 100} {
			for _, tags := range append(stacks(tci), nil) {
				seq++
				s.in.Send(frame(seq, tags...))
				want := frame(seq, model.pass(tags)...)
				switch got := s.out.Receive(soon); {
				case got == nil: // nor will others come, each after a wait
					t.Fatalf("pushes %v, sent %04x: nothing arrives, want %x", pushes, tags, head(want))
				case !bytes.Equal(got, want):
					t.Errorf("pushes %v, sent %04x: got %x, want %x", pushes, tags, head(got), head(want))
				}
			}
		}
	}
}

// inRow is what a row of bridges makes of a frame: docs/ovs.md.
type inRow struct {
	first   vlanrules.Action
	passes  int  // the bridge of which the port passes tags through, 0: none
	pushes  bool // the second one puts a VLAN's tag on
	buckets []vlanrules.Intent
}

func (r *inRow) pass(tags []tag) []tag {
	turns := 0 // up to three a bridge, or four
	for i := range r.buckets {
		strips := i == 0 && r.first == vlanrules.Strip
		if i == 1 && r.pushes {
			tags = append([]tag{{tpidVLAN, 100}}, tags...)
		}
		n := len(tags)
		if n == 0 || turns > 3 || i > 0 && i == r.passes {
			continue
		}
		inner := n > 1 && tags[1].tpid == tpidCSIG
		two := tags[0].tpid == tpidCSIG
		switch {
		case inner && turns > 0:
			turns = 6
			continue
		case inner && (!two || strips):
			turns = 4
		default:
			turns += 3
		}
		if n > 2 || tags[n-1].tpid != tpidCSIG || n == 2 && two && !strips {
			continue
		}
		tags = slices.Clone(tags)
		switch {
		case strips && two:
			tags = nil
		case strips:
			tags = tags[:n-1]
		default:
			tags[n-1].tci = model(quantize.Draft00, r.buckets[i:i+1], tags[n-1].tci)
		}
	}
	return tags
}
