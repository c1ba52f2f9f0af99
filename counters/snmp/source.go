package snmp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gosnmp/gosnmp"

	"github.com/csig-agent/csig/counters"
)

// Source reads the egress counters of one device through its SNMP agent. It is
// not safe for concurrent use.
type Source struct {
	cfg     Config
	address string
	sess    session
	closed  bool
	answer  answer

	ports  []port
	system system
	found  Discards // what its ports, which are all of one kind, have shown; "" is nothing yet

	// What guards the mapping and the counters.
	surveyed           time.Time
	hasLastChange      bool
	lastChange         uint32
	lastChangeSurveyed uint32
	uptime             uptime
	boot               uint64 // counts restarts of the agent
	unknown            bool   // there was no survey since the agent began
	checked            time.Time
	guard              uint32 // lastChange when names were last read

	inquiry *inquiry // a survey that is not over
	answers uint64   // good ones, ever
	before  uint64   // this reading
	from    int      // the request to begin a reading with

	// How to read.
	wideMoved      bool // in this reading, any 64-bit octets have
	wideMoves      int  // in so many readings
	noSpace        bool // the agent's PDUs are too small for ifOutOctets beside 64-bit octets
	limit, ceiling int  // bindings a PDU
	repetitions    int  // of a walk
	clean          int  // readings without trouble
	failedInRow    int  // so many PDUs of one port failed where smaller ones did not ...
	failedSize     int  // ... and had so many bindings
	growAfter      int  // so many of them allow larger PDUs to be tried again
	stalePlan      bool
	plan           plan

	// Of the running Read.
	later    []int32
	order    []*pdu
	extra    int // exchanges that may still be spent on isolating trouble
	silences int
}

var (
	_ counters.Source   = (*Source)(nil)
	_ counters.LAGs     = (*Source)(nil)
	_ counters.Detailed = (*Source)(nil)
)

// New returns a Source. It only checks the configuration; the agent is
// contacted by Read, so that a device that is down when the daemon starts
// is an error of a reading and not of the start.
func New(cfg Config) (*Source, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Source{
		cfg: cfg, address: cfg.endpoint(),
		limit: firstOIDs, ceiling: firstOIDs, repetitions: walkRepetitions,
		growAfter: growAtFirst, unknown: true,
		ports: make([]port, len(cfg.Ports)),
	}
	for i, name := range cfg.Ports {
		s.ports[i].name = name
	}
	return s, nil
}

// Close closes the socket. The Source cannot be used afterwards.
func (s *Source) Close() error {
	s.closed = true
	if s.sess == nil {
		return nil
	}
	err := s.sess.close()
	s.sess = nil
	return err
}

// Read takes one reading of all ports. It implements counters.Source. The first
// call, and calls after the agent restarted or its interfaces changed, take
// longer, as they look up the ports.
//
// The error is for the whole device: it did not answer at all (ErrNoAnswer),
// refused the credentials (ErrCredentials), or ctx ended. A port's own trouble is
// its sample's Err.
func (s *Source) Read(ctx context.Context, dst []counters.Sample) ([]counters.Sample, error) {
	dst = dst[:0]
	if s.closed {
		return dst, s.deviceError(os.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return dst, s.deviceError(err)
	}
	done, err := s.arm(ctx)
	if err != nil {
		return dst, s.deviceError(s.ended(ctx, err))
	}
	defer done()
	s.before = s.answers
	if err := s.read(ctx); err != nil {
		return dst, s.deviceError(s.ended(ctx, err))
	}
	s.noteWide()
	for i := range s.ports {
		p := &s.ports[i]
		dst = append(dst, s.sample(p))
		p.wasBad = p.need == 0 || p.problem == lookUp || p.problem == fine && !p.up()
	}
	s.applyHCOctetsCheck()
	return dst, nil
}

// arm opens the socket if needed, and makes the end of ctx interrupt it.
func (s *Source) arm(ctx context.Context) (done func(), err error) {
	if s.sess == nil {
		conn, err := dial(ctx, &s.cfg)
		if err != nil {
			return nil, err
		}
		if s.cfg.Version == V3 {
			s.sess = &v3{cfg: &s.cfg, conn: &watched{Conn: conn}}
		} else {
			s.sess = &v2c{cfg: &s.cfg, conn: conn, buf: make([]byte, 2048)}
		}
	}
	if ctx.Done() == nil {
		return func() {}, nil
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		s.sess.interrupt()
	})
	return func() {
		if !stop() {
			<-interrupted // else it could hit the next reading
		}
	}, nil
}

