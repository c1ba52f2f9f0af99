package linux

import (
	"context"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// stopped is the context of a call whose process is stopped at its begin, for so long.
type stopped struct {
	context.Context
	time.Duration
}

func (s stopped) Err() error {
	time.Sleep(s.Duration)
	return nil
}

// TestStoppedInUpdateRenewsNothing: what Update was told holds for the lease
// from when it was told; one that was stopped for longer must not send it.
func TestStoppedInUpdateRenewsNothing(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	d := openDriver(t, w.netns)
	apply(t, d, setupFor(updatePort))
	fell := w.value(initial)
	if res, err := d.Update(stopped{t.Context(), 2 * minLease}, []vendors.PortUpdate{one(9, 4)}, minLease); err == nil || res.Leased {
		t.Errorf("stopped for longer than the lease: %+v, %v; want an error", res, err)
	}
	if got := w.value(initial); got != fell {
		t.Errorf("0x%04x leaves, want 0x%04x as before", got, fell)
	}
	if res := update(t, d, time.Minute, one(9, 4)); !res.Leased {
		t.Errorf("afterwards: %+v", res)
	}
	if got := w.value(initial); got != 9<<7|4 {
		t.Errorf("0x%04x leaves afterwards", got)
	}
}
