package trace

import (
	"errors"
	"io"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/quantize"
)

// PlayConfig is how readings become buckets; it may differ from what the
// recording agent did.
type PlayConfig struct {
	Method    counters.Method
	Estimator counters.EstimatorConfig // Interval 0 is the header's; Speed holds for all ports
	Speeds    map[string]uint64        // capacity in bit/s by port, over what the samples say
	Overhead  *uint8                   // replaces that of the samples; nil leaves it
	Refresh   counters.RefreshConfig
	NoRefresh bool // take the samples' times as they are
	Damping   counters.Damping
	Tables    []*quantize.Buckets // the signals to show; may be none
}

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
	Port     string
	Sample   *counters.Sample // after the Refresh
	Estimate counters.Estimate
	// Signals are in the order of PlayConfig.Tables. While an estimate is not
	// valid they are what they were; Known says that there has been one.
	Signals []SignalStep
	Known   bool
}

// SignalStep is one signal of one port.
type SignalStep struct {
	Signal   quantize.Signal
	Range    counters.BucketRange // of the estimate
	Bucket   uint8                // to advertise, after damping
	Possible bool                 // counters can tell this signal
}

// Summary is what a whole trace amounts to.
type Summary struct {
	Readings, Failed int
	First, Last      time.Time
	Refresh          counters.RefreshStatus
	// Damaged is why the trace ended before its end, nil for a whole one.
	Damaged error
}

// Play feeds every reading of r, in order and without waiting, to a Refresh, an
// estimator and dampers, and calls visit after each. Nothing in it depends on the
// time of day, so the same trace and configuration lead to the same steps. A
// damaged end is in the Summary; the error is visit's.
func Play(r *Reader, cfg PlayConfig, visit func(*Step) error) (Summary, error) {
	p := newPlayer(r.Header(), cfg)
	var sum Summary
	for {
		reading, err := r.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				sum.Damaged = err
			}
			sum.Refresh = p.refresh.Status()
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
	cfg     PlayConfig
	refresh *counters.Refresh
	avg     []counters.Averager
	dampers [][]counters.Damper
	step    Step
}

func newPlayer(h *Header, cfg PlayConfig) *player {
	p := &player{cfg: cfg, refresh: counters.NewRefresh(cfg.Refresh)}
	if p.cfg.Estimator.Interval == 0 {
		p.cfg.Estimator.Interval = h.Interval()
	}
	for _, port := range h.Ports {
		est := p.cfg.Estimator
		if v := cfg.Speeds[port]; v != 0 {
			est.Speed = v
		}
		p.avg = append(p.avg, counters.NewAverager(cfg.Method, est))
		ps := PortStep{Port: port}
		var dampers []counters.Damper
		for _, t := range cfg.Tables {
			ps.Signals = append(ps.Signals, SignalStep{Signal: t.Signal})
			dampers = append(dampers, *counters.NewDamper(cfg.Damping))
		}
		p.step.Ports = append(p.step.Ports, ps)
		p.dampers = append(p.dampers, dampers)
	}
	return p
}

func (p *player) play(r *Reading) {
	p.step.Read, p.step.Took, p.step.Err = r.Read, r.Took, r.Err
	if r.Err != nil {
		return
	}
	if !p.cfg.NoRefresh {
		p.refresh.Observe(r.Samples)
	}
	for i := range r.Samples {
		ps := &p.step.Ports[i]
		ps.Sample = &r.Samples[i]
		if p.cfg.Overhead != nil {
			ps.Sample.Overhead = *p.cfg.Overhead
		}
		ps.Estimate = p.avg[i].Update(r.Samples[i])
		if !ps.Estimate.State.Valid() {
			continue
		}
		ps.Known = true
		for j, t := range p.cfg.Tables {
			sig := &ps.Signals[j]
			if sig.Range, sig.Possible = counters.BucketsOf(&ps.Estimate, t); !sig.Possible {
				continue
			}
			v := ps.Estimate.ABW
			if t.Signal == quantize.MinABWC {
				v = uint64(ps.Estimate.ABWC)
			}
			sig.Bucket = p.dampers[i][j].Next(t, v)
		}
	}
}
