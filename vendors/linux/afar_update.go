package linux

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// afarPort is what the driver knows about one port.
type afarPort struct {
	name   string
	key    string
	action vlanrules.Action

	signal
	have []interval // on the switch
}

// Update makes the maps of the ports equal to the intents and renews the
// lease, in one transaction: one run of nft on the switch; where the kernel
// takes less at once, in several, and the lease in the last. Probe says how long
// that takes, which no schedule can beat. The lease runs by the switch's own
// clock from the moment the switch takes the transaction.
//
// The first Update of a driver that was not told a setup takes over the one it
// finds. An intent that cannot be carried out is a *vendors.PermanentError of
// its port, which then falls back to the stale values alone.
func (d *Afar) Update(ctx context.Context, updates []vendors.PortUpdate, lease time.Duration) (vendors.UpdateResult, error) {
	var res vendors.UpdateResult
	if lease < minLease || lease > maxLease {
		return res, &vendors.PermanentError{Err: fmt.Errorf("a lease of %v: want %v to %v", lease, minLease, maxLease)}
	}
	if d.setup == nil {
		if err := d.takeOver(ctx); err != nil {
			return res, err
		}
	}
	if d.synced && d.cfg.Now().Sub(d.checked) < recheck {
		err := d.program(ctx, updates, lease, &res)
		if res.Leased || ctx.Err() != nil {
			return res, err
		}
		d.synced = false // refused: somebody changed the table, or the connection is lost
	}
	repaired, err := d.sync(ctx)
	noteRepairs(&res, repaired)
	if err != nil {
		return res, err
	}
	return res, d.program(ctx, updates, lease, &res)
}

// noteRepairs adds to the result what was put right.
func noteRepairs(res *vendors.UpdateResult, changes []vendors.Change) {
	for _, c := range changes {
		res.NoteRepair(c.Port, string(c.Kind)+" "+c.Detail)
	}
}

// takeOver makes the observed setup the wanted one.
func (d *Afar) takeOver(ctx context.Context) error {
	s, err := d.Observe(ctx)
	if err != nil {
		return err
	}
	if s.TPID == 0 {
		return vendors.NoSetup(s.Damaged)
	}
	stale, err := staleEntries(&s)
	if err != nil {
		return &vendors.PermanentError{Err: err}
	}
	d.adopt(s, stale)
	return nil
}

// program sends what changed, and the lease.
func (d *Afar) program(ctx context.Context, updates []vendors.PortUpdate, lease time.Duration, res *vendors.UpdateResult) error {
	var parts [][]byte
	var pending []*afarPort
	var errs []error
	ops := 0
	for _, p := range d.ports {
		if err := d.missing(p); err != nil {
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
		if err := p.compile(d.compiler, d.setup, d.stale, p.name, p.action, u.Intents); err != nil {
			errs = append(errs, err)
		}
		if p.action != vlanrules.Update || slices.Equal(p.have, p.want) {
			continue
		}
		// All of the map, and not what differs: nft refuses to delete what
		// somebody else has deleted before.
		w := newScript(tableName)
		w.flushSet(p.key)
		if len(p.want) > 0 {
			w.addIntervals(p.key, p.want)
		}
		parts, pending = append(parts, w.Bytes()), append(pending, p)
		ops += len(p.have) + len(p.want)
	}
	w := newScript(tableName)
	w.flushSet(setLease)
	w.addKeys(setLease, d.keys, lease+leaseTick)
	until := d.cfg.Now().Add(lease)
	if err := d.write(ctx, append(parts, w.Bytes())); err != nil {
		return errors.Join(append(errs, fmt.Errorf("write the signal: %w", err))...)
	}
	for _, p := range pending {
		p.have = append(p.have[:0], p.want...)
	}
	res.Ports, res.Ops = res.Ports+len(pending), res.Ops+ops
	res.Leased, d.leaseUntil = true, until
	return errors.Join(errs...)
}
