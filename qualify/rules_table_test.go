package qualify_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/qualify"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/vendorstest/memory"
)

// filled is a driver of a switch that promises entries, and is busy or not from some on.
type filled struct {
	*memory.Driver
	promises int
	busyAt   int // 0: never
	asked    int // how many were to be added
}

func (d *filled) Probe(ctx context.Context) (vendors.Facts, error) {
	f, err := d.Driver.Probe(ctx)
	f.Rules.Entries = d.promises
	return f, err
}

func (d *filled) Fill(ctx context.Context, most int) (entries int, full bool, err error) {
	if d.asked = most; d.busyAt == 0 {
		return d.Driver.Fill(ctx, most)
	}
	if entries, full, err = d.Driver.Fill(ctx, d.busyAt); err == nil {
		err = &vendors.BusyError{Took: 6 * time.Second}
	}
	return entries, full, err
}

// TestEntriesAreBounded: a table in the memory of a CPU is not filled, and one of a switch that
// gets slow only until then.
func TestEntriesAreBounded(t *testing.T) {
	for _, tc := range []struct {
		name             string
		promises, busyAt int
		outcome          qualify.Outcome
		found            string
		asked            int
		entries          float64
	}{
		{"the memory of a CPU", 1_000_000, 0, qualify.NotTested, "the table has no limit that can be reached: its driver names 1000000 entries", 0, 0},
		{"slow", 1000, 100, qualify.Pass, "100 entries fit; no more were tried, as the device takes 6s to answer", 1000, 100},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := labBench(t, memory.Faults{}, 2)
				own, ok := b.Driver.(*memory.Driver)
				if !ok {
					t.Fatalf("%T", b.Driver)
				}
				d := &filled{Driver: own, promises: tc.promises, busyAt: tc.busyAt}
				b.Driver = d
				res := run(t, b, qualify.Options{Experiments: only("entries"), Destructive: true}).Result("entries")
				if n, _ := res.Number("entries"); res.Outcome != tc.outcome || !strings.HasPrefix(res.Found, tc.found) || n != tc.entries || d.asked != tc.asked {
					t.Errorf("%s: %s %v; %d asked", res.Outcome, res.Found, res.Numbers, d.asked)
				}
			})
		})
	}
}
