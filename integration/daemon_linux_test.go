package integration

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/probe"
	"github.com/csig-agent/csig/quantize"
)

// ward is a bed whose switch is driven through a daemon.
type ward struct {
	*bed
	t      *testing.T
	socket string
	config string // the daemon's own file
	fleet  string // the operator's
}

func newWard(t *testing.T) *ward {
	b := newBed(t, quantize.Draft00)
	w := &ward{bed: b, t: t, socket: filepath.Join(b.dir, "agent.sock"), config: filepath.Join(b.dir, "device.yaml"), fleet: filepath.Join(b.dir, "fleet.yaml")}
	w.write(lmABW)
	return w
}

// write writes the operator's fleet file: the switch is driven through its
// daemon.
func (w *ward) write(lm int) { w.writeFor(lm, "daemon: {socket: "+w.socket+"}") }

// netns is how the switch is driven without a daemon.
func (w *ward) netns() string { return fmt.Sprintf("netns: /proc/%d/fd/%d", os.Getpid(), w.s1.FD()) }

func (w *ward) writeFor(lm int, management string) {
	w.t.Helper()
	text := fmt.Sprintf(fleetText, quantize.Draft00)
	text = strings.Replace(text, "    local: true\n", "    management: {"+management+"}\n", 1)
	text = strings.Replace(text, "lm: {abw: 5,", fmt.Sprintf("lm: {abw: %d,", lm), 1)
	writeFile(w.t, w.fleet, []byte(text))
}

// daemon starts csig agent --wait in the switch.
func (w *ward) daemon() *agent {
	w.t.Helper()
	return w.launch(w.t, w.config, w.socket, "--wait", "--no-self-test")
}

// csig runs a command of the operator's, outside of the switch.
func (w *ward) csig(status int, args ...string) string {
	w.t.Helper()
	return exits(w.t, status, exec.CommandContext(w.t.Context(), csig, args...))
}

// rollOut plans and applies, and returns the plan's text.
func (w *ward) rollOut(name string, more ...string) string {
	w.t.Helper()
	plan := filepath.Join(w.dir, name)
	text := w.csig(2, append([]string{"plan", "-i", w.fleet, "-o", plan}, more...)...)
	w.t.Log(text)
	w.t.Log(w.csig(0, "apply", plan, "--soak", "10ms"))
	return text
}

func (w *ward) wantIn(text string, what ...string) {
	w.t.Helper()
	for _, s := range what {
		if !strings.Contains(text, s) {
			w.t.Errorf("the output lacks %q:\n%s", s, text)
		}
	}
}

// exact waits until the probes read what a load should make of them.
func (w *ward) exact(a *agent, p *probes, load uint64) {
	w.t.Helper()
	a.eventually(func() error { return p.expectAll(load) })
}

func waits(s *api.Status) bool { return s.Waiting != "" && s.DataPlane == api.DataPlaneNone }

func TestRollOutThroughADaemon(t *testing.T) {
	t.Parallel()
	if !mayStrip(t) {
		return
	}
	w := newWard(t)
	w.run(t, "nft", "add", "table", "netdev", "operator")
	before := w.ruleset(t)
	const load = roomy
	w.setLoad(t, load)
	a := w.daemon()
	a.await("that it waits", waits)

	text := w.rollOut("first.plan")
	w.wantIn(text, "daemon "+w.socket, "+ configuration: profile bed", "Δt 100ms, 1 port", "fence", "open")
	info, err := os.Stat(w.config)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the daemon's file: %v, %v", info, err)
	}
	p := w.probes(t)
	w.exact(a, p, load)
	w.wantIn(w.csig(0, "plan", "-i", w.fleet), "No changes")

	// Killed and restarted: it continues with its configuration.
	_ = a.signal(syscall.SIGKILL) // its exit status does not matter
	w.csig(1, "plan", "-i", w.fleet)
	a = w.daemon()
	w.exact(a, p, load)

	// Another locator: frames read the old one or the new one.
	const other = 77
	w.write(other)
	next := w.values(p, map[uint16]bool{lmABW: true, other: true})
	text = w.rollOut("second.plan")
	w.wantIn(text, "~ configuration: locators of swp3", "0 to add, 1 to change, 0 to remove")
	if s := a.await("the new locator", writes(other)); s.Cycle.Lapses == 0 {
		next(s, other)
	}
	w.csig(0, "rollback", filepath.Join(w.dir, "second.plan.journal"))
	if s := a.await("the old locator", writes(lmABW)); s.Cycle.Lapses == 0 {
		next(s, lmABW)
	}

	// Rolled back to what was there before: nothing.
	w.csig(0, "rollback", filepath.Join(w.dir, "first.plan.journal"))
	a.await("that it waits again", waits)
	if after := w.ruleset(t); after != before {
		t.Errorf("the roll-back leaves\n%s\nbehind; before it was\n%s", after, before)
	}
	// What ran is kept for a rollback.
	if files, err := filepath.Glob(filepath.Join(w.dir, "*device.yaml*")); err != nil || len(files) != 1 || filepath.Ext(files[0]) != ".earlier" {
		t.Errorf("files left: %v, %v", files, err)
	}
	if err := a.signal(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v", err)
	}
}

