package inventory

import "slices"

// DeviceView returns the part of a fleet that one of its devices needs to run csig
// agent: a fleet of that device alone, marked local unless its agent is remote, with the
// domain's profile and policy. What only the rest of the fleet is concerned with is left
// out: hosts, peers and MTUs, tags, level and experimental, which concern csig apply alone, and how csig reaches the agent. Two agents with the same view do the same. What is behind pointers,
// and the ports' LM, is shared with f.
func (f *Fleet) DeviceView(d *Device) *Fleet {
	own := *d
	own.Local, own.Management, own.Level, own.Tags, own.Experimental = !d.Remote(), Management{Own: d.Management.Own}, Level{}, nil, false
	if d.Remote() {
		own.Management.SSH = d.Management.SSH
	}
	own.Ports = slices.Clone(d.Ports)
	for i := range own.Ports {
		p := &own.Ports[i]
		p.MTU, p.Peer = 0, Peer{}
	}
	return &Fleet{Path: f.Path, Profile: f.Profile, Policy: f.Policy, VLANTPIDs: f.VLANTPIDs, Devices: []Device{own}}
}
