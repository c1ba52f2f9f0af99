package quantize

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawBounds makes a valid table for any signal but abwc, whose top is limited.
func drawBounds(t *rapid.T) []uint64 {
	bounds := rapid.SliceOfNDistinct(rapid.Uint64Min(1), NumBuckets, NumBuckets, rapid.ID).Draw(t, "bounds")
	slices.Sort(bounds)
	return append([]uint64{0}, bounds...)
}

func TestBucketIsTheRangeThatContainsTheValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bounds := drawBounds(t)
		b, err := NewBuckets(MinABW, bounds)
		if err != nil {
			t.Fatal(err)
		}
		values := []uint64{0, math.MaxUint64, rapid.Uint64().Draw(t, "v")}
		for _, edge := range bounds {
			values = append(values, edge-1, edge, edge+1) // 0-1 wraps to the largest, which is a value too
		}
		for _, v := range values {
			want := 0 // the naive scan: the last bucket whose low end is not above v
			for i, low := range bounds[:NumBuckets] {
				if v >= low {
					want = i
				}
			}
			if got := b.Bucket(v); int(got) != want {
				t.Fatalf("Bucket(%d) = %d, want %d", v, got, want)
			}
		}
		for s := range uint8(NumBuckets) {
			if low, high := b.Range(s); low != bounds[s] || high != bounds[s+1] || b.Bucket(low) != s || b.Bucket(high-1) != s {
				t.Fatalf("bucket %d is [%d, %d)", s, low, high)
			}
		}
		if got := b.Bounds(); !slices.Equal(got[:], bounds) {
			t.Fatalf("Bounds() = %v, want %v", got, bounds)
		}
	})
}

func linear(step uint64) []uint64 {
	bounds := make([]uint64, NumBuckets+1)
	for i := range bounds {
		bounds[i] = uint64(i) * step
	}
	return bounds
}

func changed[T any](list []T, i int, v T) []T {
	list = slices.Clone(list)
	list[i] = v
	return list
}

func TestNewBucketsRefuses(t *testing.T) {
	ok := linear(1e6)
	for _, c := range []struct {
		name   string
		sig    Signal
		bounds []uint64
		index  int
		want   string
	}{
		{"too few", MinABW, ok[:32], -1, "abw: 32 bounds, want 33"},
		{"none", MinABW, nil, -1, "0 bounds, want 33"},
		{"not from 0", MinABW, changed(ok, 0, 1), 0, "the first bucket starts at 1 bit/s, want 0"},
		{"repeated", MinABW, changed(ok, 7, ok[6]), 7, "bound 7 (6 Mbit/s) is not above bound 6 (6 Mbit/s)"},
		{"falling", MinABW, changed(ok, 32, 5), 32, "bound 32 (5 bit/s) is not above bound 31 (31 Mbit/s)"},
		{"above the capacity", MinABWC, changed(linear(31_250), 32, 1_000_001), 32, "abwc: the last bucket ends at 100.0001 %"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := NewBuckets(c.sig, c.bounds)
			var be *BucketError
			if !errors.As(err, &be) || be.Index != c.index || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q at %d", err, c.want, c.index)
			}
			if b != (Buckets{}) {
				t.Error("a table comes with the error")
			}
		})
	}
	two := changed(changed(ok, 3, 0), 9, 0)
	if _, err := NewBuckets(MinABW, two); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("two problems are reported as: %v", err)
	}
}

func rangesOf(bounds []uint64) []Range {
	var ranges []Range
	for i := range NumBuckets {
		ranges = append(ranges, Range{bounds[i], bounds[i+1]})
	}
	return ranges
}

func TestNewBucketsFromRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bounds := drawBounds(t)
		got, err := NewBucketsFromRanges(MinABW, rangesOf(bounds))
		want, _ := NewBuckets(MinABW, bounds)
		if err != nil || got != want {
			t.Fatalf("%v, %v", got, err)
		}
	})

	ok := rangesOf(linear(1e9))
	for _, c := range []struct {
		name   string
		ranges []Range
		want   string
	}{
		{"too many", append(slices.Clone(ok), Range{1, 2}), "33 ranges, want 32"},
		{"gap", changed(ok, 4, Range{4.5e9, 5e9}), "gap between ranges 3 and 4: neither contains 4–4.5 Gbit/s"},
		{"overlap", changed(ok, 4, Range{3.5e9, 5e9}), "ranges 3 and 4 overlap: both contain 3.5–4 Gbit/s"},
		{"inside", changed(ok, 4, Range{3.2e9, 3.4e9}), "ranges 3 and 4 overlap: both contain 3.2–3.4 Gbit/s"},
		{"order", changed(changed(ok, 4, ok[5]), 5, ok[4]), "range 5 (4–5 Gbit/s) is out of order: range 4 (5–6 Gbit/s) starts above it"},
		{"empty", changed(ok, 4, Range{4e9, 4e9}), "range 4 is empty: 4 Gbit/s is not below 4 Gbit/s"},
		{"backwards", changed(ok, 4, Range{5e9, 4e9}), "range 4 is empty: 5 Gbit/s is not below 4 Gbit/s"},
		{"not from 0", changed(ok, 0, Range{1, 1e9}), "the first bucket starts at 1 bit/s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := NewBucketsFromRanges(MinABW, c.ranges)
			var be *BucketError
			if !errors.As(err, &be) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestBucketsFormatRange(t *testing.T) {
	b, err := Preset(MinABW, "draft-appendix-a")
	if err != nil {
		t.Fatal(err)
	}
	for s, want := range map[uint8]string{0: "0–250 Mbit/s", 3: "750 Mbit/s – 1 Gbit/s", 8: "5–6.25 Gbit/s", 31: "97.5 Gbit/s and above"} {
		if got := b.FormatRange(s); got != want {
			t.Errorf("FormatRange(%d) = %q, want %q", s, got, want)
		}
	}
}

// wideS is the S that a sender or a port with wide tags writes for v.
func wideS(quantum, v uint64) uint32 { return uint32(min(v/quantum, MaxWideS)) }

func TestQuantumRange(t *testing.T) {
	const quantum = 8_000_000 // the draft's example for abw: 8 Mbit/s reach 8 Tbit/s
	for _, c := range []struct {
		v    uint64
		want uint32
	}{
		{0, 0}, {quantum - 1, 0}, {quantum, 1}, {10e9, 1250},
		{quantum * MaxWideS, MaxWideS}, {quantum*MaxWideS - 1, MaxWideS - 1}, {quantum << 20, MaxWideS}, {math.MaxUint64, MaxWideS},
	} {
		if got := wideS(quantum, c.v); got != c.want {
			t.Errorf("wideS(%d) = %d, want %d", c.v, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		q, v := rapid.Uint64Min(1).Draw(t, "quantum"), rapid.Uint64().Draw(t, "v")
		s := wideS(q, v)
		low, high := QuantumRange(q, s)
		if s > MaxWideS || v < low || v >= high && s != MaxWideS && high != math.MaxUint64 {
			t.Fatalf("wideS(%d, %d) = %d, whose range is [%d, %d)", q, v, s, low, high)
		}
		if high != math.MaxUint64 && high-low != q {
			t.Fatalf("S=%d is [%d, %d), not one quantum of %d", s, low, high, q)
		}
	})
}

func BenchmarkBucket(b *testing.B) {
	table, err := Preset(MinABW, "log-100G")
	if err != nil {
		b.Fatal(err)
	}
	values := make([]uint64, 1024)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range values {
		values[i] = random.Uint64N(100e9)
	}
	b.ReportAllocs()
	var sum, i int
	for b.Loop() {
		sum += int(table.Bucket(values[i%len(values)]))
		i++
	}
	if sum < 0 {
		b.Fatal("never")
	}
}
