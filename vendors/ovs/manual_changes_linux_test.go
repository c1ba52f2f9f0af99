package ovs

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors/openflow/ofp"
)

// TestManualChanges has people and programs change what is csig's, and what is not.
func TestManualChanges(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	s.Ofctl("add-flow", "csig", "cookie=0x1,table=9,priority=5,actions=drop")
	s.Ofctl("add-flow", "csig", "cookie=0x1,table=0,priority=5,in_port=77,actions=drop")
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	update(t, s.driver, time.Minute, at7)
	s.becomes(t, soon, []tag{best}, at7s)
	for _, tc := range []struct {
		name, want string
		do         []string
	}{
		{"nothing", "", nil},
		{"every flow of csig's tables is deleted", "missing or changed", []string{"del-flows", "csig", "cookie=0x6373696700000001/-1"}},
		{"the lease is deleted", "the lease was gone", []string{"--strict", "del-flows", "csig", "table=61,priority=100"}},
		{"a live flow is deleted", "port swp1: flows of table 62", []string{"del-flows", "csig", "table=62,reg15=1"}},
		{"a live flow has other actions", "port swp1: flows of table 62", []string{"mod-flows", "csig", "table=62,reg15=1,actions=drop"}},
		{"a constant flow has other actions", "table 64", []string{"mod-flows", "csig", "table=64,actions=drop"}},
		{"a foreign flow in csig's tables", "was not csig's", []string{"add-flow", "csig", "table=62,priority=60000,actions=drop"}},
		{"a foreign flow with a match of its own", "a flow of table 60 was not csig's", []string{"add-flow", "csig", "table=60,priority=0,dl_dst=02:00:00:00:0c:0c,actions=drop"}},
		{"one with many fields", "a flow of table 62 was not csig's", []string{"add-flow", "csig", "table=62,priority=0,ct_state=-trk,tcp6,vlan_tci=0x1005/0x1fff,ipv6_src=2001:db8::/32,tp_dst=0x50/0xfff0,metadata=0x7/0xf,reg14=1,tun_id=3,actions=drop"}},
		{"one in place of the lease's miss, without a tag", "a flow of table 61 was not csig's", []string{"add-flow", "csig", "table=61,priority=0,vlan_tci=0x0000/0x1fff,actions=drop"}},
		{"one in place of csig's", "missing or changed", []string{"add-flow", "csig", "cookie=7,table=60,priority=200,reg15=1,vlan_tci=0x1000/0x1000,actions=drop"}},
		{"a hook is deleted", "port swp1", []string{"del-flows", "csig", "table=0,cookie=0x6373696700000001/-1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.do != nil {
				s.Ofctl(append(tc.do[:1:1], tc.do[1:]...)...)
			}
			s.driver.checked = time.Time{} // it is time to look
			res := update(t, s.driver, time.Minute, at7)
			if (tc.want == "") != (res.Repaired == "") || !strings.Contains(res.Repaired, tc.want) {
				t.Errorf("repaired %q, want %q", res.Repaired, tc.want)
			}
			s.becomes(t, soon, []tag{best}, at7s)
			if got := s.pass(); !bytes.Equal(got, frame(1)) {
				t.Errorf("a frame without a tag leaves as %x", got)
			}
			s.driver.checked = time.Time{}
			if res := update(t, s.driver, time.Minute, at7); res.Repaired != "" {
				t.Errorf("and again: %q\n%s", res.Repaired, s.Ofctl("dump-flows", "csig"))
			}
		})
	}
	if flows := s.Ofctl("dump-flows", "csig"); strings.Count(flows, "cookie=0x1,") != 2 {
		t.Errorf("foreign flows are gone:\n%s", flows)
	}
	if err := s.driver.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.becomes(t, soon, []tag{best}, best)
	flows := s.Ofctl("--no-stats", "dump-flows", "csig")
	if strings.Count(flows, "cookie=0x1,") != 2 || strings.Count(flows, "cookie=0x6373696700000001") != 3 {
		t.Errorf("removed, it has\n%s", flows)
	}
	if got, err := s.driver.Observe(t.Context()); err != nil || got.TPID != 0 || len(got.Ports) != 0 {
		t.Errorf("removed, it is %+v, %v", got, err)
	}
}

// TestFlowThatStays has a foreign flow whose deletion the bridge refuses: what is
// csig's is put right all the same, and it is said.
func TestFlowThatStays(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	update(t, s.driver, time.Minute, at7)
	s.Ofctl("--strict", "del-flows", "csig", "table=60,priority=0")
	state, err := s.driver.read(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	// A TCP port of frames that are no TCP (OFPBMC_BAD_PREREQ).
	state.foreign = append(state.foreign, ofp.Flow{Table: 60, Match: ofp.Match{Else: "\x80\x00\x1c\x02\x00\x50"}})
	changes, err := s.driver.sync(t.Context(), state, true)
	if err != nil || len(changes) != 1 || !strings.Contains(changes[0].Detail, "is not csig's, and stays") {
		t.Errorf("%+v, %v", changes, err)
	}
	update(t, s.driver, time.Minute, at7)
	s.becomes(t, soon, []tag{best}, at7s)
	if got := s.pass(); !bytes.Equal(got, frame(1)) {
		t.Errorf("a frame without a tag leaves as %x", got)
	}
}
