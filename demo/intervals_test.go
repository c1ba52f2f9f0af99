package demo

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const us = int64(time.Microsecond)

// measures returns the history of a hop whose intervals of 1 ms begin at whole milliseconds.
func measures(t testing.TB) *intervals {
	return &intervals{link: newLink(t, 100_000_000), length: 1000 * us}
}

// origin is the instant from which tests count, in us: the record begins earlier.
const origin = 10_000

// goesOn is one of which a few frames have come already.
func goesOn(t testing.TB) *intervals {
	v := measures(t)
	v.came(quick(-4000, -3000, -2000, -1000)...)
	return v
}

// at is a span of us behind the origin.
func (s span) at() span { return span{(origin + s.from) * us, (origin + s.to) * us} }

// came takes in frames of 20,000 bits, which take 200 us of the link, each 1 us in the data plane
// unless it is a span, that left a microsecond later.
func (v *intervals) came(spans ...span) {
	spans = slices.Clone(spans)
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Compare(a.to, b.to) })
	for _, s := range spans {
		v.passed(s.at(), 20_000)
	}
	for _, s := range spans {
		v.leaves(s.at().to+us, 20_000)
	}
}

// closeAt closes what is over at an instant.
func (v *intervals) closeAt(at int64, lost bool) { v.close(span{at, at}.at().to+int64(late), lost) }

func quick(at ...int64) (out []span) {
	for _, t := range at {
		out = append(out, span{t, t + 1})
	}
	return out
}

// may is what S a frame may carry.
func (v *intervals) may(at span) []uint8 {
	got := abwOf(v.possible(at.at()))
	slices.Sort(got)
	return slices.Compact(got)
}

// abw are the buckets of max(ABW) that so many frames in an interval of 1 ms leave.
func (v *intervals) abw(frames ...uint64) (out []uint8) {
	for _, n := range frames {
		out = append(out, v.values(n*20_000, time.Millisecond).s[0])
	}
	slices.Sort(out)
	return slices.Compact(out)
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
		{"the interval before", quick(500, 1100, 1600, 2500), span{2500, 2501}, []uint64{2}},
		{"5 us before an end, and done there", quick(500, 1400, 1995, 2500), span{2500, 2501}, []uint64{2}},
		{"1 us behind an end", quick(500, 1500, 2001, 2500, 3500), span{3500, 3501}, []uint64{2}},
		{"it closed the interval itself", quick(500, 1400, 2001, 2500), span{2001, 2002}, []uint64{1}},
		{"two straddle the end: none, one or both", append(quick(500, 1400, 2500), span{1990, 2003}, span{1995, 2004}), span{2500, 2501}, []uint64{1, 2, 3}},
		{"and in the interval behind it", append(quick(500, 1400, 2500, 3500), span{1990, 2003}, span{1995, 2004}), span{3500, 3501}, []uint64{1, 2, 3}},
		{"60 us between the record and the data plane", append(quick(500, 1400, 2500), span{1940, 2001}), span{2500, 2501}, []uint64{1, 2}},
		{"it straddles the end itself", append(quick(500, 1400, 2100, 2600), span{2990, 3010}, span{4500, 4501}), span{2990, 3010}, []uint64{1, 2, 3}},
		{"another one closes it meanwhile", append(quick(500, 1400, 2100, 2600), span{3000, 3100}, span{3050, 3060}, span{4500, 4501}), span{3050, 3060}, []uint64{1, 2, 3}},
		{"nothing came for two intervals", quick(500, 1500, 4500), span{4500, 4501}, []uint64{0}},
		{"nothing came, and some may have waited", quick(500, 1500, 1510, 1520, 4500), span{4500, 4501}, nil},
		{"five straddle the end", append(quick(500, 1400, 2500), span{1990, 2003}, span{1991, 2003}, span{1992, 2003}, span{1993, 2003}, span{1994, 2003}), span{2500, 2501}, nil},
		{"it was closed only behind the next one", append(quick(500, 1500), span{2500, 3010}, span{3500, 3501}), span{3500, 3501}, nil},
		{"records of it are not there yet", quick(500, 1500), span{7500, 7501}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := goesOn(t)
			v.came(tt.frames...)
			v.closeAt(6000, false)
			if got, want := v.may(tt.at), v.abw(tt.want...); !slices.Equal(got, want) {
				t.Errorf("S may be %v, want %v", got, want)
			}
		})
	}
}

