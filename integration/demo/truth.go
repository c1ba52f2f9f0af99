package demo

import (
	"math/bits"
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
}

// truth is the history of one hop, written by the judge's reader only.
type truth struct {
	capacity uint64
	maxGap   time.Duration // of readings around a window's end; 0 for any
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
	dt := uint64(to.at.Sub(from.at))
	hi, lo := bits.Mul64(to.bits-from.bits, uint64(time.Second))
	w := window{end: to.at, vague: t.maxGap > 0 && max(from.gap, to.gap) > t.maxGap}
	w.load, _ = bits.Div64(hi, lo, dt)
	if w.load < t.capacity {
		w.abw = t.capacity - w.load
	}
	w.abwc = w.abw * 1_000_000 / t.capacity // capacities of a demo are far below 2^44
	w.s[0] = t.buckets[0].Bucket(w.abw)
	w.s[1] = t.buckets[1].Bucket(w.abwc)
	t.windows = append(t.windows, w)
}

// last returns the last two windows completed at an instant, the newer first;
// nil where the judge does not know both.
func (t *truth) last(at time.Time) []window {
	n := sort.Search(len(t.windows), func(i int) bool { return t.windows[i].end.After(at) })
	if n < 2 || t.windows[n-1].vague || t.windows[n-2].vague {
		return nil
	}
	return []window{t.windows[n-1], t.windows[n-2]}
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
// else) with the worst bucket over each hop's last two completed windows at
// the frame's passage. Ties belong to the first hop; a hop only writes what is
// strictly worse than what came in. The locator of a probe that is not exact is
// judged by near.
func judge(hops []*truth, passage []time.Time, sig int, initial, s uint8, hop int) verdict {
	var have [][2]uint8
	for i, h := range hops {
		w := h.last(passage[i])
		if w == nil {
			return verdict{}
		}
		have = append(have, [2]uint8{w[0].s[sig], w[1].s[sig]})
	}
	// Every choice of one window a hop is a state the path may have been in.
	v := verdict{known: true}
	for choice := 0; choice < 1<<len(hops); choice++ {
		worst, first := initial, -1
		for i := range have {
			if b := have[i][choice>>i&1]; signals[sig].Worse(b, worst) {
				worst, first = b, i
			}
		}
		if choice == 0 { // the newest windows: the truth unless another one agrees
			v.s, v.hop = worst, first
		}
		if worst == s {
			if !v.exact {
				v.s, v.hop, v.exact = worst, first, true
			}
			if first == hop {
				v.hop, v.locator = first, true
				return v
			}
		}
	}
	v.locator = !v.exact && near(v.s, have, s, hop)
	return v
}

// near reports whether a bucket that is not exact can be the named hop's own: it is one bucket
// from the truth, and from what that hop had. S of one hop with the locator of another is not.
func near(truth uint8, have [][2]uint8, s uint8, hop int) bool {
	off := func(a, b uint8) int { return max(int(a)-int(b), int(b)-int(a)) }
	return hop >= 0 && off(s, truth) <= 1 && (off(s, have[hop][0]) <= 1 || off(s, have[hop][1]) <= 1)
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
