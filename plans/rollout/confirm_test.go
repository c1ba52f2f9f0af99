package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// remote is a fleet whose devices go back by themselves: at once when contact
// to them is lost.
type remote struct {
	*fleet
	back    map[string]vendors.Setup // of devices that are armed
	lostAt  string                   // this device cannot be reached any more once it was changed
	refuses bool                     // no device can be armed
	other   string                   // this device reads back as empty over any connection but that of its change
	late    string                   // this device reverts before its change comes
	ended   string                   // at this device another process cancels the auto-revert before the confirmation
	broken  string                   // this device fails in its change
	log     []string
}

type remoteDevice struct {
	*device
	r    *remote
	mine bool // armed by this one
}

func (r *remote) open(ctx context.Context, name string) (Target, error) {
	t, err := r.fleet.open(ctx, name)
	if err != nil {
		return nil, err
	}
	if before, armed := r.back[name]; armed && name == r.lostAt {
		r.devices[name] = before // its time is up
		delete(r.back, name)
		return nil, fmt.Errorf("no route to %s any more", name)
	}
	return &remoteDevice{device: t.(*device), r: r}, nil
}

func (d *remoteDevice) PendingRevert(context.Context) error {
	if _, armed := d.r.back[d.name]; armed && !d.mine {
		return &vendors.PendingRevertError{Left: 12 * time.Second}
	}
	return nil
}

func (d *remoteDevice) Observe(ctx context.Context) (vendors.Setup, error) {
	if _, armed := d.r.back[d.name]; armed && !d.mine && d.name == d.r.other {
		return vendors.Setup{}, nil
	}
	return d.device.Observe(ctx)
}

// changes is what happens at a change: one that is not armed by us ends what
// waits.
func (d *remoteDevice) changes() error {
	switch {
	case !d.mine:
		delete(d.r.back, d.name)
	case d.name == d.r.late:
		delete(d.r.back, d.name)
		return fmt.Errorf("too late: %w", vendors.ErrReverted)
	case d.name == d.r.broken:
		return errors.New("no space in its table")
	case d.name == d.r.ended:
		delete(d.r.back, d.name)
	}
	return nil
}

func (d *remoteDevice) Apply(ctx context.Context, want vendors.Setup) error {
	if err := d.changes(); err != nil {
		return err
	}
	return d.device.Apply(ctx, want)
}

func (d *remoteDevice) Remove(ctx context.Context) error {
	if err := d.changes(); err != nil {
		return err
	}
	return d.device.Remove(ctx)
}

func (d *remoteDevice) StartRevert(_ context.Context, after time.Duration) (string, error) {
	if d.r.refuses {
		return "", fmt.Errorf("its home directory is full: %w", errors.ErrUnsupported)
	}
	d.r.back[d.name], d.mine = d.f.devices[d.name], true
	d.r.log = append(d.r.log, fmt.Sprint(d.name, " armed ", after))
	return "mark of " + d.name, nil
}

func (d *remoteDevice) Confirm(_ context.Context, mark string) error {
	if _, armed := d.r.back[d.name]; !armed || mark != "mark of "+d.name {
		return vendors.ErrReverted
	}
	delete(d.r.back, d.name)
	d.r.log = append(d.r.log, d.name+" confirmed")
	return nil
}

