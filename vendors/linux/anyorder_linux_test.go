package linux

import (
	"fmt"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestSetupsInAnyOrder brings a switch from some setups to others: the rules, the
// programs and the frames are those of the setup.
func TestSetupsInAnyOrder(t *testing.T) {
	t.Parallel()
	abw, both := []quantize.Signal{quantize.MinABW}, []quantize.Signal{quantize.MinABW, quantize.MinABWC}
	ports := func(a vlanrules.Action) []vendors.PortSetup {
		return []vendors.PortSetup{{Port: "swp1", Action: a}, {Port: "sw0", Action: vlanrules.Passthrough}}
	}
	others := func(a vlanrules.Action) []vendors.PortSetup {
		list := ports(a)
		list[0].StripOthers = true
		return list
	}
	retired := []vendors.OtherTPID{{TPID: 0x9aa0}}
	rows := []struct {
		name  string
		setup vendors.Setup
	}{
		{"update", vendors.Setup{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Ports: ports(vlanrules.Update)}},
		{"one signal", vendors.Setup{TPID: 0x9900, Signals: abw, OnStale: inventory.Conservative, Ports: ports(vlanrules.Update)}},
		{"uec", vendors.Setup{TPID: 0x9900, Layout: quantize.UEC, Signals: both, OnStale: inventory.Conservative, Ports: ports(vlanrules.Update)}},
		{"another TPID", vendors.Setup{TPID: 0x9aa0, Signals: both, OnStale: inventory.Conservative, Ports: ports(vlanrules.Update)}},
		{"wide tags too", vendors.Setup{TPID: 0x9900, WideTPID: 0x9901, Signals: both, OnStale: inventory.Conservative, Ports: ports(vlanrules.Update)}},
		{"in 0x88a8", vendors.Setup{TPID: 0x88a8, Signals: both, OnStale: inventory.Conservative, Ports: ports(vlanrules.Update)}},
		{"passthrough when stale", vendors.Setup{TPID: 0x9900, Signals: both, OnStale: inventory.StalePassthrough, Ports: ports(vlanrules.Update)}},
		{"passthrough", vendors.Setup{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Ports: ports(vlanrules.Passthrough)}},
		{"other port", vendors.Setup{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Ports: []vendors.PortSetup{{Port: "sw0", Action: vlanrules.Update}}}},
		{"a profile", vendors.Setup{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Ports: ports(vlanrules.Update), Profile: profileA}},
		{"another profile", vendors.Setup{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Ports: ports(vlanrules.Update), Profile: profileB}},
		{"no port", vendors.Setup{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative}},
		{"strip", vendors.Setup{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Ports: ports(vlanrules.Strip)}},
		{"strip and another TPID too", vendors.Setup{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Ports: ports(vlanrules.Strip), Others: retired, Profile: profileA}},
		{"update and strip another TPID", vendors.Setup{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Ports: others(vlanrules.Update), Others: retired, Profile: profileA}},
		{"update and strip another and VLANs' TPID", vendors.Setup{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Ports: others(vlanrules.Update), Others: append([]vendors.OtherTPID{{TPID: 0x88a8}}, retired...)}},
		{"in 0x88a8, and strip another TPID", vendors.Setup{TPID: 0x88a8, Signals: both, OnStale: inventory.Conservative, Ports: others(vlanrules.Update), Others: retired, Profile: profileB}},
		{"passthrough and strip another TPID", vendors.Setup{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Ports: others(vlanrules.Passthrough), Others: retired}},
		{"strip wide tags too", vendors.Setup{TPID: 0x9900, WideTPID: 0x9901, Signals: both, OnStale: inventory.Conservative, Ports: ports(vlanrules.Strip)}},
	}
	if !realRoot(t) {
		rows = rows[:len(rows)-7] // TestStrip checks that strip is refused
	}
	list := []vendorstest.Row{{Name: "nothing", Want: asTheDraft}}
	for _, r := range rows {
		list = append(list, vendorstest.Row{Name: r.name, Setup: r.setup, Want: asTheDraft})
	}
	vendorstest.AnyOrder(t, list, 20, func(t *testing.T) vendorstest.Lab {
		w := newWire(t)
		d := openDriver(t, w.netns)
		return vendorstest.Lab{
			Driver: d,
			State: func(testing.TB) string {
				return sorted(withoutTime(w.run("nft", "list", "ruleset")))
			},
			Writes: func(testing.TB) int { return int(generation(t, d)) },
			Frames: func(t testing.TB, s vendors.Setup) string { return w.frames(t, d, s) },
		}
	})
}

const asTheDraft = "as the draft has them"

// frames gives the ports that update a signal and sends tags of several TPIDs, alone
// and behind a VLAN's.
func (w *wire) frames(t testing.TB, d *Driver, s vendors.Setup) string {
	t.Helper()
	m := model{uec: s.Layout == quantize.UEC, local: map[uint16][2]uint16{}}
	var u []vendors.PortUpdate
	var swp1 vendors.PortSetup
	for _, p := range s.Ports {
		if p.Port == "swp1" {
			swp1 = p
		}
		if p.Action != vlanrules.Update {
			continue
		}
		pu := vendors.PortUpdate{Port: p.Port}
		for _, sig := range s.Signals {
			pu.Intents = append(pu.Intents, bucket(sig, 6+uint8(sig), 40))
			if p.Port == "swp1" {
				m.local[uint16(sig)] = [2]uint16{6 + uint16(sig), 40}
			}
		}
		u = append(u, pu)
	}
	if !s.Nothing() {
		update(t, d, time.Minute, u...)
	}
	for _, layoutBit := range []uint16{0, 1} {
		for _, vlans := range [][]tag{nil, {{0x8100, 5}}} {
			for _, tpid := range []uint16{0x9900, 0x9aa0, 0x88a8} {
				f := frame(1, append(vlans[:len(vlans):len(vlans)], tag{tpid, initial | layoutBit})...)
				want := m.frameOut(f, s.TPID)
				if swp1.Strips() {
					want = strippedOf(want, &s, swp1.Action == vlanrules.Strip)
				}
				w.port.send(f)
				if got := w.far.receive(); string(got) != string(want) {
					return fmt.Sprintf("in   %x\ngot  %x\nwant %x", f, got, want)
				}
			}
		}
	}
	return asTheDraft
}

// TestLongSetupsInAnyOrder is TestSetupsInAnyOrder from every setup to every setup.
func TestLongSetupsInAnyOrder(t *testing.T) { TestSetupsInAnyOrder(t) }
