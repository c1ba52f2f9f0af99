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
	"slices"
	"strings"
	"unicode/utf8"
)

// Colors are eight that differ for readers who do not see red and green apart.
var Colors = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#785e28", "#5a5a5a"}

// dashes tell lines apart without their colours, as the shapes of dots do: each colour has its own.
var dashes = []string{"", "8 3", "2 3", "10 3 2 3", "5 2", "1 2", "14 3", "6 2 1 2"}

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
	Right       Axis
}

// Axis is a second one for the same drawing, on its right: what values of Y are in another unit.
type Axis struct {
	Title string // "" for no such axis
	Ticks []Tick
}

// Tick is a place of an Axis in the panel's Y.
type Tick struct {
	Y    float64
	Text string
}

// BandwidthAxis is an axis for buckets of an available bandwidth: the least of each, in bit/s.
func BandwidthAxis(buckets int, least func(s uint8) uint64) Axis {
	out := Axis{Title: "available, from"}
	for s := 0; s < buckets; s += 5 {
		out.Ticks = append(out.Ticks, Tick{Y: float64(s), Text: BitRate(float64(least(uint8(s))))})
	}
	return out
}

// BitRate writes a rate with its unit.
func BitRate(v float64) string {
	prefix := ""
	for _, p := range []string{"k", "M", "G", "T"} {
		if v < 999.5 {
			break
		}
		v, prefix = v/1000, p
	}
	return fmt.Sprintf("%.3g %sbit/s", v, prefix)
}

// Pixels around a panel's drawing.
const (
	left, right, above, below = 56.0, 14.0, 26.0, 38.0
	lineHeight                = 20.0
	rightAxis                 = 116.0 // of a second axis, where a panel has one
	letter                    = 9.0   // of the larger text, on average
)

// style has fonts that exist on the systems of readers, and larger text where the picture is
// shown small.
const style = `<style>text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",Arial,sans-serif}@media (max-width:600px){text{font-size:16px}}</style>` + "\n"

// WriteSVG writes the panels below each other, each of this size in pixels, and beside them
// second axes and legends.
func WriteSVG(w io.Writer, width, height float64, panels ...Panel) error {
	b := bufio.NewWriter(w)
	beside, axis := 0.0, 0.0
	var titles []string
	for i := range panels {
		p := &panels[i]
		titles = append(titles, p.Title)
		if p.Right.Title != "" {
			axis = rightAxis
		}
		for _, s := range p.named() {
			for _, line := range legendLines(s.Name) {
				beside = max(beside, 40+letter*float64(utf8.RuneCountInString(line)))
			}
		}
	}
	fmt.Fprintf(b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" role=\"img\" font-family=\"sans-serif\" font-size=\"11\">\n", math.Ceil(width+axis+beside), height*float64(len(panels)))
	fmt.Fprintf(b, "<title>%s</title>\n%s<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", escape(strings.Join(titles, "; ")), style)
	for i := range panels {
		fmt.Fprintf(b, "<g transform=\"translate(0 %g)\">\n", height*float64(i))
		panels[i].write(b, width, height)
		panels[i].legend(b, width+axis)
		fmt.Fprint(b, "</g>\n")
	}
	fmt.Fprint(b, "</svg>\n")
	return b.Flush()
}

// named are the series for the legend.
func (p *Panel) named() (out []*Series) {
	for i := range p.Series {
		if p.Series[i].Name != "" {
			out = append(out, &p.Series[i])
		}
	}
	return out
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
	if p.Right.Title != "" {
		for _, tick := range p.Right.Ticks {
			text(left+w+6, y(tick.Y)+4, "", tick.Text)
		}
		text(0, 0, fmt.Sprintf(`text-anchor="middle" transform="translate(%.1f %.1f) rotate(90)"`, left+w+rightAxis-8, above+h/2), p.Right.Title)
	}
	for i := range p.Series {
		s := &p.Series[i]
		fmt.Fprint(b, "<g>")
		if s.Name != "" {
			fmt.Fprintf(b, "<title>%s</title>", escape(s.Name))
		}
		for _, run := range s.Runs {
			fmt.Fprintf(b, "<path d=\"%s\" stroke=\"%s\" stroke-width=\"%g\" fill=\"none\"%s/>\n", steps(run, x, y), s.Color, s.Size, s.dash())
		}
		for _, at := range s.Points {
			s.dot(b, x(at.X), y(at.Y), s.Size)
		}
		fmt.Fprintln(b, "</g>")
	}
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

// dash is how a line of that colour is interrupted.
func (s *Series) dash() string {
	if i := slices.Index(Colors, s.Color); i > 0 {
		return fmt.Sprintf(" stroke-dasharray=%q", dashes[i])
	}
	return ""
}

// dot is a circle, a square, a triangle or a diamond, by its colour.
func (s *Series) dot(b io.Writer, x, y, r float64) {
	paint := fmt.Sprintf("fill=%q", s.Color)
	if s.Ring {
		paint = fmt.Sprintf("fill=\"none\" stroke=%q", s.Color)
	}
	switch slices.Index(Colors, s.Color) % 4 {
	case 1:
		fmt.Fprintf(b, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" %s/>\n", x-r, y-r, 2*r, 2*r, paint)
	case 2:
		fmt.Fprintf(b, "<path d=\"M%.1f,%.1fl%.1f,%.1fh%.1fz\" %s/>\n", x, y-1.2*r, 1.2*r, 2.1*r, -2.4*r, paint)
	case 3:
		fmt.Fprintf(b, "<path d=\"M%.1f,%.1fl%.1f,%.1fl%.1f,%.1fl%.1f,%.1fz\" %s/>\n", x, y-1.3*r, 1.3*r, 1.3*r, -1.3*r, 1.3*r, -1.3*r, -1.3*r, paint)
	default:
		fmt.Fprintf(b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%g\" %s/>\n", x, y, r, paint)
	}
}

// legend names the series, right of the drawing and its second axis.
func (p *Panel) legend(b io.Writer, x float64) {
	at := above + 12
	for _, s := range p.named() {
		if len(s.Runs) > 0 {
			fmt.Fprintf(b, "<path d=\"M%.1f,%.1fh24\" stroke=\"%s\" stroke-width=\"%g\"%s/>\n", x, at-4, s.Color, max(s.Size, 2), s.dash())
		} else {
			s.dot(b, x+12, at-4, 3.5)
		}
		for _, line := range legendLines(s.Name) {
			fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\">%s</text>\n", x+30, at, escape(line))
			at += lineHeight
		}
	}
}

// legendLines is a name in lines: a long one is broken behind its colon, so that it takes no
// width from the drawing.
func legendLines(name string) []string {
	if before, after, found := strings.Cut(name, ": "); found && utf8.RuneCountInString(name) > 26 {
		return []string{before, after}
	}
	return []string{name}
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
