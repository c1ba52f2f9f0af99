package owner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/csig-agent/csig/controller/owner/kv"
)

// configs is the bucket of the devices' configurations: fleet files of one device, which name
// secrets and have none, with their history. Which of them is in force is a cell of its own.
const (
	configs     = "csig_configs"
	configLimit = 1 << 20 // bytes of one
	kept        = 64      // of each device; JetStream keeps no more
)

// ErrNoConfig is a device whose configuration was never kept.
var ErrNoConfig = errors.New("no configuration is kept")

func (s *Store) configs(ctx context.Context) (kv.Bucket, error) {
	return s.kv.Open(ctx, kv.Config{Name: configs, Description: "what csig apply gave each device (csig)", History: kept, MaxValue: configLimit})
}

// Config is the configuration that a device has; none is where it has none any more, and
// ErrNoConfig where none was ever kept.
func (l *Lease) Config(ctx context.Context) ([]byte, error) {
	e, err := l.inForce(ctx)
	return e.Value, err
}

// Applied is when the configuration in force was kept, by the clock of the store; zero where none was.
func (l *Lease) Applied(ctx context.Context) (time.Time, error) {
	e, err := l.inForce(ctx)
	if errors.Is(err, ErrNoConfig) {
		err = nil
	}
	return e.Time, err
}

// inForce is the configuration that a device has as it was kept.
func (l *Lease) inForce(ctx context.Context) (e kv.Entry, err error) {
	which, err := l.current.take(ctx, l)
	if err != nil {
		return e, err
	}
	if len(which) == 0 {
		return e, ErrNoConfig
	}
	revision, err := strconv.ParseUint(string(which), 10, 64)
	if err != nil {
		return e, fmt.Errorf("%s of the bucket %s has no revision: remove it, and csig apply the device's configuration again (%w)", l.current.key, configs, err)
	}
	b, err := l.store.configs(ctx)
	if err != nil {
		return e, err
	}
	e, err = b.Next(ctx, l.key, revision)
	if err == nil && (e.Revision != revision || e.Deleted) {
		err = kv.ErrNotFound
	}
	if err != nil { // a server that has not got it yet says that it is not there, too
		return kv.Entry{}, fmt.Errorf("revision %d of %s in the bucket %s: %w", revision, l.key, configs, err)
	}
	return e, nil
}

// KeepConfig keeps the device's configuration, of which there is none where it is empty.
func (l *Lease) KeepConfig(ctx context.Context, text []byte) error {
	if len(text) > configLimit {
		return fmt.Errorf("%d bytes: at most %d are kept", len(text), configLimit)
	}
	if err := l.MayWrite(); err != nil {
		return err
	}
	b, err := l.store.configs(ctx)
	if err != nil {
		return err
	}
	revision, err := b.Put(ctx, l.key, text)
	if err != nil {
		return fmt.Errorf("%s of the bucket %s: %w", l.key, configs, err)
	}
	return l.current.set(ctx, l, strconv.AppendUint(nil, revision, 10))
}

// Lock is the device's change lock, as KeepLock was given it; nothing for none.
func (l *Lease) Lock(ctx context.Context) ([]byte, error) { return l.operator.take(ctx, l) }

// KeepLock keeps the device's change lock.
func (l *Lease) KeepLock(ctx context.Context, text []byte) error { return l.operator.set(ctx, l, text) }

// Revert is what KeepRevert was given; nothing for none.
func (l *Lease) Revert(ctx context.Context) ([]byte, error) { return l.revert.take(ctx, l) }

// KeepRevert keeps where an auto-revert goes back to that is pending.
func (l *Lease) KeepRevert(ctx context.Context, text []byte) error { return l.revert.set(ctx, l, text) }

// Configs are those that the device had, the newest first: as many as are kept.
func (l *Lease) Configs(ctx context.Context) (all [][]byte, err error) {
	b, err := l.store.configs(ctx)
	if err != nil {
		return nil, err
	}
	for e := (kv.Entry{}); ; {
		switch e, err = b.Next(ctx, l.key, e.Revision+1); {
		case errors.Is(err, kv.ErrNotFound):
			slices.Reverse(all)
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("%s of the bucket %s: %w", l.key, configs, err)
		}
		all = append(all, e.Value)
	}
}

// cell is a value of a device in that bucket that the device's owner alone changes, by
// compare-and-set. Each owner takes it over by writing what it has read: only then is that known
// to be the newest, and what the owner before still sends is refused from then on.
type cell struct {
	key string

	mu       sync.Mutex
	revision uint64 // 0: it is not taken over
	value    []byte
}

// Bounds of taking over and of setting: servers may know less than others for a moment.
const (
	cellTries = 10
	cellPause = 50 * time.Millisecond
)

// by begins the value that an owner writes.
func (l *Lease) by() []byte { return fmt.Appendf(nil, "%d.%d\n", l.Token.Epoch, l.Token.Revision) }

// take is the value, nothing where there never was one.
func (c *cell) take(ctx context.Context, l *Lease) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.takeLocked(ctx, l)
	return c.value, err
}

func (c *cell) takeLocked(ctx context.Context, l *Lease) error {
	if c.revision > 0 {
		return nil
	}
	b, err := l.store.configs(ctx)
	if err != nil {
		return err
	}
	for range cellTries {
		e, err := b.Last(ctx, c.key)
		if err == nil || errors.Is(err, kv.ErrNotFound) {
			_, value, _ := bytes.Cut(e.Value, []byte("\n"))
			if err = c.write(ctx, l, b, e.Revision, value); err == nil {
				return nil
			}
		}
		if !isStale(err) || !pause(ctx, cellPause) { // stale: what was read was not the newest
			return fmt.Errorf("%s of the bucket %s: %w", c.key, configs, err)
		}
	}
	return fmt.Errorf("%s of the bucket %s changes all the time", c.key, configs)
}

// write replaces the value of this revision.
func (c *cell) write(ctx context.Context, l *Lease, b kv.Bucket, last uint64, value []byte) error {
	if err := l.MayWrite(); err != nil {
		return err
	}
	revision, err := b.Update(ctx, kv.Entry{Key: c.key, Value: append(l.by(), value...)}, last)
	if err == nil {
		c.revision, c.value = revision, value
	}
	return err
}

// set replaces the value.
func (c *cell) set(ctx context.Context, l *Lease, value []byte) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.takeLocked(ctx, l); err != nil || bytes.Equal(c.value, value) {
		return err
	}
	b, err := l.store.configs(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && !errors.Is(err, ErrNotOwner) { // it may have been written: what is there is read again before the next time
			c.revision = 0
		}
	}()
	for range cellTries {
		err := c.write(ctx, l, b, c.revision, value)
		if err == nil {
			return nil
		}
		if !isStale(err) {
			return fmt.Errorf("%s of the bucket %s: %w", c.key, configs, err)
		}
		e, err := b.Last(ctx, c.key)
		if err == nil && e.Deleted {
			err = kv.ErrNotFound
		}
		if err != nil {
			return fmt.Errorf("%s of the bucket %s: %w", c.key, configs, err)
		}
		switch {
		case e.Revision > c.revision && !bytes.HasPrefix(e.Value, l.by()):
			return fmt.Errorf("%w any more: another has taken over %s of the bucket %s", ErrNotOwner, c.key, configs)
		case e.Revision > c.revision: // this owner's own: its answer was lost
			c.revision = e.Revision
		}
		if !pause(ctx, cellPause) {
			return context.Cause(ctx)
		}
	}
	return fmt.Errorf("%s of the bucket %s changes all the time", c.key, configs)
}
