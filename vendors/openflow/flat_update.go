package openflow

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Update writes the other band of each port whose intents are new or whose band would
// end within a lease, and then deletes the first: see flat. A band lasts twice the
// lease from the call on, in whole seconds.
func (d *Flat) Update(ctx context.Context, updates []vendors.PortUpdate, lease time.Duration) (vendors.UpdateResult, error) {
	return d.update(ctx, d, updates, lease)
}

// bandLasts is how long a band lasts: an update that leaves it alone leaves at least
// a lease of it.
func bandLasts(lease time.Duration) time.Duration {
	return time.Duration(ofp.Seconds(2*lease)) * time.Second
}

func (d *Flat) check(ctx context.Context, res *vendors.UpdateResult) error {
	seen, err := d.read(ctx)
	if err != nil {
		return err
	}
	// Ports may have come, gone or got other numbers. While one is gone the others
	// keep what they have.
	if f, err := d.layout(d.setup, seen); err == nil {
		d.f = f
		for _, p := range d.ports {
			p.number = seen.number[p.name]
		}
	}
	res.Restarted = d.reconnected && len(seen.own) == 0
	repaired, err := d.sync(ctx, seen)
	if err != nil {
		return err
	}
	if len(seen.own) == 0 {
		repaired = vendors.Repairs{{Object: flowsObject, Text: emptied(res.Restarted)}}
	}
	res.Repaired = repaired
	return nil
}

// write brings ports to their intents. Those that are not listed stay as they are, and
// their bands are renewed with the others.
func (d *Flat) write(ctx context.Context, updates []vendors.PortUpdate, start time.Time, lease time.Duration, res *vendors.UpdateResult) (errs []error, err error) {
	listed := map[*port]bool{}
	for i := range updates {
		p := d.byName[updates[i].Port]
		if p == nil {
			errs = append(errs, vendors.NotInSetup(updates[i].Port))
			continue
		}
		listed[p] = true
		fresh, err := p.Give(d.setup, p.name, p.action, updates[i].Intents)
		if err != nil {
			errs = append(errs, err)
		}
		if err := p.problem(); err != nil {
			errs = append(errs, err)
		}
		p.current = p.current && !fresh
	}
	until := start.Add(bandLasts(lease))
	var jobs []*job
	refills := map[*job]*refill{}
	for _, p := range d.ports {
		now := time.Now()
		if p.action != vlanrules.Update || p.failed != nil || !listed[p] && !now.Before(p.until) {
			continue
		}
		if left := p.until.Sub(now); p.current && left >= lease && !p.until.After(until) { // else of a longer lease before
			continue
		}
		var entries []cover
		if !p.Refused() {
			if entries, err = d.f.live(p.Intents()); err != nil {
				errs = append(errs, p.Refuse(p.name, err.Error()))
				entries = nil
			}
		}
		d.unread = d.unread || p.until.IsZero() // its first values
		j := &job{name: p.name, port: p}
		refills[j] = d.f.band(p.number, &p.flat, entries)
		jobs = append(jobs, j)
		p.current = false // until all is done
	}
	if err := d.refill(ctx, jobs, refills, listed, until, res); err != nil {
		d.known.Doubt()
		return errs, err
	}
	for _, j := range jobs {
		p := j.port
		if j.err() != nil {
			d.known.Doubt()
			errs = append(errs, &vendors.PortError{Port: p.name, Err: refusal(j.err())})
			continue
		}
		p.flat, p.current, p.until = refills[j].then, !p.late, until
		res.Ports++
	}
	res.Lease = bandLasts(lease)
	return errs, nil
}

// refill carries refills out side by side, with timers that end at until. No value
// is written that has expired by then: one of a port that is not listed, or, after
// until, one of this update.
func (d *Flat) refill(ctx context.Context, jobs []*job, refills map[*job]*refill, listed map[*port]bool, until time.Time, res *vendors.UpdateResult) error {
	step := func(mods func(*refill) []ofp.Mod) error {
		for _, j := range jobs {
			j.steps = [][]ofp.Mod{mods(refills[j])}
		}
		sent, err := d.run(ctx, jobs...)
		res.Ops += sent
		return err
	}
	for _, mods := range []func(*refill) []ofp.Mod{(*refill).clear, (*refill).groups} {
		if err := step(mods); err != nil {
			return err
		}
	}
	now := time.Now()
	if err := vendors.LateLease(now, until); err != nil {
		return err
	}
	for _, j := range jobs {
		if p := j.port; !listed[p] && !now.Before(p.until) {
			refills[j].empty()
			p.Reset()
		}
	}
	seconds := max(1, ofp.Seconds(until.Sub(now))) // 0 is for good
	if err := step(func(r *refill) []ofp.Mod { return r.fill(seconds) }); err != nil {
		return err
	}
	if late := vendors.LateLease(time.Now(), until); late != nil {
		return errors.Join(late, step((*refill).undo))
	}
	return step((*refill).drop)
}

// Release ends the lease: every port falls back at once.
func (d *Flat) Release(ctx context.Context) error {
	return d.clear(ctx, func(f *ofp.Flow) bool { return f.HardTimeout > 0 })
}

// Remove deletes csig's flows and groups.
func (d *Flat) Remove(ctx context.Context) error {
	all := func(*ofp.Flow) bool { return true }
	err := d.clear(ctx, all)
	if errors.Is(err, untrusted.ErrTooLong) { // that ended the connection
		if err = d.connect(ctx); err == nil {
			err = d.deleteAll(ctx, ofp.Flow{Table: d.cfg.Table, Cookie: cookie})
		}
		if err == nil {
			err = d.clear(ctx, all)
		}
	}
	d.f, d.setup, d.known = nil, nil, vendors.Unread
	return err
}

// clear deletes csig's flows that some are, those that expire first and of them those
// of band 1 last, as those hide the others. Where all go the groups do, too.
func (d *Flat) clear(ctx context.Context, which func(*ofp.Flow) bool) error {
	if err := d.connect(ctx); err != nil {
		return err
	}
	seen, err := d.read(ctx)
	if err != nil {
		return err
	}
	d.known.Doubt()
	const stepRecord = 2 << 16 // by which what is left is found, if this is cut short
	others := false            // of csig's
	steps := map[int][]ofp.Mod{}
	for i := range seen.own {
		f := &seen.own[i]
		_, nowhere := isNowhere(&f.Match)
		step := int(f.Priority) // the lowest first
		switch {
		case !which(f):
			others = true
			continue
		case nowhere:
			step += stepRecord
		case f.HardTimeout == 0:
			step += 1 << 16
		}
		steps[step] = append(steps[step], remove(f, ""))
	}
	var groups []ofp.Mod // which no flow refers to by then
	for _, g := range seen.groupList() {
		if g.ID&ownGroupMask == ownGroup && (!others || g.ID&rowMask != rowStale) {
			groups = append(groups, ofp.Mod{Kind: ofp.Delete, Group: &g})
		}
	}
	j := &job{}
	for _, step := range slices.Sorted(maps.Keys(steps)) {
		if step >= stepRecord {
			j.add(groups...)
			groups = nil
		}
		j.add(steps[step]...)
	}
	j.add(groups...)
	for _, p := range d.ports {
		p.current, p.until = false, time.Time{}
		p.Reset()
	}
	_, err = d.run(ctx, j)
	return errors.Join(err, j.err())
}
