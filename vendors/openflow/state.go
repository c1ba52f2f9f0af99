package openflow

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// state is what the switch has.
type state struct {
	portNames
	own     []ofp.Flow // csig's, in any table that was read
	foreign []ofp.Flow // foreign ones in csig's tables
	others  []ofp.Flow // foreign ones in other tables, where they were read
	groups  map[uint32]*ofp.Group
	moved   map[uint32]string // the driver's
	base    uint8             // the first of csig's tables, as they are to be

	setup  vendors.Setup // that was recorded, without ports
	found  bool
	at     uint8  // the table that has the record
	damage string // why it cannot be read
}

// read reads the switch: csig's tables, or with all every table and the groups.
func (d *Driver) read(ctx context.Context, all bool) (*state, error) {
	s := &state{base: d.cfg.Table, moved: d.moved}
	var err error
	if s.portNames, err = d.readPorts(ctx); err != nil {
		return nil, err
	}
	tables := []uint8{ofp.AllTables}
	if !all {
		tables = []uint8{s.base + tableSelect, s.base + tableLive, s.base + tableStale}
	}
	for _, t := range tables {
		flows, err := d.of.Flows(ctx, ofp.Filter{Table: t})
		if err != nil {
			return nil, d.broken(err)
		}
		for i := range flows {
			s.sort(&flows[i])
		}
	}
	if all {
		groups, err := d.of.Groups(ctx)
		if err != nil {
			return nil, d.broken(err)
		}
		s.groups = make(map[uint32]*ofp.Group, len(groups))
		for i := range groups {
			s.groups[groups[i].ID] = &groups[i]
		}
	}
	s.readSetup()
	return s, nil
}

// inside reports whether a table is one of csig's.
func (s *state) inside(table uint8) bool { return table >= s.base && table < s.base+tables }

func (s *state) sort(f *ofp.Flow) {
	switch {
	case isOwn(f):
		s.own = append(s.own, *f)
	case s.inside(f.Table):
		s.foreign = append(s.foreign, *f)
	default:
		s.others = append(s.others, *f)
	}
}

// bases are the tables in which csig's first table may be, or have been.
func (s *state) bases() []uint8 {
	seen := map[uint8]bool{}
	for i := range s.own {
		if f := &s.own[i]; isPass(f, priorityOther) || isPass(f, priorityPass) || isRecord(f) {
			seen[f.Table] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// numbers are the switch's ports that csig's tables can serve.
func (s *state) numbers() []uint32 {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.names)), func(n uint32) bool { return n == 0 || n > maxPort })
}

// readSetup reads the record, that in csig's tables as they are to be if there is one.
func (s *state) readSetup() {
	records := map[uint8][]*ofp.Flow{}
	for i := range s.own {
		if f := &s.own[i]; isRecord(f) {
			records[f.Table] = append(records[f.Table], f)
		}
	}
	s.at = s.base
	if records[s.base] == nil && len(records) > 0 {
		s.at = slices.Min(slices.Collect(maps.Keys(records)))
	}
	var err error
	if s.setup, s.found, err = readRecord(records[s.at]); err != nil {
		s.setup, s.damage = vendors.Setup{}, "the record of the setup cannot be read: "+untrusted.Text(err.Error(), maxText)
	}
	if s.found || s.damage != "" {
		return
	}
	for i := range s.own {
		if f := &s.own[i]; s.inside(f.Table) && !isPass(f, priorityOther) {
			s.damage = "there are flows of csig's without the record of a setup"
			return
		}
	}
}

// maxText bounds what is printed of a message of the switch's, in bytes.
const maxText = 200

// seen is what the flows of one port in csig's tables are.
type seen struct {
	pass, strip, fallback bool
	updates               bool // it has flows of a port that updates
	entries               vlanrules.Table
	unreadable            bool // there are flows among its entries that are none
}

