package gnmi

import (
	"fmt"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/protocol/gnmi"
	"github.com/csig-agent/csig/protocol/gnmi/oc"
)

// leaf is the newest value of one leaf of a port.
type leaf struct {
	set     bool
	val     uint64
	at      int64     // the target's timestamp, ns since 1970; 0 where it gave none
	arrived time.Time // by our clock
	message uint64    // number of the notification that brought it
	stream  uint64    // number of the stream or poll that brought it
	err     error     // the newest value is of no use
}

// packetSource says which counters a port's packets are.
type packetSource uint8

const (
	noPackets packetSource = iota
	allPackets
	summedPackets
	unicastPackets
)

var packetLeaves = [...][]leafID{
	allPackets:     {outPkts},
	summedPackets:  {outUnicast, outMulticast, outBroadcast},
	unicastPackets: {outUnicast},
}

// row is one reading: octets and packets that belong together.
type row struct {
	set      bool
	octets   uint64
	packets  uint64
	from     packetSource
	at       int64     // of the octets
	arrived  time.Time // newest
	local    time.Time // when this sample arrived first
	discards uint64
	dropped  bool // packets were discarded since the row before
	skewed   bool // octets and packets are of different instants
}

// port is what is known of one configured port.
type port struct {
	name       string
	leaves     [kept]leaf
	row        row
	held       moment        // until when the row's values are known to have held
	heldWithin time.Duration // how far that instant may be off the target's sampling
	sampled    int64         // timestamp of the octets that the stream brought last
	still      bool          // the newest octets are those before, at a later time
	epoch      uint64
	damage     error // its newest update could not be read

	// Octets that came with a timestamp older than those before: out of order, or
	// the target's clock was set back.
	backwards int
	backAt    int64
	backSince time.Time

	lacks [nParts]bool // parts that Get did not find
	down  bool         // at the poll before
}

// packets says which counters to take for the packets sent. out-pkts counts what was
// transmitted; the other three count, by the model's words, also what was
// discarded instead. Some targets have out-pkts and never count in it.
func (p *port) packets() packetSource {
	l := &p.leaves
	sum := l[outUnicast].set && l[outMulticast].set && l[outBroadcast].set
	idle := l[outPkts].val == 0 && l[outUnicast].val != 0
	switch {
	case l[outPkts].set && !idle:
		return allPackets
	case sum:
		return summedPackets
	case l[outPkts].set:
		return allPackets
	case l[outUnicast].set:
		return unicastPackets
	}
	return noPackets
}

// settle makes the newest values the port's row as soon as they belong together. A
// target may send each leaf in a notification of its own, and need not send
// one that did not change; so the packets are complete when they have the octets'
// timestamp or arrived with any that has, and else after a grace period, in which
// nothing came. With force they are, as complete as they will ever be.
func (p *port) settle(now time.Time, grace, tolerance time.Duration, force bool) {
	o := &p.leaves[outOctets]
	if !o.set || p.row.set && o.at == p.row.at && o.arrived.Equal(p.row.arrived) {
		return
	}
	from := p.packets()
	if from == noPackets {
		return
	}
	next := row{set: true, octets: o.val, from: from, at: o.at, arrived: o.arrived, local: o.arrived}
	again := p.row.set && o.at != 0 && o.at == p.row.at
	if again {
		next.local = p.row.local
	}
	complete, together := true, false
	newest := o.arrived
	for _, id := range packetLeaves[from] {
		l := &p.leaves[id]
		next.packets += l.val
		off := time.Duration(l.at - o.at).Abs()
		together = together || l.message == o.message
		complete = complete && off <= tolerance
		// A leaf that is older has not changed; a newer one counted more.
		next.skewed = next.skewed || l.at > o.at && off > tolerance/8
		if l.arrived.After(newest) {
			newest = l.arrived
		}
	}
	// Unicast packets alone are for targets that have nothing else.
	complete = complete || together
	if (!complete || from == unicastPackets) && !force && now.Sub(newest) < grace {
		return
	}
	next.discards = p.leaves[outDiscards].val
	next.dropped = p.row.set && next.discards != p.row.discards
	if p.row.set && p.row.from != from {
		p.epoch++
	}
	if p.row = next; !again {
		p.held, p.heldWithin = moment{}, 0
	}
}

// pending reports whether a part of a newer sample than the row has arrived.
func (p *port) pending(tolerance time.Duration) bool {
	for id := outOctets; id <= outBroadcast; id++ {
		if l := &p.leaves[id]; l.set && l.at > p.row.at+int64(tolerance) {
			return true
		}
	}
	return false
}

