package vendors

import (
	"context"
	"time"
)

// Wait returns after a time, or before that with ctx's cause where ctx ends.
func Wait(ctx context.Context, t time.Duration) error {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
