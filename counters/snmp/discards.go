package snmp

import (
	"cmp"

	"github.com/gosnmp/gosnmp"
)

const narrowKind = gosnmp.Counter32

// dropHistory follows one port's ifOutDiscards and ifOutErrors.
type dropHistory struct {
	discards, errors uint64 // as last read

	taken   uint64 // dropped packets taken out of the packet counter so far
	pending uint64 // dropped packets that the packet counter has not shown yet

	// Since the epoch began, for the evidence.
	packets, octets, dropped uint64
	prevPackets              uint64 // the packet counter as last read
}

const (
	// ethernetMin is the least that a frame adds to the octets of an Ethernet
	// port, without the FCS.
	ethernetMin = 60

	dropsUnshown = "the agent shows no ifOutDiscards or ifOutErrors: packets it discarded may be counted as sent (RFC 2863)"
	dropsUnclear = "packets were discarded, and the agent does not show whether it counts them as sent (RFC 2863): the load may be overstated by the overhead of each"
)

// since is how many packets were dropped since the last reading. A counter that
// went down by more than a wrap explains was reset; it says nothing.
func (d *dropHistory) since(p *port) uint64 {
	return step32(d.discards, p.val[ifOutDiscards]) + step32(d.errors, p.val[ifOutErrors])
}

func step32(prev, now uint64) uint64 {
	if step := uint32(now - prev); step < 1<<31 {
		return uint64(step)
	}
	return 0
}

// take returns packets without those that were dropped, as far as it is known
// that they are in there, and otherwise how packets may be wrong. sent is the
// octets since the last reading.
func (d *dropHistory) take(p *port, packets, sent uint64, fresh bool, rule Discards, found *Discards) (uint64, string) {
	shown := p.need.has(ifOutDiscards) && p.need.has(ifOutErrors)
	var dropped, counted uint64
	if fresh {
		*d = dropHistory{}
		sent = 0 // there is nothing to compare with
	} else {
		dropped = d.since(p)
		counted = packets - d.prevPackets
	}
	d.discards, d.errors, d.prevPackets = p.val[ifOutDiscards], p.val[ifOutErrors], packets
	if !shown {
		if rule == DiscardsExcluded {
			return packets, ""
		}
		return packets, dropsUnshown
	}
	switch rule {
	case DiscardsIncluded:
		// The columns may be of different instants: never take out more than
		// has been counted, so that the result does not go down.
		d.pending += dropped
		out := min(d.pending, counted)
		d.pending -= out
		d.taken += out
		return packets - d.taken, ""
	case DiscardsExcluded:
		return packets - d.taken, ""
	}
	d.learn(counted, sent, dropped, found)
	if dropped > 0 {
		return packets, dropsUnclear
	}
	return packets, ""
}

// learn looks for proof. The columns may be of instants that differ by one
// reading, so the side that would have to be the smaller one is taken with the
// newest step and the other side without it.
func (d *dropHistory) learn(counted, sent, dropped uint64, found *Discards) {
	packetsBefore, droppedBefore := d.packets, d.dropped
	d.packets += counted
	d.octets += sent
	d.dropped += dropped
	switch {
	case droppedBefore > d.packets:
		*found = DiscardsExcluded
	case d.octets < ethernetMin*packetsBefore && d.dropped > 0 &&
		d.octets >= ethernetMin*(packetsBefore-min(d.dropped, packetsBefore)):
		*found = DiscardsIncluded
	}
}

// discards is the rule in force.
func (s *Source) discards() Discards {
	switch {
	case s.cfg.Discards != DiscardsLearn:
		return s.cfg.Discards
	case s.system.kernel:
		return DiscardsExcluded
	}
	return cmp.Or(s.found, DiscardsLearn)
}
