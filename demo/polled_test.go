package demo

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const ms64 = int64(time.Millisecond)

// polls returns the history of a hop of 100 Mbit/s that leaves carry a frame of 12,000 bits each
// ms, on the ms, and five in the intervals named.
func polls(t testing.TB, until int64, doubled ...int64) *polled {
	p := &polled{link: newLink(t, 100_000_000), interval: 100 * ms64, until: until * ms64}
	for at := range until {
		p.leaves(at*ms64, 12_000)
		if slices.Contains(doubled, at/100) {
			for range 4 {
				p.leaves(at*ms64, 12_000)
			}
		}
	}
	return p
}

func (p *polled) abw(sent uint64, dt int64) uint8 { return p.values(sent, time.Duration(dt)).s[0] }

// The truth of a hop that is polled is what had left when its agent says that it read the
// counter, not when it was meant to.
func TestPolledWindows(t *testing.T) {
	const busy, idle = 6_000_000, 1_200_000 // bits in 100 ms
	p := polls(t, 800, 3, 6)                // the fourth interval is busy, and the seventh
	for _, w := range []stated{{0, 100, 0}, {100, 200, 0}, {200, 350, 0}, {350, 400, 0}} {
		p.states(stated{w.start*ms64 + ms64/2, w.end*ms64 + ms64/2, 0})
	}
	free, full, late := p.abw(idle, 100*ms64), p.abw(busy, 100*ms64), p.abw(100*12_000+50*60_000, 150*ms64)
	for _, tt := range []struct {
		name string
		at   span // ms
		want []uint8
	}{
		{"the last two", span{250, 250}, []uint8{free}},
		{"the agent was late: the window as it was read", span{360, 360}, []uint8{late, free}},
		{"and the next one, which is short", span{410, 410}, []uint8{full, late}},
		{"one ends while the frame is at the hop", span{340, 352}, []uint8{late, free}},
		{"the agent says no more: the last one that it read", span{560, 560}, []uint8{full}},
		{"for two intervals: what the clock has", span{640, 640}, []uint8{free}},
		{"also what it would have had to notice", span{710, 710}, []uint8{full, free}},
		{"records of this do not go back so far", span{50, 50}, nil},
		{"nor come so soon", span{850, 850}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := abwOf(p.possible(span{tt.at.from * ms64, tt.at.to * ms64}))
			// A frame at the edge may be counted already.
			for _, s := range got {
				if !slices.ContainsFunc(tt.want, func(w uint8) bool { return s == w }) {
					t.Errorf("S may be %v, want %v", got, tt.want)
				}
			}
			for _, s := range tt.want {
				if !slices.Contains(got, s) {
					t.Errorf("S may be %v, want %v", got, tt.want)
				}
			}
			for s := range uint8(32) {
				v := judge([]past{p}, []span{{tt.at.from * ms64, tt.at.to * ms64}}, 0, 31, s, 0)
				if want := slices.Contains(tt.want, s); v.known != (tt.want != nil) || v.exact != want {
					t.Errorf("S=%d: %+v, want exact %v", s, v, want)
				}
			}
		})
	}
}

// An agent that missed its turns is late with what it read last, and with nothing else; for no
// longer than its lease.
func TestPolledOverdue(t *testing.T) {
	p := polls(t, 1500, 1, 2)
	for _, w := range []stated{{0, 100, 0}, {100, 200, 0}, {200, 300, 0}} {
		p.states(stated{w.start*ms64 + ms64/2, w.end*ms64 + ms64/2, 0})
	}
	full, free := p.abw(6_000_000, 100*ms64), p.abw(1_200_000, 100*ms64)
	for at, want := range map[int64][]uint8{650: {full, free}, 750: nil} {
		got := abwOf(overdue{p}.possible(span{at * ms64, at * ms64}))
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(slices.Compact(got), want) {
			t.Errorf("at %d ms: %v, want %v", at, got, want)
		}
	}
}

// What a counter had is between what had left and the frame after that, at either end of the
// time in which the agent may have read it; all sums between are right, and no others.
func TestPolledSums(t *testing.T) {
	link := newLink(t, 100_000_000)
	rapid.Check(t, func(r *rapid.T) {
		p := &polled{link: link, interval: 100 * ms64}
		now := int64(0)
		for now < 400*ms64 {
			now += rapid.Int64Range(1, 2*ms64).Draw(r, "gap")
			p.leaves(now, 8*uint64(rapid.SampledFrom([]int{88, 1424}).Draw(r, "size")))
		}
		p.until = now
		w := stated{error: rapid.Int64Range(0, 3*ms64).Draw(r, "error")}
		w.start = 100*ms64 + rapid.Int64Range(0, 5*ms64).Draw(r, "start")
		w.end = 200*ms64 + rapid.Int64Range(0, 5*ms64).Draw(r, "end")
		read := func(at int64) uint64 { // as the kernel has it: a frame may be counted before it leaves
			i := p.by(at + rapid.Int64Range(-w.error, w.error).Draw(r, "when"))
			return p.left[i-1+rapid.IntRange(0, 1).Draw(r, "next")].total
		}
		from, to := read(w.start), read(w.end)
		got := p.choices(w)
		if got == nil {
			return // more than an edge of a bucket is in doubt
		}
		s := p.values(to-from, time.Duration(w.end-w.start)).s
		if !slices.ContainsFunc(abwOf(got), func(b uint8) bool { return b == s[0] }) {
			r.Fatalf("S %v of a counter that went from %d to %d, the judge allows %v", s, from, to, got)
		}
		low, high := slices.Min(abwOf(got)), slices.Max(abwOf(got))
		if high-low >= maxDoubt {
			r.Fatalf("the judge allows %v", got)
		}
	})
}

// What is not known is not judged.
func TestPolledDoubt(t *testing.T) {
	p := polls(t, 500, 3)
	w := stated{200 * ms64, 300 * ms64, 0}
	if p.choices(w) == nil {
		t.Error("a window whose frames are all known is not judged")
	}
	w.error = 50 * ms64 // from a third of the load to three times as much
	if c := p.choices(w); c != nil {
		t.Errorf("S may be %v, of a reading that took 100 ms", c)
	}
	w.error = 0
	for _, tt := range []struct {
		gap    span
		judged bool
	}{{span{250, 255}, false}, {span{195, 205}, false}, {span{295, 310}, false}, {span{190, 195}, true}, {span{305, 310}, true}} {
		p.gaps = []span{{tt.gap.from * ms64, tt.gap.to * ms64}}
		if got := p.choices(w) != nil; got != tt.judged {
			t.Errorf("records lost from %d to %d ms: judged %v", tt.gap.from, tt.gap.to, got)
		}
	}
	p.gaps = nil
	p.states(w)
	total := p.values(12_000*100, 100*time.Millisecond)
	p.forget(150 * ms64)
	if v := p.choices(w); v == nil || len(p.stated) != 1 || v[0] != total.s {
		t.Errorf("S may be %v after what was before has been forgotten, want %v", v, total.s)
	}
	if p.forget(400 * ms64); p.choices(w) != nil || len(p.stated) != 0 {
		t.Error("a window of frames that have been forgotten is judged")
	}
}
