package ovs

import (
	"fmt"
	"maps"
	"slices"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// turns says where a frame may pass csig's tables more than once: the times that
// it is parsed again add up, and the userspace datapath drops it beyond
// MAX_RECIRC_DEPTH of them (openvswitch/ovs lib/dpif-netdev.c).
func (d *Driver) turns(s *state) []string {
	var out []string
	const lost = "the userspace datapath drops tagged frames that are parsed again more than six times (eight since Open vSwitch 3.3)"
	// Frames take no turns here on the way to a port that passes tags through.
	driven := map[string]bool{}
	for _, p := range s.setup.Ports {
		driven[p.Port] = p.Action != vlanrules.Passthrough
	}
	var joined []string
	for _, name := range slices.Sorted(maps.Keys(d.info.joined)) {
		if driven[name] || !s.found {
			joined = append(joined, name+" (to "+d.info.joined[name]+")")
		}
	}
	if joined != nil {
		out = append(out, fmt.Sprintf("the patch ports %s lead to bridges that csig programs as well, and %s: have only the last bridge of a row update or strip, with passthrough at the patch ports of those before it (docs/ovs.md)",
			vendors.Names(joined), lost))
	}
	return out
}
