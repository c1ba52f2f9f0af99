package sonic

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/protocol/sonicmq"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Config is what a driver needs.
type Config struct {
	Redis *sonicdb.Client // the driver closes it

	// Patience is how long orchagent may take for one operation; 0 is
	// DefaultPatience.
	Patience time.Duration

	Endpoint string // of orchagent's ZeroMQ socket on the switch; "" is sonicmq.Endpoint
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
	cfg     Config
	db      *sonicdb.Client
	session *orchSession          // nil until something is to be written
	parked  *sonicdb.Subscription // the subscription of an earlier session, or nil
	lingers bool                  // one was closed, and Redis may not know yet

	setup    *vendors.Setup // what the switch is to have; nil until Apply or the first Update
	seen     *view          // last; nil until Observe or Apply
	ports    []*port
	byName   map[string]*port
	compiler *vlanrules.Compiler

	known         vendors.Knowledge
	drifted       []string       // ports that had something else when it was last learned
	proof         bool           // P4Orch reports what it has in APPL_STATE_DB
	acked         map[string]row // the rows that orchagent acknowledged; nil: deleted
	rowsLag       bool           // the rows lag behind acked for longer than settle
	started       string         // which start of orchagent acknowledged it
	orchRestarted bool           // orchagent restarted, and sync has not reported it yet
	settle        time.Duration  // settleTime, less in tests
	starting      time.Duration  // startPatience, less in tests
	checked       time.Time
	unread        bool // ports got their first entries, and no APPL_STATE_DB has shown them: the next update reads
	asked         int  // the port whose entry orchagent was asked about last

	noted     map[string]bool // keys of STATE_DB where this driver has noted what it sends
	recounted time.Time       // when the ASIC's entries were counted last
	asic      asicState
	broken    error // why it is asicBroken
}

var _ vendors.Driver = (*Driver)(nil)

// port is what the driver knows of one port that updates.
type port struct {
	name string
	away string // why it cannot be programmed, "" where it can

	vendors.PortSignal
	have vlanrules.Table // on the switch
}

// Open returns a driver that connects when it is first used.
func Open(cfg Config) *Driver {
	if cfg.Patience == 0 {
		cfg.Patience = DefaultPatience
	}
	cfg.Endpoint = cmp.Or(cfg.Endpoint, sonicmq.Endpoint)
	return &Driver{cfg: cfg, db: cfg.Redis, acked: map[string]row{}, noted: map[string]bool{}, settle: settleTime, starting: startPatience}
}

// Close ends the connections. What is programmed stays: SONiC has no lease, so
// Release comes first where the signal ends.
func (d *Driver) Close() error {
	d.hangUp()
	d.leave()
	return d.db.Close()
}

// hangUp ends the session. Over ZeroMQ the subscription holds no answers and stays: another
// csig sees it, and so does this one at its next session, which Redis may not have noticed
// the end of.
func (d *Driver) hangUp() {
	if s := d.session; s != nil {
		if d.session = nil; s.overMQ() {
			d.parked = s.sub
		} else {
			s.sub.Close()
			d.lingers = true
		}
		if s.wire != nil {
			s.wire.close()
		}
	}
	d.known.Doubt()
}

// leave ends what hangUp has left.
func (d *Driver) leave() {
	if d.parked != nil {
		d.parked.Close()
		d.parked, d.lingers = nil, true
	}
}

// Observe reads back the setup: the record in STATE_DB, and what of it is not so.
func (d *Driver) Observe(ctx context.Context) (vendors.Setup, error) {
	seen, err := d.look(ctx, nil)
	if err != nil {
		return vendors.Setup{}, err
	}
	return seen.setup(), nil
}

// Diff lists what Apply(want) would change, and says what it would refuse of
// single ports by what was observed last. It reads nothing.
func (d *Driver) Diff(have, want vendors.Setup) ([]vendors.Change, error) {
	changes, err := Diff(have, want)
	if err != nil || d.seen == nil {
		return changes, err
	}
	seen := *d.seen
	if seen.isBadTPID(want.TPID) {
		return nil, &vendors.PermanentError{Err: errors.New(seen.badWhy)}
	}
	seen.wanted = &want
	for i := range changes {
		c := &changes[i]
		lag := seen.lags[c.Port]
		if c.Port != "" {
			seen.former(c, &want)
		}
		switch {
		case lag == "":
		case c.Kind != vendors.Remove && seen.refusal(c.Port) != "":
			c.Detail, c.Disruptive = "not as things are: "+seen.refusal(c.Port), ""
		default:
			c.Detail = strings.NewReplacer("CONFIG_DB tpid", "CONFIG_DB "+carrierKey(lag)+" tpid", portKey(c.Port)+" tpid", carrierKey(lag)+" tpid").Replace(c.Detail)
		}
	}
	return changes, nil
}

