package quantize

import (
	"fmt"
	"strings"
)

// preset is a named table: a logarithmic one from its top down, an evenly
// split one, or the refinement of a few edges.
type preset struct {
	name string
	top  uint64   // log and linear: upper end of the last bucket
	even bool     // linear
	edge []uint64 // refinement: each range split evenly
}

const appendixA = "draft-appendix-a"

// presets lists the named tables of a signal, in the order in which they are
// shown.
func presets(sig Signal) []preset {
	const us, ms = 1_000, 1_000_000
	const mbps, gbps = 1_000_000, 1_000_000_000
	const percent = 10_000
	shares := []preset{{name: "log", top: 100 * percent}, {name: "linear", top: 100 * percent, even: true}}
	switch sig {
	case MinABW:
		return []preset{
			{name: appendixA, edge: []uint64{0, 1 * gbps, 5 * gbps, 10 * gbps, 20 * gbps, 50 * gbps, 75 * gbps, 90 * gbps, 100 * gbps}},
			{name: "log-100M", top: 100 * mbps},
			{name: "log-1G", top: 1 * gbps},
			{name: "log-10G", top: 10 * gbps},
			{name: "log-25G", top: 25 * gbps},
			{name: "log-40G", top: 40 * gbps},
			{name: "log-100G", top: 100 * gbps},
			{name: "log-200G", top: 200 * gbps},
			{name: "log-400G", top: 400 * gbps},
			{name: "log-800G", top: 800 * gbps},
			{name: "log-1600G", top: 1600 * gbps},
		}
	case MinABWC:
		return append([]preset{{name: appendixA, edge: []uint64{0, 1 * percent, 5 * percent, 10 * percent, 20 * percent, 50 * percent, 75 * percent, 90 * percent, 100 * percent}}}, shares...)
	case MaxPD:
		return []preset{
			{name: appendixA, edge: []uint64{0, 10 * us, 50 * us, 100 * us, 200 * us, 400 * us, 800 * us, 2000 * us, 4000 * us}},
			{name: "log-100us", top: 100 * us},
			{name: "log-1ms", top: 1 * ms},
			{name: "log-10ms", top: 10 * ms},
			{name: "log-100ms", top: 100 * ms},
		}
	case MaxNQD:
		return shares
	}
	return nil
}

// PresetNames lists the names that Preset takes for a signal, in a fixed
// order; an unknown signal has none.
func PresetNames(sig Signal) []string {
	var names []string
	for _, p := range presets(sig) {
		names = append(names, p.name)
	}
	return names
}

// Preset returns a named table; an unknown name is an error that lists the
// names there are.
//
//   - "draft-appendix-a" (abw, abwc, pd) is the draft's Table 2 (Appendix A):
//     each of its 8 ranges is split into 4 equal buckets, so that S/4 is the
//     draft's 3-bit value. Its two open ranges get a nominal end that only
//     matters for that split: ">90 Gbit/s" ends at 100 Gbit/s, where the table's
//     neighbouring column ends at 100 %, and ">2000us" at 4000 µs.
//   - "log-10G" and the like for abw, named by the domain's fastest link, "log"
//     for abwc and nqd, "log-1ms" and the like for pd: from the top down, each
//     bound is the next smaller preferred number of the series R20/2 (1.12 …)
//     of ISO 3 (… 9, 11.2, 14, 18, 22.4, 28, 35.5, 45, 56, 71, 90, 112 …), ten a
//     decade, so that a bucket is about a quarter wider than the one below it
//     and the lowest holds less than 0.1 % of the top. The round numbers lie in
//     the middle of a bucket, at least a tenth away from its ends: an idle
//     link's available bandwidth is its speed, and that is a round number.
//   - "linear" for abwc and nqd: 32 equal buckets of 3.125 %.
func Preset(sig Signal, name string) (Buckets, error) {
	for _, p := range presets(sig) {
		if p.name != name {
			continue
		}
		b, err := NewBuckets(sig, p.bounds())
		if err != nil {
			return Buckets{}, fmt.Errorf("preset %s: %w", name, err)
		}
		b.Preset = name
		return b, nil
	}
	if names := PresetNames(sig); names != nil {
		return Buckets{}, fmt.Errorf("%s has no preset %q: want one of %s", sig, name, strings.Join(names, ", "))
	}
	return Buckets{}, fmt.Errorf("signal %s has no presets", sig)
}

func (p preset) bounds() []uint64 {
	switch {
	case p.edge != nil:
		return split(p.edge)
	case p.even:
		return split([]uint64{0, p.top})
	}
	return preferred(p.top)
}

// split divides the ranges between edges evenly into 32 buckets. Both the
// number of ranges and their widths must divide; a table test checks every
// preset's edges.
func split(edges []uint64) []uint64 {
	n := uint64(NumBuckets / (len(edges) - 1))
	bounds := make([]uint64, 0, NumBuckets+1)
	for i := 1; i < len(edges); i++ {
		low, high := edges[i-1], edges[i]
		for k := range n {
			bounds = append(bounds, low+(high-low)/n*k)
		}
	}
	return append(bounds, edges[len(edges)-1])
}

// preferred walks the series R20/2 (1.12 …) down from top, which is the upper
// end of the last bucket: a number of the series R10, between two of R20/2, and
// at least 100,000 so that every bound is whole.
func preferred(top uint64) []uint64 {
	series := [10]uint64{112, 140, 180, 224, 280, 355, 450, 560, 710, 900} // hundredths
	decade := uint64(1)
	for decade <= top/10 {
		decade *= 10
	}
	at := -1 // below the first, which is the last of the decade below
	for i, m := range series {
		if m*decade/100 < top {
			at = i
		}
	}
	bounds := make([]uint64, NumBuckets+1)
	bounds[NumBuckets] = top
	for i := NumBuckets - 1; i > 0; i-- {
		if at < 0 {
			at, decade = len(series)-1, decade/10
		}
		bounds[i] = series[at] * decade / 100
		at--
	}
	return bounds
}
