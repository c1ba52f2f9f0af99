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

// A TPID that SAI refuses ends orchagent up to 202411 (orchagent/saihelper.cpp,
// handleSaiSetStatus), and again each time that it is started while CONFIG_DB has it. So
// one port has it first, STATE_DB has a note of that from before until it is known
// what came of it, and CONFIG_DB gets back what it had as soon as orchagent is gone.
const (
	tpidKey   = "CSIG_TABLE|tpid"
	tpidAbout = "about" // when csig was about to write it: CONFIG_DB may not have taken it
	tpidSent  = "sent"  // when CONFIG_DB had taken it
	tpidOf    = "tpid"
	tpidPort  = "port" // or aggregate
)

// errGone is of an orchagent that was there when csig gave a port its TPID.
var errGone = errors.New("orchagent has ended")

// tpidStands says that orchagent may have ended over a TPID; "" where it has not: a
// port has that in the ASIC, CONFIG_DB never took it, or orchagent was given it and
// runs. Of one that csig was about to write when its connection was lost, CONFIG_DB
// and an orchagent that is gone tell.
func (d *Driver) tpidStands(ctx context.Context) (why string, sent bool, err error) {
	list, err := d.hashes(ctx, [][]string{{sonicdb.State, "HGETALL", tpidKey}, {sonicdb.Counters, "HGETALL", "COUNTERS_PORT_NAME_MAP"}})
	if err != nil || list[0][tpidOf] == "" {
		return "", false, err
	}
	note, objects := list[0], list[1]
	ask := [][]string{{sonicdb.Config, "HGETALL", carrierKey(note[tpidPort])}, {sonicdb.Appl, "HGETALL", carrierTable(note[tpidPort])}}
	for _, port := range sortedKeys(objects) {
		ask = append(ask, []string{sonicdb.ASIC, "HGETALL", asicPorts + objects[port]})
	}
	have, err := d.hashes(ctx, ask)
	if err != nil || slices.ContainsFunc(have[2:], func(row map[string]string) bool { return sameTPID(asicTPID(row), note[tpidOf]) && len(row) > 0 }) {
		return "", false, err
	}
	sent = note[tpidSent] != ""
	kept := sameTPID(have[0]["tpid"], note[tpidOf])
	if !sent && !kept {
		return "", false, nil
	}
	if !sent || kept && sameTPID(have[1]["tpid"], note[tpidOf]) {
		if o, err := d.orchagent(ctx); err != nil || o.running() && o.ready {
			return "", false, err
		}
	}
	return fmt.Sprintf("orchagent was given TPID %s for %s at %s, no port has it in the ASIC, and orchagent may have ended over it: up to SONiC 202411 a TPID that SAI does not take ends it, see the log of swss. csig does not try that TPID again: choose another one for the domain. Where it was something else, \"sonic-db-cli STATE_DB DEL '%s'\" on the switch has csig try once more",
		note[tpidOf], note[tpidPort], cmp.Or(note[tpidSent], note[tpidAbout]), tpidKey), sent, nil
}

// keepBan notes that a TPID was sent, before what shows that goes from CONFIG_DB.
func (d *Driver) keepBan(ctx context.Context, seen *view) error {
	if seen.badWhy == "" || seen.badSent {
		return nil
	}
	seen.badSent = true
	return d.write(ctx, []string{sonicdb.State, "HSET", tpidKey, tpidSent, d.cfg.Now().UTC().Format(time.RFC3339)})
}

// refuses tells whether a TPID has ended orchagent before.
func (v *view) refuses(tpid uint16) bool { return v.badWhy != "" && v.badTPID == tpidText(tpid) }

// refusedBefore is the refusal of a TPID that has ended orchagent before. What of it
// CONFIG_DB still has is given back first, for it would do that again.
func (d *Driver) refusedBefore(ctx context.Context, seen *view) error {
	if !seen.refuses(d.setup.TPID) {
		return nil
	}
	if err := d.write(ctx, seen.restoreAll()...); err != nil {
		return err
	}
	return &vendors.PermanentError{Err: errors.New(seen.badWhy)}
}

