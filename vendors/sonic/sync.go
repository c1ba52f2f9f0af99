package sonic

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// rulesObject is the object of repairs of csig's entries.
const rulesObject = "entries"

// takeOver makes the observed setup the wanted one.
func (d *Driver) takeOver(ctx context.Context) error {
	seen, err := d.look(ctx, nil)
	if err != nil {
		return err
	}
	if seen.record.setup == nil {
		return vendors.NoSetup(seen.setup().Damaged)
	}
	s := *seen.record.setup
	if err := validate(&s); err != nil {
		return err
	}
	d.adopt(s)
	return nil
}

// sync brings the switch to our setup, and our knowledge to the switch.
func (d *Driver) sync(ctx context.Context, res *vendors.UpdateResult) error {
	d.known.Doubt()
	seen, err := d.look(ctx, d.setup)
	if err != nil {
		return err
	}
	have := seen.setup()
	changes, err := Diff(have, *d.setup)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(slices.Collect(maps.Values(seen.entries)), func(r rowView) bool { return seen.unwanted(d, r) }) {
		changes = append(changes, vendors.Change{Kind: vendors.Remove, What: rulesObject, Detail: "entries in " + aclTable + " that csig does not have there"})
	}
	wasKnown, wasThere := d.known != vendors.Unread, seen.defined()
	if wasKnown {
		res.NoteRepairs(changes)
	}
	if err = d.make(ctx, seen); d.known != vendors.Current {
		return err
	}
	restarted := d.orchRestarted
	d.orchRestarted = false
	switch {
	case !wasKnown:
	case restarted:
		res.Restarted = true
		res.NoteRepair("", rulesObject, "~ orchagent restarted and its rows stayed: csig sent the table and all entries again")
	case d.asic != asicAgrees:
		res.NoteRepair("", rulesObject, "~ entries missing in the ASIC: csig sent all entries again")
	case seen.fresh && wasThere && len(changes) == 0:
		res.Restarted = true
		res.NoteRepair("", rulesObject, "+ the ACL table was gone: orchagent restarted")
	case seen.disputed:
		res.NoteRepair("", rulesObject, "~ rows differed from orchagent's answers: csig sent all entries again")
	}
	if wasKnown && res.Repaired == nil { // else that says it
		for _, port := range d.drifted {
			res.NoteRepair(port, rulesObject, "~ its ACL entries")
		}
	}
	if d.asic != asicAgrees {
		if _, err := d.counted(ctx); err != nil {
			d.known.Doubt()
			return err
		}
	}
	return nil // what concerns single ports comes up again in program
}

// unwanted reports whether csig must delete a row.
func (v *view) unwanted(d *Driver, r rowView) bool {
	// orchagent keeps a port that CONFIG_DB has deleted for as long as entries name it.
	return r.bad != "" || d.byName[r.port] == nil || v.away(r.port) != ""
}

// learn notes what the switch has, and which ports have something else than we
// left there. The rows are what P4Orch was asked for, or what it had before it was
// started again: it is asked again, which changes nothing where it has them, and what
// it refuses is not there.
func (d *Driver) learn(ctx context.Context) error {
	seen, err := d.look(ctx, d.setup)
	if err != nil {
		return err
	}
	d.proof = seen.proof()
	if err := d.askAgain(ctx, seen); err != nil {
		return err
	}
	before := map[string]vlanrules.Table{}
	for _, p := range d.ports {
		before[p.name], p.have = p.have, nil
	}
	for _, key := range sortedKeys(seen.entries) {
		r := seen.entries[key]
		if p := d.byName[r.port]; p != nil && r.bad == "" {
			p.have = append(p.have, r.entry)
		}
	}
	d.drifted = nil
	for _, p := range d.ports {
		if sorted(p.have); !sameRows(p.name, before[p.name], p.have) {
			d.drifted = append(d.drifted, p.name)
		}
	}
	d.known, d.checked = vendors.Current, time.Now()
	return nil
}

// askAgain has orchagent confirm every row.
func (d *Driver) askAgain(ctx context.Context, seen *view) error {
	var chains []*chain
	for _, key := range sortedKeys(seen.entries) {
		r := seen.entries[key]
		if r.bad == "" {
			chains = append(chains, &chain{port: r.port, ops: []rowOp{{key: key, to: entryRow(&r.entry)}}})
		}
	}
	if err := d.run(ctx, chains); err != nil {
		return err
	}
	for _, c := range chains {
		switch {
		case c.err == nil:
		case errors.As(c.err, new(*StatusError)):
			delete(seen.entries, c.ops[0].key)
		default:
			return fmt.Errorf("confirm an ACL entry of port %s: %w", c.port, c.err)
		}
	}
	return nil
}
