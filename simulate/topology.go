package simulate

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/untrusted"
)

// Topology is a network of one kind.
type Topology struct {
	Star      *Star        `key:"star,flow" doc:"Hosts around one switch."`
	Dumbbell  *Dumbbell    `key:"dumbbell,flow" doc:"Hosts around two switches with one cable between them."`
	LeafSpine *LeafSpine   `key:"leaf_spine,flow" doc:"Two tiers: each leaf has a cable to each spine."`
	FatTree   *FatTree     `key:"fat_tree,flow" doc:"Three tiers of switches that all have k ports."`
	Clos      *Clos        `key:"clos,flow" doc:"Three tiers of any size: pods of top-of-rack and aggregation switches, below cores."`
	Dragonfly *Dragonfly   `key:"dragonfly,flow" doc:"Groups of switches, each with a cable to each other one of its group, and cables between the groups."`
	File      string       `key:"file" is:"line 4096" doc:"A file in the format of HPCC's public ns-3 code, relative to the scenario."`
	Changes   []LinkChange `key:"links" doc:"Cables that are not as the others."`

	graph *graph
}

// Cables are what the generated topologies share.
type Cables struct {
	Rate   uint64        `key:"rate,need" is:"rate" doc:"Of a host's cable, in both directions."`
	Uplink uint64        `key:"uplink" is:"rate" doc:"Of the cables between switches; rate unless given."`
	Delay  time.Duration `key:"delay,need" range:"1ns 1s" doc:"Of each cable."`
}

// Star is hosts around one switch.
type Star struct {
	Hosts  int `key:"hosts,need" range:"2 100000" doc:"How many there are; their numbers begin with 0."`
	Cables `without:"uplink"`
}

// Dumbbell is two switches with a cable between them.
type Dumbbell struct {
	Hosts int `key:"hosts,need" range:"1 50000" doc:"How many each switch has: the first one 0 to hosts-1."`
	Cables
}

// LeafSpine is two tiers of switches.
type LeafSpine struct {
	Leaves int `key:"leaves,need" range:"1 1000" doc:"How many there are."`
	Spines int `key:"spines,need" range:"1 1000" doc:"How many there are."`
	Hosts  int `key:"hosts,need" range:"1 1000" doc:"Of each leaf."`
	Cables
}

// FatTree is a Clos network of switches with k ports.
type FatTree struct {
	K int `key:"k,need" range:"2 48" doc:"Ports of a switch, an even number: there are k³/4 hosts."`
	Cables
}

// Clos is three tiers of switches.
type Clos struct {
	Pods  int `key:"pods,need" range:"1 100" doc:"How many there are."`
	ToRs  int `key:"tors,need" range:"1 100" doc:"Top-of-rack switches of each pod."`
	Aggs  int `key:"aggs,need" range:"1 100" doc:"Aggregation switches of each pod: each has a cable to each of its top-of-rack switches."`
	Cores int `key:"cores,need" range:"1 10000" doc:"A multiple of aggs: the first aggregation switch of each pod has a cable to the first cores/aggs of them, and so on."`
	Hosts int `key:"hosts,need" range:"1 1000" doc:"Of each top-of-rack switch."`
	Cables
}

// Dragonfly is groups of switches.
type Dragonfly struct {
	Groups   int `key:"groups,need" range:"2 1000" doc:"How many there are: at most switches·global + 1."`
	Switches int `key:"switches,need" range:"1 1000" doc:"Of each group."`
	Global   int `key:"global,need" range:"1 1000" doc:"Cables that each switch has to other groups, at most."`
	Hosts    int `key:"hosts,need" range:"1 1000" doc:"Of each switch."`
	Cables
}

// LinkChange is a cable that is not as the others.
type LinkChange struct {
	Between []string `key:"between,need,flow" is:"word" doc:"Its two ends, e.g. [leaf0, spine1]."`
	Rate    uint64   `key:"rate" is:"rate" doc:"Its own rate."`
	Down    bool     `key:"down" doc:"It is down."`

	m inventory.Mapping
}

// cable is between two nodes: hosts, or switches, whose numbers begin behind those of the hosts.
type cable struct {
	a, b  int32
	rate  uint64
	delay int64 // ps
	down  bool
}

// graph is a network.
type graph struct {
	hosts  int
	names  []string // of the switches
	cables []cable
	large  bool // too large: it is not made to its end
}

// Bounds of a network.
const (
	maxSwitches = 20_000
	maxCables   = 500_000
)

func (g *graph) nodes() int { return g.hosts + len(g.names) }

func (g *graph) name(node int32) string {
	if int(node) < g.hosts {
		return fmt.Sprintf("host%d", node)
	}
	return g.names[int(node)-g.hosts]
}

// switches adds so many, and returns the first one.
func (g *graph) switches(n int, name string) int32 {
	first := int32(g.nodes())
	if g.large = g.large || g.hosts > maxHosts || n > maxSwitches; g.large {
		n = 0
	}
	for i := range n {
		g.names = append(g.names, fmt.Sprintf("%s%d", name, i))
	}
	return first
}

