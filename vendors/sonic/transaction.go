package sonic

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// portChain is the operations that bring one port from its entries to the wanted ones.
func portChain(p *port, until time.Time) *chain {
	c := &chain{port: p.name, until: until}
	now := rowsOf(p.name, p.have)
	for i := range p.Result.Ops {
		op := &p.Result.Ops[i]
		key := entryKey(p.name, &op.Entry)
		var to row
		if op.Kind != vlanrules.Delete {
			to = entryRow(&op.Entry)
		}
		c.ops = append(c.ops, rowOp{key, to, now[key]})
		now[key] = to
	}
	return c
}

// adds reports whether the chain makes a new entry.
func (c *chain) adds() bool {
	return slices.ContainsFunc(c.ops, func(op rowOp) bool { return op.was == nil && op.to != nil })
}

// failed reports whether it is known that the chain was not carried out to its end.
func (c *chain) failed() bool { return c.err != nil && !c.unknown }

// runPorts runs the chains of ports, those with the worst bucket first. A port has all
// of a change or nothing of it.
func (d *Driver) runPorts(ctx context.Context, chains []*chain) error {
	if err := d.run(ctx, chains); err != nil {
		return err
	}
	first := slices.IndexFunc(chains, func(c *chain) bool { return errors.Is(c.err, ErrFull) })
	if first < 0 {
		return d.rollBack(ctx, only(chains, (*chain).failed))
	}
	// The table is full: entries of ports with a better bucket may take the capacity
	// that ports with a worse bucket need. Everything after the first failure is rolled
	// back, and runs again one port at a time.
	redo := only(chains[first:], func(c *chain) bool { return !c.unknown && (c.adds() || c.err != nil) })
	if err := d.rollBack(ctx, redo); err != nil {
		return err
	}
	silent := slices.ContainsFunc(chains, func(c *chain) bool { return errors.Is(c.err, ErrSilent) })
	for _, c := range redo {
		if c.unknown {
			continue
		}
		c.done, c.err, c.tries = 0, nil, 0
		if silent {
			c.err = errUnbegun
			continue
		}
		one := []*chain{c}
		if err := d.runWindow(ctx, one, 1); err != nil {
			return err
		}
		silent = errors.Is(c.err, ErrSilent)
		if err := d.rollBack(ctx, only(one, (*chain).failed)); err != nil {
			return err
		}
	}
	return nil
}

// only are the chains of which f is true.
func only(chains []*chain, f func(*chain) bool) []*chain {
	return slices.DeleteFunc(slices.Clone(chains), func(c *chain) bool { return !f(c) })
}

// rollBack reverts the completed operations. A chain that cannot be reverted is
// unknown, and the next Update reads its port again.
func (d *Driver) rollBack(ctx context.Context, chains []*chain) error {
	var backs, of []*chain
	for _, c := range chains {
		if c.done == 0 {
			continue
		}
		b := &chain{port: c.port}
		for _, op := range slices.Backward(c.ops[:c.done]) {
			b.ops = append(b.ops, rowOp{op.key, op.was, op.to})
		}
		backs, of = append(backs, b), append(of, c)
	}
	if len(backs) == 0 {
		return nil
	}
	if err := d.run(ctx, backs); err != nil {
		return err
	}
	for i, b := range backs {
		if b.err != nil {
			of[i].unknown, d.known = true, vendors.Unread
			of[i].err = errors.Join(of[i].err, fmt.Errorf("and its earlier operations cannot be rolled back: %w", b.err))
		}
	}
	return nil
}

// verifyRows reads the changed rows back, where P4Orch reports them in APPL_STATE_DB:
// an answer alone is no proof.
func (d *Driver) verifyRows(ctx context.Context, chains []*chain) error {
	if !d.proof {
		return nil
	}
	var places [][2]string
	var of []*chain
	want := map[string]row{}
	for _, c := range chains {
		if c.err != nil {
			continue
		}
		for _, op := range c.ops {
			want[op.key] = op.to
			places, of = append(places, [2]string{sonicdb.ApplState, rows + op.key}), append(of, c)
		}
	}
	list, err := d.hashes(ctx, places...)
	if err != nil {
		d.hangUp()
		return err
	}
	for i, found := range list {
		key := places[i][1][len(rows):]
		if c := of[i]; c.err == nil && !maps.Equal(found, want[key]) {
			c.err = fmt.Errorf("orchagent reported success, but APPL_STATE_DB differs for %s: csig reads it again", key)
			d.known.Doubt()
		}
	}
	return nil
}
