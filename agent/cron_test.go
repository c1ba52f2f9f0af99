package agent

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// pausing is a device that is sampled each 10 s, but for the last ten minutes of each hour.
var pausing = strings.NewReplacer("interval: 100ms", "interval: 10s", "    local: true\n", "    local: true\n    schedule: \"CRON_TZ=UTC */10 0-49 * * * *\"\n").Replace(deviceText)

// beforePause is a daemon with it shortly before a pause.
func beforePause(t *testing.T, drv *recorder) *keeper {
	t.Helper()
	time.Sleep(time.Until(time.Date(2000, 1, 3, 17, 49, 15, 0, time.UTC)))
	drv.have = vendors.Setup{TPID: 0x9900, Ports: []vendors.PortSetup{{Port: "swp1", Action: vlanrules.Update}}}
	k := newKeeper(t, drv, nil)
	k.begin(t)
	k.configure(t, pausing)
	return k
}

// A daemon whose schedule is a cron expression samples at its instants. Its lease ends some ticks after the
// last one before a pause, as it does behind a dead agent, and what comes after the pause is no lapse.
func TestDaemonOfACronExpression(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := beforePause(t, &recorder{})
		time.Sleep(time.Minute)
		const lease = vendors.LeasePeriods * 10 * time.Second
		last := time.Date(2000, 1, 3, 17, 49, 50, 0, time.UTC)
		if s := k.Status(); s.Cycle.Count != 4 || !s.Cycle.Last.Equal(last) || !s.Cycle.LeaseEnds.Equal(last.Add(lease)) || s.Ports[0].State != api.StateLive {
			t.Errorf("at the pause: %+v, %+v", s.Cycle, s.Ports)
		}
		time.Sleep(lease)
		if p := k.Status().Ports[0]; p.State != api.StateStale || p.Code != findings.LeaseEnded || !strings.HasSuffix(p.Reason, "the schedule pauses until 2000-01-03T18:00:00Z") {
			t.Errorf("in the pause: %+v", p)
		}
		time.Sleep(time.Until(time.Date(2000, 1, 3, 18, 0, 25, 0, time.UTC)))
		if s := k.Status(); s.Cycle.Count != 7 || s.Cycle.Lapses != 0 || s.Cycle.Hangs || s.Ports[0].State != api.StateLive {
			t.Errorf("after the pause: %+v, %+v", s.Cycle, s.Ports)
		}
		k.close(t)
	})
}

// Where rules cannot expire, the agent withdraws them itself once a pause has lasted for a lease.
func TestDaemonWithoutLeasePauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drv := &recorder{facts: vendors.Facts{Lease: vlanrules.Verdict{Level: vlanrules.Refused}}}
		k := beforePause(t, drv)
		time.Sleep(time.Minute)
		before := 0
		k.with(func(r *recorder) { before = r.released })
		time.Sleep(2 * time.Minute)
		k.with(func(r *recorder) {
			if r.released != before+1 {
				t.Errorf("released %d times in the pause, want once", r.released-before)
			}
		})
		if s := k.Status(); s.DataPlane != api.DataPlaneFallback {
			t.Errorf("%s: %s", s.DataPlane, s.DataPlaneReason)
		}
		k.close(t)
	})
}
