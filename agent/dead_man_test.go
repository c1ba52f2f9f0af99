package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
)

// withDeadMan is a device with a dead-man of its own, by a clock that runs whatever csig does.
type withDeadMan struct {
	*recorder
	at      time.Time // when it fires; zero: it is not armed
	after   time.Duration
	broken  bool // it never fires
	gone    bool // another process has removed it
	slow    time.Duration
	arms    int
	renewed int
}

// fired is what the device has done by now.
func (g *withDeadMan) fired() bool {
	fired := !g.broken && !g.at.IsZero() && !time.Now().Before(g.at)
	g.written = g.written && !fired
	return fired
}

func (g *withDeadMan) ArmDeadMan(_ context.Context, after time.Duration) (time.Duration, error) {
	time.Sleep(g.slow)
	g.arms++
	g.gone = false
	g.after = after.Round(time.Second) + time.Second // its clock has seconds
	g.at = time.Now().Add(g.after)
	return g.after, nil
}

func (g *withDeadMan) RenewDeadMan(context.Context) error {
	if g.fired() || g.gone {
		return fmt.Errorf("no such timer: %w", vendors.ErrDeadManFired)
	}
	g.renewed++
	g.at = time.Now().Add(g.after)
	return nil
}

func (g *withDeadMan) DeadManFired(context.Context) (bool, error) {
	if g.gone {
		return false, fmt.Errorf("no such timer: %w", vendors.ErrDeadManFired)
	}
	return g.fired(), nil
}

func (g *withDeadMan) Look(ctx context.Context) (vendors.DataPlane, error) {
	g.fired()
	return g.recorder.Look(ctx)
}

// deadManTest is an agent of such a device that has not run yet.
func deadManTest(t *testing.T, src *script) (*Agent, *withDeadMan) {
	t.Helper()
	g := &withDeadMan{recorder: configured()}
	g.facts.ConfigUpdates.DeadMan = "a timer"
	cfg := testConfig(t, src, g.recorder)
	cfg.Driver, cfg.Device.Updates = g, inventory.UpdatesCLI
	a, err := New(cfg)
	if err == nil {
		err = a.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return a, g
}

// proved runs cycles until the dead-man was seen to fire.
func proved(t *testing.T, a *Agent, g *withDeadMan, updates int) {
	t.Helper()
	for range 200 {
		cycles(t, a, 1)
		if a.Status().DeadMan.State == api.DeadManArmed {
			return
		}
		if len(g.updates) > updates {
			t.Fatal("updated before the dead-man had fired")
		}
	}
	t.Fatalf("not proved: %+v", a.Status().DeadMan)
}

// TestDeadManIsProved: nothing is updated before the dead-man was let to fire once; then it is
// armed again, and cycles renew it.
func TestDeadManIsProved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, g := deadManTest(t, &script{})
		if s := a.Status().DeadMan; s == nil || s.State != api.DeadManNone {
			t.Errorf("before the first cycle: %+v", s)
		}
		cycles(t, a, 3)
		if s := a.Status(); s.DeadMan.State != api.DeadManProving || s.DataPlane != api.DataPlaneNone || s.Cycle.Failed != 0 {
			t.Errorf("%+v, %s, %d cycles failed", s.DeadMan, s.DataPlane, s.Cycle.Failed)
		}
		proved(t, a, g, 0)
		s := a.Status()
		if took := time.Duration(s.DeadMan.ProvedNS); took < g.after || took > g.after+2*interval || g.arms != 2 || g.renewed != 0 {
			t.Errorf("proved after %v of %v, armed %d times, renewed %d times", took, g.after, g.arms, g.renewed)
		}
		cycles(t, a, 1200)
		s = a.Status()
		if g.arms != 2 || g.renewed < 5 || g.fired() || s.DeadMan.Fired != 0 || s.DataPlane != api.DataPlaneLeased || len(g.updates) == 0 {
			t.Errorf("armed %d times, renewed %d times, fired %t; %s", g.arms, g.renewed, g.fired(), s.DataPlane)
		}
	})
}

// TestDeadManThatDoesNotFire: it is armed once more; then nothing is updated, and status has why and what to do.
func TestDeadManThatDoesNotFire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, g := deadManTest(t, &script{})
		g.broken = true
		cycles(t, a, 300)
		s := a.Status()
		if g.arms != deadManTries {
			t.Errorf("armed %d times", g.arms)
		}
		if len(g.updates) != 0 || s.DeadMan.State != api.DeadManFailed || !strings.Contains(s.Cycle.LastError, "did not fire within") || !strings.Contains(s.Cycle.LastError, "lease: none") {
			t.Errorf("%d updates, %+v, last error: %s", len(g.updates), s.DeadMan, s.Cycle.LastError)
		}
	})
}

