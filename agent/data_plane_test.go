package agent

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// TestStatusAfterOffPastAHungDaemon: csig off takes everything off past a daemon
// whose reading hangs, before and behind the end of its lease. What it says from
// then on is what is there.
func TestStatusAfterOffPastAHungDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drv := &recorder{}
		k, mark := marked(t, drv, nil)
		if err := os.Remove(mark); err != nil {
			t.Fatal(err)
		}
		k.begin(t)
		defer k.close(t)
		time.Sleep(5 * interval)
		if s := k.Status(); s.DataPlane != api.DataPlaneLeased {
			t.Fatalf("the data plane is %s: %s", s.DataPlane, s.DataPlaneReason)
		}
		if err := os.WriteFile(mark, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		k.with((*recorder).clear)
		time.Sleep(interval + interval/2)
		s := k.Status()
		if p := s.Ports[0]; s.DataPlane != api.DataPlaneAbsent || p.State != api.StateLost || len(p.Signals) != 0 || time.Since(s.DataPlaneSeen) > 2*interval {
			t.Errorf("%s (%s), seen at %v, port %+v", s.DataPlane, s.DataPlaneReason, s.DataPlaneSeen, p)
		}
		if left := k.Left(); !strings.Contains(left, "nothing of csig is on this device") {
			t.Errorf("it leaves %q", left)
		}
	})
}

// TestLookWhileAReadingHangs: the lease ends while no cycle can, and the device
// is looked at all the same.
func TestLookWhileAReadingHangs(t *testing.T) {
	for _, tc := range []struct {
		name  string
		edit  func(*recorder)
		plane string
		stale int
	}{
		{"it falls back", func(*recorder) {}, api.DataPlaneFallback, 2},
		{"csig off", (*recorder).clear, api.DataPlaneAbsent, 0},
		{"it cannot be looked at", func(r *recorder) { r.blind = errors.New("no way there") }, api.DataPlaneUnknown, 0},
		{"the look panics", func(r *recorder) { r.blind = errPanic }, api.DataPlaneUnknown, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src, drv := &script{}, &recorder{}
				a := newTest(t, src, drv)
				stop := run(t, a)
				time.Sleep(5*interval + interval/2)
				synctest.Wait()
				block := make(chan struct{})
				src.block.Store(&block)
				a.driverMu.Lock() // a cycle may be there
				tc.edit(drv)
				a.driverMu.Unlock()
				time.Sleep(vendors.MinLease + interval)
				s := a.Status()
				if s.DataPlane != tc.plane || len(s.Ports[0].Signals) != tc.stale {
					t.Errorf("%s (%s), %+v; want %s", s.DataPlane, s.DataPlaneReason, s.Ports[0], tc.plane)
				}
				time.Sleep(10 * lookEvery)
				a.driverMu.Lock()
				if drv.looks < 10 || drv.looks > 12 {
					t.Errorf("looked %d times in 10 s", drv.looks)
				}
				a.driverMu.Unlock()
				close(block)
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestLookGivesWay: a look at a device that does not answer delays no update, neither
// one that is to renew a lease nor one that comes after its end.
func TestLookGivesWay(t *testing.T) {
	t.Run("after a failed cycle", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			src, drv := &script{}, &recorder{hangs: func() bool { return true }}
			a := newTest(t, src, drv)
			for i := range 8 {
				src.device, src.stop = nil, 0
				if i == 4 {
					src.device, src.stop = errors.New("no answer"), interval*8/10
				}
				next := time.Now().Add(interval)
				if err := a.Cycle(t.Context()); (err != nil) != (i == 4) {
					t.Error(err)
				}
				if late := time.Since(next); late > 0 {
					t.Errorf("cycle %d is late by %v", i+1, late)
				}
				time.Sleep(time.Until(next))
			}
			if s := a.Status(); s.Cycle.Lapses != 0 || s.DataPlane != api.DataPlaneLeased || drv.looks != 1 {
				t.Errorf("%d lapses, %s, %d looks", s.Cycle.Lapses, s.DataPlane, drv.looks)
			}
		})
	})
	for name, tooOld := range map[string]bool{"while a reading hangs": false, "while a reading hangs for too long": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var answers atomic.Bool
				src, drv := &script{}, &recorder{hangs: func() bool { return !answers.Load() }}
				a := newTest(t, src, drv)
				stop := run(t, a)
				time.Sleep(5*interval + interval/2)
				synctest.Wait()
				block := make(chan struct{})
				src.block.Store(&block)
				time.Sleep(vendors.MinLease)
				for a.driverMu.TryLock() { // until it looks
					a.driverMu.Unlock()
					time.Sleep(interval / 10)
					synctest.Wait()
				}
				if tooOld {
					time.Sleep(vendors.MinLease)
				}
				next := make(chan struct{})
				src.block.Store(&next)
				answers.Store(true)
				close(block)
				synctest.Wait()
				want := api.DataPlaneLeased
				if tooOld { // that was given way to a cycle which failed, and looked itself
					want = api.DataPlaneFallback
				}
				if s := a.Status(); s.DataPlane != want || !tooOld && s.Cycle.Lapses != 1 || s.DataPlaneReason != "" {
					t.Errorf("%s (%s), %d lapses; want %s", s.DataPlane, s.DataPlaneReason, s.Cycle.Lapses, want)
				}
				src.block.Store(nil)
				close(next)
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestEndSaysWhatIsThere: what an agent leaves behind is what it sees at its end.
func TestEndSaysWhatIsThere(t *testing.T) {
	refused := errors.New("another process holds the bridge")
	for _, tc := range []struct {
		name string
		edit func(*recorder)
		err  string // "": none
		left string
	}{
		{"released", func(*recorder) {}, "", "the data plane has fallen back (conservative), and the setup stays"},
		{"csig off came before", (*recorder).clear, "", "nothing of csig is on this device"},
		{"csig off came before, and the release is refused", func(r *recorder) { r.clear(); r.release = refused }, "", "nothing of csig is on this device"},
		{"the release is refused", func(r *recorder) { r.release = refused }, "another process holds the bridge; ports write what they were given last until the lease ends, in 2", "ports write what they were given last"},
		{"the release is refused, without a lease", func(r *recorder) {
			r.release, r.facts.Lease = refused, vlanrules.Verdict{Level: vlanrules.Refused}
		}, "another process holds the bridge; ports", "stay"},
		{"it cannot be looked at", func(r *recorder) { r.blind = refused }, "", "what the data plane does is not known: it cannot be looked at: another process"},
		{"another process's rules", func(r *recorder) {
			r.blind = &vendors.PermanentError{Err: &vendors.ForeignError{What: "there is another table"}}
		}, "", "there is another table"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				drv := &recorder{}
				a := newTest(t, &script{}, drv)
				if strings.Contains(tc.name, "without a lease") {
					a.facts.Lease = vlanrules.Verdict{Level: vlanrules.Refused}
				}
				stop := run(t, a)
				time.Sleep(5*interval + interval/2)
				a.driverMu.Lock()
				tc.edit(drv)
				a.driverMu.Unlock()
				if err := stop(); (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
					t.Errorf("%v, want %q", err, tc.err)
				}
				if strings.Contains(tc.name, "without a lease") {
					time.Sleep(vendors.MinLease) // nothing takes it back
				}
				if left := a.Left(); !strings.Contains(left, tc.left) {
					t.Errorf("it leaves %q, want %q", left, tc.left)
				}
			})
		})
	}
}

