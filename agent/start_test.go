package agent

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// begin starts an agent and returns what it logged.
func begin(ctx context.Context, t *testing.T, drv *recorder, edit func(*Config)) (a *Agent, log string, err error) {
	t.Helper()
	var out bytes.Buffer
	logger := logrus.New()
	logger.SetOutput(&out)
	cfg := testConfig(t, &script{}, drv)
	cfg.Log = logrus.NewEntry(logger)
	if edit != nil {
		edit(&cfg)
	}
	a, err = New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	err = a.Start(ctx)
	return a, out.String(), err
}

func TestRefusalStopsTheStart(t *testing.T) {
	refusal := func(why string) error {
		return &vendors.PermanentError{Port: "swp1", Err: errors.New(why)}
	}
	no := vlanrules.Verdict{Level: vlanrules.Refused, Reason: "this kernel is too old"}
	was := vendors.Setup{TPID: 0x9900, Signals: []quantize.Signal{quantize.MinABW}, Ports: []vendors.PortSetup{{Port: "swp1"}}}
	for _, tc := range []struct {
		name            string
		drv             recorder
		applied, remove int // how often; the second Apply is the way back
		says            string
	}{
		{"beyond the device", recorder{facts: vendors.Facts{Update: no}}, 0, 0, "device s1: port swp1: its action is update: this kernel is too old"},
		{"the setup cannot be", recorder{diff: refusal("on_stale")}, 0, 0, "device s1: port swp1: on_stale"},
		{"while it is set up, on a device that had nothing", recorder{apply: refusal("no BPF")}, 1, 1, "device s1: port swp1: no BPF"},
		{"while it is set up, where another was before", recorder{apply: refusal("no BPF"), have: was}, 2, 0, "device s1: port swp1: no BPF"},
		{"and its cleanup fails", recorder{apply: refusal("no BPF"), remove: errors.New("nor that")}, 1, 1, "cleanup after a failed start failed: nor that"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, log, err := begin(t.Context(), t, &tc.drv, nil)
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("start: %v, want it to say %q", err, tc.says)
			}
			if len(tc.drv.applied) != tc.applied || tc.drv.removed != tc.remove {
				t.Errorf("%d times applied, %d removed; want %d, %d", len(tc.drv.applied), tc.drv.removed, tc.applied, tc.remove)
			}
			if tc.applied == 2 && tc.drv.applied[1].TPID != was.TPID {
				t.Errorf("the way back is %+v, want %+v", tc.drv.applied[1], was)
			}
			if strings.Contains(log, "again") {
				t.Errorf("a refusal is not tried again, but the log says so:\n%s", log)
			}
		})
	}
}

func TestStripIsRefusedOnlyWhereAPortStrips(t *testing.T) {
	drv := &recorder{facts: vendors.Facts{Strip: vlanrules.Verdict{Level: vlanrules.Refused, Reason: "no BPF"}}}
	if _, _, err := begin(t.Context(), t, drv, nil); err != nil {
		t.Errorf("no port strips: %v", err)
	}
	_, _, err := begin(t.Context(), t, drv, func(c *Config) { c.Device.Ports[0].Action = vlanrules.Strip })
	if err == nil || !strings.Contains(err.Error(), "port swp1: its action is strip: no BPF") {
		t.Errorf("a port strips: %v", err)
	}
}

// TestStartThatIsStopped ends the context before and while the device is set
// up: it is then as it was.
func TestStartThatIsStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	drv := &recorder{}
	if _, _, err := begin(ctx, t, drv, nil); !errors.Is(err, context.Canceled) || len(drv.applied) != 0 {
		t.Errorf("before: %v, %d times applied", err, len(drv.applied))
	}
	ctx, cancel = context.WithCancel(t.Context())
	drv = &recorder{applies: cancel, apply: context.Canceled}
	if _, _, err := begin(ctx, t, drv, nil); !errors.Is(err, context.Canceled) || drv.removed != 1 {
		t.Errorf("while: %v, %d times removed", err, drv.removed)
	}
}

