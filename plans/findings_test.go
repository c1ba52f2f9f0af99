package plans

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans/planstest"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

func TestFindings(t *testing.T) {
	refuse := vlanrules.Verdict{Level: vlanrules.Refused, Reason: "no hook"}
	for name, tc := range map[string]struct {
		change func(f *inventory.Fleet)
		seen   func(s *Observation, d *inventory.Device)
		want   string
		only   bool // no other error
	}{
		"a discard device": {
			change: func(f *inventory.Fleet) {
				f.Devices[2].Level = inventory.Level{Support: inventory.LevelDiscard, Reason: "drops unknown TPIDs"}
			},
			want: "leaf0:up1 to spine0: the peer discards tagged frames (drops unknown TPIDs): set action: strip",
		},
		"a host without CSIG": {
			change: func(f *inventory.Fleet) { f.Hosts[1].CSIG = false },
			want:   "leaf0:swp2 to h0-1: the host does not read CSIG tags (csig: false) and must never receive one: set action: strip",
		},
		"no strip for the fence": {
			seen: func(s *Observation, _ *inventory.Device) { s.Facts.Strip = refuse },
			want: "leaf0:swp1: it cannot strip tags, and has to (it faces a host while paths change): no hook",
		},
		"a rollback that is impossible": {
			seen: func(s *Observation, d *inventory.Device) {
				if d.Name == "leaf0" { // the fake takes no setup without signals
					s.Setup = vendors.Setup{TPID: 0x9900, Layout: quantize.Draft00, OnStale: inventory.Conservative, Damaged: "changed by another process"}
				}
			},
			want: "leaf0: a rollback could not give back what it has now: a setup without signals; if that may go, csig off -i fabric.yaml --device leaf0 clears it first",
		},
		"a TPID that changes and is not listed": {
			seen: had(0x9901, 0),
			want: "the TPID changes from 0x9901, found on leaf0, leaf1, spine0, to 0x9900, and a host that still sends the old one would get its tags past every switch: add retired_tpids: [0x9901] to the profile",
		},
		"a wide TPID that changes and is not listed": {
			seen: had(0x9900, 0x9902),
			want: "add retired_wide_tpids: [0x9902] to the profile",
		},
		"a TPID that changes where one can be stripped": {
			seen: func(s *Observation, d *inventory.Device) {
				had(0x9901, 0)(s, d)
				s.Facts.Others = 0
			},
			want: "the TPID changes, and hosts are at leaf0, leaf1, whose platform linux strips one TPID at a time: have all hosts stop sending, take csig off",
		},
		"more retired TPIDs than can be stripped": {
			change: func(f *inventory.Fleet) {
				retire(f, 0x9901, 0x9902)
			},
			seen: func(s *Observation, _ *inventory.Device) { s.Facts.Others = 1 },
			want: "leaf0: it has to strip tags of 0x9901, 0x9902 beside 0x9900 (the profile's retired TPIDs), and can strip 1 beside the domain's own: take those that no host sends",
		},
		"more TPIDs meanwhile than can be stripped": {
			change: func(f *inventory.Fleet) { retire(f, 0x9901) },
			seen: func(s *Observation, d *inventory.Device) {
				if had(0x9901, 0)(s, d); d.Name == "spine0" {
					s.Setup.TPID = 0x9903
				}
				s.Facts.Others = 1
			},
			want: "leaf0: it has to strip tags of 0x9900, 0x9903 beside 0x9901 (while the TPID changes), and can strip 1",
		},
		"retired TPIDs, and no strip": {
			change: func(f *inventory.Fleet) { retire(f, 0x9901) },
			seen:   func(s *Observation, _ *inventory.Device) { s.Facts.Strip, s.Facts.Others = refuse, 0 },
			want:   "leaf0:swp1: it cannot strip tags, and has to (tags of the profile's retired TPIDs end there): no hook",
		},
		"retired TPIDs, and a device that csig leaves alone": {
			change: func(f *inventory.Fleet) {
				retire(f, 0x9901)
				f.Devices[0].Level.Support = inventory.LevelNative
			},
			want: "leaf0:swp1, swp2: hosts get tags of 0x9901 here: csig sets nothing up on a device of level native",
		},
		"retired TPIDs, and a device that nothing drives": {
			change: func(f *inventory.Fleet) {
				retire(f, 0x9901)
				f.Devices[0].Level.Support = inventory.LevelPassthrough
			},
			seen: func(s *Observation, d *inventory.Device) {
				if d.Name == "leaf0" {
					s.NoDriver, s.Facts.Others = "csig has no driver for Plan 9", 0
				}
			},
			want: "leaf0:swp1, swp2: hosts get tags of 0x9901 here: csig sets nothing up on a device of level passthrough",
		},
		"a TPID that changes, and a device that nothing drives": {
			seen: func(s *Observation, d *inventory.Device) {
				if d.Name == "leaf0" {
					s.NoDriver, s.Facts.Others = "csig has no driver for Plan 9", 0
				} else {
					had(0x9901, 0)(s, d)
				}
			},
			want: "the TPID changes from 0x9901, found on leaf1, spine0, to 0x9900",
		},
		"a native device of another profile": {
			change: func(f *inventory.Fleet) {
				f.Devices[2].Level = inventory.Level{Support: inventory.LevelNative, Profile: "0123456789ab"}
			},
			want: "spine0: mixed profiles: the device compares and replaces natively for profile 0123456789ab…, and the fleet's is",
		},
		"a native device where the profile changes": {
			change: func(f *inventory.Fleet) { f.Devices[2].Level.Support = inventory.LevelNative },
			seen: func(s *Observation, d *inventory.Device) {
				if d.Name == "spine0" {
					s.Err = fmt.Errorf("no driver")
				} else if had(0x9900, 0)(s, d); true {
					s.Setup.Profile = strings.Repeat("ab", 32)
				}
			},
			want: "spine0: mixed profiles: the profile changes from abababababab… to ",
		},
		"unreachable": {
			seen: func(s *Observation, d *inventory.Device) {
				if d.Name == "leaf1" {
					s.Err = fmt.Errorf("no route to host")
				}
			},
			want: "leaf1: no route to host",
		},
		"ports that the device does not have": {
			seen: func(s *Observation, d *inventory.Device) {
				if s.Facts.Ports = []string{"swp2", "up1", "down1", "down2"}; d.Name == "leaf1" {
					s.Facts.Ports = []string{"up1"}
				}
			},
			want: "leaf0:swp1: the device has no such port: correct the name in the fleet file, or add the port to the device\nleaf1:swp1, swp2: the device has no such port",
		},
		"what passes, on a device that has csig": {
			seen: func(s *Observation, d *inventory.Device) {
				if had(0x9900, 0)(s, d); d.Name == "leaf0" {
					s.Facts.Update, s.Facts.Passthrough = refuse, vlanrules.Verdict{Level: vlanrules.Degraded, Reason: "untagged"}
				}
			},
			want: "leaf0: it has csig, and cannot update tags as it is: no hook; repair that (csig assess -i fabric.yaml --device leaf0 tells more), or give it its level in the fleet file, passthrough or discard, to plan that csig is taken off it",
			only: true,
		},
		"what passes, on a device that has nothing yet": {
			seen: func(s *Observation, d *inventory.Device) {
				if d.Name == "spine0" {
					s.Facts.Update, s.Facts.Passthrough = refuse, vlanrules.Verdict{Level: vlanrules.Degraded, Reason: "untagged"}
				}
			},
			want: "spine0: it cannot update tags as it is: no hook; repair that (csig assess -i fabric.yaml --device spine0 tells more), or give it its level in the fleet file, passthrough or discard",
			only: true,
		},
		"a TPID that the platform does not take, and one that it has": {
			seen: func(s *Observation, d *inventory.Device) {
				if d.Name == "leaf0" {
					had(0x9900, 0)(s, d)
					s.Facts.Traits.TPIDs = vendors.That(vendors.TPIDs{List: vendors.TPIDList{0x88a8}}, vendors.Source{Mark: vendors.Read, From: "a book"})
				}
			},
			want: "leaf0: it has csig, and cannot have it in this domain: it takes the TPIDs 0x88a8, and the domain's is 0x9900; restore the TPID, or give it its level",
			only: true,
		},
		"asserted what it cannot": {
			change: func(f *inventory.Fleet) { f.Devices[0].Level.Support = inventory.LevelSoftware },
			seen:   func(s *Observation, _ *inventory.Device) { s.Facts.Update = refuse },
			want:   "leaf0: the fleet file says that its level is software, but it cannot do that: no hook; give it the level that it has",
		},
		"no driver, and it is to strip": {
			change: func(f *inventory.Fleet) { f.Devices[0].Ports[0].Action = vlanrules.Strip },
			seen: func(s *Observation, d *inventory.Device) {
				if d.Name == "leaf0" { // of a level that csig found, not the operator
					*s = Observation{NoDriver: "csig has no driver for Plan 9", Facts: vendors.Facts{Update: refuse, Strip: refuse}, Differ: planstest.Differ{}}
				}
			},
			want: "leaf0:swp1: it cannot strip tags, and has to (the fleet file asks for it): no hook",
		},
		"no driver, and hosts that would get tags meanwhile": {
			change: func(f *inventory.Fleet) {
				f.Devices[0].Level.Support = inventory.LevelNative
				f.Devices[0].Ports[0].Action = vlanrules.Strip
			},
			seen: func(s *Observation, d *inventory.Device) {
				if d.Name == "leaf0" {
					*s = Observation{Err: fmt.Errorf("no driver")}
				}
			},
			want: "leaf0:swp2: hosts that read tags are there while paths change. csig cannot make the device strip tags for them: csig does not drive it. Configure it to strip tags, and say so in the fleet file until the plan is carried out (level: native for the device, action: strip for the port)",
		},
		"a discard device behind one that passes tags on": {
			change: func(f *inventory.Fleet) {
				f.Devices[0].Level.Support = inventory.LevelPassthrough
				f.Devices[2].Level.Support = inventory.LevelDiscard
				f.Devices[1].Ports[2].Action = vlanrules.Strip
			},
			want: "leaf0:up1 to spine0: the peer discards tagged frames",
		},
		"a discard device behind a native one": {
			change: func(f *inventory.Fleet) {
				f.Devices[0].Level.Support = inventory.LevelNative
				f.Devices[2].Level.Support = inventory.LevelDiscard
				f.Devices[1].Ports[2].Action = vlanrules.Strip
			},
			want: "leaf0:up1 to spine0: the peer discards tagged frames",
		},
		"a discard device behind a native one without a driver": {
			change: func(f *inventory.Fleet) {
				f.Devices[0].Level.Support = inventory.LevelNative
				f.Devices[2].Level.Support = inventory.LevelDiscard
				f.Devices[1].Ports[2].Action = vlanrules.Strip
			},
			seen: func(s *Observation, d *inventory.Device) {
				if d.Name == "leaf0" {
					*s = Observation{Err: fmt.Errorf("no driver")}
				}
			},
			want: "leaf0:up1 to spine0: the peer discards tagged frames",
		},
		"a discard device that alone names its peer": {
			change: func(f *inventory.Fleet) {
				f.Devices[2].Level.Support = inventory.LevelDiscard
				f.Devices[0].Ports[2].Peer = inventory.Peer{}
				f.Devices[1].Ports[2].Action = vlanrules.Strip
			},
			want: "leaf0:up1 to spine0: the peer discards tagged frames",
		},
		"a host without CSIG at a device that passes tags on": {
			change: func(f *inventory.Fleet) {
				f.Devices[0].Level.Support = inventory.LevelPassthrough
				f.Hosts[1].CSIG = false
			},
			want: "leaf0:swp2 to h0-1: the host does not read CSIG tags (csig: false) and must never receive one: set action: strip",
		},
		"hosts that send behind a device that discards": {
			change: func(f *inventory.Fleet) {
				f.Devices[0].Level = inventory.Level{Support: inventory.LevelDiscard, Reason: "old"}
				f.Devices[2].Ports[0].Action = vlanrules.Strip
			},
			want: "leaf0:swp1, swp2 to h0-0, h0-1: it discards tagged frames (old) and is the first hop of these hosts, which would send some: set csig: false",
		},
		"table too small, as others hold some of it": {
			seen: func(s *Observation, _ *inventory.Device) {
				s.Facts.Rules = vlanrules.Caps{MatchPCP: true, Entries: 6, Taken: 4, Shared: true}
			},
			want: "needs 1 range entry for abw, 2 in the table (of its 6, others hold 4) are shared by 3 ports, 0 for each",
		},
		"table too small": {
			seen: func(s *Observation, _ *inventory.Device) {
				s.Facts.Rules = vlanrules.Caps{Match: vlanrules.MatchExact, MatchPCP: true, Modify: true, Txn: vlanrules.TxnEntry, Entries: 4096, Shared: true, Ports: 64}
			},
			want: "4,096 in the table are shared by 64 ports",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := planstest.Fabric(2, 1, 2)
			if tc.change != nil {
				tc.change(f)
			}
			p := made(t, f, func(d *inventory.Device) Observation {
				s := unseen(d)
				if tc.seen != nil {
					tc.seen(&s, d)
				}
				return s
			}, Options{})
			var all []string
			for _, e := range p.Errors() {
				all = append(all, e.String())
				if e.Code == "" {
					t.Errorf("no code: %v", e)
				}
			}
			if !strings.Contains(strings.Join(all, "\n"), tc.want) || tc.only && len(all) > 1 {
				t.Errorf("want %q in\n%s", tc.want, strings.Join(all, "\n"))
			}
			if !p.Empty() || p.Totals.Remove > 0 {
				t.Errorf("it has stages all the same, or %+v", p.Totals)
			}
		})
	}
}

