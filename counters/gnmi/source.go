package gnmi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	pb "github.com/openconfig/gnmi/proto/gnmi"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/protocol/gnmi"
)

// Source reads the egress counters of one device through its gNMI target. Read and
// Members are not safe for concurrent use; Info is.
type Source struct {
	cfg    Config
	target *gnmi.Target

	// Of the goroutine that keeps the subscription.
	stop    context.CancelFunc
	stopped chan struct{} // closed when it has ended; nil before the first Read
	shape   int           // index into the list of shapes
	wake    chan struct{} // something happened that a waiting Read wants to know

	// Of Read.
	closed bool
	speeds time.Time // when Get last asked for them

	mu       sync.Mutex
	started  bool // a Read has returned samples
	ports    []port
	byName   map[string]int
	dec      decoder
	info     Info
	encoding pb.Encoding
	live     bool                    // a stream is open
	begun    time.Time               // when it was opened
	synced   time.Time               // when it had sent everything; zero before
	pruned   bool                    // what it did not send has been dropped
	err      error                   // why there is no stream
	stream   uint64                  // number of the stream or poll
	chunk    int                     // ports in one Get
	origin   string                  // to put into paths
	reopen   context.CancelCauseFunc // ends the stream

	// Of the notification being taken in.
	message uint64
	now     time.Time
	at      int64
	refresh bool // from a stream that is complete
	asked   bool // the answer to a question about single ports

	evidence evidence
	period   periods
}

var (
	_ counters.Source   = (*Source)(nil)
	_ counters.LAGs     = (*Source)(nil)
	_ counters.Detailed = (*Source)(nil)
)

// New returns a Source. It checks the configuration and reads the files that it
// names; the target is contacted by Read, so that a device that is down when the
// daemon starts is an error of a reading and not of the start.
func New(cfg Config) (*Source, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	target, err := gnmi.Connect(cfg.Config)
	if err != nil {
		return nil, err
	}
	s := &Source{
		cfg:    cfg,
		target: target,
		wake:   make(chan struct{}, 1),
		ports:  make([]port, len(cfg.Ports)),
		byName: make(map[string]int, len(cfg.Ports)),
		chunk:  mostPorts,
		info:   Info{Mode: Auto},
	}
	s.dec = decoder{target: cfg.Target, sink: (*intake)(s)}
	for i, name := range cfg.Ports {
		s.ports[i].name = name
		s.byName[name] = i
	}
	return s, nil
}

// Close ends the subscription and closes the connection. The Source cannot be
// used afterwards.
func (s *Source) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	if s.stopped != nil {
		s.stop()
		<-s.stopped
	}
	return s.target.Close()
}

