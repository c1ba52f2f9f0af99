package ovs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// checkEvery is how often the bridge is read for foreign changes of csig's flows
// and for ports that came or went.
const checkEvery = time.Second

// aroundEvery is how often the flows of other tables are read, too, to see
// whether frames still come to csig's.
const aroundEvery = 5 * time.Second

// maxLease is the longest lease: OpenFlow has 16 bits of seconds, and an agent
// that renews less than once an hour is none.
const maxLease = time.Hour

// Update makes the live flows of the ports those of the intents and renews the
// lease, in one bundle. The lease is rounded up to whole seconds.
//
// The first Update of a driver that was not told a setup takes over the one it
// finds. An intent that cannot be carried out is a *vendors.PermanentError of
// its port, which then falls back to the stale values alone.
func (d *Driver) Update(ctx context.Context, updates []vendors.PortUpdate, lease time.Duration) (vendors.UpdateResult, error) {
	var res vendors.UpdateResult
	if lease <= 0 || lease > maxLease {
		return res, &vendors.PermanentError{Err: fmt.Errorf("a lease of %v: want up to %v", lease, maxLease)}
	}
	until := time.Now().Add(lease)
	if d.setup == nil {
		if err := vendors.TakeOver(ctx, d, func() bool { return d.known == vendors.Current }); err != nil {
			return res, err
		}
	}
	if err := d.connect(ctx); err != nil {
		return res, err
	}
	if d.known != vendors.Current || time.Since(d.checked) >= checkEvery {
		if err := d.check(ctx, &res); err != nil {
			return res, err
		}
		res.ReadBack = vendors.ReadBackBefore
	}
	if d.leaseTaken != nil {
		return res, d.leaseTaken
	}
	var errs []error
	d.mods = d.mods[:0]
	for _, p := range d.ports {
		if err := d.problem(p); err != nil {
			errs = append(errs, err)
		}
	}
	for i := range updates {
		u := &updates[i]
		p := d.byName[u.Port]
		if p == nil {
			errs = append(errs, vendors.NotInSetup(u.Port))
			continue
		}
		if err := d.compile(p, u.Intents); err != nil {
			errs = append(errs, err)
		} else if d.passed != nil {
			errs = append(errs, &vendors.PermanentError{Port: p.name, Err: d.passed})
		}
		if p.state == settled || p.number == 0 {
			continue
		}
		if ops := d.stage(p); ops > 0 {
			res.Ports++
			res.Ops += ops
		}
	}
	d.leased = d.pipe.lease(ofp.Seconds(lease))
	d.mods = append(d.mods, ofp.Mod{Kind: ofp.Add, Flow: &d.leased, Name: ""})
	if err := vendors.LateLease(time.Now(), until); err != nil {
		return vendors.UpdateResult{Repaired: res.Repaired, ReadBack: res.ReadBack, Facts: res.Facts}, errors.Join(append(errs, err)...)
	}
	err := d.commit(ctx)
	var refused *ofp.Error
	if errors.As(err, &refused) && refused.TableFull() {
		res.Ports, res.Ops = 0, 0
		var left []error
		left, err = d.portByPort(ctx, updates, &res)
		errs = append(errs, left...)
		if err == nil {
			err = vendors.LateLease(time.Now(), until)
		}
		if err == nil {
			d.mods = append(d.mods[:0], ofp.Mod{Kind: ofp.Add, Flow: &d.leased})
			err = d.commit(ctx)
		}
	} else if err == nil {
		for i := range updates {
			if p := d.byName[updates[i].Port]; p != nil && p.state != settled && p.number != 0 {
				p.done()
			}
		}
	}
	if err != nil {
		d.known.Doubt()
		return vendors.UpdateResult{Repaired: res.Repaired, ReadBack: res.ReadBack, Facts: res.Facts}, errors.Join(append(errs, err)...)
	}
	for _, p := range d.ports {
		res.Entries += len(p.have)
	}
	res.Leased, d.until = true, until
	res.Lease = time.Duration(ofp.Seconds(lease)) * time.Second
	if errs == nil {
		return res, nil
	}
	return res, errors.Join(errs...)
}

