package trace

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/csig-agent/csig/quantize"
)

// Colours that differ for readers who do not see red and green apart.
var portColors = []color.RGBA{
	{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255},
	{230, 159, 0, 255}, {86, 180, 233, 255}, {120, 94, 40, 255}, {90, 90, 90, 255},
}

// MaxDrawn is how many ports an SVG shows; of more, those with the highest load.
const MaxDrawn = 8

// WriteSVG draws the chart: the load of each port over time, and a panel with the
// buckets for each signal. It returns how many ports were left out.
func (c *Chart) WriteSVG(w io.Writer) (left int, err error) {
	ports := c.busiest(MaxDrawn)
	rows := []*plot.Plot{c.loadPanel(ports)}
	for k := range c.tables {
		p, err := c.bucketPanel(ports, k)
		if err != nil {
			return 0, fmt.Errorf("drawing signal %s: %w", c.tables[k].Signal, err)
		}
		rows = append(rows, p)
	}
	canvas := vgsvg.New(10*vg.Inch, vg.Length(3*len(rows))*vg.Inch)
	tiles := draw.Tiles{
		Rows: len(rows), Cols: 1, PadY: vg.Points(10),
		PadTop: vg.Points(6), PadBottom: vg.Points(6), PadLeft: vg.Points(6), PadRight: vg.Points(6),
	}
	grid := make([][]*plot.Plot, len(rows))
	for i, p := range rows {
		grid[i] = []*plot.Plot{p}
	}
	for i, row := range plot.Align(grid, tiles, draw.New(canvas)) {
		grid[i][0].Draw(row[0])
	}
	_, err = canvas.WriteTo(w)
	return len(c.ports) - len(ports), err
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

func (c *Chart) panel(title, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, "seconds", y
	p.X.Min, p.X.Max = 0, max(c.end.Sub(c.start).Seconds(), 1)
	p.X.Tick.Marker = plot.TickerFunc(roundTicks)
	p.Y.Tick.Marker = plot.TickerFunc(roundTicks)
	p.Legend.Top, p.Legend.Padding, p.Legend.ThumbnailWidth = true, vg.Points(4), vg.Points(16)
	p.Legend.XOffs = vg.Points(-8)
	p.Add(plotter.NewGrid())
	return p
}

func (c *Chart) loadPanel(ports []*chartPort) *plot.Plot {
	p := c.panel(c.device+": load from "+stamp(c.start), "% of the capacity")
	p.Y.Min, p.Y.Max = 0, 100
	for i, port := range ports {
		c.lines(p, port, i, port.name, func(s *span) float64 {
			v := float64(s.used) / (ppmWhole / 100)
			p.Y.Max = max(p.Y.Max, v)
			return v
		})
	}
	return p
}

func (c *Chart) bucketPanel(ports []*chartPort, k int) (*plot.Plot, error) {
	p := c.panel(fmt.Sprintf("%s, rings where Δt is too uncertain to tell", c.tables[k].Signal), "bucket S")
	p.Y.Min, p.Y.Max = 0, quantize.NumBuckets-1
	for i, port := range ports {
		c.lines(p, port, i, "", func(s *span) float64 { return float64(s.s[k]) })
		var doubts plotter.XYs
		for j := range port.spans {
			if s := &port.spans[j]; s.doubtful {
				doubts = append(doubts, plotter.XY{X: c.seconds(j), Y: float64(s.s[k])})
			}
		}
		if len(doubts) == 0 {
			continue
		}
		rings, err := plotter.NewScatter(doubts)
		if err != nil {
			return nil, err
		}
		rings.Shape, rings.Radius, rings.Color = draw.RingGlyph{}, vg.Points(2), portColors[i]
		p.Add(rings)
	}
	return p, nil
}

// lines draws a port's values as steps, interrupted where there is nothing to show.
func (c *Chart) lines(p *plot.Plot, port *chartPort, i int, name string, value func(*span) float64) {
	var run plotter.XYs
	flush := func() {
		if len(run) > 1 {
			if l, err := plotter.NewLine(run); err == nil {
				l.StepStyle, l.Color, l.Width = plotter.PostStep, portColors[i], vg.Points(1.2)
				p.Add(l)
				if name != "" {
					p.Legend.Add(name, l)
					name = ""
				}
			}
		}
		run = nil
	}
	var last float64
	for j := range port.spans {
		switch s := &port.spans[j]; {
		case s.readings == 0:
			if len(run) > 0 {
				run = append(run, plotter.XY{X: c.seconds(j + 1), Y: last})
			}
		case !s.known || s.lost:
			flush()
		default:
			last = value(s)
			run = append(run, plotter.XY{X: c.seconds(j), Y: last}, plotter.XY{X: c.seconds(j + 1), Y: last})
		}
	}
	flush()
}

// seconds is when span j starts.
func (c *Chart) seconds(j int) float64 { return float64(j) * c.width.Seconds() }

// roundTicks puts a label at every multiple of 1, 2, 5, 10 …, at most a dozen.
func roundTicks(lo, hi float64) []plot.Tick {
	step := math.Pow10(int(math.Floor(math.Log10(max(hi-lo, 1e-9)))) - 1)
	for i := 0; (hi-lo)/step > 12; i++ {
		step *= []float64{2, 2.5, 2}[i%3]
	}
	var out []plot.Tick
	for k := math.Ceil(lo / step); k*step <= hi+step/1e6; k++ {
		out = append(out, plot.Tick{Value: k * step, Label: fmt.Sprintf("%g", math.Round(k*step*1e6)/1e6)})
	}
	return out
}