// portFlows are the flows of ports, by their numbers.
func (s *state) portFlows() map[uint32]*seen {
	pipe := pipeline{base: s.base}
	out := map[uint32]*seen{}
	for i := range s.own {
		f := &s.own[i]
		number := portOf(f)
		if number == 0 || !s.inside(f.Table) {
			continue
		}
		p := out[number]
		if p == nil {
			p = &seen{}
			out[number] = p
		}
		switch table := f.Table - s.base; {
		case table == tableSelect && f.Match == tagged(number):
			p.strip = p.strip || f.Priority == priorityStrip
		case table == tableSelect && f.Match == to(number):
			p.pass = p.pass || f.Priority == priorityPass
			p.fallback = p.fallback || f.Priority == priorityFallback
		case table == tableSelect:
		case table == tableLive && f.Match == to(number):
			want := pipe.unmatched(tableLive, number)
			p.updates, p.unreadable = true, p.unreadable || f.Key() == want.Key() && !same(f, &want)
		case table == tableLive:
			e, ok := pipe.readEntry(f)
			if p.updates = true; !ok {
				p.unreadable = true
				continue
			}
			p.entries = append(p.entries, e)
		default:
			p.updates = true
		}
	}
	return out
}

// setupOf is the setup that the switch has, with what is not as Apply leaves it.
// Ports are in the order of their numbers.
func (d *Driver) setupOf(s *state) vendors.Setup {
	if !s.found {
		return vendors.Setup{Damaged: s.damage}
	}
	out := s.setup
	if s.at != s.base {
		out.Damaged = fmt.Sprintf("it is in tables %d to %d, and is to be in %d to %d", s.at, s.at+tables-1, s.base, s.base+tables-1)
		return out
	}
	flows := s.portFlows()
	for _, number := range slices.Sorted(maps.Keys(flows)) {
		p := vendors.PortSetup{Port: s.names[number]}
		switch is := flows[number]; {
		case p.Port == "":
			continue // it is not there now
		case is.strip:
			p.Action = vlanrules.Strip
		case is.updates:
			p.Action = vlanrules.Update
		case is.pass:
			p.Action = vlanrules.Passthrough
		default:
			continue
		}
		out.Ports = append(out.Ports, p)
	}
	pipe, err := newPipeline(s.base, &out)
	if err != nil {
		out.Damaged = err.Error()
		return out
	}
	damage := map[string]string{}
	have := s.byKey()
	for _, w := range s.constant(pipe) {
		switch h := have[w.flow.Key()]; {
		case w.name != "" && !out.HasPort(w.name):
		case h == nil && w.flow.Table == s.base+tableLive && flows[portOf(&w.flow)].fallback: // the next rebuild adds it before it removes the fallback
		case h == nil:
			damage[w.name] = "a flow of table " + s.tableText(w.flow.Table) + " is gone"
		case !same(h, &w.flow):
			damage[w.name] = "a flow of table " + s.tableText(w.flow.Table) + " has other actions"
		}
		delete(have, w.flow.Key())
	}
	for _, f := range have {
		if why := s.extra(pipe, &out, f); why != "" {
			name := s.names[portOf(f)]
			if !out.HasPort(name) {
				name = ""
			}
			damage[name] = why
		}
	}
	out.Damaged = damage[""]
	if err := s.taken(pipe); err != nil {
		out.Damaged = err.Error()
	}
	for i := range out.Ports {
		p := &out.Ports[i]
		p.Damaged = damage[p.Port]
		if err := s.shadow(s.number[p.Port], p.Action); err != nil {
			p.Damaged = err.Error()
		}
	}
	return out
}

// tableText is how messages call a table of csig's.
func (s *state) tableText(table uint8) string {
	return fmt.Sprintf("%d (%s)", table, tableNames[table-s.base])
}

