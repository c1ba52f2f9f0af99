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
		var log strings.Builder
		a := newTest(t, src, drv)
		a.log.Logger.SetOutput(&log)
		said := func(want string) {
			t.Helper()
			if text := log.String(); !strings.Contains(text, want) || strings.Contains(text, "the lease") {
				t.Errorf("the log lacks %q, or speaks of a lease:\n%s", want, text)
			}
			log.Reset()
		}
		if drv.released != 1 {
			t.Errorf("released %d times at the start: the age of what it found is unknown", drv.released)
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
		if p := s.Ports[0]; p.State != api.StateStale || !strings.Contains(p.Reason, "what was written last stays advertised") || len(p.Signals) == 0 || p.Signals[0].Stale {
			t.Errorf("%+v", p)
		}
		said("the last values stay advertised")
		src.device = nil
		cycles(t, a, 2)
		said("the last values stayed advertised; they are current again")
		src.device = errors.New("no counters")
		cycles(t, a, 6)
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
		said("the agent had made the ports fall back; they are current again")
	})
}

// TestLeaselessStart: what an earlier agent left is taken back at the start, and
// nothing is where there was nothing. A fallback that was seen stays one, though
// it cannot be read any more: without a lease nothing changes by itself.
func TestLeaselessStart(t *testing.T) {
	for _, found := range []vendors.Setup{{}, {TPID: 0x9900}} {
		synctest.Test(t, func(t *testing.T) {
			src, drv := &script{}, &recorder{have: found, facts: vendors.Facts{Lease: vlanrules.Verdict{Level: vlanrules.Refused}}}
			a := newTest(t, src, drv)
			want := 0
			if found.TPID != 0 {
				want = 1
			}
			if drv.released != want {
				t.Errorf("%+v: released %d times", found, drv.released)
			}
			cycles(t, a, 3)
			src.device = errors.New("no counters")
			cycles(t, a, 6)
			drv.blind = errors.New("no way there")
			cycles(t, a, 12)
			if s := a.Status(); s.DataPlane != api.DataPlaneFallback || s.DataPlaneReason != "it cannot be looked at: no way there" {
				t.Errorf("%s: %s", s.DataPlane, s.DataPlaneReason)
			}
		})
	}
}
