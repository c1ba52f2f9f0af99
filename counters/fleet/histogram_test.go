package fleet

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestHistogramAgainstSortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a, b Histogram
		var all []time.Duration
		for range rapid.IntRange(1, 200).Draw(t, "n") {
			d := time.Duration(rapid.Int64Range(0, 60e9).Draw(t, "d"))
			if rapid.Bool().Draw(t, "short") {
				d /= 100_000
			}
			all = append(all, d)
			if rapid.Bool().Draw(t, "other") {
				b.Add(d)
			} else {
				a.Add(d)
			}
		}
		a.Merge(&b)
		slices.Sort(all)
		if a.Count() != uint64(len(all)) || a.Max() != all[len(all)-1] {
			t.Fatalf("%d, max %v", a.Count(), a.Max())
		}
		for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 1} {
			want := all[max(int(math.Ceil(q*float64(len(all))-1e-9)), 1)-1]
			got := a.Quantile(q)
			if got < want || got > max(want*5/4, 1<<lowest) {
				t.Fatalf("quantile %v: %v, want %v to a quarter more", q, got, want)
			}
		}
	})
}

func TestHistogramEdges(t *testing.T) {
	var h Histogram
	if h.Quantile(0.5) != 0 || h.Max() != 0 {
		t.Error("an empty one says something")
	}
	h.Add(-time.Second)
	if h.Quantile(1) != 0 || h.Count() != 1 {
		t.Errorf("a clock that was set back: %v", h.Quantile(1))
	}
	h.Add(time.Hour)
	if h.Quantile(1) != time.Hour {
		t.Errorf("%v", h.Quantile(1))
	}
	for c := 1; c < classes-1; c++ {
		if class(upper(c)) != c+1 || class(upper(c)-1) != c {
			t.Errorf("class %d does not end at %v", c, upper(c))
		}
	}
}
