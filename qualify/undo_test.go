package qualify

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// device is a driver of a device that keeps its setup.
type device struct {
	vendors.Driver // nil: what is not used
	setup          vendors.Setup
	stuck          bool // Remove does nothing
	identity       vendors.Identity
}

func (d *device) Probe(context.Context) (vendors.Facts, error) {
	return vendors.Facts{Platform: "linux", Identity: d.identity}, nil
}

func (d *device) Observe(context.Context) (vendors.Setup, error) { return d.setup, nil }

func (d *device) Apply(_ context.Context, want vendors.Setup) error {
	d.setup = want
	return nil
}

func (d *device) Remove(ctx context.Context) error {
	if !d.stuck {
		d.setup = vendors.Setup{}
	}
	return ctx.Err()
}

func (d *device) Close() error { return nil }

// applies is an experiment that sets the device up and then ends in a way.
func applies(end func(t *Trial) error) Experiment {
	e := sends
	e.Needs.Driver = true
	e.Run = func(ctx context.Context, t *Trial) error {
		if err := t.Apply(ctx, t.Setup(vlanrules.Update)); err != nil {
			return err
		}
		if err := end(t); err != nil {
			return err
		}
		return sends.Run(ctx, t)
	}
	return e
}

// TestUndo: however an experiment ends, the device has no setup of csig after it.
func TestUndo(t *testing.T) {
	stop := errors.New("stopped by the test")
	for _, tc := range []struct {
		name string
		end  func(t *Trial, cancel func(error)) error
		want error
	}{
		{"a pass", func(*Trial, func(error)) error { return nil }, nil},
		{"an error", func(*Trial, func(error)) error { return errors.New("no") }, nil},
		{"a panic", func(*Trial, func(error)) error { panic("mistake") }, nil},
		{"an interruption", func(_ *Trial, cancel func(error)) error { cancel(stop); return stop }, stop},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, _ := cabled(t)
				d := &device{}
				b.Driver = d
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				o := options(t, applies(func(tr *Trial) error {
					onDisk, err := Load(filepath.Join(tr.runner.o.Folder, reportJSON))
					if err != nil || !onDisk.Touched || len(d.setup.Ports) != 2 || d.setup.Ports[0].Port != "p1" {
						t.Errorf("the device has %+v, and the report says %+v, %v", d.setup, onDisk, err)
					}
					return tc.end(tr, cancel)
				}))
				if _, err := Run(ctx, b, o); !errors.Is(err, tc.want) {
					t.Errorf("%v, want %v", err, tc.want)
				}
				onDisk, err := Load(filepath.Join(o.Folder, reportJSON))
				if err != nil || onDisk.Touched || !d.setup.Nothing() {
					t.Errorf("the device has %+v, and the report says %+v, %v", d.setup, onDisk, err)
				}
			})
		})
	}
}

// TestUndoAfterAKill: what a killed run left is removed by Resume, and by nothing else
// taken for its own.
func TestUndoAfterAKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := cabled(t)
		d := &device{stuck: true}
		b.Driver = d
		o := options(t, applies(func(*Trial) error { return nil }))
		if _, err := Run(t.Context(), b, o); err == nil || !strings.Contains(err.Error(), "still has a setup") {
			t.Fatalf("a device that removes nothing: %v", err)
		}
		if text, err := os.ReadFile(filepath.Join(o.Folder, reportText)); err != nil || !strings.Contains(string(text), "--resume or csig off removes it") {
			t.Errorf("%s, %v", text, err)
		}
		d.stuck = false
		other := options(t, sends)
		b, _ = cabled(t)
		b.Driver = d
		if _, err := Run(t.Context(), b, other); err == nil || !strings.Contains(err.Error(), "has a setup of csig") || d.setup.Nothing() {
			t.Errorf("another run: %v", err)
		}
		b, _ = cabled(t)
		b.Driver = d
		o.Resume = true
		r, err := Run(t.Context(), b, o)
		if err != nil || !r.Complete || r.Touched || !d.setup.Nothing() {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// TestUndoFails: an experiment whose setup cannot be removed has its result, which --resume
// keeps.
func TestUndoFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := cabled(t)
		d := &device{}
		b.Driver = d
		ran := 0
		o := options(t, applies(func(*Trial) error {
			ran++
			d.stuck = true
			return nil
		}))
		if _, err := Run(t.Context(), b, o); err == nil || !strings.Contains(err.Error(), "still has a setup") {
			t.Fatal(err)
		}
		onDisk, err := Load(filepath.Join(o.Folder, reportJSON))
		if err != nil || len(onDisk.Results) != 1 || onDisk.Results[0].Outcome != Pass || !onDisk.Touched {
			t.Fatalf("%+v, %v", onDisk, err)
		}
		b, _ = cabled(t)
		b.Driver, d.stuck, o.Resume = d, false, true
		if r, err := Run(t.Context(), b, o); err != nil || !r.Complete || r.Touched || ran != 1 {
			t.Errorf("%+v, %v; ran %d times", r, err, ran)
		}
	})
}

// TestIdentity: the device's own word on what it is.
func TestIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct{ given, reported, want string }{
			{"", "X-1", "X-1"}, {"x-1", "X-1", "X-1"}, {"X-1", "", "X-1"}, {"X-2", "X-1", "error"}, {"", "", ""}, {"", "X\x1b[1m-1", `X\x1b[1m-1`},
		} {
			b, _ := cabled(t)
			b.Driver = &device{identity: vendors.Identity{Model: tc.reported}}
			o := options(t)
			o.About.Model = tc.given
			r, err := Run(t.Context(), b, o)
			switch {
			case tc.want == "error" && err == nil:
				t.Errorf("%+v: no error", tc)
			case tc.want != "error" && (err != nil || r.Switch.Model != tc.want):
				t.Errorf("%+v: %+v, %v", tc, r, err)
			}
		}
	})
}

// TestForwardsWithASetupAlone: a switch that forwards nothing without a setup of csig has
// one for each experiment, and none after it.
func TestForwardsWithASetupAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, keeps := range []bool{false, true} { // whether it forwards from then on
			b, one := cabled(t)
			d := &device{}
			b.Driver, b.Patience = d, 50*time.Millisecond
			ever := false
			forwards := func(f []byte) []byte {
				ever = ever || keeps && !d.setup.Nothing()
				if d.setup.Nothing() && !ever {
					return nil
				}
				return f
			}
			one.change, one.to.change = forwards, forwards
			r, err := Run(t.Context(), b, options(t, sends))
			if err != nil {
				t.Fatal(err)
			}
			res := r.Result("sends")
			if noted := len(res.Notes) > 0; res.Outcome != Pass || noted == keeps || !d.setup.Nothing() {
				t.Errorf("it forwards from then on: %v: %+v; the device has %+v", keeps, res, d.setup)
			}
		}
	})
}
