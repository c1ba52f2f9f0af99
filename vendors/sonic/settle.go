package sonic

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/csig-agent/csig/vendors/sonic/sonicdb"
)

// Since SONiC 202405 orchagent answers first, and then another of its threads takes
// each row of APPL_DB away and writes it anew (orchagent/response_publisher.cpp,
// publish and dbUpdateThread): who reads in between finds rows missing that are
// there.

// settleTime is how long what was answered is believed against rows that say
// otherwise; settlePause is between two looks, since nothing tells when the rows are
// written.
const (
	settleTime  = time.Second
	settlePause = time.Millisecond
)

// calmPause is how long rows have to stay the same before a driver believes them
// that has answers of its own to none: another csig may have written a moment ago.
const calmPause = 20 * time.Millisecond

// told is what orchagent answered about a row.
type told struct {
	fields []string // nil: it is gone
	at     time.Time
}

// note takes what was carried out into what orchagent has told us. Of what is
// unknown it has told nothing.
func (d *Driver) note(chains []*chain) {
	now := d.cfg.Now()
	maps.DeleteFunc(d.told, func(_ string, t told) bool { return now.Sub(t.at) >= settleTime })
	for _, c := range chains {
		for _, op := range c.ops[:c.done] {
			d.told[op.key] = told{op.fields, now}
		}
		if c.unknown {
			delete(d.told, c.ops[c.done].key)
		}
	}
}

// behind tells whether rows are not yet what orchagent has told us of them.
func (d *Driver) behind(v *view) bool {
	now := d.cfg.Now()
	for key, t := range d.told {
		row := v.rows[key]
		if key == definedTable {
			row = v.asked
		}
		if now.Sub(t.at) < settleTime && !sameFields(row, t.fields) {
			return true
		}
	}
	return false
}

// settled reads the rows until they are what orchagent has told us, or that is too
// long ago to hold against them.
func (d *Driver) settled(ctx context.Context, read func() (*view, error)) (*view, error) {
	late := time.NewTimer(settleTime)
	defer late.Stop()
	for {
		v, err := read()
		if err != nil || v.proof() || !d.behind(v) {
			return v, err
		}
		select {
		case <-late.C:
			clear(d.told)
		default:
			if err := wait(ctx, settlePause); err != nil {
				return nil, err
			}
		}
	}
}

// calm waits until our rows stay as they are. Where they never do, somebody else
// writes them all the time.
func (d *Driver) calm(ctx context.Context) error {
	last, err := d.readRows(ctx)
	for range int(settleTime / calmPause) {
		if err != nil || last.proof() {
			return err
		}
		if err := wait(ctx, calmPause); err != nil {
			return err
		}
		before := last
		if last, err = d.readRows(ctx); err == nil && maps.Equal(last.asked, before.asked) &&
			maps.EqualFunc(last.rows, before.rows, maps.Equal[map[string]string, map[string]string]) {
			return nil
		}
	}
	return errors.Join(err, errOthersWrite)
}

var errOthersWrite = errors.New("the rows of " + aclTable + " in " + sonicdb.Appl + " change all the time: does somebody else write them?")

// wait returns after a time, or with ctx's error.
func wait(ctx context.Context, t time.Duration) error {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
