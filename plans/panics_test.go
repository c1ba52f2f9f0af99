package plans

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans/planstest"
	"github.com/csig-agent/csig/vendors"
)

// A plan goes on past a panic in the work for one device, wherever that is, and
// says so of that device.
func TestPlanPanics(t *testing.T) {
	bad := []string{"leaf0", "leaf1", "leaf2"}
	f := planstest.Fabric(4, 1, 1)
	p := made(t, f, func(d *inventory.Device) Observation {
		s := unseen(d)
		switch d.Name {
		case bad[0]:
			panic("seen")
		case bad[1]:
			s.Differ = panicsAt{diff: true}
		case bad[2]:
			s.Differ = panicsAt{}
		}
		return s
	}, Options{})
	named := map[string]bool{}
	for _, finding := range p.Errors() {
		if strings.Contains(finding.Reason, "a defect in csig, please report it") {
			named[finding.Device] = true
		}
	}
	if got := slices.Sorted(maps.Keys(named)); !slices.Equal(got, bad) || len(p.Devices) != len(f.Devices) {
		t.Errorf("errors of %v, want of %v; %d devices described", got, bad, len(p.Devices))
	}

	b := newBuilder(f, Options{})
	b.nodes = make([]node, len(f.Devices))
	b.parallel(func(i int) {
		if i == 1 {
			panic("any work")
		}
	})
	if len(b.plan.Findings) != 1 || b.plan.Findings[0].Device != "leaf1" || !strings.Contains(b.plan.Findings[0].Reason, "any work") {
		t.Errorf("findings %+v", b.plan.Findings)
	}
}

// panicsAt panics where it compares setups, else where it makes a configuration.
type panicsAt struct{ diff bool }

func (p panicsAt) Diff(vendors.Setup, vendors.Setup) ([]vendors.Change, error) {
	if p.diff {
		panic("diff")
	}
	return nil, nil
}

func (p panicsAt) Configured(want vendors.Setup) (vendors.Setup, error) {
	if !p.diff {
		panic("configured")
	}
	return want, nil
}
