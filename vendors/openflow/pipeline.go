package openflow

import (
	"fmt"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// The tables, from Config.Table on.
const (
	tableSelect = iota // does the port update, and is there an agent?
	tableLive          // the signal, for each port
	tableStale         // the fallback
	tables
)

// tableNames are what messages call them.
var tableNames = [tables]string{"select", "live", "stale"}

// portMask is the part of the metadata that has the port's number.
const portMask = 0xfff

// maxPort is the highest number that a port may have; the one above it is no
// port's, and the flows that record the setup match it.
const maxPort = portMask - 1

// Priorities. Those of compiled entries are added to priorityEntry.
const (
	priorityRecord   = 1000 // of tableSelect
	priorityStrip    = 310
	priorityPass     = 300
	priorityOther    = 290 // as priorityPass, of ports that are in no setup
	priorityFallback = 200
	priorityLease    = 101 // and one more
	priorityUnleased = 0

	priorityEntry   = 16 // of tableLive and tableStale
	priorityDefault = 1
)

// cookie marks csig's flows, in its upper half: "csof". The lower half is 0 but in
// the flows that record the setup.
const cookie, cookieMask = 0x63736f66 << 32, 0xffffffff << 32

func isOwn(f *ofp.Flow) bool { return f.Cookie&cookieMask == cookie }

// pipeline makes the flows of a setup.
type pipeline struct {
	base  uint8 // the first table
	setup *vendors.Setup
	stale vlanrules.Table // the same for every port
}

func newPipeline(base uint8, s *vendors.Setup) (*pipeline, error) {
	p := &pipeline{base: base, setup: s}
	if s.OnStale != inventory.Conservative {
		return p, nil
	}
	var res vlanrules.Result
	vlanrules.NewCompiler(Rules(), s.Layout, vlanrules.WithBudget(smallest)).Compile(&res, nil, s.Fallback())
	if res.Verdict.Level == vlanrules.Refused {
		return nil, fmt.Errorf("the stale fallback: %s", res.Verdict.Reason)
	}
	p.stale = res.Table
	return p, nil
}

// smallest is a budget with which the compiler makes the smallest table.
const smallest = 3

func (p *pipeline) flow(table int, priority uint16, m ofp.Match, a ofp.Actions) ofp.Flow {
	return ofp.Flow{Table: p.base + uint8(table), Priority: priority, Cookie: cookie, Match: m, Actions: a}
}

func (p *pipeline) next(f ofp.Flow, table int) ofp.Flow {
	f.Goto, f.Goes = p.base+uint8(table), true
	return f
}

// to takes the frames that are handed over for a port.
func to(port uint32) ofp.Match {
	return ofp.Match{Metadata: ofp.Masked64{Value: uint64(port), Mask: portMask}}
}

// tagged takes those of them with a tag that the switch takes for a VLAN's.
func tagged(port uint32) ofp.Match {
	m := to(port)
	m.VID, m.VIDMask = ofp.VLANPresent, ofp.VLANPresent
	return m
}

func output(port uint32) ofp.Actions { return ofp.Actions(nil).Output(port) }

// pass sends a port's frames out as they are, lease or not.
func (p *pipeline) pass(port uint32, inSetup bool) ofp.Flow {
	priority := uint16(priorityOther)
	if inSetup {
		priority = priorityPass
	}
	return p.flow(tableSelect, priority, to(port), output(port))
}

// fallback has a port fall back alone, while others have their values.
func (p *pipeline) fallback(port uint32) ofp.Flow {
	return p.next(p.flow(tableSelect, priorityFallback, to(port), nil), tableStale)
}

func (p *pipeline) strip(table int, priority uint16, port uint32) ofp.Flow {
	return p.flow(table, priority, tagged(port), ofp.Actions(nil).PopVLAN().Output(port))
}

// unleased sends frames to the fallback where no lease takes them.
func (p *pipeline) unleased() ofp.Flow {
	return p.next(p.flow(tableSelect, priorityUnleased, ofp.Match{}, nil), tableStale)
}

// leases is how many flows the lease has.
const leases = 2

// lease is one of two flows that expire. They are renewed in turns: a switch may
// delete a flow before it adds it again, and the other one is there meanwhile.
func (p *pipeline) lease(slot int, seconds uint16) ofp.Flow {
	f := p.next(p.flow(tableSelect, priorityLease+uint16(slot), ofp.Match{}, nil), tableLive)
	f.HardTimeout = seconds
	return f
}

// unmatched sends frames out as they are that no entry takes.
func (p *pipeline) unmatched(table int, port uint32) ofp.Flow {
	return p.flow(table, priorityDefault, to(port), output(port))
}

// closed has the live table, too, send a port's frames to the fallback.
func (p *pipeline) closed(port uint32) ofp.Flow {
	return p.next(p.flow(tableLive, priorityDefault, to(port), nil), tableStale)
}

// port are a port's constant flows beside those of tableSelect.
func (p *pipeline) port(port uint32, action vlanrules.Action) (flows []ofp.Flow) {
	if action != vlanrules.Update {
		return nil
	}
	flows = append(flows, p.unmatched(tableLive, port), p.unmatched(tableStale, port))
	if p.setup.OnStale == inventory.StaleStrip {
		flows = append(flows, p.strip(tableStale, priorityEntry, port))
	}
	for i := range p.stale {
		flows = append(flows, p.entry(tableStale, port, &p.stale[i]))
	}
	return flows
}

// entry is a compiled entry as a flow.
func (p *pipeline) entry(table int, port uint32, e *vlanrules.Entry) ofp.Flow {
	m := tagged(port)
	if e.Match.PCP.Kind == vlanrules.Ternary {
		m.PCP, m.MatchPCP = uint8(e.Match.PCP.Value), true
	}
	if e.Match.VID.Kind == vlanrules.Ternary {
		m.VID |= e.Match.VID.Value
		m.VIDMask |= e.Match.VID.Mask
	}
	var a ofp.Actions
	if e.Type == vlanrules.RewriteVID {
		a = a.SetVID(e.VID)
	}
	return p.flow(table, priorityEntry+e.Priority, m, a.Output(port))
}

// readEntry is the inverse of entry, for tableLive; false where the flow is none.
func (p *pipeline) readEntry(f *ofp.Flow) (e vlanrules.Entry, ok bool) {
	port := portOf(f)
	if f.Table != p.base+tableLive || f.Priority < priorityEntry {
		return e, false
	}
	e.Priority = f.Priority - priorityEntry
	if f.Match.MatchPCP {
		e.Match.PCP = vlanrules.Field{Kind: vlanrules.Ternary, Value: uint16(f.Match.PCP), Mask: 7}
	}
	if mask := f.Match.VIDMask &^ ofp.VLANPresent; mask != 0 {
		e.Match.VID = vlanrules.Field{Kind: vlanrules.Ternary, Value: f.Match.VID &^ ofp.VLANPresent, Mask: mask}
	}
	e.Type = vlanrules.NoOp
	if vid, sets := setsVID(f.Actions); sets {
		e.Type, e.VID = vlanrules.RewriteVID, vid
	}
	again := p.entry(tableLive, port, &e)
	return e, again.Key() == f.Key() && same(f, &again)
}

// setsVID is the VID that a list of actions begins with setting.
func setsVID(a ofp.Actions) (vid uint16, ok bool) {
	const length, value = 16, 8 // bytes of the action, and where in it the VID is
	if len(a) < length {
		return 0, false
	}
	vid = (uint16(a[value])<<8 | uint16(a[value+1])) &^ ofp.VLANPresent
	return vid, a[:length].Same(ofp.Actions(nil).SetVID(vid))
}

// portOf is the port that a flow of csig's tables is of; 0: of none.
func portOf(f *ofp.Flow) uint32 {
	if m := f.Match.Metadata; m.Mask == portMask && m.Value <= maxPort {
		return uint32(m.Value)
	}
	return 0
}

// same reports whether a flow read back is as csig writes it; but for its timeouts,
// which only the lease has.
func same(have, want *ofp.Flow) bool {
	return have.Cookie == want.Cookie && have.SameInstructions(want) && have.IdleTimeout == 0 && (have.HardTimeout == 0) == (want.HardTimeout == 0)
}
