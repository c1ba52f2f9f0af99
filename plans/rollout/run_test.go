package rollout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/plans/planstest"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// fleet is devices in memory. They keep what they were given, refuse what no
// device takes, and count what is done to them.
type fleet struct {
	mu      sync.Mutex
	devices map[string]vendors.Setup
	log     []string // "s1 apply", in order
	ops     int
	dieAt   int // the operation at which the process dies; 0: never
	half    bool
	journal *Journal
	broken  map[string]error
	lacks   string // the port that no device has
	mtus    map[string]map[string]int
}

var errDead = errors.New("the process is dead")

// op counts an operation that changes something; from dieAt on nothing happens
// any more, neither on devices nor in the journal.
func (f *fleet) op() (dead bool) {
	f.ops++
	return f.dieAt > 0 && f.ops >= f.dieAt
}

type device struct {
	f    *fleet
	name string
}

func (f *fleet) open(_ context.Context, name string) (Target, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.devices[name]; !ok {
		return nil, fmt.Errorf("no route to %s", name)
	}
	return &device{f, name}, nil
}

func (d *device) Probe(context.Context) (vendors.Facts, error) { return vendors.Facts{}, nil }

func (d *device) Observe(context.Context) (vendors.Setup, error) {
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	s := d.f.devices[d.name]
	s.Ports = slices.Clone(s.Ports)
	return s, nil
}

func (d *device) Diff(have, want vendors.Setup) ([]vendors.Change, error) {
	return planstest.Differ{}.Diff(have, want)
}

func (d *device) set(what string, s vendors.Setup) error {
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	if err := d.f.broken[d.name]; err != nil {
		return err
	}
	if slices.ContainsFunc(s.Ports, func(p vendors.PortSetup) bool { return p.Port == d.f.lacks }) {
		return &vendors.PortError{Port: d.f.lacks, Err: errors.New("no such port")}
	}
	if dead := d.f.op(); dead {
		if d.f.half && d.f.ops == d.f.dieAt { // it died after the device had it
			d.f.devices[d.name] = s
		}
		if d.f.journal != nil {
			d.f.journal.err = errDead
		}
		return errDead
	}
	d.f.devices[d.name] = s
	d.f.log = append(d.f.log, d.name+" "+what)
	return nil
}

func (d *device) Apply(_ context.Context, want vendors.Setup) error { return d.set("apply", want) }
func (d *device) Remove(context.Context) error                      { return d.set("remove", vendors.Setup{}) }
func (d *device) Close() error                                      { return nil }

func setup(action vlanrules.Action, ports ...string) vendors.Setup {
	s := vendors.Setup{TPID: 0x9900, Signals: []quantize.Signal{quantize.MinABW}, OnStale: inventory.Conservative}
	for _, p := range ports {
		s.Ports = append(s.Ports, vendors.PortSetup{Port: p, Action: action})
	}
	return s
}

// threeStages is a plan as a roll-out has it: s1 and s3 fence, all become
// ready, s1 and s3 open. s2 had something before.
func threeStages(t *testing.T) (*plans.Plan, *fleet) {
	t.Helper()
	f := &fleet{devices: map[string]vendors.Setup{"s1": {}, "s2": setup(vlanrules.Passthrough, "a"), "s3": {}}}
	p := &plans.Plan{Format: plans.Format, Created: time.Unix(1e9, 0).UTC(), Goal: plans.RollOut}
	for _, name := range []string{"s1", "s2", "s3"} {
		have := f.devices[name]
		p.Devices = append(p.Devices, plans.Device{Device: name, Observed: have, ObservedHash: plans.SetupHash(&have), Changes: []plans.Change{}})
	}
	id := 0
	step := func(device string, s vendors.Setup) plans.Step {
		id++
		return plans.Step{ID: id, Device: device, Want: s}
	}
	strip, update := setup(vlanrules.Strip, "a"), setup(vlanrules.Update, "a", "b")
	mixed := setup(vlanrules.Strip, "a")
	mixed.Ports = append(mixed.Ports, vendors.PortSetup{Port: "b", Action: vlanrules.Update})
	p.Stages = []plans.Stage{
		{Name: "fence", Waves: []plans.Wave{{Name: "all", Steps: []plans.Step{step("s1", strip), step("s3", strip)}}}},
		{Name: "ready", Waves: []plans.Wave{{Name: "canary", Steps: []plans.Step{step("s1", mixed)}}, {Name: "rest", Steps: []plans.Step{step("s2", update), step("s3", mixed)}}}},
		{Name: "open", Waves: []plans.Wave{{Name: "all", Steps: []plans.Step{step("s1", update), step("s3", update)}}}},
	}
	if err := p.Seal(); err != nil {
		t.Fatal(err)
	}
	return p, f
}

