package plans

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// judge notes what stops the plan and what its reader should know.
func (b *builder) judge(n *node) {
	if n.seen.Err != nil {
		code := findings.NotReached
		if n.refusesUpdate {
			code = findings.CannotUpdate
		}
		b.find(code, findings.Error, n, nil, "%v", n.seen.Err)
		return
	}
	if n.seen.NoAgent != "" {
		b.find(findings.NoAgent, findings.Warning, n, nil, "%s", n.seen.NoAgent)
	}
	if n.seen.PendingRevert != nil { // what it has now is not what it will have
		b.find(findings.RevertPending, findings.Error, n, nil, "%v", n.seen.PendingRevert)
	}
	if n.seen.Setup.Damaged != "" {
		b.find(findings.SetupDamaged, findings.Warning, n, nil, "what it has is not as csig left it, and a rollback does not bring the damage back: %s", n.seen.Setup.Damaged)
	}
	if len(n.gone) > 0 {
		b.find(findings.PortsGone, findings.Warning, n, n.gone, "its setup names what the device does not have any more: this plan forgets it, and a rollback does not bring it back")
	}
	if Buckets(&n.want) > 0 {
		b.add(n.seen.Counters...)
	}
	b.add(PortFindings(&b.fleet.Profile, n.dev, &n.seen.Facts, n.want.Ports)...)
	if n.want.Nothing() {
		for _, what := range n.seen.Facts.Off {
			b.find(findings.StaysAfterOff, findings.Warning, n, nil, "%s", what)
		}
	}
	b.retired(n)
	b.canStripOthers(n, &n.want, "the profile's retired TPIDs")
	if update := n.seen.Facts.Updates(b.fleet.Profile.TPID); n.level.Support == inventory.LevelSoftware && update.Level == vlanrules.Refused {
		b.find(findings.LevelWrong, findings.Error, n, nil, "the fleet file says that its level is software, but it cannot do that: %s; give it the level that it has", update.Reason)
		return
	}
	if f := &n.seen.Facts; n.dev.Level.Support == inventory.LevelAuto && f.Update.Level != vlanrules.Refused && !n.level.Updates() {
		b.find(findings.TPIDNotPossible, findings.Warning, n, nil, "it could update tags, but not in this domain: %s", f.Updates(b.fleet.Profile.TPID).Reason)
	}
	if n.level.Support == inventory.LevelDiscard {
		b.silent(n)
		return // no tag leaves it
	}
	compiler := b.compiler(n)
	var tables []findings.Finding // ports whose rules are less than full
	unknown := 0
	var itself, leaky []string // ports that strip without csig, and those that let some tags past
	for i := range n.dev.Ports {
		p := &n.dev.Ports[i]
		want := actionIn(&n.want, i, p.Name)
		switch {
		case p.Action == vlanrules.Strip && StripsItself(n.dev, n.unmanaged):
			itself = append(itself, p.Name)
			continue
		case p.Action == vlanrules.Strip && b.plan.Goal == RollOut:
			b.canStrip(n, p.Name, "the fleet file asks for it")
			if n.seen.Facts.Strip.Level == vlanrules.Degraded {
				leaky = append(leaky, p.Name)
			}
			continue
		case want.StripOthers:
			b.canStrip(n, p.Name, "tags of the profile's retired TPIDs end there")
		}
		if b.plan.Goal != RollOut {
			continue
		}
		peer := b.peer(n, p)
		far, device := b.index[peer.Device]
		host := b.hosts[peer.Device]
		switch {
		case peer == (inventory.Peer{}):
			unknown++
		case device:
			if q := &b.nodes[far]; q.level.Support == inventory.LevelDiscard {
				b.findAt(findings.PeerDiscards, n, p.Name, q.dev.Name, "the peer discards tagged frames (%s): set action: strip", q.level.Reason)
			}
		case host != nil && !host.CSIG:
			b.findAt(findings.HostWithoutCSIG, n, p.Name, host.Name, "the host does not read CSIG tags (csig: false) and must never receive one: set action: strip")
		}
		if want.Action == vlanrules.Update {
			if v := b.table(n, p, compiler); v.Level != vlanrules.Full {
				f := findings.Finding{Code: findings.RulesDegraded, Level: findings.Warning, Device: n.dev.Name, Ports: []string{p.Name}, Reason: v.Reason}
				if v.Level == vlanrules.Refused {
					f.Code, f.Level = findings.RulesRefused, findings.Error
				}
				tables = append(tables, f)
			}
		}
	}
	if len(itself) > 0 {
		b.find(findings.StripsItself, findings.Warning, n, itself, "taken to strip tags without csig, as the fleet file says (level: %s, action: strip): see to it that it does", n.level.Support)
	}
	if len(leaky) > 0 {
		b.find(findings.StripIncomplete, findings.Warning, n, leaky, "it does not strip every tag: %s; see to it that no such frame comes there, where tags must not get past", n.seen.Facts.Strip.Reason)
	}
	tables = findings.Merge(tables)
	slices.SortFunc(tables, func(a, b findings.Finding) int { return strings.Compare(a.Reason, b.Reason) })
	b.add(tables...)
	if unknown > 0 {
		b.find(findings.PeerUnknown, findings.Warning, n, nil, "%d of its ports have no peer: csig cannot tell who gets their tags; add peer or links", unknown)
	}
}

