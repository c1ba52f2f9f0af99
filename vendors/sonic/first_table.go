package sonic

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/vendors"
)

// Where SAI refuses the ACL groups that the first table needs, orchagent ends, and all
// ports go down (doc.go). That must not happen twice because of csig: STATE_DB has a
// note of a first definition from before it is sent until it is answered, and while
// that stands none is sent.
const (
	firstKey      = "CSIG_TABLE|definition"
	firstSent     = "sent"
	firstAnswered = "answered"
	firstAgain    = "again" // it was sent a second time, since the first note was not true

	// firstPatience is how many times its patience orchagent has for that.
	firstPatience = 5
)

const firstTable = "for its first ACL table orchagent makes ACL groups of the whole switch at ingress, egress and pre-ingress, and where the SAI refuses one (assumed: none does) it ends, and all ports go down with it"

// stageCapability is what orchagent found SAI's egress ACL stage to be like
// (orchagent/aclorch.cpp, putAclActionCapabilityInDB).
const stageCapability = "ACL_STAGE_CAPABILITY_TABLE|EGRESS"

// blockedReason is why csig must not define its table on the switch, "" where it may.
func (d *Driver) blockedReason(ctx context.Context, seen *view) (string, error) {
	list, err := d.hashes(ctx, [2]string{sonicdb.State, stageCapability})
	if err != nil {
		return "", err
	}
	if list[0]["is_action_list_mandatory"] == "true" {
		return "the switch's SAI requires each egress ACL table to list its actions (STATE_DB " + stageCapability + " is_action_list_mandatory is true), and P4Orch lists COUNTER alone (sonic-swss orchagent/p4orch/acl_table_manager.cpp, getTableSaiAttrs): entries could not set the VID", nil
	}
	if why, err := d.pendingFirstTable(ctx, seen); err != nil || why != "" {
		return why, err
	}
	if seen.defined() {
		return "", nil
	}
	v, err := d.lookASIC(ctx)
	if err != nil || !v.direct {
		return "", err
	}
	return v.unbound() + ": orchagent would take that away for csig's", nil
}

// pendingFirstTable is the reason where a definition was sent and not answered, so that
// orchagent may have crashed on it; "" otherwise. What orchagent takes from a cold start on is empty
// at first: where it answers again, and the ACL groups are there, or the row that it was
// sent still is, it is the same one.
func (d *Driver) pendingFirstTable(ctx context.Context, seen *view) (string, error) {
	if seen.first[firstSent] == "" {
		return "", nil
	}
	o, err := d.orchagent(ctx)
	if err != nil {
		return "", err
	}
	if o.running() && o.ready {
		v, err := d.lookASIC(ctx)
		if err != nil || v.grouped() || seen.rows[definedTable] != nil && seen.first[firstAgain] == "" {
			return "", err
		}
	}
	return fmt.Sprintf("orchagent did not answer when csig sent its ACL table at %s: it may have crashed on it (%s). csig does not send it again. See the log of swss; if the cause was another one, run \"sonic-db-cli STATE_DB DEL '%s'\" on the switch, and csig sends it once more", seen.first[firstSent], firstTable, firstKey), nil
}

// sendDefinition sends a table definition, and notes it in STATE_DB while it is the first
// one since the switch started.
func (d *Driver) sendDefinition(ctx context.Context, seen *view, c *chain) error {
	if seen.first[firstAnswered] != "" {
		return d.run(ctx, []*chain{c})
	}
	now := time.Now().UTC().Format(time.RFC3339)
	note := []string{sonicdb.State, "HSET", firstKey, firstSent, now}
	if seen.first[firstSent] != "" {
		note = append(note, firstAgain, now)
	}
	if err := d.write(ctx, note); err != nil {
		return err
	}
	d.noted[firstKey] = true
	session, patience := d.session, d.session.patience
	session.patience *= firstPatience
	err := d.run(ctx, []*chain{c})
	session.patience = patience
	if err != nil {
		return err
	}
	var status *StatusError
	switch {
	case c.unknown:
		return &vendors.PermanentError{Err: fmt.Errorf("the ACL table: %w: it may have crashed on it, and csig does not retry; see the log of swss", c.err)}
	case c.err == nil || errors.As(c.err, &status) && status.tableThere():
		return d.write(ctx, []string{sonicdb.State, "HSET", firstKey, firstAnswered, now}, []string{sonicdb.State, "HDEL", firstKey, firstSent, firstAgain})
	}
	return d.write(ctx, []string{sonicdb.State, "DEL", firstKey}) // it is alive, or was never sent it
}
