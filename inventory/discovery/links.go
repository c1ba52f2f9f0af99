package discovery

import (
	"errors"
	"fmt"
	"strings"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/untrusted"
)

// Answer is what a device of a fleet answered about LLDP.
type Answer struct {
	Self      string // by which LLDP knows it, "" where it does not tell
	Neighbors []counters.Neighbor
	Err       error
}

// Kind is a kind of finding.
type Kind string

// The kinds of findings. The first two are mistakes, of the file or of a cable, the others
// warnings.
const (
	OtherPeer   Kind = "other-peer"   // LLDP sees another port or host than the file has
	Unread      Kind = "unread"       // the device could not be asked
	NoNeighbor  Kind = "no-neighbour" // the file has a cable where LLDP sees nothing
	NoLLDP      Kind = "no-lldp"      // the device answers nothing about LLDP
	PeerMissing Kind = "peer-missing" // LLDP sees a switch of the fleet where the file has no cable
	PortMissing Kind = "port-missing" // LLDP sees one at a port that the file does not list
	Nameless    Kind = "nameless"     // the neighbour tells no name to compare
)

// Mistake reports whether the fleet file or a cable is wrong, or was not compared.
func (k Kind) Mistake() bool { return k == OtherPeer || k == Unread }

// Finding is a place where LLDP and the fleet file do not agree.
type Finding struct {
	Kind   Kind   `json:"kind"`
	Device string `json:"device"`
	Port   string `json:"port"` // "" for the whole device
	Peer   string `json:"peer"` // that the file has, "" for none
	Seen   string `json:"seen"` // that LLDP sees, "" for none

	At *inventory.Error `json:"at"` // the place in the fleet file, what is wrong, and what to do
}

// Links is what came of comparing a fleet's cables with LLDP.
type Links struct {
	Neighbors int       `json:"neighbors"`
	Cables    int       `json:"cables"`      // of the fleet file, with a device at an end that was asked
	Seen      int       `json:"cables_seen"` // of these, that LLDP sees as well
	Findings  []Finding `json:"findings"`
}

// Compare holds what devices answered, by their names, against the cables of a fleet.
func Compare(f *inventory.Fleet, answers map[string]Answer) *Links {
	c := &comparison{f: f, out: &Links{Findings: []Finding{}}, called: newCalled[string](), seen: make(map[inventory.PortRef]bool)}
	for i := range f.Devices {
		c.called.learn(f.Devices[i].Name, f.Devices[i].Name)
	}
	for i := range f.Devices {
		if a, ok := answers[f.Devices[i].Name]; ok && a.Err == nil && a.Self != "" {
			c.called.learn(a.Self, f.Devices[i].Name)
		}
	}
	for i := range f.Devices {
		if a, ok := answers[f.Devices[i].Name]; ok {
			c.device(&f.Devices[i], a)
		}
	}
	read := func(name string) bool {
		a, ok := answers[name]
		return ok && a.Err == nil
	}
	for _, l := range f.Links() {
		if !read(l.A.Device) && !read(l.B.Device) {
			continue
		}
		c.out.Cables++
		if c.seen[l.A] || c.seen[inventory.PortRef{Device: l.B.Device, Port: l.B.Port}] {
			c.out.Seen++
		}
	}
	return c.out
}

type comparison struct {
	f      *inventory.Fleet
	out    *Links
	called *called[string] // devices of the fleet, by name
	seen   map[inventory.PortRef]bool
}

// switchOf is the device of the fleet that a neighbour is; nil for none, or where several may be
// it.
func (c *comparison) switchOf(n *counters.Neighbor) *inventory.Device {
	name, ok, _ := c.called.find(n.System)
	if !ok {
		return nil
	}
	d, _ := c.f.Device(name)
	return d
}

func (c *comparison) add(k Kind, device, port, peer string, n *counters.Neighbor, hint, format string, args ...any) {
	origins := c.f.DeviceOrigins(device)
	if port != "" {
		if of := c.f.PortOrigins(inventory.PortRef{Device: device, Port: port}); of != nil {
			origins = of
		}
	}
	at, ok := origins["peer"]
	if !ok || at.File == "" {
		at = origins["name"]
	}
	seen := ""
	if n != nil {
		seen = describe(n)
	}
	c.out.Findings = append(c.out.Findings, Finding{Kind: k, Device: device, Port: port, Peer: peer, Seen: seen, At: &inventory.Error{
		File: at.File, Line: at.Line, Col: at.Col, Msg: untrusted.Text(fmt.Sprintf(format, args...), 500), Hint: untrusted.Text(hint, 300),
	}})
}

