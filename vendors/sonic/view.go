package sonic

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// view is what the databases say of us and of the ports, as one look found it, and
// which setup is wanted there.
type view struct {
	wanted *vendors.Setup

	record  record
	first   row            // the note of a table definition that was sent (first_table.go)
	probe   row            // the note of a TPID that was sent (tpid_probe.go)
	badWhy  string         // why that may have ended orchagent; "" where it has not
	started string         // how often orchagent came back from a warm restart
	rows    map[string]row // ours in APPL_DB, that of the table's definition among them, by their keys below P4RT_TABLE
	states  map[string]row // and in APPL_STATE_DB

	entries  map[string]rowView // what P4Orch has in our table, by the same keys
	disputed bool               // our rows differ from what orchagent acknowledged
	gone     []string           // of our rows, those of which it said so
	fresh    bool               // the table was made by us just now

	carriers   map[string]carrier // ports and aggregates
	lags       map[string]string  // the aggregate of each member
	objects    row                // of ports, in ASIC_DB
	capability row                // of the switch
}

// rowView is a row of our table.
type rowView struct {
	port  string
	entry vlanrules.Entry
	bad   string // why it is no entry of ours
}

// away says why a port cannot be programmed, "" where it can.
func (v *view) away(name string) string {
	if !v.carriers[name].there {
		return "CONFIG_DB has no such port; it is programmed as soon as it appears"
	}
	return v.refusal(name)
}

// members tells of each port that is a member of an aggregate of which, by
// CONFIG_DB's PORTCHANNEL_MEMBER.
func (d *Driver) members(ctx context.Context) (map[string]string, error) {
	const prefix = "PORTCHANNEL_MEMBER|"
	keys, err := d.db.Scan(ctx, sonicdb.Config, prefix)
	out := make(map[string]string, len(keys))
	for _, k := range keys {
		if lag, port, ok := strings.Cut(strings.TrimPrefix(k, prefix), "|"); ok {
			out[port] = lag
		}
	}
	return out, err
}

// hashes reads rows in one round trip: each is a database and a key. One that is not
// there is empty.
func (d *Driver) hashes(ctx context.Context, places ...[2]string) ([]row, error) {
	cmds := make([][]string, len(places))
	for i, at := range places {
		cmds[i] = []string{at[0], "HGETALL", at[1]}
	}
	answers, err := d.db.All(ctx, cmds...)
	if err != nil {
		return nil, err
	}
	out := make([]row, len(answers))
	for i, a := range answers {
		fields, err := redis.StringMap(a, nil)
		if err != nil {
			return nil, fmt.Errorf("HGETALL %s: %w", places[i][1], err)
		}
		out[i] = readable(fields)
	}
	return out, nil
}

// table reads the rows of a database whose keys begin with a prefix, by the rest of
// their keys.
func (d *Driver) table(ctx context.Context, db, prefix string) (map[string]row, error) {
	keys, err := d.db.Scan(ctx, db, prefix)
	if err != nil {
		return nil, err
	}
	list, err := d.hashes(ctx, at(db, keys)...)
	if err != nil {
		return nil, err
	}
	out := make(map[string]row, len(keys))
	for i, k := range keys {
		if len(list[i]) > 0 {
			out[strings.TrimPrefix(k, prefix)] = list[i]
		}
	}
	return out, nil
}

// at are keys of one database.
func at(db string, keys []string) [][2]string {
	places := make([][2]string, len(keys))
	for i, k := range keys {
		places[i] = [2]string{db, k}
	}
	return places
}

// write carries out commands of which none may be refused.
func (d *Driver) write(ctx context.Context, cmds ...[]string) error {
	_, err := d.db.All(ctx, cmds...)
	return err
}

// readable is a row whose names and values are lines that can be printed: what is no
// such line is nothing of SONiC's, and is nowhere written back.
func readable(fields map[string]string) row {
	out := make(row, len(fields))
	for name, value := range fields {
		most := maxValue
		if name == recordSetup {
			most = maxRecord
		}
		out[untrusted.Text(name, maxName)] = untrusted.Text(value, most)
	}
	return out
}

// The longest names and values of rows, and the longest record of a setup, in bytes.
const (
	maxName   = 1 << 10
	maxValue  = 4 << 10
	maxRecord = 1 << 20
)

