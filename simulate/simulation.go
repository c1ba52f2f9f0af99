package simulate

import (
	"fmt"
	"math/rand/v2"

	"github.com/csig-agent/csig/cc"
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
		return nil, fmt.Errorf("%d flows are more than the %d that a simulation takes", n, maxFlows)
	}
	n := newNetwork(int32(s.Packets.Payload), int32(s.Packets.Header), hopBytes[s.Packets.INT], uint64(s.Seed))
	n.ack = int32(s.Packets.Ack)
	if s.Packets.INT == "ns3" {
		n.perPath, n.coarse = ns3Bytes, true
	}
	m := &Simulation{scenario: s, network: n}
	m.build()
	if s.CSIG != nil {
		m.addCSIG(s.CSIG)
		m.tagged = stream(uint64(s.Seed), streamShare)
	}
	longest := 1
	pairs := make(map[[2]int32]bool) // of racks, of which the time between two is known
	s.flows(func(w wanted) {
		if pair := [2]int32{s.routes.rack[w.from], s.routes.rack[w.to]}; !pairs[pair] {
			pairs[pair] = true
			ps, links := m.trip(w.from, w.to)
			m.rtt, longest = max(m.rtt, ps), max(longest, links)
		}
	})
	n.mostHops = longest - 1
	n.pintT = m.rtt
	n.flows, n.order = make([]flow, 0, s.count()), make([]int32, 0, s.count())
	n.picker, n.plb = newPicker(m, &s.Paths), s.Paths.Choice == "plb"
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
	n.patience = max(patience*min(m.rtt, maxTime/patience), 4*n.recovery.timeout<<maxDoubling)
	return m, nil
}

// patience is how many round trips may pass without any progress.
const patience = 1000

// build makes links, switches and hosts.
func (m *Simulation) build() {
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
	if c.Queue > 0 || c.Buffer > 0 {
		n.recovery.timeout = s.Recovery.Timeout.Nanoseconds() * 1000
	}
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
		return
	}
	for i := range n.links {
		l := &n.links[i]
		if l.into < 0 {
			continue
		}
		// What comes until the other end has paused is the headroom; the shared buffer is what all ports leave of it.
		l.ingress.headroom = uint64(float64(l.rate) / 8 * float64(l.delay) / cc.Second * 3)
		sw := &n.switches[l.into]
		sw.buffer -= min(sw.buffer-1, l.ingress.headroom+pfcReserve)
	}
}

// add adds a flow with its control.
func (m *Simulation) add(f flow) int32 {
	f.path, f.back, f.then = none, none, none
	f.control = m.control(m.network.links[m.scenario.routes.up[f.from]].rate, f.to)
	f.untagged = m.tagged != nil && m.tagged.Float64() >= m.network.csig.share
	return m.network.addFlow(f)
}

// send has a flow send over the path that a key stands for, and get its acknowledgements over the same links.
func (m *Simulation) send(id int32, key uint64) {
	n := m.network
	f := &n.flows[id]
	f.path = int32(len(n.route))
	n.route, _ = m.scenario.routes.route(n.route, f.from, f.to, key)
	end := len(n.route)
	f.hops = int32(end) - f.path
	n.route = append(n.route, none)
	f.back = int32(len(n.route))
	for i := end - 1; i >= int(f.path); i-- {
		n.route = append(n.route, n.route[i]^1)
	}
	n.route = append(n.route, none)
}

// trip is the round trip of one packet between two hosts without queues, in ps, and the links of the way there.
func (m *Simulation) trip(from, to int32) (ps int64, links int) {
	n := m.network
	path, _ := m.scenario.routes.route(nil, from, to, 0)
	full, ack := n.full(len(path))
	for _, l := range path {
		ps += n.links[l].delay + n.links[l].takes(full)
		ps += n.links[l^1].delay + n.links[l^1].takes(ack)
	}
	return ps, len(path)
}

// full is how many bytes a full packet has on a path of so many links, and the ACK of it.
func (n *Network) full(links int) (data, ack int32) {
	telemetry := n.perHop*int32(links-1) + n.perPath
	return n.payload + n.header + telemetry, n.ack + telemetry
}
