package counters

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/csig-agent/csig/quantize"
)

func tens(t testing.TB, sig quantize.Signal) *quantize.Buckets {
	t.Helper()
	bounds := make([]uint64, quantize.NumBuckets+1)
	for i := range bounds {
		bounds[i] = uint64(10 * i)
	}
	b, err := quantize.NewBuckets(sig, bounds)
	if err != nil {
		t.Fatal(err)
	}
	return &b
}

func TestDamper(t *testing.T) {
	for _, tt := range []struct {
		name   string
		sig    quantize.Signal
		cfg    Damping
		values []uint64
		want   []uint8
	}{
		{"raw", quantize.MinABW, Damping{}, []uint64{95, 15, 95, 16}, []uint8{9, 1, 9, 1}},
		{"hold of one is raw", quantize.MinABW, Damping{Hold: 1}, []uint64{95, 15, 95}, []uint8{9, 1, 9}},
		{"worse at once, better after three", quantize.MinABW, Damping{Hold: 3}, []uint64{95, 15, 95, 95, 95, 5}, []uint8{9, 1, 1, 1, 9, 0}},
		{"the worst of the better ones", quantize.MinABW, Damping{Hold: 3}, []uint64{15, 95, 35, 95, 95}, []uint8{1, 1, 1, 3, 3}},
		{"the count starts again", quantize.MinABW, Damping{Hold: 3}, []uint64{15, 95, 95, 15, 95, 95, 95}, []uint8{1, 1, 1, 1, 1, 1, 9}},
		{"margin", quantize.MinABW, Damping{Margin: 300}, []uint64{15, 20, 22, 23, 20, 19}, []uint8{1, 1, 1, 2, 2, 1}},
		{"margin of a far bucket gives the one below", quantize.MinABW, Damping{Margin: 300}, []uint64{15, 91}, []uint8{1, 8}},
		{"whole bucket", quantize.MinABW, Damping{Margin: 1000}, []uint64{15, 29, 30}, []uint8{1, 1, 2}},
		{"hold and margin", quantize.MinABW, Damping{Hold: 2, Margin: 300}, []uint64{15, 23, 22, 23, 24}, []uint8{1, 1, 1, 1, 2}},
		{"max: smaller is better", quantize.MaxPD, Damping{Hold: 2, Margin: 300}, []uint64{35, 45, 38, 38, 37, 36, 36}, []uint8{3, 4, 4, 4, 4, 3, 3}},
		{"max: margin from above", quantize.MaxPD, Damping{Margin: 300}, []uint64{45, 38, 37}, []uint8{4, 4, 3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, table := NewDamper(tt.cfg), tens(t, tt.sig)
			var got []uint8
			for _, v := range tt.values {
				got = append(got, d.Bucket(table, v))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

func TestDampingRefuses(t *testing.T) {
	for _, d := range []Damping{{Hold: -1}, {Margin: 1001}} {
		if d.Validate() == nil {
			t.Errorf("%+v is fine", d)
		}
	}
	if err := (Damping{Hold: 10, Margin: 1000}).Validate(); err != nil {
		t.Error(err)
	}
}

// What is advertised is never better than the value, and gets there.
func TestDamperNeverPromisesTooMuch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sig := rapid.SampledFrom([]quantize.Signal{quantize.MinABW, quantize.MaxPD}).Draw(t, "signal")
		bounds := make([]uint64, quantize.NumBuckets+1)
		for i := range bounds {
			bounds[i] = uint64(10 * i)
		}
		table, err := quantize.NewBuckets(sig, bounds)
		if err != nil {
			t.Fatal(err)
		}
		cfg := Damping{Hold: rapid.IntRange(0, 4).Draw(t, "hold"), Margin: rapid.Uint32Range(0, 1000).Draw(t, "margin")}
		d := NewDamper(cfg)
		var last uint8
		for range 30 {
			v := rapid.Uint64Range(0, 330).Draw(t, "v")
			if last = d.Bucket(&table, v); sig.Worse(table.Bucket(v), last) {
				t.Fatalf("%d is bucket %d, advertised %d", v, table.Bucket(v), last)
			}
		}
		for range max(cfg.Hold, 1) {
			last = d.Bucket(&table, 160)
		}
		b := table.Bucket(160)
		if off := int(b) - int(last); off < -1 || off > 1 || cfg.Margin == 0 && off != 0 && cfg.Hold <= 1 {
			if sig.Worse(last, b) {
				// The hold may have been started by something worse: once more.
				for range cfg.Hold {
					last = d.Bucket(&table, 160)
				}
			}
			if off := int(b) - int(last); off < -1 || off > 1 {
				t.Fatalf("stuck at %d, value is in %d", last, b)
			}
		}
		d.Reset()
		if got := d.Bucket(&table, 0); got != 0 {
			t.Fatalf("after a reset: %d", got)
		}
	})
}

func TestBucketsOfAnUncertainEstimate(t *testing.T) {
	abw, err := quantize.Preset(quantize.MinABW, "log-10G")
	if err != nil {
		t.Fatal(err)
	}
	e := Estimate{Start: epoch0, End: epoch0.Add(5 * time.Second), Bits: 20_000_000_000, Capacity: 10 * gbps, ABW: 6 * gbps, ABWC: 600_000, State: OK}
	exact, ok := BucketsOf(&e, &abw)
	if !ok || exact.Doubtful() || exact.S != abw.Bucket(6*gbps) {
		t.Errorf("%+v", exact)
	}
	e.Error = time.Second // load between 3.33 and 5 Gb/s
	b, _ := BucketsOf(&e, &abw)
	if b.S != exact.S || b.Worst != abw.Bucket(5*gbps) || b.Best != abw.Bucket(6_666_666_666) || !b.Doubtful() {
		t.Errorf("%+v", b)
	}
	pd, err := quantize.NewBuckets(quantize.MaxPD, func() []uint64 { b := tens(t, quantize.MaxPD).Bounds(); return b[:] }())
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := BucketsOf(&e, &pd); ok {
		t.Error("counters show delay")
	}
	for state := First; state <= Stale; state++ {
		e.State = state
		if _, ok := BucketsOf(&e, &abw); ok != state.Valid() {
			t.Errorf("%v: has buckets: %v", state, ok)
		}
	}
}
