package sonic

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonicdb"
)

// Since SONiC 202405 orchagent answers first, and then another of its threads takes
// each row of APPL_DB away and writes it again (orchagent/response_publisher.cpp,
// publish and dbUpdateThread): who reads in between finds rows missing that are
// there.

// settleTime is how long rows are waited for that are not what was answered;
// settlePause is between two looks, since nothing tells when the rows are written.
const (
	settleTime  = time.Second
	settlePause = time.Millisecond
)

// calmPause is how long rows have to stay the same before a driver believes them
// that has answers of its own to none: another csig may have written a moment ago.
const calmPause = 20 * time.Millisecond

// note takes what was carried out into what orchagent has told us: the fields that
// each row has, nil for one that is gone. Of what is unknown it has told nothing.
func (d *Driver) note(chains []*chain) {
	for _, c := range chains {
		for _, op := range c.ops[:c.done] {
			d.told[op.key] = op.fields
		}
		if c.unknown {
			delete(d.told, c.ops[c.done].key)
		}
	}
}

// behind lists the rows that are not what orchagent has told us of them.
func (d *Driver) behind(v *view) (keys []string) {
	for key, fields := range d.told {
		row := v.rows[key]
		if key == definedTable {
			row = v.asked
		}
		if !sameFields(row, fields) {
			keys = append(keys, key)
		}
	}
	return keys
}

// settled reads the rows until they are what orchagent has told us. Where they are
// not for too long, the answers are believed and not the rows: these may be those of
// a while ago, and an entry that is asked for again by such a row would come back.
// The view is disputed then, and sync has orchagent confirm all of it.
func (d *Driver) settled(ctx context.Context, read func() (*view, error)) (*view, error) {
	late := time.NewTimer(d.settle)
	defer late.Stop()
	for {
		v, err := read()
		if err == nil && v.started != d.started {
			clear(d.told) // another orchagent has told that
			d.reborn, d.started = d.known != vendors.Unread, v.started
			d.known.Doubt()
		}
		if err != nil || v.proof() {
			return v, err
		}
		keys := d.behind(v)
		if len(keys) == 0 {
			d.lagging = false
			return v, nil
		}
		if d.lagging {
			d.believe(v, keys)
			return v, nil
		}
		select {
		case <-late.C:
			d.lagging = true // it need not be waited for each time
		default:
			if err := wait(ctx, settlePause); err != nil {
				return nil, err
			}
		}
	}
}

// believe puts what orchagent has told us in the place of rows that say otherwise.
// Without a single row all that was told is of another time: they were flushed.
func (d *Driver) believe(v *view, keys []string) {
	if len(v.asked) == 0 && len(v.rows) == 0 {
		clear(d.told)
		return
	}
	v.disputed = true
	for _, key := range keys {
		fields := d.told[key]
		row := make(map[string]string, len(fields)/2)
		for i := 0; i < len(fields); i += 2 {
			row[fields[i]] = fields[i+1]
		}
		switch {
		case key == definedTable:
			v.asked = row
		case fields == nil:
			v.gone = append(v.gone, key)
		default:
			v.rows[key] = row
		}
	}
}

// calm waits until our rows stay as they are. Where they never do, another process
// writes them all the time.
func (d *Driver) calm(ctx context.Context) error {
	last, err := d.readRows(ctx)
	for range int(d.settle / calmPause) {
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

var errOthersWrite = errors.New("the rows of " + aclTable + " in " + sonicdb.Appl + " change all the time: does another process write them?")

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
