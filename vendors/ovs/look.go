package ovs

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// question is one to the database that is under way. Until its answer was
// received the database is the question's.
type question struct {
	answer chan answer
	stop   context.CancelFunc
}

type answer struct {
	info    bridgeInfo
	err     error
	claimed bool // the bridge was to be ours
	had     bool // and was somebody's
}

// ask asks the database, unless a question is under way.
func (d *Driver) ask(ctx context.Context) {
	if d.late != nil {
		return
	}
	ctx, stop := context.WithTimeoutCause(context.WithoutCancel(ctx), patience, fmt.Errorf("no answer for %v", patience))
	q := &question{answer: make(chan answer, 1), stop: stop}
	d.late = q
	a := answer{claimed: d.writes && !d.lost}
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
	if a.claimed {
		if a.had, err = d.db.claim(d.cfg.Bridge, d.who(), d.cfg.Take); err != nil {
			return err
		}
	}
	if a.info, err = d.db.ask(d.cfg.Bridge); err != nil {
		return err
	}
	if a.had && !a.info.held && a.info.writer == d.who() {
		// An earlier connection of ours, whose end nobody has noticed.
		if _, err = d.db.claim(d.cfg.Bridge, d.who(), true); err != nil {
			return err
		}
		a.info.held = d.db.held
	}
	if a.claimed && a.info.held {
		return d.db.isolate(d.cfg.Bridge, a.info.loose)
	}
	return nil
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
	d.late = nil
	switch {
	case errors.Is(a.err, errNoBridge):
		return &vendors.PermanentError{Err: a.err}
	case a.err != nil:
		_ = d.db.close()
		return fmt.Errorf("ovsdb-server: %w", a.err)
	}
	d.info = a.info
	if a.claimed {
		d.lost = d.lost || d.held && !a.info.held
		d.held = d.held || a.info.held
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
	wait := glanceFor
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
