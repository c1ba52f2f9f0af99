package demo

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
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

func TestTerminalRedrawsInPlace(t *testing.T) {
	r := sampleResult()
	var b bytes.Buffer
	v := view{w: &b, terminal: true}
	f := frame{total: time.Second, step: "hop 1 is busy", hops: r.Hops, summary: r.Summary, arrived: 200}
	f.last[0] = &r.Probes[0]
	v.draw(&f)
	first := strings.Count(b.String(), "\n")
	if strings.Contains(b.String(), "\x1b") || first != v.lines {
		t.Errorf("the first frame moves the cursor, or its %d lines are counted as %d", first, v.lines)
	}
	if !strings.Contains(b.String(), "4 ◀") {
		t.Errorf("the bottleneck is not marked:\n%s", b.String())
	}
	b.Reset()
	v.draw(&f)
	if !strings.HasPrefix(b.String(), "\x1b[11A\x1b[J") {
		t.Errorf("the second frame begins with %q", b.String()[:10])
	}
}

func TestSummaryText(t *testing.T) {
	var b bytes.Buffer
	if err := sampleResult().WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"200 probes", "exact", "lost"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the summary does not say %q:\n%s", want, b.String())
		}
	}
}
