// Package simulate has packets and flows through a network of switches, event by event: what congestion control makes of
// the signals that it gets. One simulation is serial, and comes out the same, byte by byte, wherever it runs.
package simulate

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/csig-agent/csig/cc"
)

// ackSize is what an ACK takes of a link, without what it carries of the path, unless a scenario has it.
const ackSize = 64

// powerBytes is what PINT takes of a packet.
const powerBytes = 2

// maxTime bounds what is simulated, in ps: what happens next has to fit 64 bits, too.
const maxTime = 1e18

// none is no packet, no link, no flow.
const none = int32(-1)

// packet is data of a flow, or the ACK of it. Its size is that of two lines of the processor's cache, of which most hops need one.
type packet struct {
	flow, next int32 // next behind it in a queue or on a wire
	at         int32 // the link that it is at, as a place in Network.route
	size       int32 // bytes on the link
	data       int32 // payload
	read       uint8 // links that have written telemetry
	ask        cc.Ask
	ack        bool
	nack       bool // of an ACK: a packet is missing, seq is where (go-back-N)
	again      bool // the packet was sent before
	marked     bool // ECN
	cnp        bool
	power      uint16
	came       int64  // ps: to where it is, or will be at the end of its wire
	seq        uint64 // behind its last byte; of an ACK, behind all that has come
	tag        tag
	made       int64   // ps
	got        uint64  // of an ACK, behind the last byte of the packet that it is for
	window     float64 // that the receiver allows
	_          [40]byte
}

// flow is so many bytes from a host to another.
type flow struct {
	from, to      int32
	group         int32 // of which it is in results
	path          int32 // a place in Network.route, none: not known before it begins
	hops          int32 // links of the path
	ways          int32 // where packets are sprayed, over so many paths one behind the other
	size          uint64
	begins, ended int64 // ps; ended -1: not yet
	arrived       int64 // all of it, at the receiver; 0: not yet
	then          int32 // the flow that begins with that, or none
	waits         bool  // for another one, whose then it is
	untagged      bool  // it has no tags, whatever its control asks for
	listed        bool  // among those of its host that have something to send

	sent, acked uint64
	most        uint64 // behind the last byte that was ever sent
	received    uint64
	missing     missing

	rounds  rounds // of PLB
	seen    uint64 // of what was received, when a watch looked last
	running int32  // its place in Network.running

	sentAt   int64 // when the last packet was
	sentSize int32 // of it, which paces the next one at the rate that there is then
	timer    int64 // that its control has asked for
	control  cc.Control
	receiver cc.Receiver // nil: the control has no part there
	out      cc.Output
}

// Network is a simulation.
type Network struct {
	now       int64
	heap      heap
	links     []link
	switches  []switchPort
	hosts     []host
	flows     []flow
	order     []int32 // flows that begin at a time of their own, the next one first
	packets   []packet
	hops      []cc.Hop // mostHops of each packet
	mostHops  int      // links of switches on the longest path
	route     []int32  // links, paths one behind the other, each ended by none and with its way back behind it
	event     cc.Event // for controls, which keep none of it
	free      int32
	payload   int32
	header    int32
	ack       int32      // bytes of an ACK without telemetry
	perHop    int32      // bytes of telemetry a hop, of packets that have it
	perPath   int32      // and whatever the hops are
	lean      bool       // some packets have none
	returned  int32      // hops at most whose telemetry an ACK has
	coarse    bool       // telemetry in the units of HPCC's public ns-3 code
	pintT     int64      // ps over which PINT's utilisation is averaged
	chance    *rand.Rand // of PINT
	marks     *rand.Rand // of ECN
	placebo   *rand.Rand // of signals that are others'
	recovery  recovery
	csig      *domain    // nil: no port knows tags
	csigPorts []csigPort // by link
	agents    []swAgent  // by switch
	ports     portConfig
	picker    *picker // gives flows paths; nil: they have theirs
	plb       bool
	sprays    bool
	fluid     *fluid // flow-level; nil: packets
	Events    uint64
	left      int   // flows that have not ended
	moved     int64 // when something was acknowledged last, or a flow began
	patience  int64 // nothing moves for so long: an error; 0: never

	mostPackets int // at a time

	Timeouts uint64
	Moves    uint64 // of flows to another path
	bytes    tally

	running   []int32      // flows that have begun and not ended
	active    int          // so many
	begun     int          // flows in all
	lastBegun int64        // when the last one did
	counts    bool         // what happens now counts in statistics
	found     histogram    // queues that packets found at switches
	sets      [][][]uint64 // that flows have given back, by the logarithm of their words
}

