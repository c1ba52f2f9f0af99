package trace

import (
	"fmt"
	"slices"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/quantize"
)

// Settings are how readings become buckets: what Play needs beside the readings to give
// what the recording agent got. They hold no address and no secret.
type Settings struct {
	SpeedsBPS      map[string]uint64 `json:"speeds_bps,omitempty"` // configured speeds by port
	Overrides      []string          `json:"overrides,omitempty"`  // ports whose capacity that is, whatever the samples say
	Estimator      string            `json:"estimator,omitempty"`  // raw, ewma or dre
	TimeConstantNS int64             `json:"time_constant_ns,omitempty"`
	RefreshNS      int64             `json:"refresh_ns,omitempty"` // the documented period
	Overhead       *uint8            `json:"overhead,omitempty"`   // in bytes, over what the samples say
	Hold           int               `json:"hold,omitempty"`       // of damping, in readings
	Margin         uint32            `json:"margin,omitempty"`     // in thousandths of a bucket's width
	Buckets        []Table           `json:"buckets,omitempty"`
}

// Table is the bucket table of a signal: bucket i is from Bounds[i] on, below
// Bounds[i+1].
type Table struct {
	Signal string   `json:"signal"`
	Bounds []uint64 `json:"bounds"`
}

// TableOf is b as Settings have it.
func TableOf(b *quantize.Buckets) Table {
	bounds := b.Bounds()
	return Table{b.Signal.String(), bounds[:]}
}

// Config returns how the readings became buckets where they were recorded, as far as the
// header says.
func (h *Header) Config() (counters.PipelineConfig, error) {
	cfg := counters.PipelineConfig{Interval: h.Interval(), Ports: h.ports(&Settings{})}
	s := h.Settings
	if s == nil {
		return cfg, nil
	}
	if s.Estimator != "" {
		var err error
		if cfg.Method, err = counters.ParseMethod(s.Estimator); err != nil {
			return cfg, fmt.Errorf("estimator: %w", err)
		}
	}
	if s.TimeConstantNS < 0 || s.RefreshNS < 0 {
		return cfg, fmt.Errorf("time constant of %d ns, refresh of %d ns: want 0 or more", s.TimeConstantNS, s.RefreshNS)
	}
	cfg.Tau = time.Duration(s.TimeConstantNS)
	cfg.Refresh = s.Refresh()
	cfg.Ports, cfg.Overhead = h.ports(s), s.Overhead
	cfg.Damping = counters.Damping{Hold: s.Hold, Margin: s.Margin}
	if err := cfg.Damping.Validate(); err != nil {
		return cfg, err
	}
	for _, t := range s.Buckets {
		sig, err := quantize.ParseSignal(t.Signal)
		if err != nil {
			return cfg, fmt.Errorf("buckets: %w", err)
		}
		b, err := quantize.NewBuckets(sig, t.Bounds)
		if err != nil {
			return cfg, fmt.Errorf("buckets: %w", err)
		}
		cfg.Tables = append(cfg.Tables, &b)
	}
	return cfg, nil
}

// Refresh is what was known of the source's refreshes beforehand.
func (s *Settings) Refresh() counters.RefreshConfig {
	return counters.RefreshConfig{Period: time.Duration(s.RefreshNS)}
}

// ports are the header's, with the speeds of s.
func (h *Header) ports(s *Settings) []counters.PipelinePort {
	out := make([]counters.PipelinePort, len(h.Ports))
	for i, name := range h.Ports {
		out[i] = counters.PipelinePort{Name: name, Speed: s.SpeedsBPS[name], Override: slices.Contains(s.Overrides, name)}
	}
	return out
}
