package openconfig

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/openconfig/gnmi/proto/gnmi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/gnmiset"
	"github.com/csig-agent/csig/vendors/openconfig/octest"
)

// faults are errors of RPCs, by their names, each for one time.
type faults struct {
	mu   sync.Mutex
	next map[string]error
}

func (f *faults) fault(rpc string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.next[rpc]
	delete(f.next, rpc)
	return err
}

// newTarget serves a target that an operator has configured.
func newTarget(t testing.TB, change func(*octest.Target)) (target *octest.Target, f *faults, before string) {
	t.Helper()
	f = &faults{}
	target = octest.New(ports...)
	target.Fault = f.fault
	if change != nil {
		change(target)
	}
	target.Serve(t)
	target.Configure(foreign)
	return target, f, target.Config()
}

// await waits until a target has so many commits taken back.
func await(t testing.TB, target *octest.Target, reverts int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, n := target.Sets(); n == reverts {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no commit is taken back")
		}
	}
}

var cut = status.Error(codes.Unavailable, "the connection is cut")

// TestUnconfirmed: whatever ends a change before it is confirmed, it is taken back at once, and
// one that cannot be is not taken for done: not by the next call, before its time is over.
func TestUnconfirmed(t *testing.T) {
	for _, rpc := range []string{"Set done", "Confirm", "Get after"} {
		for _, reach := range []bool{true, false} {
			target, f, before := newTarget(t, nil)
			d := open(t, gnmiset.Config{Connect: connect(target), Confirm: time.Hour})
			if _, err := d.Probe(t.Context()); err != nil {
				t.Fatal(err)
			}
			gets, failed := 0, false
			fault := func(at string) error {
				f.mu.Lock()
				defer f.mu.Unlock()
				if at == "Get" {
					if gets++; gets == 4 { // the second time it is asked for ports
						at = "Get after"
					}
				}
				switch {
				case at == rpc && !failed:
					failed = true
					return cut
				case at == "Cancel" && !reach:
					return cut
				}
				return nil
			}
			target.Fault = fault
			err := d.Apply(t.Context(), setup(0x88a8, ports...))
			want := map[bool]string{true: "was taken back", false: "takes it back within"}[reach]
			if err == nil || !strings.Contains(err.Error(), want) || errors.As(err, new(*vendors.PermanentError)) {
				t.Errorf("%s: %v", rpc, err)
			}
			if reach != (target.Config() == before) {
				t.Errorf("%s: it has %s", rpc, target.Config())
			}
			if !reach {
				for what, err := range map[string]error{"apply": d.Apply(t.Context(), setup(0x88a8, ports...)), "off": d.Remove(t.Context())} {
					if err == nil || !strings.Contains(err.Error(), "on trial") {
						t.Errorf("%s: %s is done on trial: %v", rpc, what, err)
					}
				}
				f.mu.Lock()
				reach = true
				f.mu.Unlock()
			}
			if err := d.Apply(t.Context(), setup(0x88a8, ports...)); err != nil {
				t.Errorf("%s: again: %v", rpc, err)
			}
			target.Expire()
			if !strings.Contains(target.Config(), "TPID_0X88A8") {
				t.Errorf("%s: what was done is taken back: %s", rpc, target.Config())
			}
			if err := d.Remove(t.Context()); err != nil || target.Config() != before {
				t.Errorf("%s: %v: csig off leaves %s", rpc, err, target.Config())
			}
		}
	}
}

// TestReadBackLies: a change that reads back otherwise is not confirmed.
func TestReadBackLies(t *testing.T) {
	lies := false
	target, _, before := newTarget(t, func(target *octest.Target) {
		target.Lie = func(r *pb.GetResponse) {
			for _, n := range r.GetNotification() {
				for _, u := range n.GetUpdate() {
					if js := u.GetVal().GetJsonIetfVal(); lies {
						u.Val.Value = &pb.TypedValue_JsonIetfVal{JsonIetfVal: []byte(strings.ReplaceAll(string(js), "TPID_0X88A8", "TPID_0X8100"))}
					}
				}
			}
		}
	})
	d := open(t, gnmiset.Config{Connect: connect(target), Confirm: 20 * time.Millisecond})
	lies = true
	if err := d.Apply(t.Context(), setup(0x88a8, "Ethernet1")); err == nil || !strings.Contains(err.Error(), `its TPID reads back as "TPID_0X8100", and was set to TPID_0X88A8`) {
		t.Error(err)
	}
	await(t, target, 1)
	if target.Config() != before {
		t.Error(target.Config())
	}
}

// TestReadBackElsewhere: a record that reads back otherwise is not confirmed, and a target that
// takes nothing back has its change compared too.
func TestReadBackElsewhere(t *testing.T) {
	for _, extension := range []bool{true, false} {
		lies := false
		target, _, before := newTarget(t, func(target *octest.Target) {
			target.Extension = extension
			target.Lie = func(r *pb.GetResponse) {
				for _, n := range r.GetNotification() {
					for _, u := range n.GetUpdate() {
						if js := u.GetVal().GetJsonIetfVal(); lies {
							u.Val.Value = &pb.TypedValue_JsonIetfVal{JsonIetfVal: []byte(strings.ReplaceAll(string(js), "tpid_csig", "tpid_other"))}
						}
					}
				}
			}
		})
		d := open(t, gnmiset.Config{Connect: connect(target)})
		lies = true
		err := d.Apply(t.Context(), setup(0x88a8, "Ethernet1"))
		if err == nil || !strings.Contains(err.Error(), "record reads back otherwise") || strings.Contains(err.Error(), "takes none back") == extension || (target.Config() == before) != extension {
			t.Errorf("extension %v: %v: %s", extension, err, target.Config())
		}
	}
}

