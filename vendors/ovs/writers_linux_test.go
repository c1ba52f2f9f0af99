package ovs

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// as opens the bridge under a name.
func (s *sandwich) as(t testing.TB, who string, take bool) *Driver {
	t.Helper()
	d := s.opened(t, Config{Bridge: "csig", Who: who, Take: take})
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// owner runs an agent that writes one of two values, by turns, until stop, or
// until another process has the bridge: ended then has that error.
func owner(t *testing.T, d *Driver) (stop func(), ended <-chan error) {
	t.Helper()
	apply(t, d, setupFor(quantize.Draft00, swp1))
	update(t, d, time.Minute, at7)
	ctx, cancel := context.WithCancel(context.Background())
	end := make(chan error, 1)
	go func() {
		every := time.NewTicker(20 * time.Millisecond)
		defer every.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				end <- nil
				return
			case <-every.C:
			}
			in := vendors.PortUpdate{Port: "swp1", Intents: []vlanrules.Intent{bucket(quantize.MinABW, uint8(7+i%2*2), uint16(5+i%2))}}
			_, err := d.Update(context.Background(), []vendors.PortUpdate{in}, time.Minute)
			if errors.As(err, new(*vendors.HeldError)) {
				end <- err
				return
			}
		}
	}()
	return cancel, end
}

// watch sends frames while f runs, and fails for one that has none of the values.
func (s *sandwich) watch(t *testing.T, f func(), allowed ...tag) {
	t.Helper()
	var done atomic.Bool
	go func() {
		defer done.Store(true)
		f()
	}()
	n := 0
	for last := false; !last; n++ {
		last = done.Load()
		if n > 0 {
			<-time.After(time.Millisecond) // as traffic has it: who watches leaves the machine to those watched
		}
		got, ok := s.pass(best), false
		for _, a := range allowed {
			ok = ok || bytes.Equal(got, frame(1, a))
		}
		if !ok {
			t.Fatalf("frame %d leaves as %x, want one of %x\n%s", n, got, allowed, s.Ofctl("dump-flows", "csig"))
		}
	}
	t.Logf("%d frames", n)
}

// intruder is an update of a second writer only.
var intruder = vendors.PortUpdate{Port: "swp1", Intents: []vlanrules.Intent{bucket(quantize.MinABW, 3, 8)}}

