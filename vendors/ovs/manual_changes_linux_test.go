package ovs

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
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
		{"a hook is deleted", "port swp1", []string{"del-flows", "csig", "table=0,cookie=0x6373696700000001/-1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.do != nil {
				s.Ofctl(append(tc.do[:1:1], tc.do[1:]...)...)
			}
			s.driver.checked = time.Time{} // it is time to look
			res := update(t, s.driver, time.Minute, at7)
			if (tc.want == "") != (res.Repaired == nil) || !strings.Contains(res.Repaired.String(), tc.want) {
				t.Errorf("repaired %q, want %q", res.Repaired, tc.want)
			}
			s.becomes(t, soon, []tag{best}, at7s)
			if got := s.pass(); !bytes.Equal(got, frame(1)) {
				t.Errorf("a frame without a tag leaves as %x", got)
			}
			s.driver.checked = time.Time{}
			if res := update(t, s.driver, time.Minute, at7); res.Repaired != nil {
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

// TestForeignFlows has flows appear in csig's tables that are not csig's: none is removed
// or overwritten, ports whose frames one may take fall back and say so, and others have
// their values.
func TestForeignFlows(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	setup := setupFor(quantize.Draft00, swp1)
	apply(t, s.driver, setup)
	update(t, s.driver, time.Minute, at7)
	s.becomes(t, soon, []tag{best}, at7s)
	dump := func() string { return s.Ofctl("--no-stats", "dump-flows", "csig", "cookie=0xbeef/-1") }
	for _, tc := range []struct {
		name, flow string
		refused    bool // and the port falls back
	}{
		{"of a port that is not there", "table=62,priority=60000,reg15=77,actions=drop", false},
		{"of frames without a tag", "table=60,priority=100,reg15=1,vlan_tci=0/0x1000,dl_dst=02:00:00:00:0c:0c,actions=drop", false},
		{"of other frames, above the live flows", "table=62,priority=60000,dl_src=02:00:00:00:0c:0c,actions=drop", true},
		{"with many fields", "table=62,priority=0,ct_state=-trk,tcp6,vlan_tci=0x1005/0x1fff,ipv6_src=2001:db8::/32,tp_dst=0x50/0xfff0,metadata=0x7/0xf,reg14=1,tun_id=3,actions=drop", true},
		{"to the live flows, before all of csig's", "table=60,priority=500,actions=resubmit(,62)", true},
		{"to the live flows, in the place of one of csig's", "table=60,priority=200,reg15=1,vlan_tci=0x1000/0x1000,actions=resubmit(,62)", true},
		{"to the live flows without a lease", "table=61,priority=250,actions=resubmit(,62)", true},
	} {
		s.Ofctl("add-flow", "csig", "cookie=0xbeef,"+tc.flow)
		theirs, want := dump(), at7s
		if tc.refused {
			want = stale
		}
		for range 2 {
			s.driver.checked, s.driver.othersReadAt = time.Time{}, time.Time{} // it is time to look
			res, err := s.driver.Update(t.Context(), []vendors.PortUpdate{at7}, time.Minute)
			var port *vendors.PortError
			if !res.Leased || res.Repaired != nil || tc.refused != (errors.As(err, &port) && port.Port == "swp1" && strings.Contains(err.Error(), "cookie 0xbeef")) {
				t.Errorf("%s: %+v, %v", tc.name, res, err)
			}
			s.becomes(t, soon, []tag{best}, want)
		}
		if found, err := s.driver.Observe(t.Context()); err != nil || found.Damaged != "" || tc.refused != (found.Ports[0].Damaged != "") {
			t.Errorf("%s: Observe: %+v, %v", tc.name, found, err)
		}
		if err := s.driver.Apply(t.Context(), setup); tc.refused != (err != nil) {
			t.Errorf("%s: Apply: %v", tc.name, err)
		}
		if f, err := s.driver.Probe(t.Context()); err != nil || !slices.ContainsFunc(f.Notes, func(n string) bool { return strings.Contains(n, "cookie 0xbeef") }) {
			t.Errorf("%s: it is not noted: %q, %v", tc.name, f.Notes, err)
		}
		if now := dump(); now != theirs || !strings.Contains(now, "0xbeef") {
			t.Errorf("%s: the foreign flow is\n%s\nand was\n%s", tc.name, now, theirs)
		}
		s.Ofctl("del-flows", "csig", "cookie=0xbeef/-1")
		s.driver.checked = time.Time{}
		update(t, s.driver, time.Minute, at7)
		s.becomes(t, soon, []tag{best}, at7s)
	}

	// All ports need the lease.
	s.Ofctl("add-flow", "csig", "cookie=0xbeef,table=61,priority=100,actions=resubmit(,62)")
	theirs := dump()
	s.driver.checked = time.Time{}
	var foreign *vendors.ForeignError
	if res, err := s.driver.Update(t.Context(), []vendors.PortUpdate{at7}, time.Minute); !errors.As(err, &foreign) || res.Leased {
		t.Errorf("in the place of the lease: %+v, %v", res, err)
	}
	s.becomes(t, soon, []tag{best}, stale)
	for i, end := range []func(context.Context) error{s.driver.Release, s.driver.Remove} {
		if err := end(t.Context()); err != nil {
			t.Error(err)
		}
		if now := dump(); now != theirs {
			t.Errorf("%s: foreign flows are\n%s\nand were\n%s", []string{"Release", "Remove"}[i], now, theirs)
		}
	}
}

// TestForeignBetweenReads has live flows replaced by foreign ones right before an update
// deletes them, which has not read the bridge since.
func TestForeignBetweenReads(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	update(t, s.driver, time.Minute, at7)
	p := s.driver.byName["swp1"]
	was := slices.Clone(p.have)
	for i := range was {
		was[i].Cookie = 0xbeef
		if err := s.driver.of.Commit(t.Context(), []ofp.Mod{{Kind: ofp.Add, Flow: &was[i]}}); err != nil {
			t.Fatal(err)
		}
	}
	s.driver.checked = time.Now().Add(time.Hour)
	update(t, s.driver, time.Minute, vendors.PortUpdate{Port: "swp1", Intents: []vlanrules.Intent{bucket(quantize.MinABW, 1, 5)}})
	kept, err := s.driver.of.Flows(t.Context(), ofp.Filter{Table: 62, Cookie: 0xbeef, CookieMask: math.MaxUint64})
	if err != nil {
		t.Fatal(err)
	}
	gone := 0
	for i := range was {
		if find(p.have, &was[i]) == nil {
			gone++
			if find(kept, &was[i]) == nil {
				t.Errorf("a foreign flow was deleted: %+v", was[i])
			}
		}
	}
	if gone == 0 {
		t.Error("the update deletes none of its flows")
	}
}
