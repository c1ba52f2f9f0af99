package ovs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Apply makes the bridge's flows those of the setup, in one bundle: frames see
// the old setup or the new one. What the bridge cannot have is refused before
// anything is written. A port that is not there is an error of that port; the
// others are done all the same. Where there is no room for all ports, each has
// the fallback and an error, and updates open them one by one.
func (d *Driver) Apply(ctx context.Context, want vendors.Setup) error {
	if err := validate(&want); err != nil {
		return err
	}
	if err := d.connect(ctx); err != nil {
		return err
	}
	d.bare = false
	if err := d.claim(ctx); err != nil {
		return err
	}
	s := want.Wanted()
	pipe, err := newPipeline(d.cfg.Table, s)
	if err != nil {
		return &vendors.PermanentError{Err: err}
	}
	have, err := d.read(ctx, true)
	if err != nil {
		return err
	}
	if err := d.refuse(have, s); err != nil {
		return err
	}
	old := d.setup
	if old == nil && have.found {
		old = &have.setup
	}
	keep := old != nil && old.Layout == s.Layout && slices.Equal(old.Signals, s.Signals)
	d.setup, d.pipe, d.compiler = s, pipe, vlanrules.NewCompiler(Rules(), s.Layout)
	d.ports, d.byName = nil, make(map[string]*port, len(s.Ports))
	for _, p := range s.Ports {
		q := &port{name: p.Port, action: p.Action}
		d.ports = append(d.ports, q)
		d.byName[p.Port] = q
	}
	d.known = vendors.Unread
	if _, err := d.sync(ctx, have, keep); err != nil {
		return err
	}
	errs := []error{d.leaseTaken}
	for _, p := range d.ports {
		errs = append(errs, d.problem(p))
		if p.state == closed {
			errs = append(errs, &vendors.PortError{Port: p.name, Err: fmt.Errorf("bridge %s has no room for the flows of all ports: this one has the fallback, until an update of an agent opens as many as there is room for, those with the least to give first", d.cfg.Bridge)})
		}
	}
	return errors.Join(errs...)
}

// problem is why a port is not as its setup says, or may not be, nil where it is.
func (d *Driver) problem(p *port) error {
	if p.number == 0 {
		return &vendors.PortError{Port: p.name, Err: fmt.Errorf("bridge %s has no such port; it is programmed as soon as it appears", d.cfg.Bridge)}
	}
	if p.foreign != nil {
		return &vendors.PortError{Port: p.name, Err: vendors.FlowTakes(p.foreign.Where())}
	}
	if why := d.duplicatePatches(p.name); why != "" {
		return &vendors.PortError{Port: p.name, Err: errors.New(why)}
	}
	return nil
}

// repair is a bundle that brings the bridge to d.setup, and what it changes.
type repair struct {
	*Driver
	s        *state
	wasKnown bool              // what the bridge had, so that what it does not have was changed by another process
	moved    map[string]bool   // ports that came, left, or have another number: no one changed flows of csig's
	what     map[string]string // was not as csig left it, of ports; "" is what all share
	live     map[uint32][]ofp.Flow
	hadLease bool
}

func (r *repair) note(port, format string, args ...any) {
	if r.what[port] == "" && !r.moved[port] {
		r.what[port] = fmt.Sprintf(format, args...)
	}
}

func (r *repair) remove(f *ofp.Flow) { r.mods = append(r.mods, remove(f, "")) }

// remove is the change that deletes a flow of csig's, and none with another cookie.
func remove(f *ofp.Flow, name string) ofp.Mod {
	return ofp.Mod{Kind: ofp.Delete, Flow: f, Name: name, CookieMask: math.MaxUint64}
}

// sync brings the bridge to d.setup, in one bundle, and our knowledge to the
// bridge. It returns what it had to change. keep leaves the signal as it is
// found.
func (d *Driver) sync(ctx context.Context, s *state, keep bool) ([]vendors.Change, error) {
	r := repair{Driver: d, s: s, wasKnown: d.known != vendors.Unread, moved: map[string]bool{}, what: map[string]string{}, live: map[uint32][]ofp.Flow{}}
	d.known.Doubt()
	d.mods = d.mods[:0]
	for _, p := range d.ports {
		number := s.ports[p.name].Number
		r.moved[p.name] = r.wasKnown && p.number != number
		p.number, p.foreign = number, d.taker(s, number, p.action)
		p.changes()
		if number != 0 {
			r.live[number] = nil
		}
	}
	r.stageConstant()
	if r.wasKnown && !r.hadLease && time.Now().Before(d.until) {
		r.note("", "the lease was gone, and ports had fallen back")
	}
	for _, p := range d.ports {
		r.stagePort(p, keep)
	}
	err := d.commit(ctx)
	var refused *ofp.Error
	if errors.As(err, &refused) && refused.TableFull() && d.closeAll() {
		// Without their own entries ports take little room; Update opens those
		// that fit.
		return d.sync(ctx, s, false)
	}
	if err != nil {
		return nil, err
	}
	for _, p := range d.ports {
		p.have = p.want
		if p.number != 0 && p.state != closed {
			p.state = settled
		}
	}
	d.known, d.checked = vendors.Current, time.Now()
	d.hasHooks = len(d.info.partner) > 0
	var changes []vendors.Change
	for _, name := range slices.Sorted(maps.Keys(r.what)) {
		changes = append(changes, vendors.Change{Kind: vendors.Alter, Port: name, What: "flows", Detail: r.what[name]})
	}
	return changes, nil
}

