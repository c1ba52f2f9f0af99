package ovs

import (
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
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
	d.checked, d.around = time.Time{}, time.Time{}
	res := update(t, d, time.Minute, at7)
	if res.Facts != nil && res.Facts.Update.Reason != f.Update.Reason {
		t.Errorf("an update says %s", res.Facts.Update.Reason)
	}
	if (d.said.turns != "") != (len(want) > 0) {
		t.Errorf("the agent knows of %q", d.said.turns)
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
	s.says(t, s.driver) // nobody programs the other one

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
}