// missing are the ports that are not among those a device has; none where it was
// not asked which it has.
func missing(has []string, ports []vendors.PortSetup) (out []string) {
	if len(has) == 0 {
		return nil
	}
	known := make(map[string]bool, len(has))
	for _, port := range has {
		known[port] = true
	}
	for _, p := range ports {
		if !known[p.Port] {
			out = append(out, p.Port)
		}
	}
	return out
}

// PortFindings are findings of ports that a device does not have, where it was
// asked which it has, and of what is in the way of tags at ports that are to update, or that a
// device which can only be set up is to give its TPID.
func PortFindings(prof *quantize.Profile, d *inventory.Device, f *vendors.Facts, want []vendors.PortSetup) []findings.Finding {
	device := d.Name
	var out []findings.Finding
	for _, port := range missing(f.Ports, want) { // apply would stop at them, half-way
		out = append(out, findings.Finding{Code: findings.NoSuchPort, Level: findings.Error, Device: device, Ports: []string{port},
			Reason: "the device has no such port: correct the name in the fleet file, or add the port to the device"})
	}
	concerns := make(map[string]bool, len(want))
	for _, p := range want {
		concerns[p.Port] = p.Action == vlanrules.Update || f.SetupOnly
	}
	for _, h := range f.PortIssues {
		if !concerns[h.Port] {
			continue
		}
		issue := findings.Finding{Code: findings.PortIssue, Level: findings.Warning, Device: device, Ports: []string{h.Port}, Reason: h.Reason}
		if h.Level == vlanrules.Refused {
			issue.Level = findings.Error
		}
		out = append(out, issue)
	}
	for _, misfit := range MisfitFindings(prof, d) {
		if concerns[misfit.Ports[0]] {
			out = append(out, misfit)
		}
	}
	return findings.Merge(out)
}

// MisfitFindings are the ports that update, one each, whose speed in the fleet file does not fit the profile's buckets.
func MisfitFindings(prof *quantize.Profile, d *inventory.Device) (out []findings.Finding) {
	for i := range d.Ports {
		p := &d.Ports[i]
		if p.Action != vlanrules.Update {
			continue
		}
		if why := prof.Misfit(p.Speed); why != "" {
			out = append(out, findings.Finding{Code: findings.BucketsMisfit, Level: findings.Warning, Device: d.Name, Ports: []string{p.Name},
				Reason: fmt.Sprintf("speed %s: %s", inventory.FormatSpeed(p.Speed), why)})
		}
	}
	return out
}

func (b *builder) canStrip(n *node, port, why string) {
	if n.seen.Facts.Strip.Level == vlanrules.Refused {
		b.find(findings.StripNotPossible, findings.Error, n, []string{port}, "it cannot strip tags, and has to (%s): %s", why, n.seen.Facts.Strip.Reason)
	}
}

// silent refuses hosts that send tags to a device that discards such frames
// (draft-00 §6.3.1): they would lose their traffic.
func (b *builder) silent(n *node) {
	if b.plan.Goal != RollOut {
		return
	}
	var list []findings.Finding
	for i := range n.dev.Ports {
		p := &n.dev.Ports[i]
		if h := b.hosts[p.Peer.Device]; h != nil && h.CSIG {
			list = append(list, findings.Finding{
				Code: findings.SenderAtDiscard, Level: findings.Error, Device: n.dev.Name, Ports: []string{p.Name}, Peers: []string{h.Name},
				Reason: fmt.Sprintf("it discards tagged frames (%s) and is the first hop of these hosts, which would send some: set csig: false, and leave CSIG off in their stacks", n.level.Reason),
			})
		}
	}
	b.add(findings.Merge(list)...)
}

// StripsItself reports whether ports with action: strip do so without csig: the
// operator says so who gives a device that csig sets nothing up on its level.
func StripsItself(d *inventory.Device, unmanaged bool) bool {
	switch d.Level.Support {
	case inventory.LevelNative:
		return true
	case inventory.LevelPassthrough:
		return unmanaged
	}
	return false
}

// actionIn is what a setup says of a port; guess is where the port likely is.
func actionIn(s *vendors.Setup, guess int, port string) vendors.PortSetup {
	if guess < len(s.Ports) && s.Ports[guess].Port == port {
		return s.Ports[guess]
	}
	for _, p := range s.Ports {
		if p.Port == port {
			return p
		}
	}
	return vendors.PortSetup{Port: port, Action: vlanrules.Passthrough}
}

// peer is the far end of a port, as either end has it.
func (b *builder) peer(n *node, p *inventory.Port) inventory.Peer {
	if p.Peer != (inventory.Peer{}) {
		return p.Peer
	}
	if b.backward == nil {
		b.backward = OtherEnds(b.fleet)
	}
	return b.backward[inventory.PortRef{Device: n.dev.Name, Port: p.Name}]
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
		c = vlanrules.NewCompiler(caps, n.want.Layout, Starts(&b.fleet.Profile)...)
		b.compilers[key] = c
	}
	return c
}

// Starts tells a rule compiler what senders of a profile start with, which decides how
// faithful a table is, and not what is in it.
func Starts(p *quantize.Profile) (opts []vlanrules.Option) {
	for sig := range p.Signals {
		opts = append(opts, vlanrules.WithInitial(sig, p.Initial(sig)))
	}
	return opts
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
	v, _ := compiler.Judge(intents)
	b.verdicts[key] = v
	return v
}
