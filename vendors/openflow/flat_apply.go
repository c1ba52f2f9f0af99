package openflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Diff lists what Apply(want) would change. It reads nothing.
func (d *Flat) Diff(have, want vendors.Setup) ([]vendors.Change, error) { return FlatDiff(have, want) }

// FlatDiff is Diff, of a switch with one table.
func FlatDiff(have, want vendors.Setup) ([]vendors.Change, error) {
	if err := validateFlat(&want); err != nil {
		return nil, err
	}
	return Diff(have, want)
}

const flatStrip = "a match does not see the TPID, and csig's flows are beside those of all traffic: the VLAN tags of ordinary frames would be removed, too"

// validateFlat refuses a setup that a switch with one table cannot have.
func validateFlat(s *vendors.Setup) error {
	if err := s.Check(flatStrip, func(p *vendors.PortSetup) error {
		if p.Strips() {
			return errors.New(flatStrip)
		}
		return nil
	}); err != nil {
		return err
	}
	return validate(s)
}

// refuse refuses what this switch cannot have, before anything is written.
func (d *Flat) refuse(ctx context.Context, seen *flatSeen, want *vendors.Setup, f *flat) error {
	for i := range seen.foreign {
		if !seen.found && f.among(&seen.foreign[i]) {
			return &vendors.PermanentError{Err: &vendors.ForeignError{What: fmt.Sprintf("table %d has a flow of priority %d with cookie %#x that is not csig's, which uses priorities %d to %d: set management: {openflow: {priority: N}} to the lowest of four that no other flow has",
				d.cfg.Table, seen.foreign[i].Priority, seen.foreign[i].Cookie, d.cfg.Priority, d.cfg.Priority+flatRows-1)}}
		}
	}
	for i := range want.Ports {
		p := &want.Ports[i]
		if p.Action != vlanrules.Update {
			continue
		}
		if err := f.refusePort(p.Port, seen); err != nil {
			return &vendors.PermanentError{Port: p.Port, Err: err}
		}
	}
	if err := d.cfg.Undeclared(want, true); err != nil {
		return err
	}
	can, err := d.askFeatures(ctx)
	if err != nil {
		return err
	}
	if can.problem != "" {
		return &vendors.PermanentError{Err: errors.New(can.problem)}
	}
	return d.refuseSize(seen, f, d.capacity(can))
}

const undeclaredFlat = "no match of OpenFlow sees a TPID, so that a frame with an ordinary VLAN tag would be rewritten: say in the fleet file why the declared forwarding flows take none: management: {openflow: {ordinary_vlans: not-handed-over}}, where no such frame meets one of them (in OF-DPA an untagged frame has its port's VLAN, which is to be 1 to 127), or not-parsed, where the switch takes CSIG's TPID alone for a VLAN tag's"

// refusePort is why a port cannot update, nil where it can.
func (f *flat) refusePort(port string, seen *flatSeen) error {
	number := seen.number[port]
	if !slices.ContainsFunc(f.forwards, func(w forward) bool { return w.Port == port }) {
		return fmt.Errorf("no declared flow forwards there, and a match does not see the port by which a frame leaves: add those that do to management: {openflow: {forwarding: […]}}")
	}
	if !f.ofdpa {
		return nil
	}
	if number > maxOFDPAPort {
		return fmt.Errorf("its number is %d, and group IDs have 16 bits for it", number)
	}
	if _, ok := seen.groups[unfiltered(number)]; !ok {
		return fmt.Errorf("it has no L2 Unfiltered Interface group (%#08x), which csig's groups refer to: make one, as a port's VLANs are the operator's", unfiltered(number))
	}
	return nil
}

// capacity is the table's: as the operator has it, or else as the switch reports it; 0: not known.
func (d *Flat) capacity(can *features) int { return cmp.Or(d.cfg.Entries, can.entries) }

// refuseSize refuses a table that is too small, with the numbers.
func (d *Flat) refuseSize(seen *flatSeen, f *flat, room int) error {
	if need, taken := f.entries().need, len(seen.foreign); room > 0 && need+taken > room {
		return &vendors.PermanentError{Err: fmt.Errorf("table %d is too small: csig needs %s, %s the operator's, and it has room for %d", d.cfg.Table, f.entries(), count(taken, "flow in it is", "flows in it are"), room)}
	}
	return nil
}

