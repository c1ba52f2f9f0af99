// Package draw pictures a fleet: hosts below, and the devices above them in
// tiers by their distance from the hosts, with the level of each and the action
// of each end of a link.
package draw

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vlanrules"
)

// node is a device, or a host.
type node struct {
	name   string
	label  string
	about  string // for a reader who points at it
	level  inventory.Support
	host   bool
	tier   int // 0 for hosts
	x, y   float64
	hosts  int      // of a device, where hosts are not drawn one by one
	edge   []string // what its ports to them do
	weight float64  // the mean place of its neighbours, while rows are put in order
	near   []int
}

// edge is all links between two nodes with the same actions at their ends.
type edge struct {
	a, b             int
	links            int
	actionA, actionB string // "" at a host, or where the fleet does not know the port
	about            string
}

// picture is a fleet in nodes and edges.
type picture struct {
	title string
	nodes []node
	edges []edge
}

// oneByOne is how many hosts are drawn each as a node of its own.
const oneByOne = 40

func newPicture(f *inventory.Fleet) *picture {
	p := &picture{title: fmt.Sprintf("%s: profile %s, TPID 0x%04x, %s", f.Path, f.Profile.Name, f.Profile.TPID, f.Profile.Layout)}
	at := make(map[string]int, len(f.Devices))
	tiers := f.Tiers()
	top := slices.Max(append(slices.Clone(tiers), 0))
	for i := range f.Devices {
		d := &f.Devices[i]
		tier := tiers[i]
		if tier < 0 {
			tier = top + 1 // no way to a host: above all others
		}
		about := fmt.Sprintf("%s: %s, %d ports, level %s", d.Name, d.Platform, len(d.Ports), d.Level.Support)
		if d.Level.Reason != "" {
			about += ": " + d.Level.Reason
		}
		at[d.Name] = len(p.nodes)
		p.nodes = append(p.nodes, node{name: d.Name, label: d.Name, about: about, level: d.Level.Support, tier: tier + 1})
	}
	links := f.Links()
	hosts := make(map[string]bool)
	for _, l := range links {
		if _, device := at[l.B.Device]; !device {
			hosts[l.B.Device] = true
		}
	}
	together := len(hosts) > oneByOne
	seen := make(map[string]int) // edges
	for _, l := range links {
		b, device := at[l.B.Device]
		if !device && together {
			p.nodes[at[l.A.Device]].addHost(action(f, l.A.Device, l.A.Port))
			continue
		}
		if !device {
			key := "host\x00" + l.B.Device
			if n, there := at[key]; there {
				b = n
			} else {
				b = len(p.nodes)
				at[key] = b
				p.nodes = append(p.nodes, node{name: l.B.Device, label: l.B.Device, about: l.B.Device, host: true})
			}
		}
		p.link(f, seen, at[l.A.Device], b, l)
	}
	for i := range p.nodes {
		n := &p.nodes[i]
		if h, ok := f.Host(n.name); ok && n.host {
			n.about = fmt.Sprintf("host %s, MTU %d, CSIG %t", h.Name, h.MTU, h.CSIG)
		}
		if n.hosts > 0 {
			n.about += fmt.Sprintf(", %d hosts (%s)", n.hosts, strings.Join(n.edge, ", "))
		}
	}
	p.order()
	return p
}

// action is what a port does with the tag, "" where the fleet has no such port.
func action(f *inventory.Fleet, device, port string) string {
	if d, ok := f.Device(device); ok {
		if q, ok := d.Port(port); ok {
			return q.Action.String()
		}
	}
	return ""
}

func (n *node) addHost(action string) {
	n.hosts++
	if !slices.Contains(n.edge, action) {
		n.edge = append(n.edge, action)
	}
}

func (p *picture) link(f *inventory.Fleet, seen map[string]int, a, b int, l inventory.Link) {
	e := edge{a: a, b: b, links: 1, actionA: action(f, l.A.Device, l.A.Port), about: fmt.Sprintf("%s - %s", l.A, l.B)}
	e.actionB = action(f, l.B.Device, l.B.Port)
	if a > b {
		e.a, e.b, e.actionA, e.actionB = b, a, e.actionB, e.actionA
	}
	key := fmt.Sprint(e.a, " ", e.b, " ", e.actionA, " ", e.actionB)
	if n, there := seen[key]; there {
		p.edges[n].links++
		return
	}
	seen[key] = len(p.edges)
	p.edges = append(p.edges, e)
	p.nodes[a].near, p.nodes[b].near = append(p.nodes[a].near, b), append(p.nodes[b].near, a)
}