// A device that is cut off by its change goes back, the step has failed, and
// the plan can be continued or undone.
func TestCommitConfirmed(t *testing.T) {
	for _, undo := range []bool{false, true} {
		p, f := threeStages(t)
		before := map[string]string{}
		for name, s := range f.devices {
			before[name] = hashOf(s)
		}
		j := begin(t, p)
		d := &remote{fleet: f, back: map[string]vendors.Setup{}, lostAt: "s2"}
		r := &Run{Journal: j, Open: d.open, Revert: time.Minute}
		err := r.Apply(t.Context())
		if err == nil || !strings.Contains(err.Error(), "device s2: over a new connection after the change: no route to s2 any more; it auto-reverts within 1m0s") {
			t.Fatalf("got %v", err)
		}
		if hashOf(f.devices["s2"]) != before["s2"] {
			t.Errorf("s2 has %+v", f.devices["s2"])
		}
		for _, name := range []string{"s1", "s3"} {
			if !slices.Contains(d.log, name+" armed 1m0s") || !slices.Contains(d.log, name+" confirmed") {
				t.Errorf("%s was not both armed and confirmed: %v", name, d.log)
			}
		}
		d.lostAt = ""
		if undo {
			if err := r.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			for name, s := range f.devices {
				if hashOf(s) != before[name] {
					t.Errorf("%s has %+v after the rollback", name, s)
				}
			}
		} else if err := r.Apply(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(d.back) > 0 {
			t.Errorf("still armed: %v", d.back)
		}
	}
}

// A device that cannot be armed is changed all the same, and that is told.
func TestCannotBeArmed(t *testing.T) {
	p, f := threeStages(t)
	d := &remote{fleet: f, back: map[string]vendors.Setup{}, refuses: true}
	told := 0
	r := &Run{Journal: begin(t, p), Open: d.open, Revert: time.Minute, Report: func(p Progress) {
		if p.Event == EventAutoRevert && p.Reverts == 0 && strings.Contains(p.Err.Error(), "home directory is full") {
			told++
		}
	}}
	if err := r.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if told != len(r.Journal.state.all) {
		t.Errorf("told %d times in %d steps", told, len(r.Journal.state.all))
	}
}

// What is said of a step that went wrong on an armed device is what the device
// does.
func TestArmedStepFails(t *testing.T) {
	const back = "; it auto-reverts within 1m0s to what it had before"
	for _, c := range []struct {
		name  string
		r     remote
		error string // "": none
		armed bool   // s2 at the end
	}{
		{"reads back otherwise over a new connection", remote{other: "s2"}, "reading back over a new connection: the setup read back is not the wanted one", true},
		{"its change fails", remote{broken: "s2"}, "device s2: no space in its table" + back, true},
		{"its change comes too late", remote{late: "s2"}, "device s2: too late: the device has auto-reverted", false},
		{"another process has cancelled it", remote{ended: "s2"}, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, f := threeStages(t)
			d := &c.r
			d.fleet, d.back = f, map[string]vendors.Setup{}
			r := &Run{Journal: begin(t, p), Open: d.open, Revert: time.Minute}
			err := r.Apply(t.Context())
			switch {
			case c.error == "" && err != nil:
				t.Fatal(err)
			case c.error != "" && (err == nil || !strings.Contains(err.Error(), c.error)):
				t.Errorf("got %v, want %s", err, c.error)
			case c.error != "" && strings.Contains(err.Error(), back) != c.armed:
				t.Errorf("armed is %v, and it says %v", c.armed, err)
			}
			if _, armed := d.back["s2"]; armed != c.armed {
				t.Errorf("armed: %v, want %v", armed, c.armed)
			}
		})
	}
}

// The auto-revert of a killed csig ends with the step that is done again, whether
// that step starts one or not; another plan does not begin.
func TestArmedByAnother(t *testing.T) {
	p, f := threeStages(t)
	j := begin(t, p)
	d := &remote{fleet: f, back: map[string]vendors.Setup{}, broken: "s1"}
	if err := (&Run{Journal: j, Open: d.open, Revert: time.Minute}).Apply(t.Context()); err == nil || len(d.back) != 1 {
		t.Fatalf("%v, armed: %v", err, d.back)
	}
	d.broken = ""
	var armed *vendors.PendingRevertError
	if err := (&Run{Journal: begin(t, p), Open: d.open}).Apply(t.Context()); !errors.As(err, &armed) {
		t.Errorf("another run of the plan: %v", err)
	}
	if err := (&Run{Journal: j, Open: d.open}).Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(d.back) > 0 {
		t.Errorf("still armed: %v", d.back)
	}
}
