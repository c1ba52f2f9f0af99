// Package ovs reads the egress counters of a bridge of Open vSwitch, by the port
// statistics of OpenFlow. Open vSwitch asks its devices when it is asked
// (openvswitch/ovs ofproto/ofproto.c, handle_port_stats_request), so that they
// are of the instant of the reading; those in its database are older by up to
// other_config:stats-update-interval, 5 s by default (ovs-vswitchd.conf.db(5)).
package ovs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/vendors/openflow/ofp"
)

// Config is what a Source needs to know.
type Config struct {
	Bridge string   // its name, for messages
	Ports  []string // to read, in this order

	// Overhead is what each packet costs on the wire beyond its octets, in
	// bytes; 0 is preamble, gap and FCS, which the octets leave out.
	Overhead uint8

	// Dial connects to the bridge's OpenFlow socket.
	Dial func(ctx context.Context) (net.Conn, error)
	// Done is called by Close, where it is not nil.
	Done func() error
	Now  func() time.Time // nil is time.Now
}

// wire is preamble and start delimiter, gap and FCS, in bytes.
const wire = 8 + 12 + 4

// patience bounds a reading.
const patience = 5 * time.Second

// Source reads the counters of a bridge. It is not safe for concurrent use.
type Source struct {
	cfg   Config
	of    *ofp.Conn
	ports []port
	at    map[string]int
	stats []ofp.PortStats
}

// port is what is known of a port that is read.
type port struct {
	number uint32
	age    uint32 // seconds since the bridge has it
	lives  uint64
	sample counters.Sample
	seen   bool
	there  bool
}

var _ counters.Source = (*Source)(nil)

// New returns a source. It connects at the first reading.
func New(cfg Config) (*Source, error) {
	if cfg.Dial == nil || len(cfg.Ports) == 0 {
		return nil, errors.New("ovs counters: there is no bridge, or there are no ports to read")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Overhead == 0 {
		cfg.Overhead = wire
	}
	s := &Source{cfg: cfg, ports: make([]port, len(cfg.Ports)), at: make(map[string]int, len(cfg.Ports))}
	for i, name := range cfg.Ports {
		s.at[name] = i
	}
	return s, nil
}

// Close ends the connection.
func (s *Source) Close() error {
	err := s.drop()
	if s.cfg.Done != nil {
		err = errors.Join(err, s.cfg.Done())
	}
	return err
}

func (s *Source) drop() error {
	if s.of == nil {
		return nil
	}
	err := s.of.Close()
	s.of = nil
	return err
}

// Read reads every port. A bridge that does not answer is an error of the whole
// reading; a port that it does not have is an error of the port.
func (s *Source) Read(ctx context.Context, dst []counters.Sample) ([]counters.Sample, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer for %v", patience))
	defer cancel()
	if err := s.read(ctx); err != nil {
		if s.of != nil {
			_ = s.drop() // of no use any more
		}
		return dst[:0], fmt.Errorf("ovs counters: bridge %s: %w", s.cfg.Bridge, err)
	}
	dst = dst[:0]
	for i := range s.ports {
		p := &s.ports[i]
		if !p.there || !p.seen {
			p.sample.Err = fmt.Errorf("bridge %s has no such port: add it, or correct the name in the fleet file", s.cfg.Bridge)
		}
		dst = append(dst, p.sample)
	}
	return dst, nil
}

func (s *Source) read(ctx context.Context) error {
	if s.of == nil {
		c, err := s.cfg.Dial(ctx)
		if err != nil {
			return fmt.Errorf("is ovs-vswitchd running, and may this user open its socket? %w", err)
		}
		if s.of, err = ofp.NewConn(ctx, c, ofp.Version14); err != nil {
			return err
		}
	}
	descs, err := s.of.Ports(ctx)
	if err != nil {
		return err
	}
	before := s.cfg.Now()
	if s.stats, err = s.of.PortStats(ctx, s.stats[:0]); err != nil {
		return err
	}
	after := s.cfg.Now()
	within := after.Sub(before) / 2
	at := before.Add(within)
	byNumber := make(map[uint32]*port, len(s.ports))
	for i := range s.ports {
		p := &s.ports[i]
		p.there, p.seen = false, false
		p.sample = counters.Sample{Port: s.cfg.Ports[i], At: at, Within: within, Bits: 64, Overhead: s.cfg.Overhead, Live: true}
	}
	for _, d := range descs {
		i, wanted := s.at[d.Name]
		if !wanted {
			continue
		}
		p := &s.ports[i]
		if p.number != d.Number {
			p.number, p.lives = d.Number, p.lives+1
		}
		p.there, p.sample.Up, p.sample.Speed = true, d.Up, d.Speed
		byNumber[d.Number] = p
	}
	for i := range s.stats {
		st := &s.stats[i]
		p := byNumber[st.Number]
		if p == nil {
			continue
		}
		if st.Age < p.age {
			p.lives++ // the bridge has it again
		}
		p.age, p.seen = st.Age, true
		p.sample.Octets, p.sample.Packets, p.sample.Epoch = st.TxBytes, st.TxPackets, p.lives
	}
	return nil
}
