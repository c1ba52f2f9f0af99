package sonic

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Update makes the entries of the ports equal to the intents. Each port's
// operations are carried out one after the other, each after orchagent has
// answered the one before, so that every tag leaves with the old or the new value
// throughout; ports side by side, those with the worst news first. The lease is
// not used: SONiC has none.
//
// What orchagent refuses is taken back for its port, which keeps what it had,
// and is an error of that port. Where the switch has no room left, ports have
// their turn singly, the worst news first, so that what fits is what matters most.
//
// The first Update of a driver that was not told a setup takes over the one it
// finds.
func (d *Driver) Update(ctx context.Context, updates []vendors.PortUpdate, _ time.Duration) (vendors.UpdateResult, error) {
	var res vendors.UpdateResult
	if d.setup == nil {
		if err := d.takeOver(ctx); err != nil {
			return res, err
		}
	}
	if err := d.ready(ctx, &res); err != nil {
		return res, err
	}
	err := d.program(ctx, updates, time.Now().Add(cyclePatience*d.cfg.Patience), &res)
	if d.session == nil { // the connection was lost on the way
		return res, err
	}
	if res.Leased = true; d.proof { // verifyRows has seen what was written now, and the last sync the rest
		res.ReadBack = vendors.ReadBackAfter
	}
	for _, p := range d.byName {
		res.Entries += len(p.have)
	}
	return res, err
}

// cyclePatience is how many times orchagent's patience may pass in one Update until
// no change of another port begins. The fallback waits behind it.
const cyclePatience = 2

// ready sees to it that we know what the switch has, and that it has our setup.
func (d *Driver) ready(ctx context.Context, res *vendors.UpdateResult) error {
	if d.session != nil && d.session.lost() {
		d.hangUp() // answers may have been lost with it
	}
	if d.session == nil {
		if err := d.listen(ctx); err != nil {
			return err
		}
	} else if mq, err := d.checkListeners(ctx); err != nil {
		d.hangUp()
		d.leave()
		return err
	} else if mq != nil { // orchagent is another one than that of the session
		mq.Close()
		d.hangUp()
		if err := d.listen(ctx); err != nil {
			return err
		}
	}
	if (d.known == vendors.Current && !d.unread || d.asic == asicBroken) && time.Since(d.checked) < recheck {
		return d.broken
	}
	d.unread, res.ReadBack = false, vendors.ReadBackBefore
	if d.known == vendors.Current {
		same, err := d.unchanged(ctx)
		if err != nil {
			d.known.Doubt()
			return err
		}
		if same {
			d.checked = time.Now()
			return nil
		}
	}
	return d.sync(ctx, res)
}

// program carries out updates; no change of a port begins after until, zero is no bound.
// Errors are of single ports, unless the connection is lost: then d.session is nil.
func (d *Driver) program(ctx context.Context, updates []vendors.PortUpdate, until time.Time, res *vendors.UpdateResult) error {
	var errs []error
	var chains []*chain
	for i := range updates {
		u := &updates[i]
		p := d.byName[u.Port]
		if p == nil {
			errs = append(errs, &vendors.PermanentError{Port: u.Port, Err: errors.New("it does not update in the setup: call Apply with it first")})
			continue
		}
		if err := d.compile(p, u.Intents); err != nil {
			errs = append(errs, err)
		}
		if p.away != "" {
			errs = append(errs, &vendors.PortError{Port: u.Port, Err: errors.New(p.away)})
			continue
		}
		if len(p.Result.Ops) > 0 {
			chains = append(chains, portChain(p, until))
		}
	}
	if len(chains) == 0 {
		return errors.Join(errs...)
	}
	slices.SortStableFunc(chains, func(a, b *chain) int { return d.byName[a.port].Worst() - d.byName[b.port].Worst() })
	if err := d.runPorts(ctx, chains); err != nil {
		return errors.Join(append(errs, err)...)
	}
	if err := d.verifyRows(ctx, chains); err != nil {
		return errors.Join(append(errs, err)...)
	}
	for _, c := range chains {
		if p := d.byName[c.port]; c.err == nil {
			d.unread = d.unread || !d.proof && len(p.have) == 0
			p.have = append(p.have[:0], p.Result.Table...)
			res.Ports++
			res.Ops += len(c.ops)
			continue
		}
		errs = append(errs, &vendors.PortError{Port: c.port, Err: c.err})
	}
	return errors.Join(errs...)
}

// compile finds the operations for a port. After an error they lead to the
// fallback.
func (d *Driver) compile(p *port, intents []vlanrules.Intent) error {
	_, err := p.Give(d.setup, p.name, vlanrules.Update, intents)
	if err == nil {
		err = p.Compile(d.compiler, p.name, p.have)
	}
	if err == nil {
		if why := lowers(p.Result.Table); why != "" {
			err = p.Refuse(p.name, why)
		}
	}
	if err != nil {
		d.compiler.Compile(&p.Result, p.have, d.setup.Fallback())
	}
	return err
}
