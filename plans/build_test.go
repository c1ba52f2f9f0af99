package plans

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans/planstest"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

func unseen(d *inventory.Device) Observation {
	return Observation{Facts: planstest.Able, Differ: planstest.Differ{}, Via: "local"}
}

func made(t *testing.T, f *inventory.Fleet, seen func(*inventory.Device) Observation, o Options) *Plan {
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
	f := planstest.Fabric(2, 1, 2)
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
		final[f.Devices[i].Name] = WantOf(f, f.Profile.Hash(), &f.Devices[i], Level{Support: inventory.LevelSoftware})
	}
	seen := func(d *inventory.Device) Observation {
		s := unseen(d)
		s.Setup = final[d.Name]
		return s
	}
	if p := made(t, f, seen, Options{}); !p.Empty() || p.Totals != (Totals{}) {
		t.Errorf("a plan for what is there: %s%+v", outline(p), p.Totals)
	}
	off := made(t, f, seen, Options{Goal: TakeOff, Waves: []string{"canary"}})
	if !slices.ContainsFunc(off.Findings, func(f findings.Finding) bool {
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
	f := planstest.Fabric(2, 1, 2)
	seen := func(d *inventory.Device) Observation {
		s := unseen(d)
		s.Setup = WantOf(f, f.Profile.Hash(), d, Level{Support: inventory.LevelSoftware})
		if d.Name == "leaf1" {
			s.Setup.Ports[0].Action = vlanrules.Passthrough
		}
		return s
	}
	got := outline(made(t, f, seen, Options{}))
	if want := "change/canary: leaf1 (update swp1, swp2, up1)\n"; got != want {
		t.Errorf("got\n%s", got)
	}
}

// A link that only its far end names is a way for tags all the same: the fence
// is up on both sides of it.
func TestFenceFollowsLinksThatOneEndNames(t *testing.T) {
	for name, silent := range map[string]int{"the leaf": 0, "the spine": 2} {
		t.Run(name, func(t *testing.T) {
			f := planstest.Fabric(2, 1, 2)
			for i := range f.Devices[silent].Ports {
				if p := &f.Devices[silent].Ports[i]; p.Peer.Port != "" {
					p.Peer = inventory.Peer{}
				}
			}
			for changed := range f.Devices {
				p := made(t, f, func(d *inventory.Device) Observation {
					s := unseen(d)
					if d.Name != f.Devices[changed].Name {
						s.Setup = WantOf(f, f.Profile.Hash(), d, Level{Support: inventory.LevelSoftware})
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

func TestWaves(t *testing.T) {
	f := planstest.Fabric(8, 2, 1)
	f.Devices[3].Tags = []string{"row-1"}
	f.Devices[4].Tags = []string{"row-1", "row-2"}
	f.Devices[8].Tags, f.Devices[9].Tags = []string{"spine"}, []string{"spine"}
	for _, tc := range []struct {
		waves        []string
		fence, ready string // of 8 leaves, of all
	}{
		{nil, "canary 1, rest 7", "canary 1, rest 9"},
		{[]string{"row-1", "50%", "100%"}, "row-1 2, 50% 3, 100% 3", "row-1 2, 50% 4, 100% 4"},
		{[]string{"50%", "row-1"}, "50% 3, row-1 2, rest 3", "50% 4, row-1 2, rest 4"},
		{[]string{"25%"}, "25% 2, rest 6", "25% 3, rest 7"},
		{[]string{"spine", "10%", "50%"}, "10% 1, 50% 3, rest 4", "spine 2, 10% 1, 50% 3, rest 4"},
		{[]string{"1%"}, "1% 1, rest 7", "1% 1, rest 9"},
		{[]string{}, "rest 8", "rest 10"},
	} {
		p := made(t, f, unseen, Options{Waves: tc.waves})
		for i, want := range []string{tc.fence, tc.ready} {
			var got []string
			for _, w := range p.Stages[i].Waves {
				got = append(got, fmt.Sprint(w.Name, " ", len(w.Steps)))
			}
			if s := strings.Join(got, ", "); s != want {
				t.Errorf("%v, stage %s: %s, want %s", tc.waves, p.Stages[i].Name, s, want)
			}
		}
	}
	for bad, want := range map[string]string{
		"row-7": `no device of fabric.yaml has that tag`, "0%": "between 1% and 100%", "101%": "between 1%", "x%": "between 1%", "1.5%": "between 1%", "%": "between 1%", "+5%": "between 1%", "05%": "between 1%",
		"rest":         "the name of the last wave",
		"row-1,row-1":  `wave "row-1" is empty: the waves before it have every device with that tag`,
		"row-1,row-2":  `wave "row-2" is empty`,
		"50%,50%":      `wave "50%" is empty: percentages include the waves before them, and 5 of the 10 devices that no tag has are in those already; 50% of them are 5`,
		"50%,10%":      `wave "10%" is empty`,
		"10%,row-1,1%": `wave "1%" is empty: percentages include the waves before them, and 1 of the 8 devices`,
	} {
		if _, err := Build(f, unseen, Options{Waves: strings.Split(bad, ",")}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("waves %s: %v, want %q", bad, err, want)
		}
	}
	all := planstest.Fabric(1, 1, 1)
	all.Devices[0].Tags, all.Devices[1].Tags = []string{"x"}, []string{"x"}
	if _, err := Build(all, unseen, Options{Waves: []string{"x", "10%"}}); err == nil || !strings.Contains(err.Error(), "there are none") {
		t.Errorf("a percentage of nothing: %v", err)
	}
}

// One percent of a large fleet fences one percent of its leaves first, wherever
// in the file they are.
func TestWavesOfAFence(t *testing.T) {
	f := planstest.Fabric(312, 200, 1)
	slices.Reverse(f.Devices)
	p := made(t, f, unseen, Options{Waves: []string{"1%"}})
	if s := p.Stages[0]; s.Name != StageFence || len(s.Waves) != 2 || len(s.Waves[0].Steps) != 4 || len(s.Waves[1].Steps) != 308 {
		t.Errorf("stage %s: %d waves, the first of %d devices", s.Name, len(s.Waves), len(s.Waves[0].Steps))
	}
	for _, s := range p.Stages { // no device is lost, and none has two turns
		seen := map[string]bool{}
		for _, w := range s.Waves {
			for _, step := range w.Steps {
				seen[step.Device] = true
			}
		}
		if n := len(seen); s.Name == StageReady && n != 512 || s.Name != StageReady && n != 312 {
			t.Errorf("stage %s: %d devices", s.Name, n)
		}
	}
}
