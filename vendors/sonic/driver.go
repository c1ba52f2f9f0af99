package sonic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonicdb"
	"github.com/csig-agent/csig/vlanrules"
)

// Config is what a driver needs.
type Config struct {
	Redis *sonicdb.Client // the driver closes it

	// Patience is how long orchagent may take for one operation; 0 is
	// DefaultPatience.
	Patience time.Duration

	Now func() time.Time // nil: time.Now
}

// DefaultPatience is how long orchagent may take for one operation. It works on
// one thing at a time, a thousand routes for example.
const DefaultPatience = 3 * time.Second

// recheck is how often Update looks whether the rows are still as it left them,
// and asks orchagent whether it still knows one of them.
const recheck = 10 * time.Second

// Driver drives one SONiC switch through its databases. Its methods are not safe
// for concurrent use.
type Driver struct {
	cfg  Config
	db   *sonicdb.Client
	talk *talk // nil until something is to be written

	setup    *vendors.Setup // what the switch is to have; nil until Apply or the first Update
	ports    []*port
	byName   map[string]*port
	compiler *vlanrules.Compiler
	stale    []vlanrules.Intent

	synced  bool            // ports know what the switch has
	known   bool            // ports know what we left there
	proof   bool            // P4Orch reports what it has in APPL_STATE_DB
	told    map[string]told // lately, of rows
	until   time.Time       // no change of a port begins later; zero is no bound
	checked time.Time
	asked   int // the port whose entry orchagent was asked about last
}

var _ vendors.Driver = (*Driver)(nil)

// port is what the driver knows of one port that updates.
type port struct {
	name string
	away string // why it cannot be programmed, "" where it can

	intents  []vlanrules.Intent // result was compiled from
	compiled bool
	refused  *vendors.PermanentError
	result   vlanrules.Result
	have     vlanrules.Table // on the switch
}

// Open returns a driver that connects when it is first used.
func Open(cfg Config) *Driver {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Patience == 0 {
		cfg.Patience = DefaultPatience
	}
	return &Driver{cfg: cfg, db: cfg.Redis, told: map[string]told{}}
}

// Close ends the connections. What is programmed stays: SONiC has no lease, so
// Release comes first where the signal ends.
func (d *Driver) Close() error {
	d.hangUp()
	return d.db.Close()
}

func (d *Driver) hangUp() {
	if d.talk != nil {
		d.talk.close()
		d.talk = nil
	}
	d.synced = false
}

// Observe reads back the setup: the record in STATE_DB, and what of it is not so.
func (d *Driver) Observe(ctx context.Context) (vendors.Setup, error) {
	seen, err := d.look(ctx)
	if err != nil {
		return vendors.Setup{}, err
	}
	return seen.setup(), nil
}

// Diff lists what Apply(want) would change. It reads nothing.
func (d *Driver) Diff(have, want vendors.Setup) ([]vendors.Change, error) { return Diff(have, want) }

// Apply makes the setup that of want: the record, the ports' TPIDs in CONFIG_DB,
// the ACL table, and in the table nothing but entries of ports that update. A
// port that is new among these has the entries of the fallback, until Update. A
// port that CONFIG_DB does not have is an error of that port.
func (d *Driver) Apply(ctx context.Context, want vendors.Setup) error {
	if err := validate(&want); err != nil {
		return err
	}
	if err := d.listen(ctx); err != nil {
		return err
	}
	seen, err := d.look(ctx, &want)
	if err != nil {
		return err
	}
	d.adopt(want)
	return d.make(ctx, seen)
}

// adopt makes a setup the wanted one.
func (d *Driver) adopt(want vendors.Setup) {
	s := want
	s.Damaged, s.Config = "", ""
	s.Signals, s.Ports = slices.Clone(want.Signals), slices.Clone(want.Ports)
	d.ports, d.byName = nil, map[string]*port{}
	for i := range s.Ports {
		s.Ports[i].Damaged = ""
		if s.Ports[i].Action != vlanrules.Update {
			continue
		}
		p := &port{name: s.Ports[i].Port}
		d.ports = append(d.ports, p)
		d.byName[p.name] = p
	}
	d.setup = &s
	d.compiler = vlanrules.NewCompiler(Rules(), s.Layout)
	d.stale = fallback(&s)
	d.synced, d.known = false, false
}

// fallback is what a port of this setup writes while nobody keeps its signal
// true: the worst bucket with the stale locator, or nothing.
func fallback(s *vendors.Setup) []vlanrules.Intent {
	var out []vlanrules.Intent
	for _, sig := range s.Signals {
		in := vlanrules.Intent{Signal: sig}
		if conservative(s) {
			in = vlanrules.Intent{Signal: sig, Action: vlanrules.Update, S: sig.WorstBucket(), LM: s.Layout.LMStale()}
		}
		out = append(out, in)
	}
	return out
}

