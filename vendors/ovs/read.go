package ovs

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
)

// state is what the bridge has.
type state struct {
	ports   map[string]ofp.Port
	names   map[uint32]string     // of the ports by number, 15 bytes of each
	flows   []ofp.Flow            // in csig's tables, and csig's own elsewhere
	foreign []ofp.Flow            // foreign ones in csig's tables
	others  []ofp.Flow            // all other foreign ones, where they were asked for
	groups  map[uint32]*ofp.Group // all there are, where they were asked for; nil: they were not
	setup   vendors.Setup         // that was recorded
	found   bool                  // one was
	at      uint8                 // the table that has the record: the first of csig's as they are
	damaged string                // why none could be read
}

// read reads the bridge. With all it reads the flows of every table.
func (d *Driver) read(ctx context.Context, all bool) (*state, error) {
	s := &state{ports: map[string]ofp.Port{}, names: map[uint32]string{}}
	ports, err := d.of.Ports(ctx)
	if err != nil {
		return nil, d.broken(err)
	}
	for _, p := range ports {
		s.ports[p.Name], s.names[p.Number] = p, p.Name
	}
	asked := []uint8{ofp.AllTables}
	if !all {
		asked = asked[:0]
		if len(d.info.partner) > 0 || d.hasHooks {
			asked = append(asked, 0)
		}
		for t := range uint8(tables) {
			asked = append(asked, d.cfg.Table+t)
		}
	}
	for _, t := range asked {
		flows, err := d.of.Flows(ctx, ofp.Filter{Table: t})
		if err != nil {
			return nil, d.broken(err)
		}
		for i := range flows {
			d.sort(s, &flows[i])
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
	return s, nil
}

// groupProblem is what is wrong with csig's group; "" where nothing is, or it was not
// asked for.
func (s *state) groupProblem(pipe *pipeline) string {
	g := s.groups[groupID]
	switch {
	case s.groups == nil || g != nil && g.Same(pipe.group()):
		return ""
	case g == nil:
		return fmt.Sprintf("group %d is gone", groupID)
	}
	return fmt.Sprintf("group %d has other buckets", groupID)
}

func (d *Driver) sort(s *state, f *ofp.Flow) {
	inside := f.Table >= d.cfg.Table && f.Table < d.cfg.Table+tables
	switch {
	case f.Cookie == cookie:
		s.flows = append(s.flows, *f)
		if f.Match == recordMatch() && (!s.found || f.Table == d.cfg.Table+tableEntry) {
			s.readRecord(f)
		}
	case inside && f.Table == d.cfg.Table+tableEntry && sendsOn(f):
		// The application that hands frames over may have its own flow for that.
	case inside:
		s.foreign = append(s.foreign, *f)
	default:
		s.others = append(s.others, *f)
	}
}

func (s *state) readRecord(f *ofp.Flow) {
	text := f.Actions.ReadNote()
	for len(text) > 0 && text[len(text)-1] == 0 {
		text = text[:len(text)-1]
	}
	if err := json.Unmarshal(text, &s.setup); err != nil {
		s.setup, s.damaged = vendors.Setup{}, "the record of the setup cannot be read: "+untrusted.Text(err.Error(), maxText)
		return
	}
	for _, name := range append([]string{s.setup.Profile}, portNames(s.setup.Ports)...) {
		if safe := untrusted.Text(name, len(name)); safe != name {
			s.setup, s.damaged = vendors.Setup{}, "the record of the setup has a name that does not print: "+untrusted.Text(name, maxText)
			return
		}
	}
	s.found, s.at = s.setup.TPID != 0, f.Table-tableEntry
}

func portNames(ports []vendors.PortSetup) (names []string) {
	for i := range ports {
		names = append(names, ports[i].Port)
	}
	return names
}

// sendsOn reports whether a flow, csig's or not, does what pipeline.passing does.
func sendsOn(f *ofp.Flow) bool {
	return f.Priority == 0 && f.Match == (ofp.Match{}) && !f.Goes && f.Plain() && slices.Equal(f.Actions, out())
}

// constant are the flows that a setup's ports and tables have whatever the
// signal is, each with the name of the port that it belongs to.
func (d *Driver) constant(pipe *pipeline, s *state) (mods []ofp.Mod) {
	add := func(name string, flows []ofp.Flow) {
		for i := range flows {
			mods = append(mods, ofp.Mod{Kind: ofp.Add, Flow: &flows[i], Name: name})
		}
	}
	add("", pipe.shared())
	for _, p := range pipe.setup.Ports {
		if number := s.ports[p.Port].Number; number != 0 {
			q := d.byName[p.Port]
			add(p.Port, pipe.port(number, p.Action, q != nil && q.state == closed))
		}
	}
	for i := range d.info.patchPeers {
		to := &d.info.patchPeers[i]
		if number := to.in(s); number != 0 {
			add(to.name, pipe.toBridge(number, pipe.drives(s.names[number]), to))
		}
	}
	// Ports that are in no setup are joined to their patches all the same: who
	// put csig's bridge there wants them to forward.
	for _, name := range slices.Sorted(maps.Keys(d.info.partner)) {
		if number, partner := s.ports[name].Number, d.partnerOf(s, name); number != 0 && partner != 0 {
			add(name, pipe.hook(number, partner))
		}
	}
	return mods
}

// same reports whether a flow read back is one of ours as we write it. Timeouts
// aside: they are the lease's.
func same(have, want *ofp.Flow) bool {
	return have.Cookie == want.Cookie && !have.Goes && have.Plain() && slices.Equal(have.Actions, want.Actions)
}

// Observe reads back the setup. Ports are as they were recorded. Foreign
// flows in csig's tables, where there is no setup of csig's, are a
// *vendors.ForeignError in a *vendors.PermanentError.
func (d *Driver) Observe(ctx context.Context) (vendors.Setup, error) {
	if err := d.connect(ctx); err != nil {
		return vendors.Setup{}, err
	}
	if err := d.look(ctx); err != nil {
		return vendors.Setup{}, err
	}
	s, err := d.read(ctx, true) // csig's tables may have been others
	if err != nil {
		return vendors.Setup{}, err
	}
	if err := d.refuseForeign(s); err != nil {
		return vendors.Setup{}, err
	}
	return d.setupOf(s)
}

// refuseForeign refuses tables that another application uses.
func (d *Driver) refuseForeign(s *state) error {
	if s.found && s.at == d.cfg.Table || len(s.foreign) == 0 {
		return nil
	}
	f := &s.foreign[0]
	return &vendors.PermanentError{Err: &vendors.ForeignError{What: fmt.Sprintf("bridge %s: table %d has %d flows that are not csig's (the first has priority %d and cookie %#x): give csig tables of its own with management: {ovs: {table: N}}, of which it takes N to N+%d, with nothing in them but table=N,priority=0,actions=output:NXM_NX_REG15[]",
		d.cfg.Bridge, f.Table, len(s.foreign), f.Priority, f.Cookie, tables-1)}}
}

// setupOf is the recorded setup, with what is not as Apply leaves it.
func (d *Driver) setupOf(s *state) (vendors.Setup, error) {
	if !s.found {
		return vendors.Setup{Damaged: s.damaged}, nil
	}
	out := s.setup
	if s.at != d.cfg.Table {
		out.Damaged = fmt.Sprintf("it is in tables %d to %d, and is to be in %d to %d; the flow that sends frames on from table %d stays there", s.at, s.at+tables-1, d.cfg.Table, d.cfg.Table+tables-1, s.at)
		return out, nil
	}
	pipe, err := newPipeline(d.cfg.Table, &out)
	if err != nil {
		out.Damaged = err.Error()
		return out, nil
	}
	have := map[ofp.Key]*ofp.Flow{}
	for i := range s.flows {
		have[s.flows[i].Key()] = &s.flows[i]
	}
	// A port that an agent has closed for want of room is not damaged.
	noRoom := map[ofp.Key]ofp.Flow{}
	damage := map[string]string{}
	for _, p := range out.Ports {
		for _, f := range pipe.port(s.ports[p.Port].Number, p.Action, true) {
			noRoom[f.Key()] = f
		}
	}
	for _, m := range d.constant(pipe, s) {
		h, at := have[m.Flow.Key()], m.Name
		if !out.HasPort(at) {
			at = ""
		}
		switch c, is := noRoom[m.Flow.Key()]; {
		case h == nil:
			damage[at] = fmt.Sprintf("a flow of table %d is gone", m.Flow.Table)
		case !same(h, m.Flow) && !(is && same(h, &c)):
			damage[at] = fmt.Sprintf("a flow of table %d has other actions", m.Flow.Table)
		}
	}
	if why := s.groupProblem(pipe); why != "" {
		damage[""] = why
	}
	out.Damaged = damage[""]
	for i := range out.Ports {
		p := &out.Ports[i]
		p.Damaged = damage[p.Port]
		if f := d.taker(s, s.ports[p.Port].Number, p.Action); f != nil {
			p.Damaged = vendors.FlowTakes(f.Where()).Error()
		}
	}
	return out, nil
}
