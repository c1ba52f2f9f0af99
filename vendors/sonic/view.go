package sonic

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonicdb"
	"github.com/csig-agent/csig/vendors/untrusted"
	"github.com/csig-agent/csig/vlanrules"
)

// view is what the databases say of us.
type view struct {
	record    record
	ports     map[string]portView
	carriers  map[string]carrier // of their TPIDs
	objects   map[string]string  // of ports, in ASIC_DB
	wants     uint16             // the TPID that they are to have; 0: none
	fixedLAGs bool               // SAI cannot change the TPID of an aggregate
	entries   map[string]rowView // rows of our table, by their key below P4RT_TABLE

	asked    map[string]string            // the table's definition in APPL_DB
	reported map[string]string            // and in APPL_STATE_DB
	badTPID  string                       // the TPID that csig notes; "" is none
	badWhy   string                       // why it may have ended orchagent; "" where it has not
	badSent  bool                         // and the note says that it was sent
	started  string                       // how often orchagent came back from a warm restart
	rows     map[string]map[string]string // our rows in APPL_DB, the definition aside
	states   map[string]map[string]string // and in APPL_STATE_DB
	disputed bool                         // our rows differ from what orchagent acknowledged
	gone     []string                     // of our rows, those of which it said so
	fresh    bool                         // the table was made by us just now
	lags     map[string]string            // the aggregate of each member
}

// portView is a port of CONFIG_DB.
type portView struct {
	there   bool
	lag     string   // the aggregate that it is a member of; "" is none
	unnamed []string // other members of that, which the setup does not have
}

// away says why a port cannot be programmed, "" where it can.
func (v *view) away(name string) string {
	if !v.ports[name].there {
		return "CONFIG_DB has no such port; it is programmed as soon as it appears"
	}
	return v.refusal(name)
}

// members tells of each port that is a member of an aggregate of which, by
// CONFIG_DB's PORTCHANNEL_MEMBER.
func (d *Driver) members(ctx context.Context) (map[string]string, error) {
	const prefix = "PORTCHANNEL_MEMBER|"
	keys, err := d.scan(ctx, sonicdb.Config, prefix)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, len(keys))
	for _, k := range keys {
		if lag, port, ok := strings.Cut(strings.TrimPrefix(k, prefix), "|"); ok {
			out[port] = lag
		}
	}
	return out, nil
}

// rowView is a row of our table.
type rowView struct {
	port  string
	entry vlanrules.Entry
	bad   string // why it is no entry of ours
}

// scan lists the keys of a database that begin with a prefix.
func (d *Driver) scan(ctx context.Context, db, prefix string) ([]string, error) {
	return d.db.Scan(ctx, db, prefix)
}

// hashes reads rows in one round trip.
func (d *Driver) hashes(ctx context.Context, cmds [][]string) ([]map[string]string, error) {
	if len(cmds) == 0 {
		return nil, nil
	}
	answers, err := d.db.Do(ctx, cmds...)
	if err == nil {
		err = firstError(answers)
	}
	if err != nil {
		return nil, err
	}
	out := make([]map[string]string, len(answers))
	for i, a := range answers {
		row, err := redis.StringMap(a, nil)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", cmds[i][1], cmds[i][2], err)
		}
		out[i] = readable(row)
	}
	return out, nil
}

