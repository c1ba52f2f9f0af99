package agent

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/vendors/untrusted"
)

// The schedule compares wall clock times: after the clock has been set to an earlier time,
// it would sleep until the old one has come again.
const (
	clockWatch = 100 * time.Millisecond // how often the clock is looked at
	clockStep  = 50 * time.Millisecond  // less is a clock that is slewed
)

// stepped is by how much the wall clock was set while so much time passed by it and by a
// clock that is never set; 0 where it was slewed at most.
func stepped(wall, steady time.Duration) time.Duration {
	if step := wall - steady; step.Abs() >= clockStep {
		return step
	}
	return 0
}

// keepSchedule begins a cycle whenever the schedule says so, until ctx ends. A tick at
// which the cycle before still runs is skipped and counted.
func (a *Agent) keepSchedule(ctx context.Context) {
	running := make(chan struct{}, 1)        // has something in it while a cycle runs
	defer func() { running <- struct{}{} }() // the last one ends
	seen := time.Now()
	next := a.schedule.Next(seen)
	wake := time.NewTimer(0)
	defer wake.Stop()
	for {
		wake.Reset(min(clockWatch, next.Sub(seen)))
		select {
		case <-ctx.Done():
			return
		case <-wake.C:
		}
		now := time.Now()
		step := stepped(now.Round(0).Sub(seen.Round(0)), now.Sub(seen))
		seen = now
		switch {
		case step != 0:
			a.log.WithField("step", step.Round(time.Millisecond).String()).Warn("wall clock stepped; schedule restarted")
		case now.Before(next):
			continue
		default:
			select {
			case running <- struct{}{}:
				go func() {
					defer func() { <-running }()
					a.tryCycle(ctx)
				}()
			default:
				a.skip()
			}
		}
		next = a.schedule.Next(now)
	}
}

// tryCycle is a Cycle whose panic is a failed one. Its error is logged and counted, and the
// next cycle tries again.
func (a *Agent) tryCycle(ctx context.Context) {
	var panicked error
	func() {
		defer untrusted.Recover(&panicked)
		_ = a.Cycle(ctx)
	}()
	if panicked != nil {
		_ = a.fail(panicked)
	}
}

// skip counts a tick at which the cycle before still runs.
func (a *Agent) skip() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cycle.Skipped++
	if n := a.cycle.Skipped; n&(n-1) == 0 { // 1, 2, 4, 8 …: tell, but do not flood
		a.log.WithFields(logrus.Fields{"skipped": n}).Warn("a cycle takes longer than the schedule allows; lengthen the schedule")
	}
}
