package sonic

import (
	"context"
	"errors"
	"fmt"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonicdb"
	"github.com/csig-agent/csig/vlanrules"
)

// define makes the ACL table where it is not there as it has to be. One of
// another size, too small, is taken away first with its entries, since a table
// cannot change.
func (d *Driver) define(ctx context.Context, seen *view) error {
	want := definition{size: tableSize(d.setup), priority: tablePriority}
	if have, ok := seen.definition(); seen.defined() && (!ok || have.size < want.size) {
		if err := d.undefine(ctx, seen); err != nil {
			return err
		}
	} else if ok {
		want = have // whether orchagent has it is not known: it tells
	}
	c := &chain{ops: []rowOp{{definedTable, want.fields()}}}
	if err := d.sendDefinition(ctx, c); err != nil {
		return err
	}
	var status *StatusError
	switch {
	case c.err == nil:
		seen.fresh = true
	case errors.As(c.err, &status) && status.tableThere():
		if !seen.defined() {
			return fmt.Errorf("orchagent has the ACL table already, without a row in APPL_DB: it is read again (%w)", c.err)
		}
	case errors.As(c.err, &status):
		// The row of what was asked for would be taken for a table.
		if answers, err := d.db.Do(ctx, []string{sonicdb.Appl, "DEL", rows + definedTable}); err != nil {
			return err
		} else if err := firstError(answers); err != nil {
			return err
		}
		return &vendors.PermanentError{Err: fmt.Errorf("an ACL table that matches egress port and outer VLAN tag at egress, and sets its VID, cannot be made: %w", c.err)}
	default:
		return fmt.Errorf("the ACL table: %w", c.err)
	}
	return nil
}

// undefine deletes the table and all its entries.
func (d *Driver) undefine(ctx context.Context, seen *view) error {
	var chains []*chain
	for _, key := range seen.entryKeys() {
		chains = append(chains, &chain{ops: []rowOp{{key: key}}})
	}
	if err := d.runAll(ctx, seen, chains); err != nil {
		return err
	}
	if err := d.runAll(ctx, seen, []*chain{{ops: []rowOp{{key: definedTable}}}}); err != nil {
		return err
	}
	seen.forgetTable()
	return nil
}

// runAll carries out deletions of which all have to succeed; what orchagent
// does not have need not be deleted.
func (d *Driver) runAll(ctx context.Context, seen *view, chains []*chain) error {
	if err := d.run(ctx, chains); err != nil {
		return err
	}
	var errs []error
	var left [][]string
	for _, c := range chains {
		if c.err == nil {
			continue
		}
		key := c.ops[c.done].key
		var status *StatusError
		if errors.As(c.err, &status) && !status.bySAI() && (status.Status == rcNotFound || status.Status == rcInvalid && key != definedTable) {
			d.acked[key] = nil
			left = append(left, []string{sonicdb.Appl, "DEL", rows + key}, []string{sonicdb.ApplState, "DEL", rows + key})
			continue
		}
		if was := seen.fields(key); status != nil && was != nil {
			// Its row has gone, and it stays: the next csig is to find it.
			left = append(left, append([]string{sonicdb.Appl, "HSET", rows + key}, was...))
		}
		errs = append(errs, fmt.Errorf("delete %s: %w", key, c.err))
	}
	if len(left) > 0 {
		if answers, err := d.db.Do(ctx, left...); err != nil {
			errs = append(errs, err)
		} else {
			errs = append(errs, firstError(answers))
		}
	}
	return errors.Join(errs...)
}

// clear deletes entries of ports that do not update or cannot, and what is no
// entry of ours in our table.
func (d *Driver) clear(ctx context.Context, seen *view) error {
	var chains []*chain
	for _, key := range seen.entryKeys() {
		r := seen.entries[key]
		if !seen.unwanted(d, r) {
			continue
		}
		chains = append(chains, &chain{port: r.port, ops: []rowOp{{key: key}}})
	}
	if len(chains) == 0 {
		return nil
	}
	return d.runAll(ctx, seen, chains)
}

// Rules is what the ACL table can express: value and mask, one entry at a time.
// It has priorities, too, and csig does without them: an entry that does nothing
// needs SAI_PACKET_ACTION_FORWARD, which may overrule another application's drop,
// and where no order matters, no order need be trusted.
func Rules() vlanrules.Caps {
	return vlanrules.Caps{
		Match: vlanrules.MatchTernaryUnordered, MatchPCP: true, Txn: vlanrules.TxnEntry, Modify: true,
		VIDMin: 1, VIDMax: 4094, MatchReserved: true,
	}
}

// tablePriority is that of our table among those of the egress stage. P4Orch
// puts them side by side (SAI_ACL_TABLE_GROUP_TYPE_PARALLEL, sonic-swss
// orchagent/switchorch.cpp), where it decides between actions that conflict;
// no other application's sets the VID.
const tablePriority = 50
