package simulate

import (
	"io"
	"math"

	"github.com/csig-agent/csig/counters/chart"
)

// WriteSVG writes a picture: queue, shares and what was used over time, and slowdown by size.
func (r *Result) WriteSVG(w io.Writer) error {
	end := max(r.TimeNS/1e6, 1e-6)
	line := func(name, color string, of func(s *Sample) float64) chart.Series {
		series := chart.Series{Name: name, Color: color, Size: 1.5}
		var run []chart.XY
		before := 0.0
		for i := range r.Samples { // a value is of the time before it; one below 0 is none
			y, at := of(&r.Samples[i]), r.Samples[i].TimeNS/1e6
			if y >= 0 {
				run = append(run, chart.XY{X: before, Y: y}, chart.XY{X: at, Y: y})
			}
			if len(run) > 0 && (y < 0 || i == len(r.Samples)-1) {
				series.Runs, run = append(series.Runs, run), nil
			}
			before = at
		}
		return series
	}
	queue, flows := 1.0, 1.0
	for i := range r.Samples {
		queue, flows = max(queue, float64(r.Samples[i].Queue)/1000), max(flows, float64(r.Samples[i].Active))
	}
	slow, size := 1.0, 1.0
	named := []chart.Series{{Name: "p50", Color: chart.Colors[0]}, {Name: "p95", Color: chart.Colors[1]}, {Name: "p99", Color: chart.Colors[2]}, {Name: "p100", Color: chart.Colors[3]}}
	for i := range r.Sizes {
		s := &r.Sizes[i]
		up := float64(s.UpTo)
		if s.UpTo == 0 {
			up = 1e8
		}
		x := math.Log10(up)
		size, slow = max(size, x+1), max(slow, s.P100)
		for j, y := range []float64{s.P50, s.P95, s.P99, s.P100} {
			named[j].Points = append(named[j].Points, chart.XY{X: x, Y: y})
			named[j].Size = 3
		}
	}
	panels := []chart.Panel{
		{Title: "Longest queue", X: "ms", Y: "kB", MaxX: end, MaxY: queue * 1.05, Series: []chart.Series{line("", chart.Colors[0], func(s *Sample) float64 { return float64(s.Queue) / 1000 })}},
		{Title: "Flows", X: "ms", Y: "active", MaxX: end, MaxY: flows * 1.05, Series: []chart.Series{line("", chart.Colors[0], func(s *Sample) float64 { return float64(s.Active) })}},
		{Title: "Shares", X: "ms", Y: "%", MaxX: end, MaxY: 105, Series: []chart.Series{
			line("links to hosts, used", chart.Colors[0], func(s *Sample) float64 { return 100 * s.Hosts }),
			line("unclaimed, of paths", chart.Colors[1], func(s *Sample) float64 { return 100 * s.Unclaimed }),
			line("Jain's index", chart.Colors[2], func(s *Sample) float64 {
				if s.Jain == 0 {
					return -1
				}
				return 100 * s.Jain
			}),
		}},
		{Title: "Slowdown", X: "log10 of the bytes of a flow, at most", Y: "slowdown", MaxX: size, MinY: 0.9, MaxY: max(10, slow*1.1), Series: named},
	}
	if r.Mode == "flow" { // it has no queues
		panels = panels[1:]
	}
	return chart.WriteSVG(w, 720, 200, panels...)
}
