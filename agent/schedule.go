package agent

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
)

// The schedule compares wall clock times: after the clock has been set to an earlier time,
// it would sleep until the old one has come again.
const (
	clockWatch = 100 * time.Millisecond // how often the clock is looked at
	clockStep  = 50 * time.Millisecond  // less is a clock that is slewed
	stoppedFor = time.Second            // what wakes up later than that was stopped, or the machine is overloaded
)

// apart is how far agents of one process are to be from one another, on average.
const apart = time.Millisecond

// scheduleOf is the schedule of a device, and how far its instants are from those of its text:
// agents that are beside others in a process are spread over 1 ms each, at most half a period.
// A device keeps its place, which comes from its name.
func scheduleOf(d *inventory.Device, beside int) (cron.Schedule, time.Duration, error) {
	s, err := inventory.ParseSchedule(d.Schedule)
	if err != nil || beside == 0 {
		return s, 0, err
	}
	name := sha256.Sum256([]byte(d.Name)) // names that differ in a digit come far apart
	spread := min(time.Duration(beside+1)*apart, inventory.LongestGap(s)/2)
	phase := time.Duration(binary.BigEndian.Uint64(name[:]) % uint64(spread))
	return later{s, phase}, phase, nil
}

// between is the time from a tick to the next one.
func (a *Agent) between(tick time.Time) time.Duration { return a.gap(a.schedule.Next(tick).Sub(tick)) }

// gap is a time between two ticks, or the usual one where the schedule pauses: a lease that lasted over a pause
// would advertise the last value for as long.
func (a *Agent) gap(d time.Duration) time.Duration {
	if d > a.cfg.Device.Interval {
		return a.cfg.Device.Period()
	}
	return d
}

// pauseAfter is until when the schedule pauses from an instant on; zero where it does not.
func (a *Agent) pauseAfter(at time.Time) (until time.Time) {
	if next := a.schedule.Next(at); next.Sub(at) > a.cfg.Device.Interval {
		return next
	}
	return time.Time{}
}

// pauseLocked is until when the schedule pauses since the last complete cycle; zero where it does not.
func (a *Agent) pauseLocked() (until time.Time) {
	if a.cycle.Last.IsZero() {
		return time.Time{}
	}
	return a.pauseAfter(a.cycle.Last)
}

// restAgain is after how long a device that could not be made to fall back in a pause is tried again.
const restAgain = 10 * time.Second

// restIsDue reports whether the lease has ended in a pause of the schedule on a device that cannot expire rules.
func (a *Agent) restIsDue(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.fallbackDueLocked(now) && now.Before(a.pauseLocked())
}

// later is a schedule that is due some time after another.
type later struct {
	cron.Schedule
	by time.Duration
}

// Next is the first instant after t.
func (l later) Next(t time.Time) time.Time { return l.Schedule.Next(t.Add(-l.by)).Add(l.by) }

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
	running := make(chan struct{}, 1)        // has something in it while a cycle or a reading runs
	defer func() { running <- struct{}{} }() // the last one ends
	seen := time.Now()
	since := seen // the running cycle runs since then, or since we were stopped in it
	next := a.schedule.Next(seen)
	if a.leaseIsShort(next) {
		next = seen
	}
	var look time.Time // when a reading between two cycles is due; zero for none
	var rested time.Time
	looks := make(chan time.Time, 1)
	run := func(do func()) {
		go func() {
			defer func() { <-running }()
			do()
			select {
			case <-looks: // of before
			default:
			}
			looks <- a.pipe.Look(a.schedule.Next(time.Now()))
		}()
	}
	wake := time.NewTimer(0)
	defer wake.Stop()
	for {
		wait := min(clockWatch, next.Sub(seen))
		if !look.IsZero() {
			wait = min(wait, look.Sub(seen))
		}
		wake.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case look = <-looks:
			continue
		case <-wake.C:
		}
		if len(running) == 0 {
			a.turns.expect(idleLimit)
		}
		now := time.Now()
		step := stepped(now.Round(0).Sub(seen.Round(0)), now.Sub(seen))
		if now.Sub(seen) > clockWatch+stoppedFor { // we were stopped
			since = now
		}
		seen = now
		switch {
		case step != 0:
			a.log.WithField("step", step.Round(time.Millisecond).String()).Warn("wall clock stepped; schedule restarted")
		case now.Before(next):
			switch {
			case len(running) > 0:
			case !look.IsZero() && !now.Before(look):
				running <- struct{}{}
				look = time.Time{}
				due := next // which is another one when the next tick is missed
				run(func() { a.readBetween(ctx, due) })
			case now.Sub(rested) >= restAgain && a.restIsDue(now):
				running <- struct{}{}
				rested = now
				run(func() {
					defer a.lockDriver()()
					a.fallBackOnExpiry(ctx)
				})
			}
			continue
		default:
			look = time.Time{}
			select {
			case running <- struct{}{}:
				since = now
				run(func() { a.advise(a.tryCycle(ctx)) })
			default:
				period := a.schedule.Next(next).Sub(next)
				a.skip(now.Sub(since) >= period/2) // half: ticks come late by more or less
			}
		}
		next = a.schedule.Next(now)
	}
}

// readBetween reads the counters before the next cycle is due, to learn about the source's refreshes (see
// counters.Refresh.Look). It writes nothing, and what fails is left to that cycle.
func (a *Agent) readBetween(ctx context.Context, next time.Time) {
	a.mu.Lock()
	a.turns.expect(readLimit)
	lease := a.cycle.lease
	a.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(time.Until(next), cancel).Stop()
	var panicked error
	defer untrusted.Recover(&panicked)
	var err error
	if a.samples, err = a.cfg.Source.Read(ctx, a.samples[:0]); err == nil {
		a.pipe.Observe(a.samples)
		a.compute(a.samples, lease, time.Now())
	}
}

// tryCycle is a Cycle whose panic is a failed one. Its error is logged and counted, and the
// next cycle tries again.
func (a *Agent) tryCycle(ctx context.Context) (err error) {
	a.mu.Lock()
	a.turns.expect(readLimit + a.writeLimit())
	a.cycle.overran, a.cycle.armed = false, false
	a.mu.Unlock()
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

// skip counts a tick at which the cycle before still runs, whether it took too long or the
// process was stopped.
func (a *Agent) skip(tooLong bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cycle.Skipped++
	a.cycle.overran = a.cycle.overran || tooLong
}

// advise is told how a cycle ended. One that completed after ticks it had missed needs a longer
// schedule; one that failed waited for something, and its error says for what.
func (a *Agent) advise(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.cycle
	if err == nil && c.overran && !c.armed && c.Skipped >= 2*c.advised { // tell, but do not flood
		c.advised = c.Skipped
		a.log.WithFields(logrus.Fields{"skipped": c.Skipped}).Warn("a cycle takes longer than the schedule allows; lengthen the schedule")
	}
}

// A cycle may wait for a device that is slow; one that hangs is told from it by its leases, and
// those of short intervals say nothing while the machine is busy.
const (
	hangLeases = 3
	hangLeast  = 10 * time.Second
)

// hangsLocked reports whether no cycle has ended for longer than it may take.
func (a *Agent) hangsLocked(now time.Time) bool {
	c := &a.cycle
	if c.ended.IsZero() {
		return false
	}
	due := a.schedule.Next(c.ended) // perhaps after a pause
	return now.Sub(due) > max(hangLeases*max(c.lease, vendors.LeasePeriods*a.between(due)), hangLeast)
}