// listen begins the conversation with orchagent.
func (d *Driver) listen(ctx context.Context) error {
	if d.talk != nil {
		return nil
	}
	t, err := newTalk(ctx, d.db, d.cfg.Patience, d.cfg.Now)
	if err != nil {
		return err
	}
	if err := d.calm(ctx); err != nil {
		t.close()
		return err
	}
	d.talk = t
	return nil
}

// make brings the switch to d.setup, given what was seen there, and our
// knowledge to the switch.
func (d *Driver) make(ctx context.Context, seen *view) error {
	late := d.setTPIDs(ctx, seen)
	if late != nil && len(portsOf(late)) == 0 {
		return late
	}
	if err := d.define(ctx, seen); err != nil {
		return err
	}
	if err := d.clear(ctx, seen); err != nil {
		return err
	}
	if err := d.learn(ctx); err != nil {
		return err
	}
	errs := []error{late}
	for _, p := range d.setup.Ports {
		if away := seen.ports[p.Port].away(); away != "" {
			errs = append(errs, &vendors.PortError{Port: p.Port, Err: errors.New(away)})
		}
	}
	// Ports without entries would promise what nobody knows, and what entries say
	// means something else in another setup.
	old := seen.record.setup
	other := old == nil || describe(old) != describe(d.setup)
	var fall []vendors.PortUpdate
	for _, p := range d.ports {
		if p.away = seen.ports[p.name].away(); p.away == "" && (other || len(p.have) == 0) {
			fall = append(fall, vendors.PortUpdate{Port: p.name, Intents: d.stale})
		}
	}
	var res vendors.UpdateResult
	return errors.Join(append(errs, d.program(ctx, fall, &res))...)
}

// portsOf are the ports whose errors an error has.
func portsOf(err error) (ports []string) {
	vendors.EachPort(err, func(port string, _ error) { ports = append(ports, port) })
	return ports
}

// setTPIDs records the setup and gives ports the TPID, each noted with what it
// had before anything of it changes.
func (d *Driver) setTPIDs(ctx context.Context, seen *view) error {
	want := tpidText(d.setup.TPID)
	before := map[string]string{}
	wanted := map[string]bool{}
	var change [][]string
	for _, p := range d.setup.Ports {
		at := seen.ports[p.Port]
		wanted[p.Port] = at.lag == ""
		if at.away() != "" {
			continue
		}
		if _, noted := seen.record.before[p.Port]; !noted && !sameTPID(at.tpid, want) {
			before[p.Port] = at.tpid
		}
		if !sameTPID(at.tpid, want) {
			change = append(change, tpidCommand(p.Port, want))
		}
	}
	cmds, err := recordCommands(d.setup, before)
	if err != nil {
		return err
	}
	cmds = append(cmds, change...)
	for _, p := range sortedKeys(seen.record.before) {
		if !wanted[p] {
			cmds = append(cmds, seen.restore(p)...)
		}
	}
	answers, err := d.db.Do(ctx, cmds...)
	if err == nil {
		err = firstError(answers)
	}
	if err != nil || len(change) == 0 {
		return err
	}
	return d.portmgrd(ctx, change)
}

// portmgrd waits until ports' TPIDs have come through portmgrd to orchagent.
func (d *Driver) portmgrd(ctx context.Context, changes [][]string) error {
	var ask [][]string
	for _, c := range changes {
		ask = append(ask, []string{sonicdb.Appl, "HGETALL", "PORT_TABLE:" + strings.TrimPrefix(c[2], portKey(""))})
	}
	for end := d.cfg.Now().Add(d.cfg.Patience); ; {
		list, err := d.hashes(ctx, ask)
		if err != nil {
			return err
		}
		var late []error
		for i, row := range list {
			if !sameTPID(row["tpid"], changes[i][4]) {
				late = append(late, &vendors.PortError{Port: strings.TrimPrefix(changes[i][2], portKey("")),
					Err: fmt.Errorf("its TPID is in CONFIG_DB, and has not come to APPL_DB for %v: is portmgrd running?", d.cfg.Patience)})
			}
		}
		if len(late) == 0 || !d.cfg.Now().Before(end) {
			return errors.Join(late...)
		}
		if err := wait(ctx, portmgrdPause); err != nil {
			return err
		}
	}
}

// portmgrdPause is between two looks whether portmgrd has done its work; it says
// nothing when it has.
const portmgrdPause = 10 * time.Millisecond

