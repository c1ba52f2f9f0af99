package simulate

import (
	"math/bits"

	"github.com/csig-agent/csig/cc"
)

// recovery is how what is lost is sent again.
type recovery struct {
	selective bool  // as TCP and IRN; else go-back-N, as RoCE
	timeout   int64 // ps without an acknowledgement of something new; 0: nothing is lost
}

// Both forms: how often a receiver says again what it misses, how many packets behind one say that it is lost, and how many
// times the timeout doubles.
const (
	nackAgain   = 500 * cc.Second / 1_000_000
	reorder     = 3
	maxDoubling = 6
)

// missing is what a flow knows of what is lost.
type missing struct {
	deadline int64 // when all in flight counts as lost; 0: nothing is
	armed    bool  // there is an event for it, at the time or before
	tries    uint8 // times that it did in a row

	nackAt int64  // receiver: when it said so last
	nacked uint64 // and what it missed

	come   []uint64 // receiver: a bit each packet that came before its turn
	sacked []uint64 // sender: a bit each packet that the receiver says it has
	count  uint64   // bytes of them that are not acknowledged yet
	newest []uint64 // sender, where packets are sprayed: the last one of each path that the receiver has
	next   uint64   // the packet from which on lost ones are looked for
	below  uint64   // packets below that are not sacked are lost
	until  uint64   // losses below count as one for the control
}

// flying is how many bytes a flow has in the network, as far as it knows.
func (f *flow) flying(payload int32) uint64 {
	all, m := f.sent-f.acked, &f.missing
	gone := m.count
	if m.below > m.next {
		gone += m.unsacked(max(m.next, f.acked/uint64(payload)), m.below) * uint64(payload)
	}
	return all - min(gone, all)
}

// unsacked is how many packets of [from, to) the receiver does not say that it has.
func (m *missing) unsacked(from, to uint64) (count uint64) {
	for i := from; i < to; {
		end := min((i/64+1)*64, to)
		word := uint64(0)
		if i/64 < uint64(len(m.sacked)) {
			word = m.sacked[i/64]
		}
		word = word >> (i % 64) & (1<<(end-i) - 1)
		count += end - i - uint64(bits.OnesCount64(word))
		i = end
	}
	return count
}

// lost is whether a packet that begins there counts as lost.
func (m *missing) lost(from uint64, payload int32) bool {
	i := from / uint64(payload)
	return i >= m.next && i < m.below
}

// toSend is what a flow sends next: where it begins, and how many bytes; 0: it has nothing to send.
func (n *Network) toSend(f *flow) (from uint64, data int32) {
	if f.ended >= 0 {
		return 0, 0
	}
	m := &f.missing
	if m.below > m.next {
		each := uint64(n.payload)
		m.next = max(m.next, f.acked/each)
		for ; m.next < m.below; m.next++ {
			if !has(m.sacked, m.next) {
				from = m.next * each
				return from, int32(min(each, f.size-from))
			}
		}
	}
	return f.sent, int32(min(uint64(n.payload), f.size-f.sent))
}

func has(set []uint64, i uint64) bool { return i/64 < uint64(len(set)) && set[i/64]>>(i%64)&1 == 1 }

// add sets a bit of a set for so many packets.
func (n *Network) add(set []uint64, i, packets uint64) []uint64 {
	if set == nil {
		set = n.newSet(int(packets/64 + 1))
	}
	set[i/64] |= 1 << (i % 64)
	return set
}

// newSet is an empty set of so many words, from those that flows have given back.
func (n *Network) newSet(words int) []uint64 {
	size := bits.Len(uint(words - 1))
	if size < len(n.sets) && len(n.sets[size]) > 0 {
		last := len(n.sets[size]) - 1
		set := n.sets[size][last]
		n.sets[size] = n.sets[size][:last]
		clear(set)
		return set
	}
	return make([]uint64, 1<<size)
}

func (n *Network) giveBack(set []uint64) {
	if set == nil {
		return
	}
	size := bits.Len(uint(len(set) - 1))
	for len(n.sets) <= size {
		n.sets = append(n.sets, nil)
	}
	n.sets[size] = append(n.sets[size], set)
}

// end gives back what a flow that has ended remembers.
func (m *missing) end(n *Network) {
	n.giveBack(m.come)
	n.giveBack(m.sacked)
	n.giveBack(m.newest)
	m.come, m.sacked, m.newest, m.deadline, m.below = nil, nil, nil, 0, 0
}

