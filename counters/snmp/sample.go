package snmp

import (
	"time"

	"github.com/csig-agent/csig/counters"
)

// history is what a port's readings up to now add up to.
type history struct {
	have   bool
	epoch  uint64
	boot   uint64
	index  uint32
	need   mask
	discon uint64

	octets  uint64
	witness uint64           // ifOutOctets beside 64-bit octets, where
	called  bool             // they were read
	last    [nColumns]uint64 // of 32-bit packet columns
	widened [nColumns]uint64

	drops dropHistory
}

const (
	minFrame = 14 // bytes: a frame's header, the least that it adds to the octets
	// wrapTolerance is how many packets more than the octets explain a 32-bit packet
	// counter that went down may have counted, and still has wrapped.
	wrapTolerance = 1 << 16
)

// sample turns what was read of a port into a Sample.
func (s *Source) sample(p *port) counters.Sample {
	out := counters.Sample{Port: p.name}
	if p.need == 0 || p.need&^p.got != 0 {
		p.fail(final, ErrMissing)
	}
	if p.problem != fine {
		out.At = time.Now()
		out.Err = s.portError(p.err)
		return out
	}
	out.At, out.Within, out.Cache = p.at(), p.received.Sub(p.sent)/2, s.system.cache
	out.Lag = s.system.lag
	out.Up = p.up()
	out.Speed = p.speed()
	out.Overhead = s.overhead()
	out.Bits, out.Octets = 64, p.val[ifHCOutOctets]
	if !p.wide() {
		out.Bits, out.Octets = 32, p.val[ifOutOctets]
	}
	var err error
	if out.Packets, out.Degraded, err = s.advance(p, out.Octets, p.wide()); err != nil {
		return counters.Sample{Port: p.name, At: out.At, Err: s.portError(err)}
	}
	out.Epoch = p.hist.epoch
	switch {
	case p.partial:
		out.Degraded = "the agent does not count multicast and broadcast packets: their preambles and gaps are missing from the load"
	case p.val[ifOperStatus] == operUnknown:
		out.Degraded = "the agent does not know the link's status (ifOperStatus unknown): it is taken for up"
	}
	return out
}

// at is the midpoint of the exchange that carried the port's octets.
func (p *port) at() time.Time { return p.sent.Add(p.received.Sub(p.sent) / 2) }

// advance brings the port's history up to this reading and returns the
// packets sent, as one 64-bit counter, and how they may be wrong. An error means
// that the octets do not count.
func (s *Source) advance(p *port, octets uint64, wide bool) (packets uint64, degraded string, err error) {
	h := &p.hist
	fresh := !h.have || h.boot != p.boot || h.index != p.index || h.need != p.kinds() || h.discon != p.val[ifCounterDiscontinuityTime]
	sent := octets - h.octets
	if !wide {
		sent = uint64(uint32(sent))
	}
	if !fresh && !p.plausible(sent) {
		fresh = true
	}
	if fresh {
		h.epoch++
	}
	for _, c := range p.parts {
		v := p.val[c]
		switch {
		case columns[c].kind != narrowKind || fresh:
			h.widened[c] = v
		default:
			h.widened[c] += uint64(uint32(v - h.last[c]))
		}
		h.last[c] = v
		packets += h.widened[c]
	}
	packets, degraded = h.drops.take(p, packets, sent, fresh, s.discards(), &s.found)
	if wide {
		err = s.checkHCOctets(p, fresh)
	}

	h.have, h.boot, h.index, h.need = true, p.boot, p.index, p.kinds()
	h.discon, h.octets = p.val[ifCounterDiscontinuityTime], octets
	return packets, degraded, err
}

// plausible reports whether 32-bit packet counters that went down can have wrapped,
// given the octets sent; otherwise they were reset.
func (p *port) plausible(sent uint64) bool {
	h := &p.hist
	for _, c := range p.parts {
		if columns[c].kind != narrowKind || p.val[c] >= h.last[c] {
			continue
		}
		dropped := h.drops.since(p)
		if uint64(uint32(p.val[c]-h.last[c])) > sent/minFrame+dropped+wrapTolerance {
			return false
		}
	}
	return true
}
