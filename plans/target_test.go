package plans

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans/planstest"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// after are the observations of devices that have what a plan gives them at last, and what
// they had before where it gives them nothing.
func after(p *Plan, before func(*inventory.Device) Observation) func(*inventory.Device) Observation {
	has := map[string]vendors.Setup{}
	for s := range p.Steps() {
		has[s.Device] = s.Want
	}
	return func(d *inventory.Device) Observation {
		o := before(d)
		if s, ok := has[d.Name]; ok {
			o.Setup = s
		}
		return o
	}
}

// messages are what stops a plan, and what it warns of because of its target.
func messages(p *Plan, level findings.Level) string {
	var out []string
	for _, f := range p.Findings {
		if f.Level == level && (level == findings.Error || f.Code == findings.OutsideTarget) {
			out = append(out, f.String())
		}
	}
	return strings.Join(out, "\n")
}

// TestTargetByPortions sets a fabric up in three plans, each of some devices, and takes it
// off again. None lets a tag reach a host over a path that is half set up.
func TestTargetByPortions(t *testing.T) {
	f := planstest.Fabric(2, 2, 1)
	seen := unseen
	for _, step := range []struct {
		goal   Goal
		target []string
		want   string
		held   string // devices that are waited for
		rely   string
	}{
		{RollOut, []string{"leaf*", "spine0"}, `fence/rest: leaf0 (strip swp1) leaf1 (strip swp1)
ready/rest: leaf0 (update up1, up2) (strip swp1) leaf1 (update up1, up2) (strip swp1) spine0 (update down1, down2)
`, "spine1", "spine1"},
		{RollOut, []string{"leaf0"}, "", "spine1", "leaf1 spine0 spine1"},
		{RollOut, []string{"spine1"}, "ready/rest: spine1 (update down1, down2)\n", "", "leaf0 leaf1 spine0"},
		{RollOut, []string{"leaf1"}, "change/rest: leaf1 (update swp1, up1, up2)\n", "", "leaf0 spine0 spine1"},
		{RollOut, nil, "change/rest: leaf0 (update swp1, up1, up2)\n", "", ""},
		{TakeOff, []string{"leaf[0,1]"}, `fence/rest: leaf0 (update up1, up2) (strip swp1) leaf1 (update up1, up2) (strip swp1)
ready/rest: leaf0 (strip swp1) leaf1 (strip swp1)
`, "spine0 spine1", "spine0 spine1"},
		{TakeOff, []string{"spine?"}, "ready/rest: spine0 spine1\n", "", "leaf0 leaf1"},
		{TakeOff, nil, "open/rest: leaf0 leaf1\n", "", ""},
	} {
		p := made(t, f, seen, Options{Goal: step.goal, Target: step.target, Waves: []string{}})
		got := outline(p)
		if e := messages(p, findings.Error); e != "" {
			t.Fatalf("%v: %s", step.target, e)
		}
		var rely, held []string
		for _, d := range p.RelyOn {
			rely = append(rely, d.Device)
		}
		for _, f := range p.Findings {
			if f.Code == findings.OutsideTarget {
				held = append(held, f.Device)
			}
		}
		if got != step.want || strings.Join(held, " ") != step.held || strings.Join(rely, " ") != step.rely {
			t.Errorf("%s %v: it waits for %v and relies on %v:\n%s", step.goal, step.target, held, rely, got)
		}
		for _, d := range p.Devices {
			if step.target != nil && slices.ContainsFunc(p.RelyOn, func(r Relied) bool { return r.Device == d.Device }) {
				t.Errorf("%v: %s is in the plan", step.target, d.Device)
			}
		}
		seen = after(p, seen)
		if again := made(t, f, seen, Options{Goal: step.goal, Target: step.target, Waves: []string{}}); !again.Empty() || again.Totals != (Totals{}) {
			t.Errorf("%v once more: %s%+v", step.target, outline(again), again.Totals)
		}
	}
}