// Of the interval in which recording began is nothing known, nor of what waited then.
func TestIntervalsBegin(t *testing.T) {
	v := measures(t)
	v.came(quick(500, 600, 1500)...)
	v.closeAt(2000, false)
	for _, at := range []int64{600, 1500} {
		if got := v.may(span{at, at + 1}); len(got) > 0 {
			t.Errorf("at %d us S may be %v, want no truth", at, got)
		}
	}
}

// Frames that wait count when they left the shaper; what left around the look at its counter, in
// both intervals or in one.
func TestIntervalsOfAShaper(t *testing.T) {
	for _, tt := range []struct {
		name string
		wait int64 // of the four frames at 1.7 ms, us
		at   int64
		want []uint64
	}{
		{"all left long before the end", 10, 2500, []uint64{5}},
		{"all wait over the end, and over the look", 1100, 2500, []uint64{1}},
		{"and count behind it", 1100, 3500, []uint64{5}},
		{"all left between the last look and the next", 500, 2500, []uint64{5}},
		{"and may count again", 500, 3500, []uint64{1, 5}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := goesOn(t)
			v.came(quick(500, 1400)...)
			leave := func(at int64) { v.leaves(span{at, at}.at().to, 20_000) }
			for i := range int64(4) {
				v.passed(span{1700 + 2*i, 1701 + 2*i}.at(), 20_000)
			}
			v.passed(span{2500, 2501}.at(), 20_000)
			for i := range int64(4) {
				leave(1701 + 2*i + tt.wait)
			}
			leave(max(2502, 1710+tt.wait))
			v.came(quick(3500, 4500)...)
			v.closeAt(6000, false)
			if got, want := v.may(span{tt.at, tt.at + 1}), v.abw(tt.want...); !slices.Equal(got, want) {
				t.Errorf("S may be %v, want %v", got, want)
			}
		})
	}
}

// What is missing in the record is missing in the truth.
func TestIntervalsWithoutRecords(t *testing.T) {
	v := goesOn(t)
	v.came(quick(500, 1500, 2500, 3500)...)
	v.closeAt(4000, false)
	v.came(quick(2600, 4500, 5500)...) // the first one too late
	v.closeAt(6000, false)
	v.came(quick(6500, 7500)...)
	v.closeAt(8000, true)
	for _, at := range []int64{3500, 4500, 7500} {
		if got := v.may(span{at, at + 1}); len(got) > 0 {
			t.Errorf("at %d us S may be %v, want no truth", at, got)
		}
	}
	for _, at := range []int64{2500, 5500} {
		if got := v.may(span{at, at + 1}); !slices.Equal(got, v.abw(1)) {
			t.Errorf("around what is missing, at %d us, S may be %v", at, got)
		}
	}
}

// A frame that left and of which there is no record makes what it may have been in vague.
func TestIntervalsWithoutARecord(t *testing.T) {
	v := goesOn(t)
	v.came(quick(500, 1500, 2500)...)
	v.leaves(span{2600, 2600}.at().to, 20_000)
	v.came(quick(3500, 4500)...)
	v.closeAt(6000, false)
	if got := v.may(span{3500, 3501}); len(got) > 0 {
		t.Errorf("S may be %v, want no truth", got)
	}
}

