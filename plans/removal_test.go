package plans

import (
	"testing"

	"github.com/csig-agent/csig/plans/planstest"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// The fence of a device that is taken off strips what the device stripped before, too.
func TestFenceStripsOtherTPIDs(t *testing.T) {
	f := planstest.Fabric(2, 1, 2)
	retire(f, 0x9901)
	d := &f.Devices[0]
	s := unseen(d)
	s.Setup = vendors.SetupOf(&f.Profile, f.Policy, d)
	s.Setup.Ports[0].Action = vlanrules.Strip
	fence := NewFences(f).Of(d, s)
	if fence == nil {
		t.Fatal("no fence")
	}
	if !fence.Strips() || len(fence.Others) != 1 || fence.Others[0].TPID != 0x9901 {
		t.Errorf("%+v", fence)
	}
	for _, name := range []string{"swp1", "swp2"} {
		if fence.ActionOf(name) != vlanrules.Strip {
			t.Errorf("%s: %v", name, fence.ActionOf(name))
		}
	}
}
