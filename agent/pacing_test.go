package agent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// every is the shortest interval between two updates of the tests' configured device.
const every = 2 * time.Second

// configured is a device whose updates are changes of its configuration.
func configured() *recorder {
	return &recorder{facts: vendors.Facts{
		Lease:         vlanrules.Verdict{Level: vlanrules.Refused, Reason: "lines do not expire"},
		ConfigUpdates: &vendors.ConfigUpdates{Interval: vendors.That(every, vendors.Source{Mark: vendors.Assumed, From: "the test"}), Lines: 3},
	}}
}

// pacedTest is an agent of it that has programmed its first value.
func pacedTest(t *testing.T, src *script, drv *recorder) *Agent {
	t.Helper()
	cfg := testConfig(t, src, drv)
	cfg.Device.Updates, cfg.Device.Lease = inventory.UpdatesCLI, inventory.LeaseNone
	a, err := New(cfg)
	if err == nil {
		err = a.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	cycles(t, a, 2)
	if len(drv.updates) != 1 {
		t.Fatalf("%d updates when the first window is complete", len(drv.updates))
	}
	return a
}

// abwOf is what the device was told last for abw.
func abwOf(t *testing.T, drv *recorder) uint8 { return drv.lastIntents(t)[0].S }

// TestWorseNewsAtOnce: a worse value goes with the first update that may be, and a
// better one when it has waited for an interval; neither sooner than an interval after the last.
func TestWorseNewsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, drv := &script{}, configured()
		a := pacedTest(t, src, drv)
		idle := abwOf(t, drv)
		src.rate = 900e6
		cycles(t, a, int(every/interval)-2)
		if n := len(drv.updates); n != 1 {
			t.Fatalf("%d updates within %v", n, every)
		}
		if s := a.Status(); s.Updates.Waiting != 1 || len(s.Ports[0].Signals) == 0 || s.Ports[0].Signals[0].Bucket != idle {
			t.Errorf("while the value waits: %+v, %+v", s.Updates, s.Ports[0].Signals)
		}
		cycles(t, a, 2)
		busy := abwOf(t, drv)
		if n := len(drv.updates); n != 2 || busy >= idle {
			t.Fatalf("%d updates after %v, bucket %d, before %d", n, every, busy, idle)
		}
		// Long after: better news waits for an interval, and worse news that comes behind it does not.
		cycles(t, a, 3*int(every/interval))
		before := len(drv.updates)
		src.rate = 0
		cycles(t, a, int(every/interval)/2)
		if abwOf(t, drv) != busy {
			t.Error("better news went at once")
		}
		src.rate = 950e6
		cycles(t, a, 2)
		if got := abwOf(t, drv); got >= busy {
			t.Errorf("worse news behind it waits: bucket %d, before %d; %d updates", got, busy, len(drv.updates)-before)
		}
		src.rate = 0
		cycles(t, a, int(every/interval)*2+2)
		if got := abwOf(t, drv); got != idle {
			t.Errorf("better news is lost: bucket %d, want %d", got, idle)
		}
	})
}

// TestCoalesced: a load that changes all the time makes one update an interval, with
// the newest value; status says so, and what it costs.
func TestCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, drv := &script{}, configured()
		a := pacedTest(t, src, drv)
		var at []time.Time
		told := len(drv.updates)
		const minutes = 11
		for i := range int(minutes * time.Minute / interval) {
			src.rate = uint64(max(i%200, 200-i%200)-100) * 9e6 // up and down in 20 s
			changed := drv.updates[len(drv.updates)-1]
			cycles(t, a, 1)
			if len(drv.updates) > told {
				if told = len(drv.updates); !equalIntents(changed, drv.lastIntents(t)) {
					at = append(at, time.Now())
				}
			}
		}
		for i := 1; i < len(at); i++ {
			if gap := at[i].Sub(at[i-1]); gap < every {
				t.Fatalf("two updates %v apart", gap)
			}
		}
		if len(at) < 60 {
			t.Errorf("only %d updates in %d minutes", len(at), minutes)
		}
		for _, lease := range drv.leases {
			if lease < 2*every {
				t.Fatalf("a reading holds for %v, and the next update may come after %v", lease, every)
			}
		}
		u := a.Status().Updates
		if u == nil || u.Sent < 60 || u.Coalesced < 200 || time.Duration(u.AchievedNS) < every || u.IntervalNS != every.Nanoseconds() {
			t.Fatalf("status: %+v", u)
		}
		rate := a.observedChanges()
		if !rate.Known() || rate.Is < float64(u.Changes)*5 || rate.Is > float64(u.Changes)*6 {
			t.Errorf("%d changes in %d minutes, %v an hour", u.Changes, minutes, rate)
		}
		if want := uint64(rate.Is * 3); u.LinesHour == nil || *u.LinesHour+1 < want || *u.LinesHour > want+1 {
			t.Errorf("updates %+v: want %d lines an hour", u, want)
		}
	})
}

func equalIntents(a, b []vlanrules.Intent) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

