package mesh

import (
	"cmp"
	"strings"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// way is how frames may get from one host to another, by the fleet file.
type way struct {
	hops [][]*port // on shortest paths, the first hop first; none: the file has no path
}

// port is an egress port of the fleet.
type port struct {
	inventory.PortRef
	number int // among those of the fleet
	is     *inventory.Port
	place  string // last hop, first hop or core

	writes [len(quantize.Signals)]int32 // locators, by signal; -1: none, the port updates no tags of it
}

// ways are the paths between hosts, each worked out once: hosts of one switch share them but for the last hop.
type ways struct {
	paths *inventory.Paths
	all   []*port
	named map[string]*port
	hosts []string // of the mesh
	start []string // of each: the switch that it is connected to; its own name for several
	known [][]*way // by host, and by host; nil: not worked out yet
	kept  int
}

// mostWays bounds what is kept: beyond that ways are worked out again.
const mostWays = 1 << 18

func newWays(f *inventory.Fleet) ways {
	r := ways{paths: f.Paths(), named: make(map[string]*port)}
	at := make(map[string]string) // of a host: its switch; "" for several
	for i := range f.Devices {
		d := &f.Devices[i]
		edge := false
		for j := range d.Ports {
			if _, host := f.Host(d.Ports[j].Peer.Device); host {
				edge = true
			}
		}
		for j := range d.Ports {
			p := &port{PortRef: inventory.PortRef{Device: d.Name, Port: d.Ports[j].Name}, number: len(r.all), is: &d.Ports[j], place: "core"}
			for _, sig := range quantize.Signals {
				p.writes[sig] = -1
				if lm, ok := p.is.LM[sig]; ok && p.is.Action == vlanrules.Update {
					p.writes[sig] = int32(lm)
				}
			}
			name := p.is.Peer.Device
			if _, host := f.Host(name); host {
				p.place = "last hop"
				if _, more := at[name]; more {
					at[name] = ""
				} else {
					at[name] = d.Name
				}
			} else if edge {
				p.place = "first hop"
			}
			r.all = append(r.all, p)
			r.named[p.String()] = p
		}
	}
	for i := range f.Hosts {
		if h := &f.Hosts[i]; h.Address != "" {
			r.hosts, r.start = append(r.hosts, h.Name), append(r.start, cmp.Or(at[h.Name], h.Name))
		}
	}
	r.forget()
	return r
}

// forget has all ways be worked out again.
func (r *ways) forget() {
	r.known, r.kept = make([][]*way, len(r.hosts)), 0
	shared := make(map[string][]*way)
	for i, start := range r.start {
		if shared[start] == nil {
			shared[start] = make([]*way, len(r.hosts))
		}
		r.known[i] = shared[start]
	}
}

// between is the way from one host to another, by their numbers.
func (r *ways) between(from, to int) *way {
	if one := r.known[from][to]; one != nil {
		return one
	}
	if r.kept++; r.kept > mostWays {
		r.forget()
	}
	one := &way{}
	r.known[from][to] = one
	hops, err := r.paths.Hops(r.start[from], r.hosts[to])
	if err != nil {
		return one
	}
	for _, hop := range hops {
		ports := make([]*port, len(hop))
		for i, ref := range hop {
			ports[i] = r.named[ref.String()]
		}
		one.hops = append(one.hops, ports)
	}
	return one
}

// writers appends the ports of a way that write a locator.
func (r *way) writers(out []*port, sig quantize.Signal, lm uint16) []*port {
	for _, hop := range r.hops {
		for _, p := range hop {
			if p.writes[sig] == int32(lm) {
				out = append(out, p)
			}
		}
	}
	return out
}

// names are those of ports.
func names(ports []*port) []string {
	out := make([]string, len(ports))
	for i, p := range ports {
		out[i] = p.String()
	}
	return out
}

// placeOf is where ports are on the way (draft-00 §8.2.1), "" where they differ.
func placeOf(ports []*port) string {
	for _, p := range ports[1:] {
		if p.place != ports[0].place {
			return ""
		}
	}
	return ports[0].place
}

func joined(ports []*port) string { return strings.Join(names(ports), " ") }
