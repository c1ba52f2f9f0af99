package integration

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/vendors/vendorstest"
)

// ran runs a command that is csig, and returns what it prints and its exit code.
func ran(t testing.TB, cmd interface{ CombinedOutput() ([]byte, error) }) (string, int) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		if vendorstest.Raced && exit.ExitCode() == raceExit {
			t.Fatalf("%s\na data race in csig: %s", out, races("race.*"))
		}
		return string(out), exit.ExitCode()
	case err != nil:
		t.Fatal(err)
	}
	return string(out), 0
}

// exits runs a command that is csig, wants an exit code, and returns what it prints.
func exits(t testing.TB, code int, cmd interface {
	CombinedOutput() ([]byte, error)
	String() string
}) string {
	t.Helper()
	out, got := ran(t, cmd)
	if got != code {
		t.Fatalf("%s: exit code %d, want %d\n%s", cmd, got, code, out)
	}
	return out
}

// event is a line of csig's --json.
type event struct{ Event, Stage, Wave, Device string }

// follow runs a command that is csig with --json, calls f for each event, and returns its
// standard error and its exit code.
func follow(t testing.TB, cmd *fabric.Cmd, f func(event)) (string, int) {
	t.Helper()
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Errorf("%s: %v", lines.Text(), err)
		}
		f(e)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return log.String(), cmd.ProcessState.ExitCode()
}

// killAt runs csig with --json and kills it when it reports the nth beginning or end of
// a step; false when it ended before. f is called for each until then.
func killAt(t testing.TB, cmd *fabric.Cmd, nth int, f func(event)) bool {
	t.Helper()
	killed, events := false, 0
	log, code := follow(t, cmd, func(e event) {
		if killed || !slices.Contains([]string{"start", "done", "undoing", "undone"}, e.Event) {
			return
		}
		f(e)
		if events++; events == nth {
			killed = true
			if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Fatal(err)
			}
		}
	})
	if code != 0 && !killed {
		t.Fatalf("%s: exit code %d\n%s", cmd, code, log)
	}
	return killed
}
