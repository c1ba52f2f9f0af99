package inventory

import (
	"math/bits"
	"slices"
)

// graph is a fleet's devices and links as numbers: ports are counted through
// the fleet.
type graph struct {
	f     *Fleet
	first []int // of each device: the number of its first port
	ports int   // how many there are
	owner []int32
	peer  []int32 // of each port: the device at its other end, or one below

	tier  []int32   // of each device: hops to the nearest host, -1 where none can be reached
	class []uint8   // of each port: its place on the way up or down
	nears [][]int32 // of each device: those that it has ports towards, each once
	backs [][]int32 // the other way round, once asked for
	masks []int     // of each class: the most ports of it that one device has
}

// What a port's peer is where it is no device of the fleet.
const (
	noPeer int32 = -1 // not known
	toHost int32 = -2 // a host, or a device of another fleet
)

// newGraph takes the links from the ports' peers.
func newGraph(f *Fleet) *graph {
	t := &graph{f: f, first: make([]int, len(f.Devices))}
	for i := range f.Devices {
		t.first[i] = t.ports
		t.ports += len(f.Devices[i].Ports)
	}
	t.owner, t.peer, t.class = make([]int32, t.ports), make([]int32, t.ports), make([]uint8, t.ports)
	at := make(map[string]int32, len(f.Devices))
	for i := range f.Devices {
		at[f.Devices[i].Name] = int32(i)
	}
	for i := range f.Devices {
		for j := range f.Devices[i].Ports {
			p, peer := t.first[i]+j, f.Devices[i].Ports[j].Peer
			t.owner[p] = int32(i)
			k, ok := at[peer.Device]
			switch {
			case peer == (Peer{}):
				t.peer[p] = noPeer
			case ok:
				t.peer[p] = k
			default:
				t.peer[p] = toHost
			}
		}
	}
	t.neighbours()
	t.tiers()
	t.classes()
	return t
}

// neighbours lists, for each device, those it has a link with, each once.
func (t *graph) neighbours() {
	t.nears = make([][]int32, len(t.f.Devices))
	all := make([]int32, 0, t.ports)
	for i := range t.f.Devices {
		from := len(all)
		for _, k := range t.peer[t.first[i] : t.first[i]+len(t.f.Devices[i].Ports)] {
			if k >= 0 {
				all = append(all, k)
			}
		}
		own := all[from:]
		slices.Sort(own)
		own = slices.Compact(own)
		all = all[:from+len(own)]
		t.nears[i] = own[:len(own):len(own)]
	}
}

// tiers counts the hops from each device to the nearest host. Where the file
// knows of no hosts, the devices with the fewest links stand for them.
func (t *graph) tiers() {
	var edges []int32
	for i := range t.f.Devices {
		if slices.Contains(t.peer[t.first[i]:t.first[i]+len(t.f.Devices[i].Ports)], toHost) {
			edges = append(edges, int32(i))
		}
	}
	t.tier = t.distances(edges, false)
	for i, n := range t.tier {
		if n == unreached {
			t.tier[i] = -1
		}
	}
}

// Of each tier there are ports up, down and to the side; what is further from
// the hosts than maxTiers counts as that far.
const maxTiers = 8

// classes says where on its way a frame is when it leaves through a port.
func (t *graph) classes() {
	t.masks = make([]int, 3*maxTiers)
	for i := range t.f.Devices {
		var count [3 * maxTiers]int
		for p := t.first[i]; p < t.first[i]+len(t.f.Devices[i].Ports); p++ {
			own := t.tier[i]
			way := 1 // down: to a host, or to who knows
			if k := t.peer[p]; k >= 0 {
				switch other := t.tier[k]; {
				case other > own:
					way = 0
				case other == own:
					way = 2
				}
			}
			t.class[p] = uint8(3*min(max(own, 0), maxTiers-1) + int32(way))
			count[t.class[p]]++
			t.masks[t.class[p]] = max(t.masks[t.class[p]], count[t.class[p]])
		}
	}
}

// blocksOf divides locators among the classes, by the most ports that a device
// has in each: a frame passes each class once on its way up and down a fabric,
// so names from different blocks never meet on one path. Sizes go by powers of
// two, so that a new port does not move the blocks of all.
func blocksOf(all lmSet, most []int) []lmSet {
	out := make([]lmSet, len(most))
	weights, sum := make([]int, len(most)), 0
	for i, n := range most {
		if n > 0 {
			weights[i] = 1 << bits.Len(uint(n-1))
			sum += weights[i]
		}
	}
	var list []int
	for lm := range numLM {
		if all.has(lm) {
			list = append(list, lm)
		}
	}
	before := 0
	for i, w := range weights {
		for n := before * len(list) / max(sum, 1); n < (before+w)*len(list)/max(sum, 1); n++ {
			out[i].add(list[n])
		}
		before += w
	}
	return out
}
