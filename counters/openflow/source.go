// Package openflow reads the egress counters of switches by the port statistics of
// OpenFlow, which have 64 bits.
//
// Open vSwitch asks its devices when it is asked (openvswitch/ovs ofproto/ofproto.c,
// handle_port_stats_request), so that they are of the instant of the reading; those in
// its database are older by up to other_config:stats-update-interval, 5 s by default
// (ovs-vswitchd.conf.db(5)). A hardware switch may answer from a cache of its own.
package openflow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/protocol/ofp"
)

// Config is what a Source needs to know.
type Config struct {
	Switch string   // what messages call it, e.g. "bridge br0"
	Ports  []string // to read, in this order; one without a name goes by its OpenFlow number
	Live   bool     // the switch reads its counters when it is asked

	// Configured are the ports, beside Ports, whose speed is configured; none has to be. Open vSwitch
	// passes on the speeds that the kernel makes up for virtual devices, 10 Gbit/s of a veth: theirs are
	// not read.
	Configured []bool

	// Overhead is what each packet costs on the wire beyond its octets, in
	// bytes; 0 is preamble, gap and FCS, which the octets leave out.
	Overhead uint8

	// Connect returns the connection, and makes one where the last has broken. Others
	// may use it, too: a reading does not close it.
	Connect func(ctx context.Context) (*ofp.Conn, error)
	// Done is called by Close, where it is not nil.
	Done func() error
}

// wire is preamble and start delimiter, gap and FCS, in bytes.
const wire = 8 + 12 + 4

// clockError is how far the switch's clock may run from ours.
const clockError = 0.01

// patience bounds a reading.
const patience = 5 * time.Second

// Source reads the counters of a switch. It is not safe for concurrent use.
type Source struct {
	cfg   Config
	ports []port
	at    map[string]int
	stats []ofp.PortStats
	of    *ofp.Conn // of the last reading
	last  time.Time // when that was
}

// port is what is known of a port that is read.
type port struct {
	number uint32
	age    uint32 // seconds since the switch has it
	lives  uint64
	sample counters.Sample
	seen   bool
	there  bool
}

var _ counters.Source = (*Source)(nil)

// New returns a source. It connects at the first reading.
func New(cfg Config) (*Source, error) {
	if cfg.Connect == nil || len(cfg.Ports) == 0 {
		return nil, errors.New("openflow counters: there is no switch, or there are no ports to read")
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

// Close gives the connection back.
func (s *Source) Close() error {
	if s.cfg.Done != nil {
		return s.cfg.Done()
	}
	return nil
}

// errNotCounted is of a port whose load cannot be told from none.
var errNotCounted = errors.New("the switch does not count the bytes and packets that this port sends (OpenFlow 1.3.5 §7.3.5.6): read them by SNMP")

// Read reads every port. A switch that does not answer is an error of the whole
// reading; a port that it does not have is an error of the port.
func (s *Source) Read(ctx context.Context, dst []counters.Sample) ([]counters.Sample, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer for %v", patience))
	defer cancel()
	if err := s.read(ctx); err != nil {
		return dst[:0], fmt.Errorf("openflow counters: %s: %w", s.cfg.Switch, err)
	}
	dst = dst[:0]
	for i := range s.ports {
		p := &s.ports[i]
		if !p.there || !p.seen {
			p.sample.Err = fmt.Errorf("%s has no such port: add it, or correct the name in the fleet file", s.cfg.Switch)
		}
		dst = append(dst, p.sample)
	}
	return dst, nil
}

func (s *Source) read(ctx context.Context) error {
	of, err := s.cfg.Connect(ctx)
	if err != nil {
		return err
	}
	descs, err := of.Ports(ctx)
	if err != nil {
		return err
	}
	before := time.Now()
	if s.stats, err = of.PortStats(ctx, s.stats[:0]); err != nil {
		return err
	}
	after := time.Now()
	within := after.Sub(before) / 2
	at := before.Add(within)
	aged := 0.0 // seconds by which a port is older now, at least, that was there all the time
	if of != s.of && s.of != nil {
		aged = at.Sub(s.last).Seconds()*(1-clockError) - 2 // ages are whole seconds
	}
	s.of, s.last = of, at
	byNumber := make(map[uint32]*port, len(s.ports))
	for i := range s.ports {
		p := &s.ports[i]
		p.there, p.seen = false, false
		p.sample = counters.Sample{Port: s.cfg.Ports[i], At: at, Within: within, Bits: 64, Overhead: s.cfg.Overhead, Live: s.cfg.Live}
	}
	for _, d := range descs {
		i, wanted := s.at[d.Label()]
		if !wanted {
			continue
		}
		p := &s.ports[i]
		if p.number != d.Number {
			p.number, p.lives = d.Number, p.lives+1
		}
		p.there, p.sample.Up = true, d.Up
		if d.Modes || i >= len(s.cfg.Configured) || !s.cfg.Configured[i] {
			p.sample.Speed = d.Speed
		}
		byNumber[d.Number] = p
	}
	for i := range s.stats {
		st := &s.stats[i]
		p := byNumber[st.Number]
		if p == nil {
			continue
		}
		if st.Age < p.age || float64(st.Age) < float64(p.age)+aged {
			p.lives++ // the switch has it again
		}
		p.age, p.seen = st.Age, true
		p.sample.Octets, p.sample.Packets, p.sample.Epoch = st.TxBytes, st.TxPackets, p.lives
		if st.TxBytes == ofp.NotCounted || st.TxPackets == ofp.NotCounted { // a port that seems idle
			p.sample.Err = errNotCounted
		}
	}
	return nil
}