// TestFailedUpdateRests: an update that fails is tried again when an interval has passed,
// however many cycles there are.
func TestFailedUpdateRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, drv := &script{}, configured()
		a := pacedTest(t, src, drv)
		tries, idle := 0, abwOf(t, drv)
		drv.tried = func() { tries++ }
		drv.update = errors.New("the session broke")
		src.rate = 900e6
		cycles(t, a, int(10*every/interval))
		if tries < 8 || tries > 11 {
			t.Errorf("tried %d times in 10 intervals", tries)
		}
		if s := a.Status(); !strings.Contains(s.Cycle.LastError, "the session broke") {
			t.Errorf("last error: %s", s.Cycle.LastError)
		}
		drv.update = nil
		cycles(t, a, int(every/interval)+1)
		if s := a.Status(); s.Cycle.LastError != "" || abwOf(t, drv) >= idle {
			t.Errorf("after that: %s, bucket %d", s.Cycle.LastError, abwOf(t, drv))
		}
	})
}

// TestRefusedPortTriedAgain: a port that the device refused once is current again after the
// update that takes it, however many cycles without an update are between.
func TestRefusedPortTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, drv := &script{}, configured()
		a := pacedTest(t, src, drv)
		refused := func() bool { return a.Status().Ports[0].State == api.StateRefused }
		drv.portErr = &vendors.PortError{Port: "swp1", Err: errors.New("no capacity")}
		src.rate = 900e6
		for n := 0; !refused(); n++ {
			if n > int(2*every/interval) {
				t.Fatal("the refusal is not in the status")
			}
			cycles(t, a, 1)
		}
		drv.portErr = nil
		cycles(t, a, int(2*every/interval))
		if s := a.Status(); refused() || len(s.Ports[0].Signals) == 0 {
			t.Errorf("after an update that took it: %+v", s.Ports[0])
		}
	})
}

// TestFallbackIsReplacedAtOnce: ports that were made to fall back write current values with
// the next cycle that completes, better news or not.
func TestFallbackIsReplacedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, drv := &script{rate: 900e6}, configured()
		a := pacedTest(t, src, drv)
		src.device = errors.New("no counters")
		cycles(t, a, int(3*every/interval))
		if drv.released == 0 {
			t.Fatal("it did not fall back")
		}
		src.device, src.rate = nil, 0
		n := len(drv.updates)
		cycles(t, a, 1)
		if len(drv.updates) != n+1 {
			t.Error("the fallback stays")
		}
	})
}

// TestUpdatesAllowed: without updates: cli, or with neither lease nor dead-man nor lease:
// none, the start is refused with what to write, before anything is.
func TestUpdatesAllowed(t *testing.T) {
	for _, tc := range []struct {
		updates inventory.Updates
		lease   inventory.Lease
		deadMan string
		leases  bool
		want    string
	}{
		{"", inventory.LeaseNone, "EEM applet", true, "updates: cli"},
		{inventory.UpdatesCLI, "", "", false, "lease: none"},
		{inventory.UpdatesCLI, "", "", true, ""},
		{inventory.UpdatesCLI, "", "EEM applet", false, ""},
		{inventory.UpdatesCLI, inventory.LeaseNone, "", false, ""},
	} {
		drv := configured()
		if drv.facts.ConfigUpdates.DeadMan = tc.deadMan; tc.leases {
			drv.facts.Lease = vlanrules.Verdict{}
		}
		cfg := testConfig(t, &script{}, drv)
		cfg.Device.Updates, cfg.Device.Lease = tc.updates, tc.lease
		a, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		err = a.Start(t.Context())
		var refused *vendors.PermanentError
		switch {
		case tc.want == "":
			if err != nil {
				t.Errorf("%+v: %v", tc, err)
			}
		case !errors.As(err, &refused) || !strings.Contains(err.Error(), tc.want) || len(drv.applied) > 0:
			t.Errorf("%+v: %v, applied %d times", tc, err, len(drv.applied))
		}
	}
}

// TestWorseFirst: the ports whose values got worse come first in an update.
func TestWorseFirst(t *testing.T) {
	a := &Agent{facts: configured().facts}
	in := func(s uint8) []vlanrules.Intent {
		return []vlanrules.Intent{{Signal: quantize.MinABW, Action: vlanrules.Update, S: s, LM: 5}}
	}
	for i, name := range []string{"better", "worse", "same"} {
		a.ports = append(a.ports, port{cfg: inventory.Port{Name: name, Action: vlanrules.Update}, view: &counters.PortState{}, sent: in(10), intents: in([]uint8{20, 5, 10}[i])})
	}
	if _, err := a.pace(time.Now()); err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, u := range a.updates {
		order = append(order, u.Port)
	}
	if got := strings.Join(order, " "); got != "worse better same" {
		t.Errorf("order: %s", got)
	}
}

// changesOf counts the changes of configuration that a driver was asked for, by when.
type changesOf struct {
	*recorder
	at []time.Time
}

func (c *changesOf) note() { c.at = append(c.at, time.Now()) }

func (c *changesOf) Apply(ctx context.Context, s vendors.Setup) error {
	c.note()
	return c.recorder.Apply(ctx, s)
}

func (c *changesOf) Release(ctx context.Context) error {
	c.note()
	return c.recorder.Release(ctx)
}

