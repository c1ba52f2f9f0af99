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

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
)

// reloaded is a daemon that runs a user's file and reads it again.
type reloaded struct {
	*keeper
	wish chan struct{}
}

// during runs it until do returns.
func (r *reloaded) during(t *testing.T, do func()) {
	t.Helper()
	r.begin(t)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	time.Sleep(4 * interval)
	do()
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	r.close(t)
}

// write makes the user's file a new one, as editors do.
func (r *reloaded) write(t *testing.T, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "new.yaml")
	if err := errors.Join(os.WriteFile(file, []byte(text), 0o640), os.Rename(file, r.cfg.File)); err != nil {
		t.Fatal(err)
	}
}

// looked waits until a change of the file is noticed.
func looked() {
	time.Sleep(2*fileLook + 3*interval)
	synctest.Wait()
}

func (r *reloaded) lm(t *testing.T) (lm int) {
	t.Helper()
	r.with(func(rec *recorder) { lm = int(rec.lastIntents(t)[0].LM) })
	return lm
}

func TestReload(t *testing.T) {
	seven := changed("lm: 5", "lm: 7")
	for _, tc := range []struct {
		name string
		edit func(*Config)
		do   func(t *testing.T, r *reloaded)
		lm   int    // that is in force at the end
		want string // in the status; "" where the file is in force
	}{
		{name: "a change", do: func(t *testing.T, r *reloaded) {
			r.write(t, seven)
			looked()
		}, lm: 7},
		{name: "no change, and a wish", do: func(t *testing.T, r *reloaded) {
			applied := 0
			r.with(func(rec *recorder) { applied = len(rec.applied) })
			r.wish <- struct{}{}
			looked()
			r.with(func(rec *recorder) { applied = len(rec.applied) - applied })
			if applied != 0 || r.Status().Reload == nil {
				t.Errorf("%d setups, %+v", applied, r.Status().Reload)
			}
		}, lm: 5},
		{name: "a mistake", do: func(t *testing.T, r *reloaded) {
			r.write(t, changed("lm: 5", "lm: 500"))
			looked()
		}, lm: 5, want: "device.yaml:14:"},
		{name: "a mistake that is corrected", do: func(t *testing.T, r *reloaded) {
			r.write(t, changed("speed", "sped"))
			looked()
			r.write(t, seven)
			looked()
		}, lm: 7},
		{name: "a change that is saved while the one before it is put in force", edit: func(c *Config) {
			loads := 0
			c.Load = func(path string) (*inventory.Fleet, error) {
				f, err := inventory.Load(path)
				if loads++; loads == 2 { // the first was the start
					err = errors.Join(err, os.WriteFile(path, []byte(seven+"# saved again\n"), 0o640))
				}
				return f, err
			}
		}, do: func(t *testing.T, r *reloaded) {
			r.write(t, changed("lm: 5", "lm: 9"))
			looked()
			looked()
		}, lm: 7},
		{name: "a mistake in another file that it now includes, which is corrected", do: func(t *testing.T, r *reloaded) {
			more := filepath.Join(filepath.Dir(r.cfg.File), "more.yaml")
			for _, text := range []string{"format: csig.fleet/v1\nwrong: 1\n", "format: csig.fleet/v1\n"} {
				if err := os.WriteFile(more, []byte(text), 0o640); err != nil {
					t.Fatal(err)
				}
				if strings.Contains(text, "wrong") {
					r.write(t, seven+"include: more.yaml\n")
				}
				looked()
				if s := r.Status().Reload; s == nil || strings.Contains(text, "wrong") != strings.Contains(s.Error, "more.yaml:2:") {
					t.Errorf("%q: %+v", text, s)
				}
			}
		}, lm: 7},
		{name: "no file", do: func(t *testing.T, r *reloaded) {
			if err := os.Remove(r.cfg.File); err != nil {
				t.Fatal(err)
			}
			looked()
		}, lm: 5, want: "no such file"},
		{name: "a file that is written in two parts", do: func(t *testing.T, r *reloaded) {
			for _, text := range []string{changed("lm: 5", "lm: 9"), seven + "# the rest\n"} {
				if err := os.WriteFile(r.cfg.File, []byte(text), 0o640); err != nil {
					t.Fatal(err)
				}
				time.Sleep(fileLook * 9 / 10)
			}
			looked()
			r.with(func(rec *recorder) {
				for _, u := range rec.updates {
					if len(u) > 0 && u[0].LM == 9 {
						t.Fatal("the first part was in force")
					}
				}
			})
		}, lm: 7},
		{name: "a device that does not take it", do: func(t *testing.T, r *reloaded) {
			r.with(func(rec *recorder) { rec.diff = &vendors.PermanentError{Err: errors.New("table full")} })
			r.write(t, seven)
			looked()
			r.with(func(rec *recorder) { rec.diff = nil })
			time.Sleep(2 * setupRetry)
		}, lm: 5, want: "table full"},
		{name: "with the mark of csig off", do: func(t *testing.T, r *reloaded) {
			lm := r.lm(t)
			if err := r.RemoveSetup(t.Context(), onTest, ""); err != nil {
				t.Fatal(err)
			}
			n := 0
			r.with(func(rec *recorder) { n = len(rec.updates) })
			r.write(t, seven)
			looked()
			r.wish <- struct{}{}
			looked()
			r.with(func(rec *recorder) { n = len(rec.updates) - n })
			if n != 0 || r.lm(t) != lm || r.Status().Waiting == "" {
				t.Errorf("%d updates after csig off: %+v", n, r.Status())
			}
		}, lm: 5, want: "off-marker"},
		{name: "while an operator changes the device", do: func(t *testing.T, r *reloaded) {
			op := api.Operator{Who: "alice", Session: "s1"}
			if err := r.Admit(t.Context(), op); err != nil {
				t.Fatal(err)
			}
			r.write(t, seven)
			looked()
			if s := r.Status(); r.lm(t) != 5 || s.Reload == nil || !strings.Contains(s.Reload.Error, "alice") {
				t.Errorf("at once: %+v", s.Reload)
			}
			if err := r.Leave(t.Context(), op.Session); err != nil {
				t.Fatal(err)
			}
			looked()
		}, lm: 7},
		{name: "in shadow mode", edit: func(c *Config) { c.Shadow = true }, do: func(t *testing.T, r *reloaded) {
			r.write(t, changed("interval: 100ms", "interval: 200ms"))
			looked()
			if s := r.Status(); s.IntervalNS != int64(2*interval) || !s.Shadow {
				t.Errorf("%+v", s)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &reloaded{wish: make(chan struct{}, 1)}
				r.keeper = users(t, &recorder{}, func(c *Config) {
					c.Reload = r.wish
					if tc.edit != nil {
						tc.edit(c)
					}
				})
				r.during(t, func() {
					tc.do(t, r)
					s := r.Status()
					if s.Reload == nil || (s.Reload.Error == "") != (tc.want == "") || !strings.Contains(s.Reload.Error, tc.want) {
						t.Errorf("the status: %+v, want %q", s.Reload, tc.want)
					}
					if s.Waiting == "" && (s.Cycle.Lapses != 0 || s.Ports[0].State != api.StateLive && s.Ports[0].State != api.StateWaiting || s.Cycle.LastError != "") {
						t.Errorf("the agent: %+v", s)
					}
					if tc.lm != 0 && r.lm(t) != tc.lm {
						t.Errorf("it writes LM %d, want %d", r.lm(t), tc.lm)
					}
					r.with(func(rec *recorder) {
						if s.Waiting == "" && (rec.released != 0 || rec.removed != 0) {
							t.Errorf("released %d times, removed %d times", rec.released, rec.removed)
						}
					})
				})
			})
		})
	}
}

// A file that csig wrote comes from csig apply alone.
func TestReloadLeavesItsOwnFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reloaded{wish: make(chan struct{}, 1)}
		r.keeper = newKeeper(t, &recorder{}, func(c *Config) { c.Reload = r.wish })
		r.during(t, func() {
			r.configure(t, deviceText)
			time.Sleep(4 * interval)
			r.write(t, ownFirst+changed("lm: 5", "lm: 7"))
			looked()
			r.wish <- struct{}{}
			looked()
			if s := r.Status(); r.lm(t) != 5 || s.Reload != nil {
				t.Errorf("it writes LM %d, and says %+v", r.lm(t), s.Reload)
			}
		})
	})
}
