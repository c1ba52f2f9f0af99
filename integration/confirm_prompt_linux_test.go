package integration

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// On a terminal apply, rollback and off show what they change, and go on after a yes alone.
// Whatever else is typed leaves nothing behind, on the devices, on the disk and of the
// terminal's settings.
func TestConfirmation(t *testing.T) {
	t.Parallel()
	if !mayStrip(t) {
		return
	}
	r := newRow(t, 3)
	bare := r.rulesets()
	r.want(2, "plan", "-i", r.fleet, "-o", r.path("plan"))
	files := func() string {
		t.Helper()
		entries, err := os.ReadDir(r.path(""))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return strings.Join(names, " ")
	}
	settings := func(tt *terminal) unix.Termios {
		t.Helper()
		s, err := unix.IoctlGetTermios(int(tt.master.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.SetNonblock(int(tt.master.Fd()), true); err != nil { // Fd makes it block
			t.Fatal(err)
		}
		return *s
	}
	asked := func(args ...string) *terminal {
		t.Helper()
		tt := onTerminal(t, 80, 24, csig, args...)
		tt.await("the question", 0, func(out string) bool { return strings.HasSuffix(out, "Continue? [y/N] ") })
		return tt
	}
	left := files()
	apply := []string{"apply", r.path("plan"), "--soak", "0s"}
	off := []string{"off", "-i", r.fleet}
	for name, no := range map[string]struct {
		args []string
		key  string
		want string
	}{
		"n":             {apply, "n\r", "csig: not confirmed: nothing was changed"},
		"nothing":       {apply, "\r", "not confirmed"},
		"another word":  {apply, "yesterday\r", "not confirmed"},
		"Ctrl-D":        {apply, "\x04", "not confirmed"},
		"Ctrl-C":        {apply, "\x03", "csig: interrupted: nothing was changed"},
		"half, Ctrl-C":  {apply, "ye\x03", "interrupted: nothing was changed"},
		"n to off":      {off, "n\r", "not confirmed"},
		"Ctrl-C to off": {off, "\x03", "interrupted: nothing was changed"},
	} {
		tt := asked(no.args...)
		before := settings(tt)
		tt.press(no.key)
		if status := tt.end(); status != 3 || !strings.Contains(tt.text(), no.want) {
			t.Errorf("%s: status %d, want 3\n%s", name, status, tt.text())
		}
		if after := settings(tt); after != before {
			t.Errorf("%s: the terminal has other settings: %+v, had %+v", name, after, before)
		}
		if got := files(); got != left {
			t.Errorf("%s: files %s, had %s", name, got, left)
		}
	}
	tt := asked(apply...)
	tt.cmd.Process.Signal(syscall.SIGHUP) //nolint:errcheck // it waits for an answer
	if status := tt.end(); status != 3 || files() != left {
		t.Errorf("a lost login: status %d, files %s\n%s", status, files(), tt.text())
	}
	r.wantRules(bare, "after questions that nobody said yes to")

	tt = asked(apply...)
	for _, want := range []string{"csig apply rolls out what was planned at ", "s1 … s3 (3 alike): linux", "+ table csig: tpid=0x9900", "Plan: 12 to add, 0 to change, 0 to remove on 3 devices, 3 asked; no impact", "Order: fence, ready, open, in 7 steps"} {
		if !strings.Contains(tt.text(), want) {
			t.Errorf("the question lacks %q:\n%s", want, tt.text())
		}
	}
	tt.press("y\r")
	if status := tt.end(); status != 0 {
		t.Fatalf("yes: status %d\n%s", status, tt.text())
	}
	done := r.rulesets()

	tt = asked("rollback", r.path("plan.journal"))
	if !strings.Contains(tt.text(), "csig rollback gives 3 devices back what they had before the plan: s1 … s3") {
		t.Errorf("the question:\n%s", tt.text())
	}
	tt.press("n\r")
	if status := tt.end(); status != 3 {
		t.Errorf("no: status %d\n%s", status, tt.text())
	}
	r.wantRules(done, "after a rollback that was not confirmed")
	tt = asked("rollback", r.path("plan.journal"))
	tt.press("YES\r")
	if status := tt.end(); status != 0 {
		t.Errorf("yes: status %d\n%s", status, tt.text())
	}
	r.wantRules(bare, "after a rollback that was confirmed")

	tt = onTerminal(t, 80, 24, csig, append(off, "--yes")...)
	if status := tt.end(); status != 0 || strings.Contains(tt.text(), "Continue?") {
		t.Errorf("--yes: status %d\n%s", status, tt.text())
	}
}
