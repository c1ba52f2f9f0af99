package assess

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/plans/planstest"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

func TestRequirements(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(f *inventory.Fleet)
		facts  vendors.Facts
		mtus   map[string]int // as the device has them
		want   string         // rule status place
	}{
		"receivers strip meanwhile": {want: "strip-while-rolling planned leaf0:swp1"},
		"they cannot":               {facts: vendors.Facts{Strip: refused("no tcx")}, want: "strip-while-rolling impossible leaf0:swp1"},
		"a host without CSIG":       {change: func(f *inventory.Fleet) { f.Hosts[0].CSIG = false }, want: "strip-at-edge unmet leaf0:swp1"},
		"it strips": {change: func(f *inventory.Fleet) {
			f.Hosts[0].CSIG = false
			f.Devices[0].Ports[0].Action = vlanrules.Strip
		}, want: "strip-at-edge met leaf0:swp1"},
		"it strips, and cannot": {facts: vendors.Facts{Strip: refused("no tcx")}, change: func(f *inventory.Fleet) {
			f.Hosts[0].CSIG = false
			f.Devices[0].Ports[0].Action = vlanrules.Strip
		}, want: "strip-at-edge impossible leaf0:swp1"},
		"it strips, and not all": {facts: vendors.Facts{Strip: vlanrules.Verdict{Level: vlanrules.Degraded, Reason: "none before MPLS"}}, change: func(f *inventory.Fleet) {
			f.Hosts[0].CSIG = false
			f.Devices[0].Ports[0].Action = vlanrules.Strip
		}, want: "strip-at-edge unchecked leaf0:swp1"},
		"an unknown host":    {change: func(f *inventory.Fleet) { f.Hosts = f.Hosts[1:] }, want: "strip-at-edge unchecked leaf0:swp1"},
		"a device of others": {change: func(f *inventory.Fleet) { f.Devices[0].Ports[1].Peer = inventory.Peer{Device: "isp", Port: "1"} }, want: "strip-at-edge unchecked leaf0:up1"},
		"one that forwards": {change: func(f *inventory.Fleet) {
			f.Devices[2].Level = inventory.Level{Support: inventory.LevelPassthrough}
			for i := range f.Devices[2].Ports {
				f.Devices[2].Ports[i].Action = vlanrules.Passthrough
			}
		}, want: "accuracy choice spine0:down1"},
		"one that should update": {change: func(f *inventory.Fleet) { f.Devices[2].Level = inventory.Level{Support: inventory.LevelPassthrough} }, want: "accuracy unmet spine0:down1"},
		"a sender at one that discards": {change: func(f *inventory.Fleet) {
			f.Devices[0].Level = inventory.Level{Support: inventory.LevelDiscard}
		}, want: "no-sending unmet h0-0"},
		"room":                                  {change: func(f *inventory.Fleet) { f.Hosts[0].MTU, f.Devices[2].Ports[0].MTU = 1504, 1504 }, want: "mtu met spine0:down1"},
		"no room":                               {change: func(f *inventory.Fleet) { f.Hosts[0].MTU, f.Devices[2].Ports[0].MTU = 1504, 1503 }, want: "mtu unmet spine0:down1"},
		"room with slack":                       {facts: vendors.Facts{MTUHeadroom: 4}, change: func(f *inventory.Fleet) { f.Hosts[0].MTU, f.Devices[2].Ports[0].MTU = 1504, 1500 }, want: "mtu met spine0:down1"},
		"no room with it":                       {facts: vendors.Facts{MTUHeadroom: 4}, change: func(f *inventory.Fleet) { f.Hosts[0].MTU, f.Devices[2].Ports[0].MTU = 1504, 1499 }, want: "mtu unmet spine0:down1"},
		"unknown":                               {change: func(f *inventory.Fleet) { f.Hosts[0].MTU = 1500 }, want: "mtu unchecked spine0:down1"},
		"read, and enough":                      {mtus: map[string]int{"down1": 1504}, change: func(f *inventory.Fleet) { f.Hosts[0].MTU = 1504 }, want: "mtu met spine0:down1"},
		"read, and too small":                   {mtus: map[string]int{"down1": 1500}, change: func(f *inventory.Fleet) { f.Hosts[0].MTU = 1504 }, want: "mtu planned spine0:down1"},
		"read, and not yet what the file has":   {mtus: map[string]int{"down1": 1504}, change: func(f *inventory.Fleet) { f.Hosts[0].MTU, f.Devices[2].Ports[0].MTU = 1504, 9000 }, want: "mtu planned spine0:down1"},
		"read as enough, and the file has less": {mtus: map[string]int{"down1": 1504}, change: func(f *inventory.Fleet) { f.Hosts[0].MTU, f.Devices[2].Ports[0].MTU = 1504, 1503 }, want: "mtu unmet spine0:down1"},
		"the card":                              {change: func(f *inventory.Fleet) { f.Hosts[0].MTU = 1500 }, want: "mtu unchecked h0-0"},
		"the peer is unknown": {change: func(f *inventory.Fleet) {
			f.Devices[2].Level = inventory.Level{Support: inventory.LevelDiscard}
			f.Devices[0].Ports[1].Peer = inventory.Peer{} // only the other side says
		}, want: "strip-before-discard unmet leaf0:up1"},
	} {
		t.Run(name, func(t *testing.T) {
			f := planstest.Fabric(2, 1, 1)
			if tc.change != nil {
				tc.change(f)
			}
			a := assessed1(f, func(d *inventory.Device) Evidence {
				e := ableEvidence(d)
				e.Facts, e.MTUs = tc.facts, tc.mtus
				return e
			})
			var all []string
			for _, r := range a.Requirements {
				for _, p := range r.Ports {
					all = append(all, r.Rule+" "+r.Status+" "+r.Device+":"+p)
				}
				for _, h := range r.Hosts {
					all = append(all, r.Rule+" "+r.Status+" "+h)
				}
				if !strings.HasPrefix(r.Section, "draft-00 §6.") || r.What == "" || r.Why == "" || len(r.Ports) != len(r.Peers) && r.Hosts == nil {
					t.Errorf("a requirement without a section, a reason or a peer: %+v", r)
				}
			}
			if !slices.Contains(all, tc.want) {
				t.Errorf("no %q among\n%s", tc.want, strings.Join(all, "\n"))
			}
			n := 0
			for _, of := range a.Totals.Requirements {
				n += of
			}
			if n != len(all) {
				t.Errorf("the totals have %d places, the list has %d", n, len(all))
			}
		})
	}
}

