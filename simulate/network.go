// Package simulate has packets and flows through a network of switches, event by event: what congestion control makes of
// the signals that it gets. One simulation is serial, and comes out the same, byte by byte, wherever it runs.
package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/csig-agent/csig/cc"
)

// ackSize is what an ACK takes of a link, without what it carries of the path, unless a scenario has it.
const ackSize = 64

// maxHops bounds a path.
const maxHops = 8

// powerBytes is what PINT takes of a packet.
const powerBytes = 2

// none is no packet.
const none = int32(-1)

// packet is data of a flow, or the ACK of it.
type packet struct {
	flow, next int32 // next behind it in a queue or on a wire
	size       int32 // bytes on the link
	data       int32 // payload
	hop        uint8 // links that it has passed
	read       uint8 // of them have written
	ask        cc.Ask
	ack        bool
	cnp        bool
	power      uint16
	seq        uint64  // behind its last byte; of an ACK, behind the last byte that has come
	made       int64   // ps
	window     float64 // that the receiver allows
}

// link sends in one direction: an egress port and its cable.
type link struct {
	rate      uint64 // bit/s
	delay     int64  // ps
	host      int32  // whose flows it asks for packets, -1: a switch's
	busy      bool
	sending   int32 // packet
	queue     fifo
	wire      fifo // sent, and not at the end yet: each with its time
	queued    uint64
	mostQueue uint64
	bytes     uint64 // sent
	limit     uint64 // bytes that its queue holds; 0: all
	drops     uint64
	pint      cc.PINTPort
}

// fifo is a list of packets.
type fifo struct{ first, last int32 }

// flow is so many bytes from a host to another.
type flow struct {
	from, to      int32
	size          uint64
	begins, ended int64 // ps; ended -1: not yet
	path, back    []int32
	sent, acked   uint64
	received      uint64
	sentAt        int64 // when the last packet was
	sentSize      int32 // of it, which paces the next one at the rate that there is then
	timer         int64 // that its control has asked for
	control       cc.Control
	receiver      cc.Receiver // nil: the control has no part there
	out           cc.Output
}

// host has flows that take turns at its link.
type host struct {
	link   int32
	flows  []int32 // that are not sent wholly, in their turns
	turn   int
	waking int64 // when it is to look again; 0: not set
}

// Network is a simulation.
type Network struct {
	now     int64
	heap    heap
	links   []link
	hosts   []host
	flows   []flow
	packets []packet
	hops    []cc.Hop // maxHops of each packet
	arrival []int64  // of each packet on a wire
	event   cc.Event // for controls, which keep none of it
	free    int32
	payload int32
	header  int32
	ack     int32      // bytes of an ACK without telemetry
	perHop  int32      // bytes of telemetry a hop
	perPath int32      // and whatever the hops are
	coarse  bool       // telemetry in the units of HPCC's public ns-3 code
	pintT   int64      // ps over which PINT's utilisation is averaged
	chance  *rand.Rand // of PINT
	Events  uint64
	left    int // flows that have not ended
}

// newNetwork has packets of so many bytes of payload and of headers, and telemetry of perHop bytes for each hop.
func newNetwork(payload, header, perHop int32) *Network {
	return &Network{payload: payload, header: header, ack: ackSize, perHop: perHop, free: none, chance: rand.New(rand.NewPCG(0, 'P'))}
}

func (n *Network) addLink(rate uint64, delay int64, limit uint64) int32 {
	n.links = append(n.links, link{rate: rate, delay: delay, host: -1, queue: fifo{none, none}, wire: fifo{none, none}, limit: limit})
	return int32(len(n.links) - 1)
}

func (n *Network) addHost(link int32) int32 {
	n.hosts = append(n.hosts, host{link: link})
	n.links[link].host = int32(len(n.hosts) - 1)
	return n.links[link].host
}

func (n *Network) addFlow(f flow) {
	f.ended = -1
	f.receiver, _ = f.control.(cc.Receiver)
	n.flows = append(n.flows, f)
	n.left++
	n.heap.push(f.begins, begins, int32(len(n.flows)-1))
}

// takes is how long a link sends so many bytes.
func (l *link) takes(bytes int32) int64 { return int64(uint64(bytes) * 8 * cc.Second / l.rate) }

