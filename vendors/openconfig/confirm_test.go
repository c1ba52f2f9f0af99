package openconfig

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/openconfig/gnmi/proto/gnmi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/csig-agent/csig/protocol/gnmi"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/gnmiset"
	"github.com/csig-agent/csig/vendors/openconfig/octest"
	"github.com/csig-agent/csig/vendors/vendorstest"
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
	target.ServeMemory(t)
	target.Configure(foreign)
	return target, f, target.Config()
}

// await waits until a target has so many commits taken back.
func await(t testing.TB, target *octest.Target, reverts int) {
	t.Helper()
	synctest.Wait()
	if _, n := target.Sets(); n != reverts {
		t.Fatalf("%d commits are taken back, want %d", n, reverts)
	}
}

var cut = status.Error(codes.Unavailable, "the connection is cut")

// TestUnconfirmed: whatever ends a change before it is confirmed, it is taken back at once, and
// one that cannot be is not taken for done: not by the next call, before its time is over.
func TestUnconfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
	})
}

// TestConfirmationWithoutAnswer: whether a change is kept whose confirmation was not answered is
// not guessed, but read.
func TestConfirmationWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target, f, before := newTarget(t, nil)
		d := open(t, gnmiset.Config{Connect: connect(target), Confirm: time.Hour})
		f.mu.Lock()
		f.next = map[string]error{"Confirm done": cut}
		f.mu.Unlock()
		err := d.Apply(t.Context(), setup(0x88a8, ports...))
		if err == nil || strings.Contains(err.Error(), "taken back") || !strings.Contains(err.Error(), "the next reading shows") || target.Config() == before {
			t.Errorf("%v: %s", err, target.Config())
		}
		if err := d.Apply(t.Context(), setup(0x88a8, ports...)); err != nil {
			t.Error(err)
		}
		if sets, reverts := target.Sets(); sets != 1 || reverts != 0 {
			t.Errorf("%d Sets, %d taken back", sets, reverts)
		}
	})
}

// TestReadBackLies: a change that reads back otherwise is not confirmed.
func TestReadBackLies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lies := false
		target, _, before := newTarget(t, func(target *octest.Target) {
			target.Lie = func(r *pb.GetResponse) {
				for _, n := range r.GetNotification() {
					for _, u := range n.GetUpdate() {
						if js := u.GetVal().GetJsonIetfVal(); lies {
							other := strings.NewReplacer("TPID_0X88A8", "TPID_0X8100", `"to spine1"`, `"to spine1","tpid":"TPID_0X8100"`).Replace(string(js))
							u.Val.Value = &pb.TypedValue_JsonIetfVal{JsonIetfVal: []byte(other)}
						}
					}
				}
			}
		})
		d := open(t, gnmiset.Config{Connect: connect(target), Confirm: time.Hour})
		lies = true
		if err := d.Apply(t.Context(), setup(0x88a8, "Ethernet1")); err == nil || !strings.Contains(err.Error(), `its TPID reads back as "0x8100", and was set to 0x88a8`) {
			t.Error(err)
		}
		await(t, target, 1)
		if target.Config() != before {
			t.Error(target.Config())
		}

		lies = false // a deletion that is not there
		if err := d.Apply(t.Context(), setup(0x88a8, "Ethernet1")); err != nil {
			t.Fatal(err)
		}
		up := target.Config()
		target.Changed = func(now []octest.Port) { lies = now[0].TPID != 0x88a8 }
		if err := d.Remove(t.Context()); err == nil || !strings.Contains(err.Error(), `its TPID reads back as "0x8100", and was set to the default`) {
			t.Error(err)
		}
		if target.Config() != up {
			t.Error(target.Config())
		}
	})
}

// TestReadBackElsewhere: a record that reads back otherwise is not confirmed, and a target that
// takes nothing back has its change compared too.
func TestReadBackElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
	})
}

// TestNoExtension: a target that does not know the extension is found out without a change, and
// is set up all the same.
func TestNoExtension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, noEmpty := range []bool{false, true} {
			target, _, before := newTarget(t, func(target *octest.Target) { target.Extension, target.NoEmpty = false, noEmpty })
			d := open(t, gnmiset.Config{Connect: connect(target)})
			f, err := d.Probe(t.Context())
			answer := map[bool]string{true: "InvalidArgument", false: "OK"}[noEmpty]
			if err != nil || !strings.Contains(strings.Join(f.Notes, "\n"), "§3.2.2, the target answers "+answer+":") || f.Traits.Revert.Is != "" {
				t.Errorf("%v, %v", f.Notes, err)
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
	})
}

// TestAsked: what a target answers where csig asks for its commits is named, and what says
// nothing is an error.
func TestAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, tc := range map[string]struct {
			confirm, set codes.Code
			note, err    string
		}{
			"it knows":               {note: "is confirmed over a new connection"},
			"no Set":                 {confirm: codes.Unimplemented, note: "the target answers Unimplemented"},
			"a strange code":         {confirm: codes.NotFound, note: "the target answers NotFound"},
			"locked":                 {confirm: codes.Aborted, err: "asking whether a commit is pending"},
			"busy":                   {confirm: codes.ResourceExhausted, err: "asking whether a commit is pending"},
			"an error of the server": {confirm: codes.Internal, err: "asking whether a commit is pending"},
			"no user":                {confirm: codes.Unauthenticated, note: "not change it"},
			"a commit waits":         {confirm: codes.InvalidArgument, set: codes.FailedPrecondition, note: "is confirmed over a new connection"},
			"no empty Set":           {confirm: codes.InvalidArgument, set: codes.InvalidArgument, note: "the target answers InvalidArgument"},
			"cut":                    {confirm: codes.InvalidArgument, set: codes.Unknown, err: "asking whether a commit is pending"},
		} {
			target, f, _ := newTarget(t, nil)
			d := open(t, gnmiset.Config{Connect: connect(target)})
			f.mu.Lock()
			target.Fault = func(rpc string) error {
				code := map[string]codes.Code{"Confirm": tc.confirm, "Set": tc.set}[rpc]
				if code == codes.OK {
					return nil
				}
				return status.Error(code, "no")
			}
			f.mu.Unlock()
			facts, err := d.Probe(t.Context())
			if !strings.Contains(strings.Join(facts.Notes, "\n"), tc.note) || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%s: %v, %v", name, facts.Notes, err)
			}
		}
	})
}

