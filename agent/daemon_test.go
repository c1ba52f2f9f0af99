package agent

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
)

const deviceText = `
format: csig.fleet/v1
profile:
  name: test
  tpid: 0x9900
  interval: 100ms
  signals:
    abw: {buckets: log-1G}
devices:
  - name: s1
    platform: test
    local: true
    ports:
      - {name: swp1, speed: 1G, lm: 5}
`

// changed is the device's file with one thing in place of another.
func changed(old, new string) string { return strings.Replace(deviceText, old, new, 1) }

// keeper is a daemon with a scripted source and a driver that remembers, which
// the cycles and the test look at in turn.
type keeper struct {
	*Daemon
	mu      sync.Mutex
	drv     *recorder
	sources int
	at      []time.Time // of cycles
}

// guarded is the keeper's recorder as the daemon has it.
type guarded struct{ k *keeper }

func (g guarded) lock() func() { g.k.mu.Lock(); return g.k.mu.Unlock }

func (g guarded) Probe(ctx context.Context) (vendors.Facts, error) {
	defer g.lock()()
	return g.k.drv.Probe(ctx)
}
func (g guarded) Observe(ctx context.Context) (vendors.Setup, error) {
	defer g.lock()()
	return g.k.drv.Observe(ctx)
}
func (g guarded) Diff(have, want vendors.Setup) ([]vendors.Change, error) {
	defer g.lock()()
	return g.k.drv.Diff(have, want)
}
func (g guarded) Apply(ctx context.Context, s vendors.Setup) error {
	defer g.lock()()
	return g.k.drv.Apply(ctx, s)
}
func (g guarded) Update(ctx context.Context, u []vendors.PortUpdate, lease time.Duration) (vendors.UpdateResult, error) {
	defer g.lock()()
	return g.k.drv.Update(ctx, u, lease)
}
func (g guarded) Release(ctx context.Context) error { defer g.lock()(); return g.k.drv.Release(ctx) }
func (g guarded) Remove(ctx context.Context) error  { defer g.lock()(); return g.k.drv.Remove(ctx) }
func (g guarded) Close() error                      { return nil }

// with lets the test look at what the cycles touch, and change it.
func (k *keeper) with(f func(r *recorder)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f(k.drv)
}

// onTest describes the test's device to a daemon without a configuration.
var onTest = api.Described{Platform: "test"}

func newKeeper(t *testing.T, drv *recorder, edit func(*Config)) *keeper {
	t.Helper()
	k := &keeper{drv: drv}
	logger := logrus.New()
	logger.SetOutput(io.Discard)
	cfg := Config{
		File: filepath.Join(t.TempDir(), "device.yaml"), Wait: true, Log: logrus.NewEntry(logger),
		OpenSource: func(context.Context, *inventory.Fleet, *inventory.Device) (counters.Source, error) {
			k.sources++ // by the test's goroutine, which alone changes configurations
			return &script{rate: 300e6}, nil
		},
		OpenDriver: func(d *inventory.Device) (vendors.Driver, error) {
			if d.Platform != "test" {
				return nil, errors.New("no driver for platform " + d.Platform)
			}
			return guarded{k}, nil
		},
		OnCycle: func() { k.with(func(*recorder) { k.at = append(k.at, time.Now()) }) },
	}
	if edit != nil {
		edit(&cfg)
	}
	k.Daemon = NewDaemon(cfg)
	return k
}

