package ovs

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// TPIDs that Open vSwitch takes for a VLAN tag's (ovs-fields(7), VLAN;
// openvswitch/ovs lib/packets.h, eth_type_vlan).
const (
	tpidCSIG = 0x88a8 // the one of them that ordinary VLANs leave free
	tpidVLAN = 0x8100
)

// MPLS ethertypes: behind a tag, a frame of one of them cannot be looked at
// again.
const (
	etherMPLS      = 0x8847
	etherMPLSMulti = 0x8848
)

// cookie marks csig's flows: "csig", and the version of their shape.
const cookie = 0x63736967_00000001

// The tables, from Config.Table on.
const (
	tableEntry    = iota // frames come here with the egress port in regOut
	tableLease           // the tag is CSIG's; is there an agent?
	tableLive            // the signal, for each port
	tableStale           // the fallback
	tableAct             // regVID says what to do
	tableClassify        // is the tag CSIG's?
	tables
)

// The registers.
const (
	regVLAN = 13 // the VLAN tag in front of CSIG's: its TCI and the following bits
	regVID  = 14 // what becomes of the tag: 0 nothing, or one of the following
	regOut  = 15 // the egress port's OpenFlow number
)

// groupID is the group that every frame goes through before it is parsed again:
// "csig". What a bucket does ends with it, so that the times that a frame is parsed
// again do not add up where a list of actions hands it over more than once.
const groupID = 0x63736967

// Bits of regVLAN above the TCI. Those from isNew on say how far a frame is; tableEntry
// sets the register before anything else, so that no flow of others can have set them.
const (
	isAside   = 1 << 16 // there is a tag in front, and it was set aside
	isCSIGs   = 1 << 17 // that tag has CSIG's TPID, not a VLAN's
	isUEC     = 1 << 18 // the layout is that of UEC
	isNew     = 1 << 19 // the frame comes from tableEntry
	isWhole   = 1 << 20 // the frame was parsed again as it is
	isSeen    = 1 << 21 // it was parsed again with a tag put in front of its own
	isInner   = 1 << 22 // CSIG's TPID stands behind its outermost tag
	isOuter   = 1 << 23 // its outermost tag is to be set aside
	isClass   = 1 << 24 // of its tag T and S are known, and the frame may leave
	isTag     = 1 << 25 // its tag is known as a whole, and may be changed
	isChanged = 1 << 26 // it is the copy with the changed tag
	isLast    = 1 << 27 // its tag is CSIG's, and to be removed
	isRead    = 1 << 28 // see readIP
	isDirect  = 1 << 29 // it is not parsed again between isClass and isTag
	isKept    = 1 << 30 // it is the copy with its own tag
)

// Values of regVID.
const (
	doRewrite = 1 << 16 // and the VID below it
	doStrip   = 1 << 17
	doStale   = 1 << 18 // what the fallback says, lease or not
	doLeave   = 1 << 19 // nothing more: the frame leaves
	doLeave4  = 1 << 20 // and was parsed again more than three times
	parseBit  = 21
	doParse   = 1 << parseBit // and Open vSwitch sees other tags than are there
)

// Bits of pkt_mark, the only metadata that OpenFlow writes and that a patch port
// leaves as it is (ofproto-dpif-xlate.c, patch_port_output). A frame has them from a
// port that leads to other bridges that csig programs to the last of these.
const (
	markFrom  = 29            // the first bit
	markBits  = 2             // how many
	markTurns = 1 << markFrom // frames were parsed again up to three times in another bridge
	markNone  = 2 << markFrom // and are not to be parsed again
)

// Priorities. Those of compiled entries are added to priorityEntry.
const (
	priorityRecord = 0xffff
	priorityHook   = 0x6000
	priorityEntry  = 0x1000
	priorityPort   = 200 // of tableEntry: tagged frames of a port that is not left alone
)

