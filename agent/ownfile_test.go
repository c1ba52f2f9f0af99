package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/vendors"
)

// users makes a keeper, without --wait, that runs a file which a user wrote.
func users(t *testing.T, drv *recorder, edit func(*Config)) *keeper {
	t.Helper()
	k := newKeeper(t, drv, func(cfg *Config) {
		cfg.Wait, cfg.OffMarker = false, cfg.File+".off"
		if edit != nil {
			edit(cfg)
		}
	})
	if _, err := os.Lstat(k.cfg.File); err != nil {
		if err := os.WriteFile(k.cfg.File, []byte(deviceText), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// untouched fails where the user's file is not what it was.
func (k *keeper) untouched(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(k.cfg.File)
	if err != nil || string(text) != deviceText {
		t.Errorf("the user's file: %q, %v", text, err)
	}
	if info, err := os.Stat(k.cfg.File); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the user's file: %v, %v", info, err)
	}
}

// A file that csig did not write is never removed or replaced, whatever comes
// through the socket.
func TestDaemonLeavesTheUsersFile(t *testing.T) {
	for _, tc := range []struct {
		name   string
		do     func(t *testing.T, k *keeper)
		runs   bool // in the end
		marked bool // with the mark of csig off
	}{
		{"csig off", func(t *testing.T, k *keeper) {
			for range 2 {
				if err := k.RemoveSetup(t.Context(), onTest, ""); err != nil {
					t.Error(err)
				}
			}
			if s := k.Status(); !strings.Contains(s.Waiting, k.cfg.File) || !strings.Contains(s.Waiting, k.cfg.OffMarker) {
				t.Errorf("status says %q", s.Waiting)
			}
		}, false, true},
		{"csig off, with a removal that fails at first", func(t *testing.T, k *keeper) {
			k.with(func(r *recorder) { r.remove = errors.New("busy") })
			if err := k.RemoveSetup(t.Context(), onTest, ""); err == nil {
				t.Error("no error")
			}
			k.with(func(r *recorder) { r.remove = nil })
			if err := k.RemoveSetup(t.Context(), onTest, ""); err != nil {
				t.Error(err)
			}
		}, false, true},
		{"csig off, and the same configuration again", func(t *testing.T, k *keeper) {
			if err := k.RemoveSetup(t.Context(), onTest, ""); err != nil {
				t.Error(err)
			}
			k.configure(t, deviceText+"# in other words\n")
		}, true, false},
		{"another configuration", func(t *testing.T, k *keeper) {
			err := k.Configure(t.Context(), []byte(changed("lm: 5", "lm: 7")), "")
			if !vendors.IsPermanent(err) || !strings.Contains(err.Error(), k.cfg.File) {
				t.Errorf("%v", err)
			}
		}, true, false},
		{"another configuration, refused by the device", func(t *testing.T, k *keeper) {
			k.with(func(r *recorder) { r.apply = errors.New("busy") })
			if err := k.Configure(t.Context(), []byte(changed("lm: 5", "lm: 7")), ""); !vendors.IsPermanent(err) {
				t.Errorf("%v", err)
			}
			k.with(func(r *recorder) { r.apply = nil })
		}, true, false},
		{"an unconfirmed removal", func(t *testing.T, k *keeper) {
			if err := k.RemoveSetup(t.Context(), onTest, k.arm(t)); err != nil {
				t.Error(err)
			}
			time.Sleep(goesBack + time.Second)
			synctest.Wait()
		}, true, false},
		{"a removal that is confirmed", func(t *testing.T, k *keeper) {
			mark, off := k.arm(t), k.cfg.OffMarker
			if err := k.RemoveSetup(t.Context(), onTest, mark); err != nil {
				t.Error(err)
			}
			k.cfg.OffMarker = filepath.Join(k.cfg.File, "mark") // which cannot be
			if err := k.Confirm(t.Context(), mark); err == nil {
				t.Error("confirmed, and the next start would undo it")
			}
			k.cfg.OffMarker = off
			if err := k.Confirm(t.Context(), mark); err != nil {
				t.Error(err)
			}
		}, false, true},
		{"an unconfirmed change", func(t *testing.T, k *keeper) {
			if err := k.Configure(t.Context(), []byte(changed("lm: 5", "lm: 7")), k.arm(t)); !vendors.IsPermanent(err) {
				t.Errorf("%v", err)
			}
			time.Sleep(goesBack + time.Second)
			synctest.Wait()
		}, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := users(t, &recorder{}, nil)
				k.begin(t)
				time.Sleep(3 * interval)
				tc.do(t, k)
				time.Sleep(3 * interval)
				k.untouched(t)
				if s := k.Status(); (s.Waiting == "") != tc.runs {
					t.Errorf("it waits %q", s.Waiting)
				}
				if _, err := os.Lstat(k.cfg.OffMarker); (err == nil) != tc.marked {
					t.Errorf("the mark of csig off: %v", err)
				}
				k.close(t)

				// What the next start does, which may not wait.
				again := users(t, &recorder{}, func(c *Config) { c.File, c.OffMarker = k.cfg.File, k.cfg.OffMarker })
				defer again.close(t)
				err := again.Open(t.Context())
				if err == nil {
					err = again.Start(t.Context())
				}
				if off := (*OffError)(nil); (err == nil) != tc.runs || err != nil && !errors.As(err, &off) {
					t.Errorf("started again: %v", err)
				}
				k.untouched(t)
			})
		})
	}
}