// begin opens and starts the daemon; it is closed with the test.
func (k *keeper) begin(t *testing.T) {
	t.Helper()
	if err := errors.Join(k.Open(t.Context()), k.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
}

func (k *keeper) close(t *testing.T) {
	t.Helper()
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}

// text is what the daemon's file holds, "" without one.
func (k *keeper) text(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(k.cfg.File)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.TrimPrefix(string(text), ownFirst)
}

func (k *keeper) configure(t *testing.T, text string) {
	t.Helper()
	if err := k.Configure(t.Context(), []byte(text), ""); err != nil {
		t.Fatal(err)
	}
}

func TestDaemonIsGivenConfigurations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drv := &recorder{}
		k := newKeeper(t, drv, nil)
		k.begin(t)
		defer k.close(t)
		if s := k.Status(); !strings.Contains(s.Waiting, "csig apply") || s.ConfigHash != "" || s.DataPlane != api.DataPlaneNone {
			t.Errorf("before: %+v", s)
		}
		k.configure(t, deviceText)
		time.Sleep(5*interval + interval/2) // between two cycles: the change waits for another one where a cycle has begun before it
		first := k.Status()
		if first.Waiting != "" || first.ConfigHash == "" || first.Ports[0].State != api.StateLive || k.text(t) != deviceText {
			t.Errorf("first: %+v, file %q", first, k.text(t))
		}
		if fi, err := os.Stat(k.cfg.File); err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("its file: %v, %v", fi, err)
		}

		// Another locator: the measurements go on, and so does the lease.
		count, updates := first.Cycle.Count, 0
		k.with(func(r *recorder) { updates = len(r.leases) })
		second := changed("lm: 5", "lm: 7")
		k.configure(t, second)
		k.with(func(r *recorder) {
			if got := r.lastIntents(t)[0]; got.LM != 5 {
				t.Errorf("before the first cycle: %+v", got)
			}
		})
		time.Sleep(3 * interval)
		s := k.Status()
		if s.ConfigHash == first.ConfigHash || s.Cycle.Count < count+2 || s.Cycle.Lapses != 0 || k.sources != 1 || k.text(t) != second {
			t.Errorf("second: %+v, %d sources", s, k.sources)
		}
		abw := k.current().fleet.Profile.Signals[quantize.MinABW].Buckets
		applied := 0
		k.with(func(r *recorder) {
			for i, u := range r.updates[updates:] {
				if i < 2 && u[0].LM == 5 {
					continue // the cycle that was due, and the one that the change waits for
				}
				if u[0].LM != 7 || u[0].S != abw.Bucket(700e6) {
					t.Errorf("updated to %+v", u[0])
				}
			}
			for i := 1; i < len(k.at); i++ {
				if gap := k.at[i].Sub(k.at[i-1]); gap > 2*interval {
					t.Errorf("%v without a cycle", gap)
				}
			}
			if r.released != 0 || r.removed != 0 {
				t.Errorf("released %d, removed %d times", r.released, r.removed)
			}
			applied = len(r.applied)
		})

		// The same again is no change.
		k.configure(t, second+"# with a remark\n")
		k.with(func(r *recorder) { applied = len(r.applied) - applied })
		if applied != 0 || !strings.HasSuffix(k.text(t), "remark\n") {
			t.Errorf("the same again: %d setups, file %q", applied, k.text(t))
		}

		// Another interval: the readings go on, and so does the port.
		k.configure(t, changed("interval: 100ms", "interval: 50ms"))
		if k.sources != 2 || k.Status().Ports[0].State != api.StateLive {
			t.Errorf("another interval: %d sources, %+v", k.sources, k.Status().Ports[0])
		}
		time.Sleep(3 * interval)
		if st := k.Status().Ports[0].State; st != api.StateLive {
			t.Errorf("after a while: %s", st)
		}

		k.with(func(r *recorder) { r.have = vendors.Setup{TPID: 0x9900} })
		setup, err := k.Setup(t.Context(), api.Described{})
		if err != nil || setup.TPID != 0x9900 || setup.Config != k.Status().ConfigHash {
			t.Errorf("setup %+v, %v", setup, err)
		}
		last := setup.Config
		if text, err := k.Config(t.Context(), last); err != nil || !strings.Contains(text, "interval: 50ms") {
			t.Errorf("the configuration: %q, %v", text, err)
		}

		if err := k.RemoveSetup(t.Context(), api.Described{}, ""); err != nil {
			t.Fatal(err)
		}
		if s := k.Status(); drv.removed != 1 || k.text(t) != "" || s.Waiting == "" {
			t.Errorf("forgotten: %d removals, file %q, %+v", drv.removed, k.text(t), s)
		}
		n := len(k.at)
		time.Sleep(3 * interval)
		if len(k.at) != n {
			t.Errorf("%d cycles after it has forgotten", len(k.at)-n)
		}
		// A rollback finds what ran, and what ran before it.
		if text, err := k.Config(t.Context(), last); err != nil || !strings.Contains(text, "interval: 50ms") {
			t.Errorf("the configuration of before: %q, %v", text, err)
		}
		var perm *vendors.PermanentError
		for _, hash := range []string{strings.Repeat("0", 64), "../" + filepath.Base(k.cfg.File), ""} {
			if text, err := k.Config(t.Context(), hash); !errors.As(err, &perm) {
				t.Errorf("configuration %q: %q, %v", hash, text, err)
			}
		}
		if err := k.RemoveSetup(t.Context(), onTest, ""); err != nil || drv.removed != 2 {
			t.Errorf("once more: %v, %d removals", err, drv.removed)
		}
	})
}

