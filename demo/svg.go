package demo

import (
	"fmt"
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
	if r.Summary.of(Native) != nil {
		panels = append(panels, r.agePanel())
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
	}
	if sig == quantize.MinABW && r.abw != nil {
		p.Right = chart.BandwidthAxis(quantize.NumBuckets, func(s uint8) uint64 { low, _ := r.abw.Range(s); return low })
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

// kindNames are those of people.
var kindNames = map[Kind]string{Software: "software hops", Native: "native hops"}

// agePanel has the ages of the signals by the kind of the hop that wrote them.
func (r *Result) agePanel() chart.Panel {
	p := chart.Panel{
		Title: "age of the signal: from the end of its window to its arrival",
		X:     "seconds", Y: "milliseconds", MaxX: max(time.Duration(r.DurationNS).Seconds(), 1), MinY: 0.01, MaxY: 10,
	}
	kinds := map[string]Kind{}
	for i := range r.Hops {
		kinds[r.Hops[i].Locator] = r.Hops[i].Kind
	}
	points := map[Kind][]chart.XY{}
	for i := range r.Probes {
		pr := &r.Probes[i]
		k := kinds[pr.Locator]
		if k == "" || pr.Age <= 0 {
			continue
		}
		points[k] = append(points[k], chart.XY{X: pr.Time.Sub(r.Started).Seconds(), Y: ms(pr.Age)})
		for ms(pr.Age) > p.MaxY {
			p.MaxY *= 10
		}
	}
	for i, k := range []Kind{Software, Native} {
		if s := r.Summary.of(k); s != nil && len(points[k]) > 0 {
			p.Series = append(p.Series, chart.Series{
				Name:  fmt.Sprintf("S by %s, Δt %v: median %.3g ms, p99 %.3g ms", kindNames[k], time.Duration(s.IntervalNS), ms(s.AgeP50), ms(s.AgeP99)),
				Color: chart.Colors[4+i], Size: 1.6, Points: points[k],
			})
		}
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
