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
var able = vendors.Facts{Platform: "linux", Rules: vlanrules.Caps{MatchPCP: true}}

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
	got = outline(made(t, f, seen, Options{Goal: TakeOff, Waves: []string{"canary"}}))
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
			want: "leaf0:up1: spine0 discards tagged frames (drops unknown TPIDs): set action: strip",
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
			change: func(f *inventory.Fleet) {
				f.Devices[0].Level.Support = inventory.LevelPassthrough
				f.Devices[0].Ports[0].Action = vlanrules.Strip
			},
			seen: func(s *Seen, d *inventory.Device) {
				if d.Name == "leaf0" {
					*s = Seen{NoDriver: "csig has no driver for Plan 9", Facts: vendors.Facts{Update: refuse, Strip: refuse}, Differ: &device{}}
				}
			},
			want: "leaf0:swp1: it cannot strip tags, and has to (the fleet file asks for it): no hook",
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
	if d := p.device("spine0"); d.Level != "discard" || d.Reason != "only if bridged" {
		t.Errorf("%s: %s", d.Level, d.Reason)
	}
	if !slices.ContainsFunc(p.Findings, func(f Finding) bool {
		return f.String() == "spine0: left alone, its level is discard: csig has no driver for Plan 9"
	}) {
		t.Error(p.Findings)
	}
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

// does is what a tag meets on a path: "" where a port strips it. Damage that a
// step mends on its way is not a change of paths.
func does(state map[string]vendors.Setup, path []hop) string {
	text := ""
	for _, h := range path {
		s := state[h.device]
		action := vlanrules.Passthrough
		for _, p := range s.Ports {
			if p.Port == h.port {
				action = p.Action
			}
		}
		switch action {
		case vlanrules.Strip:
			return ""
		case vlanrules.Update:
			text += fmt.Sprintf("%s:%s updates %x %s; ", h.device, h.port, s.TPID, s.OnStale)
		default:
			text += fmt.Sprintf("%s:%s passes; ", h.device, h.port)
		}
	}
	return text
}

// Whatever the fleet looks like before and is to look like afterwards, and in
// whatever order the steps of a wave end: a receiver gets a tag only over a
// path that is as it was at first or as it will be at last, never over one that
// is half changed; and a device that discards tags never sees one.
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
			full := vendors.SetupOf(&f.Profile, f.Policy, d)
			if settled {
				state[d.Name] = wantOf(f, d, LevelOf(d, &able, f.Profile.TPID))
				for j := range state[d.Name].Ports {
					if p := &state[d.Name].Ports[j]; strings.HasPrefix(p.Port, "swp") {
						p.Action = vlanrules.Action(rapid.IntRange(0, 2).Draw(t, "old action"))
					}
				}
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
				full.TPID = rapid.SampledFrom([]uint16{0x9900, 0x9901}).Draw(t, "tpid")
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
		for i, path := range all {
			first[i], last[i] = does(state, path), does(final, path)
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
						got := does(state, path)
						if got != "" && got != first[i] && got != last[i] {
							t.Fatalf("in %s, after %s, a receiver gets tags over\n%s\nat first it was\n%s\nat last\n%s\nthe plan:\n%s", stage.Name, s.Device, got, first[i], last[i], outline(p))
						}
						for n, h := range path[:len(path)-1] {
							if discards[path[n+1].device] && does(state, path[:n+1]) != "" && (does(before, path[:n+1]) == "" || stage.Name != StageFence) {
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