// read fills the ports with one reading.
func (s *Source) read(ctx context.Context) error {
	s.later, s.silences = s.later[:0], 0
	first := s.unknown
	if first {
		for i := range s.ports {
			s.ports[i].alone = false
		}
		if err := s.survey(ctx, true); err != nil {
			return err
		}
		s.unknown = false
	}
	if err := s.build(); err != nil {
		return err
	}
	s.extra = 32 + 4*len(s.plan.full)

	lean := s.lean() && s.checked.Add(s.cfg.Recheck).After(time.Now()) && s.lastChange == s.guard
	requests, cols := s.plan.full, (*port).fullColumns
	if lean {
		requests, cols = s.plan.lean, (*port).leanColumns
	}
	for i := range s.ports {
		p := &s.ports[i]
		p.begin(cols(p))
		if p.need == 0 {
			p.fail(final, p.missing)
		}
	}
	if !lean {
		s.checked, s.guard = time.Now(), s.lastChange
	}
	if err := s.pass(ctx, s.turn(requests)); err != nil || ctx.Err() != nil {
		return err
	}
	for range 2 { // what is read again may be the first to have ifTableLastChange
		if lean && (s.lastChange != s.guard || s.unknown) {
			// The interfaces changed under a reading that has no names in it.
			lean, s.later = false, s.later[:0]
			for i := range s.ports {
				if s.ports[i].need != 0 {
					s.ports[i].got = 0 // until it is read again it has nothing
					s.later = append(s.later, int32(i))
				}
			}
			s.checked, s.guard = time.Now(), s.lastChange
		}
		if err := s.retryInParts(ctx, s.later); err != nil {
			return s.partly(s.ended(ctx, err))
		}
		s.later = s.later[:0]
	}
	if first || !s.dueSurvey() {
		return nil
	}
	return s.partly(s.ended(ctx, s.findLost(ctx)))
}

// turn puts the requests that the last reading did not come to first.
func (s *Source) turn(requests []*pdu) []*pdu {
	if s.from == 0 || s.from >= len(requests) {
		s.from = 0
		return requests
	}
	s.order = append(append(s.order[:0], requests[s.from:]...), requests[:s.from]...)
	return s.order
}

// pass sends the requests of the plan and stores their answers. What has to be
// asked again is in s.later. Ports that the end of ctx leaves unread fail, and are the
// first ones next time.
func (s *Source) pass(ctx context.Context, requests []*pdu) error {
	clean := true
	for k, p := range requests {
		err := s.ask(ctx, p)
		if err == nil {
			clean = s.store(p) && clean
			continue
		}
		if ctx.Err() != nil {
			err := s.ended(ctx, ctx.Err())
			s.failAll(requests[k:], err)
			s.from = (s.from + max(k, 1)) % len(requests) // not for ever the same one
			return s.partly(err)
		}
		var status *StatusError
		switch {
		case errors.Is(err, ErrNoAnswer):
			if !s.alive(ctx, s.cfg.Retries) {
				s.failAll(requests[k:], err)
				return s.partly(err)
			}
			// Silence about large PDUs only: the rest is as large.
			if len(p.ports) > 1 || !s.ports[p.ports[0]].alone {
				s.shrinkIfRepeated(p.size())
			}
			for _, q := range requests[k:] {
				s.retryLater(q, err)
			}
			return nil
		case errors.As(err, &status):
			if isTooBig(err) && len(p.ports) > 1 {
				s.shrink(p.size(), true)
			}
			s.retryLater(p, err)
			if !s.failPortOfStatus(p, status, err) {
				clean = false // else it is the port's fault, and not the size's
			}
		case errors.Is(err, ErrMalformed), errors.Is(err, ErrMissing):
			s.retryLater(p, err)
			clean = false
		default:
			return err
		}
	}
	s.from = 0
	if clean {
		s.grow()
	}
	return nil
}

// partly returns err only where no port at all was read: what was read before
// the device went silent is valid.
func (s *Source) partly(err error) error {
	if err == nil || !errors.Is(err, ErrNoAnswer) {
		return err
	}
	for i := range s.ports {
		if p := &s.ports[i]; p.problem == fine && p.need != 0 && p.need&^p.got == 0 {
			return nil
		}
	}
	return err
}

// retryLater leaves the ports of p, which failed with err, for later.
func (s *Source) retryLater(p *pdu, err error) {
	for _, i := range p.ports {
		s.ports[i].fail(retry, err)
		s.later = append(s.later, i)
	}
}

func (s *Source) failAll(requests []*pdu, err error) {
	for _, p := range requests {
		for _, i := range p.ports {
			s.ports[i].fail(final, err)
		}
	}
}