// tally has what became of payload.
type tally struct{ sent, received, dropped uint64 }

// newNetwork has packets of so many bytes of payload and of headers, and telemetry of perHop bytes for each hop.
func newNetwork(payload, header, perHop int32, seed uint64) *Network {
	return &Network{payload: payload, header: header, ack: ackSize, perHop: perHop, returned: maxHops, free: none, mostHops: maxHops - 1, chance: stream(seed, streamPINT), marks: stream(seed, streamECN), placebo: stream(seed, streamTags)}
}

// addBack ends the path that begins at a place in route, and adds the way back over the same cables.
func (n *Network) addBack(path int32) {
	end := len(n.route)
	n.route = append(n.route, none)
	for i := end - 1; i >= int(path); i-- {
		n.route = append(n.route, n.route[i]^1)
	}
	n.route = append(n.route, none)
}

// stride is from one path of a flow to the next one.
func (f *flow) stride() int32 { return 2 * (f.hops + 1) }

// addFlow adds a flow, whose path is known or chosen when it begins.
func (n *Network) addFlow(f flow) int32 {
	f.ended = -1
	f.receiver, _ = f.control.(cc.Receiver)
	id := int32(len(n.flows))
	n.flows = append(n.flows, f)
	n.left++
	if !f.waits {
		n.order = append(n.order, id)
	}
	return id
}

// Run goes on until all flows have ended, or until a time. An error has the flows that make no progress.
func (n *Network) Run(until int64) error { return n.run(until, math.MaxUint64) }

// run is Run until so many events, too, in all.
func (n *Network) run(until int64, events uint64) error {
	if n.Events == 0 {
		n.sort()
	}
	for n.left > 0 && n.Events < events {
		at := n.nextAt()
		begin := len(n.order) > 0 && n.flows[n.order[0]].begins == at
		switch {
		case at == math.MaxInt64:
			return fmt.Errorf("nothing moves any more after %s: %s", span(ns(n.now)), n.stuck())
		case at > until:
			n.now = until
			return nil
		case at > maxTime:
			return fmt.Errorf("%d flows have not ended after 11 days: %s", n.left, n.stuck())
		case n.patience > 0 && at-n.moved > n.patience && n.active > 0:
			return fmt.Errorf("nothing was acknowledged from %s to %s: %s", span(ns(n.moved)), span(ns(at)), n.stuck())
		}
		n.now = at
		n.Events++
		if begin {
			id := n.order[0]
			n.order = n.order[1:]
			n.begin(id)
			continue
		}
		e := n.heap.pop()
		of := e.of()
		switch e.kind() {
		case paced:
			if h := &n.hosts[of]; h.waking == n.now {
				h.waking = 0
				n.kick(h.link)
			}
		case timed:
			n.timer(of)
		case repeats:
			n.timeout(of)
		case sent:
			n.links[of].armed = false
			n.kick(of)
		case arrives:
			l := &n.links[of]
			p := n.take(&l.wire)
			if l.wire.first != none {
				n.heap.push(n.packets[l.wire.first].came, arrives, of)
			}
			n.arrived(p)
		case pauses:
			n.links[of].paused = true
		case reads:
			n.readCounters(of)
		case writes:
			n.writeRules(of)
		case lapses:
			n.lapse(of)
		case resumes:
			n.links[of].paused = false
			n.kick(of)
		}
	}
	return nil
}

// sort has flows begin in the order of their times.
func (n *Network) sort() {
	slices.SortStableFunc(n.order, func(a, b int32) int { return cmp.Compare(n.flows[a].begins, n.flows[b].begins) })
}

// nextAt is when something happens next: of what happens at one time a flow begins first.
func (n *Network) nextAt() int64 {
	at := int64(math.MaxInt64)
	if n.heap.len() > 0 {
		at = n.heap.next()
	}
	if len(n.order) > 0 {
		at = min(at, n.flows[n.order[0]].begins)
	}
	return at
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
