package openflow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/openflow/ofp"
	"github.com/csig-agent/csig/vlanrules"
)

// Update writes the other band of each port whose intents are new or whose band would
// end within a lease, and then deletes the first: see flat. A band lasts twice the
// lease, in whole seconds.
func (d *Flat) Update(ctx context.Context, updates []vendors.PortUpdate, lease time.Duration) (vendors.UpdateResult, error) {
	var res vendors.UpdateResult
	if lease <= 0 || lease > maxLease {
		return res, &vendors.PermanentError{Err: fmt.Errorf("a lease of %v: want up to %v", lease, maxLease)}
	}
	if d.f == nil {
		if err := vendors.TakeOver(ctx, d, func() bool { return d.known == vendors.Current }); err != nil {
			return res, err
		}
	}
	if err := d.connect(ctx); err != nil {
		return res, err
	}
	for _, r := range d.sw.of.LateErrors() {
		d.late(r)
	}
	if d.known != vendors.Current || d.cfg.Now().Sub(d.checked) >= checkEvery {
		if err := d.check(ctx, &res); err != nil {
			return res, err
		}
	}
	errs, err := d.change(ctx, updates, lease, &res)
	errs = append(errs, d.belated...)
	d.belated = nil
	if err != nil {
		return vendors.UpdateResult{Repaired: res.Repaired, Restarted: res.Restarted}, errors.Join(append(errs, err)...)
	}
	res.Leased, res.Lease = true, time.Duration(bandSeconds(lease))*time.Second
	return res, errors.Join(errs...)
}

// bandSeconds is how long a band lasts: an update that leaves it alone leaves at least
// a lease of it.
func bandSeconds(lease time.Duration) uint16 { return leaseSeconds(2 * lease) }

// late takes in a refusal of what the switch had acknowledged.
func (d *Flat) late(r *ofp.Error) {
	d.known.Doubt()
	err := fmt.Errorf("the switch refused a change after it had acknowledged it, and the port's flows are written again: %w", r)
	p := d.byName[r.Name]
	if p == nil {
		d.belated = append(d.belated, err)
		return
	}
	p.settled = false
	d.belated = append(d.belated, &vendors.PortError{Port: p.name, Err: err})
}

func (d *Flat) check(ctx context.Context, res *vendors.UpdateResult) error {
	seen, err := d.read(ctx)
	if err != nil {
		return err
	}
	// Ports may have come, gone or got other numbers. While one is gone the others
	// keep what they have.
	if f, err := d.layout(d.f.setup, seen); err == nil {
		d.f = f
		for _, p := range d.ports {
			p.number = seen.numbers[p.name]
		}
	}
	res.Restarted = d.sw.reconnected && len(seen.own) == 0
	repaired, err := d.sync(ctx, seen)
	if len(seen.own) == 0 {
		repaired = []string{emptied(res.Restarted)}
	}
	res.Repaired = strings.Join(repaired, "; ")
	return err
}

// change brings ports to their intents. errs are of single ports; err ends the update.
func (d *Flat) change(ctx context.Context, updates []vendors.PortUpdate, lease time.Duration, res *vendors.UpdateResult) (errs []error, err error) {
	now := d.cfg.Now()
	until := now.Add(time.Duration(bandSeconds(lease)) * time.Second)
	listed := map[*flatState]bool{}
	for i := range updates {
		p := d.byName[updates[i].Port]
		if p == nil {
			errs = append(errs, vendors.NotInSetup(updates[i].Port))
			continue
		}
		listed[p] = true
		fresh, err := p.Give(d.f.setup, p.name, p.action, updates[i].Intents)
		if err != nil {
			errs = append(errs, err)
		}
		if p.failed != nil {
			errs = append(errs, &vendors.PortError{Port: p.name, Err: p.failed})
		}
		p.settled = p.settled && !fresh
	}
	var jobs []*job
	next := map[*job]*flatPort{}
	for _, p := range d.ports {
		if p.action != vlanrules.Update || p.failed != nil || !listed[p] && !now.Before(p.until) {
			continue // without new intents a value that has expired is not brought back
		}
		if left := p.until.Sub(now); p.settled && left >= lease && !p.until.After(until) { // else of a longer lease before
			continue
		}
		var entries []cover
		if !p.Refused() {
			if entries, err = d.f.live(p.Intents()); err != nil {
				errs = append(errs, p.Refuse(p.name, err.Error()))
				entries = nil
			}
		}
		j := &job{name: p.name}
		steps, then := d.f.band(p.number, &p.have, entries, bandSeconds(lease))
		j.steps, next[j] = steps, &then
		jobs = append(jobs, j)
	}
	res.Ops, err = d.sw.run(ctx, jobs...)
	if err != nil {
		d.known.Doubt()
		return errs, err
	}
	if late := vendors.LateLease(d.cfg.Now(), until); late != nil {
		return errs, late
	}
	for _, j := range jobs {
		p := d.byName[j.name]
		if j.err() != nil {
			p.settled = false
			d.known.Doubt()
			errs = append(errs, &vendors.PortError{Port: p.name, Err: refusal(j.err())})
			continue
		}
		p.have, p.settled, p.until = *next[j], true, until
		res.Ports++
	}
	return errs, nil
}

// Release ends the lease: every port falls back at once.
func (d *Flat) Release(ctx context.Context) error {
	return d.clear(ctx, func(f *ofp.Flow) bool { return f.HardTimeout > 0 })
}

// Remove deletes csig's flows and groups.
func (d *Flat) Remove(ctx context.Context) error {
	err := d.clear(ctx, func(*ofp.Flow) bool { return true })
	d.f, d.known = nil, vendors.Unread
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
	rest := false
	steps := map[int][]ofp.Mod{}
	for i := range seen.own {
		f := &seen.own[i]
		_, nowhere := isNowhere(&f.Match)
		step := int(f.Priority) // the lowest first
		switch {
		case !which(f):
			rest = true
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
		if g.ID&ownGroupMask == ownGroup && (!rest || g.ID&rowMask != rowStale) {
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
		p.settled, p.until = false, time.Time{}
		p.Reset()
	}
	_, err = d.sw.run(ctx, j)
	return errors.Join(err, j.err())
}
