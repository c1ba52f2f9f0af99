package ovs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
	"github.com/csig-agent/csig/vlanrules"
)

func TestStrip(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	apply(t, s.driver, setupFor(quantize.Draft00, vendors.PortSetup{Port: "swp1", Action: vlanrules.Strip}))
	s.becomes(t, soon, []tag{best})
	for _, tc := range []struct{ sent, want []tag }{
		{[]tag{{tpidCSIG, 3<<13 | 5}}, nil},
		{[]tag{{tpidVLAN, 31<<7 | 126}}, []tag{{tpidVLAN, 31<<7 | 126}}},
		{[]tag{{tpidVLAN, 77}, best}, []tag{{tpidVLAN, 77}}},
		{[]tag{{tpidVLAN, 77}, {tpidVLAN, 78}}, []tag{{tpidVLAN, 77}, {tpidVLAN, 78}}},
		{nil, nil},
	} {
		if got := s.pass(tc.sent...); !bytes.Equal(got, frame(1, tc.want...)) {
			t.Errorf("%x leaves as %x", frame(1, tc.sent...), got)
		}
	}
	wide := setupFor(quantize.Draft00, vendors.PortSetup{Port: "swp1", Action: vlanrules.Strip})
	wide.WideTPID = 0x9901
	var p *vendors.PermanentError
	if err := s.driver.Apply(t.Context(), wide); !errors.As(err, &p) || p.Port != "swp1" {
		t.Errorf("strip of wide tags: %v", err)
	}
}

// TestHook has a controller's flows hand frames over: for one port, and by a
// group for two.
func TestHook(t *testing.T) {
	t.Parallel()
	s := &sandwich{Switch: ovstest.Start(t, ovstest.Options{Dummy: true})}
	s.AddBridge("csig")
	s.in, s.out = s.AddWire("csig", "h1", 1), s.AddWire("csig", "swp1", 2)
	second := s.AddWire("csig", "swp2", 3)
	s.driver = s.open(t, "csig")
	apply(t, s.driver, setupFor(quantize.Draft00, swp1, vendors.PortSetup{Port: "swp2", Action: vlanrules.Update}))
	update(t, s.driver, time.Minute, at7, vendors.PortUpdate{Port: "swp2", Intents: []vlanrules.Intent{bucket(quantize.MinABW, 9, 6)}})
	s.Ofctl("add-flow", "csig", "in_port=1,actions=load:2->NXM_NX_REG15[],resubmit(,60)")
	s.becomes(t, soon, []tag{best}, at7s)
	s.Ofctl("add-group", "csig", "group_id=1,type=all,bucket=load:2->NXM_NX_REG15[],resubmit(,60),bucket=load:3->NXM_NX_REG15[],resubmit(,60)")
	s.Ofctl("add-flow", "csig", "in_port=1,actions=group:1")
	s.both(t, second)
}

// both sends frames to two ports, of which each writes what is its own.
func (s *sandwich) both(t *testing.T, second *ovstest.Wire) {
	t.Helper()
	s.settle()
	for _, behind := range []bool{false, true} {
		front := []tag{}
		if behind {
			front = append(front, tag{tpidVLAN, 77})
		}
		s.becomes(t, soon, slices.Concat(front, []tag{best}), slices.Concat(front, []tag{at7s})...)
		want := frame(1, slices.Concat(front, []tag{{tpidCSIG, 9<<7 | 6}})...)
		for {
			b := second.Receive(soon)
			if b != nil && bytes.Equal(numbered(1, b), want) {
				break
			}
			if b == nil {
				t.Fatalf("swp2 does not send its own value, behind a VLAN %t\n%s", behind, s.Appctl("dpctl/dump-flows"))
			}
		}
	}
}