func TestTargetRefused(t *testing.T) {
	setUp := func(f *inventory.Fleet, but ...string) func(d *inventory.Device) Observation {
		return func(d *inventory.Device) Observation {
			s := unseen(d)
			if !slices.Contains(but, d.Name) {
				s.Setup = WantOf(f, f.Profile.Hash(), d, Level{Support: inventory.LevelSoftware})
			}
			return s
		}
	}
	for name, tc := range map[string]struct {
		target  string
		change  func(f *inventory.Fleet)
		seen    func(f *inventory.Fleet) func(*inventory.Device) Observation
		errors  string
		held    string
		outline string
	}{
		"a spine of a bare fabric": {
			target: "spine0",
			errors: "leaf0:swp1, swp2: tags have to be stripped here while paths change, and the device is not in the target: add it, or plan for all devices\n" +
				"leaf1:swp1, swp2: tags have to be stripped here while paths change, and the device is not in the target: add it, or plan for all devices",
		},
		"a leaf whose hosts others reach": {
			target: "leaf0",
			errors: "leaf1:swp1, swp2: tags have to be stripped here while paths change",
		},
		"another profile": {
			target: "spine0",
			seen: func(f *inventory.Fleet) func(*inventory.Device) Observation {
				return func(d *inventory.Device) Observation {
					s := setUp(f)(d)
					s.Setup.Profile = strings.Repeat("0", 64)
					return s
				}
			},
			errors: "leaf0:swp1, swp2: tags have to be stripped here",
		},
		"an edge that does not answer": {
			target: "leaf0,spine0",
			seen: func(f *inventory.Fleet) func(*inventory.Device) Observation {
				return func(d *inventory.Device) Observation {
					if d.Name == "leaf1" {
						return Observation{Err: errors.New("no answer")}
					}
					return unseen(d)
				}
			},
			errors: "leaf1:swp1, swp2: tags have to be stripped here",
		},
		"a spine that does not answer": {
			target: "leaf*",
			seen: func(f *inventory.Fleet) func(*inventory.Device) Observation {
				return func(d *inventory.Device) Observation {
					if d.Name == "spine0" {
						return Observation{Err: errors.New("no answer")}
					}
					return unseen(d)
				}
			},
			held:    "spine0: not in the target, and not ready: csig can plan nothing for it: no answer; until it is, ports of the target",
			outline: "ready/rest: leaf0 (update up1) (strip swp1, swp2) leaf1 (update up1) (strip swp1, swp2)",
		},
		"an MTU that a neighbour lacks": {
			target: "leaf*",
			change: func(f *inventory.Fleet) {
				for i := range f.Hosts {
					f.Hosts[i].MTU = 1504
				}
			},
			seen: func(f *inventory.Fleet) func(*inventory.Device) Observation {
				return func(d *inventory.Device) Observation {
					s := setUp(f, "leaf0")(d)
					s.MTUs = map[string]int{}
					for _, p := range d.Ports {
						if s.MTUs[p.Name] = 9000; d.Name == "spine0" && p.Name == "down2" {
							s.MTUs[p.Name] = 1500
						}
					}
					return s
				}
			},
			held:    "spine0: not in the target, and not ready: full-size frames with their tags do not fit there yet (MTU 1500 of down2, want 1504)",
			outline: "leaf1 (update up1) (strip swp1, swp2)",
		},
		"a change that no path depends on": {
			target: "leaf1",
			seen: func(f *inventory.Fleet) func(*inventory.Device) Observation {
				return func(d *inventory.Device) Observation {
					s := setUp(f, "spine0")(d)
					if d.Name == "leaf1" {
						s.Setup.Ports = s.Setup.Ports[1:]
					}
					return s
				}
			},
			outline: "change/rest: leaf1 (update swp1, swp2, up1)\n",
		},
		"a device that is repaired behind an open fence": {
			target: "spine0",
			seen: func(f *inventory.Fleet) func(*inventory.Device) Observation {
				return setUp(f, "spine0")
			},
			errors: "leaf0:swp1, swp2: tags have to be stripped here",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := planstest.Fabric(2, 1, 2)
			if tc.change != nil {
				tc.change(f)
			}
			seen := unseen
			if tc.seen != nil {
				seen = tc.seen(f)
			}
			p := made(t, f, seen, Options{Target: strings.Split(tc.target, ","), Waves: []string{}})
			if got := messages(p, findings.Error); !strings.HasPrefix(got, tc.errors) || got != "" && tc.errors == "" {
				t.Errorf("errors: %s", got)
			}
			if got := messages(p, findings.Warning); !strings.HasPrefix(got, tc.held) || got != "" && tc.held == "" {
				t.Errorf("held: %s", got)
			}
			if got := outline(p); !strings.Contains(got, tc.outline) || tc.errors != "" && got != "" {
				t.Errorf("got\n%s", got)
			}
			if tc.held != "" && strings.Contains(outline(p), "open/") {
				t.Errorf("it opens:\n%s", outline(p))
			}
		})
	}
	if _, err := Build(planstest.Fabric(1, 1, 1), unseen, Options{Target: []string{"leaf7"}}); err == nil || err.Error() != "leaf7: fabric.yaml has no such device: want leaf0 or spine0" {
		t.Errorf("no such device: %v", err)
	}
	if _, err := Build(planstest.Fabric(1, 1, 1), unseen, Options{Target: []string{"leaf0"}, Waves: []string{"core"}}); err == nil || !strings.Contains(err.Error(), "no device of the target has that tag") {
		t.Errorf("a wave: %v", err)
	}
}

