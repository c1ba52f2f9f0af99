package integration

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const redrawStart = "\x1b[H\x1b[J" // what a redraw after a resize begins with

// measuring reports that the demo's table shows probes.
func measuring(out string) bool {
	return strings.Contains(out, "the receiver reads") && !strings.Contains(out[strings.LastIndex(out, "csig demo"):], "nothing yet")
}

// isSummary checks what the demo leaves on the screen.
func isSummary(t *testing.T, out string) {
	t.Helper()
	if !strings.Contains(out, "probes of 2 signals over") || !strings.Contains(out, "age of the signal") || !regexp.MustCompile(`lost +0\b`).MatchString(out) || strings.Contains(out, "csig:") {
		t.Errorf("no summary, lost probes, or an error:\n%s", out)
	}
}

// TestDemoOnTerminal watches the demo as people do: the table stays in its
// place, also when the window is made smaller, and Ctrl-C shows the summary.
func TestDemoOnTerminal(t *testing.T) {
	t.Parallel()
	tt := onTerminal(t, 80, 24, csig, "demo", "--duration", "5m")
	tt.await("a few redraws", 0, func(out string) bool {
		return measuring(out) && strings.Count(out, "\x1b[J") > 5
	})
	before := len(tt.text())
	tt.resize(60, 20)
	tt.await("redraws at the new size", before, func(out string) bool {
		_, out, ok := strings.Cut(out, redrawStart)
		return ok && strings.Count(out, "\x1b[J") > 2
	})
	out := tt.text()
	tt.press("\x03")
	status := tt.end()
	isSummary(t, tt.text())
	if status != 0 {
		t.Errorf("status %d after Ctrl-C", status)
	}

	wide, small, _ := strings.Cut(out, redrawStart)
	for _, part := range []struct {
		text          string
		columns, rows int
	}{{wide, 80, 24}, {redrawStart + small, 60, 20}} {
		s := newScreen(part.columns, part.rows)
		whole := part.text[:strings.LastIndex(part.text, "wrong locators\r\n")+len("wrong locators\r\n")]
		if err := s.write(whole); err != nil {
			t.Fatal(err)
		}
		if s.wrapped > 0 {
			t.Errorf("%d lines are longer than %d columns", s.wrapped, part.columns)
		}
		for _, once := range []string{"csig demo", "HOP", "the receiver reads", "settling"} {
			if n := strings.Count(s.String(), once); n != 1 {
				t.Errorf("at %d columns %q is on the screen %d times:\n%s", part.columns, once, n, s)
			}
		}
	}
}

// TestDemoInterruptedEarly presses Ctrl-C before anything was measured.
func TestDemoInterruptedEarly(t *testing.T) {
	t.Parallel()
	tt := onTerminal(t, 80, 24, csig, "demo", "--interval", "10s")
	tt.await("agents", 0, func(out string) bool { return strings.Contains(out, "(3 of 3)") })
	before := len(tt.text())
	tt.press("\x03")
	if status := tt.end(); status != 1 {
		t.Errorf("status %d, want 1", status)
	}
	rest := strings.TrimPrefix(strings.TrimSpace(tt.text()[before:]), "^C")
	if want := "csig: interrupted before anything was measured"; rest != want {
		t.Errorf("the last words are %q, want %q", rest, want)
	}
}

// TestDemoPassesSignalsOn sends signals to the outer process alone, while it
// has a terminal from which they could have come.
func TestDemoPassesSignalsOn(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		sig    syscall.Signal
		status int
		check  func(*testing.T, string)
	}{
		{unix.SIGTERM, 0, isSummary},
		{unix.SIGHUP, 70, func(*testing.T, string) {}},
	} {
		t.Run(unix.SignalName(tc.sig), func(t *testing.T) {
			t.Parallel()
			tt := onTerminal(t, 80, 24, csig, "demo", "--duration", "5m")
			tt.await("probes", 0, measuring)
			if err := tt.cmd.Process.Signal(tc.sig); err != nil {
				t.Fatal(err)
			}
			if status := tt.end(); status != tc.status {
				t.Errorf("status %d, want %d", status, tc.status)
			}
			tc.check(t, tt.text())
		})
	}
}

// TestDemoKilledInside kills the inner process, as the kernel does for want of
// memory: the outer one has to report it.
func TestDemoKilledInside(t *testing.T) {
	t.Parallel()
	before := namedNamespaces(t)
	cmd := exec.Command(csig, "demo", "--duration", "5m")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 64)); err != nil { // the inner one is alive
		t.Fatal(err)
	}
	for pid, p := range processes(t) {
		if p.parent == cmd.Process.Pid {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 137 {
		t.Fatalf("want status 137, got %v", err)
	}
	if out := stderr.String(); strings.Count(out, "\n") != 1 || !strings.Contains(out, "killed by SIGKILL") {
		t.Errorf("standard error is %q, want one line with what happened", out)
	}
	if after := namedNamespaces(t); !slices.Equal(after, before) {
		t.Errorf("/run/netns holds %v; before it held %v", after, before)
	}
}

// namedNamespaces are the network namespaces that this machine has names for,
// the demo's or another's.
func namedNamespaces(t *testing.T) (names []string) {
	t.Helper()
	list, err := os.ReadDir("/run/netns")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}
