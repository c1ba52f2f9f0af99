package openflow

import (
	"context"
	"fmt"
	"time"

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Update makes the live flows of the ports those of the intents, step by step, and
// then renews the lease, rounded up to whole seconds.
func (d *Driver) Update(ctx context.Context, updates []vendors.PortUpdate, lease time.Duration) (vendors.UpdateResult, error) {
	return d.update(ctx, d, updates, lease)
}

// write brings ports to their intents, and renews the lease.
func (d *Driver) write(ctx context.Context, updates []vendors.PortUpdate, start time.Time, lease time.Duration, res *vendors.UpdateResult) (errs []error, err error) {
	jobs := make([]*job, 0, len(updates))
	listed := make(map[*port]bool, len(updates))
	for i := range updates {
		u := &updates[i]
		p := d.byName[u.Port]
		if p == nil {
			errs = append(errs, vendors.NotInSetup(u.Port))
			continue
		}
		listed[p] = true
		j, err := d.jobFor(p, u.Intents)
		if err != nil {
			errs = append(errs, err)
		}
		if err := p.problem(); err != nil {
			errs = append(errs, err)
		} else if d.bypassed != nil {
			errs = append(errs, &vendors.PermanentError{Port: p.name, Err: d.bypassed})
		}
		if len(j.steps) > 0 {
			jobs = append(jobs, j)
		}
	}
	for _, p := range d.ports { // those that have no signal
		if err := p.problem(); err != nil && p.action != vlanrules.Update && !listed[p] {
			errs = append(errs, err)
		}
	}
	refused, err := d.change(ctx, jobs, res)
	if errs = append(errs, refused...); err != nil {
		return errs, err
	}
	if !time.Now().Before(d.until) {
		// It has ended, perhaps meanwhile: under a new one its values would be back.
		jobs = jobs[:0]
		for _, p := range d.ports {
			if p.action == vlanrules.Update && p.number != 0 && !listed[p] && !p.fallback {
				j := &job{name: p.name, port: p}
				d.toFallback(j)
				jobs = append(jobs, j)
			}
		}
		refused, err = d.change(ctx, jobs, res)
		if errs = append(errs, refused...); err != nil {
			return errs, err
		}
	}
	until := start.Add(lease)
	if err := d.renew(ctx, until, lease); err != nil {
		return errs, err
	}
	for _, p := range d.ports {
		res.Entries += len(p.have)
	}
	d.until, res.Lease = until, time.Duration(ofp.Seconds(lease))*time.Second
	return errs, nil
}

// change carries jobs of ports out. errs are of single ports; err ends the update.
func (d *Driver) change(ctx context.Context, jobs []*job, res *vendors.UpdateResult) (errs []error, err error) {
	sent, err := d.run(ctx, jobs...)
	if res.Ops += sent; err != nil {
		return nil, err
	}
	var failed []*port
	for _, j := range jobs {
		p := j.port
		if j.err() == nil {
			p.done()
			res.Ports++
			continue
		}
		p.fails(j.err())
		errs = append(errs, p.problem())
		failed = append(failed, p)
	}
	return errs, d.fallBack(ctx, failed)
}

// fallBack has ports fall back whose flows were refused, and deletes their live
// entries, which makes room for others. A port without room for the flow that leads it
// to the stale table is sent there by its live flows: to modify one takes no room.
func (d *Driver) fallBack(ctx context.Context, failed []*port) error {
	var jobs []*job
	for _, p := range failed {
		if p.action == vlanrules.Update && p.number != 0 {
			j := &job{name: p.name, port: p}
			d.toFallback(j)
			j.add(d.clear(p))
			jobs = append(jobs, j)
		}
	}
	if _, err := d.run(ctx, jobs...); err != nil {
		return err
	}
	var full []*job
	for _, j := range jobs {
		if j.port.fallback = j.err() == nil; j.port.fallback {
			continue
		}
		all, entries := d.clear(j.port), d.clear(j.port)
		stale := d.pipe.closed(j.port.number)
		all.Kind, all.Flow = ofp.ModifyAll, &stale
		entries.Flow.Match = tagged(j.port.number)
		full = append(full, &job{name: j.name, port: j.port, steps: [][]ofp.Mod{{all}, {entries}}})
	}
	if _, err := d.run(ctx, full...); err != nil {
		return err
	}
	for _, j := range full {
		if j.err() != nil {
			d.known.Doubt()
			return fmt.Errorf("the lease is not renewed: port %s has neither its values nor its fallback: %w", j.name, j.err())
		}
	}
	return nil
}

// done notes that a port's job was carried out.
func (p *port) done() {
	if p.fallback = !p.Given() || p.Refused(); p.fallback || p.late {
		p.dirty, p.current = true, false
		return
	}
	p.have, p.dirty, p.current = p.Result.Table, false, true
}

// jobFor is what brings a port to its intents; the error is why they cannot be
// carried out.
func (d *Driver) jobFor(p *port, intents []vlanrules.Intent) (*job, error) {
	j := &job{name: p.name, port: p}
	fresh, err := p.Give(d.setup, p.name, p.action, intents)
	if p.number == 0 || p.failed != nil || p.action != vlanrules.Update {
		return j, err
	}
	if fresh {
		p.current = false
	}
	if p.current || err != nil && p.fallback {
		return j, err
	}
	rebuild := p.fallback || p.dirty
	have := p.have
	if rebuild {
		have = nil
	}
	if err == nil {
		err = p.Compile(d.compiler, p.name, have)
	}
	switch {
	case err != nil && p.fallback:
	case err != nil:
		d.toFallback(j)
	case rebuild:
		d.rebuild(j)
	default:
		d.addOps(j)
		p.current = len(j.steps) == 0
	}
	return j, err
}

// addOps adds the compiler's operations, those of signals side by side: their tags
// differ, and so do their entries.
func (d *Driver) addOps(j *job) {
	p := j.port
	var next [8]int // step of each signal, by T
	for i := range p.Result.Ops {
		op := &p.Result.Ops[i]
		pcp := op.Entry.Match.PCP
		if pcp.Kind != vlanrules.Ternary || pcp.Mask != 7 || pcp.Value > 7 { // of all signals: after all, and before the others
			for t := range next {
				next[t] = len(j.steps) + 1
			}
			j.add(d.op(p, op))
			continue
		}
		step := &next[pcp.Value]
		for len(j.steps) <= *step {
			j.steps = append(j.steps, nil)
		}
		j.steps[*step] = append(j.steps[*step], d.op(p, op))
		*step++
	}
}

// op is an operation of the compiler's as a change of a flow.
func (d *Driver) op(p *port, op *vlanrules.Op) ofp.Mod {
	f := d.pipe.entry(tableLive, p.number, &op.Entry)
	switch op.Kind {
	case vlanrules.Add:
		return ofp.Mod{Kind: ofp.Add, Flow: &f}
	case vlanrules.Modify:
		return ofp.Mod{Kind: ofp.Modify, Flow: &f, CookieMask: cookieMask}
	}
	return remove(&f, p.name)
}

// toFallback has the job's port fall back alone.
func (d *Driver) toFallback(j *job) {
	f := d.pipe.fallback(j.port.number)
	j.add(ofp.Mod{Kind: ofp.Add, Flow: &f})
	j.port.Reset()
}

// rebuild writes a port's live flows while no frame meets them, whatever is there.
func (d *Driver) rebuild(j *job) {
	p := j.port
	d.unread = true
	fallback := d.pipe.fallback(p.number)
	if !p.fallback {
		j.add(ofp.Mod{Kind: ofp.Add, Flow: &fallback})
	}
	j.add(d.clear(p))
	unmatched := d.pipe.unmatched(tableLive, p.number)
	mods := []ofp.Mod{{Kind: ofp.Add, Flow: &unmatched}}
	for i := range p.Result.Table {
		f := d.pipe.entry(tableLive, p.number, &p.Result.Table[i])
		mods = append(mods, ofp.Mod{Kind: ofp.Add, Flow: &f})
	}
	j.add(mods...)
	j.add(remove(&fallback, p.name))
}

// clear is the change that deletes a port's live flows, whatever they are.
func (d *Driver) clear(p *port) ofp.Mod {
	f := ofp.Flow{Table: d.pipe.base + tableLive, Cookie: cookie, Match: to(p.number)}
	return ofp.Mod{Kind: ofp.DeleteAll, Flow: &f, CookieMask: cookieMask}
}

// renew writes the lease's flow that is next. The other one is deleted where a
// longer lease before would have it outlive this one.
func (d *Driver) renew(ctx context.Context, until time.Time, lease time.Duration) error {
	if err := vendors.LateLease(time.Now(), until); err != nil {
		return err
	}
	f := d.pipe.lease(d.slot, ofp.Seconds(lease))
	j := job{}
	j.add(ofp.Mod{Kind: ofp.Add, Flow: &f})
	other := (d.slot + 1) % leases
	ends := time.Now().Add(time.Duration(f.HardTimeout) * time.Second)
	if d.ends[other].After(ends) {
		longer := d.pipe.lease(other, 0)
		j.add(remove(&longer, ""))
		d.ends[other] = time.Time{}
	}
	if _, err := d.run(ctx, &j); err != nil {
		return err
	}
	if j.err() != nil {
		d.known.Doubt()
		return fmt.Errorf("the switch refuses the lease: %w", j.err())
	}
	d.ends[d.slot], d.slot = ends, other
	return nil
}

// check reads the switch and repairs what is not as we left it.
func (d *Driver) check(ctx context.Context, res *vendors.UpdateResult) error {
	all := time.Since(d.pathRead) >= pathEvery
	s, err := d.read(ctx, all)
	empty := err == nil && len(s.own) == 0
	if empty && !all { // the operator's may be gone with them
		all = true
		s, err = d.read(ctx, all)
	}
	if err != nil {
		return err
	}
	if all {
		if err := d.news(ctx, s, res); err != nil {
			return err
		}
		d.pathRead = time.Now()
	}
	res.Restarted = d.reconnected && empty
	changes, err := d.sync(ctx, s, true)
	if err != nil {
		return err
	}
	if empty {
		res.NoteRepair("", flowsObject, emptied(res.Restarted))
		return nil
	}
	for _, c := range changes {
		res.NoteRepair(c.Port, c.What, c.Detail)
	}
	return nil
}
