package ovs

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestFullFromTheStart: where there is no room for all ports before anything is
// there, they are opened in the order of congestion, as far as they go.
func TestFullFromTheStart(t *testing.T) {
	t.Parallel()
	s := &sandwich{Switch: ovstest.Start(t, ovstest.Options{Dummy: true})}
	s.AddBridge("csig")
	s.in, s.out = s.AddWire("csig", "h1", 1), s.AddWire("csig", "swp1", 2)
	second := &sandwich{Switch: s.Switch, in: s.in, out: s.AddWire("csig", "swp2", 3)}
	s.Vsctl("--", "--id=@t", "create", "Flow_Table", "flow_limit=8", "--", "set", "bridge", "csig", "flow_tables:62=@t")
	want := setupFor(quantize.Draft00, swp1, vendors.PortSetup{Port: "swp2", Action: vlanrules.Update})
	both := []vendors.PortUpdate{{Port: "swp1", Intents: []vlanrules.Intent{bucket(quantize.MinABW, 9, 5)}},
		{Port: "swp2", Intents: []vlanrules.Intent{bucket(quantize.MinABW, 6, 6)}}}
	s.driver = s.open(t, "csig")
	err := s.driver.Apply(t.Context(), want)
	for _, port := range []string{"swp1", "swp2"} {
		if err == nil || !strings.Contains(err.Error(), "port "+port+": bridge csig has no room for the flows of all ports") {
			t.Errorf("Apply: %v", err)
		}
	}
	to := func(port string) {
		s.Ofctl("add-flow", "csig", "in_port=1,actions=load:"+port+"->NXM_NX_REG15[],resubmit(,60)")
	}
	to("2")
	s.becomes(t, soon, []tag{best}, stale)
	for _, who := range []string{"who applied", "who takes over"} {
		if who == "who takes over" {
			// The first one's port stays open: nothing is taken away from it.
			s.next(t)
		}
		res, err := s.driver.Update(t.Context(), both, time.Minute)
		var p *vendors.PortError
		if !res.Leased || !errors.As(err, &p) || p.Port != "swp1" || strings.Contains(err.Error(), "port swp2") {
			t.Fatalf("%s: %+v, %v", who, res, err)
		}
		to("3")
		second.becomes(t, soon, []tag{best}, tag{tpidCSIG, 6<<7 | 6})
		to("2")
		s.becomes(t, soon, []tag{best}, stale)
	}
	s.Vsctl("clear", "bridge", "csig", "flow_tables")
	update(t, s.driver, time.Minute, both...)
	s.becomes(t, soon, []tag{best}, tag{tpidCSIG, 9<<7 | 5})
	s.becomes(t, soon, []tag{{tpidVLAN, 77}, best}, tag{tpidVLAN, 77}, tag{tpidCSIG, 9<<7 | 5})
}