// pipeline makes the flows of a setup for one bridge.
type pipeline struct {
	base  uint8 // the first table
	setup *vendors.Setup
	stale vlanrules.Table
}

func newPipeline(base uint8, s *vendors.Setup) (*pipeline, error) {
	p := &pipeline{base: base, setup: s}
	if s.OnStale != inventory.Conservative {
		return p, nil
	}
	var res vlanrules.Result
	vlanrules.NewCompiler(Rules(), s.Layout).Compile(&res, nil, s.Fallback())
	if res.Verdict.Level == vlanrules.Refused {
		return nil, fmt.Errorf("the stale fallback: %s", res.Verdict.Reason)
	}
	p.stale = res.Table
	return p, nil
}

func (p *pipeline) flow(table int, priority uint16, m ofp.Match, a ofp.Actions) ofp.Flow {
	return ofp.Flow{Table: p.base + uint8(table), Priority: priority, Cookie: cookie, Match: m, Actions: a}
}

// tagged is the match of frames with a tag that the switch parses.
func tagged() ofp.Match {
	return ofp.Match{VID: ofp.VLANPresent, VIDMask: ofp.VLANPresent}
}

// untagged is the match of frames without a tag that the switch has parsed.
func untagged() ofp.Match { return ofp.Match{VIDMask: ofp.VLANPresent} }

func out() ofp.Actions { return ofp.Actions(nil).OutputReg(regOut) }

// again has the switch parse the frame again and look it up in a table. A frame
// whose MPLS header is taken away is parsed again before it is looked up
// (openvswitch/ovs ofproto/ofproto-dpif-xlate.c, recirc_for_mpls); a header put
// on and taken away at once leaves the frame itself as it was.
func again(a ofp.Actions, table uint8) ofp.Actions {
	return a.PushMPLS(etherMPLS).PopMPLS(tpidCSIG).Resubmit(table)
}

// leave sends a frame on that was parsed again, or may have been in another bridge.
// The bits are of regVID, beside doLeave.
func (p *pipeline) leave(a ofp.Actions, bits uint32) ofp.Actions {
	return a.Load(regVID, doLeave|bits).Resubmit(p.base + tableAct)
}

// leaving are the flows that leave needs, for all ports: no mark leaves the bridges
// that csig programs.
func (p *pipeline) leaving() []ofp.Flow {
	var m, marked ofp.Match
	m.Regs[regVID] = ofp.Masked{Value: doLeave, Mask: doLeave}
	marked.Mark = ofp.Masked{Value: markTurns, Mask: markTurns}
	flows := []ofp.Flow{p.flow(tableEntry, 150, marked, p.leave(nil, 0)), p.flow(tableAct, 1000, m, out())}
	m.Mark = marked.Mark
	return append(flows, p.flow(tableAct, 1100, m, ofp.Actions(nil).LoadBits(ofp.FieldPktMark, markFrom, markBits, 0).OutputReg(regOut)))
}

// toBridge are the flows of a patch port. A frame that goes on to another bridge is
// parsed again where that would see other tags than without csig. It has a mark of
// what it has behind it where it may come to csig's tables again.
func (p *pipeline) toBridge(number uint32, driven bool, to *patchPeer) (flows []ofp.Flow) {
	add := func(priority uint16, vid, mark uint32, a ofp.Actions) {
		var m ofp.Match
		m.Regs[regOut], m.Regs[regVID] = ofp.Exactly(number), ofp.Masked{Value: vid, Mask: vid}
		m.Mark = ofp.Masked{Value: mark, Mask: mark}
		flows = append(flows, p.flow(tableAct, priority, m, a))
	}
	mark := func(value uint32) ofp.Actions {
		return ofp.Actions(nil).LoadBits(ofp.FieldPktMark, markFrom, markBits, uint64(value>>markFrom)).OutputReg(regOut)
	}
	if driven && to.next != nil {
		var m ofp.Match
		m.Regs[regOut], m.Regs[regVLAN] = ofp.Exactly(number), ofp.Masked{Value: isNew, Mask: isNew}
		flows = append(flows, p.flow(tableClassify, 505, m, p.parse(isDirect)))
	}
	if driven {
		add(1500, doLeave|doParse, 0, again(ofp.Actions(nil).LoadBits(ofp.Reg(regVID), parseBit, 1, 0), p.base+tableAct))
	}
	switch {
	case to.next == nil, !driven && to.isPartner:
	case !driven: // it adds nothing
		add(1200, doLeave, 0, out())
	default:
		add(1400, doLeave|doLeave4, 0, mark(markTurns|markNone))
		add(1300, doLeave, markTurns, mark(markTurns|markNone))
		if to.lowRecircLimit {
			add(1200, doLeave, 0, mark(markTurns|markNone))
		} else {
			add(1200, doLeave, 0, mark(markTurns))
		}
	}
	return flows
}

