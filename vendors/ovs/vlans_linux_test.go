package ovs

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// TestAccessPorts has ports that take part in VLANs where NORMAL switches: what
// Probe says of tagged frames is what becomes of them.
func TestAccessPorts(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	s.becomes(t, soon, []tag{best}, stale)
	s.AddBridge("plain")
	plain := &sandwich{Switch: s.Switch, in: s.AddWire("plain", "p1", 1), out: s.AddWire("plain", "p2", 2)}
	s.Ofctl("add-flow", "plain", "actions=NORMAL")
	// Frames of the sandwich go the other way: what discards is the far end of the patch.
	back := &sandwich{Switch: s.Switch, in: s.out, out: s.in}
	for _, tc := range []struct {
		name  string
		set   []string // of the ports, and the far end of the patch
		level vlanrules.Level
		says  string
		pass  bool // frames with CSIG's tag arrive
	}{
		{"tunnels", []string{"vlan_mode=dot1q-tunnel", "tag=1"}, vlanrules.Full, "", true},
		{"access ports", []string{"tag=1"}, vlanrules.Refused, "discard frames that come with CSIG's tags", false},
		{"access ports by mode", []string{"vlan_mode=access", "tag=1"}, vlanrules.Refused, "discard frames", false},
		{"tunnels of some VLANs", []string{"vlan_mode=dot1q-tunnel", "tag=1", "cvlans=0,7"}, vlanrules.Refused, "discard frames", false},
		{"trunks of some VLANs", []string{"vlan_mode=trunk", "trunks=0,7"}, vlanrules.Refused, "discard frames", false},
		{"trunks", nil, vlanrules.Degraded, "are trunks of all VLANs, and to NORMAL each value of a tag is a VLAN", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, port := range []string{"p1", "p2", "p-swp1"} {
				s.Vsctl("clear", "port", port, "vlan_mode", "tag", "trunks", "cvlans")
				if tc.set != nil {
					s.Vsctl(append([]string{"set", "port", port}, tc.set...)...)
				}
			}
			f, err := s.open(t, "plain").Probe(t.Context())
			if err != nil || f.Passthrough.Level != tc.level || !strings.Contains(f.Passthrough.Reason, tc.says) || f.Update.Level != vlanrules.Refused {
				t.Errorf("a bridge by itself: %+v, %v", f.Passthrough, err)
			}
			if tc.says != "" && !strings.HasPrefix(f.Passthrough.Reason, "p1, p2 ") {
				t.Errorf("who: %s", f.Passthrough.Reason)
			}
			f, err = s.open(t, "csig").Probe(t.Context())
			if lost := tc.level == vlanrules.Refused; err != nil || lost != (f.Update.Level == vlanrules.Refused) || lost != (f.Passthrough.Level == vlanrules.Refused) ||
				lost != strings.HasPrefix(f.Update.Reason, "at the far end of the patch ports p-swp1 discard") {
				t.Errorf("a bridge before it: %+v, %+v, %v", f.Update, f.Passthrough, err)
			}
			if !slices.Contains(tc.set, "tag=1") { // the other end is in that VLAN
				s.Vsctl("clear", "port", "h1", "vlan_mode", "tag")
			}
			if tc.pass {
				plain.becomes(t, soon, []tag{best}, best)
				back.becomes(t, soon, []tag{best}, best)
				return
			}
			plain.lost(t)
			back.lost(t)
		})
	}
	s.Vsctl("set", "port", "p-swp1", "tag=1")
	s.AddPatch("br0", "p-swp2", "csig", "i-swp2")
	s.Vsctl("set", "interface", "i-swp2", "external_ids:csig-port=swp2")
	f, err := s.open(t, "csig").Probe(t.Context())
	if err != nil || f.Update.Level != vlanrules.Degraded || f.Passthrough.Level != vlanrules.Degraded || !strings.Contains(f.Update.Reason, "patch ports p-swp1 discard") {
		t.Errorf("one of two: %+v, %+v, %v", f.Update, f.Passthrough, err)
	}
}

// lost sees to it that tagged frames do not arrive, though others do.
func (s *sandwich) lost(t testing.TB) {
	t.Helper()
	s.becomes(t, soon, nil)
	if got := s.passWithin(300*time.Millisecond, best); got != nil {
		t.Errorf("a tagged frame leaves as %x", got)
	}
	if got := s.pass(); got == nil {
		t.Error("a frame without a tag is lost")
	}
}

