package linux

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/counters"
)

// Source reads the egress counters of network interfaces. It is not safe for
// concurrent use.
type Source struct {
	ports   []port
	byName  map[string]int
	byIndex map[int32]int

	events *socket // multicast notifications
	dumps  *socket // requests and their answers
	eth    *ethtool

	unsynced    bool // links have to be listed again
	qdiscsStale bool // root qdiscs have to be listed again
	stalePorts  bool // some port is stale
	round       uint64
	epochs      uint64 // epochs given out so far

	getStats, getQdiscs, getLinks []byte
	onStats, onQdiscStats         func(message, instant)
	onLink, onQdisc               func(message, instant)
}

// port is one interface to read.
type port struct {
	cfg Port

	// What the kernel has reported; index is 0 while the interface does not exist.
	index      int32
	up         bool
	dev        device
	round      uint64 // of the last listing that had it
	scan       qdisc  // root qdisc, while they are being listed
	lives      uint64 // how many interfaces of this name are gone
	qdiscLives uint64 // how many root qdiscs of it are gone

	// What follows from it.
	stale   bool // dev.offloads and dev.linkSpeed have to be asked for again
	verdict verdict
	origin  origin
	epoch   uint64
	err     error // the interface does not exist

	// The current reading.
	seen            bool
	octets, packets uint64
	at              instant
}

// origin identifies the counter that a port's samples come from.
type origin struct {
	index      int32
	lives      uint64
	fromQdisc  bool
	handle     uint32
	qdiscLives uint64
}

var (
	_ counters.Source = (*Source)(nil)
	_ counters.LAGs   = (*Source)(nil)
)

// maxAttempts is how often a reading is taken again when interfaces or qdiscs
// were replaced in the middle of it.
const maxAttempts = 3

// eventBuffer holds the notifications of some thousand changes between two
// readings; when it overflows everything is listed again.
const eventBuffer = 1 << 20

// New opens a source. An interface that does not exist is not an error: its
// samples have Err set until it does.
func New(cfg Config) (*Source, error) {
	if len(cfg.Ports) == 0 {
		return nil, errors.New("linux counters: no ports given")
	}
	s := &Source{
		ports:     make([]port, len(cfg.Ports)),
		byName:    make(map[string]int, len(cfg.Ports)),
		byIndex:   make(map[int32]int, len(cfg.Ports)),
		unsynced:  true,
		getStats:  statsRequest(),
		getQdiscs: qdiscRequest(),
		getLinks:  linkRequest(),
	}
	for i, p := range cfg.Ports {
		s.ports[i].cfg = p
		s.ports[i].err = ErrNoInterface
		s.ports[i].verdict.Port = p.Name
		s.byName[p.Name] = i
	}
	s.onStats, s.onQdiscStats = s.takeStats, s.takeQdiscStats
	s.onLink, s.onQdisc = s.takeLink, s.takeQdisc

	var err error
	if s.events, err = dial(cfg.NetNS, unix.RTNLGRP_LINK, unix.RTNLGRP_TC); err == nil {
		// A smaller buffer only means that it overflows earlier.
		_ = s.events.conn.SetReadBuffer(eventBuffer)
		if s.dumps, err = dial(cfg.NetNS); err == nil {
			s.eth, err = dialEthtool(cfg.NetNS)
		}
	}
	if err == nil {
		_, err = s.sync(context.Background())
	}
	if err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("linux counters: %w", err)
	}
	return s, nil
}

// Close closes the source's sockets.
func (s *Source) Close() error {
	var errs [3]error
	if s.events != nil {
		errs[0] = s.events.close()
	}
	if s.dumps != nil {
		errs[1] = s.dumps.close()
	}
	errs[2] = s.eth.close()
	return errors.Join(errs[:]...)
}

var errChanging = errors.New("the interface or its qdisc kept changing while it was read; the next reading tries again")

