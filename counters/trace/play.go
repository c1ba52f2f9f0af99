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
	Took time.Duration
	Err  error // of the whole device: then the ports are as they were
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
	First, Last      time.Time
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
	p, err := newPlayer(r.Header(), cfg)
	if err != nil {
		return Summary{}, err
	}
	var sum Summary
	for {
		reading, err := r.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				sum.Damaged = err
			}
			sum.Refresh = p.pipeline.Refresh()
			return sum, nil
		}
		if sum.Readings == 0 {
			sum.First = reading.Read
		}
		sum.Last = reading.Read.Add(reading.Took)
		sum.Readings++
		if reading.Err != nil {
			sum.Failed++
		}
		p.play(reading)
		if err := visit(&p.step); err != nil {
			return sum, err
		}
	}
}

type player struct {
	pipeline *counters.Pipeline
	step     Step
}

func newPlayer(h *Header, cfg counters.PipelineConfig) (*player, error) {
	if cfg.Interval == 0 {
		cfg.Interval = h.Interval()
	}
	if cfg.Ports == nil {
		cfg.Ports = h.ports(nil)
	}
	if len(cfg.Ports) != len(h.Ports) {
		return nil, fmt.Errorf("%d ports for a trace of %d", len(cfg.Ports), len(h.Ports))
	}
	p := new(player)
	var err error
	if p.pipeline, err = counters.NewPipeline(cfg); err != nil {
		return nil, err
	}
	for i, port := range h.Ports {
		p.step.Ports = append(p.step.Ports, PortStep{Port: port, PortState: *p.pipeline.Port(i)})
	}
	return p, nil
}

func (p *player) play(r *Reading) {
	p.step.Read, p.step.Took, p.step.Err = r.Read, r.Took, r.Err
	if r.Err != nil {
		return
	}
	p.pipeline.Observe(r.Samples)
	for i := range r.Samples {
		ps := &p.step.Ports[i]
		ps.Sample, ps.PortState = &r.Samples[i], *p.pipeline.Take(i, &r.Samples[i])
	}
}
