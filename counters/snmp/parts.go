package snmp

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/gosnmp/gosnmp"
)

// Agents that do not take all columns of a port in one PDU are asked for them in parts. The
// counters come first, and are of one instant, or of instants within Sample.Within. What
// vouches for them comes last: it was the same after the reading before, and is afterwards,
// so it was in between.

// inParts asks for the columns of one port in PDUs of up to limit bindings.
func (s *Source) inParts(port int32, cols mask, limit int) *pdu {
	pt := &s.ports[port]
	p := &pdu{kind: gosnmp.GetRequest, ports: []int32{port}}
	ask := func(c column) {
		if cols.has(c) {
			p.ask(c.oid().at(pt.index), port, c)
			cols &^= of(c)
		}
	}
	if pt.wide() {
		ask(ifHCOutOctets)
	} else {
		ask(ifOutOctets)
	}
	for _, c := range pt.parts {
		ask(c)
	}
	counters := len(p.wants)
	for c := range nColumns {
		ask(nColumns - 1 - c) // the name is the last one
	}
	p.ask(sysUpTime.at(0), noPort, uptimeScalar)
	if s.hasLastChange {
		p.ask(ifTableLastChange.at(0), noPort, lastChangeScalar)
	}
	p.divide(limit)
	p.counting = (counters + limit - 1) / limit
	return p
}

// divide makes parts of up to limit bindings.
func (p *pdu) divide(limit int) {
	for at := 0; at < len(p.wants); at += limit {
		end := min(at+limit, len(p.wants))
		p.parts = append(p.parts, &pdu{kind: p.kind, names: p.names[at:end:end], wants: p.wants[at:end:end], oids: p.oids})
	}
}

// askParts asks for the parts of p, and makes one answer of theirs. It was sent and received
// when those with the counters were.
func (s *Source) askParts(ctx context.Context, p *pdu) error {
	var all, again answer
	counting := p.parts[:p.counting]
	for range 2 {
		all.binds = all.binds[:0]
		for _, part := range counting {
			if err := s.addPart(ctx, part, &all); err != nil {
				return err
			}
		}
		if len(counting) < 2 {
			break
		}
		// Octets that have not moved show that there was no refresh between the parts. Where
		// they have again, they move all the time.
		again.binds = again.binds[:0]
		if err := s.addPart(ctx, counting[0], &again); err != nil {
			return err
		}
		moved := again.binds[0].n != all.binds[0].n
		copy(all.binds, again.binds)
		all.received = again.received
		if !moved {
			break
		}
	}
	sent, received := all.sent, all.received
	for _, part := range p.parts[p.counting:] {
		if err := s.addPart(ctx, part, &all); err != nil {
			return err
		}
	}
	if len(counting) > 0 {
		all.sent, all.received = sent, received
	}
	s.answer = all
	return nil
}

// addPart asks for a part, and adds its answer to that of all parts before.
func (s *Source) addPart(ctx context.Context, part *pdu, all *answer) error {
	err := s.ask(ctx, part)
	var status *StatusError
	switch {
	case errors.As(err, &status) && (status.Index > 0 || len(part.wants) == 1):
		return &StatusError{status.Status, max(status.Index, 1) + int32(len(all.binds))}
	case err != nil:
		return err
	case len(s.answer.binds) < len(part.wants):
		return fmt.Errorf("answer ends after %d of %d bindings: %w", len(s.answer.binds), len(part.wants), ErrMissing)
	}
	if len(all.binds) == 0 {
		all.sent = s.answer.sent
	}
	all.received = s.answer.received
	for _, b := range s.answer.binds { // the session uses their memory again
		b.oid, b.text = bytes.Clone(b.oid), bytes.Clone(b.text)
		all.binds = append(all.binds, b)
	}
	return nil
}
