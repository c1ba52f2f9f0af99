package demo

import (
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
)

// TestSettling: a step takes from 1000 ms to 1010 ms to set up and its burst
// 5 ms to leave; probes on their way until 2 Δt later are settling.
func TestSettling(t *testing.T) {
	r := &runner{o: Options{Interval: 100 * time.Millisecond}}
	r.stepBegin = []time.Time{at(0), at(1000)}
	r.res.Steps = []Step{{Time: at(10), Burst: 5 * time.Millisecond}, {Time: at(1010), Burst: 5 * time.Millisecond}}
	for _, tt := range []struct {
		name          string
		sent, arrived int
		want          bool
	}{
		{"before everything", -20, -10, true},
		{"in the first step", 100, 101, true},
		{"long after it", 900, 901, false},
		{"there just before the next", 998, 999, false},
		{"on its way at the next", 998, 1000, true},
		{"while the step is set up", 1005, 1006, true},
		{"within two windows", 1209, 1211, true},
		{"two windows after the setup, in the burst's time", 1214, 1216, true},
		{"two windows after the burst", 1215, 1216, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := r.settling(received{sent: at(tt.sent), at: at(tt.arrived)}); got != tt.want {
				t.Errorf("settling %v, want %v", got, tt.want)
			}
		})
	}
}

// TestWindowEnd: the age of a tag counts from the window of the hop that wrote
// it, and where no hop wrote from the oldest window that shows that.
func TestWindowEnd(t *testing.T) {
	agent := func(rows ...programmed) *proc { return &proc{history: rows} }
	row := func(programmedMS, endMS int, s uint8) programmed {
		return programmed{at: at(programmedMS), windowEnd: at(endMS), s: [len(signals)]uint8{s, s}}
	}
	r := &runner{agents: []*proc{
		agent(row(101, 100, 9), row(201, 200, 7), row(301, 300, 7)),
		agent(row(103, 95, 20), row(203, 195, 21)),
	}}
	for _, tt := range []struct {
		name    string
		hop, ms int
		s       uint8
		want    int // ms; -1 for unknown
	}{
		{"the newest window", 0, 350, 7, 300},
		{"not yet programmed", 0, 250, 7, 200},
		{"the frame was written before the change", 0, 205, 9, 100},
		{"no hop wrote: the oldest of the hops' newest", -1, 350, 31, 195},
		{"nothing programmed yet", 1, 50, 20, -1},
		{"no hop wrote, one hop without a window", -1, 102, 31, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			end, ok := r.windowEnd(tt.hop, 0, tt.s, passingAt(tt.ms, 2))
			if ok != (tt.want >= 0) || ok && !end.Equal(at(tt.want)) {
				t.Errorf("%v, %v, want %d ms", end.Sub(t0), ok, tt.want)
			}
		})
	}
}

// TestRecord: a status with nothing new in it, or without a measured value, is
// no piece of history.
func TestRecord(t *testing.T) {
	status := func(programmedMS, endMS int) *api.Status {
		p := api.Port{Signals: make([]api.Signal, len(signals))}
		for i := range p.Signals {
			p.Signals[i].ProgrammedAt = at(programmedMS)
		}
		if endMS > 0 {
			end := at(endMS)
			p.WindowEnd = &end
		}
		return &api.Status{Ports: []api.Port{p}}
	}
	var p proc
	for _, s := range []*api.Status{status(90, 0), status(101, 100), status(101, 100), status(201, 200)} {
		p.record(s)
	}
	if len(p.history) != 2 || !p.history[1].windowEnd.Equal(at(200)) {
		t.Errorf("history %+v, want two windows", p.history)
	}
}

// TestStepsKeepTheirDistance holds the demo's own loads against what its load
// steps promise: one bottleneck a signal, and room for noise.
func TestStepsKeepTheirDistance(t *testing.T) {
	fleet, err := inventory.Parse("demo fleet", fleetFile)
	if err != nil {
		t.Fatal(err)
	}
	b := bucketsOf(fleet)
	bottlenecks := map[string][len(signals)]int{"hop 1 is busy": {0, 0}, "hop 2 is busy": {1, 1}, "hop 3 is busy": {2, 2}, "split": {1, 0}}
	for _, st := range steps {
		var s [len(signals)][]uint8
		for i := range fleet.Devices {
			c := fleet.Devices[i].Ports[0].Speed
			load := midBucket(c, st.util[i], b)
			for _, l := range []uint64{load * 965 / 1000, load, load * 1035 / 1000} {
				abw := c - l
				for j, v := range []uint64{abw, abw * 1_000_000 / c} {
					got := b[j].Bucket(v)
					if l == load*965/1000 {
						s[j] = append(s[j], got)
					} else if got != s[j][i] {
						t.Errorf("%s: hop %d at %d bit/s reads %s bucket %d, at 3.5 %% less %d", st.name, i+1, l, signals[j], got, s[j][i])
					}
				}
			}
		}
		for j, want := range bottlenecks[st.name] {
			for i := range s[j] {
				if i != want && s[j][i] <= s[j][want] {
					t.Errorf("%s: %s is %d at hop %d, not more than at hop %d, the bottleneck: %v", st.name, signals[j], s[j][i], i+1, want+1, s[j])
				}
			}
		}
	}
}
