package simulate

import (
	"fmt"
	"math/rand/v2"
)

// maxHops bounds a path.
const maxHops = 8

// Random streams: one of each component, so that a change of one leaves the others as they are.
const (
	streamECMP = iota + 1
	streamWorkload
	streamECN
	streamAgents
	streamChoice
	streamTags
	streamPINT
	streamShare
)

// stream is the random numbers of one component.
func stream(seed uint64, component uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, component)) }

// hash mixes two numbers into one (SplitMix64's last steps).
func hash(a, b uint64) uint64 {
	x := a + b*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// routes are the shortest paths of a network. Link 2i is cable i from its first end to the second, 2i+1 the way back.
type routes struct {
	graph  *graph
	out    [][]int32 // links of each node that are not down
	to     []int32   // node of each link
	rack   []int32   // the switch of each host
	up     []int32   // the link from each host
	far    [][]uint8 // of switch i from each other one, in links; nil: not asked yet; 255: no route
	walked []int32   // scratch
	salt   uint64
}

// newRoutes finds the ways of a network. An error has what is wrong with a host.
func newRoutes(g *graph, seed uint64) (*routes, error) {
	r := &routes{graph: g, out: make([][]int32, g.nodes()), to: make([]int32, 2*len(g.cables)), rack: make([]int32, g.hosts), up: make([]int32, g.hosts), far: make([][]uint8, len(g.names)), salt: stream(seed, streamECMP).Uint64()}
	for i := range g.cables {
		c := &g.cables[i]
		r.to[2*i], r.to[2*i+1] = c.b, c.a
		if c.down {
			continue
		}
		r.out[c.a] = append(r.out[c.a], int32(2*i))
		r.out[c.b] = append(r.out[c.b], int32(2*i+1))
	}
	for h := range r.rack {
		r.rack[h] = -1
		switch len(r.out[h]) {
		case 0: // it has no route, which its flows show
		case 1:
			r.up[h], r.rack[h] = r.out[h][0], r.to[r.out[h][0]]
			if int(r.rack[h]) < g.hosts {
				return nil, fmt.Errorf("host %d is cabled to a host: it has to be to a switch", h)
			}
		default:
			return nil, fmt.Errorf("host %d has %d cables: a simulation takes hosts with one", h, len(r.out[h]))
		}
	}
	return r, nil
}

// from is how far each node is from a switch.
func (r *routes) from(target int32) []uint8 {
	i := int(target) - r.graph.hosts
	if r.far[i] != nil {
		return r.far[i]
	}
	far := make([]uint8, len(r.graph.names))
	for j := range far {
		far[j] = 255
	}
	far[i] = 0
	r.walked = append(r.walked[:0], target)
	for next := 0; next < len(r.walked); next++ {
		at := r.walked[next]
		for _, l := range r.out[at] {
			if to := int(r.to[l]) - r.graph.hosts; to >= 0 && far[to] == 255 && far[int(at)-r.graph.hosts] < 200 {
				far[to] = far[int(at)-r.graph.hosts] + 1
				r.walked = append(r.walked, r.to[l])
			}
		}
	}
	r.far[i] = far
	return far
}

// route appends the links from a host to another; what they are where there are several of the same length, the hash of key
// says at each switch. false: there are none, or too many for a packet's telemetry.
func (r *routes) route(dst []int32, from, to int32, key uint64) ([]int32, bool) {
	return r.walk(dst, from, to, func(at int32, links uint64) uint64 { return hash(key^r.salt, uint64(at)) % links })
}

// nth is route by the digits of key, of which each switch takes one to the base of its links: of keys in a row, as many as of, all
// take another path that is like this one, and each switch divides them evenly.
func (r *routes) nth(dst []int32, from, to int32, key uint64) (path []int32, of uint64) {
	of = 1
	path, _ = r.walk(dst, from, to, func(_ int32, links uint64) uint64 {
		digit := key / of % links
		if of < 1<<32 { // what no pair of hosts comes to; links are fewer, too
			of *= links
		}
		return digit
	})
	return path, of
}

// walk appends the links from a host to another, where pick says which of several at a switch.
func (r *routes) walk(dst []int32, from, to int32, pick func(at int32, links uint64) uint64) ([]int32, bool) {
	at, target := r.rack[from], r.rack[to]
	if at < 0 || target < 0 || from == to {
		return dst, false
	}
	far := r.from(target)
	if far[int(at)-r.graph.hosts] > maxHops-2 {
		return dst, false
	}
	dst = append(dst, r.up[from])
	for at != target {
		want, links := far[int(at)-r.graph.hosts]-1, uint64(0)
		for _, l := range r.out[at] {
			if next := int(r.to[l]) - r.graph.hosts; next >= 0 && far[next] == want {
				links++
			}
		}
		skip := uint64(0)
		if links > 1 {
			skip = pick(at, links)
		}
		for _, l := range r.out[at] {
			if next := int(r.to[l]) - r.graph.hosts; next >= 0 && far[next] == want {
				if skip == 0 {
					dst, at = append(dst, l), r.to[l]
					break
				}
				skip--
			}
		}
	}
	return append(dst, r.up[to]^1), true
}
