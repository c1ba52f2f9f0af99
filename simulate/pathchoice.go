package simulate

import (
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
)

// Paths is how flows are given one of the shortest paths.
type Paths struct {
	Choice   string        `key:"choice" words:"ecmp greedy two-choices weighted plb spray" default:"ecmp" doc:"ecmp: by a hash of the flow. greedy: the path that has most left, by its signal. two-choices: the better of two by chance. weighted: by chance, in proportion to what is left, and the more evenly the older that is. plb: by a hash, and by another one after rounds with congestion. spray: each packet of a flow by another one."`
	Probe    time.Duration `key:"probe" range:"0s 1h" default:"0s" doc:"How often a rack learns its paths' signals; at each choice unless given."`
	HalfLife time.Duration `key:"half_life" range:"1us 1h" default:"1ms" doc:"Of weighted: after it half of a signal counts."`
	LastHop  bool          `key:"last_hop" doc:"The port to the receiver, which all paths share, counts as well. Without it only what a choice of path can change does."`
	Rounds   int           `key:"rounds" range:"1 100" default:"12" doc:"Of plb: round trips in a row, of whose packets half or more are marked, before a flow moves."`
}

// Check has the rules about several keys.
func (p *Paths) Check(m inventory.Mapping) {
	for _, one := range [...]struct{ key, kinds string }{{"half_life", "weighted"}, {"rounds", "plb"}, {"probe", "greedy two-choices weighted"}, {"last_hop", "greedy two-choices weighted"}} {
		if m.Has(one.key) && !contains(one.kinds, p.Choice) {
			m.Wrong(one.key, "leave it out, or choice: "+strings.ReplaceAll(one.kinds, " ", " or "), "choice %s has no %s", p.Choice, one.key)
		}
	}
}

// maxCandidates bounds the paths between two racks that signals choose among.
const maxCandidates = 16

// pathSet is the paths between two racks, and what is known of them.
type pathSet struct {
	keys []uint64  // for routes.route
	left []float64 // what each has left, as a part of its rate
	age  []float64 // ps, of that, when it was read
	read int64     // ps; when
}

// picker gives flows their paths.
type picker struct {
	m      *Simulation
	paths  *Paths
	sets   map[[2]int32]*pathSet
	laid   map[[2]int32]spread // of pairs of hosts, where packets are sprayed
	chance *rand.Rand
	probe  int64
	half   float64
	path   []int32 // scratch
	weight []float64
}

func newPicker(m *Simulation, p *Paths) *picker {
	return &picker{m: m, paths: p, sets: make(map[[2]int32]*pathSet), laid: make(map[[2]int32]spread), chance: stream(uint64(m.scenario.Seed), streamChoice), probe: p.Probe.Nanoseconds() * 1000, half: float64(p.HalfLife.Nanoseconds()) * 1000}
}

// pick gives a flow that begins its path.
func (c *picker) pick(id int32) {
	f := &c.m.network.flows[id]
	if c.paths.Choice == "spray" {
		c.spray(f)
		return
	}
	rack := c.m.scenario.routes.rack
	if c.paths.Choice == "ecmp" || c.paths.Choice == "plb" || rack[f.from] == rack[f.to] {
		c.m.send(id, uint64(id))
		return
	}
	s := c.set(f)
	c.refresh(f, s)
	c.m.send(id, s.keys[c.best(s)])
}

// set is the paths between the racks of a flow.
func (c *picker) set(f *flow) *pathSet {
	r := c.m.scenario.routes
	pair := [2]int32{r.rack[f.from], r.rack[f.to]}
	s, ok := c.sets[pair]
	if ok {
		return s
	}
	s = &pathSet{read: math.MinInt64}
	seen := make(map[[maxHops]int32]bool)
	for key := uint64(0); key < 40*maxCandidates && len(s.keys) < maxCandidates; key++ {
		var links [maxHops]int32
		c.path, _ = r.route(c.path[:0], f.from, f.to, hash(key, uint64(pair[0])))
		copy(links[:], c.path[1:len(c.path)-1]) // between the racks
		if !seen[links] {
			seen[links] = true
			s.keys = append(s.keys, hash(key, uint64(pair[0])))
		}
	}
	s.left, s.age = make([]float64, len(s.keys)), make([]float64, len(s.keys))
	c.sets[pair] = s
	return s
}

