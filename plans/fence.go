package plans

import (
	"slices"

	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// order lays out the stages.
func (b *builder) order() {
	for i := range b.nodes {
		n := &b.nodes[i]
		n.at = n.seen.Setup
		n.unready = n.seen.Err == nil && !sameTransit(&n.seen.Setup, &n.want, n.receiver)
	}
	b.fence()
	b.keepFence()
	for i := range b.nodes {
		if n := &b.nodes[i]; !n.outside {
			b.unproven(n)
			b.updates(n)
		}
	}
	ready := func(n *node) vendors.Setup { return n.want }
	change, open := "paths change behind the fence", "every path is as wanted: ports that face hosts stop stripping"
	if b.plan.Goal == TakeOff {
		change, open = "everything else goes, behind the fence", "the fence goes last: what hosts still send passes untouched after that"
	}
	b.stage(StageFence, "ports that face hosts strip the tag, so that no receiver takes a path for capable while it is not", func(n *node) vendors.Setup {
		if n.fenced {
			return b.fenceOn(n)
		}
		return n.at
	})
	b.stage(StageReady, change, func(n *node) vendors.Setup {
		if n.fenced {
			return b.behindFence(n)
		}
		return n.at
	})
	b.stage(StageOpen, open, func(n *node) vendors.Setup {
		if n.fenced {
			return n.want
		}
		return n.at
	})
	b.stage(StageChange, "changes that no path depends on", ready)
	b.reliesOn()
	if b.plan.Goal == TakeOff && len(b.plan.Stages) > 0 {
		if who := Senders(b.fleet); who != "" {
			b.findFleet(findings.HostsStillSend, findings.Warning, "%s may still send tags (csig: true), which pass untouched once csig is off: their receivers then take every path for an idle one; have all hosts stop sending first, or pause before the fence goes (csig apply --stop-after %s) until they have", who, StageReady)
		}
	}
}

// fence finds the devices whose ports to hosts must strip while paths change:
// all that tags can reach from a device of the target whose paths do.
func (b *builder) fence() {
	changes := make([]bool, b.parts())
	for i := range b.nodes {
		if n := &b.nodes[i]; n.unready && !n.outside {
			changes[n.part] = true
		}
	}
	for i := range b.nodes {
		n := &b.nodes[i]
		n.fenced = changes[n.part]
	}
	for i := range b.nodes {
		n := &b.nodes[i]
		switch {
		case !n.fenced:
			continue
		case n.unmanaged:
			b.openHosts(n)
			continue
		case n.outside:
			b.openOutside(n)
			continue
		case n.seen.Err != nil:
			continue
		}
		on := b.fenceOn(n)
		if len(b.moving) > 1 {
			for _, s := range []vendors.Setup{on, b.behindFence(n)} {
				if s.TPID != 0 && len(s.Others) > len(n.want.Others) {
					b.canStripOthers(n, &s, "while the TPID changes")
					break
				}
			}
		}
		for _, p := range on.Ports {
			if p.Action == vlanrules.Strip && n.receiver[p.Port] && n.want.ActionOf(p.Port) != vlanrules.Strip {
				b.canStrip(n, p.Port, "it faces a host while paths change")
			}
		}
	}
}

// parts numbers the parts of the fleet that no link leads out of, and returns how many
// there are. Links are followed both ways: a path crosses a device in either direction.
func (b *builder) parts() int {
	next := make([][]int, len(b.nodes))
	for i := range b.nodes {
		b.nodes[i].part = -1
		for p := range b.nodes[i].dev.Ports {
			if j, ok := b.index[b.nodes[i].dev.Ports[p].Peer.Device]; ok {
				next[i], next[j] = append(next[i], j), append(next[j], i)
			}
		}
	}
	parts := 0
	for i := range b.nodes {
		if b.nodes[i].part >= 0 {
			continue
		}
		b.nodes[i].part = parts
		for queue := []int{i}; len(queue) > 0; queue = queue[1:] {
			for _, j := range next[queue[0]] {
				if b.nodes[j].part < 0 {
					b.nodes[j].part = parts
					queue = append(queue, j)
				}
			}
		}
		parts++
	}
	return parts
}

// openHosts refuses to change paths to hosts that read tags at a device that csig
// cannot make strip meanwhile. One that strips without csig is no error.
func (b *builder) openHosts(n *node) {
	if n.level.Support == inventory.LevelDiscard {
		return // no tag comes there
	}
	var ports []string
	for i := range n.dev.Ports {
		if p := &n.dev.Ports[i]; n.receiver[p.Name] && !(p.Action == vlanrules.Strip && StripsItself(n.dev, true)) {
			ports = append(ports, p.Name)
		}
	}
	if len(ports) > 0 {
		b.find(findings.FenceNotPossible, findings.Error, n, ports, "hosts that read tags are there while paths change. csig cannot make the device strip tags for them: %s. Configure it to strip tags, and say so in the fleet file until the plan is carried out (level: %s for the device, action: strip for the port)",
			n.seen.Facts.Strip.Reason, n.level.Support)
	}
}

// sameTransit reports whether frames between devices are treated alike under two
// setups: whether they differ in nothing but ports that face hosts.
func sameTransit(a, b *vendors.Setup, receiver map[string]bool) bool {
	if a.Nothing() && b.Nothing() {
		return true
	}
	if !sameDomain(a, b) || a.Damaged != b.Damaged {
		return false
	}
	transit := func(p *vendors.PortSetup) vendors.PortSetup {
		if p == nil || receiver[p.Port] || p.Action == vlanrules.Passthrough && p.Damaged == "" {
			return vendors.PortSetup{}
		}
		q := *p
		q.StripOthers = false // ends what has no meaning in the domain
		return q
	}
	for p, q := range vendors.PortPairs(a.Ports, b.Ports) {
		if transit(p) != transit(q) {
			return false
		}
	}
	return true
}

func sameDomain(a, b *vendors.Setup) bool {
	return a.TPID == b.TPID && a.WideTPID == b.WideTPID && a.Layout == b.Layout && slices.Equal(a.Signals, b.Signals) && a.OnStale == b.OnStale && a.Profile == b.Profile
}

// fenceOn is what a device has, with the fence.
func (b *builder) fenceOn(n *node) vendors.Setup {
	out := n.seen.Setup
	if out.TPID == 0 { // also where damage is left, or a daemon whose rules another process deleted
		out = b.domain(n)
	}
	return b.fenced(out, n)
}

// behindFence is what a device is to have, with the fence.
func (b *builder) behindFence(n *node) vendors.Setup {
	out := n.want
	if out.Nothing() {
		out = n.at // its fence is the last to go
		out.Ports = nil
	}
	return b.fenced(out, n)
}

// fenced adds strip to a setup: on ports that face hosts, that strip already, or
// that will. They strip the tags of every TPID that is in use meanwhile.
func (b *builder) fenced(s vendors.Setup, n *node) vendors.Setup {
	if n.unmanaged {
		return vendors.Setup{}
	}
	s = undamaged(s)
	strips := make(map[string]bool, len(n.dev.Ports))
	for _, p := range slices.Concat(n.seen.Setup.Ports, n.want.Ports) {
		if p.Action == vlanrules.Strip {
			strips[p.Port] = true
		}
	}
	for i := range n.dev.Ports {
		if name := n.dev.Ports[i].Name; n.receiver[name] && n.level.Support != inventory.LevelDiscard { // to one that discards no tag comes
			strips[name] = true
		}
	}
	for i := range s.Ports {
		if strips[s.Ports[i].Port] {
			s.Ports[i].Action = vlanrules.Strip
			delete(strips, s.Ports[i].Port)
		}
	}
	add := func(port string) {
		if strips[port] {
			s.Ports = append(s.Ports, vendors.PortSetup{Port: port, Action: vlanrules.Strip})
			delete(strips, port)
		}
	}
	for _, p := range slices.Concat(n.want.Ports, n.seen.Setup.Ports) { // in the order of the device
		add(p.Port)
	}
	for i := range n.dev.Ports {
		add(n.dev.Ports[i].Name)
	}
	if len(s.Ports) == 0 {
		return vendors.Setup{}
	}
	if s.Strips() { // else what it does with tags of other TPIDs is no part of the fence
		s.Others = othersThan(&s, b.moving)
	}
	s.DropOthers()
	return s
}

// domain is the setup of a device without a port.
func (b *builder) domain(n *node) vendors.Setup {
	s := vendors.SetupWith(&b.fleet.Profile, b.plan.ProfileHash, b.fleet.Policy, n.dev)
	s.Ports = nil
	return s
}
