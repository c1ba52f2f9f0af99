package fleet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/protocol/untrusted"
)

// device is one device on its way from slot to slot.
type device struct {
	fleet *Fleet
	index int
	cfg   Device
	phase time.Duration // in the interval
	wait  time.Duration // before its first slot: whole intervals

	timer  *time.Timer   // runs the reading at due
	busy   chan struct{} // holds a token while a reading is under way, and for good after the stop
	parent context.Context

	// Of the reading under way.
	due     time.Time
	look    time.Time // one that the sink has asked for before the next slot; zero for none
	source  counters.Source
	reopens uint64 // how often source was opened again
	fails   int    // in a row
	missed  int

	mu      sync.Mutex // of what Status reads
	status  DeviceStatus
	started time.Time // of the reading under way; zero for none
}

func newDevice(f *Fleet, index int) *device {
	d := &device{fleet: f, index: index, cfg: f.cfg.Devices[index], busy: make(chan struct{}, 1)}
	d.status.Device, d.status.Interval = d.cfg.Name, d.cfg.Interval
	d.timer = time.AfterFunc(math.MaxInt64, d.run)
	d.timer.Stop()
	return d
}

// begin sets the first slot: the first one from now on of a grid that hangs on the wall
// clock, so that it is the same one after a restart.
func (d *device) begin(ctx context.Context, now time.Time) {
	d.parent = ctx
	since := time.Duration(now.UnixNano()) % d.cfg.Interval
	if d.due = now.Add(d.phase - since); d.due.Before(now) {
		d.due = d.due.Add(d.cfg.Interval)
	}
	d.due = d.due.Add(d.wait)
	d.timer.Reset(time.Until(d.due))
}

// run reads the device in its slot and waits for the next one.
func (d *device) run() {
	select {
	case d.busy <- struct{}{}:
	default:
		return // it was stopped
	}
	release := d.place()
	if d.parent.Err() == nil {
		d.read()
	}
	release()
	next := d.due
	if !d.look.IsZero() {
		next = d.look
	}
	<-d.busy
	if d.parent.Err() == nil {
		d.timer.Reset(time.Until(next))
	}
}

// place waits until the reading may begin, and counts it against the concurrency until
// release is called, or for as long as the patience lasts.
func (d *device) place() (release func()) {
	select {
	case d.fleet.places <- struct{}{}:
	case <-d.parent.Done():
		return func() {}
	}
	leave := sync.OnceFunc(func() { <-d.fleet.places })
	patience := time.AfterFunc(d.fleet.cfg.Patience, leave)
	return func() { patience.Stop(); leave() }
}

// errStuck is that of a device whose reading does not end.
var errStuck = errors.New("still being read")

// stop ends the readings and closes the source, once the one under way has ended; over
// is closed when it has had its time.
func (d *device) stop(over <-chan struct{}) error {
	d.timer.Stop()
	select {
	case d.busy <- struct{}{}:
		return d.close()
	default:
	}
	select {
	case d.busy <- struct{}{}:
		return d.close()
	case <-over:
		return errStuck
	}
}

// read takes one reading and finds the next slot.
func (d *device) read() {
	due, start, limit := d.due, time.Now(), d.cfg.Interval
	between := !d.look.IsZero()
	if between {
		due, limit = d.look, max(d.due.Sub(start), time.Millisecond)
	}
	d.look = time.Time{}
	d.mu.Lock()
	d.started = start
	d.mu.Unlock()

	buf, _ := d.fleet.buffers.Get().(*[]counters.Sample)
	if buf == nil {
		buf = new([]counters.Sample)
	}
	defer d.fleet.buffers.Put(buf)
	ctx, cancel := context.WithCancelCause(d.parent)
	defer cancel(nil)
	// Not a deadline of ctx: sources would divide what is left of it among their tries.
	deadline := time.AfterFunc(limit, func() { cancel(context.DeadlineExceeded) })
	samples, err := d.take(ctx, *buf)
	if !deadline.Stop() && err != nil && d.parent.Err() == nil && !errors.As(err, new(*untrusted.PanicError)) {
		err = &lateError{d.cfg.Name, limit, err}
	}
	end := time.Now()
	if cap(samples) > cap(*buf) {
		*buf = samples
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
	if between {
		if missed = 0; err != nil { // the reading of the next slot says why
			d.mu.Lock()
			d.started = time.Time{}
			d.mu.Unlock()
			return
		}
	} else {
		d.due, d.missed = d.slot(due, end)
	}
	if d.parent.Err() == nil {
		r := Reading{Device: d.cfg.Name, Index: d.index, Due: due, Start: start, End: end, Missed: missed, Next: d.due, Err: err}
		if err == nil {
			r.Samples = samples
		}
		if p := d.sink(&r); p != nil && err == nil {
			err = fmt.Errorf("device %s: %w", d.cfg.Name, p)
			d.fails++
			r.Samples, r.Err = nil, err
			_ = d.sink(&r) // which learns of what it cannot take
		}
		if d.look = r.Look; !d.look.Before(d.due) {
			d.look = time.Time{}
		}
	}
	d.note(due, start, end, missed, err)
}

// sink gives the reading away. A panic of what it is given to is an error.
func (d *device) sink(r *Reading) (err error) {
	defer untrusted.Recover(&err)
	d.fleet.cfg.Sink(r)
	return nil
}

// take opens the source if need be and reads it.
func (d *device) take(ctx context.Context, buf []counters.Sample) (samples []counters.Sample, err error) {
	defer func() {
		if errors.As(err, new(*untrusted.PanicError)) {
			d.fails = max(d.fails, reopenAfter)
		}
	}()
	defer untrusted.Recover(&err) // one device must not end the readings of all
	if d.source != nil && d.fails >= reopenAfter {
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
		most := max(int64(d.fleet.cfg.MaxBackoff/d.cfg.Interval), 1)
		k = min(1<<min(d.fails-1, 30), most)
	}
	if behind := int64(now.Sub(due) / d.cfg.Interval); k <= behind {
		k = behind + 1
	}
	return due.Add(time.Duration(k) * d.cfg.Interval), int(k - 1)
}

func (d *device) note(due, start, end time.Time, missed int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &d.status
	d.started = time.Time{}
	if err != nil && d.parent.Err() != nil {
		return // it was stopped from outside, and did not fail
	}
	s.Reads++
	s.Missed += uint64(missed)
	s.LastLate, s.LastTook = start.Sub(due), end.Sub(start)
	s.Late.Add(s.LastLate)
	s.Took.Add(s.LastTook)
	s.Fails = d.fails
	if err != nil {
		s.Failed++
		s.Error = err.Error()
		return
	}
	s.Good, s.Error = end, ""
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