// TestDaemonRefuses has configurations that cannot be: what was there stays, on
// the device and in the file.
func TestDaemonRefuses(t *testing.T) {
	perm := &vendors.PermanentError{Port: "swp1", Err: errors.New("no BPF")}
	for _, tc := range []struct {
		name, text string
		edit       func(*Config)
		happen     func(*recorder)
		says       string
		touched    bool // the device was, and set right again
	}{
		{"no fleet file", "hello", nil, nil, "configuration:1:1", false},
		{"no local device", changed("local: true", "local: false"), nil, nil, `no device is marked "local: true"`, false},
		{"a platform it has no driver for", changed("platform: test", "platform: other"), nil, nil, "no driver for platform other", false},
		{"the driver says that it cannot be", changed("lm: 5", "lm: 7"), nil, func(r *recorder) { r.diff = perm }, "device s1: port swp1: no BPF", false},
		{"the device refuses it half way", changed("lm: 5", "lm: 7"), nil, func(r *recorder) { r.apply = perm }, "port swp1: no BPF", true},
		{"shadow", changed("lm: 5", "lm: 7"), func(c *Config) { c.Shadow = true }, nil, "--dry-run", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				drv := &recorder{}
				k := newKeeper(t, drv, func(c *Config) {
					if tc.edit != nil {
						tc.edit(c)
					}
				})
				if err := os.WriteFile(k.cfg.File, own([]byte(deviceText)), 0o600); err != nil {
					t.Fatal(err)
				}
				k.begin(t)
				defer k.close(t)
				time.Sleep(3 * interval)
				before, applied := k.Status(), 0
				k.with(func(r *recorder) {
					applied = len(r.applied)
					if tc.happen != nil {
						tc.happen(r)
					}
				})
				err := k.Configure(t.Context(), []byte(tc.text), "")
				if !vendors.IsPermanent(err) || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("%v, want a refusal that says %q", err, tc.says)
				}
				k.with(func(r *recorder) { r.apply, r.diff = nil, nil })
				time.Sleep(3 * interval)
				s := k.Status()
				if s.ConfigHash != before.ConfigHash || s.Waiting != "" || s.Cycle.Count <= before.Cycle.Count || k.text(t) != deviceText {
					t.Errorf("afterwards: %+v, file %q", s, k.text(t))
				}
				k.with(func(r *recorder) {
					if touched := len(r.applied) > applied; touched != tc.touched {
						t.Errorf("%d setups applied", len(r.applied)-applied)
					}
				})
			})
		})
	}
}

// TestDaemonIsCutOff: a setup during which the connection with the device broke is tried again before a client is told.
func TestDaemonIsCutOff(t *testing.T) {
	for _, tries := range []int{1, 2, 100} {
		synctest.Test(t, func(t *testing.T) {
			drv, calls := &recorder{apply: errors.New("the connection broke")}, 0
			drv.applies = func() {
				if calls++; calls > tries {
					drv.apply = nil
				}
			}
			k := newKeeper(t, drv, nil)
			k.begin(t)
			defer k.close(t)
			begin := time.Now()
			err := k.Configure(t.Context(), []byte(deviceText), "")
			if took := time.Since(begin); took > cutOffTime+setupRetry || (tries < 100) != (err == nil) || err != nil && !strings.Contains(err.Error(), "the connection broke") {
				t.Errorf("%d tries: %v after %v", tries, err, took)
			}
		})
	}
}