// take stores a leaf's new value. It reports false for one that is older than
// what is there.
func (p *port) take(id leafID, next leaf) bool {
	l := &p.leaves[id]
	if l.set && l.stream == next.stream && next.at < l.at {
		return false
	}
	if id == lastClear && l.set && l.val != next.val {
		p.epoch++
	}
	*l = next
	return true
}

// drop deletes a leaf that the target no longer has.
func (p *port) drop(id leafID) {
	p.leaves[id] = leaf{}
	if id == outOctets && p.row.set {
		// Where it comes back, it counts from zero.
		p.row, p.held = row{}, moment{}
		p.epoch++
	}
}

// expire drops the leaves of a part that were not in the given stream or poll.
func (p *port) expire(stream uint64, n *node) {
	for id := range p.leaves {
		if l := &p.leaves[id]; (l.set || l.err != nil) && l.stream != stream && n.under(leafID(id)) {
			p.drop(leafID(id))
		}
	}
}

// clockSetBack counts octets that came out of order. Three in a row that are in
// order among themselves, over two intervals, are no delayed messages: the target's
// clock was set back.
func (p *port) clockSetBack(at int64, now time.Time, interval time.Duration) bool {
	if p.backwards == 0 || at <= p.backAt {
		p.backwards, p.backSince = 0, now
	}
	p.backwards++
	p.backAt = at
	return p.backwards >= 3 && now.Sub(p.backSince) >= 2*interval-interval/4
}

// up reports whether the link carries frames, and whether the target knows.
func (p *port) up() (up, known bool) {
	switch oc.E_Interface_OperStatus(p.leaves[operStatus].val) {
	case oc.Interface_OperStatus_UP:
		return true, true
	case oc.Interface_OperStatus_UNKNOWN:
		return true, false
	}
	return false, true
}

// speed returns the capacity in bit/s and the leaf it is from; 0 where the target
// does not report.
func (p *port) speed() (bps uint64, from leafID) {
	for _, id := range [...]leafID{lagSpeed, negotiatedSpeed, portSpeed} {
		if l := &p.leaves[id]; l.set && l.val != 0 {
			return l.val, id
		}
	}
	return 0, noLeaf
}

// trouble says why there is no sample, nil if there is one.
func (p *port) trouble() error {
	for _, id := range [...]leafID{outOctets, operStatus} {
		if err := p.leaves[id].err; err != nil {
			return err
		}
	}
	if p.damage != nil {
		return p.damage
	}
	if !p.leaves[outOctets].set {
		return fmt.Errorf("%s: %w", outOctets, gnmi.ErrMissing)
	}
	if !p.leaves[operStatus].set {
		return fmt.Errorf("%s: %w", operStatus, gnmi.ErrMissing)
	}
	if p.packets() == noPackets {
		for _, id := range [...]leafID{outPkts, outUnicast, outMulticast, outBroadcast} {
			if err := p.leaves[id].err; err != nil {
				return err
			}
		}
		return fmt.Errorf("neither %s nor %s, without which the cost of preambles is unknown: %w", outPkts, outUnicast, gnmi.ErrMissing)
	}
	return nil
}

const (
	// preambleAndGap is what a frame costs on the wire beyond its octets.
	preambleAndGap = 20

	partialPackets  = "the target does not count multicast and broadcast packets: their preambles and gaps are missing from the load"
	unknownStatus   = "the target does not know the link's status (oper-status UNKNOWN): it is taken for up"
	discardsCounted = "packets were discarded, and the target may count them as sent: the load is at most their preambles and gaps too high"
	skewedPackets   = "octets and packets were counted at different instants"
	noTimestamp     = "the target gives no timestamps: the sample's time is that of its arrival"
)

// sample fills in what the row says; At and Local are the caller's.
func (p *port) sample() counters.Sample {
	r := &p.row
	up, known := p.up()
	speed, _ := p.speed()
	out := counters.Sample{
		Port: p.name, Octets: r.octets, Packets: r.packets, Speed: speed, Up: up,
		Bits: 64, Overhead: preambleAndGap, Epoch: p.epoch,
	}
	switch {
	case !known:
		out.Degraded = unknownStatus
	case r.from == unicastPackets:
		out.Degraded = partialPackets
	case r.skewed:
		out.Degraded = skewedPackets
	case r.from != allPackets && r.dropped:
		out.Degraded = discardsCounted
	case r.at == 0:
		out.Degraded = noTimestamp
	}
	return out
}