// TestOwnBridgeStandalone has a bridge of csig's own that was made without its fail
// mode, or that a user gave a flow: what is to be done is something else than
// putting another before it.
func TestOwnBridgeStandalone(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	for _, tc := range []struct {
		name, want string
		do         []string
	}{
		{"as it should be", losesR, nil},
		{"a user's flow below csig's", "has a flow that outputs to NORMAL (priority 9, cookie 0x0), which forwards nothing there: delete it", []string{"add-flow", "csig", "priority=9,actions=NORMAL"}},
		{"standalone", "ovs-vsctl set-fail-mode csig secure", nil},
		{"a user's flow before csig's", "it is csig's own, and is to forward by csig's flows: delete that one", []string{"add-flow", "csig", "priority=24576,actions=NORMAL"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.do != nil {
				s.Ofctl(tc.do...)
			}
			if tc.name == "standalone" {
				s.Vsctl("del-fail-mode", "csig")
				for !strings.Contains(s.Ofctl("dump-flows", "csig"), "NORMAL") {
					if t.Context().Err() != nil {
						t.Fatal("it has no such flow")
					}
				}
			}
			f, err := s.open(t, "csig").Probe(t.Context())
			lost := strings.Contains(tc.name, "before")
			if err != nil || !strings.Contains(f.Update.Reason, tc.want) || (f.Update.Level == vlanrules.Refused) != lost || tc.do == nil && tc.name != "standalone" && f.Update.Reason != tc.want {
				t.Errorf("%+v, %v", f.Update, err)
			}
			d := s.open(t, "csig")
			err = d.Apply(t.Context(), setupFor(quantize.Draft00, swp1))
			if lost {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("applied: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			update(t, d, time.Minute, at7)
			s.becomes(t, soon, []tag{best}, at7s)
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTagsOfCSIGsTPID has ports and flows that put tags of 0x88a8 on: it is said,
// at every look.
func TestTagsOfCSIGsTPID(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	s.AddPatch("br0", "p-swp2", "csig", "i-swp2")
	s.Vsctl("set", "interface", "i-swp2", "external_ids:csig-port=swp2")
	s.AddWire("csig", "swp2", 12)
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	update(t, s.driver, time.Minute, at7)
	const tunnels = "at the far end of the patch ports p-swp1 put a tag of 0x88a8 in front of what comes there (vlan_mode=dot1q-tunnel), with which it leaves by p-swp2 and is CSIG's tag"
	for _, tc := range []struct {
		name, want string
		set        []string // of p-swp2; p-swp1 is a tunnel of VLAN 1
	}{
		{"two tunnels", "", []string{"vlan_mode=dot1q-tunnel", "tag=1"}},
		{"a trunk", tunnels, nil},
		{"a trunk of it", tunnels, []string{"trunks=1,2"}},
		{"a trunk of others", "", []string{"trunks=2,3"}},
		{"its native VLAN, untagged", "", []string{"vlan_mode=native-untagged", "tag=1"}},
		{"its native VLAN, tagged", tunnels, []string{"vlan_mode=native-tagged", "tag=1", "trunks=7"}},
		{"another native VLAN", tunnels, []string{"vlan_mode=native-untagged", "tag=2"}},
		{"access", "", []string{"tag=1"}},
		{"802.1Q tags", "", []string{"--", "set", "port", "p-swp1", "other_config:qinq-ethtype=802.1q"}},
		{"a flow", "flows of bridge csig put tags of 0x88a8 on (one is in table 9 with priority 5 and cookie 0x0)", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s.Vsctl("clear", "port", "p-swp2", "vlan_mode", "tag", "trunks")
			if tc.set != nil {
				s.Vsctl(append([]string{"set", "port", "p-swp2", "other_config:a=b"}, tc.set...)...)
			}
			if tc.name == "a flow" {
				s.Ofctl("add-flow", "csig", "table=9,priority=5,actions=push_vlan:0x88a8")
			}
			f, err := s.open(t, "csig").Probe(t.Context())
			if said := strings.Contains(f.Update.Reason, "0x88a8"); err != nil || said != (tc.want != "") || !strings.Contains(f.Update.Reason, tc.want) || said != strings.Contains(f.Strip.Reason, "0x88a8") {
				t.Errorf("%s, %v", f.Update.Reason, err)
			}
			s.driver.checked, s.driver.othersReadAt = time.Time{}, time.Time{}
			if res := update(t, s.driver, time.Minute, at7); res.Facts != nil && res.Facts.Update.Reason != f.Update.Reason {
				t.Errorf("an update says %s", res.Facts.Update.Reason)
			}
			if (s.driver.said.tags != "") != (tc.want != "") {
				t.Errorf("the agent knows of %q", s.driver.said.tags)
			}
		})
	}
}