func (g *graph) cable(a, b int32, rate uint64, delay time.Duration) {
	if g.large = g.large || len(g.cables) == maxCables; g.large {
		return
	}
	g.cables = append(g.cables, cable{a: a, b: b, rate: rate, delay: delay.Nanoseconds() * 1000})
}

// racks has each of so many switches, from the first one on, have hosts.
func (g *graph) racks(first int32, switches, hosts int, c *Cables) {
	for i := 0; i < switches*hosts && !g.large; i++ {
		g.cable(int32(i), first+int32(i/hosts), c.Rate, c.Delay)
	}
}

func (c *Cables) uplink() uint64 {
	if c.Uplink == 0 {
		return c.Rate
	}
	return c.Uplink
}

func (s *Star) graph() *graph {
	g := &graph{hosts: s.Hosts}
	g.racks(g.switches(1, "switch"), 1, s.Hosts, &s.Cables)
	return g
}

func (d *Dumbbell) graph() *graph {
	g := &graph{hosts: 2 * d.Hosts}
	first := g.switches(2, "switch")
	g.racks(first, 2, d.Hosts, &d.Cables)
	g.cable(first, first+1, d.uplink(), d.Delay)
	return g
}

func (l *LeafSpine) graph() *graph {
	g := &graph{hosts: l.Leaves * l.Hosts}
	leaf, spine := g.switches(l.Leaves, "leaf"), g.switches(l.Spines, "spine")
	g.racks(leaf, l.Leaves, l.Hosts, &l.Cables)
	for i := range int32(l.Leaves) {
		for j := range int32(l.Spines) {
			g.cable(leaf+i, spine+j, l.uplink(), l.Delay)
		}
	}
	return g
}

func (f *FatTree) graph() *graph {
	c := Clos{Pods: f.K, ToRs: f.K / 2, Aggs: f.K / 2, Cores: f.K * f.K / 4, Hosts: f.K / 2, Cables: f.Cables}
	return c.graph()
}

func (c *Clos) graph() *graph {
	g := &graph{hosts: c.Pods * c.ToRs * c.Hosts}
	tor, agg, core := g.switches(c.Pods*c.ToRs, "tor"), g.switches(c.Pods*c.Aggs, "agg"), g.switches(c.Cores, "core")
	g.racks(tor, c.Pods*c.ToRs, c.Hosts, &c.Cables)
	for i := range int32(c.Pods * c.ToRs) {
		for j := range int32(c.Aggs) {
			g.cable(tor+i, agg+i/int32(c.ToRs)*int32(c.Aggs)+j, c.uplink(), c.Delay)
		}
	}
	each := int32(c.Cores / max(c.Aggs, 1)) // of a mistake that is reported beside this
	for i := range int32(c.Pods * c.Aggs) {
		for j := range each {
			g.cable(agg+i, core+i%int32(c.Aggs)*each+j, c.uplink(), c.Delay)
		}
	}
	return g
}

// graph has the cables between groups go round the switches of each: group i's k-th one is to the k-th group behind it.
func (d *Dragonfly) graph() *graph {
	g := &graph{hosts: d.Groups * d.Switches * d.Hosts}
	first := g.switches(d.Groups*d.Switches, "switch")
	g.racks(first, d.Groups*d.Switches, d.Hosts, &d.Cables)
	a := int32(d.Switches)
	for i := int32(0); i < int32(d.Groups) && !g.large; i++ {
		for j := range a {
			for k := j + 1; k < a; k++ {
				g.cable(first+i*a+j, first+i*a+k, d.uplink(), d.Delay)
			}
		}
		for to := i + 1; to < int32(d.Groups); to++ {
			here, there := to-i-1, int32(d.Groups)-(to-i)-1 // which of each group's cables to others it is
			g.cable(first+i*a+here%a, first+to*a+there%a, d.uplink(), d.Delay)
		}
	}
	return g
}

// Check has the rules about several keys.
func (f *FatTree) Check(m inventory.Mapping) {
	if f.K%2 == 1 {
		m.WrongValue("k", "e.g. 8", "%d is no even number", f.K)
	}
}

// Check has the rules about several keys.
func (c *Clos) Check(m inventory.Mapping) {
	if c.Aggs > 0 && c.Cores%c.Aggs != 0 {
		m.WrongValue("cores", "a multiple of aggs", "%d cores do not divide among %d aggregation switches of a pod", c.Cores, c.Aggs)
	}
}

// Check has the rules about several keys.
func (d *Dragonfly) Check(m inventory.Mapping) {
	if most := d.Switches*d.Global + 1; d.Switches > 0 && d.Global > 0 && d.Groups > most {
		m.WrongValue("groups", "fewer groups, or more switches or cables between groups", "%d groups of %d switches with %d cables each to other groups: there can be %d", d.Groups, d.Switches, d.Global, most)
	}
}

