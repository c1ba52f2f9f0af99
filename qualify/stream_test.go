package qualify

import (
	"context"
	"strings"
	"testing"
)

// TestStreamStopped: what is done during a stream may end before its first frame.
func TestStreamStopped(t *testing.T) {
	b, _ := cabled(t)
	e := sends
	e.Run = func(ctx context.Context, tr *Trial) error {
		_, err := tr.streamed(ctx, dense, []uint16{0x0785}, func(context.Context) error { return nil })
		return err
	}
	for range 20 {
		r, err := Run(t.Context(), b, options(t, e))
		if err != nil || strings.Contains(r.Results[0].Found, "bench failed") {
			t.Fatalf("%v, %+v", err, r.Results)
		}
	}
}