// rows are the tiers, the lowest first, each in its order.
func (p *picture) rows() [][]int {
	var out [][]int
	for i := range p.nodes {
		for len(out) <= p.nodes[i].tier {
			out = append(out, nil)
		}
		out[p.nodes[i].tier] = append(out[p.nodes[i].tier], i)
	}
	for _, row := range out {
		slices.SortStableFunc(row, func(a, b int) int { return cmp.Compare(p.nodes[a].x, p.nodes[b].x) })
	}
	return out
}

// order puts each row in the order of its neighbours' places, up and down a few
// times, from the order of names: fewer links cross.
func (p *picture) order() {
	rows := p.rows()
	for _, row := range rows {
		slices.SortStableFunc(row, func(a, b int) int { return inventory.CompareNames(p.nodes[a].name, p.nodes[b].name) })
		p.spread(row)
	}
	for range 4 {
		for _, row := range rows {
			p.byNeighbours(row)
		}
		for _, row := range slices.Backward(rows) {
			p.byNeighbours(row)
		}
	}
}

func (p *picture) byNeighbours(row []int) {
	for _, i := range row {
		n := &p.nodes[i]
		sum, count := 0.0, 0
		for _, k := range n.near {
			if p.nodes[k].tier != n.tier {
				sum += p.nodes[k].x
				count++
			}
		}
		n.weight = n.x
		if count > 0 {
			n.weight = sum / float64(count)
		}
	}
	slices.SortStableFunc(row, func(a, b int) int {
		// Rounded, so that rows with all neighbours in common keep their order.
		return cmp.Compare(int(p.nodes[a].weight*1e6), int(p.nodes[b].weight*1e6))
	})
	p.spread(row)
}

// spread places a row evenly from 0 to 1.
func (p *picture) spread(row []int) {
	for k, i := range row {
		p.nodes[i].x = (float64(k) + 0.5) / float64(len(row))
	}
}

// levelColours and actionColours are the same in both forms. They are told apart
// also without red and green, by their lightness.
var levelColours = map[inventory.Support]string{
	inventory.LevelAuto: "#ffffff", inventory.LevelNative: "#bfe3c6", inventory.LevelSoftware: "#bcd7f2",
	inventory.LevelPassthrough: "#ececec", inventory.LevelDiscard: "#f4a9a0",
}

// levelBorders tell levels apart where colours do not.
var levelBorders = map[inventory.Support]string{
	inventory.LevelNative: `stroke-width="2.5"`, inventory.LevelSoftware: `stroke-width="1.8"`,
	inventory.LevelPassthrough: `stroke-dasharray="5 3"`, inventory.LevelDiscard: `stroke-dasharray="9 3 2 3"`,
}

var actionColours = map[string]string{
	vlanrules.Update.String(): "#1f6fb4", vlanrules.Passthrough.String(): "#9a9a9a", vlanrules.Strip.String(): "#c0392b",
}

// used lists the levels and actions that the picture has, for its legend.
func (p *picture) used() (levels []inventory.Support, actions []string) {
	for _, l := range []inventory.Support{inventory.LevelAuto, inventory.LevelNative, inventory.LevelSoftware, inventory.LevelPassthrough, inventory.LevelDiscard} {
		if slices.ContainsFunc(p.nodes, func(n node) bool { return !n.host && n.level == l }) {
			levels = append(levels, l)
		}
	}
	for _, a := range []vlanrules.Action{vlanrules.Update, vlanrules.Passthrough, vlanrules.Strip} {
		if slices.ContainsFunc(p.edges, func(e edge) bool { return e.actionA == a.String() || e.actionB == a.String() }) ||
			slices.ContainsFunc(p.nodes, func(n node) bool { return slices.Contains(n.edge, a.String()) }) {
			actions = append(actions, a.String())
		}
	}
	return levels, actions
}