// Apply makes the switch's flows those of the setup. Of a port frames see what was
// there or the stale value. What the switch cannot have is refused before anything
// is written.
func (d *Flat) Apply(ctx context.Context, want vendors.Setup) error {
	if err := validateFlat(&want); err != nil {
		return err
	}
	if err := d.connect(ctx); err != nil {
		return err
	}
	seen, err := d.read(ctx)
	if err != nil {
		return err
	}
	s := want.Wanted()
	f, err := d.layout(s, seen)
	if err != nil {
		return err
	}
	if err := d.refuse(ctx, seen, s, f); err != nil {
		return err
	}
	if old := &seen.setup; len(seen.own) > 0 && !(seen.found && old.Layout == s.Layout && slices.Equal(old.Signals, s.Signals)) {
		// Values of before have no meaning in another layout. They go while the record
		// still says whose they are.
		if err := d.Release(ctx); err != nil {
			return err
		}
		if seen, err = d.read(ctx); err != nil {
			return err
		}
	}
	d.take(s)
	d.f = f
	for _, p := range d.ports {
		p.number = seen.number[p.name]
	}
	if _, err = d.sync(ctx, seen); err != nil {
		return err
	}
	var errs []error
	for _, p := range d.ports {
		errs = append(errs, p.problem())
	}
	return errors.Join(errs...)
}

// sync brings the switch to the setup, and our knowledge to the switch. It returns
// what it repaired, of ports by their names.
func (d *Flat) sync(ctx context.Context, seen *flatSeen) (repaired vendors.Repairs, err error) {
	stale, err := d.f.stale()
	if err != nil {
		return nil, &vendors.PermanentError{Err: err}
	}
	d.takeLate() // what has arrived while it was read explains it
	wasKnown := d.known != vendors.Unread
	ports, loose := d.f.sort(seen.own, seen.groupList())
	first, jobs := d.shared(seen, loose), []*job(nil)
	next := map[*job]*flatPort{}
	for _, p := range d.ports {
		have := ports[p.number]
		delete(ports, p.number)
		if have == nil {
			have = &flatPort{groups: map[uint32]ofp.Group{}}
		}
		j := &job{name: p.name, port: p}
		unknown := p.unknown
		p.unknown, p.late = false, false
		if p.number == 0 {
			p.failed = seen.missing(p.name)
			continue
		}
		if p.failed = d.f.shadow(p.number, seen.foreign); p.failed != nil {
			p.current = false // what it has ends by its timer
			continue
		}
		if p.action != vlanrules.Update {
			j.steps = d.f.removeAll(have)
			jobs = append(jobs, j)
			continue
		}
		steps, then := d.f.setStale(p.number, have, stale)
		if j.steps = steps; wasKnown && len(steps) > 0 {
			repaired = append(repaired, vendors.Repair{Port: p.name, Object: flowsObject, Text: "its fallback was not as csig writes it"})
		}
		if wasKnown && p.current && !sameBands(&p.flat, &then) {
			if p.current = false; time.Now().Before(p.until) && !unknown {
				repaired = append(repaired, vendors.Repair{Port: p.name, Object: flowsObject, Text: "its flows were changed"})
			}
		}
		p.flat, next[j] = *have, &then
		jobs = append(jobs, j)
	}
	for _, number := range slices.Sorted(maps.Keys(ports)) { // of no port of the setup
		jobs = append(jobs, &job{name: seen.names[number], steps: d.f.removeAll(ports[number])})
	}
	for _, run := range [][]*job{{first}, jobs} {
		if _, err := d.run(ctx, run...); err != nil {
			d.known.Doubt()
			return nil, err
		}
	}
	if err := first.err(); err != nil {
		return nil, refusal(err)
	}
	d.known, d.checked, d.reconnected = vendors.Current, time.Now(), false
	for _, j := range jobs {
		p := d.byName[j.name]
		switch {
		case p == nil && j.err() != nil:
			return nil, refusal(j.err())
		case p == nil:
		case j.err() != nil:
			p.failed, p.current = refusal(j.err()), false
			d.known.Doubt()
		case next[j] != nil:
			p.flat = *next[j]
		}
	}
	return repaired, nil
}

// sameBands reports whether a port's bands are as they are known.
func sameBands(known, have *flatPort) bool {
	for _, row := range []int{rowBand0, rowBand1} {
		if len(known.rows[row]) != len(have.rows[row]) {
			return false
		}
		for _, h := range have.rows[row] {
			if !slices.ContainsFunc(known.rows[row], func(k ofp.Flow) bool { return sameFlat(&h, &k) }) {
				return false
			}
		}
	}
	for id, g := range known.groups {
		if h, ok := have.groups[id]; !ok || !h.Same(&g) {
			return false
		}
	}
	return true
}

// shared is the job of the record, and of flows that are of no declared forwarding.
func (d *Flat) shared(seen *flatSeen, loose []ofp.Flow) *job {
	var bands, others, missing []ofp.Flow
	want := d.f.record(seen.number)
	for _, h := range loose {
		switch {
		case slices.ContainsFunc(want, func(w ofp.Flow) bool { return sameFlat(&h, &w) }):
		case h.HardTimeout > 0:
			bands = append(bands, h)
		default:
			others = append(others, h)
		}
	}
	for _, w := range want {
		if !slices.ContainsFunc(loose, func(h ofp.Flow) bool { return sameFlat(&h, &w) }) {
			missing = append(missing, w)
		}
	}
	j := &job{}
	for _, mods := range [][]ofp.Mod{deletes(bands), deletes(others), adds(missing)} {
		j.add(mods...)
	}
	return j
}
