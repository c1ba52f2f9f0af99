package ovs

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// TestPortLeaves takes a port off the bridge under an agent, and brings it back
// with another number: no foreign change is reported.
func TestPortLeaves(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	s.AddWire("csig", "swp2", 2)
	both := []vendors.PortUpdate{at7, {Port: "swp2", Intents: []vlanrules.Intent{bucket(quantize.MinABW, 9, 6)}}}
	s.driver = s.open(t, "csig")
	apply(t, s.driver, setupFor(quantize.Draft00, swp1, vendors.PortSetup{Port: "swp2", Action: vlanrules.Update}))
	update(t, s.driver, time.Minute, both...)
	flows := func(reg string) int {
		return strings.Count(s.Ofctl("dump-flows", "csig"), reg)
	}
	was := flows("reg15=0x2")
	for _, tc := range []struct {
		name, port string // without it
		do         []string
		left, came string // registers of flows
	}{
		{"gone", "swp2", []string{"del-port", "csig", "swp2"}, "reg15=0x2", ""},
		{"back with another number", "", nil, "reg15=0x2", "reg15=0x7"},
		{"without its patch", "", []string{"remove", "interface", "i-swp1", "external_ids", "csig-port"}, "resubmit(,60)", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.do == nil {
				s.Vsctl("add-port", "csig", "swp2", "--", "set", "interface", "swp2", "type=dummy", "ofport_request=7")
			} else {
				s.Vsctl(tc.do...)
			}
			s.driver.checked = time.Time{} // it is time to look
			res, err := s.driver.Update(t.Context(), both, time.Minute)
			var p *vendors.PortError
			if !res.Leased || res.Repaired != nil || errors.As(err, &p) != (tc.port != "") || p != nil && p.Port != tc.port {
				t.Errorf("%+v, %v", res, err)
			}
			if n := flows(tc.left); n != 0 {
				t.Errorf("%d flows have %s:\n%s", n, tc.left, s.Ofctl("dump-flows", "csig"))
			}
			if tc.came != "" && flows(tc.came) != was {
				t.Errorf("not %d flows have %s:\n%s", was, tc.came, s.Ofctl("dump-flows", "csig"))
			}
			s.driver.checked = time.Time{}
			if res, _ := s.driver.Update(t.Context(), both, time.Minute); res.Repaired != nil || !res.Leased {
				t.Errorf("and again: %+v", res)
			}
		})
	}
}
