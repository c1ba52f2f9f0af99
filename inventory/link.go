package inventory

// Link is one cable. A is a port of the fleet; B is its other end, the name of
// a host, or a port that the fleet may not describe.
type Link struct {
	A PortRef
	B Peer
}

// Links lists the cables that the ports know of, each once, in the order of the
// fleet.
func (f *Fleet) Links() []Link {
	t := newGraph(f)
	out := make([]Link, 0, t.ports/2)
	for i := range f.Devices {
		d := &f.Devices[i]
		for j := range d.Ports {
			p := &d.Ports[j]
			k := t.peer[t.first[i]+j]
			if p.Peer == (Peer{}) {
				continue
			}
			if k >= 0 && int(k) < i {
				if q, ok := f.Devices[k].Port(p.Peer.Port); ok && q.Peer == (Peer{d.Name, p.Name}) {
					continue // it was listed from there
				}
			}
			out = append(out, Link{PortRef{d.Name, p.Name}, p.Peer})
		}
	}
	return out
}

// Tiers gives, for each of the devices, the hops to the nearest one with a
// host; -1 for those without a way there.
func (f *Fleet) Tiers() []int {
	t := newGraph(f)
	out := make([]int, len(t.tier))
	for i, n := range t.tier {
		out[i] = int(n)
	}
	return out
}

// Files lists the files that the fleet was read from, in the order of reading.
func (f *Fleet) Files() []string {
	if f.index == nil || f.index.origins == nil {
		return nil
	}
	return append([]string(nil), f.index.origins.files...)
}