// look reads what the databases say of us and of the ports, for the setup that is
// wanted: nil is the one that is recorded. It writes nothing.
func (d *Driver) look(ctx context.Context, want *vendors.Setup) (*view, error) {
	v, err := d.settled(ctx)
	if err != nil {
		return nil, err
	}
	v.parseEntries()
	if err := d.lookPorts(ctx, v); err != nil {
		return nil, err
	}
	if v.badWhy, err = d.pendingTPIDProbe(ctx, v); err != nil {
		return nil, err
	}
	switch {
	case want != nil:
		v.wanted = want
	case v.record.setup != nil:
		v.wanted = v.record.setup
	default:
		v.wanted = &vendors.Setup{}
	}
	d.seen = v
	return v, nil
}

// readRows reads the record, the notes and our rows.
func (d *Driver) readRows(ctx context.Context) (*view, error) {
	list, err := d.hashes(ctx,
		[2]string{sonicdb.State, recordKey}, [2]string{sonicdb.State, firstKey}, [2]string{sonicdb.State, tpidKey}, [2]string{sonicdb.State, warmRestart},
		[2]string{sonicdb.Appl, rows + definedTable}, [2]string{sonicdb.ApplState, rows + definedTable})
	if err != nil {
		return nil, err
	}
	v := &view{record: parseRecord(list[0]), first: list[1], probe: list[2], started: list[3]["restore_count"]}
	read := func(db string, definition row) (map[string]row, error) {
		entries, err := d.table(ctx, db, rows+aclTable+":")
		if err != nil {
			return nil, err
		}
		out := make(map[string]row, len(entries)+1)
		for key, fields := range entries {
			out[aclTable+":"+key] = fields
		}
		if len(definition) > 0 {
			out[definedTable] = definition
		}
		return out, nil
	}
	if v.rows, err = read(sonicdb.Appl, list[4]); err != nil {
		return nil, err
	}
	v.states, err = read(sonicdb.ApplState, list[5])
	return v, err
}

// lookPorts reads the ports and aggregates, the members of these, and all their TPIDs.
func (d *Driver) lookPorts(ctx context.Context, v *view) error {
	var err error
	if v.lags, err = d.members(ctx); err != nil {
		return err
	}
	list, err := d.hashes(ctx, [2]string{sonicdb.State, switchCapability}, [2]string{sonicdb.Counters, portNames})
	if err != nil {
		return err
	}
	v.capability, v.objects = list[0], list[1]
	v.carriers = map[string]carrier{}
	for _, table := range []string{portKey(""), carrierKey(aggregates)} {
		found, err := d.table(ctx, sonicdb.Config, table)
		if err != nil {
			return err
		}
		for key, fields := range found {
			_, name, _ := strings.Cut(table+key, "|")
			v.carriers[name] = carrier{there: true, tpid: fields["tpid"]}
		}
	}
	for name := range v.objects { // also what CONFIG_DB has deleted, and the ASIC has
		if _, there := v.carriers[name]; !there {
			v.carriers[name] = carrier{}
		}
	}
	names := sortedKeys(v.carriers)
	var places [][2]string
	for _, n := range names {
		places = append(places, [2]string{sonicdb.Appl, carrierTable(n)}, [2]string{sonicdb.ASIC, asicPorts + v.objects[n]})
	}
	if list, err = d.hashes(ctx, places...); err != nil {
		return err
	}
	for i, n := range names {
		c := v.carriers[n]
		c.orch, c.asic = list[2*i]["tpid"], asicTPID(list[2*i+1])
		v.carriers[n] = c
	}
	return nil
}

// portNames is where COUNTERS_DB has the objects of ports.
const portNames = "COUNTERS_PORT_NAME_MAP"

// warmRestart is where orchagent counts its starts that find the databases as they
// were: rows say nothing of its entries after one (doc.go).
const warmRestart = "WARM_RESTART_TABLE|orchagent"

// switchCapability is what orchagent found SAI to be capable of (sonic-swss
// orchagent/switchorch.cpp, querySwitchTpidCapability).
const switchCapability = "SWITCH_CAPABILITY|switch"

// fixedLAGs reports whether SAI cannot change the TPID of an aggregate.
func (v *view) fixedLAGs() bool { return v.capability["LAG_TPID_CAPABLE"] == "false" }

// parseEntries makes entries of the rows that P4Orch has.
func (v *view) parseEntries() {
	v.entries = map[string]rowView{}
	for key, fields := range v.reports() {
		if key == definedTable {
			continue
		}
		port, e, err := parseEntry(key, fields)
		r := rowView{port: port, entry: e}
		if err != nil {
			r.bad = err.Error()
		}
		if slices.Contains(v.gone, key) {
			r.bad = "orchagent has answered that it is gone"
		}
		v.entries[key] = r
	}
}

