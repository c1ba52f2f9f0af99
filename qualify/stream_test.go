package qualify

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestStreamStopped: what is done during a stream begins once it flows, however soon it
// ends: a change without frames does not end an experiment.
func TestStreamStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := cabled(t)
		e := sends
		e.Run = func(ctx context.Context, tr *Trial) error {
			_, err := tr.streamed(ctx, dense, []int{1}, []uint16{0x0785}, func(context.Context) error { return nil })
			return err
		}
		for range 20 {
			r, err := Run(t.Context(), b, options(t, e))
			if err != nil {
				t.Fatal(err)
			}
			if found := r.Results[0].Found; strings.Contains(found, "bench failed") || strings.Contains(found, "no frame was sent") {
				t.Fatalf("%+v", r.Results)
			}
		}
	})
}

// TestHeldUp: a machine that is held up for longer than patience still asks the path as often
// as patience allows, and no more often.
func TestHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const patience, tries = 5 * resend, 5
		for answers, want := range map[int]bool{1: true, 2: true, tries + 1: false} {
			b, out := cabled(t)
			e := sends
			e.Run = func(ctx context.Context, tr *Trial) error {
				sent := 0
				out.change = func(frame []byte) []byte {
					if sent++; sent == 1 {
						time.Sleep(2 * patience)
					}
					if sent < answers {
						return nil
					}
					return frame
				}
				err := tr.sync(ctx, patience, 0, 1)
				if (err == nil) != want || sent < min(answers, tries) || sent > tries {
					t.Errorf("answered from frame %d on: %d sent, %v", answers, sent, err)
				}
				return err
			}
			if _, err := Run(t.Context(), b, options(t, e)); err != nil {
				t.Fatal(err)
			}
		}
	})
}