// TestDaemonIsIncomplete has a port that is not there: the rest is in force.
func TestDaemonIsIncomplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drv := &recorder{}
		k := newKeeper(t, drv, nil)
		k.begin(t)
		defer k.close(t)
		drv.apply = &vendors.PortError{Port: "swp1", Err: errors.New("there is no such network device")}
		err := k.Configure(t.Context(), []byte(deviceText), "")
		if err == nil || vendors.IsPermanent(err) || !strings.Contains(err.Error(), "in force") || !strings.Contains(err.Error(), "no such network device") || strings.Contains(err.Error(), "port :") {
			t.Errorf("%v", err)
		}
		if k.text(t) != deviceText || k.Status().Waiting != "" {
			t.Errorf("file %q, %+v", k.text(t), k.Status())
		}
		if err := k.Configure(t.Context(), []byte(deviceText), ""); err == nil {
			t.Error("the same again: nothing is missing any more")
		}
		k.with(func(r *recorder) { r.apply = nil })
		time.Sleep(2 * setupRetry)
		k.configure(t, deviceText)
		// What is found missing afterwards, of a port and of the device.
		for port, want := range map[string]string{"swp1": ": port swp1: chain: it is gone", "": ": chain: it is gone"} {
			k.with(func(r *recorder) { r.changes = []vendors.Change{{Port: port, What: "chain", Detail: "it is gone"}} })
			if err := k.Configure(t.Context(), []byte(deviceText), ""); err == nil || !strings.HasSuffix(err.Error(), "again"+want) {
				t.Errorf("%q: %v", port, err)
			}
		}
	})
}

func TestDaemonStartsWithWhatItFinds(t *testing.T) {
	for _, tc := range []struct {
		name, file, removing string
		wait                 bool
		drv                  recorder
		waits, says          string // what the status, or the error, says
		removed, applied     int
	}{
		{"nothing", "", "", true, recorder{}, "csig apply gives it one", "", 0, 0},
		{"nothing, and it may not wait", "", "", false, recorder{}, "", "no such file", 0, 0},
		{"a file", deviceText, "", true, recorder{}, "", "", 0, 1},
		{"a file that cannot be read", "hello", "", true, recorder{}, "for another configuration: ", "", 0, 0},
		{"a file that cannot be run", deviceText, "", true, recorder{diff: &vendors.PermanentError{Err: errors.New("on_stale")}}, "for another configuration: device s1: on_stale", "", 0, 0},
		{"a removal that was cut off", "", deviceText, true, recorder{}, "csig apply gives it one", "", 1, 0},
		{"a removal that was cut off, and a file after it", deviceText, deviceText, true, recorder{}, "", "", 0, 1},
		{"a removal that cannot be ended", "", deviceText, true, recorder{remove: errors.New("busy")}, "removing csig's objects: busy", "", 1, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				drv := tc.drv
				k := newKeeper(t, &drv, func(c *Config) { c.Wait = tc.wait })
				defer k.close(t)
				for path, text := range map[string]string{k.cfg.File: tc.file, k.leaving(): tc.removing} {
					if text != "" {
						if err := os.WriteFile(path, own([]byte(text)), 0o600); err != nil {
							t.Fatal(err)
						}
					}
				}
				err := k.Open(t.Context())
				if err == nil {
					err = k.Start(t.Context())
				}
				if (err != nil) != (tc.says != "") || err != nil && !strings.Contains(err.Error(), tc.says) {
					t.Fatalf("%v, want %q", err, tc.says)
				}
				if s := k.Status(); err == nil && ((s.Waiting == "") != (tc.waits == "") || !strings.Contains(s.Waiting, tc.waits)) {
					t.Errorf("it waits %q, want %q", s.Waiting, tc.waits)
				}
				k.with(func(r *recorder) {
					if r.removed != tc.removed || len(r.applied) != tc.applied {
						t.Errorf("%d removals, %d setups; want %d, %d", r.removed, len(r.applied), tc.removed, tc.applied)
					}
				})
				if _, err := os.Stat(k.leaving()); tc.drv.remove == nil && !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the mark of the removal: %v", err)
				}
				if tc.drv.remove == nil {
					return
				}
				drv.remove = nil
				if err := k.RemoveSetup(t.Context(), api.Described{}, ""); err != nil || k.Status().Waiting != "for a configuration: csig apply gives it one" {
					t.Errorf("tried again: %v, %q", err, k.Status().Waiting)
				}
			})
		})
	}
}

