package qualify_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/csig-agent/csig/qualify"
	"github.com/csig-agent/csig/qualify/qualifytest"
)

// TestSwapped: a healthy switch whose cables are swapped has no fault in its rules.
func TestSwapped(t *testing.T) {
	b := benchOf(t, qualifytest.NewBed(t, 2))
	b.Ports[0].Name, b.Ports[1].Name = b.Ports[1].Name, b.Ports[0].Name
	list := slices.DeleteFunc(qualify.All(), func(e qualify.Experiment) bool { return e.ID != "rule-key" && e.ID != "strip" })
	r := run(t, b, qualify.Options{Experiments: list})
	for _, id := range []string{"rule-key", "strip"} {
		if got := r.Result(id); got.Outcome != qualify.NotTested || !strings.Contains(got.Found, "are the cables swapped? what swp1 does with frames is seen at card eth1, and not at eth2") {
			t.Errorf("%s: %s: %s", id, got.Outcome, got.Found)
		}
	}
}

// TestCardCarrier: a card's own carrier, and its changes.
func TestCardCarrier(t *testing.T) {
	p := benchOf(t, qualifytest.NewBed(t, 2)).Ports[0]
	up, before, err := p.Carrier()
	if err != nil || !up {
		t.Fatalf("%v, %v", up, err)
	}
	for _, want := range []bool{false, true} {
		if err := p.Link(want); err != nil {
			t.Fatal(err)
		}
		if up, _, err := p.Carrier(); err != nil || up != want {
			t.Errorf("%v, %v; want %v", up, err, want)
		}
	}
	if _, after, err := p.Carrier(); err != nil || after <= before {
		t.Errorf("%d changes, and %d before; %v", after, before, err)
	}
}