// writes reports whether the port writes this locator for ABW.
func writes(lm uint16) func(s *api.Status) bool {
	return func(s *api.Status) bool {
		return len(s.Ports) == 1 && len(first(s).Signals) == 2 && first(s).Signals[0].LM == lm && s.DataPlane == api.DataPlaneLeased
	}
}

// values streams ABW probes, and returns what checks them: up to now each has
// one of these locators, and from some instant on the last one.
func (w *ward) values(p *probes, locators map[uint16]bool) func(s *api.Status, last uint16) {
	w.t.Helper()
	p.stream()
	return func(s *api.Status, last uint16) {
		w.t.Helper()
		now := time.Now()
		var f probe.Received
		for f.At.Before(now) {
			f = p.next()
			if f.Tag.T == quantize.MinABW && (!f.Tagged || !locators[f.Tag.LM]) {
				w.t.Fatalf("while the configuration changed: %+v", f.Tag)
			}
		}
		for f = p.next(); f.Tag.T != quantize.MinABW; f = p.next() {
		}
		if f.Tag.LM != last {
			w.t.Errorf("in the end: %+v, want locator %d", f.Tag, last)
		}
	}
}

// TestLongDaemonKilledWhileItChanges leaves on disk what a daemon has there when it
// is killed between two steps: the next one ends what was begun.
func TestLongDaemonKilledWhileItChanges(t *testing.T) {
	t.Parallel()
	if !mayStrip(t) {
		return
	}
	w := newWard(t)
	before := w.ruleset(t)
	w.setLoad(t, roomy)
	a := w.daemon()
	a.await("that it waits", waits)
	w.rollOut("first.plan")
	a.live()
	_ = a.signal(syscall.SIGKILL)

	// A configuration was kept, and is not in force yet.
	text, err := os.ReadFile(w.config)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("abw: 5"), []byte("abw: 6"), 1)
	if err := os.WriteFile(w.config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	a = w.daemon()
	a.live()
	a.await("the locator of its file", writes(6))
	w.wantIn(w.csig(2, "plan", "-i", w.fleet), "~ configuration: locators of swp3")

	// A removal was begun.
	_ = a.signal(syscall.SIGKILL)
	if err := os.Rename(w.config, w.config+".removing"); err != nil {
		t.Fatal(err)
	}
	a = w.daemon()
	a.await("that it waits, without the mark of the removal", func(s *api.Status) bool {
		_, err := os.Stat(w.config + ".removing")
		return waits(s) && errors.Is(err, os.ErrNotExist)
	})
	if after := w.ruleset(t); after != before {
		t.Errorf("the removal leaves\n%s", after)
	}

	// And what the daemon is stopped with, and the file does not survive.
	w.rollOut("again.plan")
	a.live()
	w.csig(0, "off", "-i", w.fleet)
	a.await("that it waits", waits)
	w.csig(0, "off", "-i", w.fleet)
	if after := w.ruleset(t); after != before {
		t.Errorf("csig off leaves\n%s", after)
	}

	// The emergency stop, with the daemon dead: past it.
	w.rollOut("last.plan")
	a.live()
	_ = a.signal(syscall.SIGKILL)
	w.csig(1, "off", "-i", w.fleet)
	w.writeFor(lmABW, "daemon: {socket: "+w.socket+"}, "+w.netns())
	w.csig(0, "off", "-i", w.fleet)
	w.csig(0, "off", "-i", w.fleet)
	if after := w.ruleset(t); after != before {
		t.Errorf("csig off past a dead daemon leaves\n%s", after)
	}

	// An agent without --wait runs a file that a user wrote: csig off leaves it,
	// and the next start does not run it.
	users := filepath.Join(w.dir, "users.yaml")
	text = text[bytes.Index(text, []byte("format:")):]
	if err := errors.Join(os.Remove(api.OffMarker(w.socket)), os.WriteFile(users, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	a = w.launch(t, users, w.socket, "--no-self-test")
	a.live()
	if out := w.csig(0, "off", "-i", w.fleet); strings.Contains(out, "FAILED") || strings.Count(out, "refused, all is removed instead: ") != 1 {
		t.Errorf("csig off of an agent with a file of its user:\n%s", out)
	}
	a.await("that it waits", waits)
	if after := w.ruleset(t); after != before {
		t.Errorf("csig off leaves\n%s", after)
	}
	if got, err := os.ReadFile(users); err != nil || !bytes.Equal(got, text) {
		t.Errorf("the user's file is\n%s\n%v", got, err)
	}
	if err := a.signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	start := w.s1.Command(csig, "agent", "-i", filepath.Base(users), "--socket", w.socket, "--no-self-test")
	start.Dir = w.dir
	out, err := start.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "remove that file") {
		t.Errorf("started again: %v: %s", err, out)
	}
	if !strings.Contains(string(out), `level=info msg="fleet file of this agent" file=`+users+"\n") {
		t.Errorf("the output lacks the file it uses: %s", out)
	}
}