// TestDaemonKeepsTheMarkOfARemoval has a removal that fails half way: the mark
// stays until one succeeds, and an agent that is started meanwhile tries, too.
func TestDaemonKeepsTheMarkOfARemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drv := &recorder{}
		k := newKeeper(t, drv, nil)
		k.begin(t)
		defer k.close(t)
		k.configure(t, deviceText)
		time.Sleep(3 * interval)
		k.with(func(r *recorder) { r.remove = errors.New("busy") })
		for range 2 {
			if err := k.RemoveSetup(t.Context(), api.Described{}, ""); err == nil || !strings.Contains(err.Error(), "busy") {
				t.Errorf("%v", err)
			}
			if mark, err := os.ReadFile(k.leaving()); err != nil || string(mark) != ownFirst+deviceText || k.text(t) != "" || k.Status().Waiting == "" {
				t.Errorf("the mark: %q, %v; file %q", mark, err, k.text(t))
			}
		}
		k.with(func(r *recorder) { r.remove = nil })
		if err := k.RemoveSetup(t.Context(), api.Described{}, ""); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(k.leaving()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the mark: %v", err)
		}
	})
}

func TestDaemonEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drv := &recorder{}
		k := newKeeper(t, drv, nil)
		k.begin(t)
		k.configure(t, deviceText)
		time.Sleep(3 * interval)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- k.Run(ctx) }()
		cancel()
		if err := <-ended; err != nil || drv.released != 1 || drv.removed != 0 {
			t.Errorf("%v, released %d, removed %d times", err, drv.released, drv.removed)
		}
		if err := k.Configure(t.Context(), []byte(deviceText), ""); !vendors.IsPermanent(err) || !strings.Contains(err.Error(), "stopping") {
			t.Errorf("a configuration after the end: %v", err)
		}
		if err := k.Remove(t.Context()); err != nil || drv.removed != 1 {
			t.Errorf("Ctrl-C: %v, removed %d times", err, drv.removed)
		}
		k.close(t)
	})
}

// TestNewConfigurationWithoutNews has a port that cannot be read just when the
// configuration changes: it advertises what was measured last, as the new
// configuration says it.
func TestNewConfigurationWithoutNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, drv := &script{rate: 300e6}, &recorder{}
		old := newTest(t, src, drv)
		cycles(t, old, 3)
		cfg := testConfig(t, src, drv)
		log, err := quantize.Preset(quantize.MinABWC, "log")
		if err != nil {
			t.Fatal(err)
		}
		cfg.Profile.Signals[quantize.MinABWC] = quantize.SignalProfile{Buckets: log}
		cfg.Device.Ports[0].LM = map[quantize.Signal]uint16{quantize.MinABW: 9, quantize.MinABWC: 10}
		a, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		a.continueFrom(old, true)
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		src.port = errors.New("busy")
		before := len(drv.updates)
		cycles(t, a, 1)
		abw := cfg.Profile.Signals[quantize.MinABW].Buckets
		got := drv.updates[before:]
		if len(got) != 1 || got[0][0].S != abw.Bucket(700e6) || got[0][0].LM != 9 || got[0][1].S != log.Bucket(700_000) || got[0][1].LM != 10 {
			t.Errorf("programmed %+v", got)
		}
		if s := a.Status(); s.Cycle.Count != 4 || s.Cycle.Lapses != 0 {
			t.Errorf("%+v", s.Cycle)
		}
	})
}

// A client that goes away while another change is under way changes nothing.
func TestChangesOfClientsThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, &recorder{}, nil)
		k.begin(t)
		defer k.close(t)
		k.configure(t, deviceText)
		mark, err := k.StartRevert(t.Context(), onTest, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		leave() // while they waited for their turn, say
		_, again := k.StartRevert(ctx, onTest, time.Second)
		for _, err := range []error{
			k.Configure(ctx, []byte(changed("lm: 5", "lm: 7")), ""), k.RemoveSetup(ctx, onTest, ""), k.SetMTU(ctx, onTest, "swp1", 9000), k.Confirm(ctx, mark), again,
		} {
			var perm *vendors.PermanentError
			if !errors.Is(err, context.Canceled) || !errors.As(err, &perm) {
				t.Errorf("got %v", err)
			}
		}
		if k.text(t) != deviceText {
			t.Errorf("its file is\n%s", k.text(t))
		}
		if err := k.Confirm(t.Context(), mark); err != nil {
			t.Errorf("the auto-revert was touched: %v", err)
		}
	})
}

