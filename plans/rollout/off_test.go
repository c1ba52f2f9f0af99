package rollout

import (
	"context"
	"errors"
	gonet "net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/plans/planstest"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

func offFleet() (*inventory.Fleet, *fleet) {
	net := planstest.Fabric(2, 1, 2)
	f := &fleet{devices: map[string]vendors.Setup{}}
	for i := range net.Devices {
		d := &net.Devices[i]
		f.devices[d.Name] = plans.WantOf(net, net.Profile.Hash(), d, plans.Level{Support: inventory.LevelSoftware})
	}
	return net, f
}

func TestOff(t *testing.T) {
	net, f := offFleet()
	o := &Off{Fleet: net, Open: f.open, Parallel: 3}
	for again := range 2 {
		f.log = nil
		if err := o.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, s := range f.devices {
			if !s.Nothing() {
				t.Errorf("%s still has %+v", name, s)
			}
		}
		if again == 0 {
			// The fence stands before the first rule goes, and goes when every
			// other rule has gone.
			for i, want := range [][]string{{"leaf0 apply", "leaf1 apply"}, {"leaf0 apply", "leaf1 apply", "spine0 remove"}, {"leaf0 remove", "leaf1 remove"}} {
				at := []int{0, 2, 5, 7}
				if len(f.log) != 7 || !slices.Equal(slices.Sorted(slices.Values(f.log[at[i]:at[i+1]])), want) {
					t.Errorf("order %v", f.log)
				}
			}
		} else if len(f.log) != 3 {
			t.Errorf("changes %v", f.log)
		}
	}
}

// A device that does not answer is named; the others are off all the same.
func TestOffGoesOn(t *testing.T) {
	net, f := offFleet()
	f.broken = map[string]error{"leaf0": errors.New("no route to host")}
	off := &Off{Fleet: net, Open: f.open}
	err := off.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "leaf0") || strings.Contains(err.Error(), "leaf1") {
		t.Errorf("got %v", err)
	}
	if failed := off.Failed(); !slices.Equal(failed, []string{"leaf0"}) {
		t.Errorf("not off: %q", failed)
	}
	for name, s := range f.devices {
		if s.Nothing() == (name == "leaf0") {
			t.Errorf("%s has %+v", name, s)
		}
	}
}

// panics is a device whose driver panics at what it has to read.
type panics struct {
	*device
	closed *atomic.Int32
}

func (panics) Observe(context.Context) (vendors.Setup, error) { panic("makeslice: len out of range") }
func (panics) Remove(context.Context) error                   { panic("makeslice: len out of range") }
func (p panics) Close() error                                 { p.closed.Add(1); return nil }

// A panic in the work for one device is that device's error, in every pass.
func TestPanics(t *testing.T) {
	const says = "a defect in csig, please report it: makeslice: len out of range (in github.com/csig-agent/csig/plans/rollout.panics."
	net, f := offFleet()
	bad := "leaf0"
	var opened, closed atomic.Int32
	open := func(ctx context.Context, name string) (Target, error) {
		d, err := f.open(ctx, name)
		if err == nil && name == bad {
			opened.Add(1)
			return panics{d.(*device), &closed}, nil
		}
		return d, err
	}
	var failed []string
	err := (&Off{Fleet: net, Open: open, Report: func(p Progress) {
		if p.Event == EventFailed {
			failed = append(failed, p.Device)
		}
	}}).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "device leaf0: "+says) || len(failed) == 0 || slices.ContainsFunc(failed, func(name string) bool { return name != bad }) {
		t.Errorf("off: %v; failed %v", err, failed)
	}
	if opened.Load() == 0 || closed.Load() != opened.Load() {
		t.Errorf("off closed %d of %d connections to it", closed.Load(), opened.Load())
	}
	for name, s := range f.devices {
		if s.Nothing() == (name == bad) {
			t.Errorf("%s has %+v", name, s)
		}
	}

	p, f2 := threeStages(t)
	f, bad = f2, "s2"
	err = (&Run{Journal: begin(t, p), Open: open}).Apply(t.Context())
	if err == nil || !strings.Contains(err.Error(), "device s2: "+says) {
		t.Errorf("apply: %v", err)
	}
	if err := SideBySide(t.Context(), 2, []int{1}, false, func(int) error { panic("x") }); err == nil || !strings.Contains(err.Error(), "please report it: x") {
		t.Errorf("any work: %v", err)
	}
}