// took tells whether some port has a TPID in the ASIC.
func (v *view) took(tpid string) bool {
	for _, c := range v.carriers {
		if c.asic != "" && sameTPID(c.asic, tpid) {
			return true
		}
	}
	return false
}

// giveTPIDs gives ports and aggregates the TPID, of which what they have is noted
// already: one port first where the ASIC has it nowhere.
func (d *Driver) giveTPIDs(ctx context.Context, change, await []string, of map[string][]string, seen *view) error {
	want := tpidText(d.setup.TPID)
	rest := change
	give := func(names []string) error {
		var cmds [][]string
		for _, name := range names {
			cmds = append(cmds, tpidCommand(name, want))
		}
		return d.write(ctx, cmds...)
	}
	if kept := slices.DeleteFunc(slices.Clone(await), func(name string) bool { return slices.Contains(change, name) }); seen.badTPID == want && len(kept) > 0 {
		// What came of an earlier try was not seen, and is before others have it.
		early := d.orGone(ctx, d.portmgrd(ctx, kept, of, seen))
		switch {
		case errors.Is(early, errGone):
			return errors.Join(early, d.write(ctx, seen.restoreAll()...))
		case early != nil && len(portsOf(early)) == 0:
			return early
		}
		seen.badTPID = "" // orchagent lives with it
		return errors.Join(early, d.write(ctx, []string{sonicdb.State, "DEL", tpidKey}), d.giveTPIDs(ctx, change, change, of, seen))
	}
	var err error
	if len(change) > 0 && !seen.took(want) {
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
			// Who is interrupted here would leave a note that is not true.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*d.cfg.Patience)
			if err = d.write(ctx, []string{sonicdb.State, "HSET", tpidKey, tpidSent, now}); err == nil {
				err = d.orGone(ctx, d.portmgrd(ctx, change[first:first+1], of, seen))
			}
			cancel()
		}
		switch {
		case errors.Is(err, errGone):
			return d.takeTPIDs(ctx, change[first:first+1], seen)
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
			return d.takeTPIDs(ctx, change, seen)
		}
		err = errors.Join(err, late)
	}
	if seen.badTPID == want && (err == nil || len(portsOf(err)) > 0) { // orchagent lives with it
		delete(d.noted, tpidKey)
		return errors.Join(err, d.write(ctx, []string{sonicdb.State, "DEL", tpidKey}))
	}
	return err
}

// orGone is errGone where orchagent does not answer after an error of portmgrd: one
// that ends keeps its connections while its core is written. It is asked to delete a
// table that does not exist. A lost connection gives no information about it.
func (d *Driver) orGone(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, errGone) {
		return err
	}
	c := &chain{ops: []rowOp{{key: definitions + ":ACL_CSIG_NONE_TABLE"}}}
	switch lost := d.run(ctx, []*chain{c}); {
	case lost != nil:
		return fmt.Errorf("%v; whether orchagent lives with that is not known: %w", err, lost) //nolint:errorlint // no error of a port: nothing is known of the others either
	case c.err != nil && !errors.As(c.err, new(*StatusError)):
		return errGone
	}
	return err
}

// takeTPIDs gives ports back what CONFIG_DB had, and makes the record that of before.
func (d *Driver) takeTPIDs(ctx context.Context, names []string, seen *view) error {
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
	what := fmt.Sprintf("orchagent has ended when %s had TPID %s: its SAI does not take that TPID, as the log of swss should say; CONFIG_DB has again what it had, and orchagent starts with that",
		vendors.Names(names), tpidText(d.setup.TPID))
	if d.noted[tpidKey] {
		what += " (a note of it stays in STATE_DB, " + tpidKey + ": csig does not try that TPID again)"
	}
	return &vendors.PermanentError{Err: errors.New(what)}
}
