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

	"github.com/nats-io/nats.go/jetstream"
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

func (s *Store) configs(ctx context.Context) (jetstream.KeyValue, error) {
	return s.open(ctx, jetstream.KeyValueConfig{
		Bucket: configs, Description: "what csig apply gave each device (csig)", History: kept, MaxValueSize: configLimit,
	})
}

// Config is the configuration that a device has; none is where it has none any more, and
// ErrNoConfig where none was ever kept.
func (l *Lease) Config(ctx context.Context) ([]byte, error) {
	which, err := l.current.take(ctx, l)
	if err != nil {
		return nil, err
	}
	if len(which) == 0 {
		return nil, ErrNoConfig
	}
	revision, err := strconv.ParseUint(string(which), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%s of the bucket %s has no revision: remove it, and csig apply the device's configuration again (%w)", l.current.key, configs, err)
	}
	kv, err := l.store.configs(ctx)
	if err != nil {
		return nil, err
	}
	e, err := kv.GetRevision(ctx, l.key, revision)
	if err != nil { // a server that has not got it yet says that it is not there, too
		return nil, fmt.Errorf("revision %d of %s in the bucket %s: %w", revision, l.key, configs, err)
	}
	return e.Value(), nil
}

// KeepConfig keeps the device's configuration, of which there is none where it is empty.
func (l *Lease) KeepConfig(ctx context.Context, text []byte) error {
	if len(text) > configLimit {
		return fmt.Errorf("%d bytes: at most %d are kept", len(text), configLimit)
	}
	if err := l.MayWrite(); err != nil {
		return err
	}
	kv, err := l.store.configs(ctx)
	if err != nil {
		return err
	}
	revision, err := kv.Put(ctx, l.key, text)
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
	kv, err := l.store.configs(ctx)
	if err != nil {
		return nil, err
	}
	list, err := kv.History(ctx, l.key)
	if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, fmt.Errorf("%s of the bucket %s: %w", l.key, configs, err)
	}
	for _, e := range slices.Backward(list) {
		all = append(all, e.Value())
	}
	return all, nil
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
	kv, err := l.store.configs(ctx)
	if err != nil {
		return err
	}
	for range cellTries {
		var value []byte
		var revision uint64
		e, err := kv.Get(ctx, c.key)
		if err == nil {
			_, value, _ = bytes.Cut(e.Value(), []byte("\n"))
			err = c.write(ctx, l, func(text []byte) (err error) { revision, err = kv.Update(ctx, c.key, text, e.Revision()); return err }, value)
		} else if errors.Is(err, jetstream.ErrKeyNotFound) {
			err = c.write(ctx, l, func(text []byte) (err error) { revision, err = kv.Create(ctx, c.key, text); return err }, nil)
		}
		if err == nil {
			c.revision, c.value = revision, value
			return nil
		}
		if !isStale(err) || !pause(ctx, cellPause) { // stale: what was read was not the newest
			return fmt.Errorf("%s of the bucket %s: %w", c.key, configs, err)
		}
	}
	return fmt.Errorf("%s of the bucket %s changes all the time", c.key, configs)
}

func (c *cell) write(ctx context.Context, l *Lease, with func([]byte) error, value []byte) error {
	if err := l.MayWrite(); err != nil {
		return err
	}
	return with(append(l.by(), value...))
}

// set replaces the value.
func (c *cell) set(ctx context.Context, l *Lease, value []byte) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.takeLocked(ctx, l); err != nil || bytes.Equal(c.value, value) {
		return err
	}
	kv, err := l.store.configs(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && !errors.Is(err, ErrNotOwner) { // it may have been written: what is there is read again before the next time
			c.revision = 0
		}
	}()
	for range cellTries {
		var revision uint64
		err := c.write(ctx, l, func(text []byte) (err error) { revision, err = kv.Update(ctx, c.key, text, c.revision); return err }, value)
		if err == nil {
			c.revision, c.value = revision, value
			return nil
		}
		if !isStale(err) {
			return fmt.Errorf("%s of the bucket %s: %w", c.key, configs, err)
		}
		e, err := kv.Get(ctx, c.key)
		if err != nil {
			return fmt.Errorf("%s of the bucket %s: %w", c.key, configs, err)
		}
		switch {
		case e.Revision() > c.revision && !bytes.HasPrefix(e.Value(), l.by()):
			return fmt.Errorf("%w any more: another has taken over %s of the bucket %s", ErrNotOwner, c.key, configs)
		case e.Revision() > c.revision: // this owner's own: its answer was lost
			c.revision = e.Revision()
		}
		if !pause(ctx, cellPause) {
			return context.Cause(ctx)
		}
	}
	return fmt.Errorf("%s of the bucket %s changes all the time", c.key, configs)
}
