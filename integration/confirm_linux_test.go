package integration

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors/ssh/sshtest"
)

// overSSH has one of the switches driven over SSH, with a real sshd in it, and
// csig run there.
func (r *row) overSSH(nth int) {
	r.t.Helper()
	s := r.switches[nth]
	if out, err := s.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		r.t.Fatalf("%v: %s", err, out)
	}
	d := sshtest.Start(r.t, sshtest.Options{Start: func(cmd *exec.Cmd) error { return s.Do(cmd.Start) }})
	r.from = s // its loopback is where that sshd listens
	text, err := os.ReadFile(r.fleet)
	if err != nil {
		r.t.Fatal(err)
	}
	netns := fmt.Appendf(nil, "{name: %s, management: {netns: /proc/%d/fd/%d}}", s.Name(), os.Getpid(), s.FD())
	ssh := fmt.Appendf(nil, "{name: %s, address: %s, management: {ssh: {user: %s, port: %d, key: %s, known_hosts: %s}}}", s.Name(), d.Address, d.Login.User, d.Login.Port, d.Login.Key, d.Login.KnownHosts)
	if !bytes.Contains(text, netns) {
		r.t.Fatalf("no %s in\n%s", netns, text)
	}
	if err := os.WriteFile(r.fleet, bytes.Replace(text, netns, ssh, 1), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// csig is killed between a change over SSH and its confirmation: the switch goes
// back by itself, and the journal can be resumed, or rolled back, before
// that and after it.
func TestLongKilledWhileArmed(t *testing.T) {
	if !mayStrip(t) {
		return
	}
	r := newRow(t, 3)
	before := r.rulesets()
	direct, err := os.ReadFile(r.fleet)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.path("direct"), direct, 0o600); err != nil {
		t.Fatal(err)
	}
	r.overSSH(1)
	r.want(2, "plan", "-i", r.fleet, "-o", r.path("plan"))
	r.want(0, "apply", r.path("plan"), "--soak", "0s", "--journal", r.path("whole"))
	done := r.rulesets()
	r.want(0, "rollback", r.path("whole"))
	r.wantRules(before, "after the rollback")

	for _, c := range []struct {
		name       string
		wait, undo bool
		off        string // this fleet file
		unarmed    bool   // the continued run starts no auto-revert
	}{
		{name: "resumed at once"},
		{name: "resumed at once, without auto-revert", unarmed: true},
		{name: "rolled back at once", undo: true},
		{name: "rolled back at once, without auto-revert", undo: true, unarmed: true},
		{name: "taken off by another way", off: r.path("direct")},
		{name: "resumed when it has gone back", wait: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			journal := r.path(c.name)
			revert := "1h"
			if c.wait {
				revert = "1s"
			}
			r.killWhenArmed(journal, revert)
			if c.wait {
				for deadline := time.Now().Add(patience); r.hasTable(1) || r.armed(t); time.Sleep(20 * time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatal("it does not revert")
					}
				}
			}
			again := "30s"
			if c.unarmed {
				again = "0"
			}
			if !c.wait {
				for _, fleet := range []string{r.fleet, r.path("direct")} {
					if out := r.want(1, "plan", "-i", fleet); !strings.Contains(out, "s2: it is armed by an earlier csig") {
						t.Errorf("a new plan while an auto-revert is pending:\n%s", out)
					}
				}
			}
			switch {
			case c.off != "":
				r.want(0, "off", "-i", c.off)
				r.wantRules(before, "after csig off")
			case !c.undo:
				r.want(0, "apply", "--resume", journal, "--soak", "0s", "--revert", again)
				r.wantRules(done, "after the resumed apply")
				if r.marked() {
					t.Error("complete, and still to go back")
				}
			}
			if c.off == "" {
				r.want(0, "rollback", journal, "--revert", again)
				r.wantRules(before, "after the rollback")
			}
			if r.marked() {
				t.Error("it still reverts")
			}
			for deadline := time.Now().Add(patience); r.armed(t); time.Sleep(20 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the switch still has a pending auto-revert")
				}
			}
		})
	}
}

// marked reports whether s2 has a pending auto-revert.
func (r *row) marked() bool {
	r.t.Helper()
	tables, err := r.switches[1].Command("nft", "list", "tables", "netdev").CombinedOutput()
	if err != nil {
		r.t.Fatalf("%v: %s", err, tables)
	}
	return bytes.Contains(tables, []byte("csig-back-"))
}