// TestOutcome: a Set is refused where its code says so, and any other that fails is taken back.
func TestOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for code, refused := range map[codes.Code]bool{
			codes.FailedPrecondition: true, codes.Aborted: true, codes.AlreadyExists: true, codes.PermissionDenied: true,
			codes.ResourceExhausted: false, codes.Unknown: false, codes.Internal: false, codes.DataLoss: false,
		} {
			target, f, before := newTarget(t, nil)
			d := open(t, gnmiset.Config{Connect: connect(target), Confirm: time.Hour})
			rpc := "Set done"
			if refused {
				rpc = "Set"
			}
			f.mu.Lock()
			f.next = map[string]error{rpc: status.Error(code, "the table is full")}
			f.mu.Unlock()
			err := d.Apply(t.Context(), setup(0x88a8, ports...))
			_, reverts := target.Sets()
			if err == nil || strings.Contains(err.Error(), "was taken back") == refused || (reverts == 0) != refused || errors.Is(err, gnmi.ErrTooLarge) || target.Config() != before {
				t.Errorf("%v: %v, %d commits taken back", code, err, reverts)
			}
		}
	})
}

// TestAnotherProcess: what a csig left on trial that was killed is not built on by another one,
// and a switch that stays as it is is not asked for commits.
func TestAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target, f, before := newTarget(t, nil)
		killed, asks := false, 0
		f.mu.Lock()
		target.Fault = func(rpc string) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			if rpc == "Confirm" {
				asks++
			}
			if killed && (rpc == "Cancel" || rpc == "Set done") {
				return cut
			}
			return nil
		}
		f.mu.Unlock()
		kill := func(is bool) {
			f.mu.Lock()
			defer f.mu.Unlock()
			killed = is
		}
		want := setup(0x88a8, ports...)
		watching := open(t, gnmiset.Config{Connect: connect(target)})
		for range 3 {
			if have, err := watching.Observe(t.Context()); err != nil || !have.Nothing() {
				t.Fatalf("%+v, %v", have, err)
			}
		}
		f.mu.Lock()
		if asks != 1 {
			t.Errorf("a switch that stays as it is is asked %d times", asks)
		}
		f.mu.Unlock()
		first := open(t, gnmiset.Config{Connect: connect(target), Confirm: time.Hour})
		if _, err := first.Observe(t.Context()); err != nil {
			t.Fatal(err)
		}
		kill(true)
		if err := first.Apply(t.Context(), want); err == nil || target.Config() == before {
			t.Fatalf("%v: %s", err, target.Config())
		}
		kill(false)
		for name, d := range map[string]*gnmiset.Driver{"a new one": open(t, gnmiset.Config{Connect: connect(target)}), "one that watches": watching} {
			vendorstest.OnTrial(t, d, want)
			if err := d.SetMTU(t.Context(), "Ethernet1", 1500); err == nil || !strings.Contains(err.Error(), "not confirmed yet") {
				t.Errorf("%s: %v", name, err)
			}
			if f, err := d.Probe(t.Context()); err != nil || len(f.Ports) != len(ports) {
				t.Errorf("%s: %v, %v", name, f.Ports, err)
			}
		}
		target.Expire()
		if have, err := watching.Observe(t.Context()); err != nil || !have.Nothing() || target.Config() != before {
			t.Errorf("%+v, %v: %s", have, err, target.Config())
		}
		if err := watching.Apply(t.Context(), want); err != nil {
			t.Error(err)
		}
		if err := watching.Remove(t.Context()); err != nil || target.Config() != before {
			t.Errorf("%v: %s", err, target.Config())
		}
	})
}

// TestPending: a change that another client's commit keeps from being made says so.
func TestPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target, f, before := newTarget(t, nil)
		d := open(t, gnmiset.Config{Connect: connect(target)})
		if _, err := d.Observe(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.mu.Lock()
		target.Fault = func(rpc string) error {
			return map[string]error{"Set": status.Error(codes.FailedPrecondition, "a commit waits"), "Confirm": status.Error(codes.InvalidArgument, "another commit")}[rpc]
		}
		f.mu.Unlock()
		if err := d.Apply(t.Context(), setup(0x88a8, ports...)); err == nil || !strings.Contains(err.Error(), "not confirmed yet, of another client") || target.Config() != before {
			t.Error(err)
		}
	})
}

// TestReadOnlyUser: a user that may not change the configuration can assess and plan.
func TestReadOnlyUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target, _, _ := newTarget(t, func(target *octest.Target) { target.ReadOnly = true })
		d := open(t, gnmiset.Config{Connect: connect(target)})
		if f, err := d.Probe(t.Context()); err != nil || !strings.Contains(strings.Join(f.Notes, "\n"), "not change it") {
			t.Errorf("%v, %v", f.Notes, err)
		}
		if _, err := d.Observe(t.Context()); err != nil {
			t.Error(err)
		}
		if err := d.Apply(t.Context(), setup(0x88a8, ports...)); err == nil || !strings.Contains(err.Error(), "credentials refused") || strings.Contains(err.Error(), "take") {
			t.Error(err)
		}
	})
}