// done notes that the bridge has what the port wants.
func (p *port) done() {
	p.have, p.state = p.want, settled // want is replaced, not changed: see lower
}

// portByPort carries out what there is room for, the ports with the least to
// give first. One without room is closed: it has the fallback, and what it had
// makes room for others. left has an error for each of them; err ends the update.
func (d *Driver) portByPort(ctx context.Context, updates []vendors.PortUpdate, res *vendors.UpdateResult) (left []error, err error) {
	ordered := slices.Clone(updates)
	slices.SortStableFunc(ordered, func(a, b vendors.PortUpdate) int { return vendors.Worst(a.Intents) - vendors.Worst(b.Intents) })
	for i := range ordered {
		p := d.byName[ordered[i].Port]
		if p == nil || p.state == settled || p.number == 0 {
			continue
		}
		d.mods = d.mods[:0]
		ops := d.stage(p)
		err := d.commit(ctx)
		var refused *ofp.Error
		switch {
		case err == nil:
			p.done()
			res.Ports++
			res.Ops += ops
			continue
		case !errors.As(err, &refused) || !refused.TableFull():
			return left, err
		}
		left = append(left, err)
		if p.state == closed {
			continue
		}
		d.mods = d.mods[:0]
		for _, f := range d.pipe.port(p.number, p.action, true) {
			d.mods = append(d.mods, ofp.Mod{Kind: ofp.Add, Flow: &f, Name: p.name})
		}
		for j := range p.have {
			d.mods = append(d.mods, remove(&p.have[j], p.name))
		}
		if err := d.commit(ctx); err != nil {
			return left, err
		}
		p.state, p.have = closed, nil
	}
	return left, nil
}

// check reads the bridge and puts right what is not as we left it.
func (d *Driver) check(ctx context.Context, res *vendors.UpdateResult) error {
	if err := d.glance(ctx); vendors.IsPermanent(err) {
		return err
	}
	if err := d.checkOwner(); err != nil {
		return err
	}
	// This process may have been stopped, and another may have removed everything.
	if d.told.Before(d.until) && d.until.Before(time.Now()) {
		return errors.New("the lease ended, and ovsdb-server has not answered since whether this process still has the bridge")
	}
	if d.info.vlanLimit != 1 {
		return &vendors.PermanentError{Err: errors.New(limitReason(d.info.vlanLimit))}
	}
	around := time.Since(d.othersReadAt) >= aroundEvery
	s, err := d.read(ctx, around)
	if err != nil {
		return err
	}
	if around {
		d.passed, d.othersReadAt = d.news(s, res), time.Now()
	}
	changes, err := d.sync(ctx, s, true)
	if err != nil {
		return err
	}
	for _, c := range changes {
		res.NoteRepair(c.Port, c.What, c.Detail)
	}
	return nil
}

// compile sets the port's wanted flows for the intents. After an error they are
// the fallback.
func (d *Driver) compile(p *port, intents []vlanrules.Intent) error {
	fresh, err := p.Give(d.setup, p.name, p.action, intents)
	if !fresh {
		return err
	}
	if p.changes(); err == nil {
		err = p.Compile(d.compiler, p.name, p.Result.Table)
	}
	if p.number != 0 {
		d.lower(p)
	}
	return err
}

// lower makes the port's wanted flows from what was compiled.
func (d *Driver) lower(p *port) {
	switch {
	case !p.Refused() && p.foreign == nil:
		// Not in place: have may be the same slice.
		p.want = d.pipe.entries(p.number, p.Result.Table)
	case p.action == vlanrules.Update:
		p.want = d.fallback(p)
	default:
		p.want = nil
	}
}
