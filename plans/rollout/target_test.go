package rollout

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/vlanrules"
)

// A plan for a target relies on devices that it does not change: it is not begun, not
// continued and not undone where one of them has changed since.
func TestReliesOnOthers(t *testing.T) {
	p, f := threeStages(t)
	other := setup(vlanrules.Update, "a")
	f.devices["s4"] = other
	p.Target, p.RelyOn = []string{"s[1-3]"}, []plans.Relied{{Device: "s4", ObservedHash: plans.SetupHash(&other)}}
	change := func() { f.devices["s4"] = setup(vlanrules.Strip, "a") }

	before := hashes(f)
	change()
	if err := (&Run{Journal: begin(t, p), Open: f.open}).Apply(t.Context()); !errors.Is(err, ErrStale) || !strings.Contains(err.Error(), "device s4: the plan is stale: it relies on this device") || !strings.Contains(err.Error(), "make a new one") || len(f.log) > 0 {
		t.Errorf("begun: %v, %v", err, f.log)
	}
	delete(f.devices, "s4")
	if err := (&Run{Journal: begin(t, p), Open: f.open}).Apply(t.Context()); err == nil || !strings.Contains(err.Error(), "device s4: no route to s4") || len(f.log) > 0 {
		t.Errorf("begun without an answer: %v, %v", err, f.log)
	}

	f.devices["s4"] = other
	j := begin(t, p)
	r := &Run{Journal: j, Open: f.open, StopAfter: "ready"}
	if err := r.Apply(t.Context()); !errors.Is(err, ErrPaused) {
		t.Fatal(err)
	}
	change()
	r.StopAfter, f.log = "", nil
	if err := r.Apply(t.Context()); !errors.Is(err, ErrStale) || !strings.Contains(err.Error(), "restore it, or undo the plan") || len(f.log) > 0 {
		t.Errorf("continued: %v, %v", err, f.log)
	}
	if err := r.Rollback(t.Context()); !errors.Is(err, ErrStale) || !strings.Contains(err.Error(), "undo first what changed it") || len(f.log) > 0 {
		t.Errorf("undone: %v, %v", err, f.log)
	}
	delete(f.devices, "s4") // one that does not answer does not hinder the others
	if err := r.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.devices["s4"] = other
	if after := hashes(f); after != before {
		t.Errorf("after the rollback:\n%s\nbefore:\n%s", after, before)
	}
}

// A change of what it relies on while it is carried out stops it before the next stage.
func TestReliesOnOthersMeanwhile(t *testing.T) {
	p, f := threeStages(t)
	other := setup(vlanrules.Update, "a")
	f.devices["s4"] = other
	p.RelyOn = []plans.Relied{{Device: "s4", ObservedHash: plans.SetupHash(&other)}}
	r := &Run{Journal: begin(t, p), Open: f.open, Gate: gateFunc(func(wave string) {
		if wave == "fence/all" {
			f.devices["s4"] = setup(vlanrules.Strip, "a")
		}
	})}
	if err := r.Apply(t.Context()); !errors.Is(err, ErrStale) || !strings.Contains(err.Error(), "before stage ready: device s4") || len(f.log) != 2 {
		t.Errorf("%v, %v", err, f.log)
	}
}

type gateFunc func(wave string)

func (gateFunc) Before(context.Context, []string) error { return nil }

func (g gateFunc) After(_ context.Context, wave string, _ []string) (Judgement, error) {
	g(wave)
	return Judgement{}, nil
}
