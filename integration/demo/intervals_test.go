package demo

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const us = int64(time.Microsecond)

// measures returns the history of a hop whose intervals of 1 ms begin at 0.
func measures(t testing.TB) *intervals {
	return &intervals{link: newLink(t, 100_000_000), length: 1000 * us}
}

// came takes in frames of 20,000 bits, each 1 us in the data plane unless it is a span.
func (v *intervals) came(spans ...span) {
	for _, s := range spans {
		v.passed(span{s.from * us, s.to * us}, 20_000)
	}
}

func quick(at ...int64) (out []span) {
	for _, t := range at {
		out = append(out, span{t, t + 1})
	}
	return out
}

// abw are the buckets of max(ABW) that so many frames in an interval of 1 ms leave.
func (v *intervals) abw(frames ...uint64) (out []uint8) {
	for _, n := range frames {
		out = append(out, v.values(n*20_000, time.Millisecond).s[0])
	}
	return out
}

func abwOf(c choices) (out []uint8) {
	for _, s := range c {
		out = append(out, s[0])
	}
	return out
}

// Single frames count in the interval in which the data plane can have counted them, and for
// either side of an end that they straddle, in all sums.
func TestIntervals(t *testing.T) {
	for _, tt := range []struct {
		name   string
		frames []span
		at     span
		want   []uint64 // frames in the window whose S a frame may carry; nil: not judged
	}{
		{"the interval before", quick(500, 1100, 1200, 2500), span{2500, 2501}, []uint64{2}},
		{"5 us before an end, and done there", quick(500, 1500, 1995, 2500), span{2500, 2501}, []uint64{2}},
		{"1 us behind an end", quick(500, 1500, 2001, 2500, 3500), span{3500, 3501}, []uint64{2}},
		{"it closed the interval itself", quick(500, 1500, 2001, 2500), span{2001, 2002}, []uint64{1}},
		{"two straddle the end: none, one or both", append(quick(500, 1500, 2500), span{1990, 2003}, span{1995, 2004}), span{2500, 2501}, []uint64{1, 2, 3}},
		{"and in the interval behind it", append(quick(500, 1500, 2500, 3500), span{1990, 2003}, span{1995, 2004}), span{3500, 3501}, []uint64{1, 2, 3}},
		{"60 us between the record and the data plane", append(quick(500, 1500, 2500), span{1940, 2001}), span{2500, 2501}, []uint64{1, 2}},
		{"it straddles the end itself", append(quick(500, 1500, 2100, 2200), span{2990, 3010}, span{4500, 4501}), span{2990, 3010}, []uint64{1, 2, 3}},
		{"another one closes it meanwhile", append(quick(500, 1500, 2100, 2200), span{3000, 3100}, span{3050, 3060}, span{4500, 4501}), span{3050, 3060}, []uint64{1, 2, 3, 4}},
		{"nothing came for two intervals", quick(500, 1500, 4500), span{4500, 4501}, []uint64{0}},
		{"recording began in the one before", quick(500, 1500), span{1500, 1501}, nil},
		{"nothing was closed", quick(500, 600), span{600, 601}, nil},
		{"five straddle the end", append(quick(500, 1500, 2500), span{1990, 2003}, span{1991, 2003}, span{1992, 2003}, span{1993, 2003}, span{1994, 2003}), span{2500, 2501}, nil},
		{"it was closed only behind the next one", append(quick(500, 1500), span{2500, 3010}, span{3500, 3501}), span{3500, 3501}, nil},
		{"some wait in the queue", append(quick(500, 1100, 1200, 1300, 1400, 1500, 1600, 2500), span{3500, 3501}), span{3500, 3501}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := measures(t)
			v.came(tt.frames...)
			v.close(8000*us+int64(late), false)
			got := abwOf(v.possible(span{tt.at.from * us, tt.at.to * us}))
			want := v.abw(tt.want...)
			slices.Sort(got)
			slices.Sort(want)
			if got, want = slices.Compact(got), slices.Compact(want); !slices.Equal(got, want) {
				t.Errorf("S may be %v, want %v", got, want)
			}
		})
	}
}

