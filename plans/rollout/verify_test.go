package rollout

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// between is a gate that lets everything through, and does something at one
// place: "before fence/all" or "after fence/all".
type between struct {
	at   string
	do   func()
	seen []string
}

func (g *between) Before(_ context.Context, devices []string) error {
	g.visit("before " + strings.Join(devices, " "))
	return nil
}

func (g *between) After(_ context.Context, wave string, _ []string) (Judgement, error) {
	g.visit("after " + wave)
	return Judgement{}, nil
}

func (g *between) visit(at string) {
	g.seen = append(g.seen, at)
	if at == g.at {
		g.do()
	}
}

// A device that another process changes while a plan is carried out stops it before
// anything relies on that device, and nothing of it is overwritten.
func TestChangedDuringTheRun(t *testing.T) {
	for name, tc := range map[string]struct {
		at, device string
		want       string // in the error
		changes    int    // done before it
	}{
		"before its own step":       {at: "after ready/canary", device: "s3", want: "device s3", changes: 4},
		"before its first step":     {at: "after ready/canary", device: "s2", want: "device s2", changes: 3},
		"as the wave is looked at":  {at: "before s1", device: "s1", want: "device s1", changes: 2},
		"done, before the opening":  {at: "after ready/rest", device: "s2", want: "before stage open: device s2", changes: 5},
		"while the opening soaks":   {at: "before s1 s3", device: "s2", want: "before stage open: device s2", changes: 5},
		"when all else is done":     {at: "after open/all", device: "s2", want: "device s2", changes: 7},
		"fenced, before the others": {at: "after fence/all", device: "s3", want: "before stage ready: device s3", changes: 2},
	} {
		t.Run(name, func(t *testing.T) {
			p, f := threeStages(t)
			j := begin(t, p)
			hand := setup(vlanrules.Update, "z")
			var had vendors.Setup
			g := &between{at: tc.at}
			g.do = func() {
				if name == "while the opening soaks" && len(f.log) < 5 {
					return // of the fence: it has the same devices
				}
				had, f.devices[tc.device] = f.devices[tc.device], hand
			}
			r := &Run{Journal: j, Open: f.open, Gate: g}
			err := r.Apply(t.Context())
			if !errors.Is(err, ErrStale) || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want %q", err, tc.want)
			}
			if len(f.log) != tc.changes || hashOf(f.devices[tc.device]) != hashOf(hand) {
				t.Errorf("%d changes, want %d: %v; the device has %+v", len(f.log), tc.changes, f.log, f.devices[tc.device])
			}
			if j.state.ended {
				t.Error("the journal says that all is done")
			}
			// Put back, it goes on.
			f.devices[tc.device] = had
			r.Journal, g.at = reopen(t, j), ""
			if err := r.Apply(t.Context()); err != nil || len(f.log) != 7 {
				t.Errorf("resumed: %v, %v", err, f.log)
			}
		})
	}
}

// The gate looks at each wave's devices before anything of the wave is done.
func TestGateLooksBefore(t *testing.T) {
	p, f := threeStages(t)
	g := &between{}
	r := &Run{Journal: begin(t, p), Open: f.open, Gate: g, Report: func(p Progress) {
		if p.Event == EventStart {
			g.seen = append(g.seen, "start "+p.Device)
		}
	}}
	if err := r.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := "before s1 s3,start s1,start s3,after fence/all,before s1,start s1,after ready/canary,before s2 s3,start s2,start s3,after ready/rest,before s1 s3,start s1,start s3,after open/all"
	if got := strings.Join(g.seen, ","); got != want {
		t.Errorf("order\n%s, want\n%s", got, want)
	}
}

// A rollback with a journal that lacks its last lines says so before it changes
// anything.
func TestRollbackOfAShortJournal(t *testing.T) {
	p, f := threeStages(t)
	before := hashes(f)
	j := begin(t, p)
	r := &Run{Journal: j, Open: f.open, StopAfter: "ready"}
	if err := r.Apply(t.Context()); !errors.Is(err, ErrPaused) {
		t.Fatal(err)
	}
	_ = j.Close()
	text, err := os.ReadFile(j.Path())
	if err != nil {
		t.Fatal(err)
	}
	short, _, _ := bytes.Cut(text, []byte(`"event":"start","step":4`))
	short = short[:bytes.LastIndexByte(short, '\n')+1]
	if r.Journal, err = openText(t, short); err != nil {
		t.Fatal(err)
	}
	f.log = nil
	err = r.Rollback(t.Context())
	if err == nil || len(f.log) > 0 || !strings.Contains(err.Error(), "device s2 has the setup of step 4, device s3 has the setup of step 5") || !strings.Contains(err.Error(), "lacks its last lines") || strings.Contains(err.Error(), "device s1") {
		t.Errorf("got %v", err)
	}
	// With the whole one it is all undone.
	if r.Journal, err = openText(t, text); err != nil {
		t.Fatal(err)
	}
	if err := r.Rollback(t.Context()); err != nil || hashes(f) != before {
		t.Errorf("%v\n%s", err, hashes(f))
	}
}

