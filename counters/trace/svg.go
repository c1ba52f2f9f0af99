package trace

import (
	"fmt"
	"io"
	"slices"

	"github.com/csig-agent/csig/counters/chart"
	"github.com/csig-agent/csig/quantize"
)

// MaxDrawn is how many ports an SVG shows; of more, those with the highest load.
const MaxDrawn = 8

// WriteSVG draws the chart: the load of each port over time, and a panel with the
// buckets for each signal. It returns how many ports were left out.
func (c *Chart) WriteSVG(w io.Writer) (left int, err error) {
	ports := c.busiest(MaxDrawn)
	panels := []chart.Panel{c.loadPanel(ports)}
	for k := range c.tables {
		panels = append(panels, c.bucketPanel(ports, k))
	}
	return len(c.ports) - len(ports), chart.WriteSVG(w, 960, 288, panels...)
}

// busiest returns the n ports with the highest load, in their order.
func (c *Chart) busiest(n int) []*chartPort {
	var ports []*chartPort
	peak := map[*chartPort]uint32{}
	for i := range c.ports {
		p := &c.ports[i]
		ports = append(ports, p)
		for j := range p.spans {
			peak[p] = max(peak[p], p.spans[j].used)
		}
	}
	if len(ports) <= n {
		return ports
	}
	slices.SortStableFunc(ports, func(a, b *chartPort) int { return int(peak[b]) - int(peak[a]) })
	ports = ports[:n]
	slices.SortFunc(ports, func(a, b *chartPort) int { return a.index - b.index })
	return ports
}

func (c *Chart) panel(title, y string, most float64) chart.Panel {
	return chart.Panel{Title: title, X: "seconds", Y: y, MaxX: max(c.end.Sub(c.start).Seconds(), 1), MaxY: most}
}

func (c *Chart) loadPanel(ports []*chartPort) chart.Panel {
	p := c.panel(c.device+": load from "+stamp(c.start), "% of the capacity", 100)
	for i, port := range ports {
		p.Series = append(p.Series, c.lines(port, i, port.name, func(s *span) float64 {
			v := float64(s.used) / (ppmWhole / 100)
			p.MaxY = max(p.MaxY, v)
			return v
		}))
	}
	if speed := oneSpeed(ports); speed > 0 {
		p.Right.Title = "bit/s"
		for percent := 0.0; percent <= p.MaxY; percent += 20 {
			p.Right.Ticks = append(p.Right.Ticks, chart.Tick{Y: percent, Text: chart.BitRate(float64(speed) * percent / 100)})
		}
	}
	return p
}

// oneSpeed is the capacity that all these ports have, 0 where they differ.
func oneSpeed(ports []*chartPort) (speed uint64) {
	for _, p := range ports {
		if p.mixed || p.speed > 0 && speed > 0 && p.speed != speed {
			return 0
		}
		speed = max(speed, p.speed)
	}
	return speed
}

func (c *Chart) bucketPanel(ports []*chartPort, k int) chart.Panel {
	p := c.panel(fmt.Sprintf("%s, hollow marks where Δt is too uncertain for one bucket", c.tables[k].Signal), "bucket S", quantize.NumBuckets-1)
	if table := c.tables[k]; table.Signal == quantize.MinABW {
		p.Right = chart.BandwidthAxis(quantize.NumBuckets, func(s uint8) uint64 { low, _ := table.Range(s); return low })
	}
	for i, port := range ports {
		doubts := chart.Series{Color: chart.Colors[i], Size: 2.5, Ring: true}
		for j := range port.spans {
			if s := &port.spans[j]; s.doubtful {
				doubts.Points = append(doubts.Points, chart.XY{X: c.seconds(j), Y: float64(s.s[k])})
			}
		}
		p.Series = append(p.Series, c.lines(port, i, "", func(s *span) float64 { return float64(s.s[k]) }), doubts)
	}
	return p
}

// lines are a port's values as steps, interrupted where there is nothing to show.
func (c *Chart) lines(port *chartPort, i int, name string, value func(*span) float64) chart.Series {
	out := chart.Series{Color: chart.Colors[i], Size: 1.5}
	var run []chart.XY
	flush := func() {
		if len(run) > 1 {
			out.Runs, out.Name = append(out.Runs, run), name
		}
		run = nil
	}
	var last float64
	for j := range port.spans {
		switch s := &port.spans[j]; {
		case s.readings == 0:
			if len(run) > 0 {
				run = append(run, chart.XY{X: c.seconds(j + 1), Y: last})
			}
		case !s.known || s.lost:
			flush()
		default:
			last = value(s)
			run = append(run, chart.XY{X: c.seconds(j), Y: last}, chart.XY{X: c.seconds(j + 1), Y: last})
		}
	}
	flush()
	return out
}

// seconds is when span j starts.
func (c *Chart) seconds(j int) float64 { return float64(j) * c.width.Seconds() }