// A port that does not strip every tag is told of where it is to strip, and
// stands against nothing.
func TestStripsNotEveryTag(t *testing.T) {
	f := planstest.Fabric(2, 1, 2)
	f.Hosts[1].CSIG = false
	f.Devices[0].Ports[1].Action = vlanrules.Strip
	p := made(t, f, func(d *inventory.Device) Observation {
		s := unseen(d)
		s.Facts.Strip = vlanrules.Verdict{Level: vlanrules.Degraded, Reason: "none before MPLS"}
		return s
	}, Options{})
	var all []string
	for _, f := range p.Findings {
		all = append(all, f.String())
	}
	want := "leaf0:swp2: it does not strip every tag: none before MPLS; see to it that no such frame comes there, where tags must not get past"
	if !slices.Contains(all, want) || len(p.Errors()) > 0 || p.Empty() {
		t.Errorf("%s\n%s", strings.Join(all, "\n"), outline(p))
	}
}

// A device that nothing drives is left alone: its neighbours see to it that no
// tag reaches it, and it is in no stage.
func TestNoDriver(t *testing.T) {
	f := planstest.Fabric(2, 1, 2)
	for i := range 2 { // to the spine
		f.Devices[i].Ports[2].Action = vlanrules.Strip
	}
	p := made(t, f, func(d *inventory.Device) Observation {
		if d.Name != "spine0" {
			return unseen(d)
		}
		return Observation{NoDriver: "csig has no driver for Plan 9", Facts: vendors.Facts{
			Update: vlanrules.Verdict{Level: vlanrules.Refused, Reason: "no"}, Passthrough: vlanrules.Verdict{Level: vlanrules.Degraded, Reason: "only if bridged"},
		}}
	}, Options{})
	if len(p.Errors()) > 0 || strings.Contains(outline(p), "spine0") || p.Empty() {
		t.Errorf("%v\n%s", p.Errors(), outline(p))
	}
	if d := p.Device("spine0"); d.Level != "discard" || d.Reason != "not known to forward them: only if bridged; where it does forward them, give it its level, passthrough or native, with the reason" {
		t.Errorf("%s: %s", d.Level, d.Reason)
	}
	if !slices.ContainsFunc(p.Findings, func(f findings.Finding) bool {
		return f.String() == "spine0: left alone, its level is discard: csig has no driver for Plan 9"
	}) {
		t.Error(p.Findings)
	}
}

