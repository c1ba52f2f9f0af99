package counters

import (
	"strings"
	"testing"
	"time"
)

// Octets, packets, time and the link's speed have to fit together: where they do not
// there is no estimate, or one that says how far it may be off.
func TestCountersThatDoNotFit(t *testing.T) {
	const mbit = 1_000_000
	within := func(d time.Duration) func(*Sample) { return func(s *Sample) { s.Within = d } }
	step := func(d time.Duration) func(*Sample) {
		return func(s *Sample) { s.StepError, s.AtError = d, d }
	}
	type row struct {
		state    State
		low, top uint64 // of the load; top 0 is exactly low
		reason   string
	}
	first := row{state: First}
	exact := func(load uint64) row { return row{OK, load, load, ""} }
	still := row{state: Error, reason: "octet counter stands still"}
	jumped := row{state: Discontinuity, reason: "jumped further than the link can carry"}
	for _, tt := range []struct {
		name    string
		cfg     EstimatorConfig
		samples []Sample
		want    []row
	}{
		{
			"octets stand still while packets move", EstimatorConfig{},
			[]Sample{at(0, 0, 0), at(1000, 0, 10_000), at(2000, 0, 20_000), at(3000, 12_260_000, 30_000), at(4000, 24_520_000, 40_000)},
			[]row{first, still, still, {state: Discontinuity, reason: "counted again"}, exact(100 * mbit)},
		},
		{
			"they do not become right by an idle second", EstimatorConfig{},
			[]Sample{at(0, 0, 0), at(1000, 0, 10_000), at(2000, 0, 10_000), at(3000, 500, 10_001), at(4000, 1000, 10_002)},
			[]row{first, still, still, {state: Discontinuity, reason: "counted again"}, exact(8 * 524)},
		},
		{
			"few packets show it too, in time", EstimatorConfig{},
			[]Sample{at(0, 0, 0), at(1000, 0, 10), at(2000, 0, 20), at(3000, 0, 30)},
			[]row{first, {OK, 8 * 240, 8 * 240, ""}, still, still},
		},
		{
			"two columns read one after the other", EstimatorConfig{Interval: 2 * time.Second},
			[]Sample{at(0, 0, 0), at(1000, 0, 10), at(2000, 20_000, 20)},
			[]row{first, {OK, 8 * 240, 8 * 240, ""}, exact((8*20_480 + 1) / 2)},
		},
		{
			"another link has another counter", EstimatorConfig{},
			[]Sample{at(0, 0, 0), at(1000, 0, 10_000), at(2000, 0, 10_000, restarted(2)), at(3000, 0, 10_000, restarted(2))},
			[]row{first, still, {state: Discontinuity, reason: "restarted"}, exact(0)},
		},
		{
			"packets stand still while octets move", EstimatorConfig{},
			[]Sample{at(0, 0, 5), at(1000, 6_400_000, 5)},
			[]row{first, {OK, 51_200_000, 8 * (6_400_000 + 24*100_001), "hardly any packets"}},
		},
		{
			"a packet of every 512 KiB is not all of them", EstimatorConfig{},
			[]Sample{at(0, 0, 0), at(1000, 64_000_000, 3)},
			[]row{first, {OK, 8 * (64_000_000 + 72), 8 * (64_000_000 + 72 + 24*1_000_001), "hardly any packets"}},
		},
		{
			"a jump that no such link carries", EstimatorConfig{},
			[]Sample{at(0, 0, 0), at(1000, 300_000_000, 300_000), at(2000, 312_260_000, 310_000)},
			[]row{first, jumped, exact(100 * mbit)},
		},
		{
			"a jump of the packets", EstimatorConfig{},
			[]Sample{at(0, 0, 0), at(1000, 250_000_000, 30_000_000), at(2000, 262_260_000, 30_010_000)},
			[]row{first, jumped, exact(100 * mbit)},
		},
		{
			"the link is faster than what is configured of it", EstimatorConfig{Speed: 100 * mbit},
			[]Sample{at(0, 0, 0), at(1000, 110_000_000, 100_000)},
			[]row{first, exact(8 * (110_000_000 + 2_400_000))},
		},
		{
			"no jump if the time is as uncertain", EstimatorConfig{},
			[]Sample{at(0, 0, 0), at(1000, 375_000_000, 300_000, step(3*time.Second))},
			[]row{first, {OK, 764_400_000, 1<<64 - 1, ""}},
		},
		{
			"nor if the answers are", EstimatorConfig{},
			[]Sample{at(0, 0, 0, within(time.Second)), at(1000, 375_000_000, 300_000, within(time.Second))},
			[]row{first, {OK, 1_019_200_000, 1<<64 - 1, ""}},
		},
		{
			"both of them count", EstimatorConfig{},
			[]Sample{at(0, 0, 0, within(time.Second)), at(1000, 700_000_000, 700_000, within(time.Second))},
			[]row{first, {OK, 0, 1<<64 - 1, "more is counted than the link can carry"}},
		},
		{
			"another overhead is another counter", EstimatorConfig{},
			[]Sample{at(0, 0, 0), at(1000, 1000, 1, func(s *Sample) { s.Overhead = 20 })},
			[]row{first, {state: Discontinuity, reason: "kind"}},
		},
		{
			"64-bit packets beside 32-bit octets do not wrap at 32", EstimatorConfig{},
			[]Sample{at(0, 1000, 5<<32, narrow), at(1000, 2000, 100, narrow)},
			[]row{first, {state: Discontinuity, reason: "reset"}},
		},
		{
			"more than the link carries, by less", EstimatorConfig{},
			[]Sample{at(0, 0, 0), at(1000, 187_500_000, 200_000)},
			[]row{first, {OK, 0, 8 * (187_500_000 + 4_800_000), "more is counted than the link can carry"}},
		},
		{
			"a burst", EstimatorConfig{},
			[]Sample{at(0, 0, 0), at(1000, 150_000_000, 200_000)},
			[]row{first, exact(8 * (150_000_000 + 4_800_000))},
		},
		{
			"32 bits that may have wrapped in the time that is not known", EstimatorConfig{},
			[]Sample{at(0, 0, 0, narrow), at(10_000, 1e6, 1000, narrow, step(30*time.Second))},
			[]row{first, {state: Error, reason: "wrap more than once"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := NewEstimator(tt.cfg)
			for i, s := range tt.samples {
				got, want := e.Update(s), tt.want[i]
				low, high := got.LoadRange()
				if got.State != want.state || !strings.Contains(got.Reason, want.reason) || got.State == OK && (got.Reason == "") != (want.reason == "") {
					t.Fatalf("sample %d: %v, %q", i, got.State, got.Reason)
				}
				if got.State == OK && (low != want.low || high != want.top) {
					t.Errorf("sample %d: load in [%d, %d], want [%d, %d]", i, low, high, want.low, want.top)
				}
			}
		})
	}
}

// However long octets stood still, one whole frame shows that they count again.
func TestOctetsThatStoodStillForLong(t *testing.T) {
	e := NewEstimator(EstimatorConfig{})
	e.Update(at(0, 0, 0))
	for n := 1; n < 100; n++ {
		if got := e.Update(at(1000*n, 0, uint64(1000*n))); got.State != Error {
			t.Fatalf("reading %d: %v", n, got.State)
		}
	}
	if got := e.Update(at(100_000, 1000, 99_001)); got.State != Discontinuity {
		t.Errorf("%v (%s)", got.State, got.Reason)
	}
	if got := e.Update(at(101_000, 2000, 99_002)); got.State != OK || got.Bits != 8*1024 {
		t.Errorf("%v (%s), %d bits", got.State, got.Reason, got.Bits)
	}
}

// A device's clock that runs wrong by an eighth, and a quarter of a second, is believed.
func TestClockThatRunsWrong(t *testing.T) {
	for rate, want := range map[int]State{
		10_000: OK, 11_000: OK, 9_000: OK, 12_000: Discontinuity, 8_000: Discontinuity,
		11_500: OK, 8_500: OK, 11_501: Discontinuity, 8_499: Discontinuity,
	} {
		e := NewEstimator(EstimatorConfig{})
		local := func(sec int) func(*Sample) {
			return func(s *Sample) { s.Local = epoch0.Add(time.Duration(sec) * time.Second) }
		}
		e.Update(at(0, 0, 0, local(0)))
		if got := e.Update(at(rate, 1000, 1, local(10))); got.State != want {
			t.Errorf("10 s pass as %d ms: %v (%s)", rate, got.State, got.Reason)
		}
	}
}

// The check is behind the Refresh as well: what it takes for half a refresh at first is
// an error in the end.
func TestOctetsStandStillOnACachedSource(t *testing.T) {
	for name, shown := range map[string]func(float64) float64{"live": onRead, "cached": onTimer(3, 0.4)} {
		b := &box{frames: []func(float64) uint64{steady(1000), steady(1000)}, shown: shown}
		r, est, errs := NewRefresh(RefreshConfig{}), NewEstimator(EstimatorConfig{}), 0
		var was uint64
		for i, sec := range every(1, 200) {
			s := b.read(sec, nil)
			if i < 60 {
				was = s[0].Octets
			}
			s[0].Octets = was
			r.Observe(s)
			switch e := est.Update(s[0]); {
			case e.State == OK && i > 60 && e.Load() < 8_000_000:
				t.Errorf("%s: at %v s load %d, of octets that stand still", name, sec, e.Load())
			case e.State == Error:
				errs++
			}
		}
		if errs < 30 {
			t.Errorf("%s: %d errors", name, errs)
		}
	}
}

// Bits are those of octets and of each packet's overhead, or too many for 64 bits.
func TestWireBits(t *testing.T) {
	for _, tt := range []struct {
		octets, packets uint64
		overhead        uint8
		want            uint64
		fits            bool
	}{
		{1000, 2, 24, 8 * 1048, true},
		{1<<61 - 1, 0, 24, 8 * (1<<61 - 1), true},
		{1 << 61, 0, 24, 0, false},
		{0, 1 << 60, 16, 0, false},                 // overhead of more than 64 bits
		{1<<64 - 1, 1, 1, 0, false},                // the sum is 2^64
		{1<<64 - 16, 1<<60 + 1, 16, 0, false},      // both
		{1<<61 - 17, 1, 16, 8 * (1<<61 - 1), true}, // the most
	} {
		if got, fits := wireBits(tt.octets, tt.packets, tt.overhead); got != tt.want || fits != tt.fits {
			t.Errorf("%d octets, %d packets of %d more: %d, %v; want %d, %v", tt.octets, tt.packets, tt.overhead, got, fits, tt.want, tt.fits)
		}
	}
}
