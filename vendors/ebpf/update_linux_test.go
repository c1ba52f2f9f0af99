package ebpf

import (
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// The locator of a wide tag is in the format of wide tags; where that has other fields, the port
// falls back.
func TestWideLocator(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := setupOf(vlanrules.Update)
	fields := func(bits ...int) (f quantize.Locator) {
		for i, b := range bits {
			f.Fields = append(f.Fields, quantize.LocatorField{Name: []string{"switch", "port", "pod"}[i], Bits: b})
		}
		return f
	}
	give := func(wide quantize.Locator) error {
		for sig, sp := range l.profile.Signals {
			sp.Locator, sp.WideLocator = fields(3, 4), wide
			l.profile.Signals[sig] = sp
		}
		l.apply(s)
		_, err := l.d.Update(t.Context(), updates(&s), time.Hour)
		return err
	}
	if err := give(fields(8, 8)); err != nil {
		t.Fatal(err)
	}
	l.sent(7_000_000)
	m := l.modelOf(&s, true, 7_000_000)
	for sig, g := range m.signals {
		g.wideLM = g.lm>>4<<8 | g.lm&15
		m.signals[sig] = g
	}
	if got := l.wants(m); got != asTheDraft {
		t.Error(got)
	}
	if err := give(fields(3, 4, 5)); err == nil || !strings.Contains(err.Error(), "wide_locator: locator field pod has no value") {
		t.Errorf("%v", err)
	}
	if seen := l.look(); seen.Signal != vendors.SignalFallback {
		t.Errorf("%+v", seen)
	}
}

// An interval that is shorter than the longest frame is said to be coarse.
func TestCoarseIntervals(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		gso, rate uint64
		interval  time.Duration
		coarse    bool
	}{
		{65536, 1e9, 524 * time.Microsecond, true},
		{65536, 1e9, 525 * time.Microsecond, false},
		{65536, 100e9, 100 * time.Microsecond, false},
		{524280, 10e9, 100 * time.Microsecond, true},
		{65536, 0, time.Millisecond, false},
	} {
		if got := coarse(tc.gso, tc.rate, tc.interval); (got != "") != tc.coarse {
			t.Errorf("%+v: %q", tc, got)
		}
	}
	l := newLab(t)
	s := setupOf(vlanrules.Update)
	l.apply(s)
	l.update(s, time.Hour)
	for rate, want := range map[uint64]bool{labRate: false, 100e6: true} {
		u := updates(&s)
		u[0].Rate = rate
		if _, err := l.d.Update(t.Context(), u, time.Hour); err != nil {
			t.Fatal(err)
		}
		m, err := l.d.Measurements(t.Context(), nil)
		if err != nil || strings.Contains(m[0].Coarse, "gso_max_size 65536") != want {
			t.Errorf("at %d bit/s: %+v, %v", rate, m, err)
		}
	}
}
