package counters

import (
	"cmp"
	"time"

	"github.com/csig-agent/csig/quantize"
)

// PipelineConfig is how the readings of one device become buckets.
type PipelineConfig struct {
	Ports    []PipelinePort // in the order of the samples
	Interval time.Duration  // the averaging window Δt (draft-00 §5.3.2)
	Least    time.Duration  // EstimatorConfig.Least
	Method   Method
	Tau      time.Duration // of EWMA and DRE
	Overhead *uint8        // bytes a frame, in place of the samples'; nil: the samples know
	Refresh  RefreshConfig
	Damping  Damping
	Tables   []*quantize.Buckets // of the signals, in the order of PortState.Signals
}

// PipelinePort is a port of a PipelineConfig.
type PipelinePort struct {
	Name     string
	Speed    uint64 // EstimatorConfig.Speed
	Override bool   // Speed is the capacity, whatever the samples say
}

// Pipeline is the way from a device's samples to what its ports advertise: refresh
// learning → average → bucket → damping. It is not safe for concurrent use. In the
// steady state it allocates nothing.
type Pipeline struct {
	cfg     PipelineConfig
	refresh *Refresh
	ports   []pipelinePort
}

type pipelinePort struct {
	avg   Averager
	damp  []Damper // beside state.Signals
	state PortState
}

// PortState is a port after its newest sample.
type PortState struct {
	Now     Estimate      // of the newest sample
	Last    Estimate      // the newest one that is Valid; zero before the first
	Known   bool          // there has been one
	Slow    uint64        // the speed that the device reports, in bit/s, where it is less than the configured one; else 0
	Signals []SignalState // of Last
}

// SignalState is one signal of a port.
type SignalState struct {
	Signal   quantize.Signal
	Possible bool        // counters can show this signal (draft-00 §6.4)
	Range    BucketRange // of the estimate
	Bucket   uint8       // to advertise, after damping
}

// NewPipeline returns a pipeline that has seen nothing.
func NewPipeline(cfg PipelineConfig) (*Pipeline, error) {
	if err := cfg.Damping.Validate(); err != nil {
		return nil, err
	}
	p := &Pipeline{cfg: cfg, refresh: NewRefresh(cfg.Refresh), ports: make([]pipelinePort, len(cfg.Ports))}
	for i := range p.ports {
		port := &p.ports[i]
		port.damp = make([]Damper, len(cfg.Tables))
		port.state.Signals = make([]SignalState, len(cfg.Tables))
		for k, table := range cfg.Tables {
			port.damp[k] = *NewDamper(cfg.Damping)
			port.state.Signals[k] = SignalState{Signal: table.Signal, Possible: table.Signal.Counted()}
		}
		p.Restart(i)
	}
	return p, nil
}

// Observe takes one reading in, before Take has its samples one by one.
func (p *Pipeline) Observe(samples []Sample) {
	for i := range min(len(samples), len(p.cfg.Ports)) {
		if port, s := &p.cfg.Ports[i], &samples[i]; port.Override || s.Speed == 0 {
			s.Speed = cmp.Or(port.Speed, s.Speed)
		}
	}
	p.refresh.Observe(samples)
	if p.cfg.Overhead != nil {
		for i := range samples {
			samples[i].Overhead = *p.cfg.Overhead
		}
	}
}

// Take takes one port's sample in and returns the port's state, which the next
// Take changes.
func (p *Pipeline) Take(i int, s *Sample) *PortState {
	port := &p.ports[i]
	port.state.Now = port.avg.Update(*s)
	if s.Err == nil {
		port.state.Slow = 0
		if s.Up && s.Speed < p.cfg.Ports[i].Speed {
			port.state.Slow = s.Speed
		}
	}
	if port.state.Now.State.Valid() {
		port.state.Last, port.state.Known = port.state.Now, true
		port.advertise(p.cfg.Tables)
	}
	return &port.state
}

// advertise turns the last estimate into buckets.
func (p *pipelinePort) advertise(tables []*quantize.Buckets) {
	for k, table := range tables {
		sig := &p.state.Signals[k]
		if !sig.Possible {
			continue
		}
		sig.Range, _ = BucketsOf(&p.state.Last, table)
		value, _, _, _ := p.state.Last.values(table.Signal)
		sig.Bucket = p.damp[k].Bucket(table, value)
	}
}

// Port is the state of a port.
func (p *Pipeline) Port(i int) *PortState { return &p.ports[i].state }

// Restart begins a port's average again: what came before a long gap says
// nothing about the last Δt.
func (p *Pipeline) Restart(i int) {
	p.ports[i].avg = NewAverager(p.cfg.Method, p.estimator(i))
}

func (p *Pipeline) estimator(i int) EstimatorConfig {
	return EstimatorConfig{Interval: p.cfg.Interval, Least: p.cfg.Least, Speed: p.cfg.Ports[i].Speed, Tau: p.cfg.Tau}
}

// ResetDamping has a port pass on whatever bucket comes next.
func (p *Pipeline) ResetDamping(i int) {
	for k := range p.ports[i].damp {
		p.ports[i].damp[k].Reset()
	}
}

// Look is Refresh.Look.
func (p *Pipeline) Look(next time.Time) time.Time { return p.refresh.Look(next) }

// Refresh is what has been learned of the device's refreshes.
func (p *Pipeline) Refresh() RefreshStatus { return p.refresh.Status() }

// ContinueRefresh takes over what another pipeline has learned of the same source.
func (p *Pipeline) ContinueRefresh(old *Pipeline) { p.refresh = old.refresh }

// Continue takes over what another pipeline of the same method has measured at its port k: the
// average and the last estimate, which become the buckets of p's own tables. By another Interval
// the next window is of what readings there are, as at the beginning.
func (p *Pipeline) Continue(i int, old *Pipeline, k int) {
	port, from := &p.ports[i], &old.ports[k]
	port.avg = from.avg
	port.avg.configure(p.estimator(i))
	port.state.Now, port.state.Last, port.state.Known, port.state.Slow = from.state.Now, from.state.Last, from.state.Known, from.state.Slow
	if port.state.Known {
		port.advertise(p.cfg.Tables)
	}
}
