package simulate

import (
	"github.com/csig-agent/csig/cc"
)

// link sends in one direction: an egress port and its cable. What each packet needs is in its first two lines of the
// processor's cache.
type link struct {
	perByte int64 // ps, 0: not a whole number
	delay   int64 // ps
	busy    int64 // until when it sends
	queue   fifo
	wire    fifo // begun, and not at the end yet: each with its time
	queued  uint64
	host    int32 // whose flows it asks for packets, -1: a switch's
	of      int32 // the switch whose port it is, -1: a host's
	into    int32 // the switch that it ends at, -1: a host
	paused  bool  // by the other end (PFC)
	armed   bool  // there is an event for the end of what it sends

	mostQueue uint64
	bytes     uint64 // sent, with what is being sent
	rate      uint64 // bit/s
	ingress   ingress
	drops     uint64

	pint cc.PINTPort
	_    [40]byte
}

// ingress is what the switch at the end of a link holds of what came by it, for PFC.
type ingress struct {
	held     uint64 // bytes, without those in headroom
	over     uint64 // bytes in headroom
	headroom uint64
	paused   bool
}

// switchPort is what the ports of a switch share.
type switchPort struct {
	buffer uint64 // bytes that its ports share; 0: no end
	used   uint64 // of them
}

// portConfig is what the ports of all switches have.
type portConfig struct {
	limit  uint64  // bytes that a port's queue holds; 0: no end
	alpha  float64 // of what is left of the shared buffer a queue may have so much
	pfc    bool
	ecn    bool
	min    uint64 // bytes in a queue, from which on packets are marked
	max    uint64 // from which on all are
	chance float64
	scale  uint64 // the rate of ports that min and max are for; 0: all
}

// What the ingress ports of HPCC's public ns-3 code have: bytes of their own, and how far below the threshold they resume.
const (
	pfcReserve = 4 << 10
	pfcResume  = 3 << 10
	pfcFrame   = 64 // bytes of a pause
)

// fifo is a list of packets.
type fifo struct{ first, last int32 }

// addLink adds a link, from and into switches, or hosts where they are none.
func (n *Network) addLink(rate uint64, delay int64, from, into int32) int32 {
	perByte := int64(0)
	if 8*cc.Second%rate == 0 {
		perByte = int64(8 * cc.Second / rate)
	}
	n.links = append(n.links, link{rate: rate, perByte: perByte, delay: delay, host: -1, of: from, into: into, queue: fifo{none, none}, wire: fifo{none, none}})
	return int32(len(n.links) - 1)
}

func (n *Network) addHost(link int32) int32 {
	n.hosts = append(n.hosts, host{link: link})
	n.links[link].host = int32(len(n.hosts) - 1)
	return n.links[link].host
}

// takes is how long a link sends so many bytes.
func (l *link) takes(bytes int32) int64 {
	if l.perByte != 0 {
		return int64(bytes) * l.perByte
	}
	return int64(uint64(bytes) * 8 * cc.Second / l.rate)
}

func (n *Network) newPacket() int32 {
	if n.free != none {
		p := n.free
		n.free = n.packets[p].next
		return p
	}
	n.packets = append(n.packets, packet{})
	n.hops = append(n.hops, make([]cc.Hop, n.mostHops)...)
	return int32(len(n.packets) - 1)
}

// hopsOf is the room for what links write on a packet.
func (n *Network) hopsOf(p int32) []cc.Hop { return n.hops[int(p)*n.mostHops:][:n.mostHops] }

func (n *Network) freePacket(p int32) { n.packets[p].next, n.free = n.free, p }

func (n *Network) put(q *fifo, p int32) {
	n.packets[p].next = none
	if q.last == none {
		q.first = p
	} else {
		n.packets[q.last].next = p
	}
	q.last = p
}

