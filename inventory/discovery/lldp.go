package discovery

import (
	"fmt"
	"strings"

	"github.com/csig-agent/csig/counters"
)

// Scanned is what one target answered.
type Scanned struct {
	Target   string // as it was named
	Address  string
	Counters string // how it was read, as YAML in one line
	FillIn   string // what a person has to fill in of it
	Listing  *counters.Listing
}

// FromLLDP is the fleet of devices that were asked, with the cables that LLDP showed them.
// command is what makes it.
func FromLLDP(command string, scanned []Scanned) *Draft {
	d := &Draft{Command: command}
	names := deviceNames(scanned)
	known := newCalled[*Device]()
	for i := range scanned {
		s := &scanned[i]
		dev := &Device{
			Name: names[i], Platform: Platform(s.Listing.Description), What: s.Listing.Description,
			Address: s.Address, Counters: s.Counters, FillIn: s.FillIn,
		}
		for _, note := range s.Listing.Notes {
			d.note("%s: %s", s.Target, note)
		}
		d.Devices = append(d.Devices, dev)
		known.learn(names[i], dev)
		known.learn(s.Listing.Name, dev)
	}
	for i := range scanned {
		d.Devices[i].connect(d, scanned[i].Listing, known, scanned, names)
	}
	return d
}

// connect adds the ports of a device, and the cables that LLDP showed it.
func (dev *Device) connect(d *Draft, l *counters.Listing, known *called[*Device], scanned []Scanned, names []string) {
	at := make(map[string][]*counters.Neighbor)
	for i := range l.Neighbors {
		n := &l.Neighbors[i]
		at[n.Port] = append(at[n.Port], n)
	}
	for i := range l.Interfaces {
		p := &l.Interfaces[i]
		peers := at[p.Name]
		switch {
		case len(peers) == 0 && (len(p.Uses) == 0 || !strings.EqualFold(p.OperStatus, "up")):
			continue
		case len(peers) == 0:
			dev.LeftOut = append(dev.LeftOut, p.Name)
			continue
		}
		port := Port{Name: p.Name, Speed: p.Speed}
		if len(p.Uses) == 0 {
			port.Note = "FILL IN: csig cannot read it: " + p.Note
		} else if p.Speed == 0 {
			port.Note = "FILL IN speed: the device does not know it"
		}
		dev.Ports = append(dev.Ports, port)
		own := End{dev.Name, p.Name}
		if len(peers) > 1 {
			d.note("%s has %d neighbours: FILL IN its cable", own, len(peers))
			continue
		}
		n := peers[0]
		peer, _, several := known.find(n.System)
		if several {
			d.note("%s: its neighbour, %s, may be one of several devices: FILL IN its cable", own, describe(n))
			continue
		}
		if peer == nil {
			name, _, _ := strings.Cut(n.System, ".")
			if name == "" {
				d.note("%s: its neighbour, %s, has no name: FILL IN its cable", own, describe(n))
				continue
			}
			d.Cables = append(d.Cables, Cable{A: own, B: End{Device: name}, Note: "FILL IN: a host, or a switch that was not asked; LLDP: " + describe(n)})
			continue
		}
		for j := range names {
			if names[j] == peer.Name {
				if far := portOf(n, scanned[j].Listing); far != "" {
					d.Cables = append(d.Cables, Cable{A: own, B: End{peer.Name, far}})
				} else {
					d.note("%s: its neighbour is %s, and no such port of it is known: FILL IN its cable", own, describe(n))
				}
				break
			}
		}
	}
	for i := range l.Neighbors {
		if n := &l.Neighbors[i]; !hasInterface(l, n.Port) {
			d.note("%s: LLDP names no interface of its own for the neighbour %s", dev.Name, describe(n))
		}
	}
}

func hasInterface(l *counters.Listing, name string) bool {
	for i := range l.Interfaces {
		if l.Interfaces[i].Name == name {
			return true
		}
	}
	return false
}

// portOf is the interface of the neighbour that LLDP tells of; "" for none that it lists.
func portOf(n *counters.Neighbor, l *counters.Listing) string {
	for _, name := range [...]string{n.PeerPort, n.PeerText} {
		if hasInterface(l, name) {
			return name
		}
	}
	return ""
}

// deviceNames are the devices' own names up to the first dot, where these differ, else their
// whole names, else how they were named.
func deviceNames(scanned []Scanned) []string {
	names := make([]string, len(scanned))
	for _, name := range []func(s *Scanned) string{
		func(s *Scanned) string {
			short, _, _ := strings.Cut(s.Listing.Name, ".")
			return short
		},
		func(s *Scanned) string { return s.Listing.Name },
		func(s *Scanned) string { return s.Target },
	} {
		count := make(map[string]int)
		for i := range scanned {
			count[name(&scanned[i])]++
		}
		for i := range scanned {
			if one := name(&scanned[i]); names[i] == "" && one != "" && count[one] == 1 {
				names[i] = one
			}
		}
	}
	for i := range names {
		if names[i] == "" {
			names[i] = fmt.Sprintf("device-%d", i+1)
		}
	}
	return names
}

// describe is a neighbour in words.
func describe(n *counters.Neighbor) string {
	system, port := n.System, n.PeerPort
	if system == "" {
		system = n.Chassis
	}
	if n.PeerKind == counters.MACPortID && n.PeerText != "" {
		port = n.PeerText
	}
	return strings.TrimSpace(system + " " + port)
}
