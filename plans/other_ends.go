package plans

import "github.com/csig-agent/csig/inventory"

// OtherEnds are the peers of ports that the fleet file gives at the other end of
// the link alone.
func OtherEnds(f *inventory.Fleet) map[inventory.PortRef]inventory.Peer {
	out := map[inventory.PortRef]inventory.Peer{}
	for i := range f.Devices {
		d := &f.Devices[i]
		for j := range d.Ports {
			p := &d.Ports[j]
			if p.Peer.Port == "" {
				continue
			}
			if far, ok := f.Device(p.Peer.Device); ok { // most links are named from both ends
				if end, ok := far.Port(p.Peer.Port); !ok || end.Peer == (inventory.Peer{}) {
					out[inventory.PortRef{Device: p.Peer.Device, Port: p.Peer.Port}] = inventory.Peer{Device: d.Name, Port: p.Name}
				}
			}
		}
	}
	return out
}