func (n *Network) newPacket() int32 {
	if n.free != none {
		p := n.free
		n.free = n.packets[p].next
		return p
	}
	n.packets = append(n.packets, packet{})
	n.arrival = append(n.arrival, 0)
	n.hops = append(n.hops, make([]cc.Hop, maxHops)...)
	return int32(len(n.packets) - 1)
}

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

// Run goes on until all flows have ended, or until a time. An error has the flows that make no progress.
func (n *Network) Run(until int64) error {
	for n.left > 0 && len(n.heap.events) > 0 {
		if n.heap.events[0].at > until {
			n.now = until
			return nil
		}
		e := n.heap.pop()
		n.now = e.at
		n.Events++
		switch e.kind {
		case begins:
			n.event = cc.Event{Kind: cc.Began}
			n.tell(e.of)
			h := &n.hosts[n.flows[e.of].from]
			h.flows = append(h.flows, e.of)
			n.kick(h.link)
		case paced:
			if h := &n.hosts[e.of]; h.waking == n.now {
				h.waking = 0
				n.kick(h.link)
			}
		case timed:
			n.timer(e.of)
		case sent:
			n.linkSent(e.of)
		case arrives:
			l := &n.links[e.of]
			p := n.take(&l.wire)
			if l.wire.first != none {
				n.heap.push(n.arrival[l.wire.first], arrives, e.of)
			}
			n.arrived(p)
		}
	}
	if n.left > 0 {
		return fmt.Errorf("nothing moves any more after %v ps: %s", n.now, n.stuck())
	}
	return nil
}

// stuck names flows that have not ended.
func (n *Network) stuck() (text string) {
	shown := 0
	for i := range n.flows {
		if f := &n.flows[i]; f.ended < 0 {
			if shown++; shown > 5 {
				return text + fmt.Sprintf(", and %d more", n.left-5)
			}
			if text != "" {
				text += ", "
			}
			text += fmt.Sprintf("flow %d (host %d to %d, %d of %d bytes)", i, f.from, f.to, f.acked, f.size)
		}
	}
	return text
}

// kick has a link send the next packet, if it is not busy.
func (n *Network) kick(id int32) {
	l := &n.links[id]
	if l.busy {
		return
	}
	p := n.take(&l.queue)
	if p == none && l.host >= 0 {
		p = n.next(l.host)
	} else if p != none {
		l.queued -= uint64(n.packets[p].size)
	}
	if p == none {
		return
	}
	if l.host < 0 && !n.packets[p].ack {
		n.write(id, p)
	}
	l.busy, l.sending = true, p
	n.heap.push(n.now+l.takes(n.packets[p].size), sent, id)
}

// write has a packet read what the port is like that begins to send it: behind the packet, and sent before it.
func (n *Network) write(id, p int32) {
	l, k := &n.links[id], &n.packets[p]
	switch k.ask {
	case cc.AskTelemetry:
		h := cc.Hop{Port: uint32(id), Rate: l.rate, Bytes: l.bytes, Queue: l.queued, Time: n.now}
		if n.coarse { // its fields' units: 128 and 80 bytes, ns
			h.Bytes, h.Queue, h.Time = h.Bytes-h.Bytes%128, h.Queue-h.Queue%80, h.Time-h.Time%1000
		}
		n.hops[int(p)*maxHops+int(k.read)] = h
		k.read++
	case cc.AskPower:
		k.power = max(k.power, cc.EncodePower(l.pint.Send(n.now, k.size, l.queued, l.rate, n.pintT), n.chance.Float64()))
	}
}

// telemetry is what a packet has for the telemetry that it asks for, of so many hops, in bytes.
func (n *Network) telemetry(k *packet, hops int) int32 {
	switch k.ask {
	case cc.AskTelemetry:
		return n.perPath + n.perHop*int32(hops)
	case cc.AskPower:
		return powerBytes
	}
	return 0
}

// enqueue has a packet wait for its link, which drops it where its queue is full.
func (n *Network) enqueue(id, p int32) {
	l := &n.links[id]
	size := uint64(n.packets[p].size)
	if l.limit != 0 && l.queued+size > l.limit {
		l.drops++
		n.freePacket(p)
		return
	}
	n.put(&l.queue, p)
	l.queued += size
	l.mostQueue = max(l.mostQueue, l.queued)
	n.kick(id)
}

