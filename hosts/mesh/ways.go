package mesh

import (
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
}

// ways are the paths between hosts, each worked out once: hosts of one switch share them but for the last hop.
type ways struct {
	fleet *inventory.Fleet
	paths *inventory.Paths
	all   []*port
	named map[string]*port
	at    map[string]string  // of a host: the switch that it is connected to; "" for several
	known map[[2]string]*way // by the first's switch, or its name, and the second's name
}

// mostWays bounds what is kept: beyond that ways are worked out again.
const mostWays = 1 << 18

func newWays(f *inventory.Fleet) ways {
	r := ways{fleet: f, paths: f.Paths(), named: make(map[string]*port), at: make(map[string]string), known: make(map[[2]string]*way)}
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
			name := p.is.Peer.Device
			if _, host := f.Host(name); host {
				p.place = "last hop"
				if _, more := r.at[name]; more {
					r.at[name] = ""
				} else {
					r.at[name] = d.Name
				}
			} else if edge {
				p.place = "first hop"
			}
			r.all = append(r.all, p)
			r.named[p.String()] = p
		}
	}
	return r
}

// between is the way from one host to another.
func (r *ways) between(from, to string) *way {
	start := from
	if d := r.at[from]; d != "" {
		start = d
	}
	key := [2]string{start, to}
	if one := r.known[key]; one != nil {
		return one
	}
	if len(r.known) >= mostWays {
		clear(r.known)
	}
	one := &way{}
	r.known[key] = one
	hops, err := r.paths.Hops(start, to)
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

// writers are the ports of a way that write a locator.
func (r *way) writers(sig quantize.Signal, lm uint16) (out []*port) {
	for _, hop := range r.hops {
		for _, p := range hop {
			if own, ok := p.is.LM[sig]; ok && own == lm && p.is.Action == vlanrules.Update {
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
