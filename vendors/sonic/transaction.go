package sonic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonicdb"
	"github.com/csig-agent/csig/vlanrules"
)

// portTransaction is the operations that bring one port from its entries to the wanted ones.
type portTransaction struct {
	port *port
	chain
	undo []rowOp // undo[i] reverts ops[i]
	adds bool
}

// newTransaction turns a port's compiled operations into row operations.
func newTransaction(p *port) *portTransaction {
	t := &portTransaction{port: p, chain: chain{port: p.name}}
	now := rowsOf(p.name, p.have)
	for i := range p.Result.Ops {
		op := &p.Result.Ops[i]
		key := entryKey(p.name, &op.Entry)
		var fields []string
		if op.Kind != vlanrules.Delete {
			fields = entryFields(&op.Entry)
		}
		t.adds = t.adds || now[key] == nil && fields != nil
		t.ops = append(t.ops, rowOp{key, fields})
		t.undo = append(t.undo, rowOp{key, now[key]})
		now[key] = fields
	}
	return t
}

// undoOps returns a transaction that reverts the completed operations.
func (t *portTransaction) undoOps() *portTransaction {
	b := &portTransaction{port: t.port, chain: chain{port: t.chain.port}}
	for i := t.done - 1; i >= 0; i-- {
		b.ops = append(b.ops, t.undo[i])
	}
	return b
}

// reset puts the transaction back to its start.
func (t *portTransaction) reset() { t.done, t.err, t.unknown, t.tries = 0, nil, false, 0 }

// runTransactions runs the transactions, those with the worst bucket first.
func (d *Driver) runTransactions(ctx context.Context, txns []*portTransaction) error {
	if err := d.runTransactionWindow(ctx, txns, orchWindow); err != nil {
		return err
	}
	first := slices.IndexFunc(txns, func(t *portTransaction) bool { return errors.Is(t.err, ErrFull) })
	if first < 0 {
		return d.rollBackFailed(ctx, txns)
	}
	// The table is full: entries of ports with a better bucket may take the capacity
	// that ports with a worse bucket need. Everything after the first failure is rolled
	// back, and runs again one port at a time.
	var redo []*portTransaction
	for i, t := range txns {
		if i >= first && !t.unknown && (t.adds || t.err != nil) {
			redo = append(redo, t)
		}
	}
	if err := d.rollBack(ctx, redo); err != nil {
		return err
	}
	silent := slices.ContainsFunc(txns, func(t *portTransaction) bool { return errors.Is(t.err, ErrSilent) })
	for _, t := range redo {
		if t.unknown {
			continue
		}
		t.reset()
		if silent {
			t.err = errUnbegun
			continue
		}
		if err := d.runTransactionWindow(ctx, []*portTransaction{t}, 1); err != nil {
			return err
		}
		silent = errors.Is(t.err, ErrSilent)
		if t.err != nil {
			if err := d.rollBackFailed(ctx, []*portTransaction{t}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *Driver) runTransactionWindow(ctx context.Context, txns []*portTransaction, window int) error {
	chains := make([]*chain, len(txns))
	for i, t := range txns {
		chains[i] = &t.chain
	}
	if err := d.runWindow(ctx, chains, window); err != nil {
		return err
	}
	return d.restoreRows(ctx, txns)
}

// restoreRows makes the rows of refused operations in APPL_DB what they were: the
// consumer has put there what was asked for, and P4Orch leaves it (p4rt_app did
// the same, sonic-pins p4rt_app/sonic/response_handler.cc, RestoreApplDb).
func (d *Driver) restoreRows(ctx context.Context, txns []*portTransaction) error {
	var cmds [][]string
	for _, t := range txns {
		if t.err == nil || t.unknown {
			continue
		}
		row := rows + t.undo[t.done].key
		cmds = append(cmds, []string{sonicdb.Appl, "MULTI"}, []string{sonicdb.Appl, "DEL", row})
		if was := t.undo[t.done].fields; was != nil {
			cmds = append(cmds, append([]string{sonicdb.Appl, "HSET", row}, was...))
		}
		cmds = append(cmds, []string{sonicdb.Appl, "EXEC"})
	}
	if len(cmds) == 0 {
		return nil
	}
	answers, err := d.db.Do(ctx, cmds...)
	if err == nil {
		err = firstError(answers)
	}
	if err != nil {
		d.hangUp()
	}
	return err
}

// rollBackFailed reverts the transactions that failed halfway: a port has all of a
// change or nothing of it.
func (d *Driver) rollBackFailed(ctx context.Context, txns []*portTransaction) error {
	var failed []*portTransaction
	for _, t := range txns {
		if t.err != nil && !t.unknown {
			failed = append(failed, t)
		}
	}
	return d.rollBack(ctx, failed)
}

// rollBack reverts the completed operations. A transaction that cannot be reverted is
// unknown, and the next Update reads its port again.
func (d *Driver) rollBack(ctx context.Context, txns []*portTransaction) error {
	var backs []*portTransaction
	var of []*portTransaction
	for _, t := range txns {
		if b := t.undoOps(); len(b.ops) > 0 {
			b.undo = b.ops // what a refusal leaves is read again
			backs, of = append(backs, b), append(of, t)
		}
	}
	if len(backs) == 0 {
		return nil
	}
	chains := make([]*chain, len(backs))
	for i, b := range backs {
		chains[i] = &b.chain
	}
	if err := d.runWindow(ctx, chains, orchWindow); err != nil {
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
func (d *Driver) verifyRows(ctx context.Context, txns []*portTransaction) error {
	if !d.proof {
		return nil
	}
	var cmds [][]string
	var of []*portTransaction
	for _, t := range txns {
		if t.err != nil {
			continue
		}
		for key := range t.changedRows() {
			cmds, of = append(cmds, []string{sonicdb.ApplState, "HGETALL", rows + key}), append(of, t)
		}
	}
	list, err := d.hashes(ctx, cmds)
	if err != nil {
		d.hangUp()
		return err
	}
	for i, row := range list {
		key := strings.TrimPrefix(cmds[i][2], rows)
		if want := of[i].changedRows()[key]; !sameFields(row, want) && of[i].err == nil {
			of[i].err = fmt.Errorf("orchagent reported success, but APPL_STATE_DB differs for %s: csig reads it again", key)
			d.known.Doubt()
		}
	}
	return nil
}

// changedRows is the wanted fields of the rows that the transaction changes; nil
// deletes a row.
func (t *portTransaction) changedRows() map[string][]string {
	out := make(map[string][]string, len(t.ops))
	for _, op := range t.ops {
		out[op.key] = op.fields
	}
	return out
}