// setAside takes the outermost tag away and keeps it in regVLAN, with the bits.
func setAside(bits uint32) ofp.Actions {
	a := ofp.Actions(nil).Load(regVLAN, bits).Move(ofp.FieldVLANVID, 0, ofp.Reg(regVLAN), 0, 12)
	return a.Move(ofp.FieldVLANPCP, 0, ofp.Reg(regVLAN), 13, 3).PopVLAN()
}

// bringBack puts the tag that was set aside back, with its TPID.
func bringBack(a ofp.Actions, tpid uint16) ofp.Actions {
	a = a.PushVLAN(tpid).Move(ofp.Reg(regVLAN), 0, ofp.FieldVLANVID, 0, 12)
	return a.Move(ofp.Reg(regVLAN), 13, ofp.FieldVLANPCP, 0, 3)
}

// setVID writes the VID of regVID into the outermost tag.
func setVID(a ofp.Actions) ofp.Actions {
	return a.Move(ofp.Reg(regVID), 0, ofp.FieldVLANVID, 0, 12)
}

// readTag leaves the tag as it is, and has the switch cache what it said for this
// tag alone, as it does where it rewrites or removes one. Cached flows that
// overlap are what Open vSwitch confuses when it revises them (doc.go).
func readTag(a ofp.Actions) ofp.Actions {
	a = a.Move(ofp.FieldVLANVID, 0, ofp.Reg(regVID), 0, 12)
	return a.Move(ofp.FieldVLANPCP, 0, ofp.Reg(regVID), 13, 3)
}

// passing is the flow that stays when csig is removed: flows that hand frames over
// still send them there.
func (p *pipeline) passing() ofp.Flow {
	return p.flow(tableEntry, 0, ofp.Match{}, out())
}

