package openflow

import (
	"fmt"
	"strings"

	"github.com/csig-agent/csig/docs"
	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// effects is what a flow may do with a frame, the groups in its actions included.
func (s *state) effects(f *ofp.Flow) ofp.Effects {
	e := f.Actions.EffectsWith(s.groups)
	e.Add(f.Write.EffectsWith(s.groups))
	return e
}

// path is how frames come to csig's tables: what the operator's flows are.
type path struct {
	handed   int       // flows that hand frames over with the number of their port
	numbered int       // flows that hand frames over without one
	middle   int       // flows that lead to the tables behind
	bypass   int       // flows that output to ports
	anyVLAN  int       // flows that hand over frames whatever their VLAN tag
	hidden   int       // flows that may output in ways that csig does not look into
	normal   *ofp.Flow // outputs to NORMAL, FLOOD or ALL
	vlan     *ofp.Flow // hands frames over that seem to have an ordinary VLAN's tag
	why      string    // it seems so

	first map[*int]*ofp.Flow
}

// pathOf looks at the operator's flows.
func (s *state) pathOf(csigTPID uint16) *path {
	p := &path{first: map[*int]*ofp.Flow{}}
	count := func(n *int, f *ofp.Flow) {
		if *n++; *n == 1 {
			p.first[n] = f
		}
	}
	for i := range s.others {
		f := &s.others[i]
		e := s.effects(f)
		toCSIG := f.Goes && f.Goto == s.base
		switch {
		case toCSIG && f.Metadata.Mask&portMask == portMask:
			count(&p.handed, f)
		case toCSIG:
			count(&p.numbered, f)
		case f.Goes && s.inside(f.Goto):
			count(&p.middle, f)
		}
		noTag := f.Match.VIDMask&ofp.VLANPresent != 0 && f.Match.VID&ofp.VLANPresent == 0
		if toCSIG && !noTag {
			count(&p.anyVLAN, f)
		}
		past := false
		for _, port := range e.Ports {
			switch {
			case port == ofp.PortNormal || port == ofp.PortFlood || port == ofp.PortAll:
				p.normal = f
			case port < ofp.PortMax || port == portIn:
				past = true
			}
		}
		if past {
			count(&p.bypass, f)
		}
		if e.Opaque || f.Other || len(e.Resubmits) > 0 {
			count(&p.hidden, f)
		}
		if !toCSIG || p.vlan != nil {
			continue
		}
		for _, push := range e.Pushes {
			if push != csigTPID {
				p.vlan, p.why = f, fmt.Sprintf("it pushes a tag of 0x%04x", push)
			}
		}
		if id := f.Match.VIDMask &^ ofp.VLANPresent; id != 0 && !noTag {
			p.vlan, p.why = f, "it matches frames by a VLAN's VID"
		}
	}
	return p
}

// takesVLANs is which flows may hand over frames with an ordinary VLAN tag, where the operator
// declares that none does: no match sees a TPID, so csig cannot check it.
func (p *path) takesVLANs(declared OrdinaryVLANs) string {
	if declared != NotHandedOver || p.anyVLAN == 0 {
		return ""
	}
	return fmt.Sprintf("%s whatever VLAN tag they have (one is in %s): ordinary_vlans: %s has to be true of these, which csig cannot check", count(p.anyVLAN, "flow hands frames over", "flows hand frames over"), p.first[&p.anyVLAN].Where(), declared)
}

// portIn is the port that a frame came in by (OFPP_IN_PORT).
const portIn = 0xfffffff8

// verdict is whether frames come to csig's tables as they should, with all that is
// wrong.
func (p *path) verdict(base uint8, declared OrdinaryVLANs) vlanrules.Verdict {
	if p.normal != nil {
		return vendors.Refusal(fmt.Sprintf("the switch forwards by itself what a flow outputs to NORMAL, FLOOD or ALL (it is in %s), and that passes none of csig's tables: flows have to choose the port and hand frames over ("+docs.OpenFlow+")", p.normal.Where()))
	}
	var why []string
	degraded := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	if p.vlan != nil && declared == NotHandedOver {
		degraded("ordinary_vlans is %s, and a flow seems to hand over frames with an ordinary VLAN's tag: %s (it is in %s); csig would rewrite that tag", declared, p.why, p.vlan.Where())
	}
	if p.numbered > 0 {
		degraded("%s frames to table %d without write_metadata:PORT/%#x, and those are lost (one is in %s)", count(p.numbered, "flow hands", "flows hand"), base, portMask, p.first[&p.numbered].Where())
	}
	if p.middle > 0 {
		degraded("%s into csig's tables behind table %d (one is in %s): frames are to be handed to table %d", count(p.middle, "flow leads", "flows lead"), base, p.first[&p.middle].Where(), base)
	}
	if p.bypass > 0 {
		degraded("%s table %d (one is in %s): tags of these frames are not updated", count(p.bypass, "flow outputs to ports and bypasses", "flows output to ports and bypass"), base, p.first[&p.bypass].Where())
	}
	if p.hidden > 0 {
		degraded("%s may output in ways that csig does not look into (one is in %s)", count(p.hidden, "flow", "flows"), p.first[&p.hidden].Where())
	}
	if p.handed == 0 && p.numbered == 0 {
		degraded("no flow hands frames to table %d yet", base)
	}
	if why == nil {
		return vlanrules.Verdict{}
	}
	return vlanrules.Verdict{Level: vlanrules.Degraded, Reason: strings.Join(why, "; ") + " (" + docs.OpenFlow + ")"}
}
