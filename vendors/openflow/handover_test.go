package openflow

import (
	"strings"
	"testing"

	"github.com/csig-agent/csig/protocol/ofp"
)

// TestTakesVLANs: a flow that hands over frames whatever their tag is named, where the operator
// declares that no ordinary VLAN is handed over.
func TestTakesVLANs(t *testing.T) {
	hands := ofp.Flow{Goes: true, Goto: DefaultTable, Metadata: ofp.Masked64{Value: 2, Mask: portMask}}
	untagged := hands
	untagged.Match.VIDMask = ofp.VLANPresent | 0xfff
	port := hands
	port.Match.InPort, port.Table, port.Priority = 3, 1, 77
	for _, tc := range []struct {
		name     string
		flow     ofp.Flow
		declared OrdinaryVLANs
		want     string
	}{
		{"any tag", hands, NotHandedOver, "1 flow hands frames over whatever VLAN tag"},
		{"of one port", port, NotHandedOver, "table 1 with priority 77"},
		{"no tag", untagged, NotHandedOver, ""},
		{"not parsed", hands, NotParsed, ""},
	} {
		s := &state{base: DefaultTable, others: []ofp.Flow{tc.flow}}
		if p := s.pathOf(0x88a8); p.vlan != nil {
			t.Errorf("%s: it seems to hand over ordinary VLANs: %s", tc.name, p.why)
		}
		if got := s.pathOf(0x88a8).takesVLANs(tc.declared); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// TestReasons: what is wrong of several flows is all in the verdict.
func TestReasons(t *testing.T) {
	s := &state{base: DefaultTable, others: []ofp.Flow{
		{Goes: true, Goto: DefaultTable},
		{Goes: true, Goto: DefaultTable + 1},
		{Actions: output(3)},
	}}
	got := s.pathOf(0x88a8).verdict(DefaultTable, NotHandedOver).Reason
	for _, want := range []string{"those are lost", "behind table 10", "bypasses table 10"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
}
