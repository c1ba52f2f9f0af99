package integration

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/probe"
	"github.com/csig-agent/csig/protocol/ssh/sshtest"
)

// The emergency stop with every daemon killed, twice: hosts see tags until
// their ports strip, then none, and at last those that were sent, never again
// one that a switch has written. The daemons find a mark when they are started,
// and wait.
func TestLongOffPastDeadDaemons(t *testing.T) {
	t.Parallel()
	if !mayStrip(t) {
		return
	}
	r := newMixedRow(t, byDaemon, byDaemonSSH, byRow, byDaemon)
	before := r.rulesets()
	agents := r.daemons()
	r.want(2, "plan", "-i", r.fleet, "-o", r.path("plan"))
	r.want(0, "apply", r.path("plan"), "--soak", "0s", "--parallel", "1")
	for _, a := range agents {
		a.live()
	}
	streams := []*tags{r.tags(r.h1, r.h2, 0), r.tags(r.h2, r.h1, 0)}
	for _, s := range streams {
		s.await("with the path's value", s.updated)
	}
	for _, a := range agents {
		_ = a.signal(syscall.SIGKILL) // its exit status does not matter
	}

	var order []event
	log, code := r.follow(func(e event) { order = append(order, e) }, "off", "-i", r.fleet)
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, log)
	}
	for i, s := range []string{"s1", "s2", "s4"} {
		mark := api.OffMarker(r.socket([]int{0, 1, 3}[i]))
		if !strings.Contains(log, "device "+s+": its daemon does not answer") || !strings.Contains(log, mark) {
			t.Errorf("the output lacks that the daemon of %s is bypassed:\n%s", s, log)
		}
		if _, err := os.Stat(mark); err != nil {
			t.Error(err)
		}
	}
	wantOrder(t, order, []string{"fence s1", "fence s4"}, []string{"clear s1", "clear s2", "clear s3", "clear s4"}, []string{"remove s1", "remove s4"})
	r.wantRules(before, "after csig off")
	for _, s := range streams {
		s.await("as it was sent, without rules", s.untouched)
		s.wantPhases(s.updated, untagged, s.untouched)
	}
	r.want(0, "off", "-i", r.fleet)
	r.wantRules(before, "after another csig off")

	// An agent that may not wait does not start, and reports why.
	out, err := r.switches[0].Command(csig, "agent", "-i", r.file(0), "--socket", r.socket(0), "--no-self-test").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "remove that file") {
		t.Errorf("%v: %s", err, out)
	}

	// Started again, the daemons keep their configuration aside.
	agents = r.daemons()
	for i, a := range agents {
		s := a.await("that it waits", waits)
		mark := api.OffMarker(r.socket([]int{0, 1, 3}[i]))
		if !strings.Contains(s.Waiting, mark) || !strings.Contains(s.Waiting, "csig off") {
			t.Errorf("status reports that it waits %s", s.Waiting)
		}
	}
	r.wantRules(before, "with the daemons back")
	for _, i := range []int{0, 1, 3} {
		if _, err := os.Stat(r.file(i)); err != nil {
			t.Error(err)
		}
	}

	// They carry out csig apply, and the mark is gone.
	_ = os.Remove(r.path("plan.journal"))
	r.want(2, "plan", "-i", r.fleet, "-o", r.path("plan"))
	r.want(0, "apply", r.path("plan"), "--soak", "0s")
	for _, a := range agents {
		a.live()
	}
	for _, i := range []int{0, 1, 3} {
		if _, err := os.Stat(api.OffMarker(r.socket(i))); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the mark: %v", err)
		}
	}
	r.want(0, "plan", "-i", r.fleet)

	// Where no mark can be left the rules are removed all the same, and off
	// reports that they may come back.
	restore := r.edit(r.socket(0), "/proc/1/no-such-place/agent.sock")
	if out := r.want(1, "off", "-i", r.fleet, "--device", "s1"); !strings.Contains(out, "no off-marker could be written") || !strings.Contains(out, "no-such-place") {
		t.Errorf("the output:\n%s", out)
	}
	restore()
	r.want(0, "off", "-i", r.fleet)
	r.wantRules(before, "off with living daemons")
}

