package plans

import (
	"fmt"

	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
)

// StageMTU is the stage that makes room for the tags, ahead of all others.
const StageMTU = "mtu"

// tagBytes is what the longest tag of the domain adds to a frame.
func (b *builder) tagBytes() int {
	if b.fleet.Profile.WideTPID != 0 {
		return 8
	}
	return 4
}

// LongestFrame is the longest frame that a host can send, without its L2 header
// and with its tag, in bytes: the MTU of its network card. 0: the fleet file does not say.
func LongestFrame(f *inventory.Fleet) int {
	most := 0
	for i := range f.Hosts {
		if h := &f.Hosts[i]; h.CSIG {
			most = max(most, h.MTU)
		}
	}
	return most
}

// LeastMTU is the least MTU, in bytes, of the ports of a device with these facts
// for a fleet's LongestFrame with its tag to fit; 0 or less: the fleet file does
// not say how long that is.
func LeastMTU(longest int, facts *vendors.Facts) int {
	if longest > 0 {
		return longest - facts.MTUHeadroom
	}
	return 0
}

// usualMTU is what IP packets are made for unless the fleet file says otherwise.
const usualMTU = 1500

// macHeader is the bytes of an Ethernet header: two addresses and a type.
const macHeader = 14

// mtu checks that full-size frames fit with their tags, on every link that tags
// cross, and plans to raise the MTU of ports where they do not: longer frames
// vanish without a word.
func (b *builder) mtu() {
	if b.plan.Goal != RollOut {
		return
	}
	longest := LongestFrame(b.fleet)
	if longest == 0 {
		b.findFleet(findings.MTUUnknown, findings.Warning, "no host has an mtu: csig cannot check that full-size frames with their tags fit; add hosts with the MTU of their network cards")
		return
	}
	if longest < usualMTU+b.tagBytes() {
		b.findFleet(findings.MTUTooSmall, findings.Warning, "the network cards of hosts take %d bytes, tag included: with a tag of %d, IP packets may have %d at most; raise the cards' MTU to %d, or lower that of the routes", longest, b.tagBytes(), longest-b.tagBytes(), usualMTU+b.tagBytes())
	}
	for i := range b.fleet.Hosts {
		if h := &b.fleet.Hosts[i]; h.CSIG && h.MTU != 0 && h.MTU < longest {
			b.add(findings.Finding{Code: findings.MTUTooSmall, Level: findings.Warning, Peers: []string{h.Name},
				Reason: fmt.Sprintf("the host's network card takes %d bytes, others send up to %d: full-size frames to the host are lost", h.MTU, longest)})
		}
	}
	for i := range b.nodes {
		b.mtuOf(&b.nodes[i], longest)
	}
}

func (b *builder) mtuOf(n *node, longest int) {
	if n.seen.Err != nil || n.level.Support == inventory.LevelDiscard {
		return
	}
	if q := n.seen.Measured(n.dev); q != nil && q.MaxFrame != nil && *q.MaxFrame < longest+macHeader {
		b.find(findings.MTUTooSmall, findings.Warning, n, nil, "frames with the tag were seen to pass with up to %d bytes, without the FCS (%v), and hosts send up to %d", *q.MaxFrame, vendors.RanOn(q), longest+macHeader)
	}
	need := LeastMTU(longest, &n.seen.Facts)
	unread := 0
	for i := range n.dev.Ports {
		p := &n.dev.Ports[i]
		_, device := b.index[p.Peer.Device]
		if !device && !n.receiver[p.Name] {
			continue // no tag leaves there
		}
		if p.MTU != 0 && p.MTU < need {
			b.find(findings.MTUTooSmall, findings.Error, n, []string{p.Name}, "mtu: %d is too small for frames of %d bytes with their tags: want %d at least", p.MTU, longest, need)
			continue
		}
		have, known := n.seen.MTUs[p.Name]
		switch {
		case !known:
			unread++
		case have < max(need, p.MTU):
			n.mtu = append(n.mtu, PortMTU{Port: p.Name, From: have, To: max(need, p.MTU)})
		}
	}
	if unread > 0 && !b.options.Offline {
		b.find(findings.MTUUnknown, findings.Warning, n, nil, "csig cannot read the MTU of %d of its ports: see to it that frames of %d bytes with their tags fit", unread, longest)
	}
}

// mtuStage raises the MTUs.
func (b *builder) mtuStage() {
	s := Stage{Name: StageMTU, Why: "full-size frames fit with their tags: longer ones than a link takes are dropped silently; this change has no auto-revert: a raised MTU does no harm"}
	var nodes []int
	var steps []Step
	for i := range b.nodes {
		if n := &b.nodes[i]; len(n.mtu) > 0 && !n.outside {
			nodes, steps = append(nodes, i), append(steps, Step{Device: n.dev.Name, MTU: n.mtu})
		}
	}
	b.addStageInWaves(s, nodes, steps)
}

// mtuChanges are the raised MTUs for the reader of the plan.
func (n *node) mtuChanges() []vendors.Change {
	var out []vendors.Change
	for _, m := range n.mtu {
		out = append(out, vendors.Change{
			Kind: vendors.Alter, Port: m.Port, What: "mtu", Detail: fmt.Sprintf("%d -> %d", m.From, m.To),
			Disruptive: "some devices take the link down for a moment",
		})
	}
	return out
}
