package sonic

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/csig-agent/csig/vendors"
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
	c := &chain{ops: []rowOp{{key: definedTable, to: want.row()}}}
	if err := d.sendDefinition(ctx, seen, c); err != nil {
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
		return &vendors.PermanentError{Err: fmt.Errorf("an ACL table that matches egress port and outer VLAN tag at egress, and sets its VID, cannot be made: %w", c.err)}
	default:
		return fmt.Errorf("the ACL table: %w", c.err)
	}
	return nil
}

// undefine deletes the table and all its entries.
func (d *Driver) undefine(ctx context.Context, seen *view) error {
	if err := d.deleteRows(ctx, seen, seen.entryKeys()...); err != nil {
		return err
	}
	if err := d.deleteRows(ctx, seen, definedTable); err != nil {
		return err
	}
	seen.forgetTable()
	return nil
}

// deleteRows deletes rows, all of them; what orchagent does not have need not be deleted.
func (d *Driver) deleteRows(ctx context.Context, seen *view, keys ...string) error {
	var chains []*chain
	for _, key := range keys {
		chains = append(chains, &chain{ops: []rowOp{{key: key, was: seen.rows[key]}}})
	}
	if err := d.run(ctx, chains); err != nil {
		return err
	}
	var errs []error
	for _, c := range chains {
		var status *StatusError
		if c.err != nil && !(errors.As(c.err, &status) && status.notThere(c.ops[0])) {
			errs = append(errs, fmt.Errorf("delete %s: %w", c.ops[0].key, c.err))
		}
	}
	return errors.Join(errs...)
}

// clear deletes entries of ports that do not update or cannot, and what is no
// entry of ours in our table.
func (d *Driver) clear(ctx context.Context, seen *view) error {
	keys := slices.DeleteFunc(seen.entryKeys(), func(key string) bool { return !seen.unwanted(d, seen.entries[key]) })
	if len(keys) == 0 {
		return nil
	}
	return d.deleteRows(ctx, seen, keys...)
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