// raising is a plan that raises the MTU of two ports, and nothing else.
func raising(t *testing.T) (*plans.Plan, *fleet) {
	t.Helper()
	f := &fleet{devices: map[string]vendors.Setup{"s1": {}, "s2": {}}, mtus: map[string]map[string]int{"s1": {"a": 1500}, "s2": {"a": 1500}}}
	p := &plans.Plan{Format: plans.Format, Goal: plans.RollOut, Devices: []plans.Device{
		{Device: "s1", ObservedHash: plans.SetupHash(&vendors.Setup{})}, {Device: "s2", ObservedHash: plans.SetupHash(&vendors.Setup{})},
	}}
	for i, name := range []string{"s1", "s2"} {
		mtu := []plans.PortMTU{{Port: "a", From: 1500, To: 1504}}
		p.Stages = append(p.Stages, plans.Stage{Name: plans.StageMTU, Waves: []plans.Wave{{Name: name, Steps: []plans.Step{{ID: i + 1, Device: name, MTU: mtu}}}}})
	}
	if err := p.Seal(); err != nil {
		t.Fatal(err)
	}
	return p, f
}

func TestChangedMTU(t *testing.T) {
	for name, tc := range map[string]struct {
		at   string // when another process sets it: see between; "": before all
		mtu  map[string]int
		want string // in the error of apply; "" none
		left map[string]int
	}{
		"before the apply":       {mtu: map[string]int{"s2": 9000}, want: "device s2: the plan is stale: the MTU of port a is 9000, and was 1500", left: map[string]int{"s1": 1500, "s2": 9000}},
		"before its step":        {at: "after mtu/s1", mtu: map[string]int{"s2": 9000}, want: "device s2: the plan is stale: the MTU of port a is 9000", left: map[string]int{"s1": 1504, "s2": 9000}},
		"lowered again":          {at: "after mtu/s2", mtu: map[string]int{"s1": 1500}, want: "device s1: the plan is stale: another process changed it while the plan was carried out: the MTU of port a is 1500, want 1504", left: map[string]int{"s1": 1500, "s2": 1504}},
		"raised more: no matter": {at: "after mtu/s2", mtu: map[string]int{"s1": 9000}, left: map[string]int{"s1": 9000, "s2": 1504}},
	} {
		t.Run(name, func(t *testing.T) {
			p, f := raising(t)
			change := func() {
				for device, mtu := range tc.mtu {
					f.mtus[device]["a"] = mtu
				}
			}
			if tc.at == "" {
				change()
			}
			r := &Run{Journal: begin(t, p), Open: f.open, Gate: &between{at: tc.at, do: change}}
			err := r.Apply(t.Context())
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			for device, want := range tc.left {
				if got := f.mtus[device]["a"]; got != want {
					t.Errorf("%s has %d, want %d: %v", device, got, want, f.log)
				}
			}
		})
	}
}

// A rollback lowers what the plan has raised, and leaves alone, with a word,
// what another process has set since.
func TestRollbackLeavesOthersMTU(t *testing.T) {
	p, f := raising(t)
	j := begin(t, p)
	r := &Run{Journal: j, Open: f.open}
	if err := r.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.mtus["s2"]["a"] = 9000
	var told []string
	r.Report = func(p Progress) {
		if p.Event == EventUndone && p.Err != nil {
			told = append(told, p.Device+": "+p.Err.Error())
		}
	}
	if err := r.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f.mtus["s1"]["a"] != 1500 || f.mtus["s2"]["a"] != 9000 {
		t.Errorf("left with %v", f.mtus)
	}
	if want := []string{"s2: not restored: the MTU of port a is 9000 by now, neither what it was, 1500, nor what the plan set, 1504"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// A rollback that cannot lower an MTU is not done.
func TestRollbackThatCannotLowerAnMTU(t *testing.T) {
	p, f := raising(t)
	r := &Run{Journal: begin(t, p), Open: f.open}
	if err := r.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.broken = map[string]error{"s2": errors.New("the link is gone")}
	if err := r.Rollback(t.Context()); err == nil || !strings.Contains(err.Error(), "the link is gone") {
		t.Errorf("the rollback says %v", err)
	}
	delete(f.broken, "s2")
	if err := r.Rollback(t.Context()); err != nil || f.mtus["s1"]["a"] != 1500 || f.mtus["s2"]["a"] != 1500 {
		t.Errorf("once more: %v, left with %v", err, f.mtus)
	}
}

// mute is a device that accepts a connection and says nothing.
type mute struct{ Target }

func (mute) Observe(ctx context.Context) (vendors.Setup, error) {
	<-ctx.Done()
	return vendors.Setup{}, context.Cause(ctx)
}

// A device that says nothing is given up after the limit, at the first look,
// too.
func TestLimitOfTheFirstLook(t *testing.T) {
	p, f := threeStages(t)
	r := &Run{Journal: begin(t, p), Limit: 10 * time.Millisecond, Open: func(ctx context.Context, name string) (Target, error) {
		d, err := f.open(ctx, name)
		if name == "s3" {
			return mute{d}, err
		}
		return d, err
	}}
	if err := r.Apply(t.Context()); err == nil || !strings.Contains(err.Error(), "device s3: reading its setup: not done within 10ms") {
		t.Errorf("got %v", err)
	}
}

// A gate that is interrupted has not said no.
func TestInterruptedGate(t *testing.T) {
	p, f := threeStages(t)
	j := begin(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	h := &Health{Plan: p, Open: f.open, Soak: time.Hour}
	r := &Run{Journal: j, Open: f.open, Gate: onlyAfter{h}, Report: func(p Progress) {
		switch p.Event {
		case EventJudge:
			cancel()
		case EventGate:
			t.Errorf("it judged: %v", p.Err)
		}
	}}
	if err := r.Apply(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, judged := j.state.gates["fence/all"]; judged || j.state.last[1] != EventDone {
		t.Errorf("the journal says %+v", j.state)
	}
}

// onlyAfter is a gate that does not watch before a wave.
type onlyAfter struct{ *Health }

func (onlyAfter) Before(context.Context, []string) error { return nil }