// stageConstant stages what does not depend on the signal, and takes in the flows
// that do.
func (r *repair) stageConstant() {
	want := r.constant(r.pipe, r.s)
	wanted := make(map[ofp.Key]*ofp.Flow, len(want))
	for i := range want {
		wanted[want[i].Flow.Key()] = want[i].Flow
	}
	lease := r.pipe.lease(0)
	for i := range r.s.flows {
		f := &r.s.flows[i]
		w := wanted[f.Key()]
		out := f.Match.Regs[regOut].Value
		_, ours := r.live[out]
		switch {
		case w != nil && same(f, w):
			delete(wanted, f.Key())
		case w != nil: // replaced below
		case f.Key() == lease.Key() && same(f, &lease):
			r.hadLease = true
		case r.isLive(f) && ours:
			r.live[out] = append(r.live[out], *f)
		case sendsOn(f) && (f.Table < r.cfg.Table || f.Table >= r.cfg.Table+tables):
			// Of tables that csig had before: a foreign flow may hand frames over there.
		case r.s.left(f):
			r.remove(f)
		default:
			if !isToBridge(f) {
				r.note("", "a flow of table %d was one too many", f.Table)
			}
			r.remove(f)
		}
	}
	why := r.s.groupProblem(r.pipe)
	if why != "" {
		r.note("", "%s", why)
	}
	// Deleting a group deletes the flows that refer to it.
	if why != "" || len(wanted) > 0 {
		r.mods = append(r.mods, ofp.Mod{Kind: ofp.AddOrModify, Group: r.pipe.group()})
	}
	r.leaseTaken = nil
	for i := range r.s.foreign { // an Add in its place would overwrite it
		f := &r.s.foreign[i]
		if delete(wanted, f.Key()); f.Key() == lease.Key() {
			r.leaseTaken = &vendors.PermanentError{Err: &vendors.ForeignError{What: vendors.FlowTakes(f.Where()).Error()}}
		}
	}
	for _, m := range want {
		if wanted[m.Flow.Key()] == nil {
			continue
		}
		if !isToBridge(m.Flow) {
			r.note(m.Name, "a flow of table %d was missing or changed", m.Flow.Table)
		}
		r.mods = append(r.mods, m)
	}
}

// stagePort stages a port's live flows.
func (r *repair) stagePort(p *port, keep bool) {
	found := r.live[p.number]
	if r.wasKnown && p.number != 0 && !sameFlows(found, p.have) {
		r.note(p.name, "flows of table %d were changed", r.cfg.Table+tableLive)
	}
	p.have = found
	switch {
	case p.number == 0 || p.action != vlanrules.Update || p.state == closed:
		p.want = nil
		p.Reset()
	case p.Given(), p.foreign != nil:
		r.lower(p)
	case keep && len(found) > 0:
		p.want = found
	default:
		// Under a lease a port without entries would let every tag pass as if it
		// had room.
		p.want = r.fallback(p)
	}
	if p.state != closed {
		r.stage(p)
		return
	}
	for i := range found {
		r.remove(&found[i])
	}
}

// closeAll closes the ports that have entries of their own, and reports whether
// there were any.
func (d *Driver) closeAll() (any bool) {
	for _, p := range d.ports {
		if p.action == vlanrules.Update && p.state != closed {
			p.state, any = closed, true
		}
	}
	return any
}

func (d *Driver) isLive(f *ofp.Flow) bool {
	return f.Table == d.cfg.Table+tableLive && f.Match.Regs[regOut].Mask == 0xffffffff
}

// sameFlows compares flows in any order.
func sameFlows(a, b []ofp.Flow) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if f := find(b, &a[i]); f == nil || !same(f, &a[i]) {
			return false
		}
	}
	return true
}

