package oftest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"time"
)

// session is a connection of csig with the switch. One goroutine runs it.
type session struct {
	p     *Proxy
	ctx   context.Context
	end   context.CancelFunc
	conns [3]net.Conn // by side
	from  chan received

	own     uint32     // the last transaction of the proxy itself
	held    []Message  // changes since the last barrier, to be reordered
	later   []due      // what is sent at a time to come, in its order
	late    []due      // errors that wait for the answer to a barrier
	delayed []uint32   // transactions whose errors from the wire csig does not get
	queue   []received // messages that came while the loop waited for a barrier
}

// due is a message that is sent to a side at a time.
type due struct {
	at   time.Time
	side int
	m    Message
}

// firstOwn is where the proxy's own transactions start: far from csig's, which
// count from 1.
const firstOwn = 0xc5160000

// maxHeld bounds the messages that wait in a session.
const maxHeld = 1 << 16

// run passes messages on until a side ends.
func (s *session) run() error {
	for {
		var timer <-chan time.Time
		var err error
		if len(s.later) > 0 {
			wait := time.Until(s.later[0].at)
			if wait <= 0 { // before anything else is looked at
				if err := s.releaseFirst(); err != nil {
					return err
				}
				continue
			}
			timer = time.After(wait)
		}
		if len(s.queue) > 0 {
			r := s.queue[0]
			s.queue = s.queue[1:]
			if err := s.take(r); err != nil {
				return err
			}
			continue
		}
		select {
		case r := <-s.from:
			err = s.take(r)
		case <-timer:
			err = s.releaseFirst()
		case <-s.ctx.Done():
			err = s.ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

func (s *session) releaseFirst() error {
	d := s.later[0]
	s.later = s.later[1:]
	return s.release(d)
}

// release sends what was due. A change of the switch has taken effect when
// Faults.After is called.
func (s *session) release(d due) error {
	if err := s.send(d.side, d.m); err != nil || d.side != wire {
		return err
	}
	after := s.p.current().After
	if after == nil || !d.m.Change() {
		return nil
	}
	if err := s.settle(); err != nil {
		return err
	}
	after(d.m)
	return nil
}

// settle waits until the switch has carried out all that it was sent.
func (s *session) settle() error {
	_, err := s.await(message(TypeBarrierReq, s.newXID(), nil), wire)
	return err
}

func (s *session) newXID() uint32 {
	s.own++
	return s.own
}

// await sends a request of the proxy's own to a side, and waits for all of its
// answer. What comes meanwhile waits.
func (s *session) await(request Message, side int) (out []Message, err error) {
	if err := s.send(side, request); err != nil {
		return nil, err
	}
	for {
		select {
		case r := <-s.from:
			if r.err != nil || r.side != side || r.m.XID() != request.XID() {
				s.queue = append(s.queue, r)
				if err := s.bounded(len(s.queue)); err != nil || r.err != nil {
					return nil, cmp.Or(r.err, err)
				}
				continue
			}
			out = append(out, r.m)
			if err := s.bounded(len(out)); err != nil {
				return nil, err
			}
			if _, flags := r.m.part(); r.m.Type() != TypeMultipartRep || flags&1 == 0 {
				return out, nil
			}
		case <-s.ctx.Done():
			return nil, s.ctx.Err()
		}
	}
}

func (s *session) send(side int, m Message) error {
	_, err := s.conns[side].Write(m)
	return err
}

// schedule sends a message to a side, after a time, and what is already due to go
// there before it.
func (s *session) schedule(side int, m Message, after time.Duration) error {
	d := due{time.Now().Add(after), side, m}
	at := 0 // behind what goes to the same side, and what is due before
	for i := range s.later {
		if s.later[i].side == side && s.later[i].at.After(d.at) {
			d.at = s.later[i].at
		}
		if !s.later[i].at.After(d.at) {
			at = i + 1
		}
	}
	if at == 0 && after == 0 {
		return s.release(d)
	}
	s.later = slices.Insert(s.later, at, d)
	return s.bounded(len(s.later))
}

func (s *session) take(r received) error {
	if r.err != nil {
		return fmt.Errorf("%s: %w", [...]string{"csig", "the switch", "the shadow"}[r.side], r.err)
	}
	f := s.p.current()
	if f.Silent {
		return nil
	}
	switch r.side {
	case controller:
		s.p.count(r.m)
		return s.fromController(&f, r.m)
	case wire:
		return s.fromSwitch(&f, r.m)
	}
	return s.fromShadow(&f, r.m)
}

func (s *session) fromController(f *Faults, m Message) error {
	if refusal, bad := f.refuses(m, s.p.o.OFDPA != nil); bad {
		return s.send(controller, refusal.of(m))
	}
	switch {
	case m.Change():
		if f.Lose != nil && f.Lose(m) {
			return nil
		}
		if f.RejectLate != nil {
			if l := f.RejectLate(m); l != nil {
				s.late = append(s.late, due{time.Time{}.Add(l.After), controller, l.Refusal.of(m)})
				return s.bounded(len(s.late))
			}
		}
		if f.Reorder != 0 {
			s.held = append(s.held, m)
			return s.bounded(len(s.held))
		}
		return s.change(f, m)
	case m.Type() == TypeBarrierReq:
		held := s.held
		s.held = nil
		r := rand.New(rand.NewPCG(f.Reorder, uint64(m.XID())))
		r.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
		for _, h := range held {
			if err := s.change(f, h); err != nil {
				return err
			}
		}
		return s.send(s.answers(), m)
	case m.Type() == TypeMultipartReq:
		switch typ, _ := m.part(); typ {
		case partFlow, partAggregate, partTable, partGroup, partGroupDesc, partGroupFeatures, partTableFeatures:
			return s.send(s.answers(), m)
		}
	case m.Type() == TypeHello && s.conns[shadow] != nil:
		if err := s.send(shadow, m); err != nil {
			return err
		}
	}
	return s.send(wire, m)
}

func (s *session) bounded(n int) error {
	if n > maxHeld {
		return fmt.Errorf("more than %d messages wait", maxHeld)
	}
	return nil
}

// answers is the side that answers for flows and groups.
func (s *session) answers() int {
	if s.conns[shadow] != nil {
		return shadow
	}
	return wire
}

// change has the switch carry out a change, where it is one that it takes.
func (s *session) change(f *Faults, m Message) error {
	if s.p.o.OFDPA != nil {
		return s.ofdpa(f, m)
	}
	return s.carryOut(f, m)
}

// carryOut has the switch carry out a change when its time has come.
func (s *session) carryOut(f *Faults, m Message) error {
	if s.conns[shadow] != nil {
		if err := s.send(shadow, m); err != nil {
			return err
		}
		s.delayed = append(s.delayed, m.XID()) // the shadow's error is enough
		if len(s.delayed) > maxHeld {
			s.delayed = s.delayed[1:]
		}
	}
	if f.Reorder == 0 || f.AckToWire == 0 || m.Type() != TypeFlowMod {
		return s.schedule(wire, m, f.AckToWire)
	}
	// It may overtake others that are on their way, from before a barrier, too.
	after := rand.New(rand.NewPCG(f.Reorder, uint64(m.XID()))).Int64N(int64(f.AckToWire))
	d := due{time.Now().Add(time.Duration(after)), wire, m}
	at := slices.IndexFunc(s.later, func(o due) bool { return o.at.After(d.at) })
	if at < 0 {
		at = len(s.later)
	}
	s.later = slices.Insert(s.later, at, d)
	return s.bounded(len(s.later))
}

func (s *session) fromSwitch(f *Faults, m Message) error {
	switch m.Type() {
	case TypeError:
		if slices.Contains(s.delayed, m.XID()) {
			return nil
		}
	case TypeMultipartRep:
		if typ, _ := m.part(); typ == partTableFeatures {
			m = f.rewriteFeatures(m)
		}
	}
	if f.BarrierDelay > 0 && m.Type() == TypeBarrierRep {
		return s.schedule(controller, m, f.BarrierDelay)
	}
	if err := s.send(controller, m); err != nil || m.Type() != TypeBarrierRep {
		return err
	}
	return s.rejectLate()
}

// rejectLate sends the errors about changes before the barrier that was answered.
func (s *session) rejectLate() error {
	late := s.late
	s.late = nil
	for _, l := range late {
		if err := s.schedule(controller, l.m, l.at.Sub(time.Time{})); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) fromShadow(f *Faults, m Message) error {
	switch m.Type() {
	case TypeHello:
		return nil
	case TypeEchoRequest:
		return s.send(shadow, message(TypeEchoReply, m.XID(), m[headerLen:]))
	}
	s2 := m
	if m.Type() == TypeMultipartRep {
		if typ, _ := m.part(); typ == partTableFeatures {
			s2 = f.rewriteFeatures(m)
		}
	}
	if err := s.send(controller, s2); err != nil || m.Type() != TypeBarrierRep {
		return err
	}
	return s.rejectLate()
}
