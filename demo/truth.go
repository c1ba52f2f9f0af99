package demo

import (
	"math/bits"
	"slices"
	"time"

	"github.com/csig-agent/csig/quantize"
)

// signals are the signals an agent that polls counters can serve, in the
// order in which per-signal arrays of this package are indexed.
var signals = [...]quantize.Signal{quantize.MinABW, quantize.MinABWC}

// span is from when until when something happened, in ns of a hop's own clock.
type span struct{ from, to int64 }

// link is what the judge knows of a hop's cable.
type link struct {
	capacity uint64
	buckets  [len(signals)]quantize.Buckets
}

// values are what a link's signals are for so many bits in a time.
type values struct {
	load uint64 // bit/s, rounded up
	abw  uint64 // bit/s
	abwc uint64 // ppm
	s    [len(signals)]uint8
}

func (l *link) values(sent uint64, dt time.Duration) values {
	hi, lo := bits.Mul64(sent, uint64(time.Second))
	lo, carry := bits.Add64(lo, uint64(dt)-1, 0)
	var v values
	v.load, _ = bits.Div64(hi+carry, lo, uint64(dt))
	if v.load < l.capacity {
		v.abw = l.capacity - v.load
	}
	v.abwc = v.abw * 1_000_000 / l.capacity // capacities of a demo are far below 2^44
	v.s[0] = l.buckets[0].Bucket(v.abw)
	v.s[1] = l.buckets[1].Bucket(v.abwc)
	return v
}

// choices are the S that a hop's window may have by what was measured, of each signal: the
// first is the likeliest. It is nil where nothing was measured well enough to judge by.
type choices [][len(signals)]uint8

// add adds S of both signals, once.
func (c *choices) add(s [len(signals)]uint8) {
	if !slices.Contains(*c, s) {
		*c = append(*c, s)
	}
}

// maxDoubt is in how many buckets something between two amounts may be for it to be judged:
// those at an edge between two.
const maxDoubt = 2

// between adds every S of something from so many bits in a time to so many, and reports whether
// that is known well enough to judge by.
func (c *choices) between(l *link, least, most uint64, dt time.Duration) bool {
	best, worst := l.values(least, dt).s, l.values(most, dt).s
	c.add(best)
	for i := range signals {
		if int(best[i])-int(worst[i]) >= maxDoubt {
			return false
		}
		for s := worst[i]; s <= best[i]; s++ {
			one := best
			one[i] = s
			c.add(one)
		}
	}
	return true
}

// past is the history of one hop.
type past interface {
	// possible is what S the hop may have had for a frame that was at it in this time, the
	// newest window's first; nil where that is not known.
	possible(at span) choices
}

// verdict is the judge's result for one probe.
type verdict struct {
	known   bool  // there is a truth for this instant; else the other fields have no meaning
	s       uint8 // the truth; where the probe is exact, the window that agrees
	hop     int   // the first hop with that bucket, -1 for none
	exact   bool
	locator bool // the locator is that of a hop the truth allows, see near
}

// judge compares a received bucket and locating hop (-1: none, -2: something
// else) with the worst bucket of what each hop's S may have been at
// the frame's passage. Ties belong to the first hop; a hop only writes what is
// strictly worse than what came in. The locator of a probe that is not exact is
// judged by near.
func judge(hops []past, passage []span, sig int, initial, s uint8, hop int) verdict {
	have := make([][]uint8, len(hops))
	for i, h := range hops {
		for _, c := range h.possible(passage[i]) {
			if !slices.Contains(have[i], c[sig]) {
				have[i] = append(have[i], c[sig])
			}
		}
		if have[i] == nil {
			return verdict{}
		}
	}
	// Every choice of one of them a hop is a state the path may have been in.
	v := verdict{known: true}
	choice := make([]int, len(hops))
	for first := true; first || next(choice, have); first = false {
		worst, by := initial, -1
		for i := range have {
			if b := have[i][choice[i]]; signals[sig].Worse(b, worst) {
				worst, by = b, i
			}
		}
		if first { // the newest windows: the truth unless another one agrees
			v.s, v.hop = worst, by
		}
		if worst == s {
			if !v.exact {
				v.s, v.hop, v.exact = worst, by, true
			}
			if by == hop {
				v.hop, v.locator = by, true
				return v
			}
		}
	}
	v.locator = !v.exact && near(v.s, have, s, hop)
	return v
}

// next steps to the next choice; false after the last.
func next(choice []int, have [][]uint8) bool {
	for i := range choice {
		if choice[i]++; choice[i] < len(have[i]) {
			return true
		}
		choice[i] = 0
	}
	return false
}

// near tells whether a bucket that is not exact can be the named hop's own: it is one bucket
// from the truth, and from what that hop had. S of one hop with the locator of another is not.
func near(truth uint8, have [][]uint8, s uint8, hop int) bool {
	off := func(a, b uint8) int { return max(int(a)-int(b), int(b)-int(a)) }
	return hop >= 0 && off(s, truth) <= 1 && slices.ContainsFunc(have[hop], func(b uint8) bool { return off(s, b) <= 1 })
}