// A daemon without remote commands refuses a configuration that names one, for
// whatever secret.
func TestNoRemoteCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, &recorder{}, func(c *Config) { c.NoCommands = true })
		k.begin(t)
		defer k.close(t)
		for _, keys := range []string{
			"counters: {source: snmp, snmp: {version: 2c, community: {command: [pass, show]}}}",
			"counters: {source: snmp, snmp: {version: 3, user: u, auth: {protocol: sha256, key: {command: [pass]}}}}",
			"counters: {source: gnmi, gnmi: {username: u, password: {command: [pass]}, tls: {}}}",
			"management: {ssh: {user: u, password: {command: [pass]}}}",
			"management: {ssh: {user: u, key: /k, passphrase: {command: [pass]}}}",
			"management: {ssh: {user: u, key: /k, sudo: {password: {command: [pass]}}}}",
		} {
			text := changed("    local: true\n", "    local: true\n    address: 192.0.2.1\n    "+keys+"\n")
			err := k.Configure(t.Context(), []byte(text), "")
			var perm *vendors.PermanentError
			if !errors.As(err, &perm) || !strings.Contains(err.Error(), `names the program "pass"`) || !regexp.MustCompile(`configuration:[0-9]+:[0-9]+: `).MatchString(err.Error()) || k.text(t) != "" {
				t.Errorf("%s: %v", keys, err)
			}
		}
		k.configure(t, deviceText)
	})
}

// TestNoCommandsOfOwnFile: a file that csig wrote, as of what a store had, is refused by its place
// where it names a program; a user's file on this machine is not.
func TestNoCommandsOfOwnFile(t *testing.T) {
	text := []byte(changed("    local: true\n", "    local: true\n    address: 192.0.2.1\n    counters: {source: snmp, snmp: {version: 2c, community: {command: [pass, show]}}}\n"))
	for _, tc := range []struct {
		no   bool
		file []byte
		want bool // it is refused
	}{{true, own(text), true}, {false, own(text), false}, {true, text, false}} {
		synctest.Test(t, func(t *testing.T) {
			k := newKeeper(t, &recorder{}, func(c *Config) { c.NoCommands = tc.no })
			if err := os.WriteFile(k.cfg.File, tc.file, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := k.read()
			var at *inventory.Error
			if (err != nil) != tc.want || err != nil && (!errors.As(err, &at) || at.File != k.cfg.File || at.Line < 2 || at.Col < 2) {
				t.Errorf("%+v: %v", tc, err)
			}
		})
	}
}

// TestDaemonTriesItsDeviceAgain: a daemon that may wait, and starts before its device
// answers, says so and runs its file as soon as that does.
func TestDaemonTriesItsDeviceAgain(t *testing.T) {
	for _, tc := range []struct {
		name  string
		file  []byte
		then  error // what the device answers after a while
		off   bool  // csig off comes before that
		waits string
	}{
		{"it answers", own([]byte(deviceText)), nil, false, ""},
		{"it refuses", own([]byte(deviceText)), &vendors.PermanentError{Err: errors.New("it cannot")}, false, "for another configuration: "},
		{"csig off", own([]byte(deviceText)), nil, true, "for a configuration: "},
		{"csig off, and the file is a user's", []byte(deviceText), nil, true, "for csig apply "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				drv := &recorder{diff: errors.Join(errors.New("no listener"), os.ErrNotExist)} // as of a socket that is not there
				k := newKeeper(t, drv, nil)
				if err := os.WriteFile(k.cfg.File, tc.file, 0o600); err != nil {
					t.Fatal(err)
				}
				k.begin(t)
				defer k.close(t)
				ctx, cancel := context.WithCancel(t.Context())
				ran := make(chan error, 1)
				go func() { ran <- k.Run(ctx) }()
				time.Sleep(3*startRetry + time.Second)
				if s := k.Status(); !strings.Contains(s.Waiting, "for its device, which it tries every 5s") || !strings.Contains(s.Waiting, "no listener") || len(drv.applied) > 0 {
					t.Errorf("it waits %q", s.Waiting)
				}
				if tc.off {
					if err := k.RemoveSetup(t.Context(), api.Described{}, ""); err != nil {
						t.Fatal(err)
					}
				}
				k.with(func(r *recorder) { r.diff = tc.then })
				time.Sleep(startRetry)
				if s := k.Status(); (s.Waiting == "") != (tc.waits == "") || !strings.HasPrefix(s.Waiting, tc.waits) {
					t.Errorf("it waits %q, want %q", s.Waiting, tc.waits)
				}
				k.with(func(r *recorder) {
					if (len(r.applied) > 0) != (tc.waits == "") {
						t.Errorf("%d setups", len(r.applied))
					}
				})
				cancel()
				if err := <-ran; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
