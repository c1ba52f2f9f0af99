package sonic

import (
	"context"
	"errors"
	"fmt"

	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/vendors"
)

// Remove deletes our entries and our table, gives ports the TPIDs back that they
// had, and deletes the record. CONFIG_DB needs no orchagent for that: where none runs,
// TPIDs go back, and the error says what stays. Of the notes of what
// orchagent did not answer those stay that may be true.
func (d *Driver) Remove(ctx context.Context) error {
	d.setup, d.known = nil, vendors.Unread
	first, err := d.look(ctx, nil)
	if err != nil {
		return err
	}
	if err := d.recordBadTPID(ctx, first); err != nil {
		return err
	}
	seen := first
	if seen.defined() || len(seen.entries) > 0 {
		free, err := d.mayRestoreTPIDs(ctx)
		if err != nil {
			return err
		}
		if free {
			if err := d.write(ctx, seen.restoreAll()...); err != nil {
				return err
			}
		}
		if err := d.empty(ctx); err != nil {
			if free && len(seen.record.before) > 0 {
				return fmt.Errorf("ports have their TPIDs back in CONFIG_DB, and rows of %s stay until orchagent answers or is started cold: then call csig off again: %w", aclTable, err)
			}
			return err
		}
		if seen, err = d.look(ctx, nil); err != nil {
			return err
		}
	}
	cmds := append(seen.restoreAll(), []string{sonicdb.State, "DEL", recordKey}, []string{sonicdb.State, "HDEL", firstKey, firstAnswered})
	if err := d.write(ctx, cmds...); err != nil {
		return err
	}
	if err := d.clearNotes(ctx, first); err != nil {
		return err
	}
	return d.write(ctx, d.db.Unfence()...)
}

// empty deletes what orchagent has of ours.
func (d *Driver) empty(ctx context.Context) error {
	if err := d.await(ctx); err != nil {
		return err
	}
	seen, err := d.look(ctx, nil) // now that the rows are stable
	if err != nil {
		return err
	}
	return d.undefine(ctx, seen)
}

// mayRestoreTPIDs reports whether ports may have the TPID of ordinary VLANs while our rows
// still exist: the ASIC has no entry of ours that would match them, or no orchagent runs
// to set that TPID; the next one starts with an empty ASIC.
func (d *Driver) mayRestoreTPIDs(ctx context.Context) (bool, error) {
	o, err := d.orchagent(ctx)
	if err != nil || !o.running() {
		return err == nil, err
	}
	v, err := d.lookASIC(ctx)
	return v.none, err
}

// clearNotes deletes notes that are not true any more. Where one of them stays that
// this driver has written itself, the switch is not as it was, which is an error.
func (d *Driver) clearNotes(ctx context.Context, seen *view) error {
	var errs []error
	why, err := d.pendingFirstTable(ctx, seen)
	if err != nil {
		return err
	}
	for key, why := range map[string]string{firstKey: why, tpidKey: seen.badWhy} {
		switch {
		case why == "":
			errs = append(errs, d.write(ctx, []string{sonicdb.State, "DEL", key}))
		case d.noted[key]:
			errs = append(errs, errors.New("all else is removed, but this note stays in STATE_DB: "+why))
		}
	}
	return errors.Join(errs...)
}
