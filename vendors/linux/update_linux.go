package linux

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Update makes the maps of the ports equal to the intents and renews the
// lease, in one transaction; where the kernel takes less at once, in several,
// each port's in one of them and the lease in the last. In the steady state it
// allocates nothing.
//
// The first Update of a driver that was not told a setup takes over the one it
// finds. An intent that cannot be carried out is a *vendors.PermanentError of
// its port, which then falls back to the stale values alone. A missing device
// is an error of its port; its map is kept up to date all the same.
func (d *Driver) Update(ctx context.Context, updates []vendors.PortUpdate, lease time.Duration) (vendors.UpdateResult, error) {
	var res vendors.UpdateResult
	until := time.Now().Add(lease) // from the call on: a process may be stopped anywhere in here
	if err := ctx.Err(); err != nil {
		return res, err
	}
	if lease < minLease || lease > maxLease {
		return res, &vendors.PermanentError{Err: fmt.Errorf("a lease of %v: want %v to %v", lease, minLease, maxLease)}
	}
	if d.setup == nil {
		if err := vendors.TakeOver(ctx, d, func() bool { return d.known == vendors.Current }); err != nil {
			return res, err
		}
	}
	changed, err := d.links.Changed()
	if err != nil {
		return res, err
	}
	var syncErr error
	if changed || d.known != vendors.Current {
		var repaired []vendors.Change
		d.reuse = d.written()
		repaired, syncErr = d.sync(ctx)
		res.NoteRepairs(repaired)
		if d.known != vendors.Current {
			return res, syncErr
		}
	}
	res.NoteRepairs(d.watchStrip())
	for try := 1; ; try++ {
		err = d.program(updates, lease, until, &res)
		if !errors.Is(err, unix.ERESTART) || try == conflictTries {
			return res, join(syncErr, err)
		}
		// Another process changed nftables, perhaps our table.
		var repaired []vendors.Change
		repaired, syncErr = d.sync(ctx)
		res.NoteRepairs(repaired)
		if d.known != vendors.Current {
			return res, syncErr
		}
	}
}

// join is errors.Join without its allocation where there is no error.
func join(a, b error) error {
	if a == nil {
		return b
	}
	return errors.Join(a, b)
}

// compile sets the port's want for the intents. After an error it is the fallback.
func (d *Driver) compile(p *port, intents []vlanrules.Intent) error {
	fresh, err := p.Give(d.setup, p.name, p.action, intents)
	if !fresh {
		return err
	}
	if err == nil {
		err = p.Compile(d.compiler, p.name, p.Result.Table)
	}
	if err == nil {
		if p.want, err = lower(p.want, p.Result.Table); err == nil {
			return nil
		}
		err = p.Refuse(p.name, err.Error())
	}
	p.want = fallback(p.want, d.setup, d.stale)
	return err
}

// program sends what changed, and the lease, unless that would have ended at until before it was sent.
func (d *Driver) program(updates []vendors.PortUpdate, lease time.Duration, until time.Time, res *vendors.UpdateResult) error {
	b := &d.batch
	b.begin(d.sock.seq+1, d.generation)
	d.pending = d.pending[:0]
	var errs []error
	for _, p := range d.ports {
		if p.action != vlanrules.Update { // the others have their turn below
			if err := p.problem(); err != nil {
				errs = append(errs, err)
			}
		}
	}
	for i := range updates {
		u := &updates[i]
		p := d.byName[u.Port]
		if p == nil {
			errs = append(errs, vendors.NotInSetup(u.Port))
			continue
		}
		if p.called != "" {
			p.want = fallback(p.want, d.setup, d.stale)
			p.Reset()
		} else if err := d.compile(p, u.Intents); err != nil {
			errs = append(errs, err)
		}
		if p.action != vlanrules.Update {
			continue
		}
		if err := p.problem(); err != nil {
			errs = append(errs, err)
		}
		if err := d.stage(p, res); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	b.labelNext("the lease")
	b.flushSet(setLease)
	b.addKeys(setLease, d.leaseKeys, lease+leaseTick) // it holds for lease at least
	if err := vendors.LateLease(time.Now(), until); err != nil {
		return errors.Join(append(errs, err)...)
	}
	if err := d.commitPending(res); err != nil {
		return errors.Join(append(errs, err)...)
	}
	// The kernel commits a transaction before it answers, all of it or nothing.
	res.Leased, res.ReadBack, d.leaseUntil = true, vendors.ReadBackAfter, until
	if errs == nil {
		return nil
	}
	return errors.Join(errs...)
}

// stage puts what changes of a port's map into the batch, and sends the batch
// before where it would become too long.
func (d *Driver) stage(p *port, res *vendors.UpdateResult) error {
	b := &d.batch
	p.del, p.add = difference(p.del, p.add, p.have, p.want)
	if len(p.del)+len(p.add) == 0 {
		return nil
	}
	if len(b.b)+elementSpace*(len(p.del)+len(p.add))+elementSpace > d.sock.max {
		if err := d.commitPending(res); err != nil {
			return err
		}
		b.begin(d.sock.seq+1, d.generation)
	}
	b.labelNext(p.label)
	if len(p.del) > 0 {
		b.intervals(unix.NFT_MSG_DELSETELEM, p.key, p.del)
	}
	if len(p.add) > 0 {
		b.intervals(unix.NFT_MSG_NEWSETELEM, p.key, p.add)
	}
	d.pending = append(d.pending, p)
	return nil
}

// elementSpace is more than the bytes of one interval in a message, and of a
// message around it.
const elementSpace = 160

// commitPending sends the batch and remembers what the kernel has now.
func (d *Driver) commitPending(res *vendors.UpdateResult) error {
	if err := d.commit(); err != nil {
		return err
	}
	for _, p := range d.pending {
		p.have = append(p.have[:0], p.want...)
		res.Ports++
		res.Ops += len(p.del) + len(p.add)
	}
	d.pending = d.pending[:0]
	return nil
}

// fallback are a port's elements while its intents cannot be carried out.
func fallback(dst []interval, s *vendors.Setup, stale []interval) []interval {
	if s.OnStale != inventory.Conservative {
		return dst[:0]
	}
	return append(dst[:0], stale...)
}