// TestSecondWriter has others try to program a bridge that an agent programs:
// they are told whose it is, and every frame has a value of the agent's.
func TestSecondWriter(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	first := s.as(t, "the first agent", false)
	stop, ended := owner(t, first)
	s.becomes(t, soon, []tag{best}, at7s)
	at9s := tag{tpidCSIG, 9<<7 | 6}
	for _, tc := range []struct {
		name string
		do   func(d *Driver) error
	}{
		{"apply", func(d *Driver) error {
			return d.Apply(t.Context(), setupFor(quantize.UEC, vendors.PortSetup{Port: "swp1", Action: vlanrules.Strip}))
		}},
		{"a second agent", func(d *Driver) error {
			_, err := d.Update(t.Context(), []vendors.PortUpdate{intruder}, time.Minute)
			return err
		}},
		{"a plan that removes", func(d *Driver) error { return d.Remove(t.Context()) }},
		{"an agent that ends", func(d *Driver) error { return d.Release(t.Context()) }},
	} {
		s.watch(t, func() {
			for range 2 {
				d := s.as(t, "another process", false)
				var perm *vendors.PermanentError
				if err := tc.do(d); !errors.As(err, new(*vendors.HeldError)) || !errors.As(err, &perm) || !strings.Contains(err.Error(), "the first agent, process ") {
					t.Errorf("%s: %v, want who has the bridge", tc.name, err)
				}
				if _, err := d.Observe(t.Context()); err != nil { // it may look
					t.Errorf("%s: %v", tc.name, err)
				}
			}
		}, at7s, at9s)
	}
	// A person, at what is not csig's.
	s.watch(t, func() {
		s.Ofctl("add-flow", "csig", "table=9,priority=7,actions=drop")
		s.Vsctl("set", "bridge", "csig", "external_ids:other=else")
		s.Vsctl("add-port", "csig", "p9", "--", "set", "interface", "p9", "type=dummy")
	}, at7s, at9s)
	// Its lock goes with its connections' end, and comes back before another's.
	s.StopDatabase()
	s.StartDatabase()
	for start := time.Now(); !strings.Contains(s.Vsctl("get", "bridge", "csig", "external_ids"), "the first agent") || s.free(t); {
		if time.Since(start) > soon {
			t.Fatal("the agent does not lock the bridge again")
		}
		<-time.After(5 * time.Millisecond) // to look again
	}
	if err := s.as(t, "another process", false).Remove(t.Context()); !errors.As(err, new(*vendors.HeldError)) {
		t.Errorf("after a restart of the database: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if got := s.Vsctl("get", "bridge", "csig", "external_ids"); strings.Contains(got, writerKey) || !strings.Contains(got, "other=else") {
		t.Errorf("the bridge was released, and has %s", got)
	}
	apply(t, s.as(t, "another process", false), setupFor(quantize.Draft00, swp1))
}

// free reports whether no process has the bridge.
func (s *sandwich) free(t *testing.T) bool {
	t.Helper()
	d := s.as(t, "a look", false)
	defer d.Close()
	if err := d.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	is, err := d.db.isFree("csig")
	if err != nil {
		t.Fatal(err)
	}
	return is
}

// TestWriterThatIsKilled leaves the bridge to the next one at once.
func TestWriterThatIsKilled(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	d := s.as(t, "the first agent", false)
	apply(t, d, setupFor(quantize.Draft00, swp1))
	if s.free(t) {
		t.Fatal("no process has the bridge")
	}
	if err := d.db.c.Close(); err != nil { // as the kernel does
		t.Fatal(err)
	}
	for start := time.Now(); !s.free(t); {
		if time.Since(start) > soon {
			t.Fatal("the bridge still has an owner")
		}
		<-time.After(5 * time.Millisecond) // to look again
	}
	update(t, s.as(t, "the second", false), time.Minute, at7)
}

// TestTakenAway has csig off remove everything while an agent runs, which then
// knows that the bridge is no longer its own, for good.
func TestTakenAway(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	stop, ended := owner(t, s.as(t, "the first agent", false))
	off := s.as(t, "csig off", true)
	if err := off.Apply(t.Context(), setupFor(quantize.Draft00, vendors.PortSetup{Port: "swp1", Action: vlanrules.Strip})); err != nil {
		t.Fatal(err)
	}
	if err := off.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := off.Close(); err != nil {
		t.Fatal(err)
	}
	defer stop()
	var err error
	select {
	case err = <-ended:
	case <-time.After(soon):
	}
	if err == nil || !strings.Contains(err.Error(), "taken away") {
		t.Errorf("the agent ends with %v", err)
	}
	flows := s.Ofctl("--no-stats", "dump-flows", "csig")
	if n := strings.Count(flows, "cookie=0x6373696700000001"); n != 3 {
		t.Errorf("%d flows of csig's are left, want the 3 that forward:\n%s", n, flows)
	}
	if got := s.pass(best); !bytes.Equal(got, frame(1, best)) {
		t.Errorf("a tag leaves as %x", got)
	}
}

// TestStoppedWriter has another process remove all that is csig's while the agent is
// stopped for longer than its lease: the agent writes nothing before the database
// has told it whose the bridge is, on the connection that it had and on a new one.
func TestStoppedWriter(t *testing.T) {
	t.Parallel()
	for _, connection := range []string{"same", "new"} {
		t.Run(connection, func(t *testing.T) {
			t.Parallel()
			s := newSandwich(t)
			agent, err := Open(Config{Bridge: "csig", RunDir: s.Dir, Who: "the agent"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = agent.Close() })
			apply(t, agent, setupFor(quantize.Draft00, swp1))
			update(t, agent, time.Second, at7)
			agent.ask(t.Context()) // the answer is of before
			off := s.as(t, "csig off", true)
			if err := off.Remove(t.Context()); err != nil {
				t.Fatal(err)
			}
			_ = off.Close()
			if connection == "new" {
				_ = agent.await(t.Context())
				_ = agent.db.close()
			}
			const stopped = -10 * time.Second
			agent.checked, agent.told, agent.until = agent.checked.Add(stopped), agent.told.Add(stopped), agent.until.Add(stopped)
			if agent.late != nil {
				agent.late.asked = agent.late.asked.Add(stopped)
			}
			s.PauseDatabase(true)
			for range 3 {
				if res, err := agent.Update(t.Context(), []vendors.PortUpdate{at7}, time.Second); err == nil || res.Ops+res.Ports > 0 || res.Repaired != nil {
					t.Errorf("before the database answers: %+v, %v", res, err)
				}
			}
			if got := s.pass(best); !bytes.Equal(got, frame(1, best)) {
				t.Errorf("a tag leaves as %x", got)
			}
			s.PauseDatabase(false)
			for start := time.Now(); ; {
				_, err := agent.Update(t.Context(), []vendors.PortUpdate{at7}, time.Second)
				if errors.As(err, new(*vendors.PermanentError)) && strings.Contains(err.Error(), "taken away") {
					break
				}
				if time.Since(start) > soon {
					t.Fatalf("the agent ends with %v", err)
				}
			}
			if got := s.pass(best); !bytes.Equal(got, frame(1, best)) {
				t.Errorf("a tag leaves as %x", got)
			}
		})
	}
}

// TestLeavesADatabaseThatHangs ends a writer that cannot say so any more.
func TestLeavesADatabaseThatHangs(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	s.PauseDatabase(true)
	start := time.Now()
	err := s.driver.Close()
	s.PauseDatabase(false)
	if took := time.Since(start); err != nil || took > soon {
		t.Errorf("closed after %v: %v", took, err)
	}
	apply(t, s.next(t), setupFor(quantize.Draft00, swp1))
}