func (n *Network) take(q *fifo) int32 {
	p := q.first
	if p != none {
		if q.first = n.packets[p].next; q.first == none {
			q.last = none
		}
	}
	return p
}

// kick has a link send the next packet, if it is not busy: then there is an event for when it no longer is, where something
// waits.
func (n *Network) kick(id int32) {
	l := &n.links[id]
	if l.paused {
		return
	}
	if n.now < l.busy {
		n.arm(l, id)
		return
	}
	p := n.take(&l.queue)
	if p == none && l.host >= 0 {
		p = n.next(l.host)
	} else if p != none {
		l.queued -= uint64(n.packets[p].size)
	}
	if p != none {
		n.send(l, id, p)
	}
}

// send has a link that is not busy send a packet.
func (n *Network) send(l *link, id, p int32) {
	k := &n.packets[p]
	if l.of >= 0 {
		if n.csig != nil {
			if port := &n.csigPorts[id]; port.kind == native && n.now >= port.end {
				n.roll(id) // what is sent now is of the next window
			}
		}
		n.leaves(l, id, k, p)
	}
	l.bytes += uint64(k.size)
	l.busy = n.now + l.takes(k.size)
	k.came = l.busy + l.delay
	if l.wire.first == none {
		n.heap.push(k.came, arrives, id)
	}
	n.put(&l.wire, p)
	n.arm(l, id)
}

// arm makes the event for when a link is no longer busy, if it has something to send then.
func (n *Network) arm(l *link, id int32) {
	if !l.armed && (l.queue.first != none || l.host >= 0 && len(n.hosts[l.host].flows) > 0) {
		l.armed = true
		n.heap.push(l.busy, sent, id)
	}
}

// leaves has a packet leave the buffer of a switch, with what the port writes on it: what is behind the packet, and was sent
// before it.
func (n *Network) leaves(l *link, id int32, k *packet, p int32) {
	n.release(k, &n.switches[l.of])
	if k.ack {
		if n.coarse { // to that code it is the packet before, as any other
			l.pint.Passes(n.now, k.size)
		}
		return
	}
	if n.ports.ecn && n.isMarked(l) {
		k.marked = true
	}
	if k.tag.on {
		n.stamp(id, k)
		return
	}
	n.write(l, id, k, p)
}

// isMarked is whether a packet that leaves gets a mark, by the bytes that stay behind it.
func (n *Network) isMarked(l *link) bool {
	c := &n.ports
	low, high := c.min, c.max
	if c.scale != 0 {
		by := float64(l.rate) / float64(c.scale)
		low, high = uint64(float64(low)*by), uint64(float64(high)*by)
	}
	switch {
	case l.queued <= low:
		return false
	case l.queued > high:
		return true
	}
	return n.marks.Float64() < c.chance*float64(l.queued-low)/float64(high-low)
}

// write has a packet read what the port is like that begins to send it: behind the packet, and sent before it.
func (n *Network) write(l *link, id int32, k *packet, p int32) {
	switch k.ask {
	case cc.AskTelemetry:
		h := cc.Hop{Port: uint32(id), Rate: l.rate, Bytes: l.bytes, Queue: l.queued, Time: n.now, Sojourn: n.now - k.came}
		if n.coarse { // its fields' units: 128 and 80 bytes, ns
			h.Bytes, h.Queue, h.Time = h.Bytes-h.Bytes%128, h.Queue-h.Queue%80, h.Time-h.Time%1000
		}
		n.hopsOf(p)[k.read] = h
		k.read++
	case cc.AskPower:
		u := 0.0
		if n.coarse {
			u = l.pint.SendNS3(n.now, k.size, l.queued, l.rate, n.pintT)
		} else {
			u = l.pint.Send(n.now, k.size, l.queued, l.rate, n.pintT)
		}
		k.power = max(k.power, cc.EncodePower(u, n.chance.Float64()))
	}
}

