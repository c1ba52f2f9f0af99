package openflow

import (
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestOneFrame applies a setup, updates, and looks at single frames.
func TestOneFrame(t *testing.T) {
	bubble(t, func(t *testing.T) { oneFrame(t, newLab(t, 3, oftest.Faults{})) })
}

func oneFrame(t *testing.T, l *lab) {
	setup := setupFor(ports(vlanrules.Update, "p2")...)
	l.apply(t, setup)
	const best, worst = 31<<7 | 126, 0<<7 | 125
	if got := l.leaves(t, 2, best); got != worst {
		t.Errorf("without a lease %04x", got)
	}
	l.update(t, time.Minute, given("p2", intent(quantize.MinABW, 7, 5), intent(quantize.MaxPD, 9, 6)))
	l.Settled()
	for _, tc := range []struct{ in, want int }{
		{best, 7<<7 | 5}, {6<<7 | 9, 6<<7 | 9}, {7<<7 | 9, 7<<7 | 9}, {8<<7 | 9, 7<<7 | 5},
		{2<<13 | 126, 2<<13 | 9<<7 | 6}, {2<<13 | 10<<7, 2<<13 | 10<<7}, {1<<13 | best, 1<<13 | best}, {noTag, noTag},
	} {
		if got := l.leaves(t, 2, tc.in); got != tc.want {
			t.Errorf("%04x leaves as %04x, want %04x", tc.in, got, tc.want)
		}
		if got := l.leaves(t, 3, tc.in); got != tc.in {
			t.Errorf("a port in no setup: %04x leaves as %04x", tc.in, got)
		}
	}
	got, err := l.driver.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if changes, err := l.driver.Diff(got, setup); err != nil || len(changes) != 0 {
		t.Errorf("%+v: %+v, %v", got, changes, err)
	}
	if err := l.driver.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.Settled()
	if got := l.leaves(t, 2, best); got != best {
		t.Errorf("without csig %04x", got)
	}
	if got, err := l.driver.Observe(t.Context()); err != nil || !got.Nothing() {
		t.Errorf("%+v, %v", got, err)
	}
}
