package integration

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestMeshDemo watches the demo of the mesh as people do: the table names the port that the first flow fills, in its
// place on the screen, and Ctrl-C shows what was seen so far.
func TestMeshDemo(t *testing.T) {
	t.Parallel()
	tt := onTerminal(t, 80, 24, csig, "demo", "--mesh", "--duration", "5m")
	tt.await("that the first flow's port is named", 0, func(out string) bool {
		return strings.Contains(out, "l1 sends 68.2 Mbit/s across s1:swp3, named first after ")
	})
	out := tt.text()
	tt.press("\x03")
	if status := tt.end(); status != 0 {
		t.Errorf("status %d after Ctrl-C", status)
	}
	_, rest, _ := strings.Cut(tt.text()[len(out):], "^C")
	if !strings.Contains(rest, "Verdict: right.") || strings.Contains(rest, "csig:") {
		t.Errorf("no verdict, or an error:\n%s", rest)
	}
	s := newScreen(80, 24)
	if err := s.write(out[:strings.LastIndex(out, "\x1b[J")]); err != nil { // the last redraw may be half there
		t.Fatal(err)
	}
	if s.wrapped > 0 {
		t.Errorf("%d lines are longer than 80 columns", s.wrapped)
	}
	for _, once := range []string{"csig demo --mesh", "h1 ── s1 ── swp3", "across", "12 pairs: 12 capable"} {
		if n := strings.Count(s.String(), once); n != 1 {
			t.Errorf("%q is on the screen %d times:\n%s", once, n, s)
		}
	}
}

// TestMeshDemoKilled kills the demo while its hosts probe each other: nothing of it goes on.
func TestMeshDemoKilled(t *testing.T) {
	t.Parallel()
	tt := onTerminal(t, 80, 24, csig, "demo", "--mesh", "--duration", "5m")
	tt.await("hosts", 0, func(out string) bool { return strings.Contains(out, "csig mesh run (4 of 4)") })
	family := descendants(t, tt.cmd.Process.Pid)
	if len(family) < 1+3+4 { // the inner one, agents and hosts
		t.Fatalf("processes of the demo: %v", family)
	}
	if err := tt.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-tt.ended // what it had started ends a moment after it
	var left []int
	if !within(patience, func() bool {
		now := processes(t)
		left = slices.DeleteFunc(slices.Clone(family), func(pid int) bool { return now[pid].name == "" })
		return len(left) == 0
	}) {
		t.Errorf("processes that go on: %v", left)
	}
}

// descendants are the processes that another has started, and theirs.
func descendants(t *testing.T, pid int) (out []int) {
	t.Helper()
	all := processes(t)
	for found := []int{pid}; len(found) > 0; found = found[1:] {
		for child, p := range all {
			if p.parent == found[0] {
				found, out = append(found, child), append(out, child)
			}
		}
	}
	return out
}

// TestLongMeshDemo runs all of the demo as an ordinary user does, where this one may become one: the mesh names the port
// that is busy in each step, with all pairs that pass it, and where it is.
func TestLongMeshDemo(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(csig, "demo", "--mesh")
	cmd.Dir = filepath.Dir(csig)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: ordinaryUser(t)}
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	out := string(text)
	for _, want := range []string{
		`: no port limits a pair\n`,
		`l1 sends 68\.2 Mbit/s across s1:swp3: s1:swp3 limits 4 of 12 pairs \(first hop\), abw 28–35\.5 Mbit/s, abwc 28–35\.5 %\n`,
		`\$ csig mesh status\nmesh demo: 4 of 4 hosts live; 12 pairs: 12 capable\n`,
		// 12.6 Mbit/s are left: within 100 ms a burst of 5 % more is the next bucket
		`\ns2:swp3 +4 pairs +abw +(9–11\.2|11\.2–14|14–18) Mbit/s +core `,
		`\ns1:swp3 +68\.2 Mbit/s of l1 +after \d+\.\d s +4 of 12 pairs +first hop\n`,
		`\ns2:swp3 +37\.4 Mbit/s of l2 +after \d+\.\d s +4 of 12 pairs +core\n`,
		`\ns3:swp3 +54\.8 Mbit/s of l3 +after \d+\.\d s +3 of 12 pairs +last hop\n`,
		`\nVerdict: right\. Each busy port came first`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("nothing matches %s", want)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
}
