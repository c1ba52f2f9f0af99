package draw

import (
	"cmp"
	"slices"
	"strings"

	"github.com/csig-agent/csig/inventory"
)

// Map is what a fleet has, in the order in which a picture of it shows that, for a program that
// knows how much room the picture has.
type Map struct {
	Nodes []Node `json:"nodes"` // devices, the top tier first and a tier by names, then hosts
	Edges []Edge `json:"edges"`
}

// Node is a device, or a host.
type Node struct {
	Name  string `json:"name"`
	Label string `json:"label"` // its end that differs from others
	Host  bool   `json:"host"`
	Hosts int    `json:"hosts"` // of a device, where they are not nodes
	Tier  int    `json:"tier"`  // of a device: how many links away from the hosts' switches
}

// Edge is all links between two nodes, by their places in Nodes; A is a device.
type Edge struct {
	A     int       `json:"a"`
	B     int       `json:"b"`
	Links []MapLink `json:"links"`
}

// MapLink is one link; a port is "" at a host that has none named.
type MapLink struct {
	PortA string `json:"port_a"`
	PortB string `json:"port_b"`
}

// mapHosts is how many hosts are nodes of a map; of a fleet with more of them each device has their number.
const mapHosts = 4096

// NewMap orders a fleet's devices and hosts. Labels are without what the names of all devices begin with.
func NewMap(f *inventory.Fleet) Map {
	m := Map{Nodes: make([]Node, 0, len(f.Devices)), Edges: []Edge{}}
	skip, tiers := sharedPrefix(f), f.Tiers()
	top := slices.Max(append(slices.Clone(tiers), 0))
	for i := range f.Devices {
		name, tier := f.Devices[i].Name, tiers[i]
		if tier < 0 {
			tier = top + 1 // no way to a host: above all others
		}
		m.Nodes = append(m.Nodes, Node{Name: name, Label: name[skip:], Tier: tier})
	}
	slices.SortStableFunc(m.Nodes, func(a, b Node) int {
		return cmp.Or(cmp.Compare(b.Tier, a.Tier), inventory.CompareNames(a.Name, b.Name))
	})
	devices, hosts := make(map[string]int, len(m.Nodes)), make(map[string]int)
	for i := range m.Nodes {
		devices[m.Nodes[i].Name] = i
	}
	links := f.Links()
	for _, l := range links {
		if _, device := devices[l.B.Device]; !device {
			hosts[l.B.Device] = 0
		}
	}
	few := len(hosts) <= mapHosts
	seen := make(map[[2]int]int)
	for _, l := range links {
		a := devices[l.A.Device]
		b, device := devices[l.B.Device]
		switch {
		case device:
		case !few:
			m.Nodes[a].Hosts++
			continue
		case hosts[l.B.Device] == 0:
			b = len(m.Nodes) // never 0: links begin at devices
			hosts[l.B.Device] = b
			m.Nodes = append(m.Nodes, Node{Name: l.B.Device, Label: l.B.Device, Host: true})
		default:
			b = hosts[l.B.Device]
		}
		ends := MapLink{l.A.Port, l.B.Port}
		if a > b {
			a, b, ends = b, a, MapLink{ends.PortB, ends.PortA}
		}
		n, known := seen[[2]int{a, b}]
		if !known {
			n = len(m.Edges)
			seen[[2]int{a, b}] = n
			m.Edges = append(m.Edges, Edge{A: a, B: b})
		}
		m.Edges[n].Links = append(m.Edges[n].Links, ends)
	}
	return m
}

// fewNames are shown as a whole, whatever they share.
const fewNames = 4

// sharedPrefix is how much the names of all devices share at their beginning, up to a separator.
func sharedPrefix(f *inventory.Fleet) int {
	if len(f.Devices) < fewNames {
		return 0
	}
	shared := f.Devices[0].Name
	for i := range f.Devices {
		for !strings.HasPrefix(f.Devices[i].Name, shared) {
			shared = shared[:len(shared)-1]
		}
	}
	return strings.LastIndexAny(shared, "-._") + 1
}
