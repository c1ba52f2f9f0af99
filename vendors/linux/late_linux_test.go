package linux

import (
	"context"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// TestStoppedInUpdateRenewsNothing: what Update was told holds for the lease
// from when it was told; one that was stopped for longer must not send it.
func TestStoppedInUpdateRenewsNothing(t *testing.T) {
	w := newWire(t)
	now, step := time.Now(), time.Duration(0)
	d, err := Open(Config{NetNS: w.fd, Now: func() time.Time {
		now = now.Add(step)
		return now
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	apply(t, d, setupFor(updatePort))
	fell := w.value(initial)
	step = 2 * time.Second // between any two looks at the clock
	if res, err := d.Update(context.Background(), []vendors.PortUpdate{one(9, 4)}, time.Second); err == nil || res.Leased {
		t.Errorf("stopped for longer than the lease: %+v, %v; want an error", res, err)
	}
	if got := w.value(initial); got != fell {
		t.Errorf("0x%04x leaves, want 0x%04x as before", got, fell)
	}
	step = 0
	if res := update(t, d, time.Minute, one(9, 4)); !res.Leased {
		t.Errorf("afterwards: %+v", res)
	}
	if got := w.value(initial); got != 9<<7|4 {
		t.Errorf("0x%04x leaves afterwards", got)
	}
}
