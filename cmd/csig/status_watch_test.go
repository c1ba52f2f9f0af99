package main

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/agent/api"
)

// TestWatchOfAnAgentThatHangs: its last status is not shown as current.
func TestWatchOfAnAgentThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		wake := make(chan struct{})
		watch := func(ctx context.Context, f func(*api.Status) error) error {
			for range 3 { // on time, each just so
				time.Sleep(silence - time.Millisecond)
				if err := f(sampleStatus()); err != nil {
					return err
				}
			}
			<-wake
			if err := f(sampleStatus()); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		}
		shown, silences := 0, []string{}
		err := watchStatus(ctx, watch, func(s *api.Status, silent time.Duration) error {
			if silent == 0 {
				if shown++; shown == 4 {
					time.AfterFunc(time.Millisecond, cancel)
				}
				return nil
			}
			silences = append(silences, silenceText(s, silent))
			if len(silences) == 3 {
				close(wake)
			}
			return nil
		})
		if !errors.Is(err, context.Canceled) || shown != 4 || len(silences) != 3 {
			t.Fatalf("%v; %d statuses shown, want 4; silences %q, want 3", err, shown, silences)
		}
		for i, want := range []string{"NO ANSWER for 2s", "NO ANSWER for 3s", "NO ANSWER for 4s"} {
			if !strings.Contains(silences[i], want) || !strings.Contains(silences[i], "Its lease has ended") || !strings.Contains(silences[i], "fallen back: conservative") {
				t.Errorf("%q, want %q and that the lease has ended", silences[i], want)
			}
		}
	})
}

func TestSilence(t *testing.T) {
	noLease := []api.Verdict{{What: "lease", Level: "refused"}}
	for _, tc := range []struct {
		name string
		edit func(*api.Status)
		want string
	}{
		{"a lease that ended", func(*api.Status) {}, "Its lease has ended, 1.9s ago"},
		{"a long one", func(s *api.Status) { s.Cycle.LeaseEnds = s.Time.Add(30 * time.Second) }, "Its lease ends in 28s"},
		{"none", func(s *api.Status) { s.Cycle.LeaseEnds = time.Time{} }, "no lease"},
		{"a device's that cannot expire rules", func(s *api.Status) { s.Verdicts = noLease }, "what was written last stays advertised"},
		{"such a one that wrote nothing", func(s *api.Status) { s.Verdicts, s.Cycle.LeaseEnds = noLease, time.Time{} }, "It had written nothing yet"},
		{"a shadow's", func(s *api.Status) { s.Shadow = true }, "nothing is programmed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := sampleStatus()
			tc.edit(s)
			if got := silenceText(s, silence); !strings.Contains(got, tc.want) {
				t.Errorf("%q lacks %q", got, tc.want)
			}
		})
	}
}

// TestStatusOfAnAgentThatNeverAnswers asks a socket that accepts and sends
// nothing, as that of a stopped process does.
func TestStatusOfAnAgentThatNeverAnswers(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c := api.NewClient(socket)
	defer c.Close()
	_, err = ask(t.Context(), c)
	if !errors.Is(err, api.ErrNoAnswer) || !strings.Contains(err.Error(), "kill -CONT") || strings.Contains(err.Error(), "context") {
		t.Errorf("asked once: %v", err)
	}
	err = watchStatus(t.Context(), c.Watch, func(*api.Status, time.Duration) error { return nil })
	if !errors.Is(err, api.ErrNoAnswer) || strings.Contains(err.Error(), "context") {
		t.Errorf("watched: %v", err)
	}
}
