package integration

import (
	"context"
	"errors"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/probe"
	"github.com/csig-agent/csig/quantize"
)

// tags is a stream of tagged frames between the hosts of a row.
type tags struct {
	t        testing.TB
	tx       *probe.Sender
	rx       *probe.Listener
	initial  quantize.Tag
	stop     context.CancelFunc
	stopped  chan error
	mu       sync.Mutex
	received []probe.Received
}

// tags begins a stream of frames of this size in one direction.
func (r *row) tags(from, to *fabric.Port, size int) *tags {
	r.t.Helper()
	fleet, err := inventory.Load(r.fleet)
	if err != nil {
		r.t.Fatal(err)
	}
	s := &tags{t: r.t, stopped: make(chan error, 2)}
	err = from.Node().Do(func() (err error) {
		s.tx, err = probe.NewSender(probe.SenderConfig{Interface: from.Name, Dst: to.MAC, Profile: &fleet.Profile, Signals: []quantize.Signal{quantize.MinABW}, Size: size})
		return err
	})
	if err == nil {
		err = to.Node().Do(func() (err error) {
			s.rx, err = probe.NewListener(probe.ListenerConfig{Interface: to.Name, Profile: &fleet.Profile, RunID: s.tx.RunID()})
			return err
		})
	}
	if err != nil {
		r.t.Fatal(err)
	}
	s.initial = quantize.Tag{TPID: fleet.Profile.TPID, T: quantize.MinABW, S: 31, LM: fleet.Profile.Layout.LMNone()}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go func() { s.stopped <- s.tx.Run(ctx, 2*time.Millisecond, 0) }()
	go func() {
		for {
			f, err := s.rx.Next(ctx)
			if err != nil {
				if ctx.Err() != nil {
					err = nil
				}
				s.stopped <- err
				return
			}
			s.mu.Lock()
			s.received = append(s.received, f)
			s.mu.Unlock()
		}
	}()
	r.t.Cleanup(func() {
		stop()
		if err := errors.Join(<-s.stopped, <-s.stopped, s.tx.Close(), s.rx.Close()); err != nil {
			r.t.Error(err)
		}
	})
	return s
}

// all is what has arrived so far.
func (s *tags) all() []probe.Received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.received[:len(s.received):len(s.received)]
}

// await waits for a frame, of those that come from now on, that is as wanted.
func (s *tags) await(what string, ok func(*probe.Received) bool) {
	s.t.Helper()
	n := len(s.all())
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		for _, f := range s.all()[n:] {
			if ok(&f) {
				return
			}
			n++
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			s.t.Fatalf("no frame came %s", what)
		}
	}
}

func untagged(f *probe.Received) bool { return !f.Tagged }

// untouched reports whether a frame came with the tag that it was sent with.
func (s *tags) untouched(f *probe.Received) bool {
	return f.Tagged && f.Tag.S == s.initial.S && f.Tag.LM == s.initial.LM
}

func (s *tags) updated(f *probe.Received) bool { return f.Tagged && !s.untouched(f) }

// follow is follow of the row's csig.
func (r *row) follow(f func(event), args ...string) (string, int) {
	r.t.Helper()
	return follow(r.t, r.command(append(args, "--json")...), f)
}

// Switches that are driven remotely, through
// daemons and here, from nothing to CSIG in waves and back, under traffic of
// which not one frame is lost or altered. In between a canary goes bad.
func TestLongRollOutOfAMixedFleet(t *testing.T) {
	t.Parallel()
	if !mayStrip(t) {
		return
	}
	r := newMixedRow(t, byDaemonSSH, byDaemonSSH, byRow, byDaemonSSH, byRow, byDaemonTLS)
	agents := r.daemons()
	r.edit("{name: s2,", "{name: s2, tags: [canary],")
	r.edit("csig: true}", "csig: true, mtu: 1700}")
	before, mtus := r.rulesets(), r.mtus()
	w := r.traffic()
	const size = 1500 // longer than any of the traffic without tags
	probes := r.tags(r.h1, r.h2, size)
	probes.await("through switches without rules", probes.untouched)

	out := r.want(2, "plan", "-i", r.fleet, "-o", r.path("plan"))
	saved, err := os.ReadFile(r.path("plan")) // how each is reached: devices that change alike are one entry
	if err != nil {
		t.Fatal(err)
	}
	out += string(saved)
	for _, want := range []string{
		"1. mtu", "2. fence", "3. ready", "4. open", "west: mtu: 1600 -> 1696", "on 6 devices",
		"daemon " + r.socket(0) + " over ssh " + r.address(0), "over ssh " + r.address(1), "daemon " + r.address(5) + ":7443",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the plan lacks %q:\n%s", want, out)
		}
	}
	r.wantRules(before, "csig plan changed something")
	out, code := r.csig("apply", r.path("plan"), "--soak", "50ms", "--stop-after", "ready/canary")
	if code != 3 || !strings.Contains(out, "--resume") {
		t.Fatalf("exit code %d, want 3 for a pause\n%s", code, out)
	}
	probes.await("stripped, while half of the fleet is set up", untagged)
	r.want(0, "apply", "--resume", r.path("plan.journal"), "--soak", "50ms")
	probes.await("with the path's value", probes.updated)
	r.want(0, "plan", "-i", r.fleet)
	for port, mtu := range r.mtus() {
		if mtu != 1696 {
			t.Errorf("%s: MTU %d, want 1696", port, mtu)
		}
	}
	for _, a := range agents {
		a.live()
	}
	quiet := r.rulesets()

	// The next change meets a canary that goes bad with it: from the moment that
	// its rules change, the other end of its cable takes no long frames any
	// more. The kernel counts what it throws away, and the gate sees that.
	restore := r.edit("on_stale: conservative", "on_stale: passthrough")
	r.edit("mtu: 1700}", "mtu: 1704}")
	r.want(2, "plan", "-i", r.fleet, "-o", r.path("next"))
	bad := false
	log, code := r.follow(func(e event) {
		if e.Event == "done" && e.Stage == "ready" && e.Device == "s2" {
			bad = true
			r.setMTU(2, "west", size-50)
		}
		if bad && e.Event == "start" {
			t.Errorf("after the canary went bad: %+v", e)
		}
	}, "apply", r.path("next"), "--soak", "500ms") // time enough to make it bad while the gate watches
	if !bad || code != 1 || !strings.Contains(log, "device s2, port east") || !strings.Contains(log, "discarded") || !strings.Contains(log, "csig rollback") {
		t.Errorf("exit code %d, want 1 for a closed gate\n%s", code, log)
	}
	r.setMTU(2, "west", 1700)
	r.want(0, "rollback", r.path("next.journal"))
	restore()
	if got := r.rulesets(); got != quiet {
		t.Errorf("the roll-back of the bad canary leaves\n%s\nwant\n%s", got, quiet)
	}
	r.want(0, "plan", "-i", r.fleet)
	probes.await("with the path's value, after the rollback", probes.updated)

	r.want(0, "rollback", r.path("plan.journal"))
	r.wantRules(before, "after the rollback")
	if got := r.mtus(); !maps.Equal(got, mtus) {
		t.Errorf("MTUs %v, before the plan they were %v", got, mtus)
	}
	for _, a := range agents {
		a.await("that it waits again", waits)
	}
	probes.await("through switches without rules again", probes.untouched)
	w.end()
}
