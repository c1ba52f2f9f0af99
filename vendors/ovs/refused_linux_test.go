package ovs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestRefused has bridges that csig must not, or cannot, program.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	s.AddBridge("plain")
	s.AddWire("plain", "p1", 1)
	update := setupFor(quantize.Draft00, vendors.PortSetup{Port: "p1", Action: vlanrules.Update})
	for _, tc := range []struct {
		name, flow, want string
		level            vlanrules.Level // of Probe's Update
		applied          bool
	}{
		{"no flow hands frames over", "priority=1,actions=drop", "hands frames to table 60", vlanrules.Degraded, true},
		{"NORMAL", "actions=NORMAL", "switches by itself", vlanrules.Refused, false},
		{"flooding", "actions=clone(flood)", "switches by itself", vlanrules.Refused, false},
		{"past csig's tables", "actions=output:1", "without handing them", vlanrules.Degraded, true},
		{"a register's port", "actions=output:NXM_NX_REG3[]", "does not look into", vlanrules.Degraded, true},
		{"the hook", "actions=load:1->NXM_NX_REG15[],resubmit(,60)", losesR, vlanrules.Degraded, true},
		{"csig's tables have foreign flows", "table=61,actions=drop", "not csig's", vlanrules.Degraded, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s.Ofctl("del-flows", "plain")
			s.Ofctl("add-flow", "plain", tc.flow)
			d := s.open(t, "plain")
			f, err := d.Probe(t.Context())
			if err != nil || f.Update.Level != tc.level {
				t.Fatalf("%+v, %v", f.Update, err)
			}
			if !slices.Contains(f.Ports, "p1") || slices.Contains(f.Ports, "swp1") {
				t.Errorf("its ports are %v", f.Ports)
			}
			err = d.Apply(t.Context(), update)
			if (err == nil) != tc.applied {
				t.Fatalf("applied: %v", err)
			}
			var p *vendors.PermanentError
			if text := f.Update.Reason + fmt.Sprint(err); !strings.Contains(text, tc.want) || err != nil && !errors.As(err, &p) {
				t.Errorf("%s, want %s", text, tc.want)
			}
		})
	}
	s.Vsctl("set", "Open_vSwitch", ".", "other_config:vlan-limit=2")
	s.Ofctl("del-flows", "plain")
	d := s.open(t, "plain")
	if err := d.Apply(t.Context(), update); err == nil || !strings.Contains(err.Error(), "vlan-limit is 2") {
		t.Errorf("vlan-limit: %v", err)
	}
	s.Vsctl("set", "bridge", "plain", "protocols=OpenFlow13")
	var p *vendors.PermanentError
	if _, err := s.open(t, "plain").Observe(t.Context()); !errors.As(err, &p) || !strings.Contains(err.Error(), "does not speak OpenFlow 1.4") {
		t.Errorf("OpenFlow 1.3 alone: %v", err)
	}
	s.Vsctl("clear", "bridge", "plain", "protocols")
	for name, err := range map[string]error{
		"no bridge": func() error { _, err := s.open(t, "br9").Observe(t.Context()); return err }(),
		"no name":   func() error { _, err := Open(Config{}); return err }(),
		"table":     func() error { _, err := Open(Config{Bridge: "b", Table: 250}); return err }(),
	} {
		if err == nil {
			t.Error(name)
		}
	}
	if _, err := s.open(t, "plain").Update(t.Context(), nil, time.Minute); err == nil || !strings.Contains(err.Error(), "call Apply first") {
		t.Errorf("without a setup: %v", err)
	}
}