// A daemon that is killed in a removal which waits for its confirmation runs the
// user's file when it is started again.
func TestDaemonKilledBesideTheUsersFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := users(t, &recorder{}, nil)
		k.begin(t)
		if err := k.RemoveSetup(t.Context(), onTest, k.arm(t)); err != nil {
			t.Fatal(err)
		}
		k.close(t)
		again := users(t, &recorder{}, func(c *Config) { c.File, c.OffMarker = k.cfg.File, k.cfg.OffMarker })
		again.begin(t)
		defer again.close(t)
		if got := again.runs(t); got != "5" || again.waits(t) {
			t.Errorf("it runs %q", got)
		}
		k.untouched(t)
	})
}

// Nor is anything else beside its file that csig did not write, or that a link
// leads to.
func TestDaemonLeavesWhatIsInItsWay(t *testing.T) {
	const text = "a user's\n"
	for _, name := range []string{".removing", ".armed", ".earlier", ".off", ""} {
		for _, link := range []bool{false, true} {
			t.Run(strings.TrimPrefix(name, "."), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					k := newKeeper(t, &recorder{}, func(c *Config) { c.OffMarker = c.File + ".off" })
					k.begin(t)
					defer k.close(t)
					if name != "" {
						k.configure(t, deviceText)
					}
					path := k.cfg.File + name
					at := path
					if link {
						at = filepath.Join(t.TempDir(), "elsewhere")
						if err := errors.Join(os.RemoveAll(path), os.Symlink(at, path)); err != nil {
							t.Fatal(err)
						}
					} else if err := os.RemoveAll(path); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
					var errs []error
					errs = append(errs, k.Configure(t.Context(), []byte(changed("lm: 5", "lm: 7")), ""))
					_, err := k.StartRevert(t.Context(), onTest, goesBack)
					errs = append(errs, err, k.RemoveSetup(t.Context(), onTest, ""))
					if errors.Join(errs...) == nil {
						t.Error("no error names it")
					}
					if got, err := os.ReadFile(at); err != nil || string(got) != text {
						t.Errorf("it is %q, %v", got, err)
					}
					if link {
						if to, err := os.Readlink(path); err != nil || to != at {
							t.Errorf("the link leads to %q, %v", to, err)
						}
					}
				})
			})
		}
	}
}

func TestOffMarkFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	at, mark := filepath.Join(dir, "elsewhere"), filepath.Join(dir, "new", "mark")
	if err := api.WriteOffMarker(mark, time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(mark); err != nil || string(text) != "csig off took this device off at 2001-09-09T01:46:40Z\n" {
		t.Errorf("%q, %v", text, err)
	}
	if err := errors.Join(api.RemoveOffMarker(mark), api.RemoveOffMarker(mark), os.Symlink(at, mark)); err != nil {
		t.Fatal(err)
	}
	// A link is a mark, and nothing is made where it leads.
	if err := api.WriteOffMarker(mark, time.Now()); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(at); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("made through the link: %v", err)
	}
	k := users(t, &recorder{}, func(c *Config) { c.OffMarker = mark })
	if err := k.Open(t.Context()); !errors.As(err, new(*OffError)) {
		t.Errorf("a link is no mark: %v", err)
	}
	if err := api.RemoveOffMarker(mark); err == nil {
		t.Error("a link is removed")
	}
}