// A daemon that hangs while csig off bypasses it, and then continues, restores
// nothing.
func TestLongOffPastAHungDaemon(t *testing.T) {
	t.Parallel()
	if !mayStrip(t) {
		return
	}
	r := newMixedRow(t, byRow, byDaemon, byRow)
	before := r.rulesets()
	a := r.daemon(1)
	r.want(2, "plan", "-i", r.fleet, "-o", r.path("plan"))
	r.want(0, "apply", r.path("plan"), "--soak", "0s")
	a.live()
	if err := a.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	out := r.want(0, "off", "-i", r.fleet)
	if !strings.Contains(out, "device s2: its daemon does not answer") {
		t.Errorf("the output:\n%s", out)
	}
	r.wantRules(before, "after csig off")
	if err := a.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s := a.await("that its cycles see the mark, and that nothing is there", func(s *api.Status) bool {
		return strings.Contains(s.Cycle.LastError, "csig off") && s.DataPlane == api.DataPlaneAbsent
	})
	if p := first(s); p.State != api.StateLost || len(p.Signals) != 0 {
		t.Errorf("nothing is there, and status reports %+v", p)
	}
	failed := s.Cycle.Failed
	a.await("more of its cycles", func(s *api.Status) bool { return s.Cycle.Failed > failed+5 })
	r.wantRules(before, "after the daemon continues")
	r.want(2, "plan", "-i", r.fleet, "-o", r.path("again"))
	r.want(0, "apply", r.path("again"), "--soak", "0s")
	a.live()
	r.want(0, "plan", "-i", r.fleet)
	r.want(0, "off", "-i", r.fleet)
	r.wantRules(before, "after another csig off")
}

// wantOrder wants things to have been done in groups, one after the other.
func wantOrder(t *testing.T, got []event, groups ...[]string) {
	t.Helper()
	at := 0
	for _, g := range groups {
		want := map[string]bool{}
		for _, s := range g {
			want[s] = true
		}
		for range g {
			if at == len(got) || !want[got[at].Stage+" "+got[at].Device] || got[at].Event != "done" {
				t.Fatalf("at %d: %+v, want one of %v", at, got, g)
			}
			at++
		}
	}
	if at != len(got) {
		t.Errorf("and then: %+v", got[at:])
	}
}

// wantPhases wants the frames that arrived to be of one kind, then of the next,
// and each kind to be there.
func (s *tags) wantPhases(kinds ...func(*probe.Received) bool) {
	s.t.Helper()
	phase, seen := 0, make([]int, len(kinds))
	for i, f := range s.all() {
		for phase < len(kinds) && !kinds[phase](&f) {
			phase++
		}
		if phase == len(kinds) {
			s.t.Fatalf("frame %d of %d is of no kind that may come now: tagged %v, %+v; so far %v", i, len(s.all()), f.Tagged, f.Tag, seen)
		}
		seen[phase]++
	}
	for i, n := range seen {
		if n == 0 {
			s.t.Errorf("no frame of kind %d: %v", i, seen)
		}
	}
}

// An operator who is not root may not open the daemon's socket: off becomes root
// by sudo, goes past the daemon though it lives, and the mark stops it.
func TestLongOffByAnOrdinaryAccount(t *testing.T) {
	t.Parallel()
	if !mayStrip(t) {
		return
	}
	r := newMixedRow(t, byRow, byDaemonSSH, byRow)
	before := r.rulesets()
	a := r.daemon(1)
	r.want(2, "plan", "-i", r.fleet, "-o", r.path("plan"))
	r.want(0, "apply", r.path("plan"), "--soak", "0s")
	a.live()

	password := r.path("password")
	if err := os.WriteFile(password, []byte(sshtest.Password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s2 := r.switches[1]
	d := sshtest.Start(t, sshtest.Options{
		Address: r.address(1), Port: 2223, Start: func(cmd *exec.Cmd) error { return s2.Do(cmd.Start) },
		Account: &sshtest.Account{Name: "admin", Sudoers: "admin ALL=(root) ALL\n"},
	})
	fleet, err := os.ReadFile(r.fleet)
	if err != nil {
		t.Fatal(err)
	}
	as := regexp.MustCompile(`ssh: {user: [^}]*}`).Find(fleet)
	r.edit(string(as), fmt.Sprintf("ssh: {user: %s, port: %d, key: %s, known_hosts: %s, sudo: {password: {file: %s}}}", d.Login.User, d.Login.Port, d.Login.Key, d.Login.KnownHosts, password))
	out := r.want(0, "off", "-i", r.fleet)
	if !strings.Contains(out, "device s2: its daemon may not be opened by "+d.Login.User+": bypassed") {
		t.Errorf("the output:\n%s", out)
	}
	s := a.await("that its cycles see the mark", func(s *api.Status) bool { return strings.Contains(s.Cycle.LastError, "csig off") })
	a.await("more of its cycles", func(now *api.Status) bool { return now.Cycle.Failed > s.Cycle.Failed+5 })
	r.wantRules(before, "past a daemon that lives")
}
