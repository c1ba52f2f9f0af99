package trace

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/csig-agent/csig/counters"
)

// Step is what one reading led to. It is valid until the next one.
type Step struct {
	Read time.Time // the recorder's clock when the reading was asked for
	Err  error     // of the whole device: then the ports are as they were
	// Ports are in the header's order.
	Ports []PortStep
}

// PortStep is one port after a reading.
type PortStep struct {
	Port   string
	Sample *counters.Sample // after refresh learning
	counters.PortState
}

// Summary is what a whole trace amounts to.
type Summary struct {
	Readings, Failed int
	Refresh          counters.RefreshStatus
	// Damaged is why the trace ended before its end, nil for a whole one.
	Damaged error
}

// Play feeds every reading of r, in order and without waiting, to a pipeline, and
// calls visit after each. cfg may differ from what the recording agent did
// (Header.Config); an Interval of 0 is the header's, and without Ports they are the
// header's. Nothing in it depends on the time of day, so the same trace and
// configuration lead to the same steps. A damaged end is in the Summary; the error
// is visit's, or that of cfg.
func Play(r *Reader, cfg counters.PipelineConfig, visit func(*Step) error) (Summary, error) {
	var sum Summary
	h := r.Header()
	if cfg.Interval == 0 {
		cfg.Interval = h.Interval()
	}
	if cfg.Ports == nil {
		cfg.Ports = h.ports(&Settings{})
	}
	if len(cfg.Ports) != len(h.Ports) {
		return sum, fmt.Errorf("%d ports for a trace of %d", len(cfg.Ports), len(h.Ports))
	}
	pipe, err := counters.NewPipeline(cfg)
	if err != nil {
		return sum, err
	}
	step := Step{Ports: make([]PortStep, len(h.Ports))}
	for i, port := range h.Ports {
		step.Ports[i] = PortStep{Port: port, PortState: *pipe.Port(i)}
	}
	for {
		reading, err := r.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				sum.Damaged = err
			}
			sum.Refresh = pipe.Refresh()
			return sum, nil
		}
		sum.Readings++
		step.Read, step.Err = reading.Read, reading.Err
		if reading.Err != nil {
			sum.Failed++
		} else {
			pipe.Observe(reading.Samples)
		}
		for i := range reading.Samples {
			s := &reading.Samples[i]
			step.Ports[i].Sample, step.Ports[i].PortState = s, *pipe.Take(i, s)
		}
		if err := visit(&step); err != nil {
			return sum, err
		}
	}
}
