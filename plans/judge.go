package plans

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// judge notes what stops the plan and what its reader should know.
func (b *builder) judge(n *node) {
	if n.seen.Err != nil {
		b.find(SeverityError, n, "", "%v", n.seen.Err)
		return
	}
	if n.seen.Setup.Damaged != "" {
		b.find(SeverityWarning, n, "", "what it has is not as csig left it, and a rollback does not bring the damage back: %s", n.seen.Setup.Damaged)
	}
	b.retired(n)
	b.canStripOthers(n, &n.want, "the profile's retired TPIDs")
	if update := n.seen.Facts.Updates(b.fleet.Profile.TPID); n.level.Support == inventory.LevelSoftware && update.Level == vlanrules.Refused {
		b.find(SeverityError, n, "", "the fleet file says that its level is software, but it cannot do that: %s; give it the level that it has", update.Reason)
		return
	}
	compiler := b.compiler(n)
	tables := map[vlanrules.Verdict][]string{} // ports, where they are less than full
	unknown := 0
	for i := range n.want.Ports {
		p := &n.dev.Ports[i]
		if n.want.Ports[i].Port != p.Name { // only some ports have a setup
			p, _ = n.dev.Port(n.want.Ports[i].Port)
		}
		action := n.want.Ports[i].Action
		if action == vlanrules.Strip {
			b.canStrip(n, p.Name, "the fleet file asks for it")
			continue
		}
		if n.want.Ports[i].StripOthers {
			b.canStrip(n, p.Name, "tags of the profile's retired TPIDs end there")
		}
		far, device := b.index[p.Peer.Device]
		host := b.hosts[p.Peer.Device]
		switch {
		case p.Peer == (inventory.Peer{}):
			unknown++
		case device:
			if q := &b.nodes[far]; q.level.Support == inventory.LevelDiscard {
				b.find(SeverityError, n, p.Name, "tagged frames are discarded at %s (%s): set action: strip", q.dev.Name, q.level.Reason)
				b.plan.Findings[len(b.plan.Findings)-1].Far = q.dev.Name
			}
		case host != nil && !host.CSIG:
			b.find(SeverityError, n, p.Name, "host %s does not speak CSIG and must never see a tag: set action: strip", host.Name)
		}
		if action == vlanrules.Update {
			if v := b.table(n, p, compiler); v.Level != vlanrules.Full {
				tables[v] = append(tables[v], p.Name)
			}
		}
	}
	verdicts := slices.SortedFunc(maps.Keys(tables), func(a, b vlanrules.Verdict) int { return strings.Compare(a.Reason, b.Reason) })
	for _, v := range verdicts {
		ports := tables[v]
		severity := SeverityWarning
		if v.Level == vlanrules.Refused {
			severity = SeverityError
		}
		b.find(severity, n, vendors.Names(ports), "%s", v.Reason)
	}
	if unknown > 0 {
		b.find(SeverityWarning, n, "", "%d of its ports have no peer: csig cannot tell who gets their tags; add peer or links", unknown)
	}
}

func (b *builder) canStrip(n *node, port, why string) {
	if n.seen.Facts.Strip.Level == vlanrules.Refused {
		b.find(SeverityError, n, port, "it cannot strip tags, and has to (%s): %s", why, n.seen.Facts.Strip.Reason)
	}
}

// compiler is the rule compiler for a device; those of one kind share it.
func (b *builder) compiler(n *node) *vlanrules.Compiler {
	caps := n.seen.Facts.Rules
	if caps.Shared {
		updates := 0
		for i := range n.want.Ports {
			if n.want.Ports[i].Action == vlanrules.Update {
				updates++
			}
		}
		caps.Ports = max(caps.Ports, updates)
	}
	key := fmt.Sprintf("%+v %v", caps, n.want.Layout)
	c := b.compilers[key]
	if c == nil {
		c = vlanrules.NewCompiler(caps, n.want.Layout)
		b.compilers[key] = c
	}
	return c
}

// table asks the rule compiler whether the port's table fits.
func (b *builder) table(n *node, p *inventory.Port, compiler *vlanrules.Compiler) vlanrules.Verdict {
	key := tableKey{compiler: compiler}
	for _, sig := range n.want.Signals {
		key.lms[sig] = p.LM[sig]
		key.signals |= 1 << sig
	}
	if v, known := b.verdicts[key]; known {
		return v
	}
	intents := make([]vlanrules.Intent, 0, len(quantize.Signals))
	for _, sig := range n.want.Signals {
		intents = append(intents, vlanrules.Intent{Signal: sig, Action: vlanrules.Update, LM: p.LM[sig]})
	}
	v, _ := compiler.Judge("", intents)
	b.verdicts[key] = v
	return v
}
