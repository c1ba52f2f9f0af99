package simulate

import (
	"math"

	"github.com/csig-agent/csig/cc"
	"github.com/csig-agent/csig/quantize"
)

// host has flows that take turns at its link.
type host struct {
	link   int32
	flows  []int32 // that have something to send, in their turns
	turn   int
	waking int64 // when it is to look again; 0: not set
}

// begin has a flow begin now.
func (n *Network) begin(id int32) {
	n.enter(id)
	n.event = cc.Event{Kind: cc.Began}
	n.tell(id)
	n.list(id)
	n.kick(n.hosts[n.flows[id].from].link)
}

// enter has a flow be among those that have begun, with its path.
func (n *Network) enter(id int32) {
	f := &n.flows[id]
	f.begins, n.moved = n.now, n.now
	f.running = int32(len(n.running))
	n.running = append(n.running, id)
	n.active++
	n.begun++
	n.lastBegun = n.now
	if n.picker != nil {
		n.picker.pick(id)
	}
}

// end has a flow end now.
func (n *Network) end(id int32) {
	f := &n.flows[id]
	f.ended = n.now
	f.missing.end(n)
	n.left--
	n.active--
	last := n.running[n.active]
	n.running[f.running], n.flows[last].running = last, f.running
	n.running = n.running[:n.active]
}

// list has a flow take turns.
func (n *Network) list(id int32) {
	if f := &n.flows[id]; !f.listed {
		f.listed = true
		h := &n.hosts[f.from]
		h.flows = append(h.flows, id)
	}
}

// next is the next packet of a host's flows, which take turns; none: it looks again when one may send.
func (n *Network) next(id int32) int32 {
	h := &n.hosts[id]
	soonest := int64(math.MaxInt64)
	for range len(h.flows) {
		if h.turn >= len(h.flows) {
			h.turn = 0
		}
		i := h.flows[h.turn]
		f := &n.flows[i]
		from, data := n.toSend(f)
		if data == 0 { // all is sent, or it has ended
			f.listed = false
			h.flows = append(h.flows[:h.turn], h.flows[h.turn+1:]...)
			continue
		}
		h.turn++
		if f.flying(n.payload) >= f.out.Window {
			continue
		}
		if r := f.out.Rate; r > 0 && f.sentSize > 0 {
			if at := f.sentAt + int64(float64(f.sentSize)*8*cc.Second/r); at > n.now {
				soonest = min(soonest, at)
				continue
			}
		}
		return n.make(i, from, data)
	}
	if soonest != math.MaxInt64 && (h.waking <= n.now || soonest < h.waking) {
		h.waking = soonest
		n.heap.push(soonest, paced, id)
	}
	return none
}

// make is a packet of a flow, of so many bytes from one on.
func (n *Network) make(id int32, from uint64, data int32) int32 {
	f := &n.flows[id]
	behind := from + uint64(data)
	again := behind <= f.most
	if f.sent = max(f.sent, behind); again && f.missing.lost(from, n.payload) {
		f.missing.next = from/uint64(n.payload) + 1
	}
	f.most = max(f.most, behind)
	if f.out.Sent {
		n.event = cc.Event{Kind: cc.Sent, Seq: behind, Next: f.sent, Size: uint32(data + n.header)}
		n.tell(id)
	}
	p := n.newPacket()
	k := &n.packets[p]
	*k = packet{flow: id, at: n.pathOf(id, f, from, again), data: data, size: data + n.header, seq: behind, made: n.now, ask: f.out.Ask, again: again}
	if t, ok := k.ask.Signal(); ok {
		if n.csig == nil || f.untagged {
			k.ask = cc.AskNothing
		} else {
			k.tag = tag{on: true, s: n.csig.initial(t), lm: quantize.Draft00.LMNone()}
			k.size += n.tagBytes()
		}
	}
	k.size += n.telemetry(k, int(f.hops)-1)
	f.sentAt, f.sentSize = n.now, k.size
	n.bytes.sent += uint64(data)
	n.expect(id)
	return p
}

// telemetry is what a packet has for the telemetry that it asks for, of so many hops, in bytes.
func (n *Network) telemetry(k *packet, hops int) int32 {
	if k.ask == cc.AskTelemetry || k.ask == cc.AskPower {
		return n.perPath + n.perHop*int32(hops)
	}
	return 0
}

// receive has a packet be at its receiver, which sends what it has read back at once, on the packet itself.
func (n *Network) receive(p int32) {
	k := &n.packets[p]
	f := &n.flows[k.flow]
	n.bytes.received += uint64(k.data)
	k.got = k.seq
	nack, answer := n.recovery.receive(n, f, k)
	if !answer {
		n.freePacket(p)
		return
	}
	if f.received == f.size && f.arrived == 0 {
		f.arrived = n.now
		if then := f.then; then != none {
			n.begin(then)
			k, f = &n.packets[p], &n.flows[k.flow] // they may have moved
		}
	}
	if f.receiver != nil {
		n.event = n.written(p)
		n.event.Kind, n.event.Now = cc.Data, n.now
		f.receiver.Data(&n.event)
		k.read, k.window, k.cnp = uint8(copy(n.hopsOf(p), n.event.Path)), n.event.Window, n.event.CNP
	}
	k.ack, k.nack, k.at, k.seq = true, nack, k.at+1, f.received // the way back is behind the end
	k.size = n.ack + n.telemetry(k, int(k.read))
	if k.tag.on { // the signal is reflected
		k.size += n.tagBytes()
	}
	n.enqueue(p)
}

// written is what a packet, or the ACK of it, tells a control.
func (n *Network) written(p int32) cc.Event {
	k := &n.packets[p]
	e := cc.Event{Seq: k.seq, Size: uint32(k.size), Window: k.window, CNP: k.cnp, Marked: k.marked, Power: k.power}
	if k.tag.on {
		e.Signal = n.signal(k)
	}
	if k.read > 0 {
		e.Path = n.hopsOf(p)[:k.read]
	}
	return e
}

// acked has an ACK be at the sender.
func (n *Network) acked(id, p int32) {
	f := &n.flows[id]
	if f.ended >= 0 {
		n.freePacket(p)
		return
	}
	k := &n.packets[p]
	n.event = n.written(p)
	if n.event.Kind = cc.Acked; !k.again {
		n.event.RTT = n.now - k.made
	}
	further := max(f.acked, k.seq) - f.acked
	f.acked += further
	f.sent = max(f.sent, f.acked)
	n.event.Next = f.sent
	if further > 0 {
		n.moved = n.now
		f.missing.tries = 0
	}
	n.event.Acked = further
	if news := n.recovery.score(n, f, k, further); n.sprays {
		n.event.Acked = news
	}
	n.tell(id)
	n.recovery.acked(n, id, k)
	if n.plb {
		n.picker.round(id, k)
	}
	n.freePacket(p)
	if f.acked == f.size {
		n.end(id)
		return
	}
	if further > 0 {
		n.expect(id)
	}
	n.kick(n.hosts[f.from].link)
}