// Read returns the newest state of all ports. It implements counters.Source. The first
// call waits until the target has sent everything, or ctx ends; later ones return
// at once what the subscription has brought so far, with the target's timestamps, so
// that At is as old as the counters are. Where the target is polled instead, each
// call asks it.
//
// The error is for the whole device: it cannot be reached (gnmi.ErrNoAnswer,
// gnmi.ErrCertificate), refuses (gnmi.ErrCredentials, ErrRefused), or ctx ended before
// there was anything. A port's own trouble is its sample's Err.
func (s *Source) Read(ctx context.Context, dst []counters.Sample) ([]counters.Sample, error) {
	dst = dst[:0]
	if s.closed {
		return dst, s.deviceError(os.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return dst, s.deviceError(err)
	}
	if s.stopped == nil {
		s.start()
	}
	if err := s.await(ctx); err != nil {
		return dst, s.deviceError(err)
	}
	s.mu.Lock()
	mode := s.info.Mode
	s.mu.Unlock()
	if mode == Get {
		ctx, cancel := context.WithTimeout(ctx, s.patience())
		defer cancel()
		if err := s.poll(ctx); err != nil {
			if errors.Is(err, ErrRefused) && s.cfg.Mode != Get {
				s.restart() // it is another target than before
			}
			return dst, s.deviceError(err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = true
	return s.samples(dst, time.Now()), nil
}

// samples appends a sample of each port to dst. The caller holds the lock.
func (s *Source) samples(dst []counters.Sample, now time.Time) []counters.Sample {
	s.prune(now)
	for i := range s.ports {
		p := &s.ports[i]
		p.settle(now, s.grace(), s.tolerance(), s.info.Mode == Get)
		dst = append(dst, s.sample(p, now))
	}
	return dst
}

// start runs the subscription.
func (s *Source) start() {
	ctx, stop := context.WithCancel(context.Background())
	s.stop, s.stopped = stop, make(chan struct{})
	go s.run(ctx)
}

// restart drops how the target can be read: the next Read finds out.
func (s *Source) restart() {
	s.stop()
	<-s.stopped
	s.stopped, s.shape = nil, 0
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info.Mode = Auto
}

// await waits, the first time, until there is something to return. Later it only
// reports whether there still is.
func (s *Source) await(ctx context.Context) error {
	tick, deadline := time.NewTimer(0), time.NewTimer(s.patience())
	defer tick.Stop()
	defer deadline.Stop()
	for {
		s.mu.Lock()
		done, err := s.ready(time.Now())
		some := s.some()
		s.mu.Unlock()
		if done || err != nil {
			return err
		}
		tick.Reset(10 * time.Millisecond) // ready depends on the clock too
		select {
		case <-s.wake:
		case <-tick.C:
		case <-ctx.Done():
			if some {
				return nil
			}
			return fmt.Errorf("%w yet: %w", gnmi.ErrNoAnswer, ctx.Err())
		case <-deadline.C:
			return fmt.Errorf("%w in %v", gnmi.ErrNoAnswer, s.patience())
		}
	}
}

// ready reports whether Read may return samples, or an error instead. The caller
// holds the lock.
func (s *Source) ready(now time.Time) (bool, error) {
	if s.info.Mode == Get {
		return true, nil
	}
	complete := true
	if !s.started {
		for i := range s.ports {
			p := &s.ports[i]
			p.settle(now, s.grace(), s.tolerance(), false)
			complete = complete && p.row.set && p.trouble() == nil
		}
	}
	if !s.live {
		// Between two streams what the last one brought remains true for a
		// while.
		some := s.some() && s.age(now) <= 2*s.interval()
		if s.err != nil && !some {
			return false, s.err
		}
		return some && (s.started || s.err != nil), nil
	}
	if s.started {
		return true, nil
	}
	switch {
	case complete && !s.synced.IsZero():
		return true, nil
	case !s.synced.IsZero():
		return s.pruneDue(now) && !s.otherOrigin(), nil
	}
	if now.Sub(s.begun) <= s.cfg.Timeout {
		return false, nil
	}
	if !s.some() {
		return false, fmt.Errorf("%w of any of these ports in %v, nor the end of the first ones", ErrSilent, now.Sub(s.begun).Round(time.Second))
	}
	return true, nil
}

// patience is how long a reading may take: to make contact, to find a request that
// the target accepts, and for a first sample of every port, or to ask for them.
func (s *Source) patience() time.Duration {
	gets := time.Duration(len(s.cfg.Ports)/mostPorts + 1)
	return (2+gets)*s.cfg.Timeout + 3*s.cfg.Interval
}

// some reports whether any port has been read.
func (s *Source) some() bool {
	for i := range s.ports {
		if s.ports[i].row.set {
			return true
		}
	}
	return false
}

// age is how long ago the newest counter arrived.
func (s *Source) age(now time.Time) time.Duration {
	if s.evidence.newest.local.IsZero() {
		return time.Duration(1<<63 - 1)
	}
	return now.Sub(s.evidence.newest.local)
}

// interval is how far apart the target's samples are, if that is more than asked for.
func (s *Source) interval() time.Duration {
	return max(s.cfg.Interval, s.period.get(s.cfg.Interval))
}

// grace is how long the leaves of one sample may take to arrive one by one, and tolerance
// how far apart their timestamps may be.
func (s *Source) grace() time.Duration     { return min(s.cfg.Interval/4, 100*time.Millisecond) }
func (s *Source) tolerance() time.Duration { return s.cfg.Interval / 8 }

// pruneDue reports whether a target that has sent everything has had the time to send a
// first sample of every port too: some say that they are done before.
func (s *Source) pruneDue(now time.Time) bool {
	return !s.synced.IsZero() && now.Sub(s.synced) > 2*s.interval()+s.grace()
}

// openconfigOrigin names the models' origin, which is also that of a path without any.
const openconfigOrigin = "openconfig"

var errOtherOrigin = errors.New("nothing under a path without origin: asking with origin openconfig")

// otherOrigin reports whether to ask again with another origin: a path without one is
// of OpenConfig (gNMI path conventions), but some gateways keep the two apart and then
// know of nothing. The caller holds the lock.
func (s *Source) otherOrigin() bool {
	if s.origin != "" {
		return false
	}
	for i := range s.ports {
		for l := range s.ports[i].leaves {
			if s.ports[i].leaves[l].stream != 0 {
				return false
			}
		}
	}
	s.origin = openconfigOrigin
	if s.live {
		s.reopen(errOtherOrigin)
	}
	return true
}

// prune drops what the present stream has not sent: the target no longer has it.
func (s *Source) prune(now time.Time) {
	if s.pruned || !s.live || !s.pruneDue(now) {
		return
	}
	s.pruned = true
	for i := range s.ports {
		s.ports[i].expire(s.stream, tree)
	}
}

// sample is the port's sample at this instant.
func (s *Source) sample(p *port, now time.Time) counters.Sample {
	if err := p.trouble(); err != nil {
		return counters.Sample{Port: p.name, At: now, Err: portError(err)}
	}
	if !p.row.set {
		return counters.Sample{Port: p.name, At: now, Err: portError(errFirst)}
	}
	out := p.sample()
	out.At, out.Local = time.Unix(0, p.row.at), p.row.local
	if p.row.at == 0 {
		out.At, out.Local = p.row.local, time.Time{}
		return out
	}
	silent := now.Sub(p.row.local)
	if s.info.Mode == Get {
		if silent > s.cfg.silence && out.Up {
			return s.silence(p, out.At, silent)
		}
		return out
	}
	if at, local, ok := s.idle(p, now); ok {
		// The target has sampled this port since, and found nothing new.
		out.At, out.Local, out.Within = time.Unix(0, at), local, p.heldWithin
		silent = now.Sub(local)
	}
	if most := 5*s.interval() + 2*s.grace(); silent > most && out.Up {
		return s.silence(p, out.At, silent)
	}
	return out
}

// silence is the sample of a port without an update for so long.
func (s *Source) silence(p *port, at time.Time, long time.Duration) counters.Sample {
	return counters.Sample{Port: p.name, At: at,
		Err: portError(fmt.Errorf("%s: %w for %v", outOctets, ErrSilent, long.Round(s.cfg.Interval/10)))}
}

var errFirst = errors.New("its first sample is not complete yet")
