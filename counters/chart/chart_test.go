package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		most float64
		want []float64
	}{
		{31, []float64{0, 5, 10, 15, 20, 25, 30}},
		{100, []float64{0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100}},
		{1, []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1}},
		{8, []float64{0, 1, 2, 3, 4, 5, 6, 7, 8}},
		{130, []float64{0, 20, 40, 60, 80, 100, 120}},
	} {
		if got := ticks(c.most); !slices.Equal(got, c.want) {
			t.Errorf("ticks to %g: %v, want %v", c.most, got, c.want)
		}
	}
}

// A picture is XML whatever its names hold; a value lies where its scale says,
// and a line holds each value until the next.
func TestWriteSVG(t *testing.T) {
	var b bytes.Buffer
	p := Panel{Title: `<a> & "b"`, X: "seconds", Y: "S", MaxX: 10, MaxY: 31, Right: Axis{"bit/s", []Tick{{15.5, "half"}}}, Series: []Series{
		{Name: "line<1>", Color: Colors[0], Size: 1.2, Runs: [][]XY{{{0, 0}, {5, 31}, {10, 31}}}},
		{Name: "dots", Color: Colors[1], Size: 2, Points: []XY{{5, 15.5}}},
		{Color: Colors[2], Size: 2, Ring: true, Points: []XY{{10, 0}}},
	}}
	if err := WriteSVG(&b, 470, 264, p, p); err != nil {
		t.Fatal(err)
	}
	for dec := xml.NewDecoder(bytes.NewReader(b.Bytes())); ; {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	// The drawing is 400 wide from 56 on, and 200 high from 26 on.
	for _, want := range []string{
		`viewBox="0 0 689 528" role="img"`, `<title>&lt;a&gt; &amp; &#34;b&#34;; `, `<rect width="100%" height="100%" fill="#fff"/>`, `<g transform="translate(0 264)">`,
		`d="M56.0,226.0H256.0V26.0H456.0V26.0" stroke="#0072b2"`,
		`<rect x="254.0" y="124.0" width="4.0" height="4.0" fill="#d55e00"/>`,
		`<path d="M456.0,223.6l2.4,4.2h-4.8z" fill="none" stroke="#009e73"/>`, `<text x="462.0" y="130.0" >half</text>`, `<text x="616.0" y="38.0">line&lt;1&gt;</text>`,
		`>line&lt;1&gt;</text>`,
	} {
		if strings.Count(b.String(), want) < 1 {
			t.Errorf("the picture lacks %s", want)
		}
	}
}

// Series differ without their colours, too.
func TestShapes(t *testing.T) {
	lines, dots := map[string]bool{}, map[string]bool{}
	for i, color := range Colors {
		s := Series{Color: color}
		lines[s.dash()] = true
		if i < 4 {
			var b bytes.Buffer
			s.dot(&b, 0, 0, 2)
			dots[strings.ReplaceAll(b.String(), color, "")] = true
		}
	}
	if len(lines) != len(Colors) || len(dots) != 4 {
		t.Errorf("%d kinds of lines, %d of dots", len(lines), len(dots))
	}
}

// A long name in a legend does not make the drawing narrow.
func TestLegendLines(t *testing.T) {
	for name, want := range map[string][]string{
		"s1, killed often": {"s1, killed often"},
		"S by native hops, Δt 1ms: median 0.7 ms, p99 1 ms": {"S by native hops, Δt 1ms", "median 0.7 ms, p99 1 ms"},
		"an agent that polls every 100 ms":                  {"an agent that polls every 100 ms"},
		"":                                                  {""},
	} {
		if got := legendLines(name); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
