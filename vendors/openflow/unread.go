package openflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
)

// A switch may have more flows than csig reads. Those of csig's are deleted by their cookie then.

// byCookie is the next step, for messages.
const byCookie = "csig off deletes csig's flows by their cookie, without reading them"

// readAll is read of everything, for Remove: what is too much to be read goes before.
func (d *Driver) readAll(ctx context.Context) (*state, error) {
	s, err := d.read(ctx, true)
	for _, empty := range []func(context.Context) error{d.emptyLive, d.emptyAll} {
		if !errors.Is(err, untrusted.ErrTooLong) {
			break
		}
		if err = d.connect(ctx); err == nil { // again: the answer that was too long ended the connection
			err = empty(ctx)
		}
		if err == nil {
			s, err = d.read(ctx, true)
		}
	}
	return s, err
}

// emptyLive deletes what is in the live table, after the lease that leads there.
func (d *Driver) emptyLive(ctx context.Context) error {
	pipe := pipeline{base: d.cfg.Table}
	j := job{steps: [][]ofp.Mod{nil}}
	for slot := range leases {
		f := pipe.lease(slot, 0)
		j.steps[0] = append(j.steps[0], remove(&f, ""))
	}
	if _, err := d.run(ctx, &j); err != nil || j.err() != nil {
		return errors.Join(err, j.err())
	}
	if err := d.Drain(ctx); err != nil {
		return err
	}
	return d.deleteAll(ctx, ofp.Flow{Table: d.cfg.Table + tableLive, Cookie: cookie})
}

// emptyAll deletes csig's flows in all tables, in the first one first: it then has those that
// send on what is handed over, as it cannot be read whether flows of the operator's lead there.
func (d *Driver) emptyAll(ctx context.Context) error {
	names, err := d.readPorts(ctx)
	if err != nil {
		return err
	}
	pipe := pipeline{base: d.cfg.Table}
	all := func(table int) ofp.Mod {
		return ofp.Mod{Kind: ofp.DeleteAll, Flow: &ofp.Flow{Table: uint8(table), Cookie: cookie}, CookieMask: cookieMask}
	}
	j := job{steps: [][]ofp.Mod{{all(int(pipe.base))}, nil, nil}}
	for _, number := range (&state{portNames: names}).numbers() {
		f := pipe.pass(number, false)
		j.steps[1] = append(j.steps[1], ofp.Mod{Kind: ofp.Add, Flow: &f})
	}
	for table := range cmp.Or(int(d.of.Datapath.Tables), ofp.AllTables) {
		if table != int(pipe.base) {
			j.steps[2] = append(j.steps[2], all(table))
		}
	}
	_, err = d.run(ctx, &j)
	return errors.Join(err, j.err())
}

// onlyPasses is the error of a switch that has flows of csig's other than those that send on
// what is handed over; only those are read.
func (d *Driver) onlyPasses(ctx context.Context) error {
	n, err := d.countOwn(ctx, func(f *ofp.Flow) bool { return !isPass(f, priorityOther) })
	switch {
	case err != nil:
		return err
	case n > 0:
		return fmt.Errorf("the switch has confirmed that csig's flows are deleted, and still has %d of them", n)
	}
	return nil
}

// countOwn counts csig's flows that some are, of all tables; the error is of more than csig reads, too.
func (d *device) countOwn(ctx context.Context, which func(*ofp.Flow) bool) (n int, err error) {
	if err := d.connect(ctx); err != nil {
		return 0, err
	}
	flows, err := d.of.Flows(ctx, ofp.Filter{Table: ofp.AllTables, Cookie: cookie, CookieMask: cookieMask})
	if err != nil {
		return 0, d.broken(err)
	}
	for i := range flows {
		if which(&flows[i]) {
			n++
		}
	}
	return n, nil
}

// observeOwn is the setup of a switch with more flows than csig reads: that there is one, and
// why no more is known. Where csig's flows are few the others are too many.
func (d *device) observeOwn(ctx context.Context, tooLong error) (vendors.Setup, error) {
	n, err := d.countOwn(ctx, func(*ofp.Flow) bool { return true })
	switch {
	case errors.Is(err, untrusted.ErrTooLong):
		return vendors.Setup{Damaged: fmt.Sprintf("the switch has more than %d flows of csig's, which is more than csig reads: %s", ofp.MaxFlows, byCookie)}, nil
	case err != nil:
		return vendors.Setup{}, err
	case n > 0:
		return vendors.Setup{Damaged: fmt.Sprintf("%v; %d of its flows are csig's", tooLong, n)}, nil
	}
	return vendors.Setup{}, fmt.Errorf("%w; none of its flows is csig's", tooLong)
}