// device compares one device's ports.
func (c *comparison) device(d *inventory.Device, a Answer) {
	switch {
	case errors.Is(a.Err, counters.ErrNoLLDP):
		c.add(NoLLDP, d.Name, "", "", nil, "let it run LLDP, and its agent answer LLDP-MIB or openconfig-lldp", "device %s answers nothing about LLDP: its cables are not checked from here", d.Name)
		return
	case a.Err != nil:
		c.add(Unread, d.Name, "", "", nil, "", "%s", strings.TrimPrefix(a.Err.Error(), "csig: "))
		return
	}
	c.out.Neighbors += len(a.Neighbors)
	at := make(map[string][]*counters.Neighbor)
	for i := range a.Neighbors {
		n := &a.Neighbors[i]
		at[n.Port] = append(at[n.Port], n)
	}
	for i := range d.Ports {
		c.port(d, &d.Ports[i], at[d.Ports[i].Name])
		delete(at, d.Ports[i].Name)
	}
	for i := range a.Neighbors { // in their order
		n := &a.Neighbors[i]
		if other := c.switchOf(n); at[n.Port] != nil && other != nil {
			c.add(PortMissing, d.Name, "", "", n, fmt.Sprintf("add the port, and under links: %s:%s - %s", d.Name, n.Port, farEnd(other, n)),
				"device %s: LLDP sees %s at port %s, which the file does not list", d.Name, describe(n), n.Port)
		}
	}
}

// farEnd is a port of the fleet as a cable has it.
func farEnd(d *inventory.Device, n *counters.Neighbor) string {
	if p := farPort(d, n); p != "" {
		return d.Name + ":" + p
	}
	return d.Name + ":PORT"
}

// farPort is the port of the fleet that a neighbour tells of; "" for none that the file lists.
func farPort(d *inventory.Device, n *counters.Neighbor) string {
	for _, name := range [...]string{n.PeerPort, n.PeerText} {
		if _, ok := d.Port(name); ok && name != "" {
			return name
		}
	}
	return ""
}

func (c *comparison) port(d *inventory.Device, p *inventory.Port, neighbors []*counters.Neighbor) {
	peer := p.Peer.String()
	far, isSwitch := c.f.Device(p.Peer.Device)
	if len(neighbors) == 0 {
		if isSwitch {
			c.add(NoNeighbor, d.Name, p.Name, peer, nil, fmt.Sprintf("see that the link is up, and that %s sends LLDP there", peer), "device %s, port %s: LLDP sees nothing there, and the file has %s", d.Name, p.Name, peer)
		}
		return
	}
	for _, n := range neighbors {
		other := c.switchOf(n)
		switch {
		case isSwitch && other == far && other != nil && c.matches(far, p.Peer.Port, n),
			!isSwitch && peer != "" && canonical(n.System) == canonical(p.Peer.Device):
			c.seen[inventory.PortRef{Device: d.Name, Port: p.Name}] = true
			return
		}
	}
	n := neighbors[0]
	for _, one := range neighbors { // a switch of the fleet says the most
		if c.switchOf(one) != nil {
			n = one
			break
		}
	}
	other := c.switchOf(n)
	switch {
	case n.System == "" && peer != "" && isSwitch:
		c.add(Nameless, d.Name, p.Name, peer, n, "let it send its system name, or look at the cable", "device %s, port %s: LLDP's neighbour, %s, tells no name, and the file has %s", d.Name, p.Name, describe(n), peer)
	case isSwitch, peer != "" && other != nil:
		hint := "correct the cable, or the file"
		if other != nil {
			hint = fmt.Sprintf("correct the cable, or the file: %s:%s - %s", d.Name, p.Name, farEnd(other, n))
		}
		c.add(OtherPeer, d.Name, p.Name, peer, n, hint, "device %s, port %s: LLDP sees %s there, and the file has %s", d.Name, p.Name, describe(n), peer)
	case other != nil:
		c.add(PeerMissing, d.Name, p.Name, "", n, fmt.Sprintf("add it under links: %s:%s - %s", d.Name, p.Name, farEnd(other, n)), "device %s, port %s: LLDP sees %s there, and the file has no cable", d.Name, p.Name, describe(n))
	}
}

// matches reports whether a neighbour, which is this switch, may be at this port of it. A MAC
// address alone, or a number of the switch's own, does not tell.
func (c *comparison) matches(d *inventory.Device, port string, n *counters.Neighbor) bool {
	if n.PeerPort == port || n.PeerText == port {
		return true
	}
	if n.PeerKind == counters.NamePortID {
		return false
	}
	return farPort(d, n) == "" && n.PeerText == ""
}