// TestFlood has NORMAL send a frame out of two ports.
func TestFlood(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	s.AddPatch("br0", "p-swp2", "csig", "i-swp2")
	s.Vsctl("set", "interface", "i-swp2", "external_ids:csig-port=swp2", "--", "set", "port", "p-swp2", "vlan_mode=dot1q-tunnel", "tag=1")
	second := s.AddWire("csig", "swp2", 7)
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	update(t, s.driver, time.Minute, at7)
	// It is in no setup, and joined all the same.
	third := &sandwich{Switch: s.Switch, in: s.in, out: second}
	third.becomes(t, soon, []tag{best}, best)
	apply(t, s.driver, setupFor(quantize.Draft00, swp1, vendors.PortSetup{Port: "swp2", Action: vlanrules.Update}))
	res := update(t, s.driver, time.Minute, at7, vendors.PortUpdate{Port: "swp2", Intents: []vlanrules.Intent{bucket(quantize.MinABW, 9, 6)}})
	live := s.Ofctl("--no-stats", "dump-flows", "csig", fmt.Sprintf("table=%d", s.driver.pipe.base+tableLive))
	if flows := strings.Count(live, ",reg15="); res.Entries != flows || flows == 0 {
		t.Errorf("the driver counts %d entries, the bridge has %d\n%s", res.Entries, flows, live)
	}
	s.both(t, second)

	// Its number is another's: what joined the old one goes, and no foreign change is reported.
	s.Vsctl("set", "interface", "swp2", "ofport_request=9")
	s.driver.checked = time.Time{}
	if res := update(t, s.driver, time.Minute, at7); res.Repaired != nil || strings.Contains(s.Ofctl("dump-flows", "csig"), "in_port=7") {
		t.Errorf("repaired %q\n%s", res.Repaired, s.Ofctl("dump-flows", "csig", "table=0"))
	}
	s.both(t, second)
}

// TestCommands carries out what plan --commands prints: the bridge is as Apply
// leaves it.
func TestCommands(t *testing.T) {
	t.Parallel()
	s := &sandwich{Switch: ovstest.Start(t, ovstest.Options{Dummy: true})}
	s.AddBridge("csig")
	s.AddWire("csig", "swp1", 2)
	s.AddWire("csig", "swp2", 3)
	for _, tc := range []struct {
		policy inventory.OnStale
		table  uint8
	}{{inventory.Conservative, 0}, {inventory.StaleStrip, 0}, {inventory.Conservative, 100}} {
		policy := tc.policy
		want := setupFor(quantize.UEC, swp1, vendors.PortSetup{Port: "swp2", Action: vlanrules.Strip})
		want.OnStale, want.Profile = policy, strings.Repeat("cd", 32)
		cfg := Config{Bridge: "csig", RunDir: s.Dir, Table: tc.table}
		text, err := Commands(cfg, vendors.Setup{}, want)
		if err != nil {
			t.Fatal(err)
		}
		if tc.table != 0 {
			s.Ofctl("del-flows", "csig")
		}
		script := exec.Command("sh", "-c", string(text))
		script.Env = append(os.Environ(), "OVS_RUNDIR="+s.Dir)
		if out, err := script.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		d := s.next(t)
		if tc.table != 0 {
			if d = s.openAt(t, tc.table); strings.Contains(s.Ofctl("dump-flows", "csig"), "table=6") {
				t.Errorf("it writes into tables that are not csig's:\n%s", text)
			}
		}
		got, err := d.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if changes, err := Diff(got, want); err != nil || len(changes) != 0 {
			t.Errorf("%s: %+v, %v\n%s", policy, changes, err, text)
		}
		apply(t, d, want)
		if changes := len(d.mods); changes > max(1, len(d.pipe.stale)) { // the fallback of the live table
			for _, m := range d.mods {
				t.Log(m.Kind, flowText(m.Flow))
			}
			t.Errorf("%s: Apply has %d changes more", policy, changes)
		}
	}
	if text, err := Commands(Config{Bridge: "csig"}, setupFor(quantize.UEC, swp1), setupFor(quantize.UEC, swp1)); err != nil || text != nil {
		t.Errorf("nothing to do: %s, %v", text, err)
	}
	if _, err := Commands(Config{}, vendors.Setup{}, setupFor(quantize.UEC, swp1)); err == nil {
		t.Error("of no bridge")
	}
}