// TestTargetsAreSafe carries out plans for targets at random, one after the other, and wants
// each state in between to be safe: where a port to a host does not strip, the devices that
// tags reach from there update all, or none does.
func TestTargetsAreSafe(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := planstest.Fabric(3, 2, 1)
		if rapid.Bool().Draw(rt, "two parts") { // spine1 has leaf2 for itself
			for i := range f.Devices {
				d := &f.Devices[i]
				d.Ports = slices.DeleteFunc(d.Ports, func(p inventory.Port) bool {
					ends := d.Name + " " + p.Peer.Device
					own := strings.Contains(ends, "leaf2")
					return strings.Contains(ends, "spine") && strings.Contains(ends, "leaf") && own != strings.Contains(ends, "spine1")
				})
			}
		}
		has := map[string]vendors.Setup{}
		silent := map[string]bool{}
		seen := func(d *inventory.Device) Observation {
			s := unseen(d)
			if s.Setup = has[d.Name]; silent[d.Name] {
				return Observation{Err: errors.New("no answer")}
			}
			return s
		}
		profile := f.Profile.Hash()
		for range rapid.IntRange(1, 8).Draw(rt, "plans") {
			var target []string
			clear(silent)
			for i := range f.Devices {
				name := f.Devices[i].Name
				switch rapid.IntRange(0, 9).Draw(rt, name) {
				case 0, 1, 2, 3, 4, 5:
					target = append(target, name)
				case 6:
					silent[name] = true
				}
			}
			if len(target) == 0 {
				continue
			}
			goal := rapid.SampledFrom([]Goal{RollOut, RollOut, RollOut, TakeOff}).Draw(rt, "goal")
			p, err := Build(f, seen, Options{Goal: goal, Target: target, Waves: []string{}})
			if err != nil {
				rt.Fatal(err)
			}
			for s := range p.Steps() {
				if !slices.Contains(target, s.Device) {
					rt.Fatalf("%s is not in the target %v", s.Device, target)
				}
				has[s.Device] = s.Want
				if why := unsafe(f, profile, has); why != "" {
					rt.Fatalf("%s %v, step %d of %s: %s\n%s", goal, target, s.ID, s.Device, why, outline(p))
				}
			}
		}
	})
}

// unsafe is why what devices have lets hosts take a path for capable that is not; "" where
// it does not.
func unsafe(f *inventory.Fleet, profile string, has map[string]vendors.Setup) string {
	reached := func(from string) map[string]bool {
		out := map[string]bool{from: true}
		for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
			d, _ := f.Device(queue[0])
			for _, p := range d.Ports {
				if _, device := f.Device(p.Peer.Device); device && !out[p.Peer.Device] {
					out[p.Peer.Device] = true
					queue = append(queue, p.Peer.Device)
				}
			}
		}
		return out
	}
	for i := range f.Devices {
		d := &f.Devices[i]
		own := has[d.Name]
		open := slices.ContainsFunc(d.Ports, func(p inventory.Port) bool {
			_, device := f.Device(p.Peer.Device)
			return !device && own.ActionOf(p.Name) != vlanrules.Strip
		})
		if !open {
			continue
		}
		none, ready := 0, 0
		all := reached(d.Name)
		for name := range all {
			other, _ := f.Device(name)
			want := WantOf(f, profile, other, Level{Support: inventory.LevelSoftware})
			s := has[name]
			transit := func(s *vendors.Setup) (out []vendors.PortSetup) {
				for _, p := range s.Ports {
					if q, _ := other.Port(p.Port); q.Peer.Port != "" {
						out = append(out, p)
					}
				}
				return out
			}
			if len(transit(&s)) == 0 {
				none++
			}
			if s.TPID == want.TPID && slices.Equal(transit(&s), transit(&want)) {
				ready++
			}
		}
		if none != len(all) && ready != len(all) {
			return d.Name + " does not strip, and paths from it are half set up"
		}
	}
	return ""
}
