package demo

import (
	"io"
	"maps"
	"slices"
	"time"

	"github.com/csig-agent/csig/counters/chart"
	"github.com/csig-agent/csig/quantize"
)

// WriteSVG draws the run over time, a panel a signal: the truth as a broad
// line, and what the receiver read as points coloured by the hop that the
// locator names.
func (r *Result) WriteSVG(w io.Writer) error {
	var panels []chart.Panel
	for _, sig := range signals {
		panels = append(panels, r.panel(sig))
	}
	return chart.WriteSVG(w, 864, 288, panels...)
}

func (r *Result) panel(sig quantize.Signal) chart.Panel {
	p := chart.Panel{
		Title: map[quantize.Signal]string{
			quantize.MinABW:  "min(ABW): least available bandwidth on the path",
			quantize.MinABWC: "min(ABW/C): least available share of a link on the path",
		}[sig],
		X: "seconds", Y: "bucket S", MaxX: max(time.Duration(r.DurationNS).Seconds(), 1), MaxY: quantize.NumBuckets - 1,
		LegendLow: true, // S is seldom that low
	}
	var line []chart.XY
	points := map[string][]chart.XY{}
	for i := range r.Probes {
		pr := &r.Probes[i]
		if pr.Signal != sig.String() {
			continue
		}
		t := pr.Time.Sub(r.Started).Seconds()
		if !pr.Unjudged {
			line = append(line, chart.XY{X: t, Y: float64(pr.TruthS)})
		}
		points[pr.Locator] = append(points[pr.Locator], chart.XY{X: t, Y: float64(pr.S)})
	}
	if len(line) > 0 {
		p.Series = append(p.Series, chart.Series{Name: "truth", Color: chart.LightGrey, Size: 6, Runs: [][]chart.XY{line}})
	}
	for _, name := range slices.Sorted(maps.Keys(points)) {
		p.Series = append(p.Series, chart.Series{Name: "S by " + name, Color: r.color(name), Size: 1.6, Points: points[name]})
	}
	return p
}

// color is the same for a hop in every panel and run.
func (r *Result) color(locator string) string {
	for i := range r.Hops {
		if r.Hops[i].Locator == locator {
			return chart.Colors[i%4]
		}
	}
	return chart.Grey
}
