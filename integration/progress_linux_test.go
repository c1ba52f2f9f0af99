package integration

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// shown is what the terminal shows in the end, and how many lines went over its
// margin.
func (tt *terminal) shown(columns, rows int) (string, int) {
	tt.t.Helper()
	s := newScreen(columns, rows)
	if err := s.write(tt.text()); err != nil {
		tt.t.Fatal(err)
	}
	return s.String(), s.wrapped
}

// On a terminal apply, rollback and off show where they are, and leave a line
// for each wave.
func TestLongProgressOnTerminal(t *testing.T) {
	t.Parallel()
	if !mayStrip(t) {
		return
	}
	r := newRow(t, 3)
	before := r.rulesets()
	r.want(2, "plan", "-i", r.fleet, "-o", r.path("plan"))

	tt := onTerminal(t, 80, 24, csig, "apply", r.path("plan"), "--soak", "100ms", "--yes")
	if status := tt.end(); status != 0 {
		t.Fatalf("status %d\n%s", status, tt.text())
	}
	for _, want := range []string{"wave 1 of 6: fence/canary", "[#####...............] 2 of 7 steps", "in progress: s1", "gate: watching the ports"} {
		if !strings.Contains(tt.text(), want) {
			t.Errorf("it never showed %q:\n%q", want, tt.text())
		}
	}
	left, wrapped := tt.shown(80, 24)
	if wrapped > 0 || strings.Contains(left, "in progress") || strings.Contains(left, "wave 6") || strings.Count(left, "gate open") != 6 || !strings.Contains(left, "complete: 7 steps") {
		t.Errorf("%d wrapped lines, and the screen is left with:\n%s", wrapped, left)
	}

	for _, c := range []struct {
		args []string
		left string // as a regular expression
	}{
		{[]string{"rollback", r.path("plan.journal"), "--yes"}, `fence/canary +1 device done\n.*complete: 7 steps\n`},
		{[]string{"off", "-i", r.fleet, "-y"}, `remove +3 devices done\n`},
	} {
		tt := onTerminal(t, 80, 24, csig, c.args...)
		if status := tt.end(); status != 0 {
			t.Fatalf("%v: status %d\n%s", c.args, status, tt.text())
		}
		left, wrapped := tt.shown(80, 24)
		if wrapped > 0 || strings.Contains(left, "in progress") || !regexp.MustCompile(c.left).MatchString(left) {
			t.Errorf("%v: %d wrapped lines, and the screen is left with:\n%s", c.args, wrapped, left)
		}
	}
	r.wantRules(before, "after the rollback")
}

// Ctrl-C lets apply and off finish the device they are at, and prints what a
// second one would do; a window that is made smaller in between does no harm.
func TestLongCtrlCFinishes(t *testing.T) {
	t.Parallel()
	if !mayStrip(t) {
		return
	}
	r := newRow(t, 3)
	before := r.rulesets()
	r.want(2, "plan", "-i", r.fleet, "-o", r.path("plan"))

	// While the gate watches a wave.
	r.want(3, "apply", r.path("plan"), "--soak", "0s", "--stop-after", "fence")
	tt := onTerminal(t, 80, 24, csig, "apply", "--resume", r.path("plan.journal"), "--soak", "1h", "--yes")
	tt.await("the gate", 0, func(out string) bool { return strings.Contains(out, "gate: learning") })
	from := len(tt.text())
	tt.resize(60, 10)
	tt.await("a redraw", from, func(out string) bool {
		return strings.Contains(out, redrawStart+"Fleet file: ") && strings.Contains(out, "gate: learning")
	})
	from = len(tt.text())
	tt.press("\x03")
	if status := tt.end(); status != 3 {
		t.Errorf("status %d, want 3\n%s", status, tt.text())
	}
	printed := strings.Join(strings.Fields(strings.NewReplacer("\r", "", "\x1b[J", "").Replace(tt.text()[from:])), " ")
	for _, want := range []string{"interrupted: the devices in progress are finished.", "Ctrl-C again ends csig at once;", "csig: interrupted: the devices in progress are finished and written down; csig apply --resume"} {
		if !strings.Contains(printed, want) {
			t.Errorf("the output lacks %q:\n%s", want, printed)
		}
	}
	r.want(0, "apply", "--resume", r.path("plan.journal"), "--soak", "0s")
	done := r.rulesets()
	r.want(0, "rollback", r.path("plan.journal"))
	r.wantRules(before, "after the rollback")

	// While devices are in progress: what was begun is done, and the rest can follow.
	// On a busy machine the key may come when all is done; then once more.
	for try := range 10 {
		journal := r.path(fmt.Sprint("hand", try))
		tt = onTerminal(t, 80, 24, csig, "apply", r.path("plan"), "--soak", "0s", "--journal", journal, "--yes")
		tt.await("a device in progress", 0, func(out string) bool { return strings.Contains(out, "in progress: s") })
		tt.press("\x03")
		status := tt.end()
		if status == 0 && strings.Contains(tt.text(), "complete: 7 steps") && try < 9 {
			r.want(0, "rollback", journal)
			continue
		}
		if status != 3 {
			t.Errorf("status %d, want 3\n%s", status, tt.text())
		}
		r.want(0, "apply", "--resume", journal, "--soak", "0s")
		r.wantRules(done, "after an interrupted apply that was resumed")
		break
	}

	tt = onTerminal(t, 80, 24, csig, "off", "-i", r.fleet, "--parallel", "1", "--yes")
	tt.await("a device in progress", 0, func(out string) bool { return strings.Contains(out, "in progress: s") })
	tt.press("\x03")
	if status := tt.end(); status != 3 && !strings.Contains(tt.text(), "remove  3 devices done") {
		t.Errorf("status %d, want 3\n%s", status, tt.text())
	}
	r.want(0, "off", "-i", r.fleet)
	r.wantRules(before, "after an interrupted csig off that was run again")
}