// TestRoomOfHosts: hosts with one MTU share a requirement, which has the IP MTU that
// leaves the tag its bytes; of hosts without one the bytes are named.
func TestRoomOfHosts(t *testing.T) {
	f := planstest.Fabric(2, 1, 2)
	for i, mtu := range []int{1500, 1500, 9000} {
		f.Hosts[i].MTU = mtu
	}
	got := map[string]int{}
	for _, r := range assessed1(f, ableEvidence).Requirements {
		if r.Rule == RuleMTU && len(r.Hosts) > 0 {
			got[r.What] = len(r.Hosts)
		}
	}
	want := map[string]int{
		"leave 4 bytes of its card's MTU (1500) for the tag: an IP MTU of 1496, or a larger one for the card": 2,
		"leave 4 bytes of its card's MTU (9000) for the tag: an IP MTU of 8996, or a larger one for the card": 1,
		"leave 4 bytes of its card's MTU for the tag: lower its IP MTU by them, or raise the card's":          len(f.Hosts) - 3,
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Whatever the fabric: every egress port to a device that must not see a tag is
// named by a requirement to strip, and those that do not strip are not met.
func TestNoTagReachesADiscardDevice(t *testing.T) {
	costs := map[string]tableOps{} // counting them takes long
	rapid.Check(t, func(t *rapid.T) {
		f := planstest.Fabric(rapid.IntRange(1, 5).Draw(t, "leaves"), rapid.IntRange(0, 4).Draw(t, "spines"), rapid.IntRange(0, 3).Draw(t, "hosts"))
		kinds := []inventory.Support{inventory.LevelAuto, inventory.LevelNative, inventory.LevelSoftware, inventory.LevelPassthrough, inventory.LevelDiscard}
		type facts struct {
			basis Basis
			vendors.Facts
		}
		all := map[string]facts{}
		for i := range f.Devices {
			d := &f.Devices[i]
			d.Level = inventory.Level{Support: rapid.SampledFrom(kinds).Draw(t, "asserted")}
			one := facts{basis: rapid.SampledFrom([]Basis{BasisProbe, BasisPlatform, BasisFile}).Draw(t, "basis")}
			for _, v := range []*vlanrules.Verdict{&one.Update, &one.Passthrough, &one.Strip} {
				if rapid.Bool().Draw(t, "refused") {
					*v = refused("no")
				}
			}
			if one.Passthrough.Level == vlanrules.Full && rapid.Bool().Draw(t, "under a condition") {
				one.Passthrough = vlanrules.Verdict{Level: vlanrules.Degraded, Reason: "if it only bridges"}
			}
			all[d.Name] = one
			for j := range d.Ports {
				d.Ports[j].Action = rapid.SampledFrom([]vlanrules.Action{vlanrules.Update, vlanrules.Passthrough, vlanrules.Strip}).Draw(t, "action")
				if d.Ports[j].Peer.Port != "" && i%2 == 0 && rapid.IntRange(0, 4).Draw(t, "silent") == 0 {
					d.Ports[j].Peer = inventory.Peer{}
				}
			}
		}
		for i := range f.Hosts {
			f.Hosts[i].CSIG = rapid.Bool().Draw(t, "csig")
		}
		a := assess(f, func(d *inventory.Device) Evidence {
			one := all[d.Name]
			return Evidence{Basis: one.basis, Observation: plans.Observation{Facts: one.Facts}}
		}, Options{Now: time.Unix(1e9, 0)}, costs)
		// The model: a device may see tags only where a source says that it
		// forwards them, and no answer says that it does not.
		blind := map[string]bool{}
		for i := range f.Devices {
			d := &f.Devices[i]
			one := all[d.Name]
			knows := one.basis == BasisProbe || one.basis == BasisPlatform
			drops := knows && one.Update.Level == vlanrules.Refused && one.Passthrough.Level != vlanrules.Full
			switch d.Level.Support {
			case inventory.LevelAuto:
				blind[d.Name] = drops || one.basis == BasisFile
			case inventory.LevelDiscard:
				blind[d.Name] = true
			case inventory.LevelSoftware:
				blind[d.Name] = drops
			case inventory.LevelPassthrough: // the file may say that a condition is met
				blind[d.Name] = drops && one.Passthrough.Level == vlanrules.Refused
			}
			if got := a.Devices[i].Level; blind[d.Name] != (got == "discard" || got == "unknown") {
				t.Fatalf("%s is %s", d.Name, got)
			}
		}
		named := map[string]string{}
		for _, r := range a.Requirements {
			for k, p := range r.Ports {
				if r.Rule == RuleStripDiscard {
					named[r.Device+":"+p] = r.Status + " " + inventory.Peer(r.Peers[k]).String()
				}
			}
		}
		for i := range f.Devices {
			d := &f.Devices[i]
			for j := range d.Ports {
				p := &d.Ports[j]
				far, ok := farEnd(f, d, p)
				if !ok {
					continue
				}
				state := named[d.Name+":"+p.Name]
				if !blind[far.Device] {
					if state != "" {
						t.Fatalf("%s:%s is to strip before %s, which forwards tags", d.Name, p.Name, far.Device)
					}
					continue
				}
				status, peer, _ := strings.Cut(state, " ")
				if peer != far.String() {
					t.Fatalf("%s:%s to %s is not named: %q", d.Name, p.Name, far, state)
				}
				if p.Action != vlanrules.Strip && status == StatusMet && a.Devices[i].Level != "discard" {
					t.Fatalf("%s:%s to %s has action %s and is called met", d.Name, p.Name, far, p.Action)
				}
			}
		}
	})
}

// farEnd finds a port's peer from either side.
func farEnd(f *inventory.Fleet, d *inventory.Device, p *inventory.Port) (inventory.Peer, bool) {
	if p.Peer.Port != "" {
		return p.Peer, true
	}
	for i := range f.Devices {
		for j := range f.Devices[i].Ports {
			if f.Devices[i].Ports[j].Peer == (inventory.Peer{Device: d.Name, Port: p.Name}) {
				return inventory.Peer{Device: f.Devices[i].Name, Port: f.Devices[i].Ports[j].Name}, true
			}
		}
	}
	return inventory.Peer{}, false
}
