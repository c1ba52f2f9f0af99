package sonic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonicdb"
	"github.com/csig-agent/csig/vlanrules"
)

// Update makes the entries of the ports equal to the intents. Each port's
// operations are carried out one after the other, each after orchagent has
// answered the one before, so that every tag leaves with the old or the new value
// throughout; ports side by side, those with the worst news first. The lease is
// not used: SONiC has none.
//
// What orchagent refuses is taken back for its port, which keeps what it had,
// and is an error of that port. Where the switch has no room left, ports have
// their turn singly, the worst news first, so that what fits is what matters most.
//
// The first Update of a driver that was not told a setup takes over the one it
// finds.
func (d *Driver) Update(ctx context.Context, updates []vendors.PortUpdate, _ time.Duration) (vendors.UpdateResult, error) {
	var res vendors.UpdateResult
	if d.setup == nil {
		if err := d.takeOver(ctx); err != nil {
			return res, err
		}
	}
	if err := d.ready(ctx, &res); err != nil {
		return res, err
	}
	d.until = d.cfg.Now().Add(cyclePatience * d.cfg.Patience)
	err := d.program(ctx, updates, &res)
	d.until = time.Time{}
	if d.talk == nil { // the connection was lost on the way
		return res, err
	}
	res.Leased = true
	return res, err
}

// cyclePatience is how many times orchagent's patience may pass in one Update until
// no change of another port begins. The fallback waits behind it.
const cyclePatience = 2

