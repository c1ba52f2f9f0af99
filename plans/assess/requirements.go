package assess

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/vlanrules"
)

// Requirement is one thing that has to be so for CSIG to be safe or true, at
// ports of one device, or at hosts.
type Requirement struct {
	Rule    string   `json:"rule"`
	Force   string   `json:"force"`  // MUST, SHOULD or MAY, as in the section
	Device  string   `json:"device"` // "" for hosts
	Hosts   []string `json:"hosts"`  // none for a device
	Ports   []string `json:"ports"`  // of the device
	Peers   []Peer   `json:"peers"`  // their other ends, in the same order
	What    string   `json:"what"`
	Why     string   `json:"why"`
	Section string   `json:"section"` // of the draft
	Status  string   `json:"status"`
}

// Peer is the other end of a port; as JSON "device:port", or a host's name.
type Peer inventory.Peer

// MarshalText writes the peer.
func (p Peer) MarshalText() ([]byte, error) { return []byte(inventory.Peer(p).String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (p *Peer) UnmarshalText(text []byte) error {
	p.Device, p.Port, _ = strings.Cut(string(text), ":")
	return nil
}

// The rules.
const (
	RuleStripDiscard = "strip-before-discard" // an egress port to a device that discards tags
	RuleStripEdge    = "strip-at-edge"        // an egress port that leaves the domain
	RuleNoSending    = "no-sending"           // a host whose first hop discards tags
	RuleFence        = "strip-while-rolling"  // a receiver's port while paths change
	RuleAccuracy     = "accuracy"             // ports that forward tags without updating them
	RuleMTU          = "mtu"                  // a link or host that carries full-size frames with a tag
)

// The states of a requirement.
const (
	StatusMet        = "met"        // the fleet file has it
	StatusPlanned    = "planned"    // csig plan and csig apply see to it
	StatusChoice     = "choice"     // for the operator to decide
	StatusUnchecked  = "unchecked"  // csig cannot tell from here
	StatusUnmet      = "unmet"      // the fleet file has it otherwise
	StatusImpossible = "impossible" // the device cannot do it
)

// Statuses are all of them, what is wrong first.
var Statuses = []string{StatusImpossible, StatusUnmet, StatusUnchecked, StatusChoice, StatusPlanned, StatusMet}

const (
	forwarding  = "draft-00 §6.3.2"
	negotiation = "draft-00 §6.3.3.1"
	levels      = "draft-00 §6.3.1"
)

// require works out what the levels ask of ports and hosts.
func (a *assessor) require() {
	backward := plans.OtherEnds(a.fleet)
	a.most = a.largest()
	for i := range a.devices {
		d := &a.devices[i]
		g := &gather{out: &a.out.Requirements, at: map[requirementKey]int{}, device: d.dev.Name}
		unknown := 0
		for j := range d.dev.Ports {
			p := &d.dev.Ports[j]
			peer := p.Peer
			if peer == (inventory.Peer{}) {
				peer = backward[inventory.PortRef{Device: d.dev.Name, Port: p.Name}]
			}
			if peer == (inventory.Peer{}) {
				unknown++
				continue
			}
			a.link(g, d, j, peer)
		}
		if unknown > 0 && !d.blind() {
			a.find(findings.PeerUnknown, findings.Warning, d.dev.Name, nil, "%d of its ports have no peer: csig cannot tell what is required of them; add peer or links", unknown)
		}
		a.accuracy(g, d)
		a.mtu(g, d)
	}
	a.ends()
}

// requirementKey is what requirements of one device that are put together have in
// common.
type requirementKey struct{ rule, force, what, why, section, status string }

// gather puts a device's requirements together that differ in their port alone.
type gather struct {
	out    *[]Requirement
	at     map[requirementKey]int
	device string
}

func (g *gather) add(k requirementKey, port string, peer inventory.Peer) {
	i, ok := g.at[k]
	if !ok {
		i = len(*g.out)
		g.at[k] = i
		*g.out = append(*g.out, Requirement{
			Rule: k.rule, Force: k.force, Device: g.device, Hosts: []string{}, Ports: []string{}, Peers: []Peer{},
			What: k.what, Why: k.why, Section: k.section, Status: k.status,
		})
	}
	r := &(*g.out)[i]
	r.Ports = append(r.Ports, port)
	r.Peers = append(r.Peers, Peer(peer))
}

// link is what the far end of a port asks of it.
func (a *assessor) link(g *gather, d *assessed, j int, peer inventory.Peer) {
	p := &d.dev.Ports[j]
	strips := p.Action == vlanrules.Strip
	if k, ok := a.index[peer.Device]; ok && peer.Port != "" {
		q := &a.devices[k]
		if !q.blind() {
			return
		}
		key := requirementKey{rule: RuleStripDiscard, force: "MUST", what: "strip the tag", section: forwarding}
		key.why = "the peer discards tagged frames: " + q.level.Reason
		if q.level.Support == plans.LevelUnknown {
			key.why = "what the peer does with a tag is not known"
		}
		a.strip(g, d, key, p.Name, peer, strips)
		return
	}
	if d.blind() {
		return // it forwards no tag, so none leaves there
	}
	key := requirementKey{rule: RuleStripEdge, force: "MUST", what: "strip the tag", section: forwarding}
	host, described := a.hosts[peer.Device]
	switch {
	case described && !host.CSIG:
		key.why = "the host does not read tags (csig: false)"
		a.strip(g, d, key, p.Name, peer, strips)
		return
	case strips:
		key.why = "what is there is not in the fleet file"
		if described {
			key.why = "the fleet file has it, although the host reads tags"
		}
		a.strip(g, d, key, p.Name, peer, strips)
		return
	case !described && peer.Port != "":
		key.why, key.status = "what is there is not in the fleet file", StatusUnchecked
		key.what = "strip the tag, unless the far end is a device of this domain: then describe it"
		g.add(key, p.Name, peer)
	case !described:
		key.why, key.status = "whether the host reads tags is not in the fleet file", StatusUnchecked
		key.what = "strip the tag, unless the host reads it: then describe it under hosts, with csig: true"
		g.add(key, p.Name, peer)
	}
	key = requirementKey{
		rule: RuleFence, force: "SHOULD", what: "strip the tag while paths are half rolled out, first on and last off", section: negotiation,
		why: "a receiver takes a tag for a sign that every device of the path updates it", status: StatusPlanned,
	}
	switch c := d.seen.capability(&d.seen.Facts.Strip); {
	case c.Level == vlanrules.Refused.String():
		key.status = StatusImpossible
		key.why += "; and it cannot strip: " + c.Reason
		key.what += "; as it cannot, let hosts send tags only when the rollout is complete"
	case c.Level == "unknown":
		key.status = StatusUnchecked
	}
	g.add(key, p.Name, peer)
}

// strip notes that a port has to strip.
func (a *assessor) strip(g *gather, d *assessed, key requirementKey, port string, peer inventory.Peer, strips bool) {
	c := d.seen.capability(&d.seen.Facts.Strip)
	switch {
	case d.level.Support == inventory.LevelDiscard:
		key.status = StatusMet
		key.what = "nothing: no tag gets through it"
	case !strips:
		key.status = StatusUnmet
		key.what += ": set action: strip"
	case plans.StripsItself(d.dev, d.seen.NoDriver != "" || d.seen.Basis == BasisFile):
		key.status = StatusUnchecked
		key.what += ", which the fleet file says it does without csig"
	case c.Level == vlanrules.Refused.String():
		key.status = StatusImpossible
		key.what += ", which it cannot: " + c.Reason + "; strip at every port towards it instead, or give it a level of discard"
	case c.Level == "unknown":
		key.status = StatusUnchecked
		key.what += ", which the fleet file has; whether it can is not known"
	case c.Level == vlanrules.Degraded.String():
		key.status = StatusUnchecked
		key.what += ", which it does not with every tag: " + c.Reason + "; see to it that no such frame comes there"
	default:
		key.status = StatusMet
	}
	g.add(key, port, peer)
}

// accuracy is what ports have to do that forward tags without updating them.
func (a *assessor) accuracy(g *gather, d *assessed) {
	if d.blind() || d.level.Support == inventory.LevelNative && !d.level.SetUp {
		return
	}
	lost := ""
	for _, sig := range a.signals {
		if !d.seen.Facts.Measures(sig) {
			lost += ", " + sig.String()
		}
	}
	for j := range d.dev.Ports {
		p := &d.dev.Ports[j]
		peer := p.Peer
		key := requirementKey{rule: RuleAccuracy, force: "MAY", section: forwarding}
		updates := d.ports[j].Updates()
		switch {
		case p.Action == vlanrules.Strip:
			continue // nothing inaccurate leaves here
		case !updates && p.Action == vlanrules.Update:
			key.status = StatusUnmet
			key.why = "the fleet file has it update the tag, and it cannot: " + cmp.Or(d.ports[j].Reason, d.level.Reason)
			key.what = "set action: strip, so that receivers take no path through it for capable, or action: passthrough, where it is acceptable that its queue is not in the signal"
		case p.Action == vlanrules.Passthrough:
			key.status = StatusChoice
			key.why = "it forwards tags as they are, so that its queue is not in the signal"
			key.what = "strip the tag, or accept that a path through it reports the bottleneck of the other hops"
		case lost != "":
			key.status = StatusChoice
			key.why = "csig's rules do not update " + lost[2:] + ", whose tags it forwards as they are"
			key.what = "take them out of the profile, or accept that they miss this hop"
		default:
			continue
		}
		g.add(key, p.Name, peer)
	}
}

// largest is the host that reads and writes tags with the largest MTU.
func (a *assessor) largest() *inventory.Host {
	var most *inventory.Host
	for i := range a.fleet.Hosts {
		if h := &a.fleet.Hosts[i]; h.CSIG && h.MTU > 0 && (most == nil || h.MTU > most.MTU) {
			most = h
		}
	}
	return most
}

// mtu is what full-size frames with a tag need of a device's links.
func (a *assessor) mtu(g *gather, d *assessed) {
	most := a.most
	if d.blind() || most == nil {
		return
	}
	slack := d.seen.Facts.MTUHeadroom
	need := plans.LeastMTU(most.MTU, &d.seen.Facts)
	for j := range d.dev.Ports {
		p := &d.dev.Ports[j]
		key := requirementKey{
			rule: RuleMTU, force: "MUST", section: levels, status: StatusMet,
			what: fmt.Sprintf("an MTU of %d bytes or more", need),
			why:  fmt.Sprintf("cards of hosts (%s) send frames of up to %d bytes, the tag's %d included; where they do not fit they vanish silently", most.Name, most.MTU, a.out.TagBytes),
		}
		have, known := d.seen.MTUs[p.Name]
		switch {
		case p.MTU == 0 && !known:
			key.status = StatusUnchecked
		case known && have < max(need, p.MTU) && (p.MTU == 0 || p.MTU >= need):
			key.status = StatusPlanned
			key.what += fmt.Sprintf("; it has %d, which is raised to %d", have, max(need, p.MTU))
		case p.MTU != 0 && p.MTU < need:
			key.status = StatusUnmet
			key.what += fmt.Sprintf("; it has %d: raise it, or lower the hosts' IP MTU to %d", p.MTU, p.MTU+slack-a.out.TagBytes)
		}
		g.add(key, p.Name, p.Peer)
	}
}

// ends is what is required of the hosts.
func (a *assessor) ends() {
	first := map[string]*assessed{} // a device that discards, at which a host is
	at := map[string]inventory.PortRef{}
	for i := range a.devices {
		d := &a.devices[i]
		if !d.blind() {
			continue
		}
		for j := range d.dev.Ports {
			p := &d.dev.Ports[j]
			if _, device := a.index[p.Peer.Device]; device || p.Peer.Device == "" || p.Peer.Port != "" {
				continue
			}
			first[p.Peer.Device] = d
			at[p.Peer.Device] = inventory.PortRef{Device: d.dev.Name, Port: p.Name}
		}
	}
	alike := map[int]int{} // the requirement on hosts of an MTU
	for i := range a.fleet.Hosts {
		h := &a.fleet.Hosts[i]
		if !h.CSIG {
			continue
		}
		if d := first[h.Name]; d != nil {
			ref := at[h.Name]
			a.out.Requirements = append(a.out.Requirements, Requirement{
				Rule: RuleNoSending, Force: "MUST", Hosts: []string{h.Name}, Ports: []string{}, Peers: []Peer{Peer(ref)}, Section: levels, Status: StatusUnmet,
				What: "send no tags: set csig: false, and leave CSIG off in its stack",
				Why:  "its first hop discards tagged frames: " + d.level.Reason,
			})
			continue
		}
		if k, ok := alike[h.MTU]; ok {
			a.out.Requirements[k].Hosts = append(a.out.Requirements[k].Hosts, h.Name)
			continue
		}
		alike[h.MTU] = len(a.out.Requirements)
		what := fmt.Sprintf("leave %d bytes of its card's MTU for the tag: lower its IP MTU by them, or raise the card's", a.out.TagBytes)
		if h.MTU > 0 {
			what = fmt.Sprintf("leave %d bytes of its card's MTU (%d) for the tag: an IP MTU of %d, or a larger one for the card", a.out.TagBytes, h.MTU, h.MTU-a.out.TagBytes)
		}
		a.out.Requirements = append(a.out.Requirements, Requirement{
			Rule: RuleMTU, Force: "MUST", Hosts: []string{h.Name}, Ports: []string{}, Peers: []Peer{}, Section: levels, Status: StatusUnchecked,
			What: what, Why: "a card does not send, and may not receive, what is longer than its MTU",
		})
	}
}
