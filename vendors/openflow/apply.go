package openflow

import (
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

// Apply makes the switch's flows those of the setup. There are no transactions: of a
// port frames see the old setup or the new one, and ports change one after the other.
// What the switch cannot have is refused before anything is written. A port that is
// not there, or for which there is no room, is an error of that port; the others are
// done all the same, and it passes tags through.
func (d *Driver) Apply(ctx context.Context, want vendors.Setup) error {
	if err := validate(&want); err != nil {
		return err
	}
	if err := d.connect(ctx); err != nil {
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
	if err := d.refuse(ctx, have, s); err != nil {
		return err
	}
	keep := false
	if old := d.setup; old != nil || have.found {
		if old == nil {
			old = &have.setup
		}
		keep = old.Layout == s.Layout && slices.Equal(old.Signals, s.Signals)
	}
	d.take(s)
	d.pipe, d.compiler = pipe, vlanrules.NewCompiler(Rules(), s.Layout)
	if _, err := d.sync(ctx, have, keep); err != nil {
		return err
	}
	var errs []error
	for _, p := range d.ports {
		errs = append(errs, p.problem())
	}
	return errors.Join(append(errs, d.otherPorts...)...)
}

// sync brings the switch to d.setup, and our knowledge to the switch. It returns what
// had been changed by another process. keep leaves the signal as it is found.
func (d *Driver) sync(ctx context.Context, s *state, keep bool) ([]vendors.Change, error) {
	d.takeLate() // what has arrived while s was read explains it
	y := &syncing{Driver: d, s: s, keep: keep, wasKnown: d.known != vendors.Unread, what: map[string]string{}, quiet: map[string]bool{}, falling: map[*port]bool{}, closed: map[*port]bool{}, have: s.byKey(), jobs: map[uint32]*job{}}
	y.first.steps, y.last.steps = make([][]ofp.Mod, 2), make([][]ofp.Mod, 2)
	y.quiet[""] = d.lateShared
	d.known.Doubt()
	d.otherPorts, d.lateShared = nil, false
	y.takeIn()
	y.compare()
	for _, number := range slices.Sorted(maps.Keys(y.moved)) {
		name := y.moved[number]
		if now := s.names[number]; now != "" && d.setup.HasPort(name) && !d.setup.HasPort(now) {
			d.otherPorts = append(d.otherPorts, &vendors.PortError{Port: now, Err: fmt.Errorf("it was called %s, which is in the setup: it falls back, or goes on stripping, until it is called so again or the setup is without that port", name)})
		}
	}
	var failed []*port
	for _, run := range [][]*job{{&y.first}, y.sorted(), {&y.last}} {
		if _, err := d.run(ctx, run...); err != nil {
			return nil, err
		}
		for _, j := range run {
			switch {
			case j.err() == nil:
			case j.name == "":
				return nil, fmt.Errorf("the switch refuses flows that all ports need: %w", j.err())
			case j.port != nil:
				j.port.fails(j.err())
				failed = append(failed, j.port)
			default:
				d.otherPorts = append(d.otherPorts, &vendors.PortError{Port: j.name, Err: fmt.Errorf("it is in no setup, and frames that are handed over for it may be lost: %w", j.err())})
			}
		}
	}
	if err := d.fallBack(ctx, failed); err != nil {
		return nil, err
	}
	d.known, d.checked, d.reconnected = vendors.Current, time.Now(), false
	var changes []vendors.Change
	for _, name := range slices.Sorted(maps.Keys(y.what)) {
		changes = append(changes, vendors.Change{Kind: vendors.Alter, Port: name, What: flowsObject, Detail: y.what[name]})
	}
	if err := s.taken(d.pipe); err != nil { // ports have fallen back, lease or not
		d.known.Doubt()
		return nil, err
	}
	return changes, nil
}

// fails notes that the switch refused a port's flows, until the next sync.
func (p *port) fails(err error) {
	p.dirty, p.current, p.failed = true, false, refusal(err)
}

// syncing is one run of sync.
type syncing struct {
	*Driver
	s        *state
	keep     bool
	wasKnown bool              // what the switch had, so that what it does not have was changed by another process
	what     map[string]string // was not as csig left it, of ports; "" is what all share

	quiet   map[string]bool // ports whose flows csig itself did not write, or not there
	falling map[*port]bool  // ports that fall back from here on
	closed  map[*port]bool  // ports whose fallback has to be in the live table, too

	have        map[ofp.Key]*ofp.Flow
	first, last job             // of what all ports share
	jobs        map[uint32]*job // of ports by their numbers
}

func (y *syncing) note(port, format string, args ...any) {
	if y.what[port] == "" && !y.quiet[port] {
		y.what[port] = fmt.Sprintf(format, args...)
	}
}

// The steps of a port's job. A table is written before frames come there, its entries
// before what passes tags through, and is emptied when none do. A port is sent to the
// stale table before anything changes in the live one.
const (
	stepStale     = iota // entries of the stale table, and what strips
	stepUnmatched        // what is below them
	stepEnter            // what is added to the first table
	stepLive             // what is below the live entries
	stepLeave            // what is deleted in the first table
	stepClear            // what else is deleted
	jobSteps
)

func (y *syncing) job(number uint32) *job {
	j := y.jobs[number]
	if j == nil {
		name := y.s.names[number]
		j = &job{name: name, port: y.byName[name], steps: make([][]ofp.Mod, jobSteps)}
		y.jobs[number] = j
	}
	return j
}

func (y *syncing) sorted() (jobs []*job) {
	for _, number := range slices.Sorted(maps.Keys(y.jobs)) {
		jobs = append(jobs, y.jobs[number])
	}
	return jobs
}

// takeIn decides for each port that updates whether it keeps what it has, or falls
// back until it is given its intents.
func (y *syncing) takeIn() {
	found := y.s.portFlows()
	defer func() { // what has left is not called otherwise: another port may have its number next
		maps.DeleteFunc(y.moved, func(number uint32, _ string) bool { return y.s.names[number] == "" })
	}()
	for _, p := range y.ports {
		number := y.s.number[p.name]
		moved := p.number != number
		if moved && p.number != 0 {
			y.moved[p.number] = p.name
		}
		delete(y.moved, number)
		unknown := p.unknown
		y.quiet[p.name] = moved || unknown || p.failed != nil
		p.number, p.failed, p.late, p.unknown = number, nil, false, false
		switch {
		case number == 0:
			p.failed = y.s.missing(p.name)
		case number > maxPort:
			p.failed, p.number = fmt.Errorf("its OpenFlow number is %d, and csig's tables have 12 bits for it", number), 0
		}
		if p.failed == nil && time.Now().Before(p.held.until) {
			p.failed = p.held.why
		}
		if p.action != vlanrules.Update || p.number == 0 {
			if p.number != 0 {
				p.failed = y.s.shadow(p.number, p.action)
			}
			p.Reset()
			continue
		}
		is := found[p.number]
		if is == nil {
			is = &seen{}
		}
		if err := y.s.shadow(p.number, p.action); err != nil {
			p.failed, y.closed[p] = err, y.s.enters(p.number)
		}
		keeps := y.keep && !is.fallback && is.updates
		if y.wasKnown {
			keeps = !p.fallback && !p.dirty && !moved
		}
		changed := y.wasKnown && keeps && !unknown && (is.unreadable || !sameEntries(p.have, is.entries))
		p.have, p.current = is.entries, false
		was := p.fallback && is.fallback
		if p.fallback = !keeps || is.unreadable || changed || p.failed != nil; p.fallback {
			p.dirty = true
		}
		y.falling[p] = p.fallback && !was
		if changed {
			y.note(p.name, "flows of table %s were changed", y.s.tableText(y.s.base+tableLive))
		}
	}
}

// sameEntries compares entries in any order, but for their IDs.
func sameEntries(a, b vlanrules.Table) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !slices.ContainsFunc(b, func(e vlanrules.Entry) bool {
			e.ID = a[i].ID
			return e == a[i]
		}) {
			return false
		}
	}
	return true
}

