package plans

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// fabric is leaves with hosts below spines, every leaf connected to every
// spine.
func fabric(leaves, spines, hosts int) *inventory.Fleet {
	f := &inventory.Fleet{Path: "fabric.yaml"}
	f.Profile.TPID, f.Profile.Layout = 0x9900, quantize.Draft00
	f.Profile.Signals = map[quantize.Signal]quantize.SignalProfile{quantize.MinABW: {}}
	f.Policy.OnStale = inventory.Conservative
	lm := map[quantize.Signal]uint16{quantize.MinABW: 1}
	port := func(d *inventory.Device, name, peer, far string) {
		d.Ports = append(d.Ports, inventory.Port{Name: name, Action: vlanrules.Update, LM: lm, Peer: inventory.Peer{Device: peer, Port: far}})
	}
	for l := range leaves {
		d := inventory.Device{Name: fmt.Sprintf("leaf%d", l), Platform: "linux"}
		for h := range hosts {
			name := fmt.Sprintf("h%d-%d", l, h)
			port(&d, fmt.Sprintf("swp%d", h+1), name, "")
			f.Hosts = append(f.Hosts, inventory.Host{Name: name, CSIG: true})
		}
		for s := range spines {
			port(&d, fmt.Sprintf("up%d", s+1), fmt.Sprintf("spine%d", s), fmt.Sprintf("down%d", l+1))
		}
		f.Devices = append(f.Devices, d)
	}
	for s := range spines {
		d := inventory.Device{Name: fmt.Sprintf("spine%d", s), Platform: "linux"}
		for l := range leaves {
			port(&d, fmt.Sprintf("down%d", l+1), fmt.Sprintf("leaf%d", l), fmt.Sprintf("up%d", s+1))
		}
		f.Devices = append(f.Devices, d)
	}
	return f
}

// able is a device that can do everything: verdicts of zero are full.
var able = vendors.Facts{Platform: "linux", Rules: vlanrules.Caps{MatchPCP: true}, Others: 4}

func unseen(d *inventory.Device) Seen {
	return Seen{Facts: able, Differ: &device{}, Via: "local"}
}

