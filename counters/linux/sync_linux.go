package linux

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// sync brings what is known about interfaces and qdiscs up to date: it takes
// the notifications that have come, lists again what they leave open, and
// decides how to read the ports that changed. It reports whether any port is
// now read from another counter than before.
//
// A listing may be newer than notifications that come after it. Taking those
// again does no harm, since every later change has a notification of its own.
func (s *Source) sync(ctx context.Context) (changed bool, err error) {
	if err := s.takeEvents(); err != nil {
		return false, fmt.Errorf("link notifications: %w", err)
	}
	if s.unsynced {
		if err := s.listLinks(ctx); err != nil {
			return false, err
		}
	}
	if s.qdiscsStale {
		if err := s.listQdiscs(ctx); err != nil {
			return false, err
		}
	}
	if !s.stalePorts {
		return false, nil
	}
	for i := range s.ports {
		if p := &s.ports[i]; p.stale && s.settle(p) {
			changed = true
		}
	}
	s.stalePorts = false
	return changed, nil
}

func (s *Source) takeEvents() error {
	for {
		b, err := s.events.receive()
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.ENOBUFS):
			s.unsynced = true
			continue
		case err != nil:
			return err
		}
		for len(b) > 0 {
			m, rest, ok := nextMessage(b)
			if !ok {
				s.unsynced = true // cut off: larger than the buffer
				break
			}
			s.takeEvent(m)
			b = rest
		}
	}
}

func (s *Source) takeEvent(m message) {
	switch m.typ {
	case unix.RTM_NEWLINK:
		s.takeLink(m, instant{})
	case unix.RTM_DELLINK:
		// A bridge announces a port that leaves it in the same way, as its own
		// address family.
		if l, ok := parseLink(m.body); ok && l.family == unix.AF_UNSPEC {
			if i, ours := s.byIndex[l.index]; ours {
				s.unbind(&s.ports[i])
			}
		}
	case unix.RTM_NEWQDISC, unix.RTM_DELQDISC:
		index, _, ok := parseQdisc(m.body)
		if !ok {
			return
		}
		i, ours := s.byIndex[index]
		if !ours {
			return
		}
		// What takes a deleted qdisc's place is not announced.
		s.qdiscsStale = true
		if m.typ == unix.RTM_DELQDISC {
			s.ports[i].qdiscLives++
			s.touch(&s.ports[i])
		}
	}
}

// listLinks lists every interface.
func (s *Source) listLinks(ctx context.Context) error {
	s.round++
	if err := s.dumps.dump(ctx, s.getLinks, s.onLink); err != nil {
		return fmt.Errorf("listing interfaces: %w", err)
	}
	s.qdiscsStale = true
	if s.dumps.interrupted {
		// Interfaces came or went meanwhile, and the listing may have gaps: what
		// it has is right, what it has not may exist. The next reading lists
		// again.
		return nil
	}
	for i := range s.ports {
		if p := &s.ports[i]; p.index != 0 && p.round != s.round {
			s.unbind(p)
		}
	}
	s.unsynced = false
	return nil
}

func (s *Source) takeLink(m message, _ instant) {
	if m.typ != unix.RTM_NEWLINK {
		return
	}
	l, ok := parseLink(m.body)
	if !ok || l.family != unix.AF_UNSPEC {
		return
	}
	i, named := s.byName[l.name]
	if j, bound := s.byIndex[l.index]; bound && (!named || i != j) {
		s.unbind(&s.ports[j]) // renamed
	}
	if !named {
		return
	}
	p := &s.ports[i]
	if p.index != l.index {
		if p.index != 0 {
			s.unbind(p)
		}
		p.index, p.err = l.index, nil
		s.byIndex[l.index] = i
		s.qdiscsStale = true
	}
	p.up, p.round = l.up(), s.round
	p.dev.kind, p.dev.bus = l.deviceKind(), l.bus
	// A default qdisc is attached without a notification of its own when an
	// interface first comes up.
	if l.qdisc != p.dev.root.kind && l.qdisc != "noop" {
		s.qdiscsStale = true
	}
	s.touch(p)
}

// listQdiscs lists the root qdisc of every interface.
func (s *Source) listQdiscs(ctx context.Context) error {
	for i := range s.ports {
		s.ports[i].scan = qdisc{}
	}
	if err := s.dumps.dump(ctx, s.getQdiscs, s.onQdisc); err != nil {
		return fmt.Errorf("listing qdiscs: %w", err)
	}
	s.qdiscsStale = false
	for i := range s.ports {
		if p := &s.ports[i]; p.scan != p.dev.root {
			p.dev.root = p.scan
			s.touch(p)
		}
	}
	return nil
}

func (s *Source) takeQdisc(m message, _ instant) {
	if m.typ != unix.RTM_NEWQDISC {
		return
	}
	if index, q, ok := parseQdisc(m.body); ok {
		if i, ours := s.byIndex[index]; ours {
			s.ports[i].scan = q
		}
	}
}

func (s *Source) touch(p *port) {
	p.stale = true
	s.stalePorts = true
}

// unbind notes that a port's interface is gone.
func (s *Source) unbind(p *port) {
	delete(s.byIndex, p.index)
	p.index, p.up, p.dev, p.err = 0, false, device{}, ErrNoInterface
	p.lives++
	s.touch(p)
}

// settle asks what notifications do not have and decides how to read the port;
// it reports whether that is from another counter than before.
func (s *Source) settle(p *port) bool {
	p.stale = false
	if p.index == 0 {
		p.verdict = verdict{Facts: Facts{Port: p.cfg.Name}}
	} else {
		p.dev.offloads, p.dev.linkSpeed = s.eth.offloads(p.index), 0
		if p.dev.link() {
			p.dev.linkSpeed = s.eth.speed(p.index)
		}
		p.verdict = decide(&p.cfg, &p.dev)
		p.verdict.Index = int(p.index)
	}
	o := origin{index: p.index, lives: p.lives}
	if p.verdict.fromQdisc {
		o.fromQdisc, o.handle, o.qdiscLives = true, p.dev.root.handle, p.qdiscLives
	}
	if o == p.origin {
		return false
	}
	p.origin = o
	s.epochs++
	p.epoch = s.epochs
	return true
}
