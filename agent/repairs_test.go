package agent

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/vendors"
)

func first(s *api.Status) api.Port { return s.Ports[0] }

func flowsOf(port string) vendors.Repairs {
	return vendors.Repairs{{Port: port, Object: "flows", Text: "flows of table 11 were changed"}}
}

// TestRepairsInARow: of a port whose rules have to be restored again and again it is not known
// what it does; after one repair that was read back, or once they stay, status says what was written.
func TestRepairsInARow(t *testing.T) {
	for _, tc := range []struct {
		name, port, plane string // the plane while it is unknown
	}{
		{"of a port", "swp1", api.DataPlaneLeased},
		{"of all ports", "", api.DataPlaneUnknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				drv := &recorder{}
				a := newTest(t, &script{}, drv)
				a.log.Logger.SetOutput(&out)
				cycles(t, a, 3)
				repaired := func() *api.Status {
					drv.repaired = flowsOf(tc.port)
					cycles(t, a, 1)
					drv.repaired = nil
					cycles(t, a, 3)
					return a.Status()
				}
				if s := repaired(); s.DataPlane != api.DataPlaneLeased || first(s).State != api.StateLive || strings.Contains(out.String(), "again") {
					t.Errorf("after one repair: %s, %+v\n%s", s.DataPlane, first(s), out.String())
				}
				s := repaired()
				if p := first(s); s.DataPlane != tc.plane || p.State != api.StateUnknown || len(p.Signals) > 0 || !strings.Contains(p.Reason, "2 times in a row") || !strings.Contains(out.String(), "restored again: another process changes them, or the device") {
					t.Errorf("after two: %s, %+v\n%s", s.DataPlane, p, out.String())
				}
				cycles(t, a, int(repairRest/a.cycle.lease)*4+20)
				if s := a.Status(); s.DataPlane != api.DataPlaneLeased || first(s).State != api.StateLive {
					t.Errorf("once they stay: %s, %+v", s.DataPlane, first(s))
				}
			})
		})
	}
}

// TestRepairsOfOthers: neither repairs of another object nor those of another port end a row, and
// those of another port do not concern a port.
func TestRepairsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drv := &recorder{}
		a := newTest(t, &script{}, drv)
		cycles(t, a, 3)
		one := func(port, object string) {
			drv.repaired = vendors.Repairs{{Port: port, Object: object, Text: object}}
			cycles(t, a, 1)
			drv.repaired = nil
			cycles(t, a, 1)
		}
		for range 3 {
			one("swp2", "flows")
		}
		if s := a.Status(); s.DataPlane != api.DataPlaneLeased || first(s).State != api.StateLive {
			t.Errorf("another port's: %s, %+v", s.DataPlane, first(s))
		}
		for _, what := range [][2]string{{"swp1", "flows"}, {"swp2", "flows"}, {"swp1", "record"}, {"", "record"}} {
			one(what[0], what[1])
			if s := a.Status(); first(s).State != api.StateLive {
				t.Errorf("each once: %+v", first(s))
			}
		}
		one("swp1", "flows")
		if s := a.Status(); first(s).State != api.StateUnknown {
			t.Errorf("its flows the second time: %+v", first(s))
		}
		time.Sleep(2 * repairGap)
		one("swp2", "flows")
		if len(a.cycle.repairs) != 1 {
			t.Errorf("rows are kept that have ended: %v", a.cycle.repairs)
		}
	})
}

// TestLiveAfterReadBack: where a driver reads the device before it writes, a port is live when the
// device was read after the first value, and after each repair.
func TestLiveAfterReadBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		drv := &recorder{before: true}
		a := newTest(t, &script{}, drv)
		a.log.Logger.SetOutput(&out)
		is := func(what, plane, state, reason string) {
			t.Helper()
			s := a.Status()
			if p := first(s); s.DataPlane != plane || p.State != state || !strings.Contains(p.Reason, reason) || (len(p.Signals) > 0) != (state == api.StateLive) {
				t.Errorf("%s: %s (%s), %+v", what, s.DataPlane, s.DataPlaneReason, p)
			}
			if strings.Contains(out.String(), "to=live") != (state == api.StateLive) {
				t.Errorf("%s: %s", what, out.String())
			}
		}
		cycles(t, a, 2)
		is("written", api.DataPlaneNone, api.StateWaiting, "not read back")
		drv.repaired = flowsOf("")
		cycles(t, a, 1)
		is("it had none of it", api.DataPlaneNone, api.StateWaiting, "flows of table 11")
		cycles(t, a, 1)
		is("and again", api.DataPlaneUnknown, api.StateUnknown, "2 times in a row")
		drv.repaired = nil
		cycles(t, a, int(repairRest/interval)+1)
		is("it was read", api.DataPlaneLeased, api.StateLive, "")
		drv.repaired = flowsOf("swp1")
		time.Sleep(repairGap)
		cycles(t, a, 2)
		drv.repaired = nil
		cycles(t, a, 1)
		if p := first(a.Status()); p.State != api.StateUnknown {
			t.Errorf("two repairs of the port: %+v", p)
		}
	})
}

// TestRepairsOfFailedUpdates: what an update restored before it failed counts as well.
func TestRepairsOfFailedUpdates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drv := &recorder{}
		a := newTest(t, &script{}, drv)
		cycles(t, a, 3)
		drv.repaired, drv.update = flowsOf("swp1"), vendors.ErrNotInHardware
		cycles(t, a, 2)
		if s := a.Status(); s.Cycle.Repairs != 2 || first(s).State != api.StateUnknown {
			t.Errorf("%d repairs, %+v", s.Cycle.Repairs, first(s))
		}
	})
}
