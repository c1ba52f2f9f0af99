package snmp

import (
	"fmt"
	"time"
)

// Some agents have the 64-bit octets of every row and count in them only for some. Of a
// port that is up and whose ifHCOutOctets have not moved yet, ifOutOctets are read
// too, as a witness: both of an idle port stand still.
//
// The two are in different tables, which an agent may refresh at different times. So
// 64-bit octets stand still if others of the device have moved since the 32-bit ones
// did, or after longestCache.

const (
	longestCache = time.Minute
	// stillRounds is after how many readings that show it the 32-bit columns are
	// taken instead.
	stillRounds = 2
)

// wide reports whether the octets are ifHCOutOctets.
func (p *port) wide() bool { return p.need.has(ifHCOutOctets) }

// kinds are the columns that the sample is made of.
func (p *port) kinds() mask {
	if p.wide() {
		return p.need &^ of(ifOutOctets)
	}
	return p.need
}

// noteWide notes whether any 64-bit octets have moved in this reading.
func (s *Source) noteWide() {
	s.wideMoved = false
	for i := range s.ports {
		p := &s.ports[i]
		if p.problem == fine && p.wide() && p.hist.have && p.hist.index == p.index && p.val[ifHCOutOctets] != p.hist.octets {
			s.wideMoved = true
		}
	}
	if s.wideMoved {
		s.wideMoves++
	}
}

// checkHCOctets compares the witness with the 64-bit octets, and returns an error where these
// stand still alone.
func (s *Source) checkHCOctets(p *port, fresh bool) error {
	h := &p.hist
	was, first := h.witness, fresh || !h.called
	h.witness, h.called = p.val[ifOutOctets], p.need.has(ifOutOctets)
	switch {
	case p.proven:
		return nil
	case first, !h.called:
		p.ahead, p.stood = time.Time{}, 0
		return nil
	case p.val[ifHCOutOctets] != h.octets:
		p.proven, p.stood = true, 0
		return nil
	case p.ahead.IsZero():
		if was != h.witness {
			p.ahead = p.received
		}
		return nil
	case s.wideMoved && s.wideMoves > 1, p.received.Sub(p.ahead) > longestCache:
		p.stood++
	}
	if p.stood == 0 {
		return nil
	}
	return fmt.Errorf("ifHCOutOctets.%d %w while ifOutOctets.%d counts: the next readings take 32 bits", p.index, ErrStill, p.index)
}

// applyHCOctetsCheck changes what is read next, after the samples of a reading: 32-bit columns of ports
// whose 64-bit ones stand still, and a witness of each port that still needs one.
func (s *Source) applyHCOctetsCheck() {
	for i := range s.ports {
		p := &s.ports[i]
		if p.need == 0 {
			continue
		}
		if p.stood >= stillRounds {
			name := ifDescr
			if p.need.has(ifName) {
				name = ifName
			}
			p.narrow, p.stood = true, 0
			p.choose(name, p.has, &p.val, s.discards(), s.system.kernel)
			s.stalePlan = true
		}
		s.setWitness(p)
	}
}

// setWitness adds the witness to what is read of the port, or takes it away.
func (s *Source) setWitness(p *port) {
	if !p.wide() {
		return
	}
	witness := !s.noSpace && !p.proven && p.up() && p.has.has(ifOutOctets)
	if witness != p.need.has(ifOutOctets) {
		p.need ^= of(ifOutOctets)
		s.stalePlan = true
	}
}