// refresh learns the signals of all paths of a set, as probes that take no room would read them.
func (c *picker) refresh(f *flow, s *pathSet) {
	n := c.m.network
	if s.read != math.MinInt64 && n.now < s.read+c.probe {
		return
	}
	s.read = n.now
	for i, key := range s.keys {
		c.path, _ = c.m.scenario.routes.route(c.path[:0], f.from, f.to, key)
		end := len(c.path)
		if !c.paths.LastHop {
			end--
		}
		s.left[i], s.age[i] = 1, 0
		for _, l := range c.path[1:end] {
			left, age, known := n.leftAt(l)
			if known && left < s.left[i] {
				s.left[i], s.age[i] = left, age
			}
		}
	}
}

// leftAt is what min(ABW/C) of a port says, as a part of its rate, and how old that is.
func (n *Network) leftAt(link int32) (left, age float64, known bool) {
	p := &n.csigPorts[link]
	switch p.kind {
	case native:
		if n.fluid != nil {
			l := &n.links[link]
			return max(1-n.fluid.used[link]/float64(l.rate), 0), 0, true
		}
		if n.now >= p.end {
			n.roll(link)
		}
	case software:
	case isStale:
		return 0, 0, true
	default:
		return 0, 0, false
	}
	low, _ := n.csig.values(quantize.MinABWC, p.s[quantize.MinABWC])
	return float64(low) / 1e6, float64(n.now - p.at), true
}

// best is which path of a set a flow takes.
func (c *picker) best(s *pathSet) int {
	all := len(s.keys)
	switch c.paths.Choice {
	case "two-choices":
		a, b := c.chance.IntN(all), c.chance.IntN(all)
		if s.left[b] > s.left[a] {
			return b
		}
		return a
	case "weighted":
		c.weight = c.weight[:0]
		sum := 0.0
		for _, v := range s.left {
			sum += v
		}
		even, total := max(sum/float64(all), 1e-3), 0.0
		for i, v := range s.left {
			part := math.Exp2(-(s.age[i] + float64(c.m.network.now-s.read)) / c.half)
			c.weight = append(c.weight, v*part+even*(1-part))
			total += c.weight[i]
		}
		at := c.chance.Float64() * total
		for i, w := range c.weight {
			if at -= w; at < 0 {
				return i
			}
		}
		return all - 1
	}
	best, first := 0, c.chance.IntN(all) // of equal ones one by chance
	for k := range all {
		i := (first + k) % all
		if k == 0 || s.left[i] > s.left[best] {
			best = i
		}
	}
	return best
}

// rounds are what PLB knows of a flow: how many of its packets were marked in this round trip, and in how many ones in a row
// half of them were.
type rounds struct {
	until     uint64 // the round ends with the acknowledgement of it
	all, seen uint32
	bad       int
	moves     uint64
}

// round counts an ACK, and moves a flow that has had too many bad rounds (PLB, SIGCOMM 2022; the numbers of Linux).
func (c *picker) round(id int32, k *packet) {
	n := c.m.network
	f := &n.flows[id]
	r := &f.rounds
	r.all++
	if k.marked {
		r.seen++
	}
	if k.seq < r.until {
		return
	}
	if 2*r.seen >= r.all {
		r.bad++
	} else {
		r.bad = 0
	}
	r.all, r.seen, r.until = 0, 0, f.sent+1
	if r.bad >= c.paths.Rounds {
		r.bad = 0
		r.moves++
		n.Moves++
		c.m.send(id, hash(uint64(id), r.moves))
	}
}
