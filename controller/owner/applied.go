package owner

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Applied is when the configuration in force was kept, by the clock of the store; zero where none was.
func (l *Lease) Applied(ctx context.Context) (time.Time, error) {
	which, err := l.current.take(ctx, l)
	if err != nil || len(which) == 0 {
		return time.Time{}, err
	}
	revision, err := strconv.ParseUint(string(which), 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	kv, err := l.store.configs(ctx)
	if err != nil {
		return time.Time{}, err
	}
	e, err := kv.GetRevision(ctx, l.key, revision)
	if err != nil {
		return time.Time{}, fmt.Errorf("revision %d of %s in the bucket %s: %w", revision, l.key, configs, err)
	}
	return e.Created(), nil
}
