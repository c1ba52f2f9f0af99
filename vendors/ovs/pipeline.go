package ovs

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ovs/openflow"
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
	regVLAN = 13 // the VLAN tag in front of CSIG's: isAside and its TCI, 0 where there is none
	regVID  = 14 // what becomes of the tag: 0 nothing, or one of the following
	regOut  = 15 // the egress port's OpenFlow number
)

// isAside is a bit of regVLAN.
const isAside = 1 << 16

// Values of regVID.
const (
	doRewrite = 1 << 16 // and the VID below it
	doStrip   = 1 << 17
	doStale   = 1 << 18 // what the fallback says, lease or not
)

// Priorities. Those of compiled entries are added to priorityEntry.
const (
	priorityRecord = 0xffff
	priorityHook   = 0x6000
	priorityEntry  = 0x1000
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
	var want []vlanrules.Intent
	for _, sig := range s.Signals {
		want = append(want, vlanrules.Intent{Signal: sig, Action: vlanrules.Update, S: sig.WorstBucket(), LM: s.Layout.LMStale()})
	}
	var res vlanrules.Result
	vlanrules.NewCompiler(Rules(), s.Layout).Compile(&res, nil, want)
	if res.Verdict.Level == vlanrules.Refused {
		return nil, fmt.Errorf("the stale fallback: %s", res.Verdict.Reason)
	}
	p.stale = res.Table
	return p, nil
}

func (p *pipeline) flow(table int, priority uint16, m openflow.Match, a openflow.Actions) openflow.Flow {
	return openflow.Flow{Table: p.base + uint8(table), Priority: priority, Cookie: cookie, Match: m, Actions: a}
}

// tagged is the match of frames with a tag that the switch parses.
func tagged() openflow.Match {
	return openflow.Match{VID: openflow.VLANPresent, VIDMask: openflow.VLANPresent}
}

func out() openflow.Actions { return openflow.Actions(nil).OutputReg(regOut) }

// again has the switch parse the frame anew and look it up in a table. A frame
// whose MPLS header is taken away is parsed again before it is looked up
// (openvswitch/ovs ofproto/ofproto-dpif-xlate.c, recirc_for_mpls); a header put
// on and taken away at once leaves the frame itself as it was.
func again(a openflow.Actions, table uint8) openflow.Actions {
	return a.PushMPLS(etherMPLS).PopMPLS(tpidCSIG).Resubmit(table)
}

// setAside takes the outermost tag away and keeps it in regVLAN.
func setAside(a openflow.Actions) openflow.Actions {
	a = a.Load(regVLAN, isAside).Move(openflow.FieldVLANVID, 0, openflow.Reg(regVLAN), 0, 12)
	return a.Move(openflow.FieldVLANPCP, 0, openflow.Reg(regVLAN), 13, 3).PopVLAN()
}

// bringBack puts the tag that was set aside back.
func bringBack(a openflow.Actions) openflow.Actions {
	a = a.PushVLAN(tpidVLAN).Move(openflow.Reg(regVLAN), 0, openflow.FieldVLANVID, 0, 12)
	return a.Move(openflow.Reg(regVLAN), 13, openflow.FieldVLANPCP, 0, 3)
}

// setVID writes the VID of regVID into the outermost tag.
func setVID(a openflow.Actions) openflow.Actions {
	return a.Move(openflow.Reg(regVID), 0, openflow.FieldVLANVID, 0, 12)
}

// readTag leaves the tag as it is, and has the switch cache what it said for this
// tag alone, as it does where it rewrites or removes one. Cached flows that
// overlap are what Open vSwitch confuses when it revises them (doc.go).
func readTag(a openflow.Actions) openflow.Actions {
	a = a.Move(openflow.FieldVLANVID, 0, openflow.Reg(regVID), 0, 12)
	return a.Move(openflow.FieldVLANPCP, 0, openflow.Reg(regVID), 13, 3)
}

// passing is the flow that stays when csig goes: whoever hands frames over goes
// on sending them.
func (p *pipeline) passing() openflow.Flow {
	return p.flow(tableEntry, 0, openflow.Match{}, out())
}

