package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/vendors"
)

const goesBack = 30 * time.Second

func (k *keeper) arm(t *testing.T) string {
	t.Helper()
	mark, err := k.StartRevert(t.Context(), onTest, goesBack)
	if err != nil {
		t.Fatal(err)
	}
	return mark
}

func (k *keeper) waits(t *testing.T) bool {
	t.Helper()
	err := k.PendingRevert(t.Context())
	if err != nil && !errors.As(err, new(*vendors.PendingRevertError)) {
		t.Error(err)
	}
	if _, e := os.Stat(k.revertFile()); (e == nil) != (err != nil) {
		t.Errorf("waits: %v, its file: %v", err, e)
	}
	return err != nil
}

// runs is the locator of the configuration in force: "" for none.
func (k *keeper) runs(t *testing.T) string {
	t.Helper()
	s, text := k.Status(), k.text(t)
	if (s.ConfigHash == "") != (text == "") {
		t.Errorf("it runs %.12q, and its file is\n%s", s.ConfigHash, text)
	}
	for _, lm := range []string{"5", "7", "9"} {
		if s.ConfigHash != "" && strings.Contains(text, "lm: "+lm) || strings.Contains(text, "abw: "+lm) {
			return lm
		}
	}
	return ""
}

// A daemon reverts an unconfirmed change to the configuration before it, and to no
// other.
func TestDaemonGoesBack(t *testing.T) {
	five, seven, nine := deviceText, changed("lm: 5", "lm: 7"), changed("lm: 5", "lm: 9")
	for _, tc := range []struct {
		name   string
		before string // configuration
		change func(t *testing.T, k *keeper, mark string)
		now    string // locator after the change
		later  string // and when the time is over
		waits  bool   // still, a second after the change
	}{
		{"changed", five, func(t *testing.T, k *keeper, mark string) {
			if err := k.Configure(t.Context(), []byte(seven), mark); err != nil {
				t.Fatal(err)
			}
		}, "7", "5", true},
		{"given its first", "", func(t *testing.T, k *keeper, mark string) {
			if err := k.Configure(t.Context(), []byte(seven), mark); err != nil {
				t.Fatal(err)
			}
		}, "7", "", true},
		{"emptied", five, func(t *testing.T, k *keeper, mark string) {
			if err := k.RemoveSetup(t.Context(), onTest, mark); err != nil {
				t.Fatal(err)
			}
		}, "", "5", true},
		{"changed twice", five, func(t *testing.T, k *keeper, mark string) {
			for _, text := range []string{seven, nine} {
				if err := k.Configure(t.Context(), []byte(text), mark); err != nil {
					t.Fatal(err)
				}
			}
		}, "9", "5", true},
		{"not changed", five, func(*testing.T, *keeper, string) {}, "5", "5", true},
		{"confirmed", five, func(t *testing.T, k *keeper, mark string) {
			if err := errors.Join(k.Configure(t.Context(), []byte(seven), mark), k.Confirm(t.Context(), mark)); err != nil {
				t.Fatal(err)
			}
		}, "7", "7", false},
		{"confirmed with another token", five, func(t *testing.T, k *keeper, mark string) {
			err := errors.Join(k.Configure(t.Context(), []byte(seven), mark), k.Confirm(t.Context(), mark[1:]))
			if !errors.Is(err, vendors.ErrReverted) {
				t.Errorf("got %v", err)
			}
		}, "7", "5", true},
		{"changed by another", five, func(t *testing.T, k *keeper, mark string) {
			if err := errors.Join(k.Configure(t.Context(), []byte(seven), mark), k.Configure(t.Context(), []byte(nine), "")); err != nil {
				t.Fatal(err)
			}
			if err := k.Confirm(t.Context(), mark); !errors.Is(err, vendors.ErrReverted) {
				t.Errorf("a confirmation after that: %v", err)
			}
		}, "9", "9", false},
		{"emptied by another", five, func(t *testing.T, k *keeper, _ string) {
			if err := k.RemoveSetup(t.Context(), onTest, ""); err != nil {
				t.Fatal(err)
			}
		}, "", "", false},
		{"too late", five, func(t *testing.T, k *keeper, mark string) {
			time.Sleep(goesBack)
			synctest.Wait()
			for _, err := range []error{k.Configure(t.Context(), []byte(seven), mark), k.RemoveSetup(t.Context(), onTest, mark), k.Confirm(t.Context(), mark)} {
				if !errors.Is(err, vendors.ErrReverted) {
					t.Errorf("got %v", err)
				}
			}
		}, "5", "5", false},
		{"a second auto-revert", five, func(t *testing.T, k *keeper, mark string) {
			if err := k.Configure(t.Context(), []byte(seven), mark); err != nil {
				t.Fatal(err)
			}
			k.arm(t) // what is there now stays
		}, "7", "7", true},
		{"what is there cannot be put back at first", five, func(t *testing.T, k *keeper, mark string) {
			if err := k.Configure(t.Context(), []byte(seven), mark); err != nil {
				t.Fatal(err)
			}
			k.with(func(r *recorder) { r.apply = &vendors.PermanentError{Err: errors.New("no room")} })
			time.AfterFunc(goesBack+3*revertRetry/2, func() { k.with(func(r *recorder) { r.apply = nil }) })
		}, "7", "5", true},
		{"taken off past it", five, func(t *testing.T, k *keeper, mark string) {
			if err := k.Configure(t.Context(), []byte(seven), mark); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(k.cfg.OffMarker, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "7", "7", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKeeper(t, &recorder{}, func(c *Config) { c.OffMarker = c.File + ".off" })
				k.begin(t)
				defer k.close(t)
				if tc.before != "" {
					k.configure(t, tc.before)
				}
				tc.change(t, k, k.arm(t))
				time.Sleep(time.Second)
				if got := k.runs(t); got != tc.now || k.waits(t) != tc.waits {
					t.Errorf("after the change: %q, waits: %v; want %q, %v", got, k.waits(t), tc.now, tc.waits)
				}
				time.Sleep(goesBack + 3*revertRetry)
				synctest.Wait()
				if got := k.runs(t); got != tc.later || k.waits(t) {
					t.Errorf("later: %q, waits: %v; want %q", got, k.waits(t), tc.later)
				}
			})
		})
	}
}

