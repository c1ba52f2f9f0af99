package demo

import (
	"math/bits"
	"slices"
	"sort"
	"time"

	"github.com/csig-agent/csig/quantize"
)

// signals are the signals an agent that polls counters can serve, in the
// order in which per-signal arrays of this package are indexed.
var signals = [...]quantize.Signal{quantize.MinABW, quantize.MinABWC}

// reading is one look at a link's counter.
type reading struct {
	at   time.Time
	bits uint64 // wire bits since the beginning

	// gap is how far apart the two real readings were that an interpolated
	// one lies between; 0 for a real one.
	gap time.Duration
}

// window is the truth about one averaging window, from a link's own counters.
type window struct {
	end  time.Time
	load uint64 // bit/s
	abw  uint64 // bit/s
	abwc uint64 // ppm
	s    [len(signals)]uint8

	// vague: the judge itself was held up at one end of the window, and read
	// the counter too far from there to know what was sent before.
	vague bool

	// also is what S is where frames at the window's edges were counted in its neighbours.
	also [][len(signals)]uint8
}

// truth is the history of one hop, written by the judge's reader only.
type truth struct {
	capacity uint64
	maxGap   time.Duration // of readings around a window's end; 0 for any
	edge     time.Duration // above 0: S is of the last window; a frame so near an end may count for either side
	buckets  [len(signals)]quantize.Buckets
	windows  []window // by end
}

// interpolate is the counter at an instant between two readings.
func interpolate(a, b reading, at time.Time) reading {
	share := float64(at.Sub(a.at)) / float64(b.at.Sub(a.at))
	return reading{at: at, bits: a.bits + uint64(share*float64(b.bits-a.bits)), gap: b.at.Sub(a.at)}
}

// add appends the window between two readings.
func (t *truth) add(from, to reading) {
	w := t.window(to.bits-from.bits, to.at.Sub(from.at), to.at)
	w.vague = t.maxGap > 0 && max(from.gap, to.gap) > t.maxGap
	t.windows = append(t.windows, w)
}

// window is one with so many bits.
func (t *truth) window(sent uint64, dt time.Duration, end time.Time) window {
	hi, lo := bits.Mul64(sent, uint64(time.Second))
	w := window{end: end}
	w.load, _ = bits.Div64(hi, lo, uint64(dt))
	if w.load < t.capacity {
		w.abw = t.capacity - w.load
	}
	w.abwc = w.abw * 1_000_000 / t.capacity // capacities of a demo are far below 2^44
	w.s[0] = t.buckets[0].Bucket(w.abw)
	w.s[1] = t.buckets[1].Bucket(w.abwc)
	return w
}

// completed is how many windows had ended at an instant.
func (t *truth) completed(at time.Time) int {
	return sort.Search(len(t.windows), func(i int) bool { return t.windows[i].end.After(at) })
}

// last returns the windows completed at an instant that a frame's S may be of, the newest
// first: the last two, and of a hop that measures by itself the last one, or both where one
// ended within t.edge of the instant. It is nil where the judge does not know them.
func (t *truth) last(at time.Time) []window {
	n, from := t.completed(at), 0
	if from = n - 2; t.edge > 0 {
		n, from = t.completed(at.Add(t.edge)), t.completed(at.Add(-t.edge))-1
	}
	if from < 0 {
		return nil
	}
	var out []window
	for i := n - 1; i >= from; i-- {
		if t.windows[i].vague {
			return nil
		}
		out = append(out, t.windows[i])
	}
	return out
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
// else) with the worst bucket over the windows that each hop's S may be of at
// the frame's passage. Ties belong to the first hop; a hop only writes what is
// strictly worse than what came in. The locator of a probe that is not exact is
// judged by near.
func judge(hops []*truth, passage []time.Time, sig int, initial, s uint8, hop int) verdict {
	have := make([][]uint8, len(hops))
	for i, h := range hops {
		for _, w := range h.last(passage[i]) {
			have[i] = append(have[i], w.s[sig])
			for _, also := range w.also {
				have[i] = append(have[i], also[sig])
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

// passages spreads the hops' instants between sending and arrival: a switch
// rewrites a frame before its own queue, so the first hop's is the sending.
func passages(n int, sent, arrived time.Time) []time.Time {
	out := make([]time.Time, n)
	step := arrived.Sub(sent) / time.Duration(n)
	for i := range out {
		out[i] = sent.Add(time.Duration(i) * step)
	}
	return out
}
