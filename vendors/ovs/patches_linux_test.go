package ovs

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestNamesTooLong joins ports by the patch ports of the recipe in docs/ovs.md, whose
// names are two bytes longer: of those of the longest ports OpenFlow tells the
// same 15 bytes.
func TestNamesTooLong(t *testing.T) {
	t.Parallel()
	s := &sandwich{Switch: ovstest.Start(t, ovstest.Options{Dummy: true})}
	s.AddBridge("br0")
	s.AddBridge("csig")
	names := []string{"enp175s0f0np1", "enp175s0f0np11", "enp175s0f0np12", "enp175s0f0np121"}
	in := s.AddWire("br0", "h1", 1)
	outs := map[string]*ovstest.Wire{}
	var ports []vendors.PortSetup
	var updates []vendors.PortUpdate
	for i, name := range names {
		s.AddPatch("br0", "n-"+name, "csig", "c-"+name)
		s.Vsctl("set", "interface", "c-"+name, "external_ids:csig-port="+name, "--", "set", "interface", "n-"+name, fmt.Sprintf("ofport_request=%d", 10+i))
		outs[name] = s.AddWire("csig", name, 20+i)
		ports = append(ports, vendors.PortSetup{Port: name, Action: vlanrules.Update})
		updates = append(updates, vendors.PortUpdate{Port: name, Intents: []vlanrules.Intent{bucket(quantize.MinABW, uint8(i), 5)}})
	}
	d := s.open(t, "csig")
	apply(t, d, setupFor(quantize.Draft00, ports...))
	update(t, d, time.Minute, updates...)
	for i, name := range names {
		s.Ofctl("add-flow", "br0", fmt.Sprintf("in_port=1,actions=output:%d", 10+i))
		one := &sandwich{Switch: s.Switch, in: in, out: outs[name]}
		one.becomes(t, soon, []tag{best}, tag{tpidCSIG, uint16(i)<<7 | 5})
		if got := one.pass(); !bytes.Equal(got, frame(1)) {
			t.Errorf("%s: a frame without a tag leaves as %x", name, got)
		}
	}
	if f, err := d.Probe(t.Context()); err != nil || f.Update.Reason != losesR {
		t.Errorf("%+v, %v", f.Update, err)
	}
}

// TestPatchesThatMislead has patch ports that name a port they do not lead to:
// what is joined stays so, and it is said.
func TestPatchesThatMislead(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	s.AddPatch("br0", "p-other", "csig", "a-other") // before i-swp1 in the alphabet
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	update(t, s.driver, time.Minute, at7)
	s.becomes(t, soon, []tag{best}, at7s)
	for _, tc := range []struct {
		name  string
		do    []string
		port  string // of Update's error
		wants string // that Probe says
	}{
		{"the near end", []string{"set", "interface", "p-swp1", "external_ids:csig-port=swp1"}, "", ""},
		{"another patch of the bridge", []string{"set", "interface", "a-other", "external_ids:csig-port=swp1"}, "swp1", "of the patch ports a-other and i-swp1 is swp1"},
		{"no port", []string{"set", "interface", "a-other", "external_ids:csig-port=swp7"}, "", "of the patch port a-other is swp7, and bridge csig has no such port"},
		{"a long name", []string{"set", "interface", "a-other", "external_ids:csig-port=vhost-user-000007"}, "", "no more than 15 bytes of a name"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s.Vsctl(tc.do...)
			s.driver.checked = time.Time{} // it is time to look
			res, err := s.driver.Update(t.Context(), []vendors.PortUpdate{at7}, time.Minute)
			var p *vendors.PortError
			if errors.As(err, &p) != (tc.port != "") || p != nil && (p.Port != tc.port || !strings.Contains(err.Error(), tc.wants)) || !res.Leased || res.Repaired != nil {
				t.Errorf("%+v, %v", res, err)
			}
			if got := s.pass(best); !bytes.Equal(got, frame(1, at7s)) {
				t.Errorf("a frame leaves as %x\n%s", got, s.Ofctl("dump-flows", "csig", "table=0"))
			}
			again := s.next(t)
			f, err := again.Probe(t.Context())
			if err != nil || !strings.Contains(f.Update.Reason, tc.wants) || tc.wants == "" && f.Update.Reason != losesR {
				t.Errorf("probed: %s, %v", f.Update.Reason, err)
			}
			if err := again.Apply(t.Context(), setupFor(quantize.Draft00, swp1)); (err != nil) != (tc.port != "") {
				t.Errorf("applied: %v", err)
			}
			if got := s.pass(best); !bytes.Equal(got, frame(1, at7s)) {
				t.Errorf("applied, a frame leaves as %x", got)
			}
		})
	}
}
