package integration

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
)

// TestController has one process drive two switches that run no csig. It is planned,
// applied and taken off as agents on switches are; a switch that hangs does not slow the
// other.
func TestController(t *testing.T) { drivesTwo(t, false) }

// TestLongController: one that was killed goes on where it was, a second one is refused, and what was taken off
// from another machine stays so.
func TestLongController(t *testing.T) { drivesTwo(t, true) }

func drivesTwo(t *testing.T, andOn bool) {
	t.Parallel()
	e := newElsewhere(t)
	run, dir, fleet := e.op.run, e.op.dir, e.op.fleet
	cycles := func(n uint64) func(*api.Status) bool { return func(s *api.Status) bool { return s.Cycle.Count > n } }

	both := e.op.controller("vs1", "sonic1")
	vs1, sonic1 := both[0], both[1]
	up := filepath.Join(dir, "up.plan")
	run(2, "plan", "-i", fleet, "-o", up)
	e.has(false)
	run(0, "apply", up, "--soak", "50ms", "--allow-stale") // the counters of sonic1 rest
	vs1.await("that its port is live", live)
	sonic1.await("that it reads its port", cycles(2)) // whose counters rest
	e.has(true)
	run(0, "plan", "-i", fleet)
	port := first(vs1.await("that its port is live", live)).Port
	for end := time.Now().Add(patience); ; { // of a cycle that wrote: in another the rules were right
		out, lacks := run(0, "why", port, "--socket", filepath.Join(dir, "vs1.sock")), ""
		for _, want := range []string{": live\n", "abw: S ", "  window ", " operations on the device, acknowledged after ", "  the lease lasts until "} {
			if !strings.Contains(out, want) {
				lacks = want
			}
		}
		if lacks == "" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("csig why says nothing of %q:\n%s", lacks, out)
		}
	}

	// The database of one switch takes connections and answers nothing.
	e.redis.Freeze(true)
	failed := sonic1.await("that a cycle failed", func(s *api.Status) bool { return s.Cycle.Failed > 0 })
	before := vs1.await("that it answers", live)
	after := vs1.await("that it goes on beside it", cycles(before.Cycle.Count+10))
	// One that waited for it each time would skip five ticks a cycle and more; a busy machine skips some.
	if skipped := after.Cycle.Skipped - before.Cycle.Skipped; skipped > 20 || after.Cycle.Failed > before.Cycle.Failed {
		t.Errorf("beside a switch that hangs %d ticks were skipped and %d cycles failed", skipped, after.Cycle.Failed-before.Cycle.Failed)
	}
	e.redis.Freeze(false)
	sonic1.await("that the other goes on, too", cycles(failed.Cycle.Count+2))
	if !andOn {
		run(0, "off", "-i", fleet)
		e.has(false)
		return
	}

	// Killed, it leaves what the leases leave; the next one goes on with the same configurations.
	_ = vs1.signal(syscall.SIGKILL)
	e.has(true)
	both = e.op.controller("vs1", "sonic1")
	vs1, sonic1 = both[0], both[1]
	vs1.await("that its port is live again", live)
	sonic1.await("that it reads its port again", cycles(2))
	run(0, "plan", "-i", fleet)

	// A second controller is refused at the sockets of the first, and harms nothing.
	second := e.op.host.Command(csigController, "-i", fleet, "--state", filepath.Join(dir, "second"))
	log, err := second.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for lines := bufio.NewScanner(log); refused < 2 && lines.Scan(); {
		if strings.Contains(lines.Text(), "another csig answers there") {
			refused++
		}
	}
	_ = second.Process.Signal(syscall.SIGTERM)
	if err := second.Wait(); err != nil || refused != 2 {
		t.Errorf("a second controller ends with %v, and %d of its agents were refused", err, refused)
	}
	vs1.await("that its port is live beside a second", live)

	run(0, "off", "-i", fleet)
	e.has(false)
	if left, err := os.ReadDir(filepath.Join(dir, "state")); err != nil || len(left) > 0 {
		for _, f := range left {
			if !strings.HasSuffix(f.Name(), ".earlier") {
				t.Errorf("%s is left behind", f.Name())
			}
		}
	}

	// What csig off took off from another machine, whose off-markers are there, a controller
	// that was dead meanwhile does not set up again: csig apply does.
	again := func(name string) {
		run(2, "plan", "-i", fleet, "-o", filepath.Join(dir, name))
		run(0, "apply", filepath.Join(dir, name), "--soak", "50ms", "--allow-stale")
		e.has(true)
	}
	again("again.plan")
	_ = vs1.signal(syscall.SIGKILL)
	run(0, "off", "-i", fleet)
	e.has(false)
	for _, agent := range []string{"vs1", "sonic1"} {
		if err := os.Remove(api.OffMarker(filepath.Join(dir, agent+".sock"))); err != nil {
			t.Error(err)
		}
	}
	both = e.op.controller("vs1", "sonic1")
	vs1 = both[0]
	for _, a := range both {
		a.await("that it waits for csig apply", func(s *api.Status) bool { return strings.Contains(s.Waiting, "csig apply sets it up again") })
	}
	e.has(false)
	again("third.plan")
	vs1.await("that its port is live once more", live)

	// Ctrl-C leaves both switches clean.
	if err := vs1.signal(syscall.SIGINT); err != nil {
		t.Error(err)
	}
	e.has(false)
}