// armed reports whether s2 has a pending auto-revert, or a shell waits there for it.
func (r *row) armed(t *testing.T) bool {
	t.Helper()
	if r.marked() {
		return true
	}
	ns, err := r.switches[1].Command("readlink", "/proc/self/ns/net").Output()
	if err != nil {
		t.Fatal(err)
	}
	for pid, p := range processes(t) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && p.name == "sh" && bytes.Contains(text, []byte("csig-back-")) {
			where, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
			if err == nil && where == strings.TrimSpace(string(ns)) {
				return true
			}
		}
	}
	return false
}

// hasTable reports whether a switch has a table of csig's.
func (r *row) hasTable(nth int) bool {
	r.t.Helper()
	out, err := r.switches[nth].Command("nft", "list", "tables", "netdev").CombinedOutput()
	if err != nil {
		r.t.Fatalf("%v: %s", err, out)
	}
	return strings.Contains(string(out), "table netdev csig\n")
}

// killWhenArmed runs apply, and kills it when s2 has the change of its step but
// cannot be confirmed, since no login is possible there any more.
func (r *row) killWhenArmed(journal, revert string) {
	r.t.Helper()
	cmd := r.from.Command(csig, "apply", r.path("plan"), "--soak", "0s", "--json", "--revert", revert, "--journal", journal)
	out, in, err := os.Pipe()
	if err != nil {
		r.t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout = in
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	in.Close()
	armed := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var p struct {
			Event   string  `json:"event"`
			Reverts float64 `json:"reverts_seconds"`
		}
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			r.t.Fatalf("%s: %v", lines.Text(), err)
		}
		if p.Event == "armed" && p.Reverts > 0 {
			armed = true
			r.signal(cmd.Process, syscall.SIGSTOP)
			hold := r.from.Command("nft", "-f", "-")
			hold.Stdin = strings.NewReader("add table inet hold\nadd chain inet hold c { type filter hook input priority 0; }\nadd rule inet hold c tcp flags & (syn | ack) == syn drop\n")
			if out, err := hold.CombinedOutput(); err != nil {
				r.t.Fatalf("%v: %s", err, out)
			}
			r.signal(cmd.Process, syscall.SIGCONT)
			for deadline := time.Now().Add(patience); !r.hasTable(1); time.Sleep(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					r.t.Fatal("the change does not come")
				}
			}
			r.signal(cmd.Process, syscall.SIGKILL)
		}
	}
	_ = cmd.Wait() // killed
	if !armed {
		r.t.Fatal("the auto-revert was never started")
	}
	if out, err := r.from.Command("nft", "delete table inet hold").CombinedOutput(); err != nil {
		r.t.Fatalf("%v: %s", err, out)
	}
}

func (r *row) signal(p *os.Process, sig syscall.Signal) {
	r.t.Helper()
	if err := p.Signal(sig); err != nil {
		r.t.Fatalf("%v: %v", sig, err)
	}
}

// csig is stopped once s2 has an auto-revert, and continued when s2 has reverted:
// the change does not come after that, and csig reports the revert.
func TestLongStoppedWhileArmed(t *testing.T) {
	r := newRow(t, 3)
	r.overSSH(1)
	r.want(2, "plan", "-i", r.fleet, "-o", r.path("plan"))
	cmd := r.from.Command(csig, "apply", r.path("plan"), "--soak", "0s", "--json", "--revert", "2s", "--journal", r.path("journal"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	cmd.Stderr = &printed
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if !stopped && strings.Contains(lines.Text(), `"event":"armed"`) {
			stopped = true
			r.signal(cmd.Process, syscall.SIGSTOP)
			for deadline := time.Now().Add(patience); r.marked(); time.Sleep(20 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Error("it does not revert")
					break
				}
			}
			r.signal(cmd.Process, syscall.SIGCONT)
		}
	}
	if err := cmd.Wait(); err == nil || !stopped || !strings.Contains(printed.String(), "has gone back by itself") {
		t.Errorf("stopped: %v, %v:\n%s", stopped, err, printed.String())
	}
	if r.hasTable(1) {
		t.Error("the change has come after s2 had gone back, and stays")
	}
	r.want(0, "rollback", r.path("journal"))
}
