package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/cmd/process"
)

// TestSimulateEndsEarly: what there is until a signal is printed, and what has ended it is said in a word.
func TestSimulateEndsEarly(t *testing.T) {
	t.Parallel()
	scenario := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(scenario, []byte("format: csig.scenario/v1\ntopology: {star: {hosts: 3, rate: 100G, delay: 1us}}\nflows: [{from: 0-1, to: 2, size: 1000G}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		cause      error
		arg        string
		said, want string
	}{
		{process.ErrInterrupted, "--json", `"partial": true`, "simulate: ended before all flows had: interrupted"},
		{nil, "--memory=1G", "Partial: ", "simulate: ended before all flows had: terminated"},
		{nil, "--seeds=2", "Partial: of 2 seeds 0 were run to their end", "simulate: ended before all flows had: terminated"},
	} {
		ctx, end := context.WithCancelCause(t.Context())
		end(x.cause)
		cmd := newSimulate()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SetArgs([]string{scenario, x.arg})
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.ExecuteContext(ctx); err == nil || err.Error() != x.want || !strings.Contains(out.String(), x.said) {
			t.Errorf("%s: %v, want %s\n%s", x.arg, err, x.want, out.String())
		}
	}
}

// TestSimulateWithoutDifference: where the control makes none the command fails, and what was simulated is printed.
func TestSimulateWithoutDifference(t *testing.T) {
	t.Parallel()
	scenario := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(scenario, []byte("format: csig.scenario/v1\ntopology: {star: {hosts: 3, rate: 100G, delay: 1us}}\nflows: [{from: 0, to: 2, size: 1k}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := newSimulate()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs([]string{scenario, "--check-control"})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "--check-control: hpcc makes no difference") || !strings.Contains(out.String(), "1 of 1 flows ended") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestSimulateProgress: a terminal has one line, which says how far it is and goes when it has ended; elsewhere there is none.
func TestSimulateProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, none bytes.Buffer
		live := newScreen(&out)
		live.size = func() (int, int, bool) { return 80, 24, true }
		progress, end := simulated(live, func() string { return "  3ms simulated" })
		progress(1, 15)
		if out.Len() > 0 {
			t.Errorf("at once: %q", out.String())
		}
		time.Sleep(time.Second)
		progress(2, 15)
		progress(3, 15)
		if out.String() != "2 of 15 flows ended  3ms simulated  1s\n" {
			t.Errorf("%q", out.String())
		}
		out.Reset()
		if end(); out.String() != "\r\x1b[1A\x1b[J" {
			t.Errorf("at its end: %q", out.String())
		}
		progress, end = simulated(newScreen(&none), func() string { return "" })
		time.Sleep(time.Second)
		progress(1, 15)
		if end(); none.Len() > 0 {
			t.Errorf("where there is no terminal: %q", none.String())
		}
	})
}