func find(flows []ofp.Flow, f *ofp.Flow) *ofp.Flow {
	for i := range flows {
		g := &flows[i]
		if g.Priority == f.Priority && g.Table == f.Table && g.Match == f.Match {
			return g
		}
	}
	return nil
}

// fallback are a port's live flows while no value is known for it.
func (d *Driver) fallback(p *port) []ofp.Flow {
	if d.setup.OnStale == inventory.StaleStrip {
		m := tagged()
		m.Regs[regOut] = ofp.Exactly(p.number)
		return []ofp.Flow{d.pipe.flow(tableLive, priorityEntry, m, ofp.Actions(nil).Load(regVID, doStrip).Resubmit(d.pipe.base+tableAct))}
	}
	return d.pipe.entries(p.number, d.pipe.stale)
}

// stage appends what changes of a port's live flows.
func (d *Driver) stage(p *port) (ops int) {
	before := len(d.mods)
	if p.state == closed {
		open := d.pipe.port(p.number, p.action, false)
		for i := range open {
			d.mods = append(d.mods, ofp.Mod{Kind: ofp.Add, Flow: &open[i], Name: p.name})
		}
	}
	for i := range p.want {
		w := &p.want[i]
		if h := find(p.have, w); h == nil || !same(h, w) {
			d.mods = append(d.mods, ofp.Mod{Kind: ofp.Add, Flow: w, Name: p.name})
		}
	}
	for i := range p.have {
		if h := &p.have[i]; find(p.want, h) == nil {
			d.mods = append(d.mods, remove(h, p.name))
		}
	}
	return len(d.mods) - before
}

// commit sends the bundle. A refusal that belongs to a port names it.
func (d *Driver) commit(ctx context.Context) error {
	err := d.of.Commit(ctx, d.mods)
	var refused *ofp.Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &refused):
		return d.broken(err)
	case refused.TableFull():
		err = fmt.Errorf("bridge %s has no room for csig's flows, and nothing was changed: make room, or lift the table's flow_limit (ovs-vsctl list Flow_Table): %w", d.cfg.Bridge, err)
	default:
		err = fmt.Errorf("bridge %s refuses csig's flows, and nothing was changed: %w", d.cfg.Bridge, err)
	}
	if refused.Name != "" {
		return &vendors.PortError{Port: refused.Name, Err: err}
	}
	return err
}

// refuse refuses what this bridge cannot have.
func (d *Driver) refuse(have *state, want *vendors.Setup) error {
	if err := d.refuseForeign(have); err != nil {
		return err
	}
	active := slices.ContainsFunc(want.Ports, func(p vendors.PortSetup) bool { return p.Action != vlanrules.Passthrough })
	if !active {
		return nil
	}
	if v, _ := d.framePath(have); v.Level == vlanrules.Refused {
		return &vendors.PermanentError{Err: errors.New(v.Reason)}
	}
	return nil
}

// validate refuses a setup that this platform cannot have.
func validate(s *vendors.Setup) error {
	err := s.Check("", func(p *vendors.PortSetup) error {
		switch {
		case p.Port == "" || len(p.Port) > maxName:
			return fmt.Errorf("%q is no name of a port: OpenFlow has 1 to %d bytes of it", p.Port, maxName)
		case p.StripOthers, p.Action == vlanrules.Strip && len(s.Others) > 0:
			return errors.New(noOthers)
		case p.Action != vlanrules.Passthrough && s.TPID != tpidCSIG:
			return fmt.Errorf("its action is %s, and the TPID is 0x%04x: Open vSwitch parses only 0x8100 and 0x88a8, so that 0x88a8 has to be CSIG's", p.Action, s.TPID)
		case p.Action == vlanrules.Strip && s.WideTPID != 0:
			return errors.New("it strips, and the domain has wide tags: Open vSwitch cannot remove them")
		}
		return nil
	})
	if n := len((&pipeline{setup: s}).record().Actions); err == nil && n > maxRecord {
		return &vendors.PermanentError{Err: fmt.Errorf("the setup of its %d ports takes %d bytes, and a flow has room for %d: leave ports out, or give them names in series, which are recorded as such", len(s.Ports), n, maxRecord)}
	}
	return err
}

// maxRecord is the longest record of a setup, in bytes: a message of OpenFlow,
// and so the flow in it, has less than 65,536.
const maxRecord = 64000

const noOthers = "tags of other TPIDs cannot be removed: Open vSwitch parses only 0x8100 and 0x88a8"

// maxName is the longest name of a port that OpenFlow shows, in bytes.
const maxName = 15
