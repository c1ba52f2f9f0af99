package trace

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/quantize"
)

// cached is a trace of an agent that refreshes every 5 s and is read each second: 30 %,
// then from the 60th second on 80 % load on one port, none on the other.
func cached(t testing.TB, n int) []byte {
	h := Header{Device: "leaf1", Source: "snmp", IntervalNS: 1e9, Ports: []string{"swp1", "swp2"}}
	var readings []Reading
	for i := range n {
		at := start.Add(time.Duration(i) * time.Second)
		shown := uint64(max(i-2, 0) / 5 * 5)
		sent := shown * 37_500 // frames of 976 octets and 24 of overhead
		if shown > 60 {
			sent = 60*37_500 + (shown-60)*100_000
		}
		readings = append(readings, Reading{Read: at, Took: 2 * time.Millisecond, Samples: []counters.Sample{
			{Port: "swp1", Octets: sent * 976, Packets: sent, Speed: 1e9, Up: true, At: at.Add(time.Millisecond), Bits: 64, Overhead: 24},
			{Port: "swp2", Speed: 1e9, Up: i < 100, At: at.Add(time.Millisecond), Bits: 64, Overhead: 24},
		}})
	}
	file, _ := record(t, h, readings, RecorderConfig{})
	return file
}

func reader(t testing.TB, file []byte) *Reader {
	t.Helper()
	r, err := NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func tables(t testing.TB) []*quantize.Buckets {
	t.Helper()
	abw, err := quantize.Preset(quantize.MinABW, "log-10G")
	if err != nil {
		t.Fatal(err)
	}
	abwc, err := quantize.Preset(quantize.MinABWC, "log")
	if err != nil {
		t.Fatal(err)
	}
	return []*quantize.Buckets{&abw, &abwc}
}

func TestPlayIsDeterministic(t *testing.T) {
	file := cached(t, 120)
	run := func() string {
		var out strings.Builder
		sum, err := Play(reader(t, file), counters.PipelineConfig{Tables: tables(t), Damping: counters.Damping{Hold: 2}}, func(s *Step) error {
			for _, p := range s.Ports {
				fmt.Fprintf(&out, "%v %s %+v %+v\n", s.Read, p.Port, p.Now, p.Signals)
			}
			return nil
		})
		fmt.Fprintf(&out, "%+v %v", sum, err)
		return out.String()
	}
	if a, b := run(), run(); a != b {
		t.Error("the same trace gave different steps")
	}
}

func TestPlayLearnsTheRefreshPeriod(t *testing.T) {
	file := cached(t, 120)
	for _, m := range []counters.Method{counters.Raw, counters.EWMA, counters.DRE} {
		valid, doubtful := 0, 0
		sum, err := Play(reader(t, file), counters.PipelineConfig{Method: m, Tables: tables(t)}, func(s *Step) error {
			p := &s.Ports[0]
			if p.Now.State != counters.OK {
				return nil
			}
			valid++
			if p.Signals[0].Range.Doubtful() {
				doubtful++
			}
			if load := p.Now.Load(); load < 200e6 || load > 1e9 {
				t.Errorf("%v: load %d", s.Read, load)
			}
			return nil
		})
		if err != nil || sum.Damaged != nil || sum.Readings != 120 || sum.Failed != 0 || valid < 20 || doubtful == 0 {
			t.Errorf("%v: %+v, %v, %d valid, %d doubtful", m, sum, err, valid, doubtful)
		}
		if st := sum.Refresh; (st.Period-5*time.Second).Abs() > st.PeriodError || st.PeriodError > time.Second { // what no reading between two of the schedule can better
			t.Errorf("%v: %+v", m, st)
		}
	}
	if zero := zeroAsRead(t, file, counters.EstimatorConfig{Interval: time.Second}); zero < 80 {
		t.Errorf("without learning %d readings of no load", zero)
	}
}

// zeroAsRead counts the windows of the first port without load where the samples' times
// are taken as they are.
func zeroAsRead(t *testing.T, file []byte, cfg counters.EstimatorConfig) (zero int) {
	t.Helper()
	all, err := readAll(t, file)
	if err != nil {
		t.Fatal(err)
	}
	est := counters.NewEstimator(cfg)
	for i := range all {
		if len(all[i].Samples) == 0 {
			continue
		}
		if e := est.Update(all[i].Samples[0]); e.State == counters.OK && e.Load() == 0 {
			zero++
		}
	}
	return zero
}

func TestPlayStopsWhenToldTo(t *testing.T) {
	stop := errors.New("enough")
	if sum, err := Play(reader(t, cached(t, 50)), counters.PipelineConfig{}, func(*Step) error { return stop }); !errors.Is(err, stop) || sum.Readings != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
}

func TestPlayTakesSpeedsByPort(t *testing.T) {
	_, err := Play(reader(t, cached(t, 30)), counters.PipelineConfig{Ports: []counters.PipelinePort{{Name: "swp1"}, {Name: "swp2", Speed: 5e8}}}, func(s *Step) error {
		if c := s.Ports[1].Now.Capacity; c != 5e8 {
			t.Fatalf("capacity %d", c)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func chartOf(t testing.TB, file []byte, ports ...string) *Chart {
	t.Helper()
	r := reader(t, file)
	c, err := NewChart(r.Header(), tables(t), ports...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Play(r, counters.PipelineConfig{Tables: tables(t)}, func(s *Step) error { c.Add(s); return nil }); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestChartAsText(t *testing.T) {
	var b bytes.Buffer
	if err := chartOf(t, cached(t, 120)).WriteText(&b, 66); err != nil {
		t.Fatal(err)
	}
	got := b.String()
	t.Log("\n" + got)
	lines := strings.Split(got, "\n")
	for _, want := range []string{"swp1  ", "abw   ", "abwc  ", "peak load 80.0 % of the capacity", "leaf1, 2026-03-04 05:06:07.000Z to 2026-03-04 05:08:06.000Z (1m59s)", "~ doubtful", "_ link down"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if !strings.HasSuffix(strings.TrimRight(lines[0], " "), "▇▇▇▇") || !strings.Contains(lines[0], "▃▃▃▃▃▃") || strings.Contains(lines[0], "▁") {
		t.Errorf("load: %s", lines[0])
	}
	if !strings.HasSuffix(lines[5], "______") {
		t.Errorf("the link that went down: %s", lines[5])
	}
}

func TestChartKeepsPeaksInLittleMemory(t *testing.T) {
	h := &Header{Device: "d", Ports: []string{"p", "q"}}
	c, err := NewChart(h, nil)
	if err != nil {
		t.Fatal(err)
	}
	step := Step{Ports: []PortStep{{Port: "p"}, {Port: "q"}}}
	for i := range 200_000 {
		step.Read = start.Add(time.Duration(i) * time.Second)
		for j := range step.Ports {
			e := counters.Estimate{State: counters.OK, Start: step.Read.Add(-time.Second), End: step.Read, Capacity: 1e9, Bits: 1e8}
			if i == 123_456 && j == 1 {
				e.Bits = 9e8
			}
			step.Ports[j].Now, step.Ports[j].Known = e, true
		}
		c.Add(&step)
	}
	if n := len(c.ports[0].spans); n > maxSpans || n < maxSpans/4 {
		t.Errorf("%d spans", n)
	}
	var b bytes.Buffer
	if err := c.WriteText(&b, 80); err != nil || !strings.Contains(b.String(), "peak load 90.0 %") {
		t.Errorf("%v\n%s", err, b.String())
	}
	if _, err := NewChart(h, nil, "swp99"); err == nil || !strings.Contains(err.Error(), "port swp99 is not in the trace of device d") {
		t.Error(err)
	}
}

func TestChartAsSVG(t *testing.T) {
	var b bytes.Buffer
	left, err := chartOf(t, cached(t, 120)).WriteSVG(&b)
	if err != nil || left != 0 {
		t.Fatal(left, err)
	}
	dec := xml.NewDecoder(bytes.NewReader(b.Bytes()))
	paths := 0
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := tok.(xml.StartElement); ok && e.Name.Local == "path" {
			paths++
		}
	}
	if paths < 20 || !strings.Contains(b.String(), "leaf1: load from 2026-03-04") {
		t.Errorf("%d paths", paths)
	}
	h := &Header{Device: "d"}
	for i := range 12 {
		h.Ports = append(h.Ports, fmt.Sprintf("p%d", i))
	}
	c, err := NewChart(h, nil)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := c.WriteSVG(io.Discard); err != nil || left != 4 {
		t.Errorf("an empty chart: %d left out, %v", left, err)
	}
}

func BenchmarkRecord512(b *testing.B) {
	h := Header{Device: "d"}
	var samples []counters.Sample
	for i := range 512 {
		h.Ports = append(h.Ports, fmt.Sprintf("swp%d", i))
		samples = append(samples, counters.Sample{Port: h.Ports[i], Octets: uint64(i) * 1e9, Packets: uint64(i) * 1e6, Speed: 1e11, Up: true, At: start, Bits: 64, Overhead: 20})
	}
	var out limited
	out.w, out.left = io.Discard, 1<<62
	rec, err := NewRecorder(nil, &out, RecorderConfig{Header: h, MaxBytes: 1 << 62})
	if err != nil {
		b.Fatal(err)
	}
	rec.flushed = start
	now := start
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Second)
		for i := range samples {
			samples[i].At = now
			samples[i].Octets += uint64(1_000_003 * (i + 1))
			samples[i].Packets += uint64(1_003 * (i + 1))
		}
		rec.record(&Reading{Read: now, Took: time.Millisecond, Samples: samples}, now)
	}
	if rec.Err() != nil {
		b.Fatal(rec.Err())
	}
	b.ReportMetric(float64(1<<62-out.left)/float64(b.N), "file-B/reading")
}

// What was never read has no load, rather than one of 0.
func TestPeakOfNothing(t *testing.T) {
	for _, c := range []struct {
		want  string
		spans []span
	}{
		{"peak load 0.0 % of the capacity", []span{{readings: 1, lost: true}, {readings: 1, known: true}}},
		{"peak load 80.0 % of the capacity", []span{{readings: 1, known: true, used: 800_000}, {readings: 1, known: true, down: true}}},
		{"no load: nothing could be read", []span{{readings: 1, lost: true}}},
		{"no load: the link was down", []span{{readings: 1, known: true, down: true}, {readings: 1, lost: true}}},
		{"no load: no two readings to compare", []span{{readings: 1}}},
	} {
		if got := peakText(c.spans); got != c.want {
			t.Errorf("%+v: %q, want %q", c.spans, got, c.want)
		}
	}
}
