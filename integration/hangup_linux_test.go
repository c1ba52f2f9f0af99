package integration

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// unread runs csig with a reader of its output, standard error included, that
// goes away after the first line. It returns the exit code.
func (r *row) unread(args ...string) int {
	r.t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := r.command(args...)
	cmd.Stdout, cmd.Stderr = write, write
	err = cmd.Start()
	if err = errors.Join(err, write.Close()); err != nil {
		r.t.Fatal(err)
	}
	if _, err := bufio.NewReaderSize(read, 16).ReadString('\n'); err != nil && !errors.Is(err, io.EOF) {
		r.t.Error(err)
	}
	if err := read.Close(); err != nil {
		r.t.Error(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		r.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
}

// A login that is lost ends csig apply in an orderly way: nothing is left half done. A pipe that breaks ends
// neither apply nor rollback nor off in the middle of a device: they go on without it. Another csig off
// finds nothing, and does no harm.
func TestLongHungUpAndWithoutAReader(t *testing.T) {
	t.Parallel()
	if !mayStrip(t) {
		return
	}
	r := newRow(t, 3)
	before := r.rulesets()
	r.want(2, "plan", "-i", r.fleet, "-o", r.path("plan"))
	r.hungUp()
	r.wantRules(before, "after an apply that was hung up")
	if code := r.unread("apply", r.path("plan"), "--soak", "0s"); code != 0 {
		t.Fatalf("apply: exit code %d", code)
	}
	r.want(0, "plan", "-i", r.fleet)
	if code := r.unread("rollback", r.path("plan.journal")); code != 0 {
		t.Fatalf("rollback: exit code %d", code)
	}
	r.wantRules(before, "after the rollback")
	r.want(0, "apply", r.path("plan"), "--soak", "0s", "--journal", r.path("again"))
	if code := r.unread("off", "-i", r.fleet); code != 0 {
		t.Fatalf("off: exit code %d", code)
	}
	r.wantRules(before, "after csig off")
	if out := r.want(0, "off", "-i", r.fleet); !strings.Contains(out, "  s2 done") {
		t.Errorf("the output of another csig off:\n%s", out)
	}
	r.wantRules(before, "after another csig off")
}

// hungUp sends an apply SIGHUP at its beginning.
func (r *row) hungUp() {
	r.t.Helper()
	cmd := r.command("apply", r.path("plan"), "--soak", "1h", "--journal", r.path("hung up"))
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	if _, err := bufio.NewReader(pipe).ReadString('\n'); err != nil { // it is at work
		r.t.Error(err)
	}
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		r.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, pipe) // to its end
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 3 || !strings.Contains(log.String(), "csig: terminated: nothing was changed") {
		r.t.Errorf("%v\n%s", err, log.String())
	}
}
