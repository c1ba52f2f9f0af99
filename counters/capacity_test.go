package counters

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
)

const mbps = 1_000_000

// at89 is the reading after so many seconds of a port that sends 89 Mbit/s and reports a speed.
func at89(step int, speed uint64) Sample {
	return Sample{
		Port: "swp1", Octets: uint64(step) * 89 * mbps / 8, Speed: speed, Up: true, At: epoch0.Add(time.Duration(step) * time.Second), Bits: 64, Live: true,
		Packets: uint64(step) * 10_000,
	}
}

// portAt is a pipeline of one port.
func portAt(t *testing.T, p PipelinePort) *Pipeline {
	t.Helper()
	table, err := quantize.Preset(quantize.MinABWC, "log")
	if err != nil {
		t.Fatal(err)
	}
	p.Name = "swp1"
	pipe, err := NewPipeline(PipelineConfig{Ports: []PipelinePort{p}, Interval: time.Second, Tables: []*quantize.Buckets{&table}})
	if err != nil {
		t.Fatal(err)
	}
	return pipe
}

func take(p *Pipeline, s Sample) *PortState {
	list := []Sample{s}
	p.Observe(list)
	return p.Take(0, &list[0])
}

func TestCapacityIsTheSmallerOfFileAndDevice(t *testing.T) {
	for _, test := range []struct {
		name     string
		port     PipelinePort
		reported uint64
		capacity uint64
		slow     uint64
	}{
		{"the link negotiated down", PipelinePort{Speed: 1000 * mbps}, 100 * mbps, 100 * mbps, 100 * mbps},
		{"a part of the link is configured", PipelinePort{Speed: 500 * mbps}, 1000 * mbps, 500 * mbps, 0},
		{"both say the same", PipelinePort{Speed: 1000 * mbps}, 1000 * mbps, 1000 * mbps, 0},
		{"the device does not know", PipelinePort{Speed: 1000 * mbps}, 0, 1000 * mbps, 0},
		{"the file does not know", PipelinePort{}, 100 * mbps, 100 * mbps, 0},
		{"an override, of too little", PipelinePort{Speed: 1000 * mbps, Override: true}, 10 * mbps, 1000 * mbps, 0},
		{"an override, of too much", PipelinePort{Speed: 1000 * mbps, Override: true}, 400_000 * mbps, 1000 * mbps, 0},
	} {
		for _, method := range []Method{Raw, EWMA, DRE} {
			p := portAt(t, test.port)
			p.cfg.Method = method
			p.Restart(0)
			take(p, at89(0, test.reported))
			got := take(p, at89(1, test.reported))
			if got.Now.State != OK || got.Now.Capacity != test.capacity || got.Now.ABW != test.capacity-89*mbps || got.Slow != test.slow {
				t.Errorf("%s, %v: %v, capacity %d, ABW %d, slow %d; want ok, %d, %d, %d (%s)", test.name, method, got.Now.State, got.Now.Capacity, got.Now.ABW, got.Slow,
					test.capacity, test.capacity-89*mbps, test.slow, got.Now.Reason)
			}
			if want := ppm(test.capacity-89*mbps, test.capacity); got.Now.ABWC != want {
				t.Errorf("%s, %v: ABW/C %d, want %d", test.name, method, got.Now.ABWC, want)
			}
		}
	}
}

// A window has the smallest capacity of its time: one that ends on a slower link has that link's, and
// a faster link begins another window. What is reported beyond the configured speed changes nothing.
func TestLinkSpeedChangesMeanwhile(t *testing.T) {
	p := portAt(t, PipelinePort{Speed: 1000 * mbps})
	for i, step := range []struct {
		reported uint64
		state    State
		capacity uint64
		slow     uint64
	}{
		{1000 * mbps, First, 1000 * mbps, 0},
		{1000 * mbps, OK, 1000 * mbps, 0},
		{10_000 * mbps, OK, 1000 * mbps, 0},
		{0, OK, 1000 * mbps, 0},
		{100 * mbps, OK, 100 * mbps, 100 * mbps},
		{100 * mbps, OK, 100 * mbps, 100 * mbps},
		{1000 * mbps, Discontinuity, 1000 * mbps, 0},
		{1000 * mbps, OK, 1000 * mbps, 0},
	} {
		got := take(p, at89(i, step.reported))
		if got.Now.State != step.state || got.Now.Capacity != step.capacity || got.Slow != step.slow {
			t.Errorf("step %d: %v (%s), capacity %d, slow %d; want %+v", i, got.Now.State, got.Now.Reason, got.Now.Capacity, got.Slow, step)
		}
		if step.state == OK && got.Now.ABW != step.capacity-89*mbps {
			t.Errorf("step %d: ABW %d", i, got.Now.ABW)
		}
		if step.state == Discontinuity && !strings.Contains(got.Now.Reason, "link speed changed") {
			t.Errorf("step %d: %q", i, got.Now.Reason)
		}
	}
}

// A reading that fails says nothing about the link: it is as slow as it was.
func TestFailedReadingKeepsCapacity(t *testing.T) {
	p := portAt(t, PipelinePort{Speed: 1000 * mbps})
	take(p, at89(0, 100*mbps))
	got := take(p, Sample{Port: "swp1", At: epoch0.Add(time.Second), Err: errors.New("no answer")})
	if got.Now.State != Error || got.Now.Capacity != 100*mbps || got.Slow != 100*mbps {
		t.Errorf("%v, capacity %d, slow %d", got.Now.State, got.Now.Capacity, got.Slow)
	}
	down := at89(2, 10*mbps)
	down.Up = false
	if got = take(p, down); got.Now.State != Down || got.Slow != 0 {
		t.Errorf("%v, slow %d: a link that is down has no speed", got.Now.State, got.Slow)
	}
}

// More than the device's speed can carry is counted: the window is doubtful, and no new one, so that
// a device that reports nonsense is measured.
func TestMoreThanReportedSpeedIsDoubtful(t *testing.T) {
	p := portAt(t, PipelinePort{Speed: 1000 * mbps})
	take(p, at89(0, 10*mbps))
	got := take(p, at89(1, 10*mbps))
	if got.Now.State != OK || got.Now.ABW != 0 || !got.Signals[0].Range.Doubtful() || got.Slow != 10*mbps {
		t.Errorf("%v (%s), ABW %d, %+v", got.Now.State, got.Now.Reason, got.Now.ABW, got.Signals)
	}
}

// What a 32-bit counter may have wrapped between two readings goes by the faster of the two speeds.
func TestWrapsGoByTheFasterSpeed(t *testing.T) {
	p := portAt(t, PipelinePort{Speed: 100_000 * mbps})
	for i, want := range []State{First, Error} {
		s := at89(i, 100*mbps)
		s.Bits = 32
		if got := take(p, s); got.Now.State != want {
			t.Errorf("step %d: %v (%s), want %v", i, got.Now.State, got.Now.Reason, want)
		}
	}
}
