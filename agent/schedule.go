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
					a.advise(a.tryCycle(ctx))
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
func (a *Agent) tryCycle(ctx context.Context) (err error) {
	var panicked error
	func() {
		defer untrusted.Recover(&panicked)
		err = a.Cycle(ctx)
	}()
	if panicked != nil {
		return a.fail(panicked)
	}
	return err
}

// skip counts a tick at which the cycle before still runs.
func (a *Agent) skip() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cycle.Skipped++
	a.cycle.overran = true
}

// advise is told how a cycle ended. One that completed after ticks it had missed needs a longer
// schedule; one that failed waited for something, and its error says for what.
func (a *Agent) advise(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.cycle
	if err == nil && c.overran && c.Skipped >= 2*c.advised { // tell, but do not flood
		c.advised = c.Skipped
		a.log.WithFields(logrus.Fields{"skipped": c.Skipped}).Warn("a cycle takes longer than the schedule allows; lengthen the schedule")
	}
	c.overran = false
}