// TestLogOfALapse: a lease that ended is said to have left the fallback only
// where rules of ours were there.
func TestLogOfALapse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		src, drv := &script{}, &recorder{}
		a := newTest(t, src, drv)
		a.log.Logger.SetOutput(&out)
		a.log.Logger.SetLevel(logrus.InfoLevel)
		cycles(t, a, 3)
		src.device = errors.New("no answer")
		drv.clear()
		cycles(t, a, 5)
		src.device = nil
		cycles(t, a, 2)
		if text := out.String(); !strings.Contains(text, "rules were missing or changed") || strings.Contains(text, "had fallen back") || strings.Count(text, "looked at the data plane: nothing of csig") != 1 {
			t.Errorf("the log:\n%s", text)
		}
	})
}

// TestLookOfADriverThatOnlyObserves: a setup that is there falls back when its
// lease is over, and not before; one that is gone does nothing.
func TestLookOfADriverThatOnlyObserves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, drv := &script{}, &recorder{have: vendors.Setup{TPID: 0x9900, Ports: []vendors.PortSetup{{Port: "swp1", Action: vlanrules.Update}}}}
		cfg := testConfig(t, src, drv)
		cfg.Driver = struct{ vendors.Driver }{drv}
		a, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		cycles(t, a, 3)
		src.device = errors.New("no answer")
		for i, want := range []string{api.DataPlaneLeased, api.DataPlaneLeased, api.DataPlaneFallback} {
			cycles(t, a, 1)
			if s := a.Status(); s.DataPlane != want {
				t.Errorf("after %d lost cycles: %s (%s), want %s", i+1, s.DataPlane, s.DataPlaneReason, want)
			}
		}
		drv.have = vendors.Setup{}
		cycles(t, a, 10)
		if s := a.Status(); s.DataPlane != api.DataPlaneAbsent {
			t.Errorf("without a setup: %s (%s)", s.DataPlane, s.DataPlaneReason)
		}
	})
}

// TestEndOfADeviceNotSeenAnyMore: that nothing was there once excuses no release
// that fails now.
func TestEndOfADeviceNotSeenAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, drv := &script{}, &recorder{}
		a := newTest(t, src, drv)
		cycles(t, a, 3)
		src.device = errors.New("no answer")
		drv.clear()
		cycles(t, a, 1)
		drv.blind, drv.release = errors.New("no way there"), errors.New("no connection")
		if err := a.release(); err == nil || !strings.Contains(err.Error(), "no connection") {
			t.Errorf("%v", err)
		}
	})
}
