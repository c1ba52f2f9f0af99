package draw

import (
	"strings"

	"github.com/csig-agent/csig/inventory"
)

// Map is where a fleet's devices, hosts and links are on a picture whose colours another program
// puts in: places in pixels, of the boxes their middle.
type Map struct {
	Width  float64 `json:"width"`
	Height float64 `json:"height"`
	Box    float64 `json:"box"` // height of the boxes
	Nodes  []Node  `json:"nodes"`
	Edges  []Edge  `json:"edges"`
}

// Node is a device, or a host.
type Node struct {
	Name  string  `json:"name"`
	Label string  `json:"label"` // its end that differs from others
	Host  bool    `json:"host"`
	Hosts int     `json:"hosts"` // of a device, where they are not nodes
	X     float64 `json:"x"`
	Y     float64 `json:"y"`
	Width float64 `json:"width"`
}

// Edge is all links between two nodes, by their places in Nodes.
type Edge struct {
	A     int        `json:"a"`
	B     int        `json:"b"`
	Links []MapLink  `json:"links"`
	Line  [4]float64 `json:"line"` // x and y at A, then at B
}

// MapLink is one link; a port is "" at a host that has none named.
type MapLink struct {
	PortA string `json:"port_a"`
	PortB string `json:"port_b"`
}

const (
	mapStretch = 1.6 // how much farther apart rows are than SVG's: what runs between them is coloured
	mapTop     = 50  // pixels above, where SVG has its title
)

// NewMap places a fleet as SVG draws it, without what the names of all devices begin with.
func NewMap(f *inventory.Fleet) Map {
	p := newPicture(f)
	skip := sharedPrefix(f)
	for i := range p.nodes {
		if n := &p.nodes[i]; !n.host {
			n.label = n.name[skip:]
		}
	}
	width, height, box := p.place()
	for i := range p.nodes {
		p.nodes[i].y = (p.nodes[i].y - mapTop) * mapStretch
	}
	height = (height - mapTop) * mapStretch
	m := Map{Width: width, Height: height, Box: boxHeight, Nodes: []Node{}, Edges: []Edge{}}
	type key struct {
		name string
		host bool
	}
	at := make(map[key]int, len(p.nodes))
	for i := range p.nodes {
		n := &p.nodes[i]
		at[key{n.name, n.host}] = i
		m.Nodes = append(m.Nodes, Node{n.name, n.label, n.host, n.hosts, n.x, n.y, box[n.tier]})
	}
	seen := make(map[[2]int]int)
	for _, l := range f.Links() {
		a, b := at[key{l.A.Device, false}], 0
		var there bool
		if b, there = at[key{l.B.Device, false}]; !there {
			if b, there = at[key{l.B.Device, true}]; !there {
				continue // hosts that are not drawn one by one
			}
		}
		ends := MapLink{l.A.Port, l.B.Port}
		if a > b {
			a, b, ends = b, a, MapLink{ends.PortB, ends.PortA}
		}
		n, known := seen[[2]int{a, b}]
		if !known {
			n = len(m.Edges)
			seen[[2]int{a, b}] = n
			e := Edge{A: a, B: b}
			e.Line[0], e.Line[1], e.Line[2], e.Line[3] = p.line(edge{a: a, b: b})
			m.Edges = append(m.Edges, e)
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
