package agent

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/vendors"
)

func TestLatency(t *testing.T) {
	var l latency
	for _, took := range []time.Duration{0, time.Millisecond, time.Millisecond + 1, 5 * time.Second, time.Minute} {
		l.note(took)
	}
	s := l.status()
	if want := time.Minute + 5*time.Second + 2*time.Millisecond + 1; s.Count != 5 || s.Sum != want {
		t.Errorf("%d took %v, want 5 and %v", s.Count, s.Sum, want)
	}
	for i, want := range map[int]api.Within{0: {Limit: time.Millisecond, Count: 2}, 1: {Limit: 2500 * time.Microsecond, Count: 3}, 11: {Limit: 5 * time.Second, Count: 4}, 12: {Limit: 10 * time.Second, Count: 4}} {
		if s.Most[i] != want {
			t.Errorf("%d: %+v, want %+v", i, s.Most[i], want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { l.note(time.Second) }); n != 0 {
		t.Errorf("counting allocates %v times", n)
	}
}

// TestSlowUpdates: updates that take longer than the schedule or its lease are a limitation with the
// time that they take, and a single one that was held up is none.
func TestSlowUpdates(t *testing.T) {
	for _, tc := range []struct {
		takes       time.Duration
		times       int
		level, want string
	}{
		{10 * time.Millisecond, 8, "", ""},
		{250 * time.Millisecond, 1, "", ""},
		{250 * time.Millisecond, 8, "degraded", "it is sampled every 100ms, but an update of its rules takes 250ms at least (ran): make its schedule longer"},
		{2 * time.Second, 8, "refused", "an update of its rules takes up to 2s (ran), and a lease lasts 300ms, 3 times its schedule: it would end first"},
	} {
		synctest.Test(t, func(t *testing.T) {
			drv := &recorder{}
			a := newTest(t, &script{}, drv)
			cycles(t, a, 8)
			drv.takes = tc.takes
			cycles(t, a, tc.times)
			drv.takes = 0
			cycles(t, a, 1)
			var got api.Verdict
			for _, v := range a.Status().Verdicts {
				if v.Code == findings.ScheduleTooFast {
					got = v
				}
			}
			if got.Level != tc.level || !strings.Contains(got.Reason, tc.want) {
				t.Errorf("%d updates of %v: %+v", tc.times, tc.takes, got)
			}
			if took := a.withMeasured(vendors.Facts{}).Traits.MinUpdate; tc.level != "" && took.Is != tc.takes {
				t.Errorf("for assess: %v", took)
			}
		})
	}
}

// TestLookDoesNotLengthenALease: a device that counts ages in whole seconds reports up to a second
// too much of what is left.
func TestLookDoesNotLengthenALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drv := &recorder{}
		a := newTest(t, &script{}, drv)
		cycles(t, a, 3)
		ends := a.Status().Cycle.LeaseEnds
		drv.update, drv.until = errors.New("busy"), ends.Add(time.Second)
		cycles(t, a, 1)
		if s := a.Status(); drv.looks == 0 || s.Cycle.LeaseEnds.After(ends) {
			t.Errorf("after %d looks it ends %v later", drv.looks, s.Cycle.LeaseEnds.Sub(ends))
		}
	})
}
