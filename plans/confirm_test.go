package plans

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
	log     []string
}

type remoteDevice struct {
	*device
	r *remote
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
	return &remoteDevice{t.(*device), r}, nil
}

func (d *remoteDevice) Arm(_ context.Context, after time.Duration) (string, error) {
	if d.r.refuses {
		return "", fmt.Errorf("its home directory is full: %w", errors.ErrUnsupported)
	}
	if _, already := d.r.back[d.name]; !already {
		d.r.back[d.name] = d.f.devices[d.name]
	}
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
		if err == nil || !strings.Contains(err.Error(), "device s2: over a new connection after the change: no route to s2 any more; it goes back by itself within 1m0s") {
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
		if p.Event == EventArmed && p.Reverts == 0 && strings.Contains(p.Err.Error(), "home directory is full") {
			told++
		}
	}}
	if err := r.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if told != r.x.of {
		t.Errorf("told %d times in %d steps", told, r.x.of)
	}
}
