package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/csig-agent/csig/counters"
)

// Bytes that Ethernet adds to a frame.
const (
	fcs      = 4
	overhead = 20 // preamble and gap, which no octet counter has
)

// speed of each port, in bit/s.
const speed = 1e9

// counts are a port's egress counters.
type counts struct {
	octets, packets uint64
	at              time.Time
}

// frame counts one that was sent.
func (c *counts) frame(f *Faults, frame []byte, tagged bool) {
	n := len(frame) + fcs
	if f.CountsNoFCS {
		n -= fcs
	}
	if f.CountsNoTag && tagged {
		n -= tagSize
	}
	c.octets += uint64(n)
	c.packets++
}

// source reads counters of ports.
type source struct {
	s     *Switch
	ports []string
}

// Counters reads the egress counters of these ports.
func (s *Switch) Counters(ports ...string) counters.Source { return &source{s, ports} }

// Read appends a sample for each port.
func (r *source) Read(ctx context.Context, dst []counters.Sample) ([]counters.Sample, error) {
	dst = dst[:0]
	if err := ctx.Err(); err != nil {
		return dst, err
	}
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, name := range r.ports {
		sample := counters.Sample{Port: name, Speed: speed, Up: true, At: now, Bits: 64, Overhead: overhead, Epoch: s.boots}
		if p := s.Port(name); p != nil {
			sample.Octets, sample.Packets = p.show(&s.cfg.Faults, now)
		} else {
			sample.Err = fmt.Errorf("the switch has no port %s", name)
		}
		dst = append(dst, sample)
	}
	return dst, nil
}

// Sent is what the port's egress counters count, without their faults.
func (p *Port) Sent() (octets, packets uint64) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.count.octets, p.count.packets
}

// Close closes nothing.
func (r *source) Close() error { return nil }

// show is what is read of a port's counters now.
func (p *Port) show(f *Faults, now time.Time) (octets, packets uint64) {
	if now.Sub(p.shown.at) >= f.StaleCounters {
		p.shown = p.count
		p.shown.at = now
	}
	octets, packets = p.shown.octets, p.shown.packets
	if f.Counters32 {
		octets, packets = uint64(uint32(octets)), uint64(uint32(packets))
	}
	return octets, packets
}
