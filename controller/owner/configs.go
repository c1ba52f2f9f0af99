package owner

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// configs is the bucket of the devices' configurations: fleet files of one device, which name
// secrets and have none, with their history.
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

// lockKey is the key of who changes a device, in the same bucket, with its history.
func lockKey(device string) string { return "operator." + key(device) }

// Config is the configuration that a device has; none is where it has none any more, and
// ErrNoConfig where none was ever kept.
func (s *Store) Config(ctx context.Context, device string) ([]byte, error) {
	text, ok, err := s.kept(ctx, key(device))
	if err == nil && !ok {
		err = ErrNoConfig
	}
	return text, err
}

// Keep keeps a device's configuration, of which there is none where it is empty. Only the
// device's owner calls it.
func (s *Store) Keep(ctx context.Context, device string, text []byte) error {
	return s.keep(ctx, key(device), text)
}

// Lock is a device's change lock, as KeepLock was given it; nothing for none.
func (s *Store) Lock(ctx context.Context, device string) ([]byte, error) {
	text, _, err := s.kept(ctx, lockKey(device))
	return text, err
}

// KeepLock keeps a device's change lock. Only the device's owner calls it.
func (s *Store) KeepLock(ctx context.Context, device string, text []byte) error {
	return s.keep(ctx, lockKey(device), text)
}

// kept is what a key has; ok is false where it never had anything.
func (s *Store) kept(ctx context.Context, key string) (text []byte, ok bool, err error) {
	kv, err := s.configs(ctx)
	if err != nil {
		return nil, false, err
	}
	e, err := kv.Get(ctx, key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("%s of the bucket %s: %w", key, configs, err)
	}
	return e.Value(), true, nil
}

func (s *Store) keep(ctx context.Context, key string, text []byte) error {
	if len(text) > configLimit {
		return fmt.Errorf("%d bytes: at most %d are kept", len(text), configLimit)
	}
	kv, err := s.configs(ctx)
	if err != nil {
		return err
	}
	if _, err := kv.Put(ctx, key, text); err != nil {
		return fmt.Errorf("%s of the bucket %s: %w", key, configs, err)
	}
	return nil
}