// TestFull fills a table: what there is room for is done port by port, the most
// congested first, and the rest has the fallback until there is room.
func TestFull(t *testing.T) {
	t.Parallel()
	s := &sandwich{Switch: ovstest.Start(t, ovstest.Options{Dummy: true})}
	s.AddBridge("csig")
	s.in, s.out = s.AddWire("csig", "h1", 1), s.AddWire("csig", "swp1", 2)
	second := &sandwich{Switch: s.Switch, in: s.in, out: s.AddWire("csig", "swp2", 3)}
	s.driver = s.open(t, "csig")
	apply(t, s.driver, setupFor(quantize.Draft00, swp1, vendors.PortSetup{Port: "swp2", Action: vlanrules.Update}))
	to := func(port string) {
		s.Ofctl("add-flow", "csig", "in_port=1,actions=load:"+port+"->NXM_NX_REG15[],resubmit(,60)")
	}
	both := func(a, b uint8) []vendors.PortUpdate {
		return []vendors.PortUpdate{{Port: "swp1", Intents: []vlanrules.Intent{bucket(quantize.MinABW, a, 5)}},
			{Port: "swp2", Intents: []vlanrules.Intent{bucket(quantize.MinABW, b, 6)}}}
	}
	update(t, s.driver, time.Minute, both(31, 31)...) // no live flows at all
	flows := strings.Count(s.Ofctl("dump-flows", "csig", "table=62"), "priority")
	s.Vsctl("--", "--id=@t", "create", "Flow_Table", fmt.Sprintf("flow_limit=%d", flows+7), "--", "set", "bridge", "csig", "flow_tables:62=@t")
	for round := range 3 { // swp2 is the more congested; both have six flows
		s.driver.checked = time.Time{}
		res, err := s.driver.Update(t.Context(), both(9, 6), time.Minute)
		var p *vendors.PortError
		if !res.Leased || !errors.As(err, &p) || p.Port != "swp1" || !strings.Contains(err.Error(), "OFPFMFC_TABLE_FULL") || strings.Contains(err.Error(), "port swp2") || res.Repaired != nil {
			t.Fatalf("round %d: %+v, %v", round, res, err)
		}
	}
	if got, err := s.open(t, "csig").Observe(t.Context()); err != nil || got.Damaged != "" || got.Ports[0].Damaged != "" || got.Ports[1].Damaged != "" {
		t.Errorf("a port without room is seen as %+v, %v", got, err)
	}
	to("3")
	second.becomes(t, soon, []tag{best}, tag{tpidCSIG, 6<<7 | 6})
	to("2")
	s.becomes(t, soon, []tag{best}, stale)
	s.becomes(t, soon, []tag{{tpidVLAN, 77}, best}, tag{tpidVLAN, 77}, stale)

	s.Vsctl("clear", "bridge", "csig", "flow_tables")
	if res := update(t, s.driver, time.Minute, both(7, 6)...); res.Ports != 1 {
		t.Errorf("%+v", res)
	}
	s.becomes(t, soon, []tag{best}, at7s)
	s.becomes(t, soon, []tag{{tpidVLAN, 77}, best}, tag{tpidVLAN, 77}, at7s)
	s.driver.checked = time.Time{}
	if res := update(t, s.driver, time.Minute, both(7, 6)...); res.Repaired != nil || res.Ops != 0 {
		t.Errorf("%+v", res)
	}
}

// TestRecord has setups whose record just fits, and just does not.
func TestRecord(t *testing.T) {
	t.Parallel()
	s := ovstest.Start(t, ovstest.Options{Dummy: true})
	s.AddBridge("csig")
	d := (&sandwich{Switch: s}).open(t, "csig")
	setup := setupFor(quantize.Draft00)
	size := func() int { return len((&pipeline{setup: &setup}).record().Actions) }
	for i := 0; size() <= maxRecord; i++ {
		for range 1 + (maxRecord-min(maxRecord, size()))/200 { // names that have nothing in common
			setup.Ports = append(setup.Ports, vendors.PortSetup{Port: fmt.Sprintf("v%08x%d", uint32(len(setup.Ports))*2654435761, i%7), Action: vlanrules.Passthrough})
		}
	}
	for _, do := range []func() error{
		func() error { return d.Apply(t.Context(), setup) },
		func() error { _, err := Diff(vendors.Setup{}, setup); return err },
	} {
		var p *vendors.PermanentError
		if err := do(); !errors.As(err, &p) || !strings.Contains(err.Error(), "bytes, and a flow has room for") {
			t.Errorf("%d ports, %d bytes: %v", len(setup.Ports), size(), err)
		}
	}
	setup.Ports = setup.Ports[:len(setup.Ports)-1]
	if size() > maxRecord || size() < maxRecord-200 {
		t.Fatalf("%d bytes", size())
	}
	if err := d.Apply(t.Context(), setup); !strings.Contains(fmt.Sprint(err), "no such port") {
		t.Fatal(err)
	}
	got, err := (&sandwich{Switch: s}).open(t, "csig").Observe(t.Context())
	if err != nil || len(got.Ports) != len(setup.Ports) || got.Damaged != "" {
		t.Errorf("%d ports are read as %d: %s, %v", len(setup.Ports), len(got.Ports), got.Damaged, err)
	}
}

// TestBundleWithWhatIsNoFlow has a change that the switch cannot even read: the
// others of its bundle are not carried out either.
func TestBundleWithWhatIsNoFlow(t *testing.T) {
	t.Parallel()
	s := ovstest.Start(t, ovstest.Options{Dummy: true})
	s.AddBridge("csig")
	d := (&sandwich{Switch: s}).open(t, "csig")
	if _, err := d.Observe(t.Context()); err != nil {
		t.Fatal(err)
	}
	good, bad := ofp.Flow{Table: 9, Actions: out()}, ofp.Flow{Table: 10, Actions: ofp.Actions{0, 99, 0, 8, 0, 0, 0, 0}}
	err := d.of.Commit(t.Context(), []ofp.Mod{{Flow: &good, Name: "good"}, {Flow: &bad, Name: "bad"}})
	var refused *ofp.Error
	if !errors.As(err, &refused) || refused.Name != "bad" {
		t.Errorf("%v", err)
	}
	if flows := s.Ofctl("dump-flows", "csig"); strings.Contains(flows, "table=9") {
		t.Errorf("half a bundle:\n%s", flows)
	}
	if err := d.of.Commit(t.Context(), []ofp.Mod{{Flow: &good}}); err != nil {
		t.Errorf("the next bundle: %v", err)
	}
}