// shared are the constant flows that belong to no port.
func (p *pipeline) shared() []ofp.Flow {
	flows := []ofp.Flow{p.passing(), p.record()}
	add := func(table int, priority uint16, m ofp.Match, a ofp.Actions) {
		flows = append(flows, p.flow(table, priority, m, a))
	}
	for _, ethType := range p.passes() {
		m := tagged()
		m.EthType = ethType
		add(tableEntry, 400, m, p.leave(nil, 0))
	}
	flows = slices.Concat(flows, p.classify(), p.leaving())

	does := func(bit uint32) ofp.Match {
		m := tagged()
		m.Regs[regVID] = ofp.Masked{Value: bit, Mask: bit}
		return m
	}
	add(tableLease, 300, does(doStrip), ofp.Actions(nil).Resubmit(p.base+tableAct))
	add(tableLease, 200, does(doStale), ofp.Actions(nil).Resubmit(p.base+tableStale))
	add(tableLease, 0, ofp.Match{}, ofp.Actions(nil).Resubmit(p.base+tableStale))
	add(tableLive, 0, ofp.Match{}, ofp.Actions(nil).Resubmit(p.base+tableAct))
	miss := ofp.Actions(nil)
	if p.setup.OnStale == inventory.StaleStrip {
		miss = miss.Load(regVID, doStrip)
	}
	add(tableStale, 0, ofp.Match{}, miss.Resubmit(p.base+tableAct))
	for i := range p.stale {
		flows = append(flows, p.entry(tableStale, 0, &p.stale[i]))
	}

	at := func(m ofp.Match, state uint32) ofp.Match {
		m.Regs[regVLAN] = ofp.Masked{Value: state, Mask: state}
		return m
	}
	for _, bit := range []uint32{doRewrite, doStrip} {
		add(tableAct, 700, at(does(bit), isClass), again(ofp.Actions(nil).Load(regVID, 0).Load(regVLAN, isTag), p.base+tableLease))
		add(tableAct, 700, at(does(bit), isTag), p.split())
	}
	add(tableAct, 600, at(tagged(), isClass), p.leave(nil, 0))
	add(tableAct, 600, at(tagged(), isTag), p.leave(readIP(readTag(nil)), 0))
	add(tableAct, 500, at(tagged(), isLast), p.leave(ofp.Actions(nil).PopVLAN(), 0))
	// A frame that a foreign flow sent past tableEntry, or that the flows before those of
	// classify.go left here, may have any TPID: it is classified, and looked up again.
	unknown := tagged()
	unknown.Regs[regVLAN] = ofp.Masked{Mask: isClass | isTag | isLast | isAside}
	add(tableAct, 50, unknown, append(ofp.Actions(nil).LoadBits(ofp.Reg(regVID), 0, 17, 0), p.parse(isDirect)...))
	add(tableAct, 1, ofp.Match{}, p.leave(nil, 0)) // its tag is cut short
	for _, tpid := range []uint16{tpidVLAN, tpidCSIG} {
		in := ofp.Masked{Value: isAside, Mask: isAside | isCSIGs}
		if tpid == tpidCSIG {
			in.Value |= isCSIGs
		}
		behind := func(m ofp.Match, ethType uint16) ofp.Match {
			m.Regs[regVLAN], m.EthType = in, ethType
			return m
		}
		back := func(a ofp.Actions) ofp.Actions { return p.leave(bringBack(a, tpid), doLeave4|doParse) }
		for _, ethType := range append([]uint16{tpidVLAN, tpidCSIG}, p.unparsed()...) { // not the last one either
			add(tableAct, 400, behind(tagged(), ethType), back(readTag(nil)))
		}
		if tpid == tpidVLAN {
			add(tableAct, 300, behind(does(doRewrite), 0), back(setVID(nil)))
			add(tableAct, 300, behind(does(doStrip), 0), back(ofp.Actions(nil).PopVLAN()))
			add(tableAct, 200, behind(tagged(), 0), back(readTag(nil)))
		} else { // the tag in front goes as well
			add(tableAct, 300, behind(does(doStrip), 0), p.leave(ofp.Actions(nil).PopVLAN(), doLeave4))
		}
		add(tableAct, 100, behind(untagged(), 0), back(nil))
	}
	return flows
}

// passes are ethertypes behind a tag with which a frame passes untouched. A tag
// with a VLAN's behind it is not CSIG's, which is the last; what stands behind
// two is not seen. One with another tag of CSIG's behind it is not the last
// either. Behind MPLS headers nothing can be parsed again.
func (p *pipeline) passes() []uint16 {
	return append([]uint16{tpidVLAN, etherMPLS, etherMPLSMulti}, p.unparsed()...)
}

// unparsed are the TPIDs of CSIG's that Open vSwitch takes for an ethertype.
func (p *pipeline) unparsed() (list []uint16) {
	if p.setup.WideTPID != 0 {
		list = append(list, p.setup.WideTPID)
	}
	for _, t := range p.setup.Others {
		list = append(list, t.TPID)
	}
	return list
}

