package demo

import (
	"slices"
	"testing"
	"time"
)

// Intervals of 1 ms that begin at 100 us: single frames are summed up in the one that the
// data plane counts them in, and what is near an end counts for either side.
func TestIntervals(t *testing.T) {
	v := intervals{truth: *newTruth(t, 100_000_000), phase: 100_000, length: uint64(time.Millisecond)}
	v.edge = edgeOf(time.Millisecond)
	bucket := func(bits uint64) uint8 { return v.buckets[0].Bucket(100_000_000 - bits*1000) }
	for _, us := range []uint64{500, 1500, 1600, 2500, 3095, 4500, 6500, 9999} { // 3095: 5 us before an end
		v.passed(us*1000, 20_000)
	}
	v.close(8_000_000+uint64(late), 0, false)
	v.passed(6_700_000, 20_000) // too late by its record
	var got []uint64
	for _, w := range v.windows {
		got = append(got, w.load/1000)
	}
	if want := []uint64{20_000, 40_000, 40_000, 0, 20_000, 0, 20_000}; !slices.Equal(got, want) {
		t.Fatalf("bits %v, want %v", got, want)
	}
	for i, want := range [][]uint8{nil, nil, {bucket(20_000)}, {bucket(20_000)}, nil, nil, nil} {
		var also []uint8
		for _, s := range v.windows[i].also {
			also = append(also, s[0])
		}
		if !slices.Equal(also, want) {
			t.Errorf("window %d may also be %v, want %v", i, also, want)
		}
	}
	us := func(n int64) time.Time { return time.Unix(0, n*1000) }
	for _, tt := range []struct {
		us   int64
		want []uint8 // S that a frame may carry; nil: not known
	}{
		{1000, nil}, // nothing had been closed
		{1500, nil}, // recording began in the one before
		{2500, []uint8{bucket(40_000)}},
		{3080, []uint8{bucket(40_000), bucket(20_000), bucket(40_000)}}, // near an end: either interval, the newer with its uncertain frame
		{3500, []uint8{bucket(40_000), bucket(20_000)}},
		{5500, []uint8{bucket(20_000)}},
		{6500, []uint8{bucket(0)}},
		{7500, nil}, // vague: the frame that came too late
	} {
		var got []uint8
		for _, w := range v.last(us(tt.us)) {
			got = append(got, w.s[0])
			for _, s := range w.also {
				got = append(got, s[0])
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("at %d us: %v, want %v", tt.us, got, tt.want)
		}
	}
}