// takeOver makes the observed setup the wanted one.
func (d *Driver) takeOver(ctx context.Context) error {
	seen, err := d.look(ctx)
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

// ready sees to it that we know what the switch has, and that it has our setup.
func (d *Driver) ready(ctx context.Context, res *vendors.UpdateResult) error {
	if d.talk != nil && d.talk.lost() {
		d.hangUp() // answers may have been lost with it
	}
	if d.talk == nil {
		if err := d.listen(ctx); err != nil {
			return err
		}
	} else if err := d.talk.listened(ctx); err != nil {
		d.hangUp()
		return err
	}
	if d.synced && d.cfg.Now().Sub(d.checked) < recheck {
		return nil
	}
	same := false
	if d.synced {
		var err error
		if same, err = d.unchanged(ctx, res); err != nil {
			d.synced = false
			return err
		}
	} else if err := d.sync(ctx, res); err != nil || !d.synced {
		return err
	} else if same, err = d.unchanged(ctx, res); err != nil { // whether orchagent has what its rows say
		d.synced = false
		return err
	}
	if same {
		d.checked = d.cfg.Now()
		return nil
	}
	return d.sync(ctx, res)
}

// sync brings the switch to our setup, and our knowledge to the switch.
func (d *Driver) sync(ctx context.Context, res *vendors.UpdateResult) error {
	d.synced = false
	seen, err := d.look(ctx, d.setup)
	if err != nil {
		return err
	}
	have := seen.setup()
	changes, err := Diff(have, *d.setup)
	if err != nil {
		return err
	}
	if seen.strangers(d) {
		changes = append(changes, vendors.Change{Kind: vendors.Remove, Detail: "entries in " + aclTable + " that csig does not have there"})
	}
	if len(changes) > 0 || !seen.sure() {
		if d.known {
			noteRepairs(res, changes)
		}
		if err := d.make(ctx, seen); !d.synced {
			return err
		}
		return nil // what concerns single ports comes up again in program
	}
	before := map[string]vlanrules.Table{}
	for _, p := range d.ports {
		before[p.name] = slices.Clone(p.have)
	}
	wasKnown := d.known
	if err := d.learn(ctx); err != nil {
		return err
	}
	for _, p := range d.ports {
		p.away = seen.ports[p.name].away()
		if wasKnown && !sameRows(p.name, before[p.name], p.have) {
			noteRepairs(res, []vendors.Change{{Kind: vendors.Alter, Port: p.name, Detail: "its ACL entries"}})
		}
	}
	return nil
}

// noteRepairs adds to the result what was put right.
func noteRepairs(res *vendors.UpdateResult, changes []vendors.Change) {
	for _, c := range changes {
		if res.Repaired != "" {
			res.Repaired += "; "
		}
		if c.Port != "" {
			res.Repaired += "port " + c.Port + ": "
		}
		res.Repaired += string(c.Kind) + " " + c.Detail
	}
}

// strangers tells whether our table has entries that are to go: of ports that do
// not update or are in an aggregate, or none of ours.
func (v *view) strangers(d *Driver) bool {
	for _, r := range v.entries {
		if v.strange(d, r) {
			return true
		}
	}
	return false
}

// strange tells whether a row is to go.
func (v *view) strange(d *Driver, r rowView) bool {
	return r.bad != "" || d.byName[r.port] == nil || v.ports[r.port].lag != ""
}

// sameRows compares tables by what stands in their rows.
func sameRows(port string, a, b vlanrules.Table) bool {
	x, y := rowsOf(port, a), rowsOf(port, b)
	if len(x) != len(y) {
		return false
	}
	for k, v := range x {
		if !slices.Equal(y[k], v) {
			return false
		}
	}
	return true
}

func rowsOf(port string, t vlanrules.Table) map[string][]string {
	out := make(map[string][]string, len(t))
	for i := range t {
		out[entryKey(port, &t[i])] = entryFields(&t[i])
	}
	return out
}

// learn notes what the switch has. Where P4Orch does not report it, the rows are
// what it was asked for: it is asked again, which changes nothing where it has
// them, and what it refuses is not there.
func (d *Driver) learn(ctx context.Context) error {
	seen, err := d.look(ctx, d.setup)
	if err != nil {
		return err
	}
	d.proof = seen.proof()
	if !d.proof && len(seen.entries) > 0 {
		if err := d.askAgain(ctx, seen); err != nil {
			return err
		}
	}
	for _, p := range d.ports {
		p.have = p.have[:0]
	}
	for _, key := range sortedKeys(seen.entries) {
		r := seen.entries[key]
		if p := d.byName[r.port]; p != nil && r.bad == "" {
			p.have = append(p.have, r.entry)
		}
	}
	for _, p := range d.ports {
		sorted(p.have)
	}
	d.synced, d.known, d.checked = true, true, d.cfg.Now()
	return nil
}

// askAgain has orchagent confirm every row.
func (d *Driver) askAgain(ctx context.Context, seen *view) error {
	var chains []*chain
	for _, key := range sortedKeys(seen.entries) {
		r := seen.entries[key]
		if r.bad == "" {
			chains = append(chains, &chain{port: r.port, ops: []rowOp{{key, entryFields(&r.entry)}}})
		}
	}
	if err := d.run(ctx, chains); err != nil {
		return err
	}
	var gone [][]string
	for _, c := range chains {
		var status *StatusError
		switch {
		case c.err == nil:
		case errors.As(c.err, &status):
			delete(seen.entries, c.ops[0].key)
			delete(d.told, c.ops[0].key)
			gone = append(gone, []string{sonicdb.Appl, "DEL", rows + c.ops[0].key})
		default:
			return fmt.Errorf("confirm an ACL entry of port %s: %w", c.port, c.err)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	answers, err := d.db.Do(ctx, gone...)
	if err != nil {
		return err
	}
	return firstError(answers)
}

// unchanged tells whether the rows and the ports' TPIDs are as we left them, and orchagent still
// knows one of them: after a restart it knows none, whatever stands in Redis.
func (d *Driver) unchanged(ctx context.Context, res *vendors.UpdateResult) (bool, error) {
	db := sonicdb.Appl
	if d.proof {
		db = sonicdb.ApplState
	}
	cmds := [][]string{{db, "HGETALL", rows + definedTable}, {sonicdb.State, "HGETALL", recordKey}}
	var want [][]string
	for _, p := range d.ports {
		for i := range p.have {
			cmds = append(cmds, []string{db, "HGETALL", rows + entryKey(p.name, &p.have[i])})
			want = append(want, entryFields(&p.have[i]))
		}
	}
	for i := range d.setup.Ports {
		cmds = append(cmds, []string{sonicdb.Config, "HGETALL", portKey(d.setup.Ports[i].Port)})
	}
	list, err := d.hashes(ctx, cmds)
	if err != nil {
		return false, err
	}
	if _, ok := parseDefinition(list[0]); !ok || len(list[1]) == 0 {
		return false, nil
	}
	for i, w := range want {
		if !sameFields(list[i+2], w) {
			return false, nil
		}
	}
	lags, err := d.members(ctx)
	if err != nil {
		return false, err
	}
	tpid := tpidText(d.setup.TPID)
	for i, row := range list[2+len(want):] {
		name := d.setup.Ports[i].Port
		away := portView{there: len(row) > 0, lag: lags[name]}.away()
		if p := d.byName[name]; p != nil && p.away != away || away == "" && !sameTPID(row["tpid"], tpid) {
			return false, nil
		}
	}
	if keys, err := d.scan(ctx, db, rows+aclTable+":"); err != nil || len(keys) != len(want) {
		return false, err
	}
	for range d.ports {
		d.asked = (d.asked + 1) % len(d.ports)
		p := d.ports[d.asked]
		if len(p.have) == 0 {
			continue
		}
		c := &chain{port: p.name, ops: []rowOp{{entryKey(p.name, &p.have[0]), entryFields(&p.have[0])}}}
		if err := d.run(ctx, []*chain{c}); err != nil {
			return false, err
		}
		var status *StatusError
		if c.err != nil && !errors.As(c.err, &status) {
			return false, c.err
		}
		if c.err != nil {
			return false, d.confirmTable(ctx, res)
		}
		break
	}
	return true, nil
}

// confirmTable asks orchagent to define our table again. It refuses where it has
// it, since a definition cannot change; else it has just made it anew, and every
// row of an entry lies.
func (d *Driver) confirmTable(ctx context.Context, res *vendors.UpdateResult) error {
	seen, err := d.look(ctx)
	if err != nil {
		return err
	}
	def, ok := seen.definition()
	if !ok {
		return nil // sync makes it
	}
	c := &chain{ops: []rowOp{{definedTable, def.fields()}}}
	if err := d.run(ctx, []*chain{c}); err != nil || c.unknown {
		return errors.Join(err, c.err)
	}
	if c.err != nil {
		return nil
	}
	if d.known {
		noteRepairs(res, []vendors.Change{{Kind: vendors.Create, Detail: "the ACL table was gone: orchagent was started again"}})
	}
	gone := [][]string{{sonicdb.Appl, "EXISTS", rows + definedTable}}
	for _, key := range seen.entryKeys() {
		delete(d.told, key)
		gone = append(gone, []string{sonicdb.Appl, "DEL", rows + key}, []string{sonicdb.ApplState, "DEL", rows + key})
	}
	answers, err := d.db.Do(ctx, gone...)
	if err != nil {
		return err
	}
	return firstError(answers)
}

func sameFields(row map[string]string, fields []string) bool {
	if len(row) != len(fields)/2 {
		return false
	}
	for i := 0; i < len(fields); i += 2 {
		if v, ok := row[fields[i]]; !ok || v != fields[i+1] {
			return false
		}
	}
	return true
}

// job is a port's way from what it has to what it is to have.
type job struct {
	port *port
	chain
	undo []rowOp // undo[i] takes ops[i] back
	adds bool
}

// program carries out updates. Errors are of single ports, unless the connection
// is lost: then d.talk is nil.
func (d *Driver) program(ctx context.Context, updates []vendors.PortUpdate, res *vendors.UpdateResult) error {
	var errs []error
	var jobs []*job
	for i := range updates {
		u := &updates[i]
		p := d.byName[u.Port]
		if p == nil {
			errs = append(errs, &vendors.PermanentError{Port: u.Port, Err: errors.New("it does not update in the setup: call Apply with it first")})
			continue
		}
		if err := d.compile(p, u.Intents); err != nil {
			errs = append(errs, err)
		}
		if p.away != "" {
			errs = append(errs, &vendors.PortError{Port: u.Port, Err: errors.New(p.away)})
			continue
		}
		if len(p.result.Ops) > 0 {
			j := newJob(p)
			j.until = d.until
			jobs = append(jobs, j)
		}
	}
	if len(jobs) == 0 {
		return errors.Join(errs...)
	}
	slices.SortStableFunc(jobs, func(a, b *job) int { return worst(a.port.intents) - worst(b.port.intents) })
	if err := d.carryOut(ctx, jobs); err != nil {
		return errors.Join(append(errs, err)...)
	}
	if err := d.prove(ctx, jobs); err != nil {
		return errors.Join(append(errs, err)...)
	}
	for _, j := range jobs {
		if j.err == nil {
			j.port.have = append(j.port.have[:0], j.port.result.Table...)
			res.Ports++
			res.Ops += len(j.ops)
			continue
		}
		errs = append(errs, &vendors.PortError{Port: j.port.name, Err: j.err})
	}
	return errors.Join(errs...)
}

// compile finds the operations for a port. After an error they lead to the
// fallback.
func (d *Driver) compile(p *port, intents []vlanrules.Intent) error {
	if !p.compiled || !slices.Equal(p.intents, intents) {
		p.intents, p.compiled, p.refused = append(p.intents[:0], intents...), true, nil
		if why := d.check(intents); why != "" {
			p.refused = &vendors.PermanentError{Port: p.name, Err: errors.New(why)}
		}
	}
	if p.refused == nil {
		d.compiler.Compile(&p.result, p.have, p.intents)
		why := p.result.Verdict.Reason
		if why == "" {
			why = lowers(p.result.Table)
		}
		if why == "" {
			return nil
		}
		p.refused = &vendors.PermanentError{Port: p.name, Err: errors.New(why)}
	}
	d.compiler.Compile(&p.result, p.have, d.stale)
	return p.refused
}

// check says what of the intents the setup does not have.
func (d *Driver) check(intents []vlanrules.Intent) string {
	for i := range intents {
		if in := &intents[i]; in.Action == vlanrules.Update && !slices.Contains(d.setup.Signals, in.Signal) {
			return in.Signal.String() + " is not a signal of the setup"
		}
	}
	return ""
}

// newJob makes row operations of a port's compiled ones.
func newJob(p *port) *job {
	j := &job{port: p, chain: chain{port: p.name}}
	now := rowsOf(p.name, p.have)
	for i := range p.result.Ops {
		op := &p.result.Ops[i]
		key := entryKey(p.name, &op.Entry)
		var fields []string
		if op.Kind != vlanrules.Delete {
			fields = entryFields(&op.Entry)
		}
		j.adds = j.adds || now[key] == nil && fields != nil
		j.ops = append(j.ops, rowOp{key, fields})
		j.undo = append(j.undo, rowOp{key, now[key]})
		now[key] = fields
	}
	return j
}

// back makes the job one that takes back what it has done.
func (j *job) back() *job {
	b := &job{port: j.port, chain: chain{port: j.chain.port}}
	for i := j.done - 1; i >= 0; i-- {
		b.ops = append(b.ops, j.undo[i])
	}
	return b
}

// again makes the job one that has not begun.
func (j *job) again() { j.done, j.err, j.unknown, j.tries = 0, nil, false, 0 }

// carryOut runs the jobs, the worst news first.
func (d *Driver) carryOut(ctx context.Context, jobs []*job) error {
	if err := d.runJobs(ctx, jobs, orchWindow); err != nil {
		return err
	}
	first := slices.IndexFunc(jobs, func(j *job) bool { return errors.Is(j.err, ErrFull) })
	if first < 0 {
		return d.takeBack(ctx, jobs)
	}
	// No room: entries of ports with better news may stand where those of worse
	// could. What came after the first that failed is taken back, and has its turn
	// again, one port at a time.
	var redo []*job
	for i, j := range jobs {
		if i >= first && !j.unknown && (j.adds || j.err != nil) {
			redo = append(redo, j)
		}
	}
	if err := d.undo(ctx, redo); err != nil {
		return err
	}
	silent := slices.ContainsFunc(jobs, func(j *job) bool { return errors.Is(j.err, ErrSilent) })
	for _, j := range redo {
		if j.unknown {
			continue
		}
		j.again()
		if silent {
			j.err = errUnbegun
			continue
		}
		if err := d.runJobs(ctx, []*job{j}, 1); err != nil {
			return err
		}
		silent = errors.Is(j.err, ErrSilent)
		if j.err != nil {
			if err := d.takeBack(ctx, []*job{j}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *Driver) runJobs(ctx context.Context, jobs []*job, window int) error {
	chains := make([]*chain, len(jobs))
	for i, j := range jobs {
		chains[i] = &j.chain
	}
	if err := d.runWindow(ctx, chains, window); err != nil {
		return err
	}
	return d.restoreRows(ctx, jobs)
}

// restoreRows makes the rows of refused operations in APPL_DB what they were: the
// consumer has put there what was asked for, and P4Orch leaves it (p4rt_app did
// the same, sonic-pins p4rt_app/sonic/response_handler.cc, RestoreApplDb).
func (d *Driver) restoreRows(ctx context.Context, jobs []*job) error {
	var cmds [][]string
	for _, j := range jobs {
		if j.err == nil || j.unknown {
			continue
		}
		row := rows + j.undo[j.done].key
		cmds = append(cmds, []string{sonicdb.Appl, "MULTI"}, []string{sonicdb.Appl, "DEL", row})
		if was := j.undo[j.done].fields; was != nil {
			cmds = append(cmds, append([]string{sonicdb.Appl, "HSET", row}, was...))
		}
		cmds = append(cmds, []string{sonicdb.Appl, "EXEC"})
	}
	if len(cmds) == 0 {
		return nil
	}
	answers, err := d.db.Do(ctx, cmds...)
	if err == nil {
		err = firstError(answers)
	}
	if err != nil {
		d.hangUp()
	}
	return err
}

// takeBack undoes the jobs that failed half-way: a port has all of a change or
// nothing of it.
func (d *Driver) takeBack(ctx context.Context, jobs []*job) error {
	var failed []*job
	for _, j := range jobs {
		if j.err != nil && !j.unknown {
			failed = append(failed, j)
		}
	}
	return d.undo(ctx, failed)
}

// undo takes back what jobs have done. One that cannot be taken back is unknown,
// and learned anew by the next Update.
func (d *Driver) undo(ctx context.Context, jobs []*job) error {
	var backs []*job
	var of []*job
	for _, j := range jobs {
		if b := j.back(); len(b.ops) > 0 {
			b.undo = b.ops // what a refusal leaves is read anew
			backs, of = append(backs, b), append(of, j)
		}
	}
	if len(backs) == 0 {
		return nil
	}
	chains := make([]*chain, len(backs))
	for i, b := range backs {
		chains[i] = &b.chain
	}
	if err := d.runWindow(ctx, chains, orchWindow); err != nil {
		return err
	}
	for i, b := range backs {
		if b.err != nil {
			of[i].unknown, d.synced = true, false
			of[i].err = errors.Join(of[i].err, fmt.Errorf("and what was done before that cannot be taken back: %w", b.err))
		}
	}
	return nil
}

// prove reads back what was changed, where P4Orch reports it: an answer is no
// proof.
func (d *Driver) prove(ctx context.Context, jobs []*job) error {
	if !d.proof {
		return nil
	}
	var cmds [][]string
	var of []*job
	for _, j := range jobs {
		if j.err != nil {
			continue
		}
		for key := range j.changed() {
			cmds, of = append(cmds, []string{sonicdb.ApplState, "HGETALL", rows + key}), append(of, j)
		}
	}
	list, err := d.hashes(ctx, cmds)
	if err != nil {
		d.hangUp()
		return err
	}
	for i, row := range list {
		key := strings.TrimPrefix(cmds[i][2], rows)
		if want := of[i].changed()[key]; !sameFields(row, want) && of[i].err == nil {
			of[i].err, d.synced = fmt.Errorf("orchagent answered that it has done as it was told, and reports otherwise in APPL_STATE_DB for %s: it is read anew", key), false
		}
	}
	return nil
}

// changed is what the rows are to be that the job changes; nil for one that is
// to go.
func (j *job) changed() map[string][]string {
	out := make(map[string][]string, len(j.ops))
	for _, op := range j.ops {
		out[op.key] = op.fields
	}
	return out
}