// A native device that csig does not drive may have hosts that read tags, and a
// neighbour that discards: the operator says which of its ports strip without
// csig. No step is for it.
func TestStripsWithoutCsig(t *testing.T) {
	f := planstest.Fabric(2, 1, 2)
	f.Devices[0].Level.Support = inventory.LevelNative
	for i := range 2 {
		f.Devices[0].Ports[i].Action = vlanrules.Strip
	}
	p := made(t, f, func(d *inventory.Device) Observation {
		if d.Name == "leaf0" {
			return Observation{Err: fmt.Errorf("no driver")}
		}
		return unseen(d)
	}, Options{})
	if len(p.Errors()) > 0 || p.Empty() || strings.Contains(outline(p), "leaf0") {
		t.Errorf("%v\n%s", p.Errors(), outline(p))
	}
	if !slices.ContainsFunc(p.Findings, func(f findings.Finding) bool {
		return strings.HasPrefix(f.String(), "leaf0:swp1, swp2: taken to strip tags without csig, as the fleet file says (level: native, action: strip)")
	}) {
		t.Error(p.Findings)
	}
}

// What is in the way of tags at a port is a finding with its name: what breaks it
// stops the plan.
func TestPortIssues(t *testing.T) {
	net := planstest.Fabric(2, 1, 1)
	name := net.Devices[2].Name
	var port string
	p := made(t, net, func(d *inventory.Device) Observation {
		s := unseen(d)
		if d.Name == name {
			for _, p := range d.Ports {
				if p.Action == vlanrules.Update {
					port = p.Name
				}
			}
			s.Facts.PortIssues = []vendors.PortVerdict{
				{Port: port, Verdict: vlanrules.Verdict{Level: vlanrules.Refused, Reason: "it has VLANs"}},
				{Port: port, Verdict: vlanrules.Verdict{Level: vlanrules.Degraded, Reason: "it has a map"}},
				{Port: "another", Verdict: vlanrules.Verdict{Level: vlanrules.Refused, Reason: "not csig's"}},
			}
		}
		return s
	}, Options{})
	for want, severity := range map[string]findings.Level{"it has VLANs": findings.Error, "it has a map": findings.Warning} {
		if port == "" || !slices.ContainsFunc(p.Findings, func(f findings.Finding) bool {
			return f.Reason == want && f.Level == severity && f.Device == name && vendors.Names(f.Ports) == port
		}) {
			t.Errorf("nothing says %q of %q: %+v", want, port, p.Findings)
		}
	}
	if slices.ContainsFunc(p.Findings, func(f findings.Finding) bool { return f.Reason == "not csig's" }) {
		t.Errorf("%+v", p.Findings)
	}
}
