package inventory

import (
	"fmt"
	"slices"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// Candidates lists the ports that may have written a compact locator into a
// frame from one host or device to another, in the order of the fleet: the update ports
// with that LM which lie on a shortest path. Several are no error, since LM has too few
// bits to name every port of a fleet; none is what "none", "stale" and an unknown
// locator give. "" for from, to or both leaves that end open. Names that the fleet does
// not know, and ends without a path, are errors.
func (f *Fleet) Candidates(sig quantize.Signal, lm uint16, from, to string) ([]PortRef, error) {
	var on []bool // nil: all
	if from != "" || to != "" {
		var err error
		if on, err = newGraph(f).between(from, to); err != nil {
			return nil, err
		}
	}
	var out []PortRef
	n := 0
	for i := range f.Devices {
		for j := range f.Devices[i].Ports {
			p := &f.Devices[i].Ports[j]
			if own, ok := p.LM[sig]; ok && own == lm && p.Action == vlanrules.Update && (on == nil || on[n]) {
				out = append(out, PortRef{f.Devices[i].Name, p.Name})
			}
			n++
		}
	}
	return out, nil
}

// unreached is the distance of what cannot be reached; two of them do not overflow.
const unreached = int32(1) << 29

// between says of each port whether it is on a shortest path from one end to
// the other.
func (t *graph) between(from, to string) ([]bool, error) {
	starts, _, err := t.ends("from", from)
	if err != nil {
		return nil, err
	}
	targets, last, err := t.ends("to", to)
	if err != nil {
		return nil, err
	}
	on := make([]bool, t.ports)
	t.mark(on, starts, targets, last, from == "", to == "")
	if !slices.Contains(on, true) {
		return nil, fmt.Errorf("there is no path from %s to %s in the fleet file: does it have all cables?", orAny(from), orAny(to))
	}
	return on, nil
}

func orAny(name string) string {
	if name == "" {
		return "anywhere"
	}
	return name
}

// ends are the devices that a name stands for, itself or those that the host is
// connected to, and the ports towards the host.
func (t *graph) ends(what, name string) (devices []int32, ports []int, err error) {
	if name == "" {
		return nil, nil, nil
	}
	if i, ok := t.f.deviceAt(name); ok {
		return []int32{int32(i)}, nil, nil
	}
	for p, peer := range t.peer {
		i := t.owner[p]
		if peer == toHost && t.f.Devices[i].Ports[p-t.first[i]].Peer.Device == name {
			devices, ports = append(devices, i), append(ports, p)
		}
	}
	if len(devices) == 0 {
		return nil, nil, fmt.Errorf("--%s: there is no device %q, and no port is connected to a host of this name", what, name)
	}
	return devices, ports, nil
}

// mark marks the ports on shortest paths between devices; last are the ports
// that leave the fleet at the end.
func (t *graph) mark(on []bool, starts, targets []int32, last []int, anyStart, anyEnd bool) {
	var ahead, behind []int32
	best := unreached
	if !anyStart {
		ahead = t.distances(starts, false)
	}
	if !anyEnd {
		behind = t.distances(targets, true)
	}
	if ahead != nil && behind != nil {
		for i := range ahead {
			best = min(best, ahead[i]+behind[i])
		}
		if best >= unreached {
			return
		}
	}
	for p, v := range t.peer {
		u := t.owner[p]
		switch {
		case ahead == nil:
			on[p] = v >= 0 && behind[u] < unreached && behind[u] == behind[v]+1
		case behind == nil:
			on[p] = ahead[u] < unreached && (v < 0 || ahead[v] == ahead[u]+1)
		default:
			on[p] = v >= 0 && ahead[u]+1+behind[v] == best
		}
	}
	for _, p := range last {
		on[p] = ahead == nil || ahead[t.owner[p]] == best
	}
}

// distances counts the hops from some devices to each, or from each to them.
func (t *graph) distances(from []int32, back bool) []int32 {
	next := t.nears
	if back {
		next = t.backwards()
	}
	out := make([]int32, len(t.f.Devices))
	for i := range out {
		out[i] = unreached
	}
	queue := make([]int32, 0, len(out))
	for _, i := range from {
		if out[i] != 0 {
			out[i] = 0
			queue = append(queue, i)
		}
	}
	for n := 0; n < len(queue); n++ {
		for _, k := range next[queue[n]] {
			if out[k] == unreached {
				out[k] = out[queue[n]] + 1
				queue = append(queue, k)
			}
		}
	}
	return out
}

// backwards lists, for each device, those with a port towards it. A fleet may
// know cables from one end only.
func (t *graph) backwards() [][]int32 {
	if t.backs == nil {
		t.backs = make([][]int32, len(t.nears))
		for i, near := range t.nears {
			for _, k := range near {
				t.backs[k] = append(t.backs[k], int32(i))
			}
		}
	}
	return t.backs
}

// Ambiguity counts what the locators of one signal leave open: LM has too few
// bits to name every port of a fleet.
type Ambiguity struct {
	Ports    int `json:"ports"`             // that write a locator
	Locators int `json:"locators"`          // that they write
	Alone    int `json:"alone"`             // ports whose locator no other port has
	Most     int `json:"most_ports_of_one"` // ports that share one locator

	// Consecutive are ports with the locator of one that a frame may leave
	// through right afterwards.
	Consecutive int `json:"consecutive_alike"`

	// Pairs of devices with hosts were looked at: all, or maxPairs of them. In
	// PairsOpen of these, two ports on the shortest paths have the same locator;
	// MostOpen ports in the worst case.
	Pairs     int  `json:"pairs_looked_at"`
	AllPairs  bool `json:"pairs_are_all"`
	PairsOpen int  `json:"pairs_ambiguous"`
	MostOpen  int  `json:"pairs_most_candidates"`
}

// maxPairs is how many pairs of devices Ambiguity looks at.
const maxPairs = 64

// Ambiguity counts what the locators of a signal leave open.
func (f *Fleet) Ambiguity(sig quantize.Signal) Ambiguity {
	t := newGraph(f)
	var out Ambiguity
	lm := make([]uint16, t.ports)
	count := make(map[uint16]int)
	leaves := make([]lmSet, len(f.Devices))
	for p := range lm {
		i := t.owner[p]
		port := &f.Devices[i].Ports[p-t.first[i]]
		if port.Action != vlanrules.Update || port.LM[sig] == 0 {
			continue
		}
		lm[p] = port.LM[sig]
		out.Ports++
		count[lm[p]]++
		if lm[p] < numLM {
			leaves[i].add(int(lm[p]))
		}
	}
	out.Locators = len(count)
	for _, n := range count {
		out.Most = max(out.Most, n)
		if n == 1 {
			out.Alone++
		}
	}
	for p, v := range t.peer {
		if v < 0 || lm[p] == 0 || lm[p] >= numLM || !leaves[v].has(int(lm[p])) {
			continue
		}
		for q := t.first[v]; q < t.first[v]+len(f.Devices[v].Ports); q++ {
			if lm[q] == lm[p] && t.peer[q] != t.owner[p] { // not straight back
				out.Consecutive++
				break
			}
		}
	}
	t.openPairs(lm, &out)
	return out
}

// openPairs looks at pairs of devices with hosts: all when there are few, else
// some that lie far apart in the list.
func (t *graph) openPairs(lm []uint16, out *Ambiguity) {
	var edges []int32
	for i, tier := range t.tier {
		if tier == 0 {
			edges = append(edges, int32(i))
		}
	}
	n := len(edges)
	out.AllPairs = n*(n-1) <= maxPairs
	on := make([]bool, t.ports)
	look := func(a, b int32) {
		clear(on)
		// The last port is the one to the host: any of those that b has.
		t.mark(on, []int32{a}, []int32{b}, nil, false, false)
		if !slices.Contains(on, true) {
			return
		}
		out.Pairs++
		var seen [numLM]uint16
		open := 0
		for p := range on {
			if !on[p] || lm[p] == 0 || lm[p] >= numLM {
				continue
			}
			if seen[lm[p]]++; seen[lm[p]] > 1 {
				open = max(open, int(seen[lm[p]]))
			}
		}
		if open > 0 {
			out.PairsOpen++
			out.MostOpen = max(out.MostOpen, open)
		}
	}
	if out.AllPairs {
		for _, a := range edges {
			for _, b := range edges {
				if a != b {
					look(a, b)
				}
			}
		}
		return
	}
	for k := range maxPairs {
		a := k * n / maxPairs
		b := (a + 1 + (k*k+k)*(n-1)/(maxPairs*maxPairs+maxPairs)) % n
		if a != b {
			look(edges[a], edges[b])
		}
	}
}

// Paths finds the shortest paths through a fleet. It is for one goroutine at a time.
type Paths struct{ t *graph }

// Paths looks at the fleet's links once: the fleet is not to change while they are in use.
func (f *Fleet) Paths() *Paths { return &Paths{newGraph(f)} }

// Hops are the egress ports on the shortest paths from one host or device to another, by the hop at which a
// frame passes them, and in the order of the fleet. Where a hop has one port every frame passes it. Errors as
// of Candidates.
func (p *Paths) Hops(from, to string) ([][]PortRef, error) {
	on, err := p.t.between(from, to)
	if err != nil {
		return nil, err
	}
	starts, _, err := p.t.ends("from", from)
	if err != nil {
		return nil, err
	}
	var hops [][]PortRef
	ahead := p.t.distances(starts, false)
	for n, passed := range on {
		if !passed {
			continue
		}
		i := p.t.owner[n]
		d := &p.t.f.Devices[i]
		for int(ahead[i]) >= len(hops) {
			hops = append(hops, nil)
		}
		hops[ahead[i]] = append(hops[ahead[i]], PortRef{d.Name, d.Ports[n-p.t.first[i]].Name})
	}
	return hops, nil
}