// receive takes a packet: whether it is answered, and as one before which another is missing.
func (r *recovery) receive(n *Network, f *flow, k *packet) (nack, answer bool) {
	begin := k.seq - uint64(k.data)
	m := &f.missing
	switch {
	case begin == f.received:
		f.received = k.seq
		if m.come != nil {
			each := uint64(n.payload)
			for f.received < f.size && has(m.come, f.received/each) {
				f.received = min(f.received+each, f.size)
			}
		}
		return false, true
	case begin < f.received: // it was here already
		return false, true
	case r.selective:
		if f.ended < 0 {
			each := uint64(n.payload)
			m.come = n.add(m.come, begin/each, (f.size+each-1)/each)
		}
		return false, true
	}
	if m.nackAt != 0 && m.nacked == f.received && n.now < m.nackAt+nackAgain {
		return false, false
	}
	m.nackAt, m.nacked = n.now, f.received
	return true, true
}

// acked has a sender know what an ACK says of losses.
func (r *recovery) acked(n *Network, id int32, k *packet) {
	f := &n.flows[id]
	m := &f.missing
	if k.nack {
		if k.seq >= f.acked && f.sent > k.seq {
			f.sent = k.seq
			n.isLost(id, cc.Lost)
		}
		return
	}
	if !r.selective || r.timeout == 0 || k.got <= f.acked {
		return
	}
	each := uint64(n.payload)
	i, below := (k.got-1)/each, m.below
	switch {
	case f.ways > 1:
		below = n.overtaken(id, k, i)
	case i >= reorder:
		below = max(below, i-reorder+1)
	}
	if below > m.below {
		m.below = below
		if from, _ := n.toSend(f); from < m.below*each && from < f.sent {
			if f.acked >= m.until {
				m.until = f.sent
				n.isLost(id, cc.Lost)
			}
			n.list(id)
		}
	}
}

// score has a sender know what an ACK says has come, by which further bytes are in order: how many bytes of all are new.
func (r *recovery) score(n *Network, f *flow, k *packet, further uint64) (news uint64) {
	m := &f.missing
	if !r.selective || m.sacked == nil && k.got <= k.seq {
		return further
	}
	each := uint64(n.payload)
	if further > 0 { // those below the acknowledgement count as acknowledged
		known := sackedBetween(m.sacked, f.acked-further, f.acked, f.size, each)
		m.count -= known
		news = further - known
	}
	if i := (k.got - 1) / each; k.got > f.acked && !has(m.sacked, i) {
		m.sacked = n.add(m.sacked, i, (f.size+each-1)/each)
		m.count += k.got - i*each
		news += k.got - i*each
	}
	return news
}

// sackedBetween is how many bytes of the packets that begin in [from, to) are in the set.
func sackedBetween(set []uint64, from, to, size, each uint64) (count uint64) {
	for i := from / each; i*each < to; i++ {
		if has(set, i) {
			count += min(each, size-i*each)
		}
	}
	return count
}

// isLost has a control know, and the flow take turns again.
func (n *Network) isLost(id int32, what cc.Kind) {
	f := &n.flows[id]
	saved := n.event
	n.event = cc.Event{Kind: what, Seq: f.acked, Next: f.sent}
	n.tell(id)
	n.event = saved
	n.list(id)
}

// expect has a flow's timeout begin now.
func (n *Network) expect(id int32) {
	if n.recovery.timeout == 0 {
		return
	}
	f := &n.flows[id]
	f.missing.deadline = n.now + n.recovery.timeout<<f.missing.tries
	if !f.missing.armed {
		f.missing.armed = true
		n.heap.push(f.missing.deadline, repeats, id)
	}
}

// timeout is when a flow's deadline may be: where it was moved since, it looks again then.
func (n *Network) timeout(id int32) {
	f := &n.flows[id]
	m := &f.missing
	m.armed = false
	if f.ended >= 0 || f.sent == f.acked {
		return
	}
	if m.deadline > n.now {
		m.armed = true
		n.heap.push(m.deadline, repeats, id)
		return
	}
	m.tries = min(m.tries+1, maxDoubling)
	n.Timeouts++
	if n.recovery.selective {
		each := uint64(n.payload)
		m.next, m.below, m.until = f.acked/each, (f.sent+each-1)/each, f.sent
	} else {
		f.sent = f.acked
	}
	n.isLost(id, cc.TimedOut)
	n.expect(id)
	n.kick(n.hosts[f.from].link)
}
