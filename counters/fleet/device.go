package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/vendors/untrusted"
)

// device is one device on its way from slot to slot.
type device struct {
	fleet    *Fleet
	index    int
	cfg      Device
	interval time.Duration
	deadline time.Duration
	phase    time.Duration // in the interval
	wait     time.Duration // before its first slot: whole intervals

	// Of the scheduler, under its lock.
	due        time.Time
	started    time.Time
	busy       bool // being read
	prev, next *device
	listed     bool

	// Of the reading under way; only one is at any time.
	read    func() // a goroutine to start, made once
	parent  context.Context
	ctx     context.Context // cancelled by timer, then replaced
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	source  counters.Source
	reopens uint64 // how often source was opened again
	fails   int    // in a row
	missed  int
	reading Reading

	mu    sync.Mutex // of what Status reads
	stats stats
}

type stats struct {
	reads, failed, missed uint64
	fails                 int
	reading               time.Time // since when a reading is under way
	good                  time.Time // when the last good reading ended
	late, took            Histogram
	lastLate, lastTook    time.Duration
	next                  time.Time
	err                   string
}

func newDevice(f *Fleet, index int) *device {
	d := &device{fleet: f, index: index, cfg: f.cfg.Devices[index]}
	d.interval = f.cfg.Interval
	if d.cfg.Interval > 0 {
		d.interval = d.cfg.Interval
	}
	d.deadline = d.interval
	if f.cfg.Deadline > 0 {
		d.deadline = f.cfg.Deadline
	}
	d.read = d.run
	return d
}

// begin sets the first slot: the first one from now on of a grid that hangs on the wall
// clock, so that it is the same one after a restart.
func (d *device) begin(ctx context.Context, now time.Time) {
	d.parent = ctx
	since := time.Duration(now.UnixNano()) % d.interval
	if d.due = now.Add(d.phase - since); d.due.Before(now) {
		d.due = d.due.Add(d.interval)
	}
	d.due = d.due.Add(d.wait)
	d.renew()
	d.timer = time.AfterFunc(time.Hour, func() { d.cancelNow() })
	d.timer.Stop()
}

func (d *device) renew() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ctx, d.cancel = context.WithCancelCause(d.parent)
}

func (d *device) cancelNow() {
	d.mu.Lock()
	cancel := d.cancel
	d.mu.Unlock()
	cancel(context.DeadlineExceeded) // for sources that look at the cause
}

// run takes one reading and gives the device back to the scheduler.
func (d *device) run() {
	due, start := d.due, time.Now()
	d.mu.Lock()
	d.stats.reading = start
	d.mu.Unlock()

	buf := d.fleet.buffer()
	d.timer.Reset(d.deadline)
	samples, err := d.take(d.ctx, buf)
	stopped := d.timer.Stop()
	end := time.Now()
	if !stopped || d.ctx.Err() != nil {
		if err != nil && d.parent.Err() == nil && !errors.As(err, new(*untrusted.PanicError)) {
			err = &lateError{d.cfg.Name, d.deadline, err}
		}
		d.cancelNow()
		d.renew()
	}
	if err != nil {
		if prefix := "device " + d.cfg.Name + ": "; !strings.HasPrefix(err.Error(), prefix) {
			err = fmt.Errorf("%s%w", prefix, err) // many sources name their device themselves
		}
		if d.fails++; errors.Is(err, counters.ErrUnfinished) {
			d.fails = 1 // it gets on, and begins again where it is closed
		}
	} else {
		d.fails = 0
	}
	missed := d.missed
	next, skipped := d.slot(due, end)
	d.missed = skipped

	if d.parent.Err() == nil {
		d.reading = Reading{
			Device: d.cfg.Name, Index: d.index, Due: due, Start: start, End: end,
			Missed: missed, Err: err, Samples: samples,
		}
		if err != nil {
			d.reading.Samples = nil
		}
		if p := d.sink(); p != nil && err == nil {
			err = fmt.Errorf("device %s: %w", d.cfg.Name, p)
			d.fails++
			d.reading.Samples, d.reading.Err = nil, err
			_ = d.sink() // which learns of what it cannot take
		}
		d.reading = Reading{}
	}
	if err != nil && d.parent.Err() != nil {
		d.withdraw() // it was stopped from outside, and did not fail
	} else {
		d.note(due, start, end, next, missed, err)
	}
	if cap(samples) > cap(buf) {
		buf = samples
	}
	d.fleet.done(d, next, buf)
}

// sink gives the reading away. A panic of what it is given to is an error.
func (d *device) sink() (err error) {
	defer untrusted.Recover(&err)
	d.fleet.cfg.Sink(&d.reading)
	return nil
}

// take opens the source if need be and reads it.
func (d *device) take(ctx context.Context, buf []counters.Sample) (samples []counters.Sample, err error) {
	defer func() {
		if errors.As(err, new(*untrusted.PanicError)) {
			d.fails = max(d.fails, d.fleet.cfg.Reopen)
		}
	}()
	defer untrusted.Recover(&err) // one device must not end the readings of all
	if d.source != nil && d.fails >= d.fleet.cfg.Reopen {
		_ = d.close() // it does not work, and may not close well either
	}
	if d.source == nil {
		if d.source, err = d.cfg.Open(ctx); err != nil {
			d.source = nil
			return buf, err
		}
	}
	samples, err = d.source.Read(ctx, buf[:0])
	for i := range samples {
		// A source that was opened again knows nothing of what its epochs were before,
		// and the device may have restarted in between.
		samples[i].Epoch += d.reopens << 48
	}
	return samples, err
}

// lateError is what a source said when the deadline interrupted it.
type lateError struct {
	device   string
	deadline time.Duration
	err      error
}

// Error leaves out that the source was interrupted, which is our doing and explains
// nothing.
func (e *lateError) Error() string {
	text := strings.TrimPrefix(e.err.Error(), "device "+e.device+": ")
	for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
		text = strings.TrimSuffix(strings.TrimSuffix(text, end.Error()), ": ")
	}
	if text == "" || strings.Contains(text, context.Canceled.Error()) {
		return fmt.Sprintf("no answer within %v", e.deadline)
	}
	return fmt.Sprintf("no answer within %v: %s", e.deadline, text)
}

func (e *lateError) Unwrap() error { return e.err }

// slot is the device's next slot after a reading that was due then and ended now, and
// how many are left out.
func (d *device) slot(due, now time.Time) (next time.Time, skipped int) {
	k := int64(1)
	if d.fails > 1 {
		most := max(int64(d.fleet.cfg.MaxBackoff/d.interval), 1)
		k = min(1<<min(d.fails-1, 30), most)
	}
	if behind := int64(now.Sub(due) / d.interval); k <= behind {
		k = behind + 1
	}
	return due.Add(time.Duration(k) * d.interval), int(k - 1)
}

func (d *device) note(due, start, end, next time.Time, missed int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &d.stats
	s.reading = time.Time{}
	s.reads++
	s.missed += uint64(missed)
	s.lastLate, s.lastTook = start.Sub(due), end.Sub(start)
	s.late.Add(s.lastLate)
	s.took.Add(s.lastTook)
	s.next, s.fails = next, d.fails
	if err != nil {
		s.failed++
		s.err = err.Error()
		return
	}
	s.good, s.err = end, ""
}

// withdraw ends a reading as if it had not begun.
func (d *device) withdraw() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stats.reading = time.Time{}
}

func (d *device) close() error {
	if d.source == nil {
		return nil
	}
	err := d.source.Close()
	d.source = nil
	d.reopens++
	return err
}
