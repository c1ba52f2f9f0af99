package sonic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/vendors"
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
	seen.probe[tpidSent] = time.Now().UTC().Format(time.RFC3339)
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

// giveTPIDs sets the TPID of ports and aggregates, whose former values are noted
// already: on one port first, the canary, where the ASIC has it on none. Those that are
// kept have it in CONFIG_DB.
func (d *Driver) giveTPIDs(ctx context.Context, change, kept []string, of map[string][]string, seen *view) error {
	want, errs := tpidText(d.setup.TPID), []error{}
	if seen.probe[tpidOf] == want && len(kept) > 0 {
		// The outcome of an earlier try is unknown: find it out before others get the TPID.
		err := d.checkAlive(ctx, d.portmgrd(ctx, kept, of, seen))
		switch {
		case errors.Is(err, errGone):
			return errors.Join(err, d.write(ctx, seen.restoreAll()...))
		case err != nil && len(portsOf(err)) == 0:
			return err
		}
		seen.probe = nil // orchagent still runs with it
		errs, kept = append(errs, err, d.write(ctx, []string{sonicdb.State, "DEL", tpidKey})), nil
	}
	rest := change
	if len(change) > 0 && !seen.inASIC(want) {
		first := max(0, slices.IndexFunc(change, func(name string) bool { return !isAggregate(name) })) // of these ASIC_DB tells
		err := d.tryTPID(ctx, change[first], of, seen)
		switch {
		case errors.Is(err, errGone):
			return d.revertTPIDs(ctx, change[first:first+1], seen)
		case err != nil && len(portsOf(err)) == 0:
			return err
		}
		errs, rest = append(errs, err), slices.Delete(slices.Clone(change), first, first+1)
	}
	if len(rest)+len(kept) > 0 {
		if err := d.write(ctx, tpidCommands(rest, want)...); err != nil {
			return err
		}
		err := d.portmgrd(ctx, append(slices.Clone(rest), kept...), of, seen)
		if errors.Is(err, errGone) {
			return d.revertTPIDs(ctx, change, seen)
		}
		errs = append(errs, err)
	}
	err := errors.Join(errs...)
	if seen.probe[tpidOf] == want && (err == nil || len(portsOf(err)) > 0) { // orchagent still runs with it
		delete(d.noted, tpidKey)
		return errors.Join(err, d.write(ctx, []string{sonicdb.State, "DEL", tpidKey}))
	}
	return err
}

// tryTPID gives one port or aggregate the TPID, with a note for as long as the outcome
// is unknown.
func (d *Driver) tryTPID(ctx context.Context, name string, of map[string][]string, seen *view) error {
	want, now := tpidText(d.setup.TPID), time.Now().UTC().Format(time.RFC3339)
	err := d.write(ctx,
		[]string{sonicdb.State, "MULTI"},
		[]string{sonicdb.State, "DEL", tpidKey},
		[]string{sonicdb.State, "HSET", tpidKey, tpidAbout, now, tpidOf, want, tpidPort, name},
		[]string{sonicdb.State, "EXEC"})
	if err != nil {
		return err
	}
	d.noted[tpidKey] = true
	one := []string{name}
	if err := d.write(ctx, tpidCommands(one, want)...); err != nil {
		return err
	}
	// An interrupt here would leave a wrong note.
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*d.cfg.Patience)
	defer cancel()
	if err = d.write(wait, []string{sonicdb.State, "HSET", tpidKey, tpidSent, now}); err == nil {
		err = d.checkAlive(wait, d.portmgrd(wait, one, of, seen))
	}
	if errors.Is(err, errGone) || err != nil && len(portsOf(err)) == 0 {
		return err
	}
	if err := d.write(ctx, []string{sonicdb.State, "DEL", tpidKey}); err != nil {
		return err
	}
	delete(d.noted, tpidKey)
	return err
}

func tpidCommands(names []string, tpid string) (cmds [][]string) {
	for _, name := range names {
		cmds = append(cmds, tpidCommand(name, tpid))
	}
	return cmds
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
