package qualify

import (
	"context"
	"strings"
	"testing"
)

// TestStreamStopped: what is done during a stream begins once it flows, however soon it
// ends: a change without frames does not end an experiment.
func TestStreamStopped(t *testing.T) {
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
}
