package simulate

import (
	"math/rand/v2"

	"github.com/csig-agent/csig/cc"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
)

// Simulation is a scenario that can run.
type Simulation struct {
	scenario *Scenario
	network  *Network
	rtt      int64 // ps, of one packet without queues, on the longest path between hosts that send

	tagged    *rand.Rand // which flows are; nil: no domain
	receivers map[int32]*cc.Peers
}

// New is a simulation of a scenario.
func New(s *Scenario) (*Simulation, error) {
	if n := s.count(); n > maxFlows {
		return nil, s.m.Error("", "fewer flows", "%d flows are more than the %d that a simulation takes", n, maxFlows)
	}
	n := newNetwork(int32(s.Packets.Payload), int32(s.Packets.Header), 0, uint64(s.Seed))
	n.ack = int32(s.Packets.Ack)
	if contains("hpcc hpcc-receiver hpcc-rate hpcc-pint", s.Control.Kind) { // packets of the others have none
		n.addTelemetry(s)
	}
	m := &Simulation{scenario: s, network: n}
	if err := m.build(); err != nil {
		return nil, err
	}
	if s.CSIG != nil {
		m.addCSIG(s.CSIG)
		m.tagged = stream(uint64(s.Seed), streamShare)
	}
	if err := m.look(); err != nil {
		return nil, err
	}
	n.pintT = m.rtt
	n.flows, n.order = make([]flow, 0, s.count()), make([]int32, 0, s.count())
	n.picker, n.plb, n.sprays = newPicker(m, &s.Paths), s.Paths.Choice == "plb", s.Paths.Choice == "spray"
	s.flows(func(w wanted) {
		id := m.add(flow{from: w.from, to: w.to, group: w.group, size: w.size, begins: w.at, waits: w.after > 0})
		if w.after > 0 {
			n.flows[id-w.after].then = id
		}
	})
	n.sort()
	if s.Mode == "flow" {
		n.fluid = newFluid(m)
	}
	n.mostPackets = s.packets()
	n.patience = max(patience*min(m.rtt, maxTime/patience), 4*n.recovery.timeout<<maxDoubling)
	return m, nil
}

// addTelemetry has packets have room for what the control reads.
func (n *Network) addTelemetry(s *Scenario) {
	c := &s.Control
	n.coarse = s.Packets.INT == "ns3"
	switch {
	case c.Kind == "hpcc-pint":
		n.perPath = powerBytes
		return
	case n.coarse:
		n.perPath = ns3Bytes
	default:
		n.perHop = hopBytes[s.Packets.INT]
	}
	n.lean = c.Telemetry == "some" || c.Telemetry == "trip"
	switch {
	case c.Kind == "hpcc-receiver" || c.Telemetry == "congested":
		n.returned = 0
	case c.RoCE:
		n.returned = 1
	}
}

// patience is how many round trips may pass without any progress.
const patience = 1000

// build makes links, switches and hosts.
func (m *Simulation) build() error {
	s, n := m.scenario, m.network
	g, c := s.Topology.graph, &s.Switches
	n.ports = portConfig{limit: c.Queue, alpha: float64(c.Alpha) / 100, pfc: c.PFC}
	if c.Alpha == 0 {
		if n.ports.alpha = 1; c.PFC {
			n.ports.alpha = 1.0 / 8
		}
	}
	if e := c.ECN; e != nil {
		n.ports.ecn, n.ports.min, n.ports.max, n.ports.chance, n.ports.scale = true, e.Min, e.Max, float64(e.Chance)/100, e.At
	}
	n.recovery.selective = s.Recovery.Kind == "selective"
	n.switches = make([]switchPort, len(g.names))
	for i := range n.switches {
		n.switches[i].buffer = c.Buffer
	}
	at := func(node int32) int32 { return max(node-int32(g.hosts), none) }
	for i := range g.cables {
		l := &g.cables[i]
		n.addLink(l.rate, l.delay, at(l.a), at(l.b))
		n.addLink(l.rate, l.delay, at(l.b), at(l.a))
	}
	for h := range g.hosts {
		link := s.routes.up[h]
		if len(s.routes.out[h]) == 0 {
			link = none
		}
		n.hosts = append(n.hosts, host{link: link})
		if link != none {
			n.links[link].host = int32(h)
		}
	}
	if !c.PFC {
		return nil
	}
	for i := range n.links {
		l := &n.links[i]
		if l.into < 0 {
			continue
		}
		// What comes until the other end has paused is the headroom: of ns-3's three cables, or, where those are short, of two, the packet
		// that the pause waits for, those that the other end and this one have begun, and frames; the shared buffer is what all ports leave.
		cable := uint64(float64(l.rate) / 8 * float64(l.delay) / cc.Second)
		full := n.payload + n.header + n.perPath + n.perHop*(maxHops-1)
		l.ingress.headroom = 2*cable + max(cable, 3*uint64(full+quantize.WideSize)+2*pfcFrame)
		n.switches[l.into].used += l.ingress.headroom + pfcReserve
	}
	for i := range n.switches {
		sw := &n.switches[i]
		if sw.used >= sw.buffer {
			return c.m.Error("buffer", "a larger one, or shorter cables", "ports of %s have %d bytes of the buffer each for itself, as headroom too (pfc): nothing of %d is left to share", g.names[i], sw.used, sw.buffer)
		}
		sw.buffer, sw.used = sw.buffer-sw.used, 0
	}
	return nil
}

