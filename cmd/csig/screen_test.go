package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/cmd/process"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/plans/rollout"
	"github.com/csig-agent/csig/vendors"
)

// A live block is drawn in its own place, however its terminal's size changes,
// and no line is as long as the terminal is wide.
func TestLive(t *testing.T) {
	var b bytes.Buffer
	columns, rows := 40, 10
	l := &screen{w: &b, size: func() (int, int, bool) { return columns, rows, true }}
	next := func(above string, block ...string) string {
		t.Helper()
		b.Reset()
		if err := l.redraw(above, block); err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(b.String(), "\n") {
			if _, text, ok := strings.Cut(line, "\x1b[J"); ok {
				line = text
			}
			if n := len([]rune(line)); n >= columns {
				t.Errorf("a line of %d columns: %q", n, line)
			}
		}
		return b.String()
	}
	for _, c := range []struct {
		what, got, want string
	}{
		{"first", next("", "one", "two"), "one\ntwo\n"},
		{"a line that stays", next("    1.0s  done", "one", "two"), "\r\x1b[2A\x1b[J    1.0s  done\none\ntwo\n"},
		{"a shorter block", next("", "one"), "\r\x1b[2A\x1b[Jone\n"},
		{"long lines", next(strings.TrimSpace(strings.Repeat("word ", 10)), strings.Repeat("x", 50)), "\r\x1b[1A\x1b[Jword word word word word word word word\n          word word\n" + strings.Repeat("x", 38) + "…\n"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", c.what, c.got, c.want)
		}
	}
	columns, rows = 30, 4
	if got, want := next("", "one", "two"), "\x1b[H\x1b[J          word word\none\ntwo\n"; got != want {
		t.Errorf("made smaller: %q, want %q", got, want)
	}
	rows = 2
	if got, want := next("three", "one", "two"), "\x1b[H\x1b[Jthree\none\n"; got != want {
		t.Errorf("two rows: %q, want %q", got, want)
	}
}

// Many devices side by side are shown, and Ctrl-C is explained in the
// midst of it; elsewhere than on a terminal, as a line.
func TestProgressInterrupted(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		t.Run(fmt.Sprint("terminal ", terminal), func(t *testing.T) {
			var b bytes.Buffer
			s := &progress{w: &b, command: "off", began: time.Now()}
			if terminal {
				s.live = &screen{w: &b, size: func() (int, int, bool) { return 80, 24, true }}
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			err := s.during(ctx, func(ctx context.Context) error {
				for _, name := range []string{"s1", "s2", "s3", "s4", "s5", "s6"} {
					s.report(rollout.Progress{Event: rollout.EventHand, Stage: "remove", Device: name})
				}
				s.report(rollout.Progress{Event: rollout.EventDone, Stage: "remove", Device: "s2"})
				cancel(process.ErrInterrupted)
				<-ctx.Done()
				return context.Cause(ctx)
			})
			if !s.interrupted(ctx, err) || s.err != nil {
				t.Errorf("got %v, %v", err, s.err)
			}
			want := "interrupted: s1, s3, s4, s5 and 1 more in progress: to be finished."
			if text := strings.Join(strings.Fields(b.String()), " "); !strings.Contains(text, want) || !strings.Contains(text, "Ctrl-C again") {
				t.Errorf("the output lacks %q:\n%q", want, text)
			}
			s.report(rollout.Progress{Event: rollout.EventFailed, Stage: "remove", Device: "s1", Err: errors.New("no route")})
			if s.interrupted(ctx, err) {
				t.Error("a failure counts as an interruption")
			}
		})
	}
}