// A daemon that is killed before anybody confirms its change goes back when it
// is started again.
func TestDaemonKilledWhileArmed(t *testing.T) {
	five, seven := deviceText, changed("lm: 5", "lm: 7")
	for _, tc := range []struct {
		name, before, change, want string
	}{
		{"changed", five, seven, "5"},
		{"given its first", "", seven, ""},
		{"emptied", five, "", "5"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKeeper(t, &recorder{}, nil)
				k.begin(t)
				if tc.before != "" {
					k.configure(t, tc.before)
				}
				mark, err := k.arm(t), error(nil)
				if tc.change == "" {
					err = k.RemoveSetup(t.Context(), onTest, mark)
				} else {
					err = k.Configure(t.Context(), []byte(tc.change), mark)
				}
				if err != nil {
					t.Fatal(err)
				}
				k.close(t)
				time.Sleep(2 * goesBack) // nothing of it goes on
				if _, err := os.Stat(k.revertFile()); err != nil {
					t.Fatal(err)
				}

				again := newKeeper(t, &recorder{}, func(c *Config) { c.File = k.cfg.File })
				again.begin(t)
				defer again.close(t)
				if got := again.runs(t); got != tc.want || again.waits(t) {
					t.Errorf("it runs %q, waits: %v; want %q", got, again.waits(t), tc.want)
				}
				if left, err := filepath.Glob(k.cfg.File + ".removing"); err != nil || len(left) > 0 {
					t.Errorf("left behind: %v, %v", left, err)
				}
				again.with(func(r *recorder) {
					if removed := r.removed > 0; removed != (tc.want == "") {
						t.Errorf("removed from the device: %v", removed)
					}
				})
			})
		})
	}
}

func TestDaemonCannotBeArmed(t *testing.T) {
	for _, tc := range []struct {
		name  string
		edit  func(*Config)
		happy func(k *keeper, r *recorder)
		after time.Duration
		says  string
		never bool // errors.ErrUnsupported
	}{
		{name: "a foreign setup", happy: func(_ *keeper, r *recorder) { r.have.TPID = 0x9900 }, says: "belongs to no configuration of this daemon", never: true},
		{name: "a file that it does not run", happy: func(k *keeper, _ *recorder) { _ = os.WriteFile(k.cfg.File, []byte("broken"), 0o600) }, says: "does not run its file", never: true},
		{name: "too soon", after: time.Millisecond, says: "want 1s to 24h"},
		{name: "too late", after: 25 * time.Hour, says: "want 1s to 24h"},
		{name: "shadow", edit: func(c *Config) { c.Shadow, c.Wait = true, true }, says: "--dry-run"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			drv := &recorder{}
			k := newKeeper(t, drv, tc.edit)
			if tc.happy != nil {
				tc.happy(k, drv)
			}
			k.begin(t)
			defer k.close(t)
			if tc.after == 0 {
				tc.after = goesBack
			}
			_, err := k.StartRevert(t.Context(), onTest, tc.after)
			if err == nil || !strings.Contains(err.Error(), tc.says) || errors.Is(err, errors.ErrUnsupported) != tc.never {
				t.Errorf("got %v", err)
			}
			if k.pending != nil {
				t.Error("it waits all the same")
			}
		})
	}
}