// look finds the longest round trip of flows, and what can be no simulation of them.
func (m *Simulation) look() error {
	s, n := m.scenario, m.network
	type ends struct { // of racks, and of hosts with cables like these, of which the time between two is known, too
		racks  [2]int32
		rates  [2]uint64
		delays [2]int64
	}
	hops := make(map[ends]int)
	packet, fastest := int32(0), uint64(0)
	n.mostHops = 0
	s.flows(func(w wanted) {
		from, to := &n.links[s.routes.up[w.from]], &n.links[s.routes.up[w.to]]
		pair := ends{[2]int32{from.into, to.into}, [2]uint64{from.rate, to.rate}, [2]int64{from.delay, to.delay}}
		if hops[pair] == 0 {
			path, _ := s.routes.route(nil, w.from, w.to, 0)
			hops[pair] = len(path)
			n.mostHops = max(n.mostHops, len(path)-1)
			m.rtt = max(m.rtt, m.trip(w.from, w.to))
		}
		fastest = max(fastest, from.rate)
		size := int32(min(w.size, uint64(s.Packets.Payload))) + n.header + n.perPath + n.perHop*int32(hops[pair]-1)
		if n.csig != nil && s.Control.needsTags() {
			size += n.tagBytes()
		}
		packet = max(packet, size)
	})
	if least := s.Control.least(); least > 0 && least >= fastest && fastest > 0 {
		return s.Control.m.Error("least", "e.g. least: "+inventory.FormatSpeed(max(fastest/100, 1)), "the least rate of %s is %s, and cables of hosts carry %s: no flow would ever slow down", s.Control.Kind, inventory.FormatSpeed(least), inventory.FormatSpeed(fastest))
	}
	if err := m.fits(uint64(packet)); err != nil || !s.drops() {
		return err
	}
	n.recovery.timeout = s.Recovery.Timeout.Nanoseconds() * 1000
	trip := min(m.rtt, maxTime/1024)
	switch {
	case n.recovery.timeout == 0:
		n.recovery.timeout = max(4*cc.Second/1000, 3*trip)
	case n.recovery.timeout < trip:
		return s.Recovery.m.Error("timeout", "e.g. "+span(ns(3*trip))+", or leave it out", "a round trip takes %s without queues: after %v all would be sent again that is on its way", span(ns(trip)), s.Recovery.Timeout)
	}
	return nil
}

// fits is an error where the ports of switches never have room for a packet of so many bytes.
func (m *Simulation) fits(packet uint64) error {
	c, n := &m.scenario.Switches, m.network
	if c.Queue > 0 && c.Queue < packet {
		return c.m.Error("queue", "a larger one", "a packet of %d bytes does not fit it", packet)
	}
	for i := range n.switches {
		sw := &n.switches[i]
		room := uint64(float64(sw.buffer) * min(n.ports.alpha, 1))
		if sw.buffer == 0 || packet <= room {
			continue
		}
		for j := range n.links { // headroom has packets pass, too
			if l := &n.links[j]; l.into == int32(i) && packet > l.ingress.headroom {
				return c.m.Error("buffer", "a larger one, or a larger alpha", "a packet of %d bytes does not fit what a queue of %s may have, %d bytes", packet, m.scenario.Topology.graph.names[i], room)
			}
		}
	}
	return nil
}

// add adds a flow with its control.
func (m *Simulation) add(f flow) int32 {
	f.path, f.then = none, none
	f.control = m.control(m.network.links[m.scenario.routes.up[f.from]].rate, f.to)
	f.untagged = m.tagged != nil && m.tagged.Float64() >= m.network.csig.share
	id := m.network.addFlow(f)
	if m.scenario.endless { // beside its receiver
		m.network.flows[id].control = endless{f.control}
	}
	return id
}

// send has a flow send over the path that a key stands for.
func (m *Simulation) send(id int32, key uint64) {
	n := m.network
	f := &n.flows[id]
	f.path = int32(len(n.route))
	n.route, _ = m.scenario.routes.route(n.route, f.from, f.to, key)
	f.hops = int32(len(n.route)) - f.path
	n.addBack(f.path)
}

// trip is the round trip of one packet between two hosts without queues, in ps.
func (m *Simulation) trip(from, to int32) (ps int64) {
	n := m.network
	path, _ := m.scenario.routes.route(nil, from, to, 0)
	full, ack := n.full(len(path))
	for _, l := range path {
		ps += n.links[l].delay + n.links[l].takes(full)
		ps += n.links[l^1].delay + n.links[l^1].takes(ack)
	}
	return ps
}

// full is how many bytes a full packet has on a path of so many links, and the ACK of it: those that each has.
func (n *Network) full(links int) (data, ack int32) {
	data, ack = n.payload+n.header, n.ack
	if n.lean {
		return data, ack
	}
	hops := int32(links - 1)
	return data + n.perPath + n.perHop*hops, ack + n.perPath + n.perHop*min(hops, n.returned)
}