// What an Off leaves undone is said: hosts that go on sending, and paths of
// which only a part is off.
func TestOffSaysWhatIsLeft(t *testing.T) {
	for _, tc := range []struct {
		name string
		only []string
		mute bool
		want string
	}{
		{"all", nil, false, "hosts h0-0, h0-1, h1-0, h1-1 may still send tags, which pass untouched now"},
		{"all, and no host speaks CSIG", nil, true, ""},
		{"a spine", []string{"spine0"}, false, "paths through spine0 are no longer whole"},
		{"a spine and a leaf", []string{"spine0", "leaf1"}, false, "paths through spine0 are no longer whole"},
		{"a leaf", []string{"leaf0"}, false, "paths through leaf0 are no longer whole"},
		{"every device", []string{"leaf0", "leaf1", "spine0"}, false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := planstest.Fabric(2, 1, 2)
			for i := range f.Devices[0].Ports {
				if p := &f.Devices[0].Ports[i]; p.Peer.Port != "" {
					p.Peer = inventory.Peer{} // the spine names it
				}
			}
			for i := range f.Hosts {
				f.Hosts[i].CSIG = !tc.mute
			}
			got := strings.Join((&Off{Fleet: f, Only: tc.only}).Left(), "\n")
			if (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestOffOfOne(t *testing.T) {
	net, f := offFleet()
	if err := (&Off{Fleet: net, Only: []string{"leaf1"}, Open: f.open}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, s := range f.devices {
		if s.Nothing() != (name == "leaf1") {
			t.Errorf("%s has %+v", name, s)
		}
	}
	if want := []string{"leaf1 apply", "leaf1 apply", "leaf1 remove"}; !slices.Equal(f.log, want) {
		t.Errorf("did %v", f.log)
	}
}

// The end of the context lets the device in progress be finished, and begins no
// other.
func TestInterruptedOffFinishesTheDevice(t *testing.T) {
	net, f := offFleet()
	why := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	o := &Off{Fleet: net, Open: func(ctx context.Context, name string) (Target, error) {
		t, err := f.open(ctx, name)
		return heedful{t, ctx}, err
	}, Report: func(p Progress) {
		if p.Event == EventHand {
			cancel(why)
		}
	}}
	if err := o.Run(ctx); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	if len(f.log) != 1 {
		t.Errorf("did %v, want one change", f.log)
	}
	if err := o.Run(t.Context()); err != nil {
		t.Error(err)
	}
}

// heedful is a device whose changes fail when its context has ended.
type heedful struct {
	Target
	ctx context.Context
}

func (h heedful) Apply(ctx context.Context, want vendors.Setup) error {
	if err := errors.Join(h.ctx.Err(), ctx.Err()); err != nil {
		return err
	}
	return h.Target.Apply(ctx, want)
}

// forgetful is a device that does not get everything back.
type forgetful struct{ Target }

func (l forgetful) Probe(ctx context.Context) (vendors.Facts, error) {
	f, err := l.Target.Probe(ctx)
	f.Off = []string{"its ports get the default"}
	return f, err
}

// What a device does not get back as it was is said, by off and by a plan that takes
// csig off it.
func TestOffSaysWhatIsNotGivenBack(t *testing.T) {
	net, f := offFleet()
	off := &Off{Fleet: net, Only: []string{"leaf0"}, Open: func(ctx context.Context, name string) (Target, error) {
		t, err := f.open(ctx, name)
		return forgetful{t}, err
	}}
	const want = "device leaf0: its ports get the default"
	for range 2 {
		if err := off.Run(t.Context()); err != nil {
			t.Error(err)
		}
		if left := strings.Join(off.Left(), "\n"); strings.Count(left, "its ports get the default") != 1 || !strings.Contains(left, want) {
			t.Errorf("it says %q", left)
		}
	}
	for _, goal := range []plans.Goal{plans.TakeOff, plans.RollOut} {
		p, err := plans.Build(net, func(d *inventory.Device) plans.Observation {
			s := plans.Observation{Facts: vendors.Facts{Off: []string{"its ports get the default"}}}
			s.Differ, s.Err = f.open(t.Context(), d.Name)
			return s
		}, plans.Options{Goal: goal})
		if err != nil {
			t.Fatal(err)
		}
		said := slices.ContainsFunc(p.Findings, func(f findings.Finding) bool {
			return f.Level == findings.Warning && strings.Contains(f.Reason, "get the default")
		})
		if said != (goal == plans.TakeOff) {
			t.Errorf("%s: %+v", goal, p.Findings)
		}
	}
}

// On a device that nothing drives there is nothing to take off.
func TestOffPassesWhatNothingDrives(t *testing.T) {
	net, f := offFleet()
	open := func(ctx context.Context, name string) (Target, error) {
		if name == "leaf0" {
			return nil, &vendors.PermanentError{Err: &vendors.NoDriverError{Platform: "eos", Err: errors.New("no driver")}}
		}
		return f.open(ctx, name)
	}
	for _, only := range [][]string{{"leaf0"}, nil} {
		off := &Off{Fleet: net, Only: only, Open: open}
		if err := off.Run(t.Context()); err != nil {
			t.Error(err)
		}
		if left := strings.Join(off.Left(), "\n"); !strings.Contains(left, "leaf0: csig has no driver for such a device") {
			t.Errorf("only %v: it says %q", only, left)
		}
	}
	for name, s := range f.devices {
		if s.Nothing() == (name == "leaf0") {
			t.Errorf("%s has %+v", name, s)
		}
	}
}

// A device that has only a part of ours left, or whose daemon has lost its
// rules, is fenced as the domain is, and taken off.
func TestOffOfWhatIsLeft(t *testing.T) {
	for name, left := range map[string]vendors.Setup{
		"damage":          {Damaged: "table csig has no chain"},
		"a configuration": {Config: "a file"},
	} {
		t.Run(name, func(t *testing.T) {
			net, f := offFleet()
			f.devices["leaf0"] = left
			removal, err := plans.Removal(net, func(d *inventory.Device) plans.Observation {
				return plans.Observation{Setup: f.devices[d.Name], Differ: planstest.Differ{}}
			})
			if err != nil {
				t.Fatal(err)
			}
			fenced := false
			for s := range removal.Steps() {
				if s.Device == "leaf0" && !s.Want.Nothing() {
					fenced = true
					if s.Want.TPID != net.Profile.TPID {
						t.Errorf("step %+v", s)
					}
				}
			}
			if !fenced {
				t.Error("there is no fence")
			}
			if err := (&Off{Fleet: net, Open: f.open}).Run(t.Context()); err != nil {
				t.Error(err)
			}
			for name, s := range f.devices {
				if !s.Nothing() {
					t.Errorf("%s still has %+v", name, s)
				}
			}
		})
	}
}

// A fence that fails is reported; what counts is that the device is off.
func TestOffWithoutAFence(t *testing.T) {
	net, f := offFleet()
	failed := 0
	off := &Off{
		Fleet: net, Report: func(p Progress) {
			if p.Event == EventFailed {
				failed++
			}
		},
		Open: func(ctx context.Context, name string) (Target, error) {
			t, err := f.open(ctx, name)
			return stubborn{t}, err
		},
	}
	if err := off.Run(t.Context()); err != nil || failed != 4 {
		t.Errorf("%v, %d failures", err, failed)
	}
	for name, s := range f.devices {
		if !s.Nothing() {
			t.Errorf("%s still has %+v", name, s)
		}
	}
}

// stubborn takes no other setup.
type stubborn struct{ Target }

func (stubborn) Apply(context.Context, vendors.Setup) error { return errors.New("no") }

// A fleet of one device has no path to keep whole: its stages are told by the
// same names, and nothing is done twice.
func TestOffOfAFleetOfOne(t *testing.T) {
	for name, tc := range map[string]struct {
		have      func(s *vendors.Setup)
		log, told string
	}{
		"updating":  {func(*vendors.Setup) {}, "leaf0 apply,leaf0 remove", "fence hand,fence done,remove hand,remove done"},
		"stripping": {func(s *vendors.Setup) { s.Ports[0].Action, s.Ports[1].Action = vlanrules.Strip, vlanrules.Strip }, "leaf0 remove", "remove hand,remove done"},
		"nothing":   {func(s *vendors.Setup) { *s = vendors.Setup{} }, "leaf0 remove", "remove hand,remove done"},
	} {
		t.Run(name, func(t *testing.T) {
			net := planstest.Fabric(1, 0, 2)
			d := &net.Devices[0]
			have := plans.WantOf(net, net.Profile.Hash(), d, plans.Level{Support: inventory.LevelSoftware})
			tc.have(&have)
			f := &fleet{devices: map[string]vendors.Setup{d.Name: have}}
			var told []string
			o := &Off{Fleet: net, Open: f.open, Report: func(p Progress) { told = append(told, p.Stage+" "+string(p.Event)) }}
			if err := o.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if s := f.devices["leaf0"]; !s.Nothing() {
				t.Errorf("it still has %+v", s)
			}
			if log, all := strings.Join(f.log, ","), strings.Join(told, ","); log != tc.log || all != tc.told {
				t.Errorf("did %s, told %s; want %s, %s", log, all, tc.log, tc.told)
			}
		})
	}
}

// weak is a device that cannot be made to strip.
type weak struct{ Target }

func (weak) Probe(context.Context) (vendors.Facts, error) {
	return vendors.Facts{Strip: vlanrules.Verdict{Level: vlanrules.Refused, Reason: "not over SSH"}}, nil
}

// What cannot be fenced, or not be read, loses its rules after the others have
// stopped updating and before any fence goes: else hosts there would see tags
// of it alone.
func TestOffOfWhatCannotBeFenced(t *testing.T) {
	for name, tc := range map[string]func(Target) Target{
		"it cannot strip":   func(t Target) Target { return weak{t} },
		"it cannot be read": func(t Target) Target { return &unread{Target: t} },
	} {
		t.Run(name, func(t *testing.T) {
			net, f := offFleet()
			o := &Off{Fleet: net, Open: func(ctx context.Context, name string) (Target, error) {
				t, err := f.open(ctx, name)
				if name == "leaf1" {
					t = tc(t)
				}
				return t, err
			}}
			if err := o.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			want := "leaf0 apply,leaf0 apply,spine0 remove,leaf1 remove,leaf0 remove"
			if name == "it cannot be read" { // nor can it be read back
				want = "leaf0 apply,leaf0 apply,spine0 remove,leaf1 remove,leaf0 remove,leaf1 remove"
			}
			if got := strings.Join(f.log, ","); got != want {
				t.Errorf("order %s, want %s", got, want)
			}
			for name, s := range f.devices {
				if !s.Nothing() {
					t.Errorf("%s still has %+v", name, s)
				}
			}
		})
	}
}

// unread is a device whose setup cannot be read.
type unread struct{ Target }

func (unread) Observe(context.Context) (vendors.Setup, error) {
	return vendors.Setup{}, errors.New("what is this?")
}

// Edges strip as soon as they have answered themselves, and a device that does
// not answer in time is asked once more.
func TestOffWaitsForNoAnswer(t *testing.T) {
	net, f := offFleet()
	fenced, failures, asked := 0, 0, 0
	both := make(chan struct{})
	o := &Off{Fleet: net, Parallel: 3, Limit: 500 * time.Millisecond,
		Open: func(ctx context.Context, name string) (Target, error) {
			if name != "spine0" {
				return f.open(ctx, name)
			}
			asked++
			select {
			case <-both:
			case <-ctx.Done():
				t.Error("no device was fenced before the answer was there")
			}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		},
		Report: func(p Progress) {
			switch {
			case p.Event == EventFailed && p.Device == "spine0":
				failures++
			case p.Event == EventDone && p.Stage == plans.StageFence:
				if fenced++; fenced == 2 {
					close(both)
				}
			}
		},
	}
	err := o.Run(t.Context())
	if err == nil || strings.Count(err.Error(), "device spine0: ") != 1 || asked != 2 || failures != 1 {
		t.Errorf("%v; asked %d times, told %d times", err, asked, failures)
	}
	for name, s := range f.devices {
		if s.Nothing() != (name != "spine0") {
			t.Errorf("%s has %+v", name, s)
		}
	}
}

// A device that is too slow for the first look, and then is not, is taken off; one
// that refuses is asked once.
func TestOffAsksLateDevicesAgain(t *testing.T) {
	net, f := offFleet()
	var mu sync.Mutex
	asked := map[string]int{}
	var failed []string
	o := &Off{Fleet: net, Parallel: 3, Limit: 200 * time.Millisecond,
		Open: func(ctx context.Context, name string) (Target, error) {
			mu.Lock()
			asked[name]++
			first := asked[name] == 1
			mu.Unlock()
			switch {
			case name == "leaf0" && first:
				<-ctx.Done()
				return nil, context.Cause(ctx)
			case name == "leaf1" && first: // a limit of the connection's own
				return nil, &gonet.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
			case name == "spine0":
				return nil, &gonet.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			}
			return f.open(context.WithoutCancel(ctx), name)
		},
		Report: func(p Progress) {
			if p.Event == EventFailed {
				failed = append(failed, p.Device)
			}
		},
	}
	err := o.Run(t.Context())
	if err == nil || strings.Contains(err.Error(), "leaf") || asked["spine0"] != 1 || !slices.Equal(failed, []string{"spine0"}) {
		t.Errorf("%v; asked %v, failed %v", err, asked, failed)
	}
	for name, s := range f.devices {
		if s.Nothing() != (name != "spine0") {
			t.Errorf("%s has %+v", name, s)
		}
	}
}
