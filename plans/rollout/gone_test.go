package rollout

import (
	"slices"
	"strings"
	"testing"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/plans/planstest"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// TestPortThatIsGone: a device's setup names a port that it does not have any
// more. The plan goes through, and back, without ever asking for it.
func TestPortThatIsGone(t *testing.T) {
	f := planstest.Fabric(2, 1, 2)
	for _, goal := range []plans.Goal{plans.RollOut, plans.TakeOff} {
		t.Run(string(goal), func(t *testing.T) {
			w := &fleet{devices: map[string]vendors.Setup{}, lacks: "swp9"}
			seen := func(d *inventory.Device) plans.Observation {
				s := unseen(d)
				s.Setup = planstest.SetUp(d, 0x9900, 0)
				for _, p := range s.Setup.Ports {
					s.Facts.Ports = append(s.Facts.Ports, p.Port)
				}
				if d.Name == "leaf1" {
					s.Setup.Ports = append(slices.Clone(s.Setup.Ports), vendors.PortSetup{Port: "swp9", Action: vlanrules.Strip})
				}
				w.devices[d.Name] = s.Setup
				return s
			}
			p := made(t, f, seen, plans.Options{Goal: goal})
			var found []string
			for _, x := range p.Findings {
				if strings.Contains(x.Reason, "does not have any more") {
					found = append(found, string(x.Level)+" "+x.Place())
				}
			}
			if want := "warning leaf1:swp9"; strings.Join(found, ",") != want || len(p.Errors()) > 0 {
				t.Errorf("findings %q, want %q; errors %v", found, want, p.Errors())
			}
			steps := 0
			for s := range p.Steps() {
				if steps++; slices.ContainsFunc(s.Want.Ports, func(p vendors.PortSetup) bool { return p.Port == "swp9" }) {
					t.Errorf("step %d asks for it", s.ID)
				}
			}
			if steps == 0 {
				t.Fatal("no steps")
			}
			was := plans.Restored(w.devices["leaf1"], []string{"swp9"})
			j := begin(t, p)
			r := &Run{Journal: j, Open: w.open}
			if err := r.Apply(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.Journal = reopen(t, j)
			if err := r.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := w.devices["leaf1"]; hashOf(got) != hashOf(was) {
				t.Errorf("after the rollback %+v, want %+v", got, was)
			}
		})
	}
}