// TestDeadManOfStoppedAgent: an agent that is stopped behind a reading, or has no counters,
// does not renew; the dead-man fires within its time. Running again, what was read before
// renews nothing, the fallback is seen, and current values replace it.
func TestDeadManOfStoppedAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &script{}
		a, g := deadManTest(t, src)
		proved(t, a, g, 0)
		cycles(t, a, 30)
		renewed := g.renewed
		src.stop = g.after + time.Second // SIGSTOP: nothing of this process runs, and time passes
		cycles(t, a, 1)
		if !g.fired() || g.renewed != renewed || g.written {
			t.Fatalf("fired %t, renewed %d times while stopped", g.fired(), g.renewed-renewed)
		}
		src.stop, g.blind = 0, errors.New("it cannot be looked at")
		n, arms := len(g.updates), g.arms
		cycles(t, a, 1)
		if s := a.Status(); s.DeadMan.Fired != 1 || s.DeadMan.State != api.DeadManProving || s.DataPlane != api.DataPlaneFallback {
			t.Errorf("running again: %+v, %s", s.DeadMan, s.DataPlane)
		} else if why := s.Ports[0].Reason; !strings.Contains(why, "nothing was written for ") || strings.Contains(why, "lease") || strings.Contains(why, " -") {
			t.Errorf("the port falls back: %s", why)
		}
		proved(t, a, g, n)
		cycles(t, a, 2*int(every/interval))
		if s := a.Status(); s.DeadMan.Fired != 1 || g.fired() || !g.written || len(g.updates) == n || g.arms != arms+2 {
			t.Errorf("proved again: %+v, fired %t, written %t, armed %d times, %d updates more", s.DeadMan, g.fired(), g.written, g.arms-arms, len(g.updates)-n)
		}
	})
}

// TestDeadManOverdue: one that was not renewed for longer than its time, and has not fired, is
// none: ports fall back, and nothing is updated before it was let to fire again.
func TestDeadManOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &script{}
		a, g := deadManTest(t, src)
		proved(t, a, g, 0)
		cycles(t, a, 30)
		n, arms, released := len(g.updates), g.arms, g.released
		g.broken, src.stop = true, g.after+deadManGrace+time.Second
		cycles(t, a, 1)
		g.broken, g.at, src.stop = false, time.Time{}, 0
		cycles(t, a, 1)
		if s := a.Status().DeadMan; s.State != api.DeadManProving || s.ProvedNS != 0 || len(g.updates) != n || g.arms != arms+1 || g.released != released+1 {
			t.Errorf("%+v, armed %d times, released %d times, %d updates", s, g.arms-arms, g.released-released, len(g.updates)-n)
		}
		proved(t, a, g, n)
	})
}

// TestDeadManRemoved: one that another process has removed is armed, and proved again.
func TestDeadManRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, g := deadManTest(t, &script{})
		cycles(t, a, 3)
		g.gone = true
		cycles(t, a, 1)
		if s := a.Status().DeadMan; s.State != api.DeadManProving || s.ProvedNS != 0 || g.arms != 2 {
			t.Fatalf("removed in its proof: %+v, armed %d times", s, g.arms)
		}
		proved(t, a, g, 0)
		cycles(t, a, 30)
		n, released := len(g.updates), g.released
		g.gone = true
		for range int(g.after / interval) {
			cycles(t, a, 1)
		}
		if s := a.Status().DeadMan; s.State != api.DeadManProving || s.Fired != 1 || g.released != released+1 {
			t.Errorf("%+v, released %d times", s, g.released-released)
		}
		proved(t, a, g, n+1)
	})
}

// TestDeadManSeenLate: one that fired while the agent was stopped, perhaps after its time, is
// not proved by that: it has to fire once more.
func TestDeadManSeenLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &script{}
		a, g := deadManTest(t, src)
		cycles(t, a, 3)
		src.stop = g.after + deadManGrace + 10*time.Second
		cycles(t, a, 1)
		src.stop = 0
		cycles(t, a, 3)
		if s := a.Status().DeadMan; s.State != api.DeadManProving || s.ProvedNS != 0 || g.arms != 2 || len(g.updates) > 0 {
			t.Fatalf("%+v, armed %d times, %d updates", s, g.arms, len(g.updates))
		}
		proved(t, a, g, 0)
	})
}

