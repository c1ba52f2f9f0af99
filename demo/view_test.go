package demo

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/csig-agent/csig/quantize"
)

func sampleResult() *Result {
	r := &Result{Format: Format, Started: t0, IntervalNS: int64(100 * time.Millisecond), DurationNS: int64(2 * time.Second)}
	for i, name := range []string{"s1:swp3", "s2:swp3"} {
		r.Hops = append(r.Hops, Hop{Locator: name, CapacityBPS: 100_000_000, LoadBPS: uint64(i+1) * 25_000_000, Signals: []HopSignal{{Bucket: 4}, {Bucket: 9}}})
	}
	for i := range 200 {
		p := Probe{Time: at(10 * i), Signal: signals[i%2].String(), S: uint8(i / 10), TruthS: uint8(i / 10), Exact: true, Locator: r.Hops[i/100].Locator, Low: 1_000_000, High: 2_000_000, Age: 70 * time.Millisecond}
		r.Probes = append(r.Probes, p)
		r.Summary.add(&p, true)
	}
	r.Summary.Probes = 200
	abw, err := quantize.Preset(quantize.MinABW, "log-100M")
	if err != nil {
		panic(err)
	}
	r.abw = &abw
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
			if axis := strings.Contains(b.String(), ">22.4 Mbit/s<"); axis != (r.abw != nil) {
				t.Errorf("an axis in bit/s: %t", axis)
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

func TestBottleneckIsMarked(t *testing.T) {
	r := sampleResult()
	f := frame{elapsed: 99 * time.Second, total: 100 * time.Second, step: "hop 1 is busy", hops: r.Hops, summary: r.Summary, arrived: 200}
	f.last[0], f.last[1] = &r.Probes[0], &r.Probes[199]
	var b bytes.Buffer
	f.table(&b)
	if !strings.Contains(b.String(), "4 ◀") {
		t.Errorf("the bottleneck is not marked:\n%s", b.String())
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
		f.last[i] = &Probe{Signal: signals[i].String(), Locator: "s1:swp3", S: 31, Low: 12_500_000, High: 15_800_000, Age: 9999 * time.Millisecond}
	}
	f.last[1].Locator = f.last[0].Locator
	f.summary.Exact, f.summary.Settling, f.summary.Unjudged = 99_999, 9_999, 9_999
	f.table(&b)
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

func TestVerdictSaysWhatIsWrong(t *testing.T) {
	for want, s := range map[string]Summary{
		"Verdict: right. All 9 steady":                      {Probes: 12, Exact: 9, Settling: 3},
		"of 9 steady probes 2 had a wrong bandwidth, 1 a w": {Probes: 12, Exact: 7, Settling: 3, WrongLocator: 1},
		"too short to judge":                                {Probes: 3, Settling: 3},
	} {
		if got := s.verdict(); !strings.Contains(got, want) {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
}