func (n *Network) linkSent(id int32) {
	l := &n.links[id]
	p := l.sending
	k := &n.packets[p]
	l.busy = false
	l.bytes += uint64(k.size)
	n.arrival[p] = n.now + l.delay
	if l.wire.first == none {
		n.heap.push(n.arrival[p], arrives, id)
	}
	n.put(&l.wire, p)
	n.kick(id)
}

// arrived has a packet be at the end of a link: at a switch, or at its host.
func (n *Network) arrived(p int32) {
	k := &n.packets[p]
	f := &n.flows[k.flow]
	path := f.path
	if k.ack {
		path = f.back
	}
	if k.hop++; int(k.hop) < len(path) {
		n.enqueue(path[k.hop], p)
		return
	}
	if k.ack {
		n.acked(k.flow, p)
		return
	}
	// The receiver sends what the packet has read back at once, on the packet itself.
	if k.seq == f.received+uint64(k.data) {
		f.received = k.seq
	}
	if f.receiver != nil {
		n.event = n.written(p)
		n.event.Kind, n.event.Now = cc.Data, n.now
		f.receiver.Data(&n.event)
		k.read, k.window, k.cnp = uint8(copy(n.hops[int(p)*maxHops:][:maxHops], n.event.Path)), n.event.Window, n.event.CNP
	}
	k.ack, k.hop, k.seq = true, 0, f.received
	k.size = n.ack + n.telemetry(k, int(k.read))
	n.enqueue(f.back[0], p)
}

// written is what a packet, or the ACK of it, tells a control.
func (n *Network) written(p int32) cc.Event {
	k := &n.packets[p]
	e := cc.Event{Seq: k.seq, Size: uint32(k.size), Window: k.window, CNP: k.cnp, Power: k.power}
	if k.read > 0 {
		e.Path = n.hops[int(p)*maxHops:][:k.read]
	}
	return e
}

func (n *Network) acked(id, p int32) {
	f, k := &n.flows[id], &n.packets[p]
	n.event = n.written(p)
	n.event.Kind, n.event.Next, n.event.RTT = cc.Acked, f.sent, n.now-k.made
	n.event.Acked = max(f.acked, k.seq) - f.acked
	f.acked += n.event.Acked
	n.tell(id)
	n.freePacket(p)
	if f.acked == f.size {
		f.ended = n.now
		n.left--
		return
	}
	n.kick(n.hosts[f.from].link)
}

// next is the next packet of a host's flows, which take turns; none: it looks again when one may send.
func (n *Network) next(id int32) int32 {
	h := &n.hosts[id]
	soonest := int64(math.MaxInt64)
	for range h.flows {
		if h.turn >= len(h.flows) {
			h.turn = 0
		}
		i := h.flows[h.turn]
		f := &n.flows[i]
		h.turn++
		if f.sent-f.acked >= f.out.Window {
			continue
		}
		if r := f.out.Rate; r > 0 && f.sentSize > 0 {
			if at := f.sentAt + int64(float64(f.sentSize)*8*cc.Second/r); at > n.now {
				soonest = min(soonest, at)
				continue
			}
		}
		data := int32(min(uint64(n.payload), f.size-f.sent))
		f.sent += uint64(data)
		if f.out.Sent {
			n.event = cc.Event{Kind: cc.Sent, Seq: f.sent, Next: f.sent, Size: uint32(data + n.header)}
			n.tell(i)
		}
		p := n.newPacket()
		k := &n.packets[p]
		*k = packet{flow: i, data: data, size: data + n.header, seq: f.sent, made: n.now, ask: f.out.Ask}
		k.size += n.telemetry(k, len(f.path)-1)
		f.sentAt, f.sentSize = n.now, k.size
		if f.sent == f.size {
			h.turn--
			h.flows = append(h.flows[:h.turn], h.flows[h.turn+1:]...)
		}
		return p
	}
	if soonest != math.MaxInt64 && (h.waking <= n.now || soonest < h.waking) {
		h.waking = soonest
		n.heap.push(soonest, paced, id)
	}
	return none
}
