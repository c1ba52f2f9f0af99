package snmp

import (
	"context"
	"errors"
	"slices"
)

// retryInParts reads ports again whose PDU failed, in smaller ones.
func (s *Source) retryInParts(ctx context.Context, ports []int32) error {
	for len(ports) > 0 {
		n, space := 0, s.limit-2
		for n < len(ports) && (n == 0 || space >= s.ports[ports[n]].need.size()) {
			space -= s.ports[ports[n]].need.size()
			n++
		}
		if err := s.retryGroup(ctx, ports[:n:n]); err != nil {
			return err
		}
		ports = ports[n:]
	}
	return nil
}

// retryGroup reads a few ports in one PDU, and in parts where that fails, until
// the ports that cannot be read are known.
func (s *Source) retryGroup(ctx context.Context, ports []int32) error {
	todo := ports[:0:0]
	for _, i := range ports {
		// A port that got its verdict in the meantime keeps it.
		if p := &s.ports[i]; p.problem != final && p.need != 0 {
			todo = append(todo, i)
		}
	}
	if len(todo) == 0 || s.extra <= 0 {
		return nil
	}
	s.extra--
	req := s.getPDU(todo, (*port).fullColumns)
	if err := s.sess.prepare(req); err != nil {
		return err
	}
	err := s.ended(ctx, s.ask(ctx, req))
	for _, i := range todo {
		s.ports[i].begin(s.ports[i].need)
	}
	if err == nil {
		again := s.storeRetried(req)
		switch {
		case len(again) == 0, errors.Is(s.ports[again[0]].err, errBetween):
			return nil
		case len(todo) == 1:
			return s.retrySingly(ctx, todo[0], req.size(), s.ports[todo[0]].err)
		}
		s.shrink(len(req.wants), false)
		return s.retryHalves(ctx, again)
	}
	for _, i := range todo {
		s.ports[i].fail(retry, err)
	}
	if ctx.Err() != nil {
		return err
	}
	var status *StatusError
	switch {
	case errors.Is(err, ErrNoAnswer):
		if s.silences++; s.silences > 3 || !s.alive(ctx, s.cfg.Retries) {
			return err
		}
		if len(todo) == 1 {
			break // it may be the port
		}
		s.shrink(len(req.wants), false)
	case errors.As(err, &status):
		if isTooBig(err) {
			if p := &s.ports[todo[0]]; len(todo) == 1 && p.wide() && p.need.has(ifOutOctets) && s.limit >= rowOIDs {
				// One column less may be what it takes.
				s.noSpace = true
				s.setWitness(p)
				return s.retryGroup(ctx, todo)
			}
			if n := req.size(); n > 1 {
				s.shrink(n, true)
				if len(todo) == 1 {
					return s.retryGroup(ctx, todo)
				}
			}
		}
		if s.failPortOfStatus(req, status, err) {
			return s.retryGroup(ctx, todo)
		}
	case errors.Is(err, ErrMalformed), errors.Is(err, ErrMissing):
	default:
		return err
	}
	if len(todo) == 1 {
		return s.retrySingly(ctx, todo[0], req.size(), err)
	}
	if err := s.retryHalves(ctx, todo); err != nil {
		return err
	}
	if status != nil && !isTooBig(err) && !slices.ContainsFunc(todo, func(i int32) bool { return s.ports[i].problem != fine }) {
		s.shrink(len(req.wants), false) // no port is at fault
	}
	return nil
}

// storeRetried stores the answer to req, and returns the ports that have to be asked for again.
func (s *Source) storeRetried(req *pdu) (again []int32) {
	mark := len(s.later)
	s.store(req)
	again = append(again, s.later[mark:]...)
	s.later = s.later[:mark]
	return again
}

// retrySingly reads a port in PDUs of one binding, after one of n bindings failed with err.
// Where that is answered, the PDU may have been too large; else the port is at fault, and from
// now on does not take others with it.
func (s *Source) retrySingly(ctx context.Context, i int32, n int, err error) error {
	p := &s.ports[i]
	if n > 1 && !p.alone {
		req := s.inParts(i, p.need, 1)
		if err = s.ended(ctx, s.ask(ctx, req)); err == nil {
			p.begin(p.need)
			if again := s.storeRetried(req); len(again) == 0 {
				s.shrinkIfRepeated(n)
				return nil
			}
			err = p.err
		}
	}
	if ctx.Err() != nil {
		p.fail(retry, err)
		return err
	}
	p.problem = fine
	p.fail(final, err)
	if !p.alone {
		p.alone, s.stalePlan = true, true
	}
	return nil
}

func (s *Source) retryHalves(ctx context.Context, ports []int32) error {
	if len(ports) == 1 {
		return s.retryGroup(ctx, ports)
	}
	if err := s.retryGroup(ctx, ports[:len(ports)/2]); err != nil {
		return err
	}
	return s.retryGroup(ctx, ports[len(ports)/2:])
}

// findLost looks for ports that are not where they were, and reads those found.
func (s *Source) findLost(ctx context.Context) error {
	before := make([]uint32, len(s.ports))
	for i := range s.ports {
		before[i] = s.ports[i].index
	}
	if err := s.survey(ctx, false); err != nil {
		if ctx.Err() != nil {
			return s.ended(ctx, err)
		}
		return nil // the ports have their own errors; the rest was read
	}
	var again []int32
	for i := range s.ports {
		p := &s.ports[i]
		switch {
		case p.need == 0:
			p.problem = fine
			p.fail(final, p.missing)
		case p.index != before[i] || p.problem == lookUp || p.need&^p.got != 0:
			p.begin(p.need)
			p.fail(retry, ErrMissing)
			again = append(again, int32(i))
		}
	}
	return s.retryInParts(ctx, again)
}
