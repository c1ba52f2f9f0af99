package ovs

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// TestChangedInPlace has flows of csig's with their match and cookie as they were,
// and other actions or instructions.
func TestChangedInPlace(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	update(t, s.driver, time.Minute, at7)
	for _, tc := range []struct{ name, flow, want string }{
		{"the lease, other actions", "table=61,priority=100,actions=drop", "table 61"},
		{"the lease, and on to another table", "table=61,priority=100,actions=resubmit(,62),goto_table:70", "table 61"},
		{"and on to another table", "table=62,priority=0,actions=resubmit(,64),goto_table:70", "table 62"},
		{"with metadata", "table=62,priority=0,actions=resubmit(,64),write_metadata:7", "table 62"},
		{"with actions for later", "table=60,priority=0,actions=output:NXM_NX_REG15[],write_actions(output:1)", "table 60"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s.Ofctl("--strict", "mod-flows", "csig", tc.flow)
			got, err := s.driver.Observe(t.Context())
			if lease := strings.Contains(tc.flow, "table=61"); err != nil || lease != (got.Damaged == "") {
				t.Errorf("observed %+v, %v", got, err)
			}
			s.driver.checked = time.Time{} // it is time to look
			if res := update(t, s.driver, time.Minute, at7); !strings.Contains(res.Repaired.String(), tc.want) {
				t.Errorf("repaired %q", res.Repaired)
			}
			s.driver.checked = time.Time{}
			if res := update(t, s.driver, time.Minute, at7); res.Repaired != nil {
				t.Errorf("and again: %q", res.Repaired)
			}
			s.becomes(t, soon, []tag{best}, at7s)
		})
	}
}

// TestGroup has csig's group deleted and changed by another process, beside a group
// of a user's, which stays.
func TestGroup(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	s.Ofctl("add-group", "csig", "group_id=7,type=all,bucket=output:11")
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	update(t, s.driver, time.Minute, at7)
	for _, tc := range []struct{ name, do, observed, repaired string }{
		{"deleted", "del-groups", "a flow of table 60 is gone", "table 60"},
		{"changed", "mod-group", "group 1668508007 has other buckets", "group 1668508007 has other buckets"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s.Ofctl(tc.do, "csig", "group_id=1668508007"+map[string]string{"mod-group": ",type=all,bucket=drop"}[tc.do])
			got, err := s.driver.Observe(t.Context())
			if err != nil || got.Damaged != tc.observed && got.Ports[0].Damaged != tc.observed {
				t.Errorf("observed %+v, %v", got, err)
			}
			s.driver.checked, s.driver.othersReadAt = time.Time{}, time.Time{} // it is time to look
			if res := update(t, s.driver, time.Minute, at7); !strings.Contains(res.Repaired.String(), tc.repaired) {
				t.Errorf("repaired %q", res.Repaired)
			}
			if got, err = s.driver.Observe(t.Context()); err != nil || got.Damaged != "" || got.Ports[0].Damaged != "" {
				t.Errorf("observed %+v, %v", got, err)
			}
			s.becomes(t, soon, []tag{best}, at7s)
		})
	}
	if err := s.driver.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if groups := s.Ofctl("dump-groups", "csig"); strings.Contains(groups, "group_id=1668508007") || !strings.Contains(groups, "group_id=7,") {
		t.Errorf("groups that stay:\n%s", groups)
	}
}

// TestTagsThatAreNotTheLast has frames whose tag of CSIG's TPID has another behind
// it, or an MPLS header: they leave as they came.
func TestTagsThatAreNotTheLast(t *testing.T) {
	t.Parallel()
	s := newHanded(t)
	s.Ofctl("add-flow", "csig", "in_port=1,actions=load:2->NXM_NX_REG15[],resubmit(,60)")
	vlan := tag{tpidVLAN, 3<<13 | 100}
	label := []tag{{0x0001, 0x01ff}} // of MPLS: label 16, bottom of the stack, TTL 255
	mpls := func(ethType uint16, tags ...tag) []byte {
		b := frame(1, append(tags, label...)...)
		at := 12 + 4*len(tags)
		return append(append(b[:at:at], byte(ethType>>8), byte(ethType)), b[at:]...)
	}
	for _, tc := range []struct {
		name string
		sent []byte
	}{
		{"CSIG, CSIG behind a VLAN", frame(1, vlan, best, best)},
		{"CSIG, VLAN behind a VLAN", frame(1, vlan, best, tag{tpidVLAN, best.tci})},
		{"VLAN, CSIG behind a VLAN", frame(1, vlan, vlan, best)},
		{"VLAN behind CSIG", frame(1, best, vlan)},
		{"MPLS behind CSIG", mpls(etherMPLS, best)},
		{"MPLS behind CSIG, multicast", mpls(etherMPLSMulti, best)},
		{"MPLS behind a VLAN", mpls(etherMPLS, vlan)},
		{"MPLS", mpls(etherMPLS)},
	} {
		for _, action := range []vlanrules.Action{vlanrules.Update, vlanrules.Strip} {
			port := swp1
			port.Action = action
			apply(t, s.driver, setupFor(quantize.Draft00, port))
			if action == vlanrules.Update {
				update(t, s.driver, time.Minute, at7)
			}
			s.settle()
			s.in.Send(tc.sent)
			if got := s.out.Receive(soon); !bytes.Equal(got, tc.sent) {
				t.Errorf("%s, %s:\ngot  %x\nwant %x", tc.name, action, got, tc.sent)
			}
		}
	}
}

// TestRegistersOfOthers hands frames over with foreign values in csig's registers.
func TestRegistersOfOthers(t *testing.T) {
	t.Parallel()
	s := newHanded(t)
	s.Ofctl("add-flow", "csig", "in_port=1,actions=load:0x1beef->NXM_NX_REG13[],load:0x7beef->NXM_NX_REG14[],load:2->NXM_NX_REG15[],resubmit(,60)")
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	update(t, s.driver, time.Minute, at7)
	vlan := tag{tpidVLAN, 3<<13 | 100}
	for _, tc := range []struct{ sent, want []tag }{
		{[]tag{best}, []tag{at7s}},
		{[]tag{{tpidCSIG, 3<<7 | 9}}, []tag{{tpidCSIG, 3<<7 | 9}}},
		{[]tag{vlan}, []tag{vlan}},
		{[]tag{vlan, best}, []tag{vlan, at7s}},
		{nil, nil},
	} {
		s.becomes(t, soon, tc.sent, tc.want...)
	}
}