func TestShadowSaysWhatARealRunWouldRefuse(t *testing.T) {
	stale := &vendors.PermanentError{Err: errors.New("on_stale: strip is not possible here")}
	port := &vendors.PermanentError{Port: "swp1", Err: errors.New("no hook")}
	drv := &recorder{diff: errors.Join(stale, port), apply: port} // what is refused twice is reported once
	a, log, err := begin(t.Context(), t, drv, func(c *Config) { c.Shadow = true })
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log, "a real run would refuse to start") {
		t.Errorf("the log does not say so:\n%s", log)
	}
	v := a.Status().Verdicts
	refused := api.Verdict{Code: findings.StartRefused, What: "a real run", Level: "refused", Reason: "on_stale: strip is not possible here"}
	refusedPort := refused
	refusedPort.Port, refusedPort.Reason = "swp1", "no hook"
	if !slices.Equal(v, []api.Verdict{refused, refusedPort}) {
		t.Errorf("status: %+v", v)
	}
}

func TestSelfTestIsInTheStatus(t *testing.T) {
	for _, tc := range []struct {
		name string
		ask  bool
		v    vlanrules.Verdict
		want api.Verdict
	}{
		{"not asked for", false, vlanrules.Verdict{}, api.Verdict{Code: findings.SelfTest, What: "self-test", Level: api.SelfTestNotRun}},
		{"passed", true, vlanrules.Verdict{}, api.Verdict{Code: findings.SelfTest, What: "self-test", Level: "full"}},
		{"degraded", true, vlanrules.Verdict{Level: vlanrules.Degraded, Reason: "depth 3"}, api.Verdict{Code: findings.SelfTest, What: "self-test", Level: "degraded", Reason: "depth 3"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			drv := &recorder{tested: tc.v}
			a, _, err := begin(t.Context(), t, drv, func(c *Config) { c.SelfTest = tc.ask })
			if err != nil {
				t.Fatal(err)
			}
			if got := a.Status().SelfTest; got != tc.want || (drv.tests == 1) != tc.ask {
				t.Errorf("%+v after %d tests, want %+v", got, drv.tests, tc.want)
			}
		})
	}
}

// TestTakeOverComesBeforeTheSelfTest: a predecessor's lease runs out while an
// agent that finds its setup in place starts.
func TestTakeOverComesBeforeTheSelfTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drv := &recorder{have: vendors.Setup{TPID: 0x9900}, tested: vlanrules.Verdict{Level: vlanrules.Full}}
		cfg := testConfig(t, &script{}, drv)
		cfg.SelfTest = true
		a, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop := run(t, a)
		time.Sleep(2*interval + interval/2)
		if v := a.Status().SelfTest; v.Level != api.SelfTestNotRun || v.Reason == "" {
			t.Errorf("while it takes over: %+v", v)
		}
		time.Sleep(2 * interval)
		if v := a.Status().SelfTest; v.Level != "full" || v.Reason != "" {
			t.Errorf("afterwards: %+v", v)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if drv.tests != 1 || len(drv.leases) == 0 {
			t.Errorf("%d self-tests, %d renewals", drv.tests, len(drv.leases))
		}
	})
}

// TestDeviceThatChanges becomes worse, and better again, under a running agent.
func TestDeviceThatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drv := &recorder{}
		var log bytes.Buffer
		cfg := testConfig(t, &script{}, drv)
		cfg.Log.Logger.SetOutput(&log)
		a, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		cycles(t, a, 2)
		if v := a.Status().Verdicts; len(v) != 0 {
			t.Fatalf("%+v", v)
		}
		drv.changed = &vendors.Facts{Update: vlanrules.Verdict{Level: vlanrules.Degraded, Reason: "frames go past the tables"}}
		cycles(t, a, 3)
		if v := a.Status().Verdicts; len(v) != 1 || v[0] != (api.Verdict{Code: findings.Update, What: "update", Level: "degraded", Reason: "frames go past the tables"}) {
			t.Errorf("worse: %+v", v)
		}
		if n := strings.Count(log.String(), "the device has changed: frames go past the tables"); n != 1 {
			t.Errorf("it is logged %d times:\n%s", n, log.String())
		}
		drv.changed = &vendors.Facts{}
		cycles(t, a, 2)
		if v := a.Status().Verdicts; len(v) != 0 || !strings.Contains(log.String(), "can do everything again") {
			t.Errorf("better: %+v\n%s", v, log.String())
		}
	})
}