// compare makes the jobs from what is wanted and what is there.
func (y *syncing) compare() {
	want := y.s.constant(y.pipe)
	for i := range want {
		w := &want[i]
		if p := y.byName[w.name]; y.closed[p] && w.flow.Table == y.pipe.base+tableLive {
			w.flow = y.pipe.closed(p.number)
		}
	}
	for _, p := range y.ports {
		if p.fallback && p.number != 0 {
			want = append(want, wanted{y.pipe.fallback(p.number), p.name})
		}
	}
	left := make(map[ofp.Key]*wanted, len(want))
	for i := range want {
		left[want[i].flow.Key()] = &want[i]
	}
	y.present(left)
	for i := range y.s.foreign { // an Add in its place would overwrite it
		delete(left, y.s.foreign[i].Key())
	}
	for i := range want {
		w := &want[i]
		if left[w.flow.Key()] == nil {
			continue
		}
		p := y.byName[w.name]
		if y.wasKnown && (w.name == "" || p != nil) && !(y.falling[p] && w.flow.Goes) {
			y.note(w.name, "a flow of table %s was missing or changed", y.s.tableText(w.flow.Table))
		}
		y.write(w)
		if w.flow.Table == y.pipe.base+tableLive && y.closed[p] { // before its entries are deleted one by one
			all := y.clear(p)
			all.Kind, all.Flow = ofp.ModifyAll, &w.flow
			y.job(p.number).steps[stepLive] = append(y.job(p.number).steps[stepLive], all)
		}
	}
}

