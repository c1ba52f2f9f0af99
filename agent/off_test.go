package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
)

// marked makes a keeper whose device csig off has marked.
func marked(t *testing.T, drv *recorder, edit func(*Config)) (k *keeper, mark string) {
	t.Helper()
	mark = filepath.Join(t.TempDir(), "mark")
	k = newKeeper(t, drv, func(cfg *Config) {
		cfg.OffMarker = mark
		if edit != nil {
			edit(cfg)
		}
	})
	if err := errors.Join(os.WriteFile(mark, nil, 0o600), os.WriteFile(k.cfg.File, own([]byte(deviceText)), 0o600)); err != nil {
		t.Fatal(err)
	}
	return k, mark
}

func gone(t *testing.T, file string) {
	t.Helper()
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there (%v)", file, err)
	}
}

func TestDaemonOfAMarkedDeviceWaits(t *testing.T) {
	for name, decide := range map[string]func(t *testing.T, k *keeper){
		"for a configuration": func(t *testing.T, k *keeper) { k.configure(t, changed("lm: 5", "lm: 6")) },
		"for the same one":    func(t *testing.T, k *keeper) { k.configure(t, deviceText) },
		"for a removal": func(t *testing.T, k *keeper) {
			if err := k.RemoveSetup(t.Context(), onTest, ""); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				drv := &recorder{}
				k, mark := marked(t, drv, nil)
				k.begin(t)
				defer k.close(t)
				time.Sleep(5 * interval)
				for _, want := range []string{"csig off", mark, "csig apply", k.cfg.File} {
					if s := k.Status(); !strings.Contains(s.Waiting, want) {
						t.Errorf("it does not name %q: %s", want, s.Waiting)
					}
				}
				if len(drv.applied) != 0 || k.text(t) != deviceText {
					t.Errorf("applied %d times; its file: %q", len(drv.applied), k.text(t))
				}
				decide(t, k)
				gone(t, mark)
				if k.text(t) != "" {
					time.Sleep(5 * interval)
					k.with(func(r *recorder) {
						if len(r.updates) == 0 {
							t.Error("nothing was programmed afterwards")
						}
					})
				}
			})
		})
	}
}

// A configuration that is refused decides nothing.
func TestRefusedConfigurationLeavesTheMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, mark := marked(t, &recorder{}, nil)
		k.begin(t)
		defer k.close(t)
		if err := k.Configure(t.Context(), []byte(changed("platform: test", "platform: other")), ""); err == nil {
			t.Error("taken")
		}
		if _, err := os.Stat(mark); err != nil {
			t.Error(err)
		}
	})
}

func TestAgentOfAMarkedDeviceRefusesToStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drv := &recorder{}
		k, mark := marked(t, drv, func(cfg *Config) { cfg.Wait = false })
		defer k.close(t)
		err := k.Open(t.Context())
		var off *OffError
		if !errors.As(err, &off) || off.Mark != mark || len(drv.applied) != 0 {
			t.Errorf("%v, applied %d times", err, len(drv.applied))
		}
		if err := os.Remove(mark); err != nil {
			t.Fatal(err)
		}
		k.begin(t)
		// The mark comes while it hangs, or between its opening and its start.
		time.Sleep(5 * interval)
		if err := os.WriteFile(mark, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(interval) // the cycle in hand
		before := 0
		k.with(func(r *recorder) { before = len(r.updates) })
		time.Sleep(5 * interval)
		k.with(func(r *recorder) {
			if before == 0 || len(r.updates) != before {
				t.Errorf("%d updates, then %d", before, len(r.updates))
			}
		})
		if s := k.Status(); !strings.Contains(s.Cycle.LastError, "csig off") {
			t.Errorf("status says %q", s.Cycle.LastError)
		}
	})
}

func TestMarkedBetweenOpenAndStart(t *testing.T) {
	for _, wait := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			drv := &recorder{}
			k, mark := marked(t, drv, func(cfg *Config) { cfg.Wait = wait })
			defer k.close(t)
			if err := errors.Join(os.Remove(mark), k.Open(t.Context()), os.WriteFile(mark, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			if err := k.Start(t.Context()); (err == nil) != wait || len(drv.applied) != 0 {
				t.Errorf("wait %v: %v, applied %d times", wait, err, len(drv.applied))
			}
			if s := k.Status(); !strings.Contains(s.Waiting, mark) {
				t.Errorf("status says %q", s.Waiting)
			}
		})
	}
}

// A shadow programs nothing, and need not stop.
func TestShadowHeedsNoMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := marked(t, &recorder{}, func(cfg *Config) { cfg.Wait, cfg.Shadow = false, true })
		k.begin(t)
		defer k.close(t)
		time.Sleep(5 * interval)
		if s := k.Status(); s.Waiting != "" || s.Cycle.Count == 0 || s.Cycle.LastError != "" {
			t.Errorf("%+v", s)
		}
	})
}

// setter is a guarded recorder whose ports have MTUs.
type setter struct {
	guarded
	mtus map[string]int
}

func (s setter) MTUs(context.Context) (map[string]int, error) { return s.mtus, nil }
func (s setter) SetMTU(_ context.Context, port string, mtu int) error {
	s.mtus[port] = mtu
	return nil
}

