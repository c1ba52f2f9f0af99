package agent

import (
	"context"
	"time"
)

// The scheduler compares wall clock times: after the clock has been put back,
// it would sleep until the old time has come again.
const (
	clockWatch = 100 * time.Millisecond // how often the clock is looked at
	clockStep  = 50 * time.Millisecond  // less is a clock that is slewed
)

// clock reads the wall clock, and one that is never set.
type clock func() (wall time.Time, steady time.Duration)

// systemClock is the kernel's.
func systemClock() clock {
	start := time.Now()
	return func() (time.Time, time.Duration) {
		now := time.Now()
		return now.Round(0), now.Sub(start)
	}
}

// stepped waits until the wall clock has been set, and returns by how much, or
// 0 when ctx ends. It looks at each tick.
func stepped(ctx context.Context, read clock, ticks <-chan time.Time) time.Duration {
	wall, steady := read()
	for {
		select {
		case <-ctx.Done():
			return 0
		case <-ticks:
		}
		w, s := read()
		if step := w.Sub(wall) - (s - steady); step.Abs() >= clockStep {
			return step
		}
		wall, steady = w, s
	}
}