// TestDeadManFiresEarly: where a renewal finds that it has fired before its time, ports fall
// back at once, since an update has just replaced its fallback, and it is proved again.
func TestDeadManFiresEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, g := deadManTest(t, &script{})
		proved(t, a, g, 0)
		cycles(t, a, 30)
		arms, released := g.arms, g.released
		g.at = time.Now()
		for range int(g.after / 2 / interval) {
			cycles(t, a, 1)
		}
		if s := a.Status().DeadMan; s.Fired != 1 || s.State != api.DeadManProving || g.arms != arms+1 || g.released != released+1 {
			t.Errorf("%+v, armed %d times more, released %d times", s, g.arms-arms, g.released-released)
		}
		proved(t, a, g, len(g.updates))
		cycles(t, a, 2*int(every/interval))
		if !g.written {
			t.Error("the fallback stays")
		}
	})
}

// TestDeadManOfLongerLease: cycles that come less often need a longer time.
func TestDeadManOfLongerLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, g := deadManTest(t, &script{})
		proved(t, a, g, 0)
		before, arms := g.after, g.arms
		a.cfg.Device.Interval = 2 * time.Second
		a.schedule = cron.ConstantDelaySchedule{Delay: a.cfg.Device.Interval}
		for range 3 {
			time.Sleep(2 * time.Second)
			_ = a.Cycle(t.Context())
		}
		if s := a.Status().DeadMan; g.after <= before || g.arms != arms+1 || s.State != api.DeadManArmed {
			t.Errorf("%v, before %v: %+v", g.after, before, s)
		}
	})
}

// TestDeadManOfAnotherDriver: what was proved of one device says nothing of another.
func TestDeadManOfAnotherDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, g := deadManTest(t, &script{})
		proved(t, a, g, 0)
		for _, same := range []bool{true, false} {
			b, h := deadManTest(t, &script{})
			if same {
				b.cfg.Driver = g
			}
			b.continueFrom(a, false)
			if got := b.Status().DeadMan.State == api.DeadManArmed; got != same || h.arms != 0 {
				t.Errorf("the same driver %t: proved %t", same, got)
			}
		}
	})
}

// TestDeadManOfSlowUpdate: an agent that is stopped in an update does not renew with what it
// read before.
func TestDeadManOfSlowUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, g := deadManTest(t, &script{})
		proved(t, a, g, 0)
		renewed := 0
		g.takes, g.tried = g.after-500*time.Millisecond, func() { renewed = g.renewed }
		for range int(2 * every / interval) {
			if cycles(t, a, 1); len(g.updates) > 0 {
				break
			}
		}
		if s := a.Status(); g.renewed != renewed || !strings.Contains(s.Cycle.LastError, "the reading was") {
			t.Errorf("renewed %d times: %s", g.renewed-renewed, s.Cycle.LastError)
		}
	})
}

// TestDeadManWithoutCounters: cycles that fail do not renew.
func TestDeadManWithoutCounters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &script{}
		a, g := deadManTest(t, src)
		proved(t, a, g, 0)
		g.release = errors.New("the session hangs") // nor can the agent withdraw anything
		src.device = errors.New("no counters")
		cycles(t, a, int(g.after/interval)+1)
		if !g.fired() || g.written {
			t.Errorf("fired %t, written %t", g.fired(), g.written)
		}
	})
}

// TestDeadManNotNeeded: with lease: none it is not touched, and a driver that names one and
// has none updates nothing.
func TestDeadManNotNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, g := deadManTest(t, &script{})
		a.cfg.Device.Lease = inventory.LeaseNone
		cycles(t, a, 10)
		if g.arms != 0 || len(g.updates) == 0 || a.Status().DeadMan != nil {
			t.Errorf("armed %d times, %d updates", g.arms, len(g.updates))
		}
		b, h := deadManTest(t, &script{})
		b.cfg.Driver = h.recorder
		cycles(t, b, 10)
		if s := b.Status(); len(h.updates) != 0 || !strings.Contains(s.Cycle.LastError, "cannot arm the dead-man") {
			t.Errorf("%d updates: %s", len(h.updates), s.Cycle.LastError)
		}
	})
}

// TestNoAdviceForArming: many lines of configuration take longer than an interval once, and a
// longer schedule is not advised for that.
func TestNoAdviceForArming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, g := deadManTest(t, &script{})
		g.slow = 3 * interval
		var out bytes.Buffer
		logger := logrus.New()
		logger.SetOutput(&out)
		a.log = logrus.NewEntry(logger)
		stop := run(t, a)
		time.Sleep(10 * interval)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if g.arms == 0 || a.Status().Cycle.Skipped == 0 || strings.Contains(out.String(), "lengthen the schedule") {
			t.Errorf("armed %d times, %d ticks skipped:\n%s", g.arms, a.Status().Cycle.Skipped, out.String())
		}
	})
}