// Apply makes the setup that of want: the record, the ports' TPIDs in CONFIG_DB,
// the ACL table, and in the table nothing but entries of ports that update. A
// port that is new among these has the entries of the fallback, until Update. A
// port that CONFIG_DB does not have is an error of that port.
func (d *Driver) Apply(ctx context.Context, want vendors.Setup) error {
	if err := validate(&want); err != nil {
		return err
	}
	if err := d.await(ctx); err != nil {
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
	d.setup = want.Wanted()
	d.ports, d.byName = nil, map[string]*port{}
	for _, s := range d.setup.Ports {
		if s.Action == vlanrules.Update {
			p := &port{name: s.Port}
			d.ports, d.byName[p.name] = append(d.ports, p), p
		}
	}
	d.compiler = vlanrules.NewCompiler(Rules(), d.setup.Layout)
	d.known = vendors.Unread
}

// make brings the switch to d.setup, given what was seen there, and our
// knowledge to the switch.
func (d *Driver) make(ctx context.Context, seen *view) error {
	if err := d.recordBadTPID(ctx, seen); err != nil {
		return err
	}
	if err := d.refusedBefore(ctx, seen); err != nil {
		return err
	}
	if why, err := d.blockedReason(ctx, seen); err != nil {
		return err
	} else if why != "" {
		return &vendors.PermanentError{Err: errors.New(why)}
	}
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
		if away := seen.away(p.Port); away != "" {
			errs = append(errs, &vendors.PortError{Port: p.Port, Err: errors.New(away)})
		}
	}
	// Ports without entries would advertise an unknown value, and entries have
	// another meaning in another setup.
	old := seen.record.setup
	other := old == nil || describe(old) != describe(d.setup)
	var fall []vendors.PortUpdate
	for _, p := range d.ports {
		if p.away = seen.away(p.name); p.away == "" && (other || len(p.have) == 0) {
			fall = append(fall, vendors.PortUpdate{Port: p.name, Intents: d.setup.Fallback()})
		}
	}
	var res vendors.UpdateResult
	return errors.Join(append(errs, d.program(ctx, fall, time.Time{}, &res))...)
}

// run carries out chains, and makes the rows of what was refused in APPL_DB what
// orchagent has: up to 202511 its consumer has put there what was asked for, and P4Orch leaves it
// (p4rt_app did the same, sonic-pins p4rt_app/sonic/response_handler.cc, RestoreApplDb).
// After an error nothing is known of the switch.
func (d *Driver) run(ctx context.Context, chains []*chain) error {
	return d.runWindow(ctx, chains, orchWindow)
}

func (d *Driver) runWindow(ctx context.Context, chains []*chain, window int) error {
	err := d.session.run(ctx, chains, window)
	var cmds [][]string
	for _, c := range chains {
		for _, op := range c.ops[:c.done] {
			d.acked[op.key] = op.to
		}
		if c.unknown {
			delete(d.acked, c.ops[c.done].key)
			d.known = vendors.Unread // and no other process has changed it
		}
		var status *StatusError
		if !errors.As(c.err, &status) || status.tableThere() {
			continue
		}
		op := c.ops[c.done]
		if op.was == nil || status.notThere(op) {
			d.acked[op.key] = nil
			cmds = append(cmds, []string{sonicdb.Appl, "DEL", rows + op.key}, []string{sonicdb.ApplState, "DEL", rows + op.key})
			continue
		}
		if d.session.overMQ() {
			continue // nothing but P4Orch has written it
		}
		cmds = append(cmds, []string{sonicdb.Appl, "MULTI"}, []string{sonicdb.Appl, "DEL", rows + op.key},
			append([]string{sonicdb.Appl, "HSET", rows + op.key}, op.was.words()...), []string{sonicdb.Appl, "EXEC"})
	}
	if err == nil {
		err = d.write(ctx, cmds...)
	}
	if err != nil {
		d.hangUp()
	}
	return err
}

// Release makes every port fall back: SONiC has no lease that would end by
// itself, so this writes the fallback.
func (d *Driver) Release(ctx context.Context) error {
	if d.setup == nil {
		seen, err := d.look(ctx, nil)
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
		all = append(all, vendors.PortUpdate{Port: p.name, Intents: d.setup.Fallback()})
	}
	return d.program(ctx, all, time.Time{}, &res)
}
