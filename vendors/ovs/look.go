package ovs

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"time"

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors"
)

// question is one to the database that is under way. Until its answer was
// received the database is the question's.
type question struct {
	asked  time.Time
	answer chan answer
	stop   context.CancelFunc
}

type answer struct {
	info  bridgeInfo
	err   error
	owner ownership // when it was asked
	bare  bool      // the ports are to have no VLANs of csig's
	had   bool      // another process had the lock
}

// claims reports whether the bridge is to be ours.
func (a *answer) claims() bool { return a.owner == claiming || a.owner == owning }

// ask asks the database, unless a question is under way.
func (d *Driver) ask(ctx context.Context) {
	if d.late != nil {
		return
	}
	ctx, stop := context.WithTimeoutCause(context.WithoutCancel(ctx), d.askWait, fmt.Errorf("no answer for %v", d.askWait))
	q := &question{asked: time.Now(), answer: make(chan answer, 1), stop: stop}
	d.late = q
	a := answer{owner: d.owner, bare: d.bare}
	go func() {
		defer stop()
		if a.err = d.reach(ctx); a.err == nil {
			a.err = d.db.during(ctx, func() error { return d.inquire(&a) })
		}
		if a.err != nil && ctx.Err() != nil {
			a.err = context.Cause(ctx)
		}
		q.answer <- a
	}()
}

// inquire makes the bridge ours, where it is to be, and asks about it.
func (d *Driver) inquire(a *answer) (err error) {
	if a.owner == owning && d.db.lock == lockFree {
		// The lock went with an earlier connection: a process that took the bridge
		// in between has written its name, or deleted ours.
		if a.info, err = d.db.ask(d.cfg.Bridge); err != nil || a.info.writer != d.ownerName() {
			return err
		}
	}
	if a.claims() {
		if a.had, err = d.db.claim(d.cfg.Bridge, d.ownerName(), d.cfg.Take); err != nil {
			return err
		}
	}
	if a.info, err = d.db.ask(d.cfg.Bridge); err != nil {
		return err
	}
	if a.owner == lost && a.info.writer != "" {
		free, err := d.db.isFree(d.cfg.Bridge)
		if err != nil {
			return err
		}
		if free { // it ended without wiping out its name
			a.info.writer = ""
		}
	}
	if a.had && !a.info.held && (a.info.writer == d.ownerName() || d.follows(a.info.writer)) {
		// A previous connection of ours, whose end was not noticed, or the owner before.
		if _, err = d.db.claim(d.cfg.Bridge, d.ownerName(), true); err != nil {
			return err
		}
		a.info.held = d.db.lock == lockHeld
	}
	if !a.claims() || !a.info.held {
		return nil
	}
	tables := ""
	if !a.bare {
		tables = strconv.Itoa(int(d.cfg.Table))
	}
	if tables != a.info.tables {
		if err := d.db.note(d.cfg.Bridge, setupKey, tables); err != nil {
			return err
		}
	}
	if a.bare {
		return nil
	}
	return d.db.isolate(d.cfg.Bridge, a.info.loose)
}

// reach connects with the database, where there is no connection.
func (d *Driver) reach(ctx context.Context) error {
	if d.db.c != nil {
		return nil
	}
	c, err := d.cfg.Dial(ctx, path.Join(d.cfg.RunDir, "db.sock"))
	if err != nil {
		return err
	}
	d.db = newDatabase(c)
	return nil
}

// answer takes an answer of the database in. Where there is none, what it said
// last holds.
func (d *Driver) answer(a answer) error {
	d.told, d.late = d.late.asked, nil
	switch {
	case errors.Is(a.err, errNoBridge):
		return &vendors.PermanentError{Err: a.err}
	case a.err != nil:
		_ = d.db.close()
		return fmt.Errorf("ovsdb-server: %w", a.err)
	}
	d.info = a.info
	if a.claims() {
		d.owner = d.owner.after(a.info.held)
	}
	return nil
}

// look asks the database and waits for its answer.
func (d *Driver) look(ctx context.Context) error {
	if d.late != nil {
		_ = d.await(ctx) // it is of then, and not of now
	}
	d.ask(ctx)
	return d.await(ctx)
}

// Look reads back the setup and the lease. What the database says is of now where
// it answers at once.
func (d *Driver) Look(ctx context.Context) (vendors.DataPlane, error) {
	var seen vendors.DataPlane
	if err := d.connect(ctx); err != nil {
		return seen, err
	}
	ask := d.glance
	if d.info.partner == nil { // it has never said anything
		ask = d.look
	}
	if err := ask(ctx); err != nil {
		return seen, err
	}
	s, err := d.read(ctx, true)
	if err != nil {
		return seen, err
	}
	if err := d.refuseForeign(s); err != nil {
		return seen, err
	}
	if seen.Setup, err = d.setupOf(s); err != nil {
		return seen, err
	}
	seen.Signal = vendors.SignalFallback
	pipe := pipeline{base: d.cfg.Table}
	lease := pipe.lease(0)
	if f := find(s.flows, &lease); f != nil && same(f, &lease) {
		seen.Signal = vendors.SignalWritten
		seen.Left = max(0, time.Duration(f.HardTimeout)-time.Duration(f.Age)-1) * time.Second // an age is of whole seconds
	}
	d.compare(s, &seen.Setup)
	return seen, nil
}

// compare notes what of the ports' values is not as the last update left it.
func (d *Driver) compare(s *state, found *vendors.Setup) {
	if d.owner == lost && d.info.writer != "" && found.TPID != 0 && found.Damaged == "" {
		found.Damaged = "it is programmed by " + d.info.writer
	}
	for i := range found.Ports {
		p := d.byName[found.Ports[i].Port]
		if p == nil || p.state != settled || found.Ports[i].Damaged != "" {
			continue
		}
		var live []ofp.Flow
		for j := range s.flows {
			if f := &s.flows[j]; d.isLive(f) && f.Match.Regs[regOut].Value == p.number {
				live = append(live, *f)
			}
		}
		if !sameFlows(live, p.have) {
			found.Ports[i].Damaged = fmt.Sprintf("flows of table %d are not as this process left them", d.cfg.Table+tableLive)
		}
	}
}

// await waits for the answer to the question that is under way.
func (d *Driver) await(ctx context.Context) error {
	select {
	case a := <-d.late.answer:
		return d.answer(a)
	case <-ctx.Done():
		return fmt.Errorf("ovsdb-server: %w", context.Cause(ctx))
	}
}

// glanceFor bounds what a cycle waits for the database.
const glanceFor = 50 * time.Millisecond

// glance asks the database, and takes the answer in when it is there at once, or
// at a later call: the flows hold without the database, and the lease has to be
// renewed.
func (d *Driver) glance(ctx context.Context) error {
	wait := d.glanceWait
	if d.late != nil {
		wait = 0 // we have waited for it
	}
	d.ask(ctx)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case a := <-d.late.answer:
		return d.answer(a)
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return nil
	}
}