func TestDaemonSetsMTUs(t *testing.T) {
	for _, tc := range []struct {
		name        string
		shadow, has bool
		says        string
		want        int // 0: it does not tell
	}{
		{name: "its driver can", has: true, want: 9216},
		{name: "its driver cannot", says: "cannot set the MTU"},
		{name: "a shadow", shadow: true, has: true, says: "--dry-run", want: 1500},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mtus := map[string]int{"swp1": 1500}
			var k *keeper
			k = newKeeper(t, &recorder{}, func(cfg *Config) {
				cfg.Shadow, cfg.Wait = tc.shadow, !tc.shadow
				cfg.OpenDriver = func(*inventory.Device) (vendors.Driver, error) {
					if tc.has {
						return setter{guarded{k}, mtus}, nil
					}
					return guarded{k}, nil
				}
			})
			if tc.shadow {
				if err := os.WriteFile(k.cfg.File, []byte(deviceText), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			k.begin(t)
			defer k.close(t)
			err := k.SetMTU(t.Context(), onTest, "swp1", 9216)
			if (err == nil) != (tc.says == "") || err != nil && (!vendors.IsPermanent(err) || !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("%v, want %q", err, tc.says)
			}
			got, err := k.MTUs(t.Context(), onTest)
			if err != nil || got["swp1"] != tc.want {
				t.Errorf("MTUs %v, %v", got, err)
			}
		})
	}
}

// TestNextChangeAfterOffPastADaemonThatContinues: csig off has taken the device off past a
// daemon that hung. Nothing of its configuration is in force any more: what asks for the
// setup learns that, an auto-revert goes back to nothing, and the configuration that it ran
// before is set up again when it is sent once more.
func TestNextChangeAfterOffPastADaemonThatContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drv := &recorder{}
		k, mark := marked(t, drv, nil)
		if err := os.Remove(mark); err != nil {
			t.Fatal(err)
		}
		k.begin(t)
		defer k.close(t)
		time.Sleep(5 * interval)
		if s, err := k.Setup(t.Context(), onTest); err != nil || s.Config == "" {
			t.Fatalf("%+v, %v", s, err)
		}
		if err := os.WriteFile(mark, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		k.with((*recorder).clear)
		applied := len(drv.applied)
		if s, err := k.Setup(t.Context(), onTest); err != nil || s.Config != "" || !s.Nothing() {
			t.Errorf("the setup is %+v, %v", s, err)
		}
		token, err := k.StartRevert(t.Context(), onTest, 30*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Configure(t.Context(), []byte(deviceText), token); err != nil {
			t.Fatal(err)
		}
		gone(t, mark)
		if len(drv.applied) <= applied {
			t.Error("the configuration is taken, and not set up")
		}
		time.Sleep(31 * time.Second) // it is not confirmed
		k.with(func(r *recorder) {
			if r.removed == 0 {
				t.Error("the auto-revert leaves the setup")
			}
		})
		if s := k.Status(); s.Waiting == "" || k.text(t) != "" {
			t.Errorf("it waits for %q, and its file is %q", s.Waiting, k.text(t))
		}
	})
}

// TestBareDevice: a daemon elsewhere, which is told nothing of a csig off, leaves a device alone
// that has lost what its configuration had made, until a user decides; one that still has it is
// driven on, and one that cannot be read is tried again.
func TestBareDevice(t *testing.T) {
	for name, tc := range map[string]struct {
		bare, blind bool
		then        func(*testing.T, *keeper)
		waits       string
	}{
		"has it": {},
		"bare":   {bare: true, waits: "csig apply sets it up again"},
		"bare, and configured": {bare: true, then: func(t *testing.T, k *keeper) {
			k.with(func(r *recorder) { r.changes = nil })
			k.configure(t, deviceText)
			time.Sleep(5 * interval)
		}},
		"cannot be read":  {blind: true, waits: "it tries every"},
		"is read at last": {blind: true, then: func(t *testing.T, k *keeper) { k.with(func(r *recorder) { r.observe = nil }); k.retry(t.Context()) }},
		"is read at last, bare": {bare: true, blind: true, waits: "csig apply sets it up again", then: func(t *testing.T, k *keeper) {
			k.with(func(r *recorder) { r.observe = nil })
			k.retry(t.Context())
			k.retry(t.Context())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				drv := &recorder{changes: []vendors.Change{{Kind: vendors.Create}}}
				k := newKeeper(t, drv, func(cfg *Config) { cfg.LeaveBare = true })
				if err := os.WriteFile(k.cfg.File, own([]byte(deviceText)), 0o600); err != nil {
					t.Fatal(err)
				}
				if !tc.bare {
					drv.have = vendors.Setup{TPID: 0x9900}
				}
				if tc.blind {
					drv.observe = errors.New("no answer")
				}
				k.begin(t)
				defer k.close(t)
				time.Sleep(5 * interval)
				if tc.then != nil {
					tc.then(t, k)
				}
				k.with(func(r *recorder) {
					if s := k.Status(); (tc.waits == "") != (s.Waiting == "") || !strings.Contains(s.Waiting, tc.waits) || (len(r.applied) > 0) != (tc.waits == "") {
						t.Errorf("applied %d times, waiting %q, want %q", len(r.applied), s.Waiting, tc.waits)
					}
				})
			})
		})
	}
}