func (c *changesOf) Update(ctx context.Context, u []vendors.PortUpdate, lease time.Duration) (vendors.UpdateResult, error) {
	if c.update != nil || c.repaired != nil || len(u) > 0 && !equalIntents(u[0].Intents, c.updates[len(c.updates)-1]) {
		c.note()
	}
	return c.recorder.Update(ctx, u, lease)
}

// TestOnePacing: whatever a cycle writes, and however often it fails, there is one change of
// configuration in an interval; and nothing keeps the others from their turn.
func TestOnePacing(t *testing.T) {
	broken := errors.New("the session broke")
	for name, tc := range map[string]struct {
		begin func(src *script, drv *recorder)
		did   func(drv *recorder) int // what has to come all the same
	}{
		"ports cannot fall back": {
			func(src *script, drv *recorder) { src.device, drv.release = broken, broken },
			func(drv *recorder) int { return drv.released },
		},
		"nothing works": {
			func(src *script, drv *recorder) { src.rate, drv.update, drv.release = 900e6, broken, broken },
			func(drv *recorder) int { return drv.released },
		},
		"updates fail, and ports fall back": {
			func(src *script, drv *recorder) { src.rate, drv.update = 900e6, broken },
			func(drv *recorder) int { return drv.released },
		},
		"the setup is refused": {
			func(_ *script, drv *recorder) { drv.apply = broken },
			func(drv *recorder) int { return len(drv.updates) },
		},
		"repairs with every update": {
			func(_ *script, drv *recorder) {
				drv.repaired = vendors.Repairs{{Port: "swp1", Object: "policy", Text: "a line"}}
			},
			func(drv *recorder) int { return len(drv.updates) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src, drv := &script{}, configured()
				a := pacedTest(t, src, drv)
				c := &changesOf{recorder: drv}
				a.cfg.Driver = c
				cycles(t, a, int(every/interval))
				c.at = nil
				tc.begin(src, drv)
				if drv.apply != nil {
					a.noteSetup(drv.apply)
				}
				before := tc.did(drv)
				cycles(t, a, int(20*every/interval))
				for i := 1; i < len(c.at); i++ {
					if gap := c.at[i].Sub(c.at[i-1]); gap < every {
						t.Fatalf("two changes of configuration %v apart", gap)
					}
				}
				if n := tc.did(drv) - before; len(c.at) < 4 || n == 0 {
					t.Errorf("%d changes in 20 intervals, %d of what has to come", len(c.at), n)
				}
			})
		})
	}
}

// TestDroppedIsNoAttempt: an update that was dropped, because its reading was too old, has
// written nothing: the next one need not wait, and counts once.
func TestDroppedIsNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, drv := &script{}, configured()
		drv.facts.Lease = vlanrules.Verdict{} // else ports fall back meanwhile, which is a change, too
		a := pacedTest(t, src, drv)
		cycles(t, a, int(every/interval))
		idle, n, sent := abwOf(t, drv), len(drv.updates), a.Status().Updates.Changes
		src.rate = 900e6
		a.cancelLook = func() { // a look that gives the driver back late
			a.cancelLook = nil
			time.Sleep(10 * time.Second)
		}
		cycles(t, a, 1)
		s := a.Status()
		if len(drv.updates) != n || !strings.Contains(s.Cycle.LastError, "it is dropped") || s.Updates.Changes != sent {
			t.Fatalf("%d updates more, last error %q, %d changes", len(drv.updates)-n, s.Cycle.LastError, s.Updates.Changes-sent)
		}
		cycles(t, a, 3)
		if abwOf(t, drv) >= idle {
			t.Errorf("the update waits though nothing was written: %+v, last error %q", a.Status().Updates, a.Status().Cycle.LastError)
		}
	})
}

// TestRefusedIsNotCounted: what one port refuses is its own: it shows in the status, the
// others have theirs, and only what was written counts, until the port takes it.
func TestRefusedIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, drv := &script{}, configured()
		a := pacedTest(t, src, drv)
		cycles(t, a, int(every/interval))
		before := a.Status().Updates
		drv.portErr = errors.Join(&vendors.PermanentError{Port: "swp1", Err: errors.New("no capacity")})
		src.rate = 900e6
		cycles(t, a, int(5*every/interval))
		s := a.Status()
		if p := s.Ports[0]; p.State != api.StateRefused || !strings.Contains(p.Reason, "no capacity") || len(p.Signals) != 0 || s.Cycle.LastError != "" {
			t.Errorf("%+v, last error %q", p, s.Cycle.LastError)
		}
		if s.Updates.Changes != before.Changes || s.Updates.Sent != before.Sent {
			t.Errorf("%+v, before %+v: a refusal counts as written", s.Updates, before)
		}
		drv.portErr = nil
		cycles(t, a, int(2*every/interval))
		if s := a.Status(); s.Ports[0].State != api.StateLive || s.Updates.Changes != before.Changes+2 || s.Updates.Sent != before.Sent+1 {
			t.Errorf("taken: %s, %+v, before %+v", s.Ports[0].State, s.Updates, before)
		}
	})
}
