package agent

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/csig-agent/csig/agent/api"
)

// TestRepairsInARow: of a device whose rules have to be restored again and again it is not known
// what it does; after one repair, or once they stay, status says what was written.
func TestRepairsInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		drv := &recorder{}
		a := newTest(t, &script{}, drv)
		a.log.Logger.SetOutput(&out)
		cycles(t, a, 3)
		repaired := func() *api.Status {
			drv.repaired = "flows of table 11"
			cycles(t, a, 1)
			drv.repaired = ""
			cycles(t, a, 3)
			return a.Status()
		}
		if s := repaired(); s.DataPlane != api.DataPlaneLeased || first(s).State != api.StateLive || strings.Contains(out.String(), "again") {
			t.Errorf("after one repair: %s, %+v\n%s", s.DataPlane, first(s), out.String())
		}
		s := repaired()
		if p := first(s); s.DataPlane != api.DataPlaneUnknown || p.State != api.StateUnknown || !strings.Contains(p.Reason, "2 times in a row") || !strings.Contains(out.String(), "restored again: another process changes them, or the device") {
			t.Errorf("after two: %s, %+v\n%s", s.DataPlane, p, out.String())
		}
		cycles(t, a, int(repairRest/a.cycle.lease)*4+20)
		if s := a.Status(); s.DataPlane != api.DataPlaneLeased || first(s).State != api.StateLive {
			t.Errorf("once they stay: %s, %+v", s.DataPlane, first(s))
		}
	})
}

func first(s *api.Status) api.Port { return s.Ports[0] }