// present goes through what is there, and leaves in left what is not.
func (y *syncing) present(left map[ofp.Key]*wanted) {
	now := time.Now()
	remaining := y.s.leases()
	for i := range y.s.own {
		f := &y.s.own[i]
		w := left[f.Key()]
		number := portOf(f)
		p := y.byName[y.s.names[number]]
		_, isEntry := y.pipe.readEntry(f)
		switch {
		case !y.s.inside(f.Table):
		case w != nil && same(f, &w.flow):
			delete(left, f.Key())
		case w != nil: // replaced by compare
		case isLease(y.pipe, f):
		case y.filled && y.pipe.isFiller(f):
		case number != 0 && y.s.names[number] == "": // another port may have its number next
			y.first.steps[0] = append(y.first.steps[0], remove(f, ""))
		case isEntry && p != nil && p.action == vlanrules.Update && !p.fallback: // Update's
		case number == 0:
			if y.wasKnown && !isRecord(f) {
				y.note("", "a flow of table %s was one too many", y.s.tableText(f.Table))
			}
			y.last.steps[1] = append(y.last.steps[1], remove(f, ""))
		default:
			step := stepClear
			if f.Table == y.s.base+tableSelect && f.Priority != priorityStrip {
				step = stepLeave
			}
			y.job(number).drop(step, f)
			if y.wasKnown && p != nil && !p.fallback {
				y.note(p.name, "a flow of table %s was one too many", y.s.tableText(f.Table))
			}
		}
	}
	for slot, left := range remaining {
		y.ends[slot] = now.Add(left)
	}
	live := slices.Max(remaining[:])
	switch {
	case !y.wasKnown:
		y.until = time.Time{}
		if live > time.Second { // an age is of whole seconds
			y.until = now.Add(live - time.Second)
		}
	case live == 0 && now.Before(y.until):
		if y.until = (time.Time{}); y.leaseSeen { // else it may be refused yet
			y.note("", "the lease was gone, and ports had fallen back")
		}
	}
	y.leaseSeen = live > 0
	if y.slot = 0; remaining[1] < remaining[0] {
		y.slot = 1
	}
}

func (j *job) drop(step int, f *ofp.Flow) { j.steps[step] = append(j.steps[step], remove(f, "")) }

// write puts a flow that is missing, or other than it is to be, into its job.
func (y *syncing) write(w *wanted) {
	f := &w.flow
	m := ofp.Mod{Kind: ofp.Add, Flow: f}
	if h := y.have[f.Key()]; h != nil && h.Cookie == f.Cookie && h.HardTimeout == 0 && h.IdleTimeout == 0 {
		m.Kind, m.CookieMask = ofp.Modify, cookieMask // a switch may delete what it adds again
	}
	number := portOf(f)
	to := &y.first.steps[1]
	switch {
	case isRecord(f):
		to = &y.last.steps[0]
	case number == 0:
	case f.Table == y.s.base+tableLive:
		to = &y.job(number).steps[stepLive]
	case f.Table == y.s.base+tableStale && f.Priority == priorityDefault:
		to = &y.job(number).steps[stepUnmatched]
	case f.Table == y.s.base+tableStale || f.Priority == priorityStrip:
		to = &y.job(number).steps[stepStale]
	default:
		to = &y.job(number).steps[stepEnter]
	}
	*to = append(*to, m)
}
