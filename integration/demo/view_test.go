package demo

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func sampleResult() *Result {
	r := &Result{Format: Format, Started: t0, IntervalNS: int64(100 * time.Millisecond), DurationNS: int64(2 * time.Second)}
	for i, name := range []string{"s1:swp3", "s2:swp3"} {
		r.Hops = append(r.Hops, Hop{Locator: name, CapacityBPS: 100_000_000, LoadBPS: uint64(i+1) * 25_000_000, Signals: []HopSignal{{Bucket: 4}, {Bucket: 9}}})
	}
	for i := range 200 {
		p := Probe{Time: at(10 * i), Signal: signals[i%2].String(), S: uint8(i / 10), TruthS: uint8(i / 10), Exact: true, Locator: r.Hops[i/100].Locator, Low: 1_000_000, High: 2_000_000, AgeMS: 70}
		r.Probes = append(r.Probes, p)
		r.Summary.add(&p, true)
	}
	r.Summary.Probes = 200
	return r
}

func TestSVGIsWellFormed(t *testing.T) {
	for name, r := range map[string]*Result{"a run": sampleResult(), "a run without probes": {Format: Format, Started: t0}} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := r.WriteSVG(&b); err != nil {
				t.Fatal(err)
			}
			if len(r.Probes) > 0 && !strings.Contains(b.String(), ">truth<") {
				t.Error("the truth is not in the picture")
			}
			for _, p := range r.Hops {
				if !strings.Contains(b.String(), p.Locator) {
					t.Errorf("the legend does not name %s", p.Locator)
				}
			}
			dec := xml.NewDecoder(&b)
			for {
				if _, err := dec.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestSVGWithoutTruth: what arrived is drawn also where the truth is unknown,
// and no truth is made up there.
func TestSVGWithoutTruth(t *testing.T) {
	r := sampleResult()
	for i := range r.Probes {
		r.Probes[i].Unjudged, r.Probes[i].Exact, r.Probes[i].TruthS = true, false, 0
	}
	var b bytes.Buffer
	if err := r.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), ">truth<") || !strings.Contains(b.String(), ">S by s1:swp3<") {
		t.Error("want what arrived in the picture, and no truth")
	}
}

func TestTerminalRedrawsInPlace(t *testing.T) {
	r := sampleResult()
	for name, size := range map[string][2]int{"80 x 24": {80, 24}, "narrow": {30, 24}, "low": {80, 6}, "untold": {0, 0}, "absurd": {1, 1}} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			columns, rows := size[0], size[1]
			v := view{w: &b, terminal: true, size: func() (int, int) { return columns, rows }}
			f := frame{elapsed: 99 * time.Second, total: 100 * time.Second, step: "hop 1 is busy", hops: r.Hops, summary: r.Summary, arrived: 200}
			f.summary.Unjudged, f.summary.Settling = 100_000, 100_000
			f.last[0], f.last[1] = &r.Probes[0], &r.Probes[199]
			f.last[0].Low, f.last[0].High, f.last[0].AgeMS = 12_500_000, 15_800_000, 12345
			v.draw(&f)
			if columns == 0 {
				columns, rows = 80, 24
			}
			checkLines(t, b.String(), columns, rows)
			if columns == 80 && rows == 24 && !strings.Contains(b.String(), "4 ◀") {
				t.Errorf("the bottleneck is not marked:\n%s", b.String())
			}
			lines := strings.Count(b.String(), "\n")
			b.Reset()
			v.draw(&f)
			if up := fmt.Sprintf("\x1b[%dA\x1b[J", lines); !strings.HasPrefix(b.String(), up) {
				t.Errorf("the second frame begins with %q, want %q", b.String()[:10], up)
			}
			b.Reset()
			columns, rows = 50, 8
			v.draw(&f)
			rest, ok := strings.CutPrefix(b.String(), "\x1b[H\x1b[J")
			if !ok {
				t.Errorf("the frame after a resize begins with %q, want it to clear the screen", b.String()[:10])
			}
			checkLines(t, rest, columns, rows)
		})
	}
}

// checkLines holds a frame against the terminal it is for: no line may wrap,
// and the cursor below the last one may not make the terminal scroll.
func checkLines(t *testing.T, text string, columns, rows int) {
	t.Helper()
	if strings.Contains(text, "\x1b") {
		t.Errorf("the frame moves the cursor: %q", text)
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) > max(rows, 2)-1 {
		t.Errorf("%d lines on a terminal of %d rows", len(lines), rows)
	}
	for _, l := range lines {
		if n := utf8.RuneCountInString(l); n > max(columns, 2)-1 {
			t.Errorf("a line of %d characters on a terminal of %d columns: %q", n, columns, l)
		}
		if !utf8.ValidString(l) {
			t.Errorf("a line cut within a character: %q", l)
		}
	}
}

// TestTableFits: at 80 columns nothing is cut.
func TestTableFits(t *testing.T) {
	r := sampleResult()
	var b bytes.Buffer
	f := frame{elapsed: 999 * time.Second, total: 1000 * time.Second, step: "hop 1 is busy", hops: r.Hops, summary: r.Summary, arrived: 99_999}
	for i := range r.Hops {
		r.Hops[i].CapacityBPS, r.Hops[i].LoadBPS, r.Hops[i].ABWBPS, r.Hops[i].ABWCPPM = 1e9, 999_900_000, 999_900_000, 999_000
		r.Hops[i].Signals[0].Bucket, r.Hops[i].Signals[1].Bucket = 31, 31
		f.last[i] = &Probe{Signal: signals[i].String(), Locator: "s1:swp3", S: 31, Low: 12_500_000, High: 15_800_000, AgeMS: 9999}
	}
	f.last[1].Locator = f.last[0].Locator
	f.summary.Exact, f.summary.Settling, f.summary.Unjudged = 99_999, 9_999, 9_999
	(&view{}).table(&b, &f)
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 79 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
}

func TestSummaryText(t *testing.T) {
	var b bytes.Buffer
	if err := sampleResult().WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"200 probes", "exact", "lost"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the summary lacks %q:\n%s", want, b.String())
		}
	}
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("a line of %d columns: %s", n-1, line)
		}
	}
}
