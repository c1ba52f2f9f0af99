package nxos

import (
	"testing"
	"time"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/qualify/qualifytest"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/cli/clitest/plane"
	"github.com/csig-agent/csig/vendors/nxos/nxostest"
)

func TestMain(m *testing.M) { fabric.Tests(m, fabric.Loopback) }

// trunk is a port of the switch as the data plane has it.
func trunk(p nxostest.Port) *plane.Trunk {
	t := &plane.Trunk{TPIDs: []uint16{p.TPID}, Native: p.Untagged()}
	for _, r := range []plane.Range{{First: p.VLANs.First, Last: min(p.VLANs.Last, nxostest.Reserved.First-1)}, {First: nxostest.Reserved.Last + 1, Last: p.VLANs.Last}} {
		if r.First <= r.Last {
			t.VLANs = append(t.VLANs, r)
		}
	}
	return t
}

const csig = 0x9100

// cable gives the switch a data plane, whose frames come in at its first port.
func (b *bench) cable(t testing.TB, p plane.Hardware) {
	b.Changed = func(list []nxostest.Port) {
		var ports []plane.Port
		for _, out := range list {
			ports = append(ports, plane.Bridge(trunk(list[0]), trunk(out), csig, 0x8100))
		}
		if _, err := p.Program(ports); err != nil {
			t.Error(err)
		}
	}
}

// fake is a switch for the bench, whose trunks carry these VLANs.
func fake(t testing.TB, vlans string, outer bool) qualifytest.Fake {
	b, p := newBench(t), plane.New(t, 3)
	b.cable(t, p)
	for _, port := range []string{eth1, eth2, eth3} {
		b.Type("interface "+port, "switchport trunk allowed vlan 2-9", "switchport trunk allowed vlan "+vlans, "exit") // a change programs the plane
		if outer {                                                                                                     // as after csig apply
			b.Type("interface "+port, "switchport dot1q ethertype 0x9100", "exit")
		}
	}
	return qualifytest.Fake{Plane: p, Ports: []string{eth1, eth2, eth3}, TPID: csig, Open: func() vendors.Driver { return b.open(t, outer) }}
}

// TestQualify: with the tag as part of untagged frames the switch passes, as far as it can be
// judged.
func TestQualify(t *testing.T) {
	t.Parallel()
	qualifytest.SetUp(t, fake(t, "1-4094", false), noUpdate, noStrip)
}

// TestLongQualify: what is wrong with the signal as the VLAN tag, and with hardware, is found.
func TestLongQualify(t *testing.T) {
	for name, tc := range map[string]struct {
		vlans     string
		outer     bool
		faults    plane.Faults
		ask, want string
	}{
		"VIDs choose the VLAN": {"2-999", true, plane.Faults{}, "bridging", "bridging-follows-vid"},
		"reserved VLANs":       {"2-4094", true, plane.Faults{}, "vids", "vid-0-lost, vid-1-lost, vid-3968-4094-lost, vid-4095-lost"},
		"VID 4095 dropped":     {"1-4094", false, plane.Faults{Drop4095: true}, "vids", "vid-4095-lost"},
		"VIDs choose, hidden":  {"1-4094", false, plane.Faults{BridgeByVID: true}, "bridging", "bridging-follows-vid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			qualifytest.Judged(t, fake(t, tc.vlans, tc.outer), tc.faults, tc.ask, tc.want)
		})
	}
}

// TestFrames: frames show what a TPID is, what its loss does to tags, and that they pass
// again.
func TestFrames(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		p, b := &plane.Memory{}, newBench(t)
		b.cable(t, p)
		b.Type("interface "+eth1, "description to hosts", "switchport trunk allowed vlan 2-4093", "exit") // programs the data plane
		tag := func(tpid, tci uint16) []plane.Tag { return []plane.Tag{{TPID: tpid, TCI: tci}} }
		frames := [][]plane.Tag{tag(csig, 0x2385), tag(csig, 0x0f85), tag(csig, 0x1fe5), tag(0x8100, 0x0064), append(tag(0x8100, 0x0064), tag(csig, 0x2385)...)}
		look := func(when, want string) {
			t.Helper()
			if got := plane.Leaves(t, p, 2, frames); got != want {
				t.Errorf("%s: %s, want %s", when, got, want)
			}
		}
		// The trunks do not carry VLAN 1, where untagged frames are; VLANs from 3968 on are reserved.
		const off = "[[] [] [] [{8100 0064}] [{8100 0064} {9100 2385}]]"
		const on = "[[{9100 2385}] [] [] [] []]"
		look("before", off)
		s := want(csig, eth1, eth2)
		b.apply(t, s)
		look("applied", on)
		b.Flap(eth2)
		look("after a flap", "[[{8100 2385}] [] [] [] []]")
		time.Sleep(2 * time.Minute)
		if res, err := b.driver.Update(t.Context(), nil, time.Minute); err != nil || !res.Restarted {
			t.Errorf("%+v, %v", res, err)
		}
		look("set again", on)
		if err := b.driver.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		look("off", off)
	})
}
