package demo

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/integration/fabric"
)

// The judge reads a counter twice as often as it has to, and a window counts as
// truth only where the readings around its ends really are a minSamples-th of a
// window apart or less: on a busy machine a process wakes up late.
const (
	minSamples = 5
	subsamples = 2 * minSamples
)

// watcher reads one hop's counters for the judge.
type watcher struct {
	mu sync.Mutex
	truth
}

// watch reads until ctx ends. Windows end at multiples of Δt on the clock, as
// every csig agent's schedule does; the counter at such an instant is
// interpolated between the two readings around it.
func (w *watcher) watch(ctx context.Context, port *fabric.Port, interval time.Duration) error {
	r, err := port.Counters()
	if err != nil {
		return err
	}
	defer r.Close()
	every := interval / subsamples
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	wakeSoon()
	var prev, start reading
	for ctx.Err() == nil {
		c, err := r.Read()
		if err != nil {
			return fmt.Errorf("judge: %w", err)
		}
		now := reading{at: c.At, bits: c.L1Bits()}
		if !prev.at.IsZero() {
			for end := nextMultiple(prev.at, interval); !end.After(now.at); end = end.Add(interval) {
				b := interpolate(prev, now, end)
				if !start.at.IsZero() {
					w.mu.Lock()
					w.add(start, b)
					w.mu.Unlock()
				}
				start = b
			}
		}
		prev = now
		t := time.Now()
		sleep(min(nextMultiple(t, every).Sub(t), maxSleep))
	}
	return nil
}

// maxSleep bounds how long the judge sleeps without looking whether the run has
// ended.
const maxSleep = 50 * time.Millisecond

// sleep keeps the goroutine's thread: the runtime's timers wake a goroutine on
// whichever thread has time, which on a busy machine is soon none.
func sleep(d time.Duration) {
	ts := unix.NsecToTimespec(d.Nanoseconds())
	_ = unix.Nanosleep(&ts, nil) // a signal may cut it short: one reading more
}

// wakeSoon asks the kernel for short slices of time for this thread (since Linux
// 6.12), so that it need not wait until a busy neighbour's is over. Elsewhere
// the judge is delayed more often, and reports that.
func wakeSoon() {
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{
		Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL, Runtime: uint64(100 * time.Microsecond),
	}, 0)
}

// nextMultiple is the first multiple of d on the clock after t; it keeps t's
// monotonic reading.
func nextMultiple(t time.Time, d time.Duration) time.Time {
	return t.Add(t.Truncate(d).Add(d).Sub(t))
}

// ready reports whether the judge can judge.
func (w *watcher) ready() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.windows) >= 2
}

// newest returns the last window, or false before the first.
func (w *watcher) newest() (window, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.windows) == 0 {
		return window{}, false
	}
	return w.windows[len(w.windows)-1], true
}
