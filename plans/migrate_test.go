package plans

import (
	"fmt"
	"testing"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans/planstest"
	"github.com/csig-agent/csig/vendors"
)

// retire gives a fleet TPIDs of earlier profiles.
func retire(f *inventory.Fleet, tpids ...uint16) {
	for _, t := range tpids {
		f.Policy.Retired = append(f.Policy.Retired, inventory.RetiredTPID{TPID: t})
	}
	for i := range f.Devices {
		for j := range f.Devices[i].Ports {
			p := &f.Devices[i].Ports[j]
			_, device := f.Device(p.Peer.Device)
			p.StripRetired = !device
		}
	}
}

// had is a device that was set up for other TPIDs.
func had(tpid, wide uint16) func(s *Observation, d *inventory.Device) {
	return func(s *Observation, d *inventory.Device) {
		s.Setup = planstest.SetUp(d, tpid, wide)
	}
}

// TestNewTPID migrates a fleet, lets hosts catch up, and forgets the old TPID.
func TestNewTPID(t *testing.T) {
	f := planstest.Fabric(2, 1, 1)
	retire(f, 0x9901)
	state := map[string]vendors.Setup{}
	for i := range f.Devices {
		var s Observation
		had(0x9901, 0)(&s, &f.Devices[i])
		state[f.Devices[i].Name] = s.Setup
	}
	next := func(want string) {
		t.Helper()
		p := made(t, f, func(d *inventory.Device) Observation {
			s := unseen(d)
			s.Setup = state[d.Name]
			return s
		}, Options{Waves: []string{}})
		got := ""
		for s := range p.Steps() {
			state[s.Device] = s.Want
			if s.Device != "leaf1" { // as leaf0
				got += fmt.Sprintf("%s 0x%04x, strips too: %s\n", s.Device, s.Want.TPID, vendors.TPIDNames(s.Want.Others))
			}
		}
		if got = outline(p) + got; got != want {
			t.Errorf("got\n%swant\n%s%v", got, want, p.Findings)
		}
	}
	next(`fence/rest: leaf0 (update up1) (strip swp1) leaf1 (update up1) (strip swp1)
ready/rest: leaf0 (update up1) (strip swp1) leaf1 (update up1) (strip swp1) spine0 (update down1, down2)
open/rest: leaf0 (update swp1, up1) leaf1 (update swp1, up1)
leaf0 0x9901, strips too: 0x9900
leaf0 0x9900, strips too: 0x9901
spine0 0x9900, strips too: 0x9901
leaf0 0x9900, strips too: 0x9901
`)
	f.Policy.Retired = nil
	retire(f)
	next(`change/rest: leaf0 (update swp1, up1) leaf1 (update swp1, up1) spine0 (update down1, down2)
leaf0 0x9900, strips too: 
spine0 0x9900, strips too: 
`)
}