// TestSlowUndo: the cleanup of a failed start has the time that a command line needs.
func TestSlowUndo(t *testing.T) {
	drv := configured()
	drv.facts.ConfigUpdates.Lines = 10
	drv.have = vendors.Setup{}
	drv.apply = &vendors.PermanentError{Err: errors.New("no capacity")}
	left := time.Duration(0)
	cfg := testConfig(t, &script{}, drv)
	cfg.Driver = removes{drv, func(ctx context.Context) {
		end, _ := ctx.Deadline()
		left = time.Until(end)
	}}
	cfg.Device.Updates, cfg.Device.Lease = inventory.UpdatesCLI, inventory.LeaseNone
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(t.Context()); !vendors.IsPermanent(err) {
		t.Fatal(err)
	}
	if left < 30*time.Second || left > 90*time.Second {
		t.Errorf("it has %v", left)
	}
	if left = 0; a.release() != nil || left < 30*time.Second || left > 90*time.Second {
		t.Errorf("at the end the ports have %v to fall back", left)
	}
}

// removes sees the time that a removal and a release have.
type removes struct {
	*recorder
	saw func(context.Context)
}

func (r removes) Remove(ctx context.Context) error {
	r.saw(ctx)
	return r.recorder.Remove(ctx)
}

func (r removes) Release(ctx context.Context) error {
	r.saw(ctx)
	return r.recorder.Release(ctx)
}

// TestPasses: a start that was refused is tried again where the refusal ends by itself, and not
// where a user has to change something.
func TestPasses(t *testing.T) {
	refused := func(err error) error { return &vendors.PermanentError{Port: "swp1", Err: err} }
	for name, tc := range map[string]struct {
		err    error
		passes bool
	}{
		"no answer":                {errors.New("no route to host"), true},
		"one port":                 {&vendors.PortError{Port: "swp1", Err: errors.New("busy")}, true},
		"not supported":            {refused(errors.New("no BPF")), false},
		"foreign":                  {refused(&vendors.ForeignError{What: "a filter"}), false},
		"no driver":                {refused(&vendors.NoDriverError{Platform: "plan9", Err: errors.New("none")}), false},
		"held":                     {refused(&vendors.HeldError{By: "another csig"}), true},
		"held, by two":             {refused(errors.Join(&vendors.HeldError{By: "a"}, &vendors.HeldError{By: "b"})), true},
		"held, and taken from it":  {refused(&vendors.HeldError{By: "csig off", Taken: true}), false},
		"held, said with its port": {errors.Join(errors.New("x"), refused(&vendors.HeldError{By: "a"})), true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				drv := &recorder{apply: tc.err}
				if name == "no answer" || name == "one port" { // Apply's are for the agent that runs
					drv = &recorder{observe: tc.err}
				}
				k := newKeeper(t, drv, nil)
				if err := os.WriteFile(k.cfg.File, own([]byte(deviceText)), 0o600); err != nil {
					t.Fatal(err)
				}
				k.begin(t)
				defer k.close(t)
				ctx, cancel := context.WithCancel(t.Context())
				ran := make(chan error, 1)
				go func() { ran <- k.Run(ctx) }()
				time.Sleep(2*startRetry + time.Second)
				if s := k.Status(); strings.Contains(s.Waiting, "which it tries every") != tc.passes {
					t.Errorf("it waits %q", s.Waiting)
				}
				k.with(func(r *recorder) { r.apply, r.observe = nil, nil })
				time.Sleep(startRetry + time.Second)
				if s := k.Status(); (s.Waiting == "") != tc.passes {
					t.Errorf("when that has passed it waits %q", s.Waiting)
				}
				cancel()
				if err := <-ran; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
