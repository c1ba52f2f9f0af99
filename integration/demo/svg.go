package demo

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/csig-agent/csig/quantize"
)

// Colours that differ for readers who do not see red and green apart: one for
// each locator, and a quiet one for the truth behind them.
var (
	truthColor = color.RGBA{R: 190, G: 190, B: 190, A: 255}
	hopColors  = []color.RGBA{{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}}
	noneColor  = color.RGBA{R: 90, G: 90, B: 90, A: 255}
)

// WriteSVG draws the run over time, a panel a signal: the truth as a broad
// line, and what the receiver read as points coloured by the hop that the
// locator names.
func (r *Result) WriteSVG(w io.Writer) error {
	canvas := vgsvg.New(9*vg.Inch, 6*vg.Inch)
	dc := draw.New(canvas)
	tiles := draw.Tiles{Rows: len(signals), Cols: 1, PadX: vg.Points(6), PadY: vg.Points(10), PadTop: vg.Points(6), PadBottom: vg.Points(6), PadLeft: vg.Points(6), PadRight: vg.Points(6)}
	plots := make([][]*plot.Plot, len(signals))
	for i, sig := range signals {
		p, err := r.panel(sig)
		if err != nil {
			return fmt.Errorf("drawing signal %s: %w", sig, err)
		}
		plots[i] = []*plot.Plot{p}
	}
	for i, row := range plot.Align(plots, tiles, dc) {
		plots[i][0].Draw(row[0])
	}
	_, err := canvas.WriteTo(w)
	return err
}

func (r *Result) panel(sig quantize.Signal) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = map[quantize.Signal]string{
		quantize.MinABW:  "min(ABW): least available bandwidth on the path",
		quantize.MinABWC: "min(ABW/C): least available share of a link on the path",
	}[sig]
	p.X.Label.Text = "seconds"
	p.X.Max = time.Duration(r.DurationNS).Seconds()
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(wholeTicks), plot.TickerFunc(wholeTicks)
	p.Y.Label.Text = "bucket S"
	p.Y.Min, p.Y.Max = 0, quantize.NumBuckets-1
	p.Legend.Padding, p.Legend.ThumbnailWidth, p.Legend.XOffs = vg.Points(3), vg.Points(18), vg.Points(10)
	p.Legend.Top, p.Legend.Left = false, true // S is seldom that low
	p.Add(plotter.NewGrid())

	var line plotter.XYs
	points := map[string]plotter.XYs{}
	for i := range r.Probes {
		pr := &r.Probes[i]
		if pr.Signal != sig.String() {
			continue
		}
		t := pr.Time.Sub(r.Started).Seconds()
		if !pr.Unjudged {
			line = append(line, plotter.XY{X: t, Y: float64(pr.TruthS)})
		}
		points[pr.Locator] = append(points[pr.Locator], plotter.XY{X: t, Y: float64(pr.S)})
	}
	if len(line) > 0 {
		truth, err := plotter.NewLine(line)
		if err != nil {
			return nil, err
		}
		truth.StepStyle = plotter.PostStep
		truth.Width, truth.Color = vg.Points(5), truthColor
		p.Add(truth)
		p.Legend.Add("truth", truth)
	}

	for _, name := range sortedKeys(points) {
		s, err := plotter.NewScatter(points[name])
		if err != nil {
			return nil, err
		}
		s.Shape, s.Radius, s.Color = draw.CircleGlyph{}, vg.Points(1.3), r.color(name)
		p.Add(s)
		key := *s
		key.Radius = vg.Points(3.5)
		p.Legend.Add("S by "+name, &key)
	}
	return p, nil
}

// wholeTicks puts a label at every multiple of 1, 2, 5, 10 …, at most a dozen.
func wholeTicks(lo, hi float64) []plot.Tick {
	every := 1
	for i := 0; (hi-lo)/float64(every) > 12; i++ {
		every = []int{1, 2, 5}[(i+1)%3] * int(math.Pow10((i+1)/3))
	}
	var out []plot.Tick
	for v := int(math.Ceil(lo/float64(every))) * every; float64(v) <= hi; v += every {
		out = append(out, plot.Tick{Value: float64(v), Label: strconv.Itoa(v)})
	}
	return out
}

// color is the same for a hop in every panel and run.
func (r *Result) color(locator string) color.Color {
	for i := range r.Hops {
		if r.Hops[i].Locator == locator {
			return hopColors[i%len(hopColors)]
		}
	}
	return noneColor
}

func sortedKeys(m map[string]plotter.XYs) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