// readable is a row whose names and values are lines that can be printed: what is no
// such line is nothing of SONiC's, and is nowhere written back.
func readable(row map[string]string) map[string]string {
	out := make(map[string]string, len(row))
	for name, value := range row {
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

// look reads what the databases say of us, and of the ports of the setup that is
// wanted, where one is given. It writes nothing.
func (d *Driver) look(ctx context.Context, want ...*vendors.Setup) (*view, error) {
	v, err := d.settled(ctx, func() (*view, error) { return d.readRows(ctx) })
	if err != nil {
		return nil, err
	}
	v.read()
	if v.badTPID != "" {
		if v.badWhy, v.badSent, err = d.pendingTPIDProbe(ctx); err != nil {
			return nil, err
		}
	}
	d.seen = v
	return v, d.lookPorts(ctx, v, append(want, v.record.setup)...)
}

// readRows reads the record and our rows.
func (d *Driver) readRows(ctx context.Context) (*view, error) {
	v := &view{entries: map[string]rowView{}, rows: map[string]map[string]string{}, states: map[string]map[string]string{}}
	first, err := d.hashes(ctx, [][]string{
		{sonicdb.State, "HGETALL", recordKey},
		{sonicdb.Appl, "HGETALL", rows + definedTable},
		{sonicdb.ApplState, "HGETALL", rows + definedTable},
		{sonicdb.State, "HGETALL", warmRestart},
		{sonicdb.State, "HGETALL", tpidKey},
	})
	if err != nil {
		return nil, err
	}
	v.record, v.asked, v.reported = parseRecord(first[0]), first[1], first[2]
	v.started, v.badTPID = first[3]["restore_count"], first[4][tpidOf]

	for db, into := range map[string]map[string]map[string]string{sonicdb.Appl: v.rows, sonicdb.ApplState: v.states} {
		keys, err := d.scan(ctx, db, rows+aclTable+":")
		if err != nil {
			return nil, err
		}
		cmds := make([][]string, len(keys))
		for i, k := range keys {
			cmds[i] = []string{db, "HGETALL", k}
		}
		list, err := d.hashes(ctx, cmds)
		if err != nil {
			return nil, err
		}
		for i, k := range keys {
			if len(list[i]) > 0 {
				into[strings.TrimPrefix(k, rows)] = list[i]
			}
		}
	}
	return v, nil
}

// lookPorts reads the ports of setups, of which the first is the one that is
// wanted, the aggregates and their members, and all their TPIDs.
func (d *Driver) lookPorts(ctx context.Context, v *view, setups ...*vendors.Setup) error {
	var err error
	if v.lags, err = d.members(ctx); err != nil {
		return err
	}
	names := sortedKeys(v.record.before)
	for port, lag := range v.lags {
		names = append(names, port, lag)
	}
	setups = slices.DeleteFunc(setups, func(s *vendors.Setup) bool { return s == nil })
	for _, s := range setups {
		for i := range s.Ports {
			names = append(names, s.Ports[i].Port)
		}
	}
	if v.record.setup == nil { // any may be wanted, and have csig's TPID of before a reboot
		keys, err := d.scan(ctx, sonicdb.Config, portKey(""))
		if err != nil {
			return err
		}
		for _, k := range keys {
			names = append(names, strings.TrimPrefix(k, portKey("")))
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	cmds := [][]string{{sonicdb.State, "HGETALL", switchCapability}, {sonicdb.Counters, "HGETALL", "COUNTERS_PORT_NAME_MAP"}}
	for _, n := range names {
		cmds = append(cmds, []string{sonicdb.Config, "HGETALL", carrierKey(n)}, []string{sonicdb.Appl, "HGETALL", carrierTable(n)})
	}
	list, err := d.hashes(ctx, cmds)
	if err != nil {
		return err
	}
	v.fixedLAGs = list[0]["LAG_TPID_CAPABLE"] == "false"
	v.objects = list[1]
	var ask [][]string
	for _, n := range names {
		ask = append(ask, []string{sonicdb.ASIC, "HGETALL", asicPorts + v.objects[n]})
	}
	asic, err := d.hashes(ctx, ask)
	if err != nil {
		return err
	}
	v.carriers = map[string]carrier{}
	for i, n := range names {
		cfg, appl := list[2+2*i], list[3+2*i]
		v.carriers[n] = carrier{there: len(cfg) > 0, tpid: cfg["tpid"], orch: appl["tpid"], asic: asicTPID(asic[i])}
	}
	if len(setups) > 0 {
		v.want(setups[0])
	} else {
		v.want(&vendors.Setup{})
	}
	return nil
}

// want makes the view that of a setup which is wanted.
func (v *view) want(s *vendors.Setup) {
	v.wants, v.ports = s.TPID, map[string]portView{}
	named := map[string]bool{}
	for i := range s.Ports {
		named[s.Ports[i].Port] = true
	}
	unnamed := map[string][]string{}
	for _, p := range sortedKeys(v.lags) {
		if !named[p] {
			unnamed[v.lags[p]] = append(unnamed[v.lags[p]], p)
		}
	}
	for n, c := range v.carriers {
		if !isAggregate(n) {
			v.ports[n] = portView{there: c.there, lag: v.lags[n], unnamed: unnamed[v.lags[n]]}
		}
	}
}

// warmRestart is where orchagent counts its starts that find the databases as they
// were (sonic-swss-common common/warm_restart.cpp, checkWarmStart). P4Orch refuses
// every row of an entry then, since the table has not been made when they come
// (orchagent/p4orch/p4orch.cpp, doTask), makes the table, and leaves the rows as
// they are; syncd takes the entries from the ASIC.
const warmRestart = "WARM_RESTART_TABLE|orchagent"

// switchCapability is what orchagent found SAI to be capable of (sonic-swss
// orchagent/switchorch.cpp, querySwitchTpidCapability).
const switchCapability = "SWITCH_CAPABILITY|switch"

// read makes entries of the rows that P4Orch has: those it reports where it
// reports, else those that it was asked for.
func (v *view) read() {
	for key, row := range v.reports() {
		port, e, err := parseEntry(key, row)
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

// proof tells whether P4Orch reports what it has in APPL_STATE_DB, as it did up to
// SONiC 202311. Since 202405 its ResponsePublisher writes what it has into
// APPL_DB, over what it was asked for (sonic-swss orchagent/p4orch/p4orch.h).
func (v *view) proof() bool { return len(v.reported) > 0 || len(v.states) > 0 }

// reports is the rows that P4Orch has, by what it says.
func (v *view) reports() map[string]map[string]string {
	if v.proof() {
		return v.states
	}
	return v.rows
}

// defined tells whether there is a definition of our table at all.
func (v *view) defined() bool { return len(v.asked) > 0 || len(v.reported) > 0 }

// definition is that of our table as P4Orch has it; ok is false where there is
// none, or another one than csig makes.
func (v *view) definition() (definition, bool) {
	if v.proof() {
		return parseDefinition(v.reported)
	}
	return parseDefinition(v.asked)
}

func (v *view) entryKeys() []string {
	keys := sortedKeys(v.entries)
	for k := range v.rows { // also what was asked for and is not there: it goes, too
		if _, there := v.entries[k]; !there {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// fields are those of one of our rows in APPL_DB; nil where it is not there.
func (v *view) fields(key string) (fields []string) {
	row := v.rows[key]
	if key == definedTable {
		row = v.asked
	}
	for _, name := range sortedKeys(row) {
		fields = append(fields, name, row[name])
	}
	return fields
}

func (v *view) forgetTable() {
	v.asked, v.reported = nil, nil
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
		if lag := v.ports[p.Port].lag; lag != "" {
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

func (c carrier) tpidOr() string {
	if c.tpid == "" {
		return defaultTPID + ", the default"
	}
	return c.tpid
}
