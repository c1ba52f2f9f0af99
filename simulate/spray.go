package simulate

import (
	"slices"

	"github.com/csig-agent/csig/inventory"
)

// maxSprayed bounds the paths between two hosts that packets are sprayed over.
const maxSprayed = 64

// spread is where the paths between two hosts are, and how many.
type spread struct{ path, hops, ways int32 }

// spray gives a flow the paths between its hosts, which are laid out once.
func (c *picker) spray(f *flow) {
	pair := [2]int32{f.from, f.to}
	s, ok := c.laid[pair]
	if !ok {
		s = c.lay(f)
		c.laid[pair] = s
	}
	f.path, f.hops, f.ways = s.path, s.hops, s.ways
}

// lay adds the paths between a flow's hosts. Where there are more than maxSprayed, it is chance which, by the pair.
func (c *picker) lay(f *flow) spread {
	n, r := c.m.network, c.m.scenario.routes
	s := spread{path: int32(len(n.route))}
	first := hash(uint64(f.from)<<32|uint64(f.to), r.salt) >> 1
	for all := uint64(1); uint64(s.ways) < min(all, maxSprayed); s.ways++ {
		at := int32(len(n.route))
		var of uint64
		n.route, of = r.nth(n.route, f.from, f.to, first+uint64(s.ways))
		all, s.hops = max(all, of), int32(len(n.route))-at
		n.addBack(at)
	}
	return s
}

// way is which of a flow's paths a packet takes: in each round each once, from one by chance on.
func (n *Network) way(id int32, packet uint64) uint64 {
	ways := uint64(n.flows[id].ways)
	first := hash(uint64(id)^n.picker.m.scenario.routes.salt, packet/ways) % ways
	return (first + packet%ways) % ways
}

// pathOf is the path of a packet that begins there.
func (n *Network) pathOf(id int32, f *flow, from uint64, again bool) int32 {
	if f.ways < 2 {
		return f.path
	}
	return n.sprayedPath(id, from, again)
}

// sprayedPath is that where a flow has several. What is sent again takes the next one.
func (n *Network) sprayedPath(id int32, from uint64, again bool) int32 {
	f := &n.flows[id]
	w := int32(n.way(id, from/uint64(n.payload)))
	if again {
		w = (w + 1) % f.ways
	}
	return f.path + w*f.stride()
}

// overtaken is below which packet all that are not there are lost, as that one is: packets do not overtake others on one path, and on
// each path one has come that was sent later. Of one that was sent again it is not known which ones were before it.
func (n *Network) overtaken(id int32, k *packet, packet uint64) (below uint64) {
	f := &n.flows[id]
	m := &f.missing
	if k.again {
		return m.below
	}
	if m.newest == nil {
		m.newest = n.newSet(int(f.ways))
	}
	last := &m.newest[n.way(id, packet)]
	before := *last
	if *last = max(before, packet); before > m.below { // another path's is the least
		return m.below
	}
	return max(slices.Min(m.newest[:f.ways]), m.below)
}

// eachPath goes over the links of each path of a flow.
func (n *Network) eachPath(f *flow, do func(links []int32)) {
	for i := range max(f.ways, 1) {
		at := f.path + i*f.stride()
		do(n.route[at : at+f.hops])
	}
}

// checkSpray has the rules about packets that are sprayed and the rest of a scenario.
func (s *Scenario) checkSpray(m inventory.Mapping) {
	if s.Paths.Choice != "spray" {
		return
	}
	switch c := &s.Control; {
	case s.Mode == "flow":
		m.WrongValue("paths", "mode: packet", "flow by flow there are no packets to spray")
	case s.Recovery.Kind == "go-back-n":
		m.WrongValue("paths", "e.g. recovery: {kind: selective}", "packets that are sprayed overtake others, which go-back-n takes for losses")
	case contains("hpcc hpcc-receiver hpcc-rate hpcc-pint", c.Kind) || c.needsTags():
		m.WrongValue("paths", "e.g. control: {kind: dctcp}, or another choice", "control %s goes by the signals of one path, and a flow that is sprayed has several", c.Kind)
	}
}

// sprayMemory is what the paths of all flows take, and what is known of each, at most.
func (s *Scenario) sprayMemory() uint64 {
	if s.Paths.Choice != "spray" {
		return 0
	}
	hosts := uint64(s.Topology.graph.hosts)
	return min(uint64(s.count()), hosts*hosts)*maxSprayed*2*(maxHops+1)*4 + uint64(s.count())*maxSprayed*8
}
