package sonic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonicdb"
)

// Up to 202411 orchagent exits when SAI refuses a TPID (orchagent/saihelper.cpp,
// handleSaiSetStatus), and at every start while CONFIG_DB has it. So one port, the canary,
// gets it first. STATE_DB has a note from before that until the outcome is known, and
// CONFIG_DB gets its former value back as soon as orchagent is gone.
const (
	tpidKey   = "CSIG_TABLE|tpid"
	tpidAbout = "about" // when csig was about to write it: CONFIG_DB may not have taken it
	tpidSent  = "sent"  // when CONFIG_DB had taken it
	tpidOf    = "tpid"
	tpidPort  = "port" // or aggregate
)

// errGone means that orchagent ran when csig set a port's TPID, and runs no more.
var errGone = errors.New("orchagent has ended")

// pendingTPIDProbe is the reason where orchagent may have crashed on a TPID; "" where a
// port has it in the ASIC, CONFIG_DB never took it, or orchagent has it and runs. Where
// the connection was lost before the write was confirmed, CONFIG_DB and whether
// orchagent runs decide.
func (d *Driver) pendingTPIDProbe(ctx context.Context, seen *view) (why string, err error) {
	note := seen.probe
	if note[tpidOf] == "" || seen.inASIC(note[tpidOf]) {
		return "", nil
	}
	at, sent := seen.carriers[note[tpidPort]], note[tpidSent] != ""
	kept := sameTPID(at.tpid, note[tpidOf])
	if !sent && !kept {
		return "", nil
	}
	if !sent || kept && sameTPID(at.orch, note[tpidOf]) {
		if o, err := d.orchagent(ctx); err != nil || o.running() && o.ready {
			return "", err
		}
	}
	return fmt.Sprintf("orchagent got TPID %s for %s at %s, no port has it in the ASIC, and orchagent may have crashed on it: up to SONiC 202411 it exits when SAI refuses a TPID. csig does not set that TPID again. Choose another one for the domain. See the log of swss; if the cause was another one, run \"sonic-db-cli STATE_DB DEL '%s'\" on the switch, and csig sets it once more",
		note[tpidOf], note[tpidPort], cmp.Or(note[tpidSent], note[tpidAbout]), tpidKey), nil
}

// recordBadTPID notes that a TPID was sent, before CONFIG_DB loses the evidence.
func (d *Driver) recordBadTPID(ctx context.Context, seen *view) error {
	if seen.badWhy == "" || seen.probe[tpidSent] != "" {
		return nil
	}
	seen.probe[tpidSent] = d.cfg.Now().UTC().Format(time.RFC3339)
	return d.write(ctx, []string{sonicdb.State, "HSET", tpidKey, tpidSent, seen.probe[tpidSent]})
}

// isBadTPID reports whether orchagent may have crashed on a TPID before.
func (v *view) isBadTPID(tpid uint16) bool {
	return v.badWhy != "" && v.probe[tpidOf] == tpidText(tpid)
}

// refusedBefore refuses a TPID on which orchagent crashed before. It first restores
// CONFIG_DB where that still has the TPID: orchagent would crash on it again.
func (d *Driver) refusedBefore(ctx context.Context, seen *view) error {
	if !seen.isBadTPID(d.setup.TPID) {
		return nil
	}
	if err := d.write(ctx, seen.restoreAll()...); err != nil {
		return err
	}
	return &vendors.PermanentError{Err: errors.New(seen.badWhy)}
}

// inASIC reports whether any port has a TPID in the ASIC.
func (v *view) inASIC(tpid string) bool {
	for _, c := range v.carriers {
		if c.asic != "" && sameTPID(c.asic, tpid) {
			return true
		}
	}
	return false
}

