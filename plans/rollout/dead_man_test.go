package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// withDeadMan is a device whose agent has a dead-man to prove.
type withDeadMan struct {
	Target
	proof func() (time.Duration, error)
}

func (d *withDeadMan) DeadManProof(context.Context) (time.Duration, error) { return d.proof() }

// TestWaitsForDeadMan: a wave is done when the dead-mans of its devices have fired, and not
// where one never does; a run that was interrupted waits again.
func TestWaitsForDeadMan(t *testing.T) {
	const after = 40 * time.Second
	for name, tc := range map[string]struct {
		fires time.Duration // after the device was set up
		fails error         // instead
		stop  bool          // the run is interrupted meanwhile, and continued
		want  string
	}{
		"it fires":                         {fires: after},
		"it never fires":                   {fires: 24 * time.Hour, want: "after wave fence/all: device s1: its dead-man: within 2m40s it has not fired yet: the device has ended the session"},
		"its agent says that it is broken": {fails: errors.New("repair it"), want: "s1: its dead-man: repair it"},
		"interrupted":                      {fires: after, stop: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, f := threeStages(t)
				began := time.Now()
				var said []Progress
				r := &Run{Journal: begin(t, p), Open: func(ctx context.Context, device string) (Target, error) {
					target, err := f.open(ctx, device)
					if device == "s1" {
						target = &withDeadMan{target, func() (time.Duration, error) {
							switch {
							case tc.fails != nil:
								return 0, tc.fails
							case time.Since(began) < tc.fires/2:
								return after, fmt.Errorf("%w: the device has ended the session", vendors.ErrNotProved)
							case time.Since(began) < tc.fires:
								return after, vendors.ErrNotProved
							}
							return after, nil
						}}
					}
					return target, err
				}, Report: func(p Progress) { said = append(said, p) }}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if tc.stop {
					time.AfterFunc(after/2, func() { cancel(errors.New("interrupted")) })
				}
				err := r.Apply(ctx)
				if tc.stop {
					if err == nil || err.Error() != "interrupted" && !strings.Contains(err.Error(), "interrupted") || time.Since(began) >= after {
						t.Fatalf("interrupted: %v", err)
					}
					f.log = nil
					err = (&Run{Journal: r.Journal, Open: r.Open, Report: r.Report}).Apply(t.Context())
				}
				if tc.want != "" {
					if err == nil || !strings.Contains(err.Error(), tc.want) {
						t.Errorf("%v, want %q", err, tc.want)
					}
					if slices.Contains(f.log, "s2 apply") {
						t.Error("the next stage was begun")
					}
					return
				}
				if took := time.Since(began); err != nil || took < after || took > after+2*proofPoll {
					t.Errorf("%v after %v", err, took)
				}
				waits := 0 // once for each reason
				for _, p := range said {
					if p.Event == EventProve && errors.Is(p.Err, vendors.ErrNotProved) {
						waits++
					}
				}
				if waits != 2 && !tc.stop {
					t.Errorf("progress says %d times what it waits for", waits)
				}
				if !slices.ContainsFunc(said, func(p Progress) bool { return p.Event == EventProved && p.Device == "s1" && p.Within == after }) {
					t.Error("progress does not say what it waits for")
				}
			})
		})
	}
}
