package sonic

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/vendors"
)

// Since SONiC 202405 orchagent deletes each row and writes it again after its answer
// (doc.go): a read in between misses rows that exist.

// settleTime is how long csig waits until the rows equal orchagent's answers;
// settlePause is the time between two reads, since nothing signals the write.
const (
	settleTime  = time.Second
	settlePause = time.Millisecond
)

// stablePause is how long the rows must stay the same before a driver without answers
// of its own uses them: another csig may have written a moment ago.
const stablePause = 20 * time.Millisecond

// rowsNotYetWritten lists the rows that differ from what orchagent acknowledged.
func (d *Driver) rowsNotYetWritten(v *view) (keys []string) {
	for key, acked := range d.acked {
		if !maps.Equal(v.rows[key], acked) {
			keys = append(keys, key)
		}
	}
	return keys
}

// settled reads the rows until they equal what orchagent acknowledged. After settleTime
// csig uses the answers instead of the rows: the rows may be old, and sending an old row
// again would restore a deleted entry. The view is then disputed, and sync has orchagent
// confirm all of it.
func (d *Driver) settled(ctx context.Context) (*view, error) {
	late := time.NewTimer(d.settle)
	defer late.Stop()
	for {
		v, err := d.readRows(ctx)
		if err == nil && v.started != d.started {
			clear(d.acked) // another orchagent acknowledged that
			d.orchRestarted, d.started = d.known != vendors.Unread, v.started
			d.known.Doubt()
		}
		if err != nil || v.proof() {
			return v, err
		}
		keys := d.rowsNotYetWritten(v)
		if len(keys) == 0 {
			d.rowsLag = false
			return v, nil
		}
		if d.rowsLag {
			d.useAcked(v, keys)
			return v, nil
		}
		select {
		case <-late.C:
			d.rowsLag = true // do not wait for it each time
		default:
			if err := vendors.Wait(ctx, settlePause); err != nil {
				return nil, err
			}
		}
	}
}

// useAcked replaces the rows that differ by what orchagent acknowledged. Where there is
// no row at all the database was flushed, and the acknowledgements are void.
func (d *Driver) useAcked(v *view, keys []string) {
	if len(v.rows) == 0 {
		clear(d.acked)
		return
	}
	v.disputed = true
	for _, key := range keys {
		switch acked := d.acked[key]; {
		case acked != nil:
			v.rows[key] = acked
		case key == definedTable:
			delete(v.rows, key)
		default:
			v.gone = append(v.gone, key)
		}
	}
}

// waitStable waits until our rows stay the same for stablePause. Where they never do,
// another process writes them all the time.
func (d *Driver) waitStable(ctx context.Context) error {
	last, err := d.readRows(ctx)
	for range int(d.settle / stablePause) {
		if err != nil || last.proof() {
			return err
		}
		if err := vendors.Wait(ctx, stablePause); err != nil {
			return err
		}
		before := last
		if last, err = d.readRows(ctx); err == nil && maps.EqualFunc(last.rows, before.rows, maps.Equal[row, row]) {
			return nil
		}
	}
	return errors.Join(err, errOthersWrite)
}

var errOthersWrite = errors.New("the rows of " + aclTable + " in " + sonicdb.Appl + " change all the time: does another process write them?")