// port are the constant flows of a port. A closed one has the fallback, lease
// or not.
func (p *pipeline) port(number uint32, action vlanrules.Action, closed bool) []ofp.Flow {
	if action == vlanrules.Passthrough {
		return nil
	}
	do := uint32(0)
	switch {
	case action == vlanrules.Strip:
		do = doStrip
	case closed:
		do = doStale
	}
	var flows []ofp.Flow
	add := func(m ofp.Match, ethType uint16) {
		m.Regs[regOut], m.EthType = ofp.Exactly(number), ethType
		flows = append(flows, p.flow(tableEntry, priorityPort, m, ofp.Actions(nil).Load(regVLAN, isNew).Load(regVID, do).Group(groupID)))
	}
	add(tagged(), 0)
	// Of a frame whose outermost tag was taken away in the bridge the next one is
	// no tag before it is parsed again.
	add(untagged(), tpidCSIG)
	add(untagged(), tpidVLAN)
	return flows
}

// group is the one of groupID.
func (p *pipeline) group() *ofp.Group {
	return &ofp.Group{ID: groupID, Type: ofp.GroupIndirect, Buckets: []ofp.Actions{ofp.Actions(nil).Resubmit(p.base + tableClassify)}}
}

// hook hands the frames of a port's patch partner over, and what the port
// receives to its partner.
func (p *pipeline) hook(number, partner uint32) []ofp.Flow {
	in := func(port uint32, a ofp.Actions) ofp.Flow {
		return ofp.Flow{Priority: priorityHook, Cookie: cookie, Match: ofp.Match{InPort: port}, Actions: a}
	}
	return []ofp.Flow{
		in(partner, ofp.Actions(nil).Load(regOut, number).Resubmit(p.base)),
		in(number, ofp.Actions(nil).Output(partner)),
	}
}

// lease is the flow that expires.
func (p *pipeline) lease(seconds uint16) ofp.Flow {
	f := p.flow(tableLease, 100, ofp.Match{}, ofp.Actions(nil).Resubmit(p.base+tableLive))
	f.HardTimeout = seconds
	return f
}

// entry is a compiled entry as a flow; port 0 is any.
func (p *pipeline) entry(table int, port uint32, e *vlanrules.Entry) ofp.Flow {
	m := tagged()
	if port != 0 {
		m.Regs[regOut] = ofp.Exactly(port)
	}
	if e.Match.PCP.Kind == vlanrules.Ternary {
		m.PCP, m.MatchPCP = uint8(e.Match.PCP.Value), true
	}
	if e.Match.VID.Kind == vlanrules.Ternary {
		m.VID |= e.Match.VID.Value
		m.VIDMask |= e.Match.VID.Mask
	}
	var a ofp.Actions
	if e.Type == vlanrules.RewriteVID {
		a = a.Load(regVID, doRewrite|uint32(e.VID))
	}
	return p.flow(table, priorityEntry+e.Priority, m, a.Resubmit(p.base+tableAct))
}

// entries are the flows of a port's compiled table.
func (p *pipeline) entries(port uint32, t vlanrules.Table) []ofp.Flow {
	flows := make([]ofp.Flow, len(t))
	for i := range t {
		flows[i] = p.entry(tableLive, port, &t[i])
	}
	return flows
}

// record is a flow that no frame meets. It keeps the setup, which the others
// cannot tell.
func (p *pipeline) record() ofp.Flow {
	text, err := json.Marshal(p.setup.Wanted())
	if err != nil {
		text = nil // no setup is like that
	}
	return p.flow(tableEntry, priorityRecord, recordMatch(), ofp.Actions(nil).Note(text))
}

// recordMatch takes frames for a port that there is not.
func recordMatch() ofp.Match {
	var m ofp.Match
	m.Regs[regVID], m.Regs[regOut] = ofp.Exactly(ofp.PortAny), ofp.Exactly(ofp.PortAny)
	return m
}
