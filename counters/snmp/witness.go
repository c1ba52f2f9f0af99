package snmp

import (
	"fmt"
)

// Some agents have the 64-bit octets of every row and count in them only for some. Of a
// port that is up and whose ifHCOutOctets have not moved yet, ifOutOctets are read
// too, as a witness: an idle port is one of which both stand still.

const (
	// witnessSlack is how many octets ifOutOctets may be ahead: what is sent between
	// the agent's reading of the two.
	witnessSlack = 1 << 14
	// witnessRounds is after how many readings in a row the 32-bit columns are
	// taken instead.
	witnessRounds = 2
)

// wide says whether the octets are ifHCOutOctets.
func (p *port) wide() bool { return p.need.has(ifHCOutOctets) }

// kinds are the columns that the sample is made of.
func (p *port) kinds() mask {
	if p.wide() {
		return p.need &^ of(ifOutOctets)
	}
	return p.need
}

// testify compares the witness with the 64-bit octets, and returns an error where these
// stand still alone.
func (p *port) testify(fresh bool) error {
	h := &p.hist
	was := h.witness
	if h.witness = p.val[ifOutOctets]; fresh || !p.need.has(ifOutOctets) {
		p.stood = 0
		return nil
	}
	ahead := step32(was, h.witness)
	switch {
	case p.val[ifHCOutOctets] != h.octets:
		p.proven, p.stood = true, 0
		return nil
	case ahead == 0:
		return nil
	}
	if p.stood++; p.stood < witnessRounds && ahead < witnessSlack {
		return nil
	}
	return fmt.Errorf("ifHCOutOctets.%d %w while ifOutOctets.%d counts: the next readings take 32 bits", p.index, ErrStill, p.index)
}

// heed changes what is read next, after the samples of a reading: 32-bit columns of ports
// whose 64-bit ones stand still, and witnesses as long as any port needs one.
func (s *Source) heed() {
	needed := false
	for i := range s.ports {
		p := &s.ports[i]
		if p.need == 0 {
			continue
		}
		if p.stood >= witnessRounds {
			name := ifDescr
			if p.need.has(ifName) {
				name = ifName
			}
			p.narrow, p.stood = true, 0
			p.choose(name, p.has, &p.val, s.discards(), s.system.kernel)
			s.stalePlan = true
		}
		needed = needed || p.wide() && p.has.has(ifOutOctets) && !p.proven && p.up()
	}
	if needed = needed && !s.noRoom; needed != s.witnesses {
		s.callAll(needed)
	}
}

func (s *Source) callAll(witness bool) {
	s.witnesses, s.stalePlan = witness, true
	for i := range s.ports {
		s.ports[i].call(witness)
	}
}

// call adds the witness to what is read of the port, or takes it away. All ports have
// one or none, so that GetBulk remains possible.
func (p *port) call(witness bool) {
	switch {
	case !p.wide() || !p.has.has(ifOutOctets):
	case witness:
		p.need |= of(ifOutOctets)
	default:
		p.need &^= of(ifOutOctets)
	}
}
