package sonic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonicdb"
	"github.com/csig-agent/csig/vlanrules"
)

// job is a port's way from what it has to what it is to have.
type job struct {
	port *port
	chain
	undo []rowOp // undo[i] takes ops[i] back
	adds bool
}

// newJob makes row operations of a port's compiled ones.
func newJob(p *port) *job {
	j := &job{port: p, chain: chain{port: p.name}}
	now := rowsOf(p.name, p.have)
	for i := range p.Result.Ops {
		op := &p.Result.Ops[i]
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
// and read again by the next Update.
func (d *Driver) undo(ctx context.Context, jobs []*job) error {
	var backs []*job
	var of []*job
	for _, j := range jobs {
		if b := j.back(); len(b.ops) > 0 {
			b.undo = b.ops // what a refusal leaves is read again
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
			of[i].unknown, d.known = true, vendors.Unread
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
			of[i].err = fmt.Errorf("orchagent answered that it has done as it was told, and reports otherwise in APPL_STATE_DB for %s: it is read again", key)
			d.known.Doubt()
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