// A device that fails alike in each stage of csig off is one line, and what its agent
// refuses before the removal no failure.
func TestProgressOfFailures(t *testing.T) {
	var b bytes.Buffer
	s := &progress{w: &b, command: "off", began: time.Now()}
	refusal := fmt.Errorf("device s2: %w", &vendors.PermanentError{Err: errors.New("a file of its user")})
	for _, stage := range []string{plans.StageFence, rollout.StageClear, rollout.StageRemove} {
		s.report(rollout.Progress{Event: rollout.EventFailed, Stage: stage, Device: "s2", Err: refusal})
		if s.failed != (stage == rollout.StageRemove) {
			t.Errorf("%s: failed: %v", stage, s.failed)
		}
		s.report(rollout.Progress{Event: rollout.EventFailed, Stage: stage, Device: "s1", Err: errors.New("device s1: no route")})
		s.failed = false
	}
	text := regexp.MustCompile(` +[\d.]+s  `).ReplaceAllString(b.String(), "")
	const want = "fence  refused, all is removed instead: device s2: a file of its user\nfence  FAILED: device s1: no route\nremove  FAILED: device s2: a file of its user\n"
	if text != want {
		t.Errorf("%s\nwant\n%s", text, want)
	}
}

// In a narrow terminal the numbers stay and the bar goes; what was printed first is
// there again when the terminal's size has changed.
func TestProgressInANarrowTerminal(t *testing.T) {
	var b bytes.Buffer
	columns := 100
	s := &progress{w: &b, command: "rollback", began: time.Now(), total: 30, done: 12, stage: "ready/a-wave-with-a-long-name"}
	s.live = &screen{w: &b, size: func() (int, int, bool) { return columns, 24, true }}
	s.print("Journal: lab.plan.journal")
	s.draw("")
	if text := b.String(); !strings.Contains(text, "ready/a-wave-with-a-long-name  [########............] 12 of 30 steps  0s\n") {
		t.Errorf("wide: %q", text)
	}
	for columns, want := range map[int]string{
		60: "Journal: lab.plan.journal\nready/a-wave-with-a-long-name  12 of 30 steps  0s\n",
		40: "Journal: lab.plan.journal\nready/a-wave-with-…  12 of 30 steps  0s\n",
		20: "Journal: lab.plan.…\n…  12 of 30 steps …\n",
	} {
		s.live.size = func() (int, int, bool) { return columns, 24, true }
		b.Reset()
		s.draw("")
		if text := b.String(); !strings.Contains(text, want) {
			t.Errorf("%d columns: %q, want %q", columns, text, want)
		}
	}
	for name, asJSON := range map[string]bool{"Journal: lab.plan.journal\n": false, "": true} {
		b.Reset()
		if (&progress{w: &b, json: asJSON}).print("Journal: lab.plan.journal"); b.String() != name {
			t.Errorf("without a terminal: %q, want %q", b.String(), name)
		}
	}
}

// A remark is broken between words on a terminal, and nowhere else.
func TestRemark(t *testing.T) {
	var b bytes.Buffer
	s := &screen{w: &b, size: func() (int, int, bool) { return 0, 0, false }}
	s.remark("%s: the devices in progress are finished", "interrupted")
	s.size = func() (int, int, bool) { return 30, 24, true }
	s.remark("%s: the devices in progress are finished", "interrupted")
	if want := "csig: interrupted: the devices in progress are finished\ncsig: interrupted: the\n  devices in progress are\n  finished\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

// To go on after Ctrl-C nothing has to be repaired.
func TestNextSteps(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	j, err := rollout.CreateJournal("p.journal", "test", &plans.Plan{Format: plans.Format})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for _, tc := range []struct{ command, when, want string }{
		{"apply", "", "csig apply --resume p.journal continues; csig rollback p.journal undoes it"},
		{"apply", " once that is repaired", "csig apply --resume p.journal continues once that is repaired; csig rollback p.journal undoes it"},
		{"rollback", "", "csig rollback p.journal continues"},
		{"rollback", " once that is repaired", "csig rollback p.journal continues once that is repaired"},
	} {
		if got := nextSteps(j, tc.command, tc.when); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}