// failPortOfStatus fails the port that error-index points at, if it does.
func (s *Source) failPortOfStatus(p *pdu, status *StatusError, err error) bool {
	k := int(status.Index) - 1
	if gosnmp.SNMPError(status.Status) == gosnmp.TooBig || k < 0 || k >= len(p.wants) || p.wants[k].port < 0 {
		return false
	}
	i := p.wants[k].port
	pt := &s.ports[i]
	pt.problem = fine
	pt.fail(final, fmt.Errorf("%s.%d: %w", columns[p.wants[k].col].name, pt.index, err))
	if !pt.alone {
		// From now on it does not take others with it.
		pt.alone, s.stalePlan = true, true
	}
	return true
}

// store takes the answer to p. It returns false where not everything came back
// that was asked for.
func (s *Source) store(p *pdu) (complete bool) {
	complete = true
	boot, discon := s.boot, uint64(0)
	if p.parts != nil {
		discon = s.ports[p.ports[0]].val[ifCounterDiscontinuityTime]
	}
	for k := range p.wants {
		w := &p.wants[k]
		b := s.answer.bind(k, p)
		switch {
		case w.port == noPort:
			switch {
			case b != nil && b.kind == gosnmp.TimeTicks:
				s.scalar(w.col, uint32(b.n))
			case k >= len(s.answer.binds) && len(p.ports) > 0: // it guards them
				complete = false
				s.ports[p.ports[len(p.ports)-1]].fail(retry, s.absent(k, w))
			}
		case b == nil:
			complete = false
			s.ports[w.port].fail(retry, s.absent(k, w))
		default:
			s.ports[w.port].take(w.col, b)
		}
	}
	for _, i := range p.ports {
		pt := &s.ports[i]
		pt.check()
		if p.parts != nil && (s.boot != boot || pt.val[ifCounterDiscontinuityTime] != discon) {
			pt.fail(retry, errBetween)
		}
		pt.sent, pt.received, pt.boot = s.answer.sent, s.answer.received, s.boot
		if pt.problem == retry {
			s.later = append(s.later, i)
		}
	}
	return complete
}

// absent is the error for a binding that did not come back.
func (s *Source) absent(k int, w *want) error {
	what := "sysUpTime or ifTableLastChange"
	if w.port != noPort {
		what = fmt.Sprintf("%s.%d", columns[w.col].name, s.ports[w.port].index)
	}
	if k >= len(s.answer.binds) {
		return fmt.Errorf("%s: %w: it ends after %d bindings", what, ErrMissing, len(s.answer.binds))
	}
	return fmt.Errorf("%s: %w: it has another object in its place", what, ErrMissing)
}

// errBetween is for a port that was read in parts.
var errBetween = errors.New("the agent or the port's counters restarted while they were read")

// scalar takes sysUpTime or ifTableLastChange.
func (s *Source) scalar(c column, ticks uint32) {
	switch c {
	case uptimeScalar:
		s.noteUptime(ticks)
	case lastChangeScalar:
		s.lastChange = ticks
	}
}

func (s *Source) noteUptime(ticks uint32) {
	if s.uptime.advance(ticks, s.answer.received) {
		s.boot++
		s.unknown = true
		s.found = "" // it may be another software now
	}
}

// alive reports whether the agent answers the smallest of questions.
func (s *Source) alive(ctx context.Context, retries int) bool {
	p := &pdu{kind: gosnmp.GetRequest}
	p.ask(sysUpTime.at(0), noPort, uptimeScalar)
	return s.askAgain(ctx, p, retries) == nil
}

// ask sends p, as often as configured, until there is an answer. An error-status
// in it is a *StatusError.
func (s *Source) ask(ctx context.Context, p *pdu) error {
	if p.parts != nil {
		return s.askParts(ctx, p)
	}
	return s.askAgain(ctx, p, s.cfg.Retries)
}

// askAgain is ask with so many tries after the first one.
func (s *Source) askAgain(ctx context.Context, p *pdu, retries int) error {
	if p.msg == nil {
		if err := s.sess.prepare(p); err != nil {
			return err
		}
	}
	var err error
	for try := 0; ; try++ {
		err = s.sess.exchange(ctx, p, &s.answer)
		switch {
		case err == nil && s.answer.status != 0:
			return &StatusError{s.answer.status, s.answer.index}
		case err == nil && p.wants != nil && len(s.answer.binds) > len(p.wants):
			err = fmt.Errorf("%w: %d bindings where %d were asked for", ErrMalformed, len(s.answer.binds), len(p.wants))
		case err == nil:
			s.answers++
			if len(s.answer.binds) >= s.failedSize {
				s.failedInRow = 0
			}
			return nil
		}
		if ctx.Err() != nil || try >= retries ||
			!errors.Is(err, ErrNoAnswer) && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrNotInTimeWindow) {
			break
		}
	}
	if errors.Is(err, ErrNoAnswer) && retries > 0 {
		return fmt.Errorf("%w in %d tries of %v", err, retries+1, s.cfg.Timeout)
	}
	return err
}