// Read takes one reading of every port. At is the midpoint of the system call
// in which the kernel read the port's counter. In the steady state it allocates
// nothing. ctx is honoured between dumps, which take a few milliseconds at
// most.
func (s *Source) Read(ctx context.Context, dst []counters.Sample) ([]counters.Sample, error) {
	var err error
	for range maxAttempts {
		if _, err = s.sync(ctx); err == nil {
			err = s.dumpCounters(ctx)
		}
		if ctx.Err() != nil {
			return dst[:0], fmt.Errorf("linux counters: %w", ctx.Err())
		}
		// Whatever changed since the dump began may not be what was dumped.
		var changed bool
		if err == nil {
			changed, err = s.sync(ctx)
		}
		if err == nil && !changed && s.complete() {
			break
		}
	}
	if err != nil {
		return dst[:0], fmt.Errorf("linux counters: %w", err)
	}
	return s.samples(dst[:0], time.Now()), nil
}

func (s *Source) samples(dst []counters.Sample, now time.Time) []counters.Sample {
	for i := range s.ports {
		p := &s.ports[i]
		switch {
		case p.err != nil:
			dst = append(dst, counters.Sample{Port: p.cfg.Name, At: now, Err: p.err})
		case !p.seen:
			dst = append(dst, counters.Sample{Port: p.cfg.Name, At: now,
				Err: errChanging})
		default:
			dst = append(dst, counters.Sample{
				Port:     p.cfg.Name,
				Octets:   p.octets,
				Packets:  p.packets,
				Speed:    p.verdict.reported,
				Up:       p.up,
				At:       p.at.at,
				Within:   p.at.within,
				Bits:     64,
				Overhead: wireOverhead,
				Epoch:    p.epoch,
				Live:     p.verdict.live,
				Degraded: p.verdict.Degraded,
				Inflated: p.verdict.inflated,
			})
		}
	}
	return dst
}

// dumpCounters asks for the counters that the ports are read from, in one dump
// for each kind that is needed.
func (s *Source) dumpCounters(ctx context.Context) error {
	var stats, qdiscs bool
	for i := range s.ports {
		p := &s.ports[i]
		p.seen = false
		if p.index != 0 {
			qdiscs = qdiscs || p.verdict.fromQdisc
			stats = stats || !p.verdict.fromQdisc
		}
	}
	if stats {
		if err := s.dumps.dump(ctx, s.getStats, s.onStats); err != nil {
			return fmt.Errorf("interface counters (RTM_GETSTATS, Linux 4.7 or newer): %w", err)
		}
	}
	if qdiscs {
		if err := s.dumps.dump(ctx, s.getQdiscs, s.onQdiscStats); err != nil {
			return fmt.Errorf("qdisc counters: %w", err)
		}
	}
	return nil
}

func (s *Source) takeStats(m message, at instant) {
	if m.typ != unix.RTM_NEWSTATS {
		return
	}
	index, octets, packets, ok := parseStats(m.body)
	if !ok {
		return
	}
	if i, ours := s.byIndex[index]; ours && !s.ports[i].verdict.fromQdisc {
		s.ports[i].take(octets, packets, at)
	}
}

func (s *Source) takeQdiscStats(m message, at instant) {
	if m.typ != unix.RTM_NEWQDISC {
		return
	}
	index, handle, octets, packets, ok := parseQdiscStats(m.body)
	if !ok {
		return
	}
	if i, ours := s.byIndex[index]; ours {
		if p := &s.ports[i]; p.verdict.fromQdisc && p.origin.handle == handle {
			p.take(octets, packets, at)
		}
	}
}

func (p *port) take(octets, packets uint64, at instant) {
	p.seen, p.octets, p.packets, p.at = true, octets, packets, at
}

// complete reports whether every interface that exists has been read. One that
// is missing without a notification means that what is known is wrong.
func (s *Source) complete() bool {
	for i := range s.ports {
		if p := &s.ports[i]; p.index != 0 && !p.seen {
			s.unsynced = true
			return false
		}
	}
	return true
}

// Facts says how each port is read, as of the last reading.
func (s *Source) Facts() []Facts {
	facts := make([]Facts, len(s.ports))
	for i := range s.ports {
		facts[i] = s.ports[i].verdict.Facts
	}
	return facts
}
