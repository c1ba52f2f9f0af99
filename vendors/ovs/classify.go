package ovs

import (
	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/quantize"
)

// classify finds out whether a frame's tag is CSIG's. No match sees a TPID, but
// for that of the tag behind the outermost one, which shows as the ethertype. So
// the frame gets another tag in front, and is parsed again.
//
// It comes here parsed as it is: a tag that was put on in the bridge and one that
// it came with are all that Open vSwitch remembers of a frame (openvswitch/ovs
// lib/flow.h, FLOW_MAX_VLAN_HEADERS), and a third would have it lose the last.
func (p *pipeline) classify() (flows []ofp.Flow) {
	look := func(priority uint16, m ofp.Match, bits, mask uint32, ethType uint16, a ofp.Actions) {
		m.Regs[regVLAN], m.EthType = ofp.Masked{Value: bits, Mask: mask}, ethType
		flows = append(flows, p.flow(tableClassify, priority, m, a))
	}
	here, lease := p.base+tableClassify, p.base+tableLease
	set := func(bits uint32) ofp.Actions { return ofp.Actions(nil).Load(regVLAN, bits) }
	// Of a frame that was parsed again in another bridge as many turns are left as one
	// tag takes, or none (recirculation.go).
	marked := func(m ofp.Match, bit uint32) ofp.Match {
		m.Mark = ofp.Masked{Value: bit, Mask: bit}
		return m
	}
	look(510, marked(ofp.Match{}, markNone), isNew, isNew, 0, p.leave(nil, 0))
	look(500, ofp.Match{}, isNew, isNew, 0, p.parse(0))
	look(350, marked(tagged(), markTurns), isWhole, isWhole, tpidCSIG, p.leave(nil, 0))
	for _, ethType := range p.passes() { // as in tableEntry
		look(400, tagged(), isWhole, isWhole, ethType, p.leave(nil, 0))
	}
	look(300, tagged(), isWhole, isWhole, tpidCSIG, again(set(isSeen|isInner).PushVLAN(tpidVLAN), here))
	// Where nothing changes the tag, its TPID does not matter. That is found out by T and
	// S alone, so that tags share cached flows; but not where every tag is changed
	// (doStrip), where the signal may not be looked up (doStale), and where the frame may
	// not be parsed again once more (isDirect, markTurns).
	for _, do := range []uint32{doStrip, doStale} {
		m := tagged()
		m.Regs[regVID] = ofp.Masked{Value: do, Mask: do}
		look(220, m, isWhole, isWhole, 0, set(isTag).Resubmit(lease))
	}
	look(220, tagged(), isWhole|isDirect, isWhole|isDirect, 0, set(isTag).Resubmit(lease))
	look(220, marked(tagged(), markTurns), isWhole, isWhole, 0, set(isTag).Resubmit(lease))
	look(200, tagged(), isWhole, isWhole, 0, readIP(p.readClass()).Load(regVLAN, isClass).Resubmit(lease))
	look(100, ofp.Match{}, isRead, isRead, 0, ofp.Actions(nil).PushMPLS(etherMPLS).PopMPLS(tpidCSIG))

	// The two copies of split.
	look(300, tagged(), isTag, isTag|isChanged, 0, again(set(isSeen|isKept).Load(regVID, 0).PushVLAN(tpidVLAN), here))
	look(300, tagged(), isTag|isChanged, isTag|isChanged, 0,
		again(setVID(nil).LoadBits(ofp.Reg(regVID), 0, 17, 0).Load(regVLAN, isSeen|isChanged).PushVLAN(tpidVLAN), here)) // doStrip stays

	// The ethertype is the TPID of the tag that the frame came with. Of the two copies
	// of it one leaves.
	strips := tagged()
	strips.Regs[regVID] = ofp.Masked{Value: doStrip, Mask: doStrip}
	look(450, strips, isSeen|isChanged, isSeen|isChanged, tpidCSIG, again(set(isLast).PopVLAN(), p.base+tableAct))
	look(400, tagged(), isSeen|isChanged, isSeen|isChanged, tpidCSIG, p.leave(ofp.Actions(nil).PopVLAN(), doParse))
	look(300, tagged(), isSeen|isChanged, isSeen|isChanged, 0, nil)
	look(450, tagged(), isSeen|isKept, isSeen|isKept, tpidCSIG, nil)
	// A frame of the flows that csig had before split has no copy: it is looked up and split now.
	look(400, tagged(), isSeen, isSeen|isInner|isChanged, tpidCSIG, again(set(isTag).PopVLAN(), lease))
	look(400, tagged(), isSeen|isInner, isSeen|isInner, tpidVLAN, again(set(isOuter).PopVLAN(), here))
	// Frames with two CSIG tags have no signal, and ports that strip remove both.
	both := tagged()
	both.Regs[regVID] = ofp.Masked{Value: doStrip, Mask: doStrip}
	look(400, both, isSeen|isInner, isSeen|isInner, tpidCSIG, again(set(isOuter|isCSIGs).PopVLAN(), here))
	look(200, tagged(), isSeen, isSeen, 0, p.leave(ofp.Actions(nil).PopVLAN(), doParse))

	look(400, tagged(), isOuter, isOuter|isCSIGs, 0, again(setAside(isAside), lease))
	look(400, tagged(), isOuter|isCSIGs, isOuter|isCSIGs, 0, again(setAside(isAside|isCSIGs), lease))

	look(1, ofp.Match{}, 0, 0, 0, p.leave(nil, 0)) // a tag that is cut short is none
	return flows
}

// parse has a new frame parsed again as it is. What is read of it afterwards differs
// by layout and bits, and so does the register, by which Open vSwitch tells its cached
// flows apart.
func (p *pipeline) parse(bits uint32) ofp.Actions {
	if p.setup.Layout == quantize.UEC {
		bits |= isUEC
	}
	return again(ofp.Actions(nil).Load(regVLAN, isWhole|bits), p.base+tableClassify)
}

// split makes two copies of a frame, the one with its own tag and the one with the
// tag changed, of which tableClassify drops the one that the TPID rules out: what is
// read of a tag to find its TPID need not be read once more to change it. The second copy
// needs no group, as nothing follows it. Open vSwitch 3.1 aborts when a group is deleted
// that a list of actions names twice: it deletes the rule once for each
// (openvswitch/ovs ofproto/ofproto.c, ofproto_rule_insert__ and delete_flows__).
func (p *pipeline) split() ofp.Actions {
	return ofp.Actions(nil).Load(regVLAN, isTag).Group(groupID).Load(regVLAN, isTag|isChanged).Resubmit(p.base + tableClassify)
}

// readClass reads of a tag what entries match, whichever there are: the switch caches
// what follows for all tags that have the same of that.
func (p *pipeline) readClass() ofp.Actions {
	a := ofp.Actions(nil).Move(ofp.FieldVLANPCP, 0, ofp.Reg(regVLAN), 13, 3)
	a = a.Move(ofp.FieldVLANVID, 7, ofp.Reg(regVLAN), 7, 5)
	if p.setup.Layout == quantize.UEC {
		a = a.Move(ofp.FieldVLANVID, 0, ofp.Reg(regVLAN), 0, 1) // D
	}
	return a
}

// readIP has the switch read of an IP header what push_mpls in again does (TTL and
// DSCP), so that no two cached flows overlap, one of a frame that is parsed again and
// one of another that is not. Nothing of that is left behind the bucket.
func readIP(a ofp.Actions) ofp.Actions { return a.Load(regVLAN, isRead).Group(groupID) }