// What is missing in the record is missing in the truth.
func TestIntervalsWithoutRecords(t *testing.T) {
	v := measures(t)
	v.came(quick(500, 1500, 2500, 3500)...)
	v.close(4000*us+int64(late), false)
	v.came(quick(2600, 4500, 5500)...) // the first one too late
	v.close(6000*us+int64(late), false)
	v.came(quick(6500, 7500)...)
	v.close(8000*us+int64(late), true)
	for _, at := range []int64{3500, 4500, 7500} {
		if got := v.possible(span{at * us, (at + 1) * us}); got != nil {
			t.Errorf("at %d us S may be %v, want no truth", at, got)
		}
	}
	if got := abwOf(v.possible(span{2500 * us, 2501 * us})); !slices.Equal(got, v.abw(1)) {
		t.Errorf("before what is missing S may be %v", got)
	}
	if got := abwOf(v.possible(span{5500 * us, 5501 * us})); !slices.Equal(got, v.abw(1)) {
		t.Errorf("behind what is missing S may be %v", got)
	}
}

// The judge of a hop calls wrong: the S of another window, and one that is a bucket off.
func TestIntervalsCallWrong(t *testing.T) {
	v := measures(t)
	v.came(quick(500, 1100, 1200, 1300, 2500, 3500)...) // 3, 1
	v.came(span{3990, 4002}, span{4500, 4501})          // and 1 or 2
	v.close(8000*us+int64(late), false)
	for at, right := range map[int64][]uint8{2500: v.abw(3), 3500: v.abw(1), 4500: v.abw(1, 2)} {
		for s := range uint8(32) {
			got := judge([]past{v}, []span{{at * us, (at + 1) * us}}, 0, 31, s, 0)
			want := slices.Contains(right, s)
			if !got.known || got.exact != want {
				t.Errorf("S=%d at %d us: %+v, want exact %v", s, at, got, want)
			}
		}
	}
}

// stepOf is what a frame does in the data plane at one instant.
type stepOf struct {
	at    int64
	frame int
	do    int
}

// TestIntervalsAllowWhatDataPlanesDo runs frames of a few processors through a data plane as
// csig.bpf.c has it, step by step: the judge calls none of the S that they carry wrong.
func TestIntervalsAllowWhatDataPlanesDo(t *testing.T) {
	const length = 1000
	fast := newLink(t, 1_000_000_000_000) // 1,000,000 bits an interval: nothing waits
	fast.buckets[0] = fast.buckets[1]     // of shares
	rapid.Check(t, func(t *rapid.T) {
		type frame struct {
			span
			bits, clock, began, fetched, last uint64
			closes                            bool
			carries                           uint64
		}
		var frames []frame
		var steps []stepOf
		processors := rapid.IntRange(1, 3).Draw(t, "processors")
		for range processors {
			now := rapid.Int64Range(0, 300).Draw(t, "first")
			for range rapid.IntRange(5, 40).Draw(t, "frames") {
				took := rapid.OneOf(rapid.Int64Range(6, 10), rapid.Int64Range(6, 10), rapid.Int64Range(6, 1500)).Draw(t, "took")
				f := frame{span: span{now, now + took}, bits: 50_000 * uint64(rapid.IntRange(1, 4).Draw(t, "size"))}
				cuts := make([]int64, 6)
				for i := range cuts {
					cuts[i] = now + rapid.Int64Range(0, took).Draw(t, "step")
				}
				slices.Sort(cuts)
				for i, at := range cuts {
					steps = append(steps, stepOf{at, len(frames), i})
				}
				frames = append(frames, f)
				now += took + rapid.Int64Range(1, 400).Draw(t, "pause")
			}
		}
		slices.SortStableFunc(steps, func(a, b stepOf) int { return cmp.Compare(a.at, b.at) })
		var start, sum, last uint64
		for _, s := range steps {
			f := &frames[s.frame]
			switch s.do {
			case 0:
				f.clock = uint64(s.at)
			case 1: // compare and exchange of the interval's start
				if f.clock >= start+length {
					f.closes, f.last = true, (f.clock-start)/length
					start += f.last * length
					f.began = start
				}
			case 2:
				if f.closes {
					f.fetched, sum = sum, 0
				}
			case 3:
				if f.closes && start == f.began {
					if last = 0; f.last == 1 {
						last = f.fetched
					}
				}
			case 4:
				f.carries = last
			case 5:
				sum += f.bits
			}
		}
		v := intervals{link: fast, length: length}
		order := slices.Clone(frames)
		slices.SortStableFunc(order, func(a, b frame) int { return cmp.Compare(a.to, b.to) })
		for _, f := range order {
			v.passed(f.span, f.bits)
		}
		v.close(int64(late)+100*length, false)
		for _, f := range frames {
			got := v.possible(f.span)
			s := v.values(f.carries, length).s
			if got != nil && !slices.Contains(got, s) {
				t.Fatalf("a frame at %v carries S of %d bits, %v; the judge allows %v", f.span, f.carries, s, got)
			}
		}
	})
}
