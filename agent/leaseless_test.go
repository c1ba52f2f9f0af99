package agent

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// TestLeaseless: where the data plane cannot expire rules, the agent takes back
// what it wrote when a lease would have ended, and says so while it cannot.
func TestLeaseless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, drv := &script{}, &recorder{
			facts: vendors.Facts{Lease: vlanrules.Verdict{Level: vlanrules.Refused, Reason: "entries do not expire"}},
			have:  vendors.Setup{TPID: 0x9900},
		}
		a := newTest(t, src, drv)
		if drv.released != 1 {
			t.Errorf("released %d times at the start: nobody knows how old is what it found", drv.released)
		}
		cycles(t, a, 3)
		if s := a.Status(); s.DataPlane != api.DataPlaneLeased || drv.released != 1 {
			t.Fatalf("%s, released %d times", s.DataPlane, drv.released)
		}
		src.device = errors.New("no counters")
		cycles(t, a, 2)
		if s := a.Status(); s.DataPlane != api.DataPlaneLeased || drv.released != 1 {
			t.Errorf("after two lost cycles: %s, released %d times", s.DataPlane, drv.released)
		}
		drv.release = errors.New("Redis is gone")
		cycles(t, a, 3)
		s := a.Status()
		if s.DataPlane != api.DataPlaneFrozen || drv.released < 2 {
			t.Errorf("Release fails: %s, released %d times", s.DataPlane, drv.released)
		}
		if p := s.Ports[0]; p.State != api.StateStale || !strings.Contains(p.Reason, "goes on promising") || len(p.Signals) == 0 || p.Signals[0].Stale {
			t.Errorf("%+v", p)
		}
		drv.release = nil
		cycles(t, a, 1)
		n := drv.released
		cycles(t, a, 5)
		s = a.Status()
		if s.DataPlane != api.DataPlaneFallback || drv.released != n {
			t.Errorf("Release works: %s, released %d times more", s.DataPlane, drv.released-n)
		}
		if p := s.Ports[0]; len(p.Signals) == 0 || !p.Signals[0].Stale {
			t.Errorf("%+v", p)
		}
		src.device = nil
		cycles(t, a, 3)
		if s := a.Status(); s.DataPlane != api.DataPlaneLeased {
			t.Errorf("cycles again: %s", s.DataPlane)
		}
	})
}