// enqueue has a packet wait for its link, which drops it where it has no room.
func (n *Network) enqueue(p int32) {
	k := &n.packets[p]
	id := n.route[k.at]
	l := &n.links[id]
	size := uint64(k.size)
	if n.counts && l.of >= 0 && !k.ack {
		n.found.add(l.queued)
	}
	if l.of >= 0 && !n.admit(l, k) {
		l.drops++
		if !k.ack {
			n.bytes.dropped += uint64(k.data)
		}
		n.freePacket(p)
		return
	}
	l.mostQueue = max(l.mostQueue, l.queued+size)
	if l.queue.first == none && n.now >= l.busy && !l.paused {
		n.send(l, id, p)
		return
	}
	n.put(&l.queue, p)
	l.queued += size
	n.kick(id)
}

// admit takes the room of a packet in the buffer of its switch; false: there is none.
func (n *Network) admit(l *link, k *packet) bool {
	s, c, size := &n.switches[l.of], &n.ports, uint64(k.size)
	if c.limit != 0 && l.queued+size > c.limit {
		return false
	}
	switch {
	case s.buffer == 0:
	case c.pfc:
		return n.admitPFC(s, n.route[k.at-1], size)
	default:
		if left := s.buffer - s.used; size > left || float64(l.queued+size) > c.alpha*float64(left) {
			return false
		}
		s.used += size
	}
	return true
}

// release gives the room of a packet back.
func (n *Network) release(k *packet, s *switchPort) {
	switch {
	case s.buffer == 0:
	case n.ports.pfc:
		n.releasePFC(s, n.route[k.at-1], uint64(k.size))
	default:
		s.used -= uint64(k.size)
	}
}

// threshold is how much of the shared buffer one ingress port may have before it pauses.
func (n *Network) threshold(s *switchPort) uint64 {
	return uint64(n.ports.alpha * float64(s.buffer-min(s.used, s.buffer)))
}

// admitPFC counts a packet as of the link that it came by: within its own bytes, shared ones, and at last those of the
// headroom, which is for what comes until the other end has paused (the switch of HPCC's public ns-3 code).
func (n *Network) admitPFC(s *switchPort, by int32, size uint64) bool {
	in := &n.links[by].ingress
	limit := n.threshold(s)
	if in.over+size > in.headroom && size+shared(in) > limit {
		return false
	}
	switch all := in.held + size; {
	case all <= pfcReserve:
		in.held = all
	case all-pfcReserve > limit:
		in.over += size
	default:
		in.held = all
		s.used += min(size, all-pfcReserve)
	}
	if !in.paused && (in.over > 0 || shared(in) >= n.threshold(s)) {
		in.paused = true
		n.signalPause(by, pauses)
	}
	return true
}

func (n *Network) releasePFC(s *switchPort, by int32, size uint64) {
	in := &n.links[by].ingress
	over := min(in.over, size)
	of := min(size-over, shared(in))
	in.over -= over
	in.held -= size - over
	s.used -= of
	if in.paused && in.over == 0 && (shared(in) == 0 || shared(in)+pfcResume <= n.threshold(s)) {
		in.paused = false
		n.signalPause(by, resumes)
	}
}

func shared(in *ingress) uint64 { return in.held - min(in.held, pfcReserve) }

// signalPause has the sender of a link stop, or go on, when the pause frame is there: it passes what waits on the way back, though not
// what is being sent.
func (n *Network) signalPause(by int32, k kind) {
	back := &n.links[by^1]
	back.busy = max(back.busy, n.now) + back.takes(pfcFrame)
	n.heap.push(back.busy+back.delay, k, by)
}

// arrived has a packet be at the end of a link: at a switch, or at its host.
func (n *Network) arrived(p int32) {
	k := &n.packets[p]
	if k.at++; n.route[k.at] != none {
		n.enqueue(p)
		return
	}
	if k.ack {
		n.acked(k.flow, p)
		return
	}
	n.receive(p)
}
