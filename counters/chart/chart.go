// Package chart draws lines and points over time as SVG, panels below each
// other. It knows no more than csig's two pictures need: a plotting library's
// fonts and tables would stay in every agent's memory for years.
package chart

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strings"
)

// Colors are eight that differ for readers who do not see red and green apart.
var Colors = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#785e28", "#5a5a5a"}

// Grey is for what is no port's or hop's.
const (
	Grey      = "#5a5a5a"
	LightGrey = "#bebebe"
)

// XY is a point in a panel's units.
type XY struct{ X, Y float64 }

// Series is one set of values in a panel.
type Series struct {
	Name   string // in the legend; "" for none
	Color  string
	Runs   [][]XY  // lines, in steps: a value holds until the next one
	Points []XY    // dots, or rings
	Size   float64 // of a line's width or a dot's radius, in pixels
	Ring   bool
}

// Panel is a drawing with its axes from 0, or MinY, to MaxX and MaxY.
type Panel struct {
	Title, X, Y string
	MaxX, MaxY  float64
	MinY        float64 // above 0: the Y axis is logarithmic, from here on
	Series      []Series
	LegendLow   bool // at the bottom left instead of the top right
}

// Pixels around a panel's drawing.
const (
	left, right, above, below = 56.0, 14.0, 26.0, 38.0
	lineHeight                = 14.0
)

// WriteSVG writes the panels, each of this size in pixels.
func WriteSVG(w io.Writer, width, height float64, panels ...Panel) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" font-family=\"sans-serif\" font-size=\"11\">\n", width, height*float64(len(panels)))
	fmt.Fprint(b, "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n")
	for i := range panels {
		fmt.Fprintf(b, "<g transform=\"translate(0 %g)\">\n", height*float64(i))
		panels[i].write(b, width, height)
		fmt.Fprint(b, "</g>\n")
	}
	fmt.Fprint(b, "</svg>\n")
	return b.Flush()
}

func (p *Panel) write(b io.Writer, width, height float64) {
	w, h := width-left-right, height-above-below
	x := func(v float64) float64 { return left + w*v/p.MaxX }
	y, yTicks := func(v float64) float64 { return above + h - h*v/p.MaxY }, ticks(p.MaxY)
	if p.MinY > 0 {
		decades := math.Log10(p.MaxY / p.MinY)
		y = func(v float64) float64 { return above + h - h*max(0, min(1, math.Log10(v/p.MinY)/decades)) }
		yTicks = powers(p.MinY, p.MaxY)
	}
	text := func(x, y float64, how, s string) {
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\" %s>%s</text>\n", x, y, how, escape(s))
	}
	for _, v := range ticks(p.MaxX) {
		fmt.Fprintf(b, "<path d=\"M%.1f,%.1fv%.1f\" stroke=\"#ddd\"/>\n", x(v), above, h)
		text(x(v), above+h+14, `text-anchor="middle"`, fmt.Sprintf("%g", v))
	}
	for _, v := range yTicks {
		fmt.Fprintf(b, "<path d=\"M%.1f,%.1fh%.1f\" stroke=\"#ddd\"/>\n", left, y(v), w)
		text(left-6, y(v)+4, `text-anchor="end"`, fmt.Sprintf("%g", v))
	}
	fmt.Fprintf(b, "<path d=\"M%.1f,%.1fv%.1fh%.1f\" stroke=\"#555\" fill=\"none\"/>\n", left, above, h, w)
	text(left+w/2, 16, `text-anchor="middle" font-size="13"`, p.Title)
	text(left+w/2, height-6, `text-anchor="middle"`, p.X)
	text(0, 0, fmt.Sprintf(`text-anchor="middle" transform="translate(14 %.1f) rotate(-90)"`, above+h/2), p.Y)
	for i := range p.Series {
		s := &p.Series[i]
		for _, run := range s.Runs {
			fmt.Fprintf(b, "<path d=\"%s\" stroke=\"%s\" stroke-width=\"%g\" fill=\"none\"/>\n", steps(run, x, y), s.Color, s.Size)
		}
		for _, at := range s.Points {
			s.dot(b, x(at.X), y(at.Y), s.Size)
		}
	}
	p.legend(b, w, h)
}

// steps is the path of a run: across at the old value, then up or down.
func steps(run []XY, x, y func(float64) float64) string {
	var d strings.Builder
	for i, at := range run {
		if i == 0 {
			fmt.Fprintf(&d, "M%.1f,%.1f", x(at.X), y(at.Y))
			continue
		}
		fmt.Fprintf(&d, "H%.1fV%.1f", x(at.X), y(at.Y))
	}
	return d.String()
}

func (s *Series) dot(b io.Writer, x, y, r float64) {
	paint := fmt.Sprintf("fill=%q", s.Color)
	if s.Ring {
		paint = fmt.Sprintf("fill=\"none\" stroke=%q", s.Color)
	}
	fmt.Fprintf(b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%g\" %s/>\n", x, y, r, paint)
}

// legend names the series: on the right at the top, or on the left at the bottom.
func (p *Panel) legend(b io.Writer, w, h float64) {
	var named []*Series
	for i := range p.Series {
		if p.Series[i].Name != "" {
			named = append(named, &p.Series[i])
		}
	}
	x, y, anchor, sample := left+w-28, above+12, "end", left+w-22
	if p.LegendLow {
		x, y, anchor, sample = left+32, above+h-lineHeight*float64(len(named))+6, "start", left+8
	}
	for i, s := range named {
		at := y + lineHeight*float64(i)
		if len(s.Runs) > 0 {
			fmt.Fprintf(b, "<path d=\"M%.1f,%.1fh18\" stroke=\"%s\" stroke-width=\"%g\"/>\n", sample, at-4, s.Color, s.Size)
		} else {
			s.dot(b, sample+9, at-4, 3.5)
		}
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, at, anchor, escape(s.Name))
	}
}

// ticks are the multiples of 1, 2 or 5 times a power of ten up to most, a dozen
// at most.
func ticks(most float64) []float64 {
	step := math.Pow10(int(math.Floor(math.Log10(most))) - 1)
	for i := 0; most/step > 12; i++ {
		step *= []float64{2, 2.5, 2}[i%3]
	}
	var out []float64
	for k := 0.0; k*step <= most*(1+1e-9); k++ {
		out = append(out, math.Round(k*step*1e6)/1e6)
	}
	return out
}

// powers are the powers of ten from least to most.
func powers(least, most float64) (out []float64) {
	for n := math.Ceil(math.Log10(least) - 1e-9); math.Pow10(int(n)) <= most*(1+1e-9); n++ {
		out = append(out, math.Pow10(int(n)))
	}
	return out
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder takes everything
	return b.String()
}