// The judge of a hop calls wrong: the S of another window, and one that is a bucket off.
func TestIntervalsCallWrong(t *testing.T) {
	v := goesOn(t)
	v.came(quick(500, 1050, 1500, 1950, 2500, 3500)...) // 3, 1
	v.came(span{3990, 4002}, span{4500, 4501})          // and 1 or 2
	v.closeAt(8000, false)
	for at, right := range map[int64][]uint8{2500: v.abw(3), 3500: v.abw(1), 4500: v.abw(1, 2)} {
		for s := range uint8(32) {
			got := judge([]past{v}, []span{span{at, at + 1}.at()}, 0, 31, s, 0)
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
// csig.bpf.c has it, step by step, and a shaper with a late timer: the judge calls none of the S
// that they carry wrong.
func TestIntervalsAllowWhatDataPlanesDo(t *testing.T) {
	const length = 1000
	fast := newLink(t, 1_000_000_000) // 1,000,000 bits an interval: 1,000 a us, in which the test counts
	fast.buckets[0] = fast.buckets[1] // of shares
	judged, all := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		type frame struct {
			span
			bits, clock, began, n, last, sent, again, carries uint64
			looked, waited                                    uint64
			closes                                            bool
			counted, left                                     int64
		}
		var frames []frame
		var steps []stepOf
		processors := rapid.IntRange(1, 3).Draw(t, "processors")
		for range processors {
			now := rapid.Int64Range(0, 300).Draw(t, "first")
			for range rapid.IntRange(5, 40).Draw(t, "frames") {
				took := rapid.OneOf(rapid.Int64Range(6, 10), rapid.Int64Range(6, 10), rapid.Int64Range(6, 1500)).Draw(t, "took")
				f := frame{span: span{now, now + took}, bits: 50_000 * uint64(rapid.IntRange(1, 4).Draw(t, "size"))}
				cuts := make([]int64, 7)
				for i := range cuts {
					cuts[i] = now + rapid.Int64Range(0, took).Draw(t, "step")
				}
				slices.Sort(cuts)
				for i, at := range cuts {
					steps = append(steps, stepOf{at, len(frames), i})
				}
				frames = append(frames, f)
				now += took + rapid.OneOf(rapid.Int64Range(1, 400), rapid.Int64Range(300, 3000)).Draw(t, "pause")
			}
		}
		order := make([]int, len(frames)) // in which they come to the queue
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(frames[a].to, frames[b].to) })
		free := int64(0) // when the shaper may send the next one
		for _, i := range order {
			f := &frames[i]
			f.counted = f.to
			if free > f.to {
				f.counted = free + rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 300)).Draw(t, "the timer is late")
			}
			free = f.counted + int64(f.bits/1000)
			f.left = f.counted + rapid.Int64Range(0, 3).Draw(t, "stamp")
			steps = append(steps, stepOf{f.counted, i, 7})
		}
		slices.SortStableFunc(steps, func(a, b stepOf) int { return cmp.Compare(a.at, b.at) })
		// The link's rate is the shaper's: the data plane knows a frame that waits by both.
		var start, given, sent, seen, waited, last, sentBefore, linkFree, frameBefore uint64
		for _, s := range steps {
			f := &frames[s.frame]
			switch s.do {
			case 0:
				f.clock, f.looked, f.waited = uint64(s.at), seen, waited
			case 1: // compare and exchange of the interval's start
				if f.clock >= start+length {
					f.closes, f.n = true, (f.clock-start)/length
					start += f.n * length
					f.began = start
				}
			case 2:
				if f.closes {
					f.sent = sent
					if f.waited > 0 {
						f.again = sent - f.looked
					}
					f.last = sent - sentBefore
				}
			case 3:
				if f.closes && start == f.began {
					if last = f.last; f.n > 1 {
						last = 0
						if f.waited > 0 {
							last = f.again // or less
						}
					}
					sentBefore = f.sent - f.again
				}
			case 4: // looks at the queue
				seen = sent
				backlog := given - sent
				from := f.clock + backlog/1000
				linkFree = min(max(linkFree, from), from+frameBefore/1000)
				if waited = 0; linkFree > f.clock {
					waited = 1
				}
			case 5:
				f.carries = last
			case 6:
				given += f.bits
				linkFree += f.bits / 1000
				frameBefore = f.bits
			case 7:
				sent += f.bits
			}
		}
		v := intervals{link: fast, length: length * us}
		for _, i := range order {
			v.passed(span{frames[i].from * us, frames[i].to * us}, frames[i].bits)
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(frames[a].left, frames[b].left) })
		for _, i := range order {
			v.leaves(frames[i].left*us, frames[i].bits)
		}
		v.close(int64(late)+frames[len(frames)-1].to*us, false)
		for _, f := range frames {
			got := v.possible(span{f.from * us, f.to * us})
			s := v.values(f.carries, length*time.Microsecond).s
			if all++; got != nil {
				judged++
			}
			if got != nil && !slices.Contains(got, s) {
				t.Fatalf("a frame at %v carries S of %d bits, %v; the judge allows %v", f.span, f.carries, s, got)
			}
		}
	})
	if judged < all/10 {
		t.Errorf("of %d frames %d are judged", all, judged)
	}
}