// setTPIDsCanary sets the TPID of ports and aggregates, whose former values are noted
// already: on one port first, the canary, where the ASIC has it on none.
func (d *Driver) setTPIDsCanary(ctx context.Context, change, await []string, of map[string][]string, seen *view) error {
	want := tpidText(d.setup.TPID)
	rest := change
	give := func(names []string) error {
		var cmds [][]string
		for _, name := range names {
			cmds = append(cmds, tpidCommand(name, want))
		}
		return d.write(ctx, cmds...)
	}
	if kept := slices.DeleteFunc(slices.Clone(await), func(name string) bool { return slices.Contains(change, name) }); seen.probe[tpidOf] == want && len(kept) > 0 {
		// The outcome of an earlier try is unknown: find it out before others get the TPID.
		early := d.checkAlive(ctx, d.portmgrd(ctx, kept, of, seen))
		switch {
		case errors.Is(early, errGone):
			return errors.Join(early, d.write(ctx, seen.restoreAll()...))
		case early != nil && len(portsOf(early)) == 0:
			return early
		}
		seen.probe = nil // orchagent still runs with it
		return errors.Join(early, d.write(ctx, []string{sonicdb.State, "DEL", tpidKey}), d.setTPIDsCanary(ctx, change, change, of, seen))
	}
	var err error
	if len(change) > 0 && !seen.inASIC(want) {
		first := max(0, slices.IndexFunc(change, func(name string) bool { return !isAggregate(name) })) // of these ASIC_DB tells
		now := d.cfg.Now().UTC().Format(time.RFC3339)
		note := [][]string{
			{sonicdb.State, "MULTI"},
			{sonicdb.State, "DEL", tpidKey},
			{sonicdb.State, "HSET", tpidKey, tpidAbout, now, tpidOf, want, tpidPort, change[first]},
			{sonicdb.State, "EXEC"},
		}
		if err := d.write(ctx, note...); err != nil {
			return err
		}
		d.noted[tpidKey] = true
		if err = give(change[first : first+1]); err == nil {
			// An interrupt here would leave a wrong note.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*d.cfg.Patience)
			if err = d.write(ctx, []string{sonicdb.State, "HSET", tpidKey, tpidSent, now}); err == nil {
				err = d.checkAlive(ctx, d.portmgrd(ctx, change[first:first+1], of, seen))
			}
			cancel()
		}
		switch {
		case errors.Is(err, errGone):
			return d.revertTPIDs(ctx, change[first:first+1], seen)
		case err != nil && len(portsOf(err)) == 0:
			return err
		}
		if err := d.write(ctx, []string{sonicdb.State, "DEL", tpidKey}); err != nil {
			return err
		}
		delete(d.noted, tpidKey)
		rest = slices.Delete(slices.Clone(change), first, first+1)
		if err != nil {
			await = slices.DeleteFunc(slices.Clone(await), func(name string) bool { return name == change[first] })
		}
	}
	if len(await) > 0 {
		if e := give(rest); e != nil {
			return e
		}
		late := d.portmgrd(ctx, await, of, seen)
		if errors.Is(late, errGone) {
			return d.revertTPIDs(ctx, change, seen)
		}
		err = errors.Join(err, late)
	}
	if seen.probe[tpidOf] == want && (err == nil || len(portsOf(err)) > 0) { // orchagent still runs with it
		delete(d.noted, tpidKey)
		return errors.Join(err, d.write(ctx, []string{sonicdb.State, "DEL", tpidKey}))
	}
	return err
}

// checkAlive returns errGone where orchagent does not answer after an error of portmgrd:
// one that crashes keeps its connections while its core is written. csig asks it to delete
// a table that does not exist. A lost connection gives no information about it.
func (d *Driver) checkAlive(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, errGone) {
		return err
	}
	c := &chain{ops: []rowOp{{key: definitions + ":ACL_CSIG_NONE_TABLE"}}}
	switch lost := d.run(ctx, []*chain{c}); {
	case lost != nil:
		return fmt.Errorf("%v; whether orchagent still runs is not known: %w", err, lost) //nolint:errorlint // no error of a port: nothing is known of the others either
	case c.err != nil && !errors.As(c.err, new(*StatusError)):
		return errGone
	}
	return err
}

// revertTPIDs restores the former TPIDs in CONFIG_DB, and the former record.
func (d *Driver) revertTPIDs(ctx context.Context, names []string, seen *view) error {
	var cmds [][]string
	for _, name := range names {
		cmds = append(cmds, tpidCommand(name, seen.carriers[name].tpid))
	}
	cmds = append(cmds, []string{sonicdb.State, "DEL", recordKey})
	if old := seen.record.setup; old != nil {
		record, err := recordCommands(old, seen.record.before)
		if err != nil {
			return err
		}
		cmds = append(cmds, record...)
	}
	if err := d.write(ctx, cmds...); err != nil {
		return err
	}
	d.hangUp()
	what := fmt.Sprintf("orchagent exited after %s got TPID %s: SAI most likely refuses that TPID (see the log of swss). csig restored the former TPIDs in CONFIG_DB, and orchagent starts with them",
		vendors.Names(names), tpidText(d.setup.TPID))
	if d.noted[tpidKey] {
		what += " (a note stays in STATE_DB, " + tpidKey + ": csig does not set that TPID again)"
	}
	return &vendors.PermanentError{Err: errors.New(what)}
}