func made(t *testing.T, f *inventory.Fleet, seen func(*inventory.Device) Seen, o Options) *Plan {
	t.Helper()
	o.Now = time.Unix(1e9, 0)
	p, err := Build(f, seen, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func outline(p *Plan) string {
	var b strings.Builder
	for _, s := range p.Stages {
		for _, w := range s.Waves {
			fmt.Fprintf(&b, "%s/%s:", s.Name, w.Name)
			for _, step := range w.Steps {
				fmt.Fprintf(&b, " %s", step.Device)
				for _, action := range []vlanrules.Action{vlanrules.Passthrough, vlanrules.Update, vlanrules.Strip} {
					var names []string
					for _, p := range step.Want.Ports {
						if p.Action == action {
							names = append(names, p.Port)
						}
					}
					if len(names) > 0 {
						fmt.Fprintf(&b, " (%s %s)", action, vendors.Names(names))
					}
				}
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

func TestRollOutOrder(t *testing.T) {
	f := fabric(2, 1, 2)
	f.Devices[2].Tags = []string{"canary"}
	got := outline(made(t, f, unseen, Options{Waves: []string{"canary"}}))
	want := `fence/rest: leaf0 (strip swp1, swp2) leaf1 (strip swp1, swp2)
ready/canary: spine0 (update down1, down2)
ready/rest: leaf0 (update up1) (strip swp1, swp2) leaf1 (update up1) (strip swp1, swp2)
open/rest: leaf0 (update swp1, swp2, up1) leaf1 (update swp1, swp2, up1)
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	// And its reverse.
	final := map[string]vendors.Setup{}
	for i := range f.Devices {
		final[f.Devices[i].Name] = wantOf(f, &f.Devices[i], Level{Support: inventory.LevelSoftware})
	}
	seen := func(d *inventory.Device) Seen {
		s := unseen(d)
		s.Setup = final[d.Name]
		return s
	}
	if p := made(t, f, seen, Options{}); !p.Empty() || p.Totals != (Totals{}) {
		t.Errorf("a plan for what is there: %s%+v", outline(p), p.Totals)
	}
	off := made(t, f, seen, Options{Goal: TakeOff, Waves: []string{"canary"}})
	if !slices.ContainsFunc(off.Findings, func(f Finding) bool {
		return strings.HasPrefix(f.String(), "hosts h0-0, h0-1, h1-0, h1-1 may still send tags (csig: true), which pass untouched once csig is off")
	}) || strings.Contains(off.Stages[2].Why, "as wanted") {
		t.Errorf("a removal says %v, and of its last stage %q", off.Findings, off.Stages[2].Why)
	}
	got = outline(off)
	want = `fence/rest: leaf0 (update up1) (strip swp1, swp2) leaf1 (update up1) (strip swp1, swp2)
ready/canary: spine0
ready/rest: leaf0 (strip swp1, swp2) leaf1 (strip swp1, swp2)
open/rest: leaf0 leaf1
`
	if got != want {
		t.Errorf("take-off: got\n%swant\n%s", got, want)
	}
}

// A change at a port to a host concerns no path: no other port strips for it.
func TestChangeNeedsNoFence(t *testing.T) {
	f := fabric(2, 1, 2)
	seen := func(d *inventory.Device) Seen {
		s := unseen(d)
		s.Setup = wantOf(f, d, Level{Support: inventory.LevelSoftware})
		if d.Name == "leaf1" {
			s.Setup.Ports[0].Action = vlanrules.Passthrough
		}
		return s
	}
	got := outline(made(t, f, seen, Options{}))
	if want := "change/10%: leaf1 (update swp1, swp2, up1)\n"; got != want && got != strings.Replace(want, "10%", "rest", 1) {
		t.Errorf("got\n%s", got)
	}
}

func TestFindings(t *testing.T) {
	refuse := vlanrules.Verdict{Level: vlanrules.Refused, Reason: "no hook"}
	for name, tc := range map[string]struct {
		change func(f *inventory.Fleet)
		seen   func(s *Seen, d *inventory.Device)
		want   string
	}{
		"a discard device": {
			change: func(f *inventory.Fleet) {
				f.Devices[2].Level = inventory.Level{Support: inventory.LevelDiscard, Reason: "drops unknown TPIDs"}
			},
			want: "leaf0:up1: tagged frames are discarded at spine0 (drops unknown TPIDs): set action: strip",
		},
		"a host without CSIG": {
			change: func(f *inventory.Fleet) { f.Hosts[1].CSIG = false },
			want:   "leaf0:swp2: host h0-1 does not speak CSIG and must never see a tag: set action: strip",
		},
		"no strip for the fence": {
			seen: func(s *Seen, _ *inventory.Device) { s.Facts.Strip = refuse },
			want: "leaf0:swp1: it cannot strip tags, and has to (it faces a host while paths change): no hook",
		},
		"a rollback that is impossible": {
			seen: func(s *Seen, d *inventory.Device) {
				if d.Name == "leaf0" { // the fake takes no setup without signals
					s.Setup = vendors.Setup{TPID: 0x9900, Layout: quantize.Draft00, OnStale: inventory.Conservative, Damaged: "somebody was here"}
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
			seen: func(s *Seen, d *inventory.Device) {
				had(0x9901, 0)(s, d)
				s.Facts.Others = 0
			},
			want: "the TPID changes, and hosts are at leaf0, leaf1, whose platform linux strips one TPID at a time: have all hosts stop sending, take csig off",
		},
		"more retired TPIDs than can be stripped": {
			change: func(f *inventory.Fleet) {
				retire(f, 0x9901, 0x9902)
			},
			seen: func(s *Seen, _ *inventory.Device) { s.Facts.Others = 1 },
			want: "leaf0: it has to strip tags of 0x9901, 0x9902 beside 0x9900 (the profile's retired TPIDs), and can strip 1 beside the domain's own: take those that no host sends",
		},
		"more TPIDs meanwhile than can be stripped": {
			change: func(f *inventory.Fleet) { retire(f, 0x9901) },
			seen: func(s *Seen, d *inventory.Device) {
				if had(0x9901, 0)(s, d); d.Name == "spine0" {
					s.Setup.TPID = 0x9903
				}
				s.Facts.Others = 1
			},
			want: "leaf0: it has to strip tags of 0x9900, 0x9903 beside 0x9901 (while the TPID changes), and can strip 1",
		},
		"retired TPIDs, and no strip": {
			change: func(f *inventory.Fleet) { retire(f, 0x9901) },
			seen:   func(s *Seen, _ *inventory.Device) { s.Facts.Strip, s.Facts.Others = refuse, 0 },
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
			seen: func(s *Seen, d *inventory.Device) {
				if d.Name == "leaf0" {
					s.NoDriver, s.Facts.Others = "csig has no driver for Plan 9", 0
				}
			},
			want: "leaf0:swp1, swp2: hosts get tags of 0x9901 here: csig sets nothing up on a device of level passthrough",
		},
		"a TPID that changes, and a device that nothing drives": {
			seen: func(s *Seen, d *inventory.Device) {
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
			want: "spine0: mixed profiles: it compares and replaces by itself for profile 0123456789ab…, and the fleet's is",
		},
		"a native device where the profile changes": {
			change: func(f *inventory.Fleet) { f.Devices[2].Level.Support = inventory.LevelNative },
			seen: func(s *Seen, d *inventory.Device) {
				if d.Name == "spine0" {
					s.Err = fmt.Errorf("no driver")
				} else if had(0x9900, 0)(s, d); true {
					s.Setup.Profile = strings.Repeat("ab", 32)
				}
			},
			want: "spine0: mixed profiles: the profile changes from abababababab… to ",
		},
		"unreachable": {
			seen: func(s *Seen, d *inventory.Device) {
				if d.Name == "leaf1" {
					s.Err = fmt.Errorf("no route to host")
				}
			},
			want: "leaf1: no route to host",
		},
		"asserted what it cannot": {
			change: func(f *inventory.Fleet) { f.Devices[0].Level.Support = inventory.LevelSoftware },
			seen:   func(s *Seen, _ *inventory.Device) { s.Facts.Update = refuse },
			want:   "leaf0: the fleet file says that its level is software, but it cannot do that: no hook; give it the level that it has",
		},
		"no driver, and it is to strip": {
			change: func(f *inventory.Fleet) { f.Devices[0].Ports[0].Action = vlanrules.Strip },
			seen: func(s *Seen, d *inventory.Device) {
				if d.Name == "leaf0" { // of a level that csig found, not the operator
					*s = Seen{NoDriver: "csig has no driver for Plan 9", Facts: vendors.Facts{Update: refuse, Strip: refuse}, Differ: &device{}}
				}
			},
			want: "leaf0:swp1: it cannot strip tags, and has to (the fleet file asks for it): no hook",
		},
		"no driver, and hosts that would get tags meanwhile": {
			change: func(f *inventory.Fleet) {
				f.Devices[0].Level.Support = inventory.LevelNative
				f.Devices[0].Ports[0].Action = vlanrules.Strip
			},
			seen: func(s *Seen, d *inventory.Device) {
				if d.Name == "leaf0" {
					*s = Seen{Err: fmt.Errorf("no driver")}
				}
			},
			want: "leaf0:swp2: hosts that read tags are there, while paths change that csig cannot have it strip for (csig does not drive it): have it strip by itself and say so (level: native for the device, action: strip for the port)",
		},
		"a discard device behind one that passes tags on": {
			change: func(f *inventory.Fleet) {
				f.Devices[0].Level.Support = inventory.LevelPassthrough
				f.Devices[2].Level.Support = inventory.LevelDiscard
				f.Devices[1].Ports[2].Action = vlanrules.Strip
			},
			want: "leaf0:up1: tagged frames are discarded at spine0",
		},
		"a discard device behind a native one": {
			change: func(f *inventory.Fleet) {
				f.Devices[0].Level.Support = inventory.LevelNative
				f.Devices[2].Level.Support = inventory.LevelDiscard
				f.Devices[1].Ports[2].Action = vlanrules.Strip
			},
			want: "leaf0:up1: tagged frames are discarded at spine0",
		},
		"a discard device behind a native one without a driver": {
			change: func(f *inventory.Fleet) {
				f.Devices[0].Level.Support = inventory.LevelNative
				f.Devices[2].Level.Support = inventory.LevelDiscard
				f.Devices[1].Ports[2].Action = vlanrules.Strip
			},
			seen: func(s *Seen, d *inventory.Device) {
				if d.Name == "leaf0" {
					*s = Seen{Err: fmt.Errorf("no driver")}
				}
			},
			want: "leaf0:up1: tagged frames are discarded at spine0",
		},
		"a discard device that alone names its peer": {
			change: func(f *inventory.Fleet) {
				f.Devices[2].Level.Support = inventory.LevelDiscard
				f.Devices[0].Ports[2].Peer = inventory.Peer{}
				f.Devices[1].Ports[2].Action = vlanrules.Strip
			},
			want: "leaf0:up1: tagged frames are discarded at spine0",
		},
		"a host without CSIG at a device that passes tags on": {
			change: func(f *inventory.Fleet) {
				f.Devices[0].Level.Support = inventory.LevelPassthrough
				f.Hosts[1].CSIG = false
			},
			want: "leaf0:swp2: host h0-1 does not speak CSIG and must never see a tag: set action: strip",
		},
		"hosts that send behind a device that discards": {
			change: func(f *inventory.Fleet) {
				f.Devices[0].Level = inventory.Level{Support: inventory.LevelDiscard, Reason: "old"}
				f.Devices[2].Ports[0].Action = vlanrules.Strip
			},
			want: "leaf0:swp1, swp2: it discards frames with a tag (old), and is the first hop of h0-0, h0-1, which would send some: set csig: false",
		},
		"table too small, as others hold some of it": {
			seen: func(s *Seen, _ *inventory.Device) {
				s.Facts.Rules = vlanrules.Caps{MatchPCP: true, Entries: 6, Taken: 4, Shared: true}
			},
			want: "needs 1 range entry for abw, 2 in the table (of its 6, others hold 4) are shared by 3 ports, 0 for each",
		},
		"table too small": {
			seen: func(s *Seen, _ *inventory.Device) {
				s.Facts.Rules = vlanrules.Caps{Match: vlanrules.MatchExact, MatchPCP: true, Modify: true, Txn: vlanrules.TxnEntry, Entries: 4096, Shared: true, Ports: 64}
			},
			want: "4,096 in the table are shared by 64 ports",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := fabric(2, 1, 2)
			if tc.change != nil {
				tc.change(f)
			}
			p := made(t, f, func(d *inventory.Device) Seen {
				s := unseen(d)
				if tc.seen != nil {
					tc.seen(&s, d)
				}
				return s
			}, Options{})
			var all []string
			for _, e := range p.Errors() {
				all = append(all, e.String())
			}
			if !strings.Contains(strings.Join(all, "\n"), tc.want) {
				t.Errorf("want %q in\n%s", tc.want, strings.Join(all, "\n"))
			}
			if !p.Empty() {
				t.Error("it has stages all the same")
			}
		})
	}
}

// A device that nothing drives is left alone: its neighbours see to it that no
// tag reaches it, and it is in no stage.
func TestNoDriver(t *testing.T) {
	f := fabric(2, 1, 2)
	for i := range 2 { // to the spine
		f.Devices[i].Ports[2].Action = vlanrules.Strip
	}
	p := made(t, f, func(d *inventory.Device) Seen {
		if d.Name != "spine0" {
			return unseen(d)
		}
		return Seen{NoDriver: "csig has no driver for Plan 9", Facts: vendors.Facts{
			Update: vlanrules.Verdict{Level: vlanrules.Refused, Reason: "no"}, Through: vlanrules.Verdict{Level: vlanrules.Degraded, Reason: "only if bridged"},
		}}
	}, Options{})
	if len(p.Errors()) > 0 || strings.Contains(outline(p), "spine0") || p.Empty() {
		t.Errorf("%v\n%s", p.Errors(), outline(p))
	}
	if d := p.device("spine0"); d.Level != "discard" || d.Reason != "only if bridged; where it does forward them, give it its level, passthrough or native, with the reason" {
		t.Errorf("%s: %s", d.Level, d.Reason)
	}
	if !slices.ContainsFunc(p.Findings, func(f Finding) bool {
		return f.String() == "spine0: left alone, its level is discard: csig has no driver for Plan 9"
	}) {
		t.Error(p.Findings)
	}
}

// A native device that csig does not drive may have hosts that read tags, and a
// neighbour that discards: the operator says which of its ports strip without
// csig. No step is for it.
func TestStripsWithoutCsig(t *testing.T) {
	f := fabric(2, 1, 2)
	f.Devices[0].Level.Support = inventory.LevelNative
	for i := range 2 {
		f.Devices[0].Ports[i].Action = vlanrules.Strip
	}
	p := made(t, f, func(d *inventory.Device) Seen {
		if d.Name == "leaf0" {
			return Seen{Err: fmt.Errorf("no driver")}
		}
		return unseen(d)
	}, Options{})
	if len(p.Errors()) > 0 || p.Empty() || strings.Contains(outline(p), "leaf0") {
		t.Errorf("%v\n%s", p.Errors(), outline(p))
	}
	if !slices.ContainsFunc(p.Findings, func(f Finding) bool {
		return strings.HasPrefix(f.String(), "leaf0:swp1, swp2: taken to strip tags without csig, as the fleet file says (level: native, action: strip)")
	}) {
		t.Error(p.Findings)
	}
}

// A link that only its far end names is a way for tags all the same: the fence
// is up on both sides of it.
func TestFenceFollowsLinksThatOneEndNames(t *testing.T) {
	for name, silent := range map[string]int{"the leaf": 0, "the spine": 2} {
		t.Run(name, func(t *testing.T) {
			f := fabric(2, 1, 2)
			for i := range f.Devices[silent].Ports {
				if p := &f.Devices[silent].Ports[i]; p.Peer.Port != "" {
					p.Peer = inventory.Peer{}
				}
			}
			for changed := range f.Devices {
				p := made(t, f, func(d *inventory.Device) Seen {
					s := unseen(d)
					if d.Name != f.Devices[changed].Name {
						s.Setup = wantOf(f, d, Level{Support: inventory.LevelSoftware})
					}
					return s
				}, Options{})
				if got := outline(p); len(p.Stages) == 0 || !strings.HasPrefix(got, "fence/") ||
					!strings.Contains(got, "leaf0 ") || !strings.Contains(got, "leaf1 ") {
					t.Errorf("%s changes: %s%v", f.Devices[changed].Name, got, p.Errors())
				}
			}
		})
	}
}

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
func had(tpid, wide uint16) func(s *Seen, d *inventory.Device) {
	return func(s *Seen, d *inventory.Device) {
		f := fabric(2, 1, 2)
		s.Setup = vendors.SetupOf(&f.Profile, f.Policy, d)
		s.Setup.TPID, s.Setup.WideTPID, s.Setup.Others = tpid, wide, nil
		s.Setup.DropOthers()
	}
}

// TestNewTPID migrates a fleet, lets hosts catch up, and forgets the old TPID.
func TestNewTPID(t *testing.T) {
	f := fabric(2, 1, 1)
	retire(f, 0x9901)
	state := map[string]vendors.Setup{}
	for i := range f.Devices {
		var s Seen
		had(0x9901, 0)(&s, &f.Devices[i])
		state[f.Devices[i].Name] = s.Setup
	}
	next := func(want string) {
		t.Helper()
		p := made(t, f, func(d *inventory.Device) Seen {
			s := unseen(d)
			s.Setup = state[d.Name]
			return s
		}, Options{Waves: []string{}})
		got := ""
		for s := range p.steps() {
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
spine0 0x9900, strips too: 
leaf0 0x9900, strips too: 0x9901
`)
	f.Policy.Retired = nil
	retire(f)
	next(`change/rest: leaf0 (update swp1, up1) leaf1 (update swp1, up1)
leaf0 0x9900, strips too: 
`)
}

// hop is what a path does at one port.
type hop struct{ device, port string }

// paths are all simple paths from host to host, by their egress ports.
func paths(f *inventory.Fleet) [][]hop {
	var out [][]hop
	var walk func(d *inventory.Device, so []hop)
	walk = func(d *inventory.Device, so []hop) {
		for i := range d.Ports {
			p := &d.Ports[i]
			path := append(slices.Clone(so), hop{d.Name, p.Name})
			next, ok := f.Device(p.Peer.Device)
			switch {
			case !ok:
				out = append(out, path)
			case !slices.ContainsFunc(path, func(h hop) bool { return h.device == next.Name }):
				walk(next, path)
			}
		}
	}
	for i := range f.Devices {
		if strings.HasPrefix(f.Devices[i].Name, "leaf") {
			walk(&f.Devices[i], nil)
		}
	}
	return out
}

// does is what a tag of a TPID meets on a path: "" where a port strips it.
// Damage that a step mends on its way is not a change of paths.
func does(state map[string]vendors.Setup, path []hop, tpid uint16) string {
	text := ""
	for _, h := range path {
		s := state[h.device]
		var port vendors.PortSetup
		for _, p := range s.Ports {
			if p.Port == h.port {
				port = p
			}
		}
		other := slices.Contains(s.Others, vendors.OtherTPID{TPID: tpid})
		switch own := tpid == s.TPID; {
		case port.Action == vlanrules.Strip && (own || other), port.StripOthers && other:
			return ""
		case port.Action == vlanrules.Update && own:
			text += fmt.Sprintf("%s:%s updates %s %s; ", h.device, h.port, s.Profile, s.OnStale)
		default:
			text += fmt.Sprintf("%s:%s passes; ", h.device, h.port)
		}
	}
	return text
}

// Whatever the fleet looks like before and is to look like afterwards, and in
// whatever order the steps of a wave end: a receiver gets a tag only over a
// path that is as it was at first or as it will be at last, never over one that
// is half changed; and a device that discards tags never sees one. That goes for
// tags of the fleet's TPID and of the one it had before, which receivers no
// longer get in the end.
func TestNoHalfChangedPath(t *testing.T) {
	stages := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		f := fabric(rapid.IntRange(1, 3).Draw(t, "leaves"), rapid.IntRange(1, 2).Draw(t, "spines"), rapid.IntRange(1, 2).Draw(t, "hosts"))
		state, discards := map[string]vendors.Setup{}, map[string]bool{}
		for i := range f.Devices {
			d := &f.Devices[i]
			switch rapid.IntRange(0, 5).Draw(t, "level") {
			case 0:
				d.Level.Support = inventory.LevelPassthrough
			case 1:
				if strings.HasPrefix(d.Name, "spine") && i+1 == len(f.Devices) {
					d.Level.Support, discards[d.Name] = inventory.LevelDiscard, true
				}
			}
		}
		const old = 0x9901
		tpids := []uint16{f.Profile.TPID}
		if rapid.Bool().Draw(t, "a TPID is retired") {
			tpids = append(tpids, old)
			f.Policy.Retired = []inventory.RetiredTPID{{TPID: old}}
		}
		settled := rapid.IntRange(0, 3).Draw(t, "settled") == 0 // all is done but at ports to hosts
		for i := range f.Devices {
			d := &f.Devices[i]
			for j := range d.Ports {
				p := &d.Ports[j]
				if discards[p.Peer.Device] {
					p.Action = vlanrules.Strip
				} else {
					p.Action = rapid.SampledFrom([]vlanrules.Action{vlanrules.Update, vlanrules.Update, vlanrules.Update, vlanrules.Strip, vlanrules.Passthrough}).Draw(t, "action")
				}
			}
			for j := range d.Ports {
				_, device := f.Device(d.Ports[j].Peer.Device)
				d.Ports[j].StripRetired = !device && f.Policy.Retired != nil && d.Ports[j].Action != vlanrules.Strip
			}
			full := vendors.SetupOf(&f.Profile, f.Policy, d)
			if settled {
				state[d.Name] = wantOf(f, d, LevelOf(d, &able, f.Profile.TPID))
				for j := range state[d.Name].Ports {
					if p := &state[d.Name].Ports[j]; strings.HasPrefix(p.Port, "swp") {
						p.Action = vlanrules.Action(rapid.IntRange(0, 2).Draw(t, "old action"))
					}
				}
				s := state[d.Name]
				s.DropOthers()
				state[d.Name] = s
				continue
			}
			switch rapid.IntRange(0, 3).Draw(t, "before") {
			case 0: // nothing
			case 1:
				state[d.Name] = full
			default:
				for j := range full.Ports {
					p := &full.Ports[j]
					p.Action = vlanrules.Action(rapid.IntRange(0, 2).Draw(t, "old action"))
					if discards[d.Ports[j].Peer.Device] {
						p.Action = vlanrules.Strip
					}
					p.Damaged = rapid.SampledFrom([]string{"", "", "", "chain"}).Draw(t, "damaged")
				}
				keep := rapid.IntRange(0, len(full.Ports)).Draw(t, "keep")
				if !slices.ContainsFunc(full.Ports[keep:], func(p vendors.PortSetup) bool { return discards[peerOf(d, p.Port)] }) {
					full.Ports = full.Ports[:keep]
				}
				full.TPID = rapid.SampledFrom(tpids).Draw(t, "tpid")
				full.Profile = rapid.SampledFrom([]string{"", full.Profile, "another"}).Draw(t, "profile")
				full.Others = nil
				full.DropOthers()
				if len(full.Ports) > 0 {
					state[d.Name] = full
				}
			}
		}
		o := Options{Goal: rapid.SampledFrom([]Goal{RollOut, TakeOff}).Draw(t, "goal"), Now: time.Unix(1e9, 0)}
		if o.Goal == TakeOff && len(discards) > 0 {
			return // without our strip a discard device is on its own again
		}
		p, err := Build(f, func(d *inventory.Device) Seen {
			s := unseen(d)
			s.Setup = state[d.Name]
			return s
		}, o)
		if err != nil {
			t.Fatal(err)
		}
		if e := p.Errors(); len(e) > 0 {
			t.Fatalf("errors: %v", e)
		}
		all := paths(f)
		before := maps.Clone(state)
		first, last := map[int]string{}, map[int]string{}
		final := map[string]vendors.Setup{}
		for name, s := range state {
			final[name] = s
		}
		for s := range p.steps() {
			final[s.Device] = s.Want
		}
		key := func(path, tpid int) int { return path*len(tpids) + tpid }
		for i, path := range all {
			for k, tpid := range tpids {
				first[key(i, k)], last[key(i, k)] = does(state, path, tpid), does(final, path, tpid)
				if h := path[len(path)-1]; tpid == old && o.Goal == RollOut && last[key(i, k)] != "" {
					t.Fatalf("in the end %v lets old tags through: %s", h, last[key(i, k)])
				}
			}
		}
		for i := range f.Devices {
			d := &f.Devices[i]
			want := vendors.Setup{}
			if o.Goal == RollOut {
				want = wantOf(f, d, LevelOf(d, &able, f.Profile.TPID))
			}
			if have := final[d.Name]; !sameSetup(&have, &want) {
				t.Fatalf("%s ends with %+v, want %+v", d.Name, have, want)
			}
		}
		for _, stage := range p.Stages {
			stages[stage.Name]++
			for _, w := range stage.Waves {
				steps := rapid.Permutation(w.Steps).Draw(t, "order")
				for _, s := range steps {
					state[s.Device] = s.Want
					for i, path := range all {
						for k, tpid := range tpids {
							got := does(state, path, tpid)
							if first, last := first[key(i, k)], last[key(i, k)]; got != "" && got != first && got != last {
								t.Fatalf("in %s, after %s, a receiver gets tags of 0x%04x over\n%s\nat first it was\n%s\nat last\n%s\nthe plan:\n%s", stage.Name, s.Device, tpid, got, first, last, outline(p))
							}
						}
						for n, h := range path[:len(path)-1] {
							to := path[:n+1]
							if discards[path[n+1].device] && does(state, to, f.Profile.TPID) != "" && (does(before, to, f.Profile.TPID) == "" || stage.Name != StageFence) {
								t.Fatalf("a tag reaches a discard device from %v", h)
							}
						}
					}
				}
			}
		}
	})
	for _, name := range []string{StageFence, StageReady, StageOpen, StageChange} {
		if stages[name] == 0 {
			t.Errorf("no plan had a stage %s", name)
		}
	}
}

func peerOf(d *inventory.Device, port string) string {
	p, _ := d.Port(port)
	return p.Peer.Device
}

func TestWaves(t *testing.T) {
	f := fabric(8, 2, 1)
	f.Devices[3].Tags = []string{"row-1"}
	f.Devices[4].Tags = []string{"row-1"}
	for _, tc := range []struct {
		waves []string
		want  string
	}{
		{nil, "canary 1, rest 9"},
		{[]string{"row-1", "50%", "100%"}, "row-1 2, 50% 3, 100% 5"},
		{[]string{"25%"}, "25% 3, rest 7"},
		{[]string{}, "rest 10"},
	} {
		p := made(t, f, unseen, Options{Waves: tc.waves})
		var got []string
		for _, w := range p.Stages[1].Waves {
			got = append(got, fmt.Sprint(w.Name, " ", len(w.Steps)))
		}
		if s := strings.Join(got, ", "); s != tc.want {
			t.Errorf("%v: %s, want %s", tc.waves, s, tc.want)
		}
	}
	for _, bad := range []string{"row-7", "0%", "101%", "x%", "1.5%", "%"} {
		if _, err := Build(f, unseen, Options{Waves: []string{bad}}); err == nil {
			t.Errorf("wave %q: no error", bad)
		}
	}
}
