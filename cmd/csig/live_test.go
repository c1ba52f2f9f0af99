package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/plans"
)

// A live block is drawn in its own place, however its terminal's size changes,
// and no line is as long as the terminal is wide.
func TestLive(t *testing.T) {
	var b bytes.Buffer
	columns, rows := 40, 10
	l := &live{w: &b, size: func() (int, int, bool) { return columns, rows, true }}
	next := func(above string, block ...string) string {
		t.Helper()
		b.Reset()
		if err := l.draw(above, block); err != nil {
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

// Many devices side by side tell of themselves, and Ctrl-C is explained in the
// midst of it; elsewhere than on a terminal, as a line.
func TestProgressInterrupted(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		t.Run(fmt.Sprint("terminal ", terminal), func(t *testing.T) {
			var b bytes.Buffer
			s := &progress{w: &b, command: "off", began: time.Now()}
			if terminal {
				s.live = &live{w: &b, size: func() (int, int, bool) { return 80, 24, true }}
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			err := s.during(ctx, func(ctx context.Context) error {
				for _, name := range []string{"s1", "s2", "s3", "s4", "s5", "s6"} {
					s.report(plans.Progress{Event: plans.EventHand, Stage: "remove", Device: name})
				}
				s.report(plans.Progress{Event: plans.EventDone, Stage: "remove", Device: "s2"})
				cancel(errInterrupted)
				<-ctx.Done()
				return context.Cause(ctx)
			})
			if !s.interrupted(ctx, err) || s.err != nil {
				t.Errorf("got %v, %v", err, s.err)
			}
			want := "interrupted: s1, s3, s4, s5 and 1 more in hand: to be finished."
			if text := strings.Join(strings.Fields(b.String()), " "); !strings.Contains(text, want) || !strings.Contains(text, "Ctrl-C again") {
				t.Errorf("it does not say %q:\n%q", want, text)
			}
			s.report(plans.Progress{Event: plans.EventFailed, Stage: "remove", Device: "s1", Err: errors.New("no route")})
			if s.interrupted(ctx, err) {
				t.Error("a failure counts as an interruption")
			}
		})
	}
}