// define makes the ACL table where it is not there as it has to be. One of
// another size, too small, is taken away first with its entries, since a table
// cannot change.
func (d *Driver) define(ctx context.Context, seen *view) error {
	want := definition{size: tableSize(d.setup), priority: tablePriority}
	if have, ok := seen.definition(); ok && have.size >= want.size && seen.sure() {
		return nil
	} else if seen.defined() && (!ok || have.size < want.size) {
		if err := d.undefine(ctx, seen); err != nil {
			return err
		}
	} else if ok {
		want = have // whether orchagent has it is not known: it tells
	}
	c := &chain{ops: []rowOp{{definedTable, want.fields()}}}
	if err := d.run(ctx, []*chain{c}); err != nil {
		return err
	}
	var status *StatusError
	switch {
	case c.err == nil:
		seen.fresh = true
	case errors.As(c.err, &status) && status.tableThere():
		if !seen.defined() {
			return fmt.Errorf("orchagent has the ACL table already, of which there was no row in APPL_DB: it is read anew (%w)", c.err)
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
	if err := d.runAll(ctx, chains); err != nil {
		return err
	}
	if err := d.runAll(ctx, []*chain{{ops: []rowOp{{key: definedTable}}}}); err != nil {
		return err
	}
	seen.forgetTable()
	return nil
}

// runAll carries out deletions of which all have to succeed; what orchagent
// does not have need not be deleted.
func (d *Driver) runAll(ctx context.Context, chains []*chain) error {
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
		if errors.As(c.err, &status) && (status.Status == rcNotFound || status.Status == rcInvalid && key != definedTable) {
			delete(d.told, key)
			left = append(left, []string{sonicdb.Appl, "DEL", rows + key}, []string{sonicdb.ApplState, "DEL", rows + key})
			continue
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

// clear deletes entries of ports that do not update or are in an aggregate, and
// what is no entry of ours in our table.
func (d *Driver) clear(ctx context.Context, seen *view) error {
	var chains []*chain
	for _, key := range seen.entryKeys() {
		r := seen.entries[key]
		if !seen.strange(d, r) {
			continue
		}
		chains = append(chains, &chain{port: r.port, ops: []rowOp{{key: key}}})
	}
	if len(chains) == 0 {
		return nil
	}
	return d.runAll(ctx, chains)
}

// run is talk.run; after an error nothing is known of the switch.
func (d *Driver) run(ctx context.Context, chains []*chain) error {
	return d.runWindow(ctx, chains, orchWindow)
}

func (d *Driver) runWindow(ctx context.Context, chains []*chain, window int) error {
	err := d.talk.run(ctx, chains, window)
	d.note(chains)
	if err != nil {
		d.hangUp()
	}
	for _, c := range chains {
		if c.unknown {
			d.synced = false
		}
	}
	return err
}

// Release makes every port fall back: SONiC has no lease that would end by
// itself, so this writes the fallback.
func (d *Driver) Release(ctx context.Context) error {
	if d.setup == nil {
		seen, err := d.look(ctx)
		if err != nil || seen.record.setup == nil || !seen.defined() {
			return err // there is nothing to fall back
		}
		d.adopt(*seen.record.setup)
	}
	var res vendors.UpdateResult
	if err := d.ready(ctx, &res); err != nil {
		return err
	}
	var all []vendors.PortUpdate
	for _, p := range d.ports {
		all = append(all, vendors.PortUpdate{Port: p.name, Intents: d.stale})
	}
	return d.program(ctx, all, &res)
}

// Remove deletes our entries and our table, gives ports the TPIDs back that they
// had, and deletes the record.
func (d *Driver) Remove(ctx context.Context) error {
	d.setup, d.synced, d.known = nil, false, false
	seen, err := d.look(ctx)
	if err != nil {
		return err
	}
	if seen.defined() || len(seen.entries) > 0 {
		if err := d.listen(ctx); err != nil {
			return err
		}
		if seen, err = d.look(ctx); err != nil { // now that the rows are calm
			return err
		}
		if err := d.undefine(ctx, seen); err != nil {
			return err
		}
	}
	var cmds [][]string
	for _, p := range sortedKeys(seen.record.before) {
		cmds = append(cmds, seen.restore(p)...)
	}
	cmds = append(cmds, []string{sonicdb.State, "DEL", recordKey})
	answers, err := d.db.Do(ctx, cmds...)
	if err != nil {
		return err
	}
	return firstError(answers)
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
// nobody else's sets the VID.
const tablePriority = 50

func conservative(s *vendors.Setup) bool { return s.OnStale != "passthrough" }

// worst orders signals by how bad news they are: 0 is the worst.
func worst(intents []vlanrules.Intent) int {
	least := quantize.NumBuckets
	for i := range intents {
		in := &intents[i]
		if in.Action != vlanrules.Update {
			continue
		}
		s := int(in.S)
		if in.Signal.Max() {
			s = quantize.NumBuckets - 1 - s
		}
		least = min(least, s)
	}
	return least
}