// Check has the rules about several keys.
func (l *LinkChange) Check(m inventory.Mapping) {
	l.m = m
	if m.Has("between") && len(l.Between) != 2 {
		m.WrongValue("between", "e.g. [leaf0, spine1]", "a cable has two ends, and there are %d", len(l.Between))
	}
	switch {
	case !l.Down && !m.Has("rate"):
		m.Wrong("", "e.g. rate: 10G, or down: true", "a change of nothing")
	case l.Down && m.Has("rate"):
		m.Wrong("rate", "leave it out, or down", "a cable that is down has no rate")
	}
}

// Check makes the network.
func (t *Topology) Check(m inventory.Mapping) {
	var found []string
	for _, one := range []struct {
		key   string
		there bool
		make  func() *graph
	}{
		{"star", t.Star != nil, func() *graph { return t.Star.graph() }},
		{"dumbbell", t.Dumbbell != nil, func() *graph { return t.Dumbbell.graph() }},
		{"leaf_spine", t.LeafSpine != nil, func() *graph { return t.LeafSpine.graph() }},
		{"fat_tree", t.FatTree != nil, func() *graph { return t.FatTree.graph() }},
		{"clos", t.Clos != nil && t.Clos.Aggs > 0, func() *graph { return t.Clos.graph() }},
		{"dragonfly", t.Dragonfly != nil && t.Dragonfly.Switches > 0, func() *graph { return t.Dragonfly.graph() }},
		{"file", t.File != "", func() *graph { return t.read(m) }},
	} {
		if m.Has(one.key) {
			found = append(found, one.key)
		}
		if one.there && len(found) == 1 && m.Sound() {
			t.graph = one.make()
		}
	}
	switch {
	case len(found) == 0:
		m.Wrong("", "e.g. topology: {star: {hosts: 16, rate: 100G, delay: 1us}}", "it has no network")
	case len(found) > 1:
		m.Wrong(found[1], "leave one of them out", "it is %s as well", found[0])
	}
	if t.graph == nil {
		return
	}
	if t.graph.large {
		m.Wrong(found[0], "a smaller network", "a simulation takes at most %d hosts, %d switches of a kind and %d cables", maxHosts, maxSwitches, maxCables)
		t.graph = nil
	} else {
		t.graph.change(t.Changes)
	}
}

// read reads the file of a topology.
func (t *Topology) read(m inventory.Mapping) *graph {
	path := t.File
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(m.File()), path)
	}
	data, err := readTopology(path)
	var g *graph
	if err == nil {
		g, err = parseTopology(path, data)
	}
	if err != nil {
		m.WrongValue("file", "a file in the format of HPCC's public ns-3 code", "%v", err)
		return nil
	}
	return g
}

// readTopology reads a regular file: a pipe or a device that a scenario names could hold the command up for ever.
func readTopology(path string) ([]byte, error) {
	f, _, err := inventory.OpenPlain(path)
	switch {
	case errors.Is(err, inventory.ErrNotPlain):
		return nil, fmt.Errorf("%s: it is no regular file", path)
	case err != nil:
		return nil, err
	}
	defer f.Close()
	data, err := untrusted.ReadAll(f, maxTopologyFile)
	if errors.Is(err, untrusted.ErrTooLong) {
		err = fmt.Errorf("%s: it has more than %d bytes", path, maxTopologyFile)
	}
	return data, err
}

// change has cables be as they are given, and says what is wrong.
func (g *graph) change(list []LinkChange) {
	if len(list) == 0 {
		return
	}
	nodes, cables := make(map[string]int32), make(map[[2]int32][]int)
	for i := range g.nodes() {
		nodes[g.name(int32(i))] = int32(i)
	}
	for i := range g.cables {
		a, b := g.cables[i].a, g.cables[i].b
		pair := [2]int32{min(a, b), max(a, b)}
		cables[pair] = append(cables[pair], i)
	}
	changed := make(map[[2]int32]bool)
	for i := range list {
		c := &list[i]
		a, isA := nodes[c.Between[0]]
		b, isB := nodes[c.Between[1]]
		pair := [2]int32{min(a, b), max(a, b)}
		switch {
		case !isA || !isB || cables[pair] == nil:
			c.m.WrongValue("between", "names are host0, "+g.called(), "there is no cable between %q and %q", c.Between[0], c.Between[1])
		case changed[pair]:
			c.m.WrongValue("between", "one entry of each cable", "an entry before is of the cable between %q and %q", c.Between[0], c.Between[1])
		}
		changed[pair] = true
		for _, j := range cables[pair] {
			l := &g.cables[j]
			l.down = c.Down
			if c.Rate != 0 {
				l.rate = c.Rate
			}
		}
	}
}

// called is the first name of each kind of switch.
func (g *graph) called() string {
	var out []string
	for _, name := range g.names {
		if strings.HasSuffix(name, "0") && !strings.ContainsAny(name[:len(name)-1], "0123456789") || strings.HasPrefix(name, "node") && out == nil {
			out = append(out, name)
		}
	}
	return strings.Join(out, ", ")
}
