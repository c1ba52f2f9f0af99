package integration

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/csig-agent/csig/vendors"
)

// hasTable reports whether a switch has a table of csig's.
func (r *row) hasTable(nth int) bool {
	r.t.Helper()
	out, err := r.switches[nth].Command("nft", "list", "tables", "netdev").CombinedOutput()
	if err != nil {
		r.t.Fatalf("%v: %s", err, out)
	}
	return strings.Contains(string(out), "table netdev csig\n")
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
	t.Parallel()
	if !mayStrip(t) {
		return
	}
	r := newMixedRow(t, byRow, byDaemon, byRow)
	a := r.daemon(1)
	r.want(2, "plan", "-i", r.fleet, "-o", r.path("plan"))
	cmd := r.command("apply", r.path("plan"), "--soak", "0s", "--json", "--revert", "8s", "--journal", r.path("journal"))
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
		if !stopped && strings.Contains(lines.Text(), `"event":"armed"`) && strings.Contains(lines.Text(), `"device":"s2"`) {
			stopped = true
			r.signal(cmd.Process, syscall.SIGSTOP)
			if !within(patience, func() bool { return !errors.As(a.client.PendingRevert(t.Context()), new(*vendors.PendingRevertError)) }) {
				t.Error("it does not revert")
			}
			r.signal(cmd.Process, syscall.SIGCONT)
		}
	}
	// Where it is stopped only after s2 took the change, it finds that out as it reads back.
	if err := cmd.Wait(); err == nil || !stopped || !strings.Contains(printed.String(), "has auto-reverted") && !strings.Contains(printed.String(), "it auto-reverts within") {
		t.Errorf("stopped: %v, %v:\n%s", stopped, err, printed.String())
	}
	if r.hasTable(1) {
		t.Error("the change has come after s2 had gone back, and stays")
	}
	r.want(0, "rollback", r.path("journal"))
}