// extra is why a flow of csig's is one too many, "" where it is not: the lease, and
// those that an agent writes.
func (s *state) extra(pipe *pipeline, setup *vendors.Setup, f *ofp.Flow) string {
	if !s.inside(f.Table) {
		return ""
	}
	number := portOf(f)
	name := s.names[number]
	if number != 0 && name == "" || isLease(pipe, f) || isPass(f, priorityOther) {
		return ""
	}
	if setup.ActionOf(name) == vlanrules.Update {
		fallback := pipe.fallback(number)
		if _, ok := pipe.readEntry(f); ok || f.Key() == fallback.Key() && same(f, &fallback) {
			return ""
		}
	}
	return "a flow of table " + s.tableText(f.Table) + " is one too many"
}

// isLease reports whether a flow is one of the two that expire.
func isLease(pipe *pipeline, f *ofp.Flow) bool {
	for slot := range leases {
		if l := pipe.lease(slot, 1); f.Key() == l.Key() && same(f, &l) {
			return true
		}
	}
	return false
}

func (s *state) byKey() map[ofp.Key]*ofp.Flow {
	have := make(map[ofp.Key]*ofp.Flow, len(s.own))
	for i := range s.own {
		have[s.own[i].Key()] = &s.own[i]
	}
	return have
}

// wanted is a flow that is to be there, and the port that it belongs to; "" is of
// none.
type wanted struct {
	flow ofp.Flow
	name string
}

// constant are the flows that are there whatever the signal is: the setup's, and of
// the switch's other ports those that send frames on which are handed over.
func (s *state) constant(pipe *pipeline) (out []wanted) {
	add := func(name string, flows ...ofp.Flow) {
		for i := range flows {
			out = append(out, wanted{flows[i], name})
		}
	}
	add("", pipe.unleased())
	add("", pipe.record()...)
	orphans := s.orphans(pipe.setup)
	for _, number := range s.numbers() {
		name := s.names[number]
		action := pipe.setup.ActionOf(name)
		switch was, orphan := orphans[number]; {
		case orphan && was == vlanrules.Update:
			add(name, pipe.port(number, was)...)
			add(name, pipe.fallback(number))
		case orphan && was == vlanrules.Strip:
			add(name, pipe.strip(tableSelect, priorityStrip, number), pipe.pass(number, true))
		case action == vlanrules.Update:
			add(name, pipe.port(number, action)...)
		case action == vlanrules.Strip:
			add(name, pipe.strip(tableSelect, priorityStrip, number), pipe.pass(number, true))
		default:
			add(name, pipe.pass(number, pipe.setup.HasPort(name)))
		}
	}
	return out
}

// orphans are the ports that were in the setup, by their numbers, and that the switch calls
// otherwise now: those of which this driver knows it (moved), and those whose flows update or
// strip tags while the setup has a port that is not found. They fall back, or go on stripping,
// and do not pass tags as they are.
func (s *state) orphans(setup *vendors.Setup) map[uint32]vlanrules.Action {
	out := map[uint32]vlanrules.Action{}
	if slices.ContainsFunc(setup.Ports, func(p vendors.PortSetup) bool { return s.number[p.Port] == 0 }) {
		for number, is := range s.portFlows() {
			switch {
			case is.updates:
				out[number] = vlanrules.Update
			case is.strip:
				out[number] = vlanrules.Strip
			}
		}
	}
	for number, name := range s.moved {
		out[number] = setup.ActionOf(name)
	}
	maps.DeleteFunc(out, func(number uint32, _ vlanrules.Action) bool { return setup.HasPort(s.names[number]) })
	return out
}

// refuseForeign refuses tables that another application uses.
func (d *Driver) refuseForeign(s *state) error {
	if s.found && s.at == s.base || len(s.foreign) == 0 {
		return nil
	}
	f := &s.foreign[0]
	return &vendors.PermanentError{Err: &vendors.ForeignError{What: fmt.Sprintf("table %d has %s not csig's (the first has priority %d and cookie %#x): give csig tables of its own with management: {openflow: {table: N}}, of which it takes N to N+%d, with nothing in them",
		f.Table, count(len(s.foreign), "flow that is", "flows that are"), f.Priority, f.Cookie, tables-1)}}
}
