package ovs

import (
	"fmt"
	"slices"

	"github.com/csig-agent/csig/docs"
	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Bridges in a row: where a frame goes on from one bridge that csig programs to
// another, by patch ports, the times that it is parsed again add up, and the
// userspace datapath drops it beyond MAX_RECIRC_DEPTH of them: 5 in Open vSwitch 2.8,
// 6 since 2.9, 8 since 3.3 (openvswitch/ovs lib/dpif-netdev.c). So it leaves by such
// a port with a mark of what it has behind it (pipeline.toBridge), by which the next
// bridge parses it again three times at the most, and the one after that not at all.

// patchPeer is what a patch port leads to.
type patchPeer struct {
	patch
	isPartner      bool     // it is one of those that bring the frames of a port
	next           []string // the bridges that csig programs there, the nearest first
	lowRecircLimit bool     // the datapath recirculates too few times for two bridges
}

// link is two bridges that a patch port joins.
type link struct{ from, to *bridgeRow }

// maxBridges is how many bridges are looked at behind a patch port.
const maxBridges = 256

// bridgeLinks are how patch ports join the bridges.
type bridgeLinks struct {
	count     map[link]int
	neighbors map[*bridgeRow][]*bridgeRow
}

func (n *bridgeLinks) add(l link) {
	if n.count[l]++; n.count[l] == 1 {
		n.neighbors[l.from] = append(n.neighbors[l.from], l.to)
	}
}

// reachable are the bridges that csig programs and that frames may come to from by.to,
// other than back through the same patch port.
func (n *bridgeLinks) reachable(by link) (names []string) {
	seen := map[*bridgeRow]bool{by.to: true}
	for queue := []*bridgeRow{by.to}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if at.External.get(writerKey) != "" || at.External.get(setupKey) != "" {
			names = append(names, at.Name.one())
		}
		for _, to := range n.neighbors[at] {
			back := at == by.to && to == by.from && n.count[by] == 1
			if !seen[to] && !back && len(seen) < maxBridges {
				seen[to] = true
				queue = append(queue, to)
			}
		}
	}
	return names
}

// drives reports whether the setup updates or strips at a port.
func (p *pipeline) drives(port string) bool {
	return slices.ContainsFunc(p.setup.Ports, func(q vendors.PortSetup) bool { return q.Port == port && q.Action != vlanrules.Passthrough })
}

// isToBridge reports whether a flow is one that pipeline.toBridge makes.
func isToBridge(f *ofp.Flow) bool {
	vid := f.Match.Regs[regVID]
	leaves := vid.Value&doLeave != 0 && vid.Mask == vid.Value
	return f.Match.Regs[regOut].Mask != 0 && (leaves || f.Match.Regs[regVLAN].Value == isNew)
}

// recirculationLimits names the ports from which frames go on to other bridges that
// csig programs, and what happens to them there; "" where there are none.
func (d *Driver) recirculationLimits(s *state) string {
	pipe := pipeline{setup: &s.setup}
	var ports []string
	left := "of what is updated or stripped here a CSIG tag behind another one leaves the next of them as it is, and every tag those after that"
	for i := range d.info.patchPeers {
		to := &d.info.patchPeers[i]
		if to.next != nil && (!s.found && !to.isPartner || pipe.drives(s.names[to.in(s)])) {
			ports = append(ports, to.name+" (to "+vendors.Names(to.next)+")")
		}
		if to.lowRecircLimit {
			left = "what was parsed again here leaves them as it is"
		}
	}
	if ports == nil {
		return ""
	}
	return fmt.Sprintf("the patch ports %s lead to bridges that csig programs as well: %s, since the userspace datapath drops frames that are parsed again more than six times (eight since Open vSwitch 3.3): have only the last bridge of a row update or strip, with passthrough at the patch ports of those before it ("+docs.OVS+")",
		vendors.Names(ports), left)
}