func unseen(*inventory.Device) plans.Observation {
	return plans.Observation{Facts: planstest.Able, Differ: planstest.Differ{}, Via: "local"}
}

func made(t *testing.T, f *inventory.Fleet, seen func(*inventory.Device) plans.Observation, o plans.Options) *plans.Plan {
	t.Helper()
	o.Now = time.Unix(1e9, 0)
	p, err := plans.Build(f, seen, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func begin(t *testing.T, p *plans.Plan) *Journal {
	t.Helper()
	j, err := CreateJournal(filepath.Join(t.TempDir(), "j"), "test", p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func reopen(t *testing.T, j *Journal) *Journal {
	t.Helper()
	_ = j.Close()
	again, err := OpenJournal(j.Path())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = again.Close() })
	return again
}

func hashes(f *fleet) string {
	var out []string
	for name, s := range f.devices {
		out = append(out, name+" "+hashOf(s))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func TestApplyAndRollback(t *testing.T) {
	p, f := threeStages(t)
	before := hashes(f)
	j := begin(t, p)
	r := &Run{Journal: j, Open: f.open}
	if err := r.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := "s1 apply,s3 apply,s1 apply,s2 apply,s3 apply,s1 apply,s3 apply"
	if got := strings.Join(f.log, ","); got != want {
		t.Errorf("order %s, want %s", got, want)
	}
	for name, s := range f.devices {
		if hashOf(s) != hashOf(setup(vlanrules.Update, "a", "b")) {
			t.Errorf("%s has %+v", name, s)
		}
	}
	if err := r.Apply(t.Context()); !errors.Is(err, ErrNothingToDo) || !strings.Contains(err.Error(), "complete") {
		t.Errorf("a second apply: %v", err)
	}
	f.log = nil
	r.Journal = reopen(t, j)
	if err := r.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	want = "s1 apply,s3 apply,s2 apply,s3 apply,s1 apply,s1 remove,s3 remove"
	if got := strings.Join(f.log, ","); got != want {
		t.Errorf("undone in the order %s, want %s", got, want)
	}
	if after := hashes(f); after != before {
		t.Errorf("after the rollback:\n%s\nbefore:\n%s", after, before)
	}
	f.log = nil
	if err := r.Rollback(t.Context()); !errors.Is(err, ErrNothingToDo) || err.Error() != "nothing to do: already rolled back" || len(f.log) > 0 {
		t.Errorf("a second rollback: %v, %v", err, f.log)
	}
	if err := r.Apply(t.Context()); err == nil || errors.Is(err, ErrNothingToDo) {
		t.Errorf("apply goes on after a rollback: %v", err)
	}
}

// To continue with a journal that lacks its last lines is refused, too, and names no
// rollback that would be.
func TestResumeOfACutJournal(t *testing.T) {
	p, f := threeStages(t)
	j := begin(t, p)
	if err := (&Run{Journal: j, Open: f.open}).Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(j.Path())
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	after := maps.Clone(f.devices)
	lacks := 0
	for cut := 1; cut < len(lines); cut++ {
		open := func() *Run {
			t.Helper()
			maps.Copy(f.devices, after)
			j, err := openText(t, bytes.Join(lines[:cut], nil))
			if err != nil {
				t.Fatalf("cut after %d lines: %v", cut, err)
			}
			return &Run{Journal: j, Open: f.open}
		}
		err := open().Apply(t.Context())
		if errors.Is(err, ErrLacks) {
			lacks++
		}
		if err != nil && strings.Contains(err.Error(), "csig rollback") {
			if undo := open().Rollback(t.Context()); undo != nil {
				t.Errorf("cut after %d lines: %v\nand the rollback: %v", cut, err, undo)
			}
		}
	}
	if lacks == 0 {
		t.Error("no journal that lacks lines was refused")
	}
}

// A journal may lack its last lines: a device then has what only a step gives it
// that is not in the journal, and nothing at all is changed.
func TestRollbackOfACutJournal(t *testing.T) {
	p, f := threeStages(t)
	j := begin(t, p)
	if err := (&Run{Journal: j, Open: f.open}).Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(j.Path())
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	after := hashes(f)
	refused := 0
	for cut := 1; cut < len(lines); cut++ {
		f.log = nil
		j, err := openText(t, bytes.Join(lines[:cut], nil))
		if err != nil {
			t.Fatalf("cut after %d lines: %v", cut, err)
		}
		// What the journal still explains is undone, as after a kill.
		last := lines[cut-1]
		explained := j.state.last[6] != "" && j.state.last[7] != ""
		err = (&Run{Journal: j, Open: f.open}).Rollback(t.Context())
		switch {
		case explained && err != nil:
			t.Errorf("cut after %d lines, %.60s: %v", cut, last, err)
		case explained:
			for name := range f.devices {
				f.devices[name] = setup(vlanrules.Update, "a", "b")
			}
		case err == nil || !strings.Contains(err.Error(), "the journal lacks its last lines") || !strings.Contains(err.Error(), "nothing was changed") || len(f.log) > 0:
			t.Errorf("cut after %d lines, %.60s: %v, and it did %v", cut, last, err, f.log)
		default:
			refused++
			if j.state.rollback {
				t.Errorf("cut after %d lines: it says that it is being undone", cut)
			}
		}
		if now := hashes(f); now != after {
			t.Fatalf("cut after %d lines, the devices have\n%s", cut, now)
		}
	}
	if refused < 10 {
		t.Errorf("%d journals were refused: this test checks little", refused)
	}
}

// The process may die before or after any change of any device: resuming
// completes the plan, rolling back restores what was there, also when that is
// cut off in turn.
func TestDeathAnywhere(t *testing.T) {
	for dieAt := 1; dieAt <= 7; dieAt++ {
		for _, half := range []bool{false, true} {
			for _, undo := range []bool{false, true} {
				t.Run(fmt.Sprintf("at %d half %v undo %v", dieAt, half, undo), func(t *testing.T) {
					p, f := threeStages(t)
					before := hashes(f)
					j := begin(t, p)
					f.journal, f.dieAt, f.half = j, dieAt, half
					r := &Run{Journal: j, Open: f.open}
					if err := r.Apply(t.Context()); !errors.Is(err, errDead) {
						t.Fatalf("died with %v", err)
					}
					if !undo {
						r.Journal, f.dieAt = reopen(t, j), 0
						if err := r.Apply(t.Context()); err != nil {
							t.Fatal(err)
						}
						for name, s := range f.devices {
							if hashOf(s) != hashOf(setup(vlanrules.Update, "a", "b")) {
								t.Errorf("%s has %+v", name, s)
							}
						}
						return
					}
					for again := 1; ; again++ { // and the rollback dies at each of its own
						j = reopen(t, j)
						r.Journal, f.journal, f.ops, f.dieAt = j, j, 0, 2
						err := r.Rollback(t.Context())
						if err == nil {
							break
						}
						if again > 20 {
							t.Fatal(err)
						}
					}
					if after := hashes(f); after != before {
						t.Errorf("after the rollback:\n%s\nbefore:\n%s", after, before)
					}
				})
			}
		}
	}
}

func TestStale(t *testing.T) {
	p, f := threeStages(t)
	f.devices["s2"] = setup(vlanrules.Strip, "a")
	j := begin(t, p)
	r := &Run{Journal: j, Open: f.open}
	err := r.Apply(t.Context())
	if !errors.Is(err, ErrStale) || !strings.Contains(err.Error(), "s2") {
		t.Errorf("got %v", err)
	}
	if len(f.log) > 0 {
		t.Errorf("it changed something: %v", f.log)
	}
}

func TestChangedWhileItRested(t *testing.T) {
	p, f := threeStages(t)
	j := begin(t, p)
	r := &Run{Journal: j, Open: f.open, StopAfter: "canary"}
	if err := r.Apply(t.Context()); !errors.Is(err, ErrPaused) {
		t.Fatalf("got %v, want a pause", err)
	}
	f.devices["s1"] = vendors.Setup{}
	r.Journal, r.StopAfter = reopen(t, j), ""
	if err := r.Apply(t.Context()); !errors.Is(err, ErrStale) || !strings.Contains(err.Error(), "s1") {
		t.Errorf("got %v", err)
	}
	if err := r.Rollback(t.Context()); err != nil { // it may always be undone
		t.Error(err)
	}
}

type gate struct{ fail string }

func (g *gate) Before(context.Context, []string) error { return nil }
func (g *gate) After(_ context.Context, wave string, devices []string) (Judgement, error) {
	if wave == g.fail {
		return Judgement{}, fmt.Errorf("port a of %s discards frames", devices[0])
	}
	return Judgement{}, nil
}

func TestGateStops(t *testing.T) {
	p, f := threeStages(t)
	before := hashes(f)
	j := begin(t, p)
	g := &gate{fail: "ready/canary"}
	r := &Run{Journal: j, Open: f.open, Gate: g}
	err := r.Apply(t.Context())
	if err == nil || !strings.Contains(err.Error(), "ready/canary") || !strings.Contains(err.Error(), "discards") {
		t.Fatalf("got %v", err)
	}
	if n := len(f.log); n != 3 {
		t.Errorf("%d changes, want the fence and the canary: %v", n, f.log)
	}
	// Nothing goes past a gate that still says no; once it says yes, it does.
	r.Journal = reopen(t, j)
	if err := r.Apply(t.Context()); err == nil || len(f.log) != 3 {
		t.Errorf("went past the gate: %v, %v", err, f.log)
	}
	g.fail = ""
	if err := r.Apply(t.Context()); err != nil || len(f.log) != 7 {
		t.Errorf("did not go on: %v, %v", err, f.log)
	}
	if err := r.Rollback(t.Context()); err != nil || hashes(f) != before {
		t.Errorf("rollback: %v\n%s", err, hashes(f))
	}
}

// A device that cannot be undone keeps what the earlier stages did for it in
// place everywhere, and the next rollback goes on.
func TestRollbackWaits(t *testing.T) {
	p, f := threeStages(t)
	before := hashes(f)
	j := begin(t, p)
	r := &Run{Journal: j, Open: f.open, Parallel: 2}
	if err := r.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.broken = map[string]error{"s3": errors.New("no route to host")}
	err := r.Rollback(t.Context())
	if err == nil || !strings.Contains(err.Error(), "s3") {
		t.Fatalf("got %v", err)
	}
	if a := f.devices["s2"].Ports[0].Action; a != vlanrules.Update {
		t.Errorf("s2 was taken off the path while s3 still delivers tags: %v", a)
	}
	f.broken = nil
	r.Journal = reopen(t, j)
	if err := r.Rollback(t.Context()); err != nil || hashes(f) != before {
		t.Errorf("rollback: %v\n%s", err, hashes(f))
	}
}

func TestInterruptFinishesTheDevice(t *testing.T) {
	p, f := threeStages(t)
	j := begin(t, p)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("interrupted")
	r := &Run{Journal: j, Open: f.open, Report: func(p Progress) {
		if p.Event == EventStart && p.Step == 3 {
			cancel(why)
		}
	}}
	if err := r.Apply(ctx); !errors.Is(err, why) {
		t.Fatalf("got %v", err)
	}
	if e := j.state.last[3]; e != EventDone || len(f.log) != 3 {
		t.Errorf("step 3 is %q, changes %v", e, f.log)
	}
	r.Report = nil
	if err := r.Apply(t.Context()); err != nil {
		t.Error(err)
	}
}

func hashOf(s vendors.Setup) string { return plans.SetupHash(&s) }
