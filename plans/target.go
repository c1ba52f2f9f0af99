package plans

import (
	"fmt"
	"maps"
	"slices"

	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// A plan with a target has the steps of the whole plan that are of the target's devices.
// The others stay as they are, so that what the steps rely on has to be there already:
//
//   - Paths change behind a fence that is whole. Where a device outside is a part of it and
//     does not strip, there is no plan.
//   - The fence goes when every device that tags reach is as it is to be. Where one outside
//     is not, the target's devices keep their part of the fence, and a later plan opens it.

// choose finds which devices are outside of the target.
func (b *builder) choose() error {
	if b.options.Target == nil {
		return nil
	}
	names, err := b.fleet.Select(b.options.Target)
	if err != nil {
		return err
	}
	inside := make(map[string]bool, len(names))
	for _, name := range names {
		inside[name] = true
	}
	for i := range b.nodes {
		b.nodes[i].outside = !inside[b.nodes[i].dev.Name]
	}
	b.plan.Target = slices.Clone(b.options.Target)
	return nil
}

// leaveOutside keeps of what was found of devices outside what concerns the target, too.
// An error is a reason not to let tags cross the device.
func (b *builder) leaveOutside() {
	if b.plan.Target == nil {
		return
	}
	outside := func(name string) *node {
		if i, device := b.index[name]; device && b.nodes[i].outside {
			return &b.nodes[i]
		}
		return nil
	}
	b.plan.Findings = slices.DeleteFunc(b.plan.Findings, func(f findings.Finding) bool {
		n := outside(f.Device)
		if n == nil {
			return false
		}
		if f.Level == findings.Error && n.lacking == "" {
			n.lacking = "csig can plan nothing for it: " + f.Reason
		}
		return !slices.ContainsFunc(f.Peers, func(name string) bool {
			_, device := b.index[name]
			return device && outside(name) == nil
		})
	})
	for i := range b.nodes {
		n := &b.nodes[i]
		switch {
		case !n.outside || n.lacking != "":
		case len(n.mtu) > 0:
			m := n.mtu[0]
			n.lacking = fmt.Sprintf("full-size frames with their tags do not fit there yet (MTU %d of %s, want %d)", m.From, m.Port, m.To)
		}
	}
}

// openOutside refuses to change paths to hosts at a device outside of the target that does
// not strip tags for them.
func (b *builder) openOutside(n *node) {
	var ports []string
	if n.seen.Err != nil {
		if n.level.Support == inventory.LevelDiscard {
			return
		}
		ports = slices.Collect(maps.Keys(n.receiver)) // it may, or may not
	} else {
		on := without(b.fenceOn(n), n.gone)
		if SameSetup(&n.seen.Setup, &on) {
			return
		}
		for _, p := range on.Ports {
			if p.Action == vlanrules.Strip {
				ports = append(ports, p.Port)
			}
		}
	}
	if len(ports) == 0 {
		return
	}
	slices.SortFunc(ports, inventory.CompareNames)
	b.find(findings.OutsideTarget, findings.Error, n, ports, "tags have to be stripped here while paths change, and the device is not in the target: add it, or plan for all devices")
}

// keepFence keeps the fence at devices of the target, where one outside is not yet as it
// is to be.
func (b *builder) keepFence() {
	if b.plan.Target == nil {
		return
	}
	lacking := map[int]bool{} // parts of the fleet
	for i := range b.nodes {
		n := &b.nodes[i]
		if n.outside && n.unready && n.lacking == "" {
			n.lacking = "it does not have the setup of the fleet file"
			if b.plan.Goal == TakeOff {
				n.lacking = "csig is still on it"
			}
		}
		lacking[n.part] = lacking[n.part] || n.outside && n.lacking != ""
	}
	kept := map[int]bool{}
	for i := range b.nodes {
		n := &b.nodes[i]
		if n.outside || n.unmanaged || n.seen.Err != nil || !lacking[n.part] || !n.fenced && !n.opens() {
			continue
		}
		n.fenced = true
		want, err := configured(n, without(b.behindFence(n), n.gone))
		b.misconfigured(n, err)
		kept[n.part] = kept[n.part] || !SameSetup(&n.want, &want)
		n.want = want
	}
	if len(b.plan.Errors()) > 0 {
		return // nothing is kept up
	}
	for i := range b.nodes {
		if n := &b.nodes[i]; n.outside && n.lacking != "" && kept[n.part] {
			b.find(findings.OutsideTarget, findings.Warning, n, nil, "not in the target, and not ready: %s; until it is, ports of the target that face hosts strip tags: plan for it next, then for all devices", n.lacking)
		}
	}
}

// opens reports whether hosts get tags, by what a device is to have, where it strips them now.
func (n *node) opens() bool {
	return slices.ContainsFunc(n.seen.Setup.Ports, func(p vendors.PortSetup) bool {
		return p.Action == vlanrules.Strip && n.receiver[p.Port] && n.want.ActionOf(p.Port) != vlanrules.Strip
	})
}

// reliesOn notes the devices outside that tags reach from those of the target whose paths
// change, or open.
func (b *builder) reliesOn() {
	parts := map[int]bool{}
	for i := range b.nodes {
		if n := &b.nodes[i]; !n.outside && (n.fenced || n.opens()) {
			parts[n.part] = true
		}
	}
	for i := range b.nodes {
		if n := &b.nodes[i]; n.outside && parts[n.part] && n.seen.Err == nil && !n.unmanaged {
			b.plan.RelyOn = append(b.plan.RelyOn, Relied{Device: n.dev.Name, ObservedHash: SetupHash(&n.seen.Setup)})
		}
	}
}