// TestNoExtension: a target that does not know the extension is found out without a change, is
// set up all the same, and has no auto-revert.
func TestNoExtension(t *testing.T) {
	for _, noEmpty := range []bool{false, true} {
		target, _, before := newTarget(t, func(target *octest.Target) { target.Extension, target.NoEmpty = false, noEmpty })
		d := open(t, gnmiset.Config{Connect: connect(target)})
		f, err := d.Probe(t.Context())
		if err != nil || !strings.Contains(strings.Join(f.Notes, "\n"), gnmiset.Unsupported) || f.Traits.Revert.Is != "" {
			t.Errorf("%v, %v", f.Notes, err)
		}
		if _, err := d.StartRevert(t.Context(), time.Minute); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "§3.2.2") {
			t.Error(err)
		}
		if err := d.PendingRevert(t.Context()); err != nil {
			t.Error(err)
		}
		if sets, _ := target.Sets(); sets != 0 || target.Config() != before {
			t.Errorf("%d Sets: %s", sets, target.Config())
		}
		if err := d.Apply(t.Context(), setup(0x88a8, ports...)); err != nil || strings.Count(target.Config(), "TPID_0X88A8") < 3 {
			t.Errorf("%v: %s", err, target.Config())
		}
		if err := d.Remove(t.Context()); err != nil || target.Config() != before {
			t.Errorf("%v: %s", err, target.Config())
		}
	}
}

// TestAutoRevert: everything that was changed since StartRevert goes back by itself, or stays
// with a confirmation over another connection.
func TestAutoRevert(t *testing.T) {
	for _, confirmed := range []bool{true, false} {
		target, _, before := newTarget(t, nil)
		now := time.Now()
		d := open(t, gnmiset.Config{Connect: connect(target), Now: func() time.Time { return now }})
		other := open(t, gnmiset.Config{Connect: connect(target)})
		const after = time.Hour
		token, err := d.StartRevert(t.Context(), after)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.SetMTU(t.Context(), "Ethernet1", 8888); err != nil {
			t.Fatal(err)
		}
		if err := other.Apply(t.Context(), setup(0x88a8, "Ethernet3")); err == nil || !strings.Contains(err.Error(), "another client waits there") {
			t.Errorf("a change beside a commit that waits: %v", err)
		}
		if err := other.PendingRevert(t.Context()); !errors.As(err, new(*vendors.PendingRevertError)) {
			t.Errorf("nothing is pending: %v", err)
		}
		if err := d.Apply(t.Context(), setup(0x88a8, ports...)); err != nil {
			t.Fatal(err)
		}
		if have := target.Config(); strings.Count(have, "TPID_0X88A8") < 3 || !strings.Contains(have, `"mtu": 8888`) {
			t.Errorf("it has %s", have)
		}
		if err := other.Confirm(t.Context(), "csig-0000000000000000"); !errors.Is(err, vendors.ErrReverted) {
			t.Errorf("another token: %v", err)
		}
		if confirmed {
			if err := other.Confirm(t.Context(), token); err != nil {
				t.Error(err)
			}
			if have := target.Config(); strings.Count(have, "TPID_0X88A8") < 3 || !strings.Contains(have, `"mtu": 8888`) {
				t.Errorf("after the confirmation it has %s", have)
			}
		} else {
			target.Expire()
			if target.Config() != before {
				t.Errorf("it has %s", target.Config())
			}
			now = now.Add(after)
			if err := d.Apply(t.Context(), setup(0x88a8, "Ethernet1")); !errors.Is(err, vendors.ErrReverted) || target.Config() != before {
				t.Errorf("a change that comes too late: %v", err)
			}
		}
		if err := d.Confirm(t.Context(), token); !errors.Is(err, vendors.ErrReverted) {
			t.Errorf("confirmed once more: %v", err)
		}
		if err := other.PendingRevert(t.Context()); err != nil {
			t.Error(err)
		}
		if err := other.Remove(t.Context()); err != nil || target.Config() != before {
			t.Errorf("%v: %s", err, target.Config())
		}
	}
}

// TestRefusedUnderRevert: a change that was cancelled for one that the target refuses is not
// confirmed as kept.
func TestRefusedUnderRevert(t *testing.T) {
	target, _, before := newTarget(t, nil)
	d := open(t, gnmiset.Config{Connect: connect(target)})
	token, err := d.StartRevert(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Apply(t.Context(), setup(0x88a8, ports...)); err != nil {
		t.Fatal(err)
	}
	if err := d.SetMTU(t.Context(), "Ethernet1", 9999); err == nil {
		t.Error("an MTU out of range is set")
	}
	if err := d.Confirm(t.Context(), token); !errors.Is(err, vendors.ErrReverted) || target.Config() != before {
		t.Errorf("%v: %s", err, target.Config())
	}
}

// TestReadOnlyUser: a user that may not change the configuration can assess and plan.
func TestReadOnlyUser(t *testing.T) {
	target, _, _ := newTarget(t, func(target *octest.Target) { target.ReadOnly = true })
	d := open(t, gnmiset.Config{Connect: connect(target)})
	if f, err := d.Probe(t.Context()); err != nil || !strings.Contains(strings.Join(f.Notes, "\n"), "not change it") {
		t.Errorf("%v, %v", f.Notes, err)
	}
	if err := d.PendingRevert(t.Context()); err != nil {
		t.Error(err)
	}
	if err := d.Apply(t.Context(), setup(0x88a8, ports...)); err == nil || !strings.Contains(err.Error(), "credentials refused") {
		t.Error(err)
	}
}