// proof reports whether P4Orch reports what it has in APPL_STATE_DB, as it did up to
// SONiC 202311.
func (v *view) proof() bool { return len(v.states) > 0 }

// reports is the rows that P4Orch has: those it reports where it reports, else those
// that it was asked for.
func (v *view) reports() map[string]row {
	if v.proof() {
		return v.states
	}
	return v.rows
}

// defined reports whether there is a definition of our table at all.
func (v *view) defined() bool { return v.rows[definedTable] != nil || v.states[definedTable] != nil }

// definition is that of our table as P4Orch has it; ok is false where there is
// none, or another one than csig makes.
func (v *view) definition() (definition, bool) { return parseDefinition(v.reports()[definedTable]) }

// entryKeys are those of our table's rows, also of what was asked for and is not there.
func (v *view) entryKeys() []string {
	keys := append(slices.Collect(maps.Keys(v.entries)), slices.Collect(maps.Keys(v.rows))...)
	slices.Sort(keys)
	return slices.DeleteFunc(slices.Compact(keys), func(key string) bool { return key == definedTable })
}

func (v *view) forgetTable() {
	clear(v.entries)
	clear(v.rows)
	clear(v.states)
}

// restore gives a port or an aggregate the TPID back that it had before csig, and the
// default where that is not known, unless another process has given it another one
// since, and deletes its record.
func (v *view) restore(port string) [][]string {
	var cmds [][]string
	ours := v.record.setup != nil && sameTPID(v.carriers[port].tpid, tpidText(v.record.setup.TPID))
	if v.carriers[port].there && ours {
		cmds = append(cmds, tpidCommand(port, v.record.before[port]))
	}
	return append(cmds, []string{sonicdb.State, "HDEL", recordKey, recordBefore + port})
}

// restoreAll gives all TPIDs back.
func (v *view) restoreAll() (cmds [][]string) {
	for _, p := range sortedKeys(v.record.before) {
		cmds = append(cmds, v.restore(p)...)
	}
	return cmds
}

// setup is the setup that was found.
func (v *view) setup() vendors.Setup {
	if v.record.setup == nil {
		s := vendors.Setup{}
		switch {
		case v.record.err != nil:
			s.Damaged = v.record.err.Error()
		case v.defined() || len(v.entries) > 0:
			s.Damaged = "there is an ACL table of csig's without the record of its setup in STATE_DB"
		}
		return s
	}
	s := *v.record.setup
	s.Ports = slices.Clone(s.Ports)
	have, ok := v.definition()
	switch {
	case v.record.err != nil:
		s.Damaged = v.record.err.Error()
	case !v.defined():
		s.Damaged = "the ACL table is gone: orchagent or the switch was started again"
	case !ok:
		s.Damaged = "the ACL table is not as csig defines it"
	case have.size < tableSize(&s):
		s.Damaged = fmt.Sprintf("the ACL table has room for %d entries, not for %d", have.size, tableSize(&s))
	}
	strange := map[string]bool{}
	for _, r := range v.entries {
		if r.bad != "" && r.port == "" {
			s.Damaged = "there are entries in the ACL table that are not csig's: " + r.bad
		} else {
			strange[r.port] = true
		}
	}
	want := tpidText(s.TPID)
	for i := range s.Ports {
		p := &s.Ports[i]
		at, whose := v.carriers[v.carrierOf(p.Port)], "its TPID"
		if lag := v.lags[p.Port]; lag != "" {
			whose = "the TPID of " + lag
		}
		switch why := v.away(p.Port); {
		case why != "":
			p.Damaged = why
		case !sameTPID(at.tpid, want):
			p.Damaged = fmt.Sprintf("%s in CONFIG_DB is %s", whose, at.tpidOr())
		case at.orch != "" && !sameTPID(at.orch, want):
			p.Damaged = fmt.Sprintf("%s in APPL_DB is still %s", whose, at.orch)
		case at.asic != "" && !sameTPID(at.asic, want):
			p.Damaged = refusedTPID(at.asic, want)
		case v.partial(p.Port) != "":
			p.Damaged = v.partial(p.Port)
		case p.Action != vlanrules.Update && strange[p.Port]:
			p.Damaged = "it has ACL entries, and is not to update"
		}
	}
	return s
}
