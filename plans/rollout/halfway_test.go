package rollout

import (
	"fmt"
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
		f := planstest.Fabric(rapid.IntRange(1, 3).Draw(t, "leaves"), rapid.IntRange(1, 2).Draw(t, "spines"), rapid.IntRange(1, 2).Draw(t, "hosts"))
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
				state[d.Name] = plans.WantOf(f, f.Profile.Hash(), d, plans.LevelOf(d, &planstest.Able, f.Profile.TPID))
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
		o := plans.Options{Goal: rapid.SampledFrom([]plans.Goal{plans.RollOut, plans.TakeOff}).Draw(t, "goal"), Now: time.Unix(1e9, 0)}
		if o.Goal == plans.TakeOff && len(discards) > 0 {
			return // without our strip a discard device is on its own again
		}
		p, err := plans.Build(f, func(d *inventory.Device) plans.Observation {
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
		for s := range p.Steps() {
			final[s.Device] = s.Want
		}
		key := func(path, tpid int) int { return path*len(tpids) + tpid }
		for i, path := range all {
			for k, tpid := range tpids {
				first[key(i, k)], last[key(i, k)] = does(state, path, tpid), does(final, path, tpid)
				if h := path[len(path)-1]; tpid == old && o.Goal == plans.RollOut && last[key(i, k)] != "" {
					t.Fatalf("in the end %v lets old tags through: %s", h, last[key(i, k)])
				}
			}
		}
		for i := range f.Devices {
			d := &f.Devices[i]
			want := vendors.Setup{}
			if o.Goal == plans.RollOut {
				want = plans.WantOf(f, f.Profile.Hash(), d, plans.LevelOf(d, &planstest.Able, f.Profile.TPID))
			}
			if have := final[d.Name]; !plans.SameSetup(&have, &want) {
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
								t.Fatalf("in %s, after %s, a receiver gets tags of 0x%04x over\n%s\nat first it was\n%s\nat last\n%s\nthe plan:\n%s", stage.Name, s.Device, tpid, got, first, last, fmt.Sprintf("%+v", p.Stages))
							}
						}
						for n, h := range path[:len(path)-1] {
							to := path[:n+1]
							if discards[path[n+1].device] && does(state, to, f.Profile.TPID) != "" && (does(before, to, f.Profile.TPID) == "" || stage.Name != plans.StageFence) {
								t.Fatalf("a tag reaches a discard device from %v", h)
							}
						}
					}
				}
			}
		}
	})
	for _, name := range []string{plans.StageFence, plans.StageReady, plans.StageOpen, plans.StageChange} {
		if stages[name] == 0 {
			t.Errorf("no plan had a stage %s", name)
		}
	}
}

func peerOf(d *inventory.Device, port string) string {
	p, _ := d.Port(port)
	return p.Peer.Device
}