// shared are the constant flows that belong to no port.
func (p *pipeline) shared() []openflow.Flow {
	flows := []openflow.Flow{p.passing(), p.record()}
	add := func(table int, priority uint16, m openflow.Match, a openflow.Actions) {
		flows = append(flows, p.flow(table, priority, m, a))
	}
	// A tag with a VLAN's behind it is not CSIG's, which is the last. What
	// stands behind two is not seen. Behind MPLS headers nothing can be parsed
	// again.
	for _, ethType := range []uint16{tpidVLAN, etherMPLS, etherMPLSMulti} {
		m := tagged()
		m.EthType = ethType
		add(tableEntry, 400, m, out())
	}
	// A tag that is the only one may be an ordinary VLAN's, since no match sees
	// a TPID. Behind the tag that was put in front it shows as the ethertype.
	add(tableClassify, 0, tagged(), openflow.Actions(nil).PopVLAN().OutputReg(regOut))
	ours := tagged()
	ours.EthType = tpidCSIG
	add(tableClassify, 100, ours, again(openflow.Actions(nil).PopVLAN(), p.base+tableLease))

	does := func(bit uint32) openflow.Match {
		m := tagged()
		m.Regs[regVID] = openflow.Masked{Value: bit, Mask: bit}
		return m
	}
	add(tableLease, 300, does(doStrip), openflow.Actions(nil).Resubmit(p.base+tableAct))
	add(tableLease, 200, does(doStale), openflow.Actions(nil).Resubmit(p.base+tableStale))
	add(tableLease, 0, openflow.Match{}, openflow.Actions(nil).Resubmit(p.base+tableStale))
	add(tableLive, 0, openflow.Match{}, openflow.Actions(nil).Resubmit(p.base+tableAct))
	miss := openflow.Actions(nil)
	if p.setup.OnStale == inventory.StaleStrip {
		miss = miss.Load(regVID, doStrip)
	}
	add(tableStale, 0, openflow.Match{}, miss.Resubmit(p.base+tableAct))
	for i := range p.stale {
		flows = append(flows, p.entry(tableStale, 0, &p.stale[i]))
	}

	add(tableAct, 100, does(doRewrite), setVID(nil).OutputReg(regOut))
	add(tableAct, 100, does(doStrip), openflow.Actions(nil).PopVLAN().OutputReg(regOut))
	add(tableAct, 0, tagged(), readTag(nil).OutputReg(regOut))
	behind := func(m openflow.Match, ethType uint16) openflow.Match {
		m.Regs[regVLAN], m.EthType = openflow.Masked{Value: isAside, Mask: isAside}, ethType
		return m
	}
	for _, ethType := range []uint16{tpidVLAN, tpidCSIG} { // not the last one either
		add(tableAct, 400, behind(tagged(), ethType), bringBack(readTag(nil)).OutputReg(regOut))
	}
	add(tableAct, 300, behind(does(doRewrite), 0), bringBack(setVID(nil)).OutputReg(regOut))
	add(tableAct, 300, behind(does(doStrip), 0), bringBack(openflow.Actions(nil).PopVLAN()).OutputReg(regOut))
	add(tableAct, 200, behind(tagged(), 0), bringBack(readTag(nil)).OutputReg(regOut))
	return flows
}

// port are the constant flows of a port. A closed one has the fallback, lease
// or not.
func (p *pipeline) port(number uint32, action vlanrules.Action, closed bool) []openflow.Flow {
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
	one, two := tagged(), tagged()
	one.Regs[regOut], two.Regs[regOut] = openflow.Exactly(number), openflow.Exactly(number)
	two.EthType = tpidCSIG
	return []openflow.Flow{
		p.flow(tableEntry, 200, one, again(openflow.Actions(nil).Load(regVLAN, 0).Load(regVID, do).PushVLAN(tpidVLAN), p.base+tableClassify)),
		// The tag behind the outermost one is known to have CSIG's TPID. The
		// registers survive the second look.
		p.flow(tableEntry, 300, two, again(setAside(nil).Load(regVID, do), p.base+tableLease)),
	}
}

// hook hands the frames of a port's patch partner over, and what the port
// receives to its partner.
func (p *pipeline) hook(number, partner uint32) []openflow.Flow {
	in := func(port uint32, a openflow.Actions) openflow.Flow {
		return openflow.Flow{Priority: priorityHook, Cookie: cookie, Match: openflow.Match{InPort: port}, Actions: a}
	}
	return []openflow.Flow{
		in(partner, openflow.Actions(nil).Load(regOut, number).Resubmit(p.base)),
		in(number, openflow.Actions(nil).Output(partner)),
	}
}

// lease is the flow that expires.
func (p *pipeline) lease(seconds uint16) openflow.Flow {
	f := p.flow(tableLease, 100, openflow.Match{}, openflow.Actions(nil).Resubmit(p.base+tableLive))
	f.HardTimeout = seconds
	return f
}

// entry is a compiled entry as a flow; port 0 is any.
func (p *pipeline) entry(table int, port uint32, e *vlanrules.Entry) openflow.Flow {
	m := tagged()
	if port != 0 {
		m.Regs[regOut] = openflow.Exactly(port)
	}
	if e.Match.PCP.Kind == vlanrules.Ternary {
		m.PCP, m.MatchPCP = uint8(e.Match.PCP.Value), true
	}
	if e.Match.VID.Kind == vlanrules.Ternary {
		m.VID |= e.Match.VID.Value
		m.VIDMask |= e.Match.VID.Mask
	}
	var a openflow.Actions
	if e.Type == vlanrules.RewriteVID {
		a = a.Load(regVID, doRewrite|uint32(e.VID))
	}
	return p.flow(table, priorityEntry+e.Priority, m, a.Resubmit(p.base+tableAct))
}

// entries appends the flows of a port's compiled table.
func (p *pipeline) entries(dst []openflow.Flow, port uint32, t vlanrules.Table) []openflow.Flow {
	for i := range t {
		dst = append(dst, p.entry(tableLive, port, &t[i]))
	}
	return dst
}

// record is a flow that no frame meets. It keeps the setup, which the others
// cannot tell.
func (p *pipeline) record() openflow.Flow {
	s := *p.setup
	s.Config, s.Damaged = "", ""
	s.Ports = slices.Clone(s.Ports)
	for i := range s.Ports {
		s.Ports[i].Damaged = ""
	}
	text, err := json.Marshal(s)
	if err != nil {
		text = nil // no setup is like that
	}
	return p.flow(tableEntry, priorityRecord, recordMatch(), openflow.Actions(nil).Note(text))
}

// recordMatch takes frames for a port that there is not.
func recordMatch() openflow.Match {
	var m openflow.Match
	m.Regs[regVID], m.Regs[regOut] = openflow.Exactly(openflow.PortAny), openflow.Exactly(openflow.PortAny)
	return m
}
