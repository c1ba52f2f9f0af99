package demo

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/csig-agent/csig/integration/fabric"
)

// subsamples is how many times the judge reads a counter in one window.
const subsamples = 5

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
	timer := time.NewTimer(0)
	defer timer.Stop()
	var prev, start reading
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
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
		timer.Reset(nextMultiple(t, every).Sub(t))
	}
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
