package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/quantize"
)

// watcher records what leaves one hop, behind its queue, for the judge.
type watcher struct {
	profile *quantize.Profile
	native  atomic.Pointer[native] // which takes in the same frames, where the hop measures by itself

	mu sync.Mutex
	polled
	probes map[probeKey]int64 // when they left, ns of the wall clock
}

// watchEvery is how often records are read; the kernel has stamped them.
const watchEvery = 5 * time.Millisecond

// watch takes frames in until ctx ends.
func (w *watcher) watch(ctx context.Context, port *fabric.Port) (err error) {
	tap, err := port.Tap()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tap.Close()) }()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var frames []fabric.Left
	var lost uint64
	w.mu.Lock()
	w.began = time.Now().UnixNano()
	w.mu.Unlock()
	for before := w.began; ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		now := time.Now().UnixNano()
		frames = tap.Read(frames[:0])
		total, err := tap.Lost()
		if err != nil {
			return fmt.Errorf("judge: %w", err)
		}
		w.mu.Lock()
		for i := range frames {
			w.record(&frames[i])
		}
		if total != lost {
			w.gaps = append(w.gaps, span{before, time.Now().UnixNano()})
		}
		w.until = now - int64(late) // a processor may be between the stamp and the record
		w.forget(now - 4*w.interval - int64(2*time.Second))
		w.mu.Unlock()
		if n := w.native.Load(); n != nil {
			n.left(frames, now, total != lost)
		}
		before, lost = now, total
	}
}

func (w *watcher) record(f *fabric.Left) {
	w.leaves(f.At, f.L1Bits())
	if k, ok := probeOf(f.Bytes, f.Head[:], w.profile); ok {
		w.probes[k] = f.At
	}
}

// passage is when a probe left, which is asked once for each.
func (w *watcher) passage(k probeKey) (int64, bool) {
	at, ok := w.probes[k]
	delete(w.probes, k)
	return at, ok
}

// ready reports whether the judge can judge.
func (w *watcher) ready() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.newest()
	return ok && w.until-w.began > 3*w.interval
}

// now returns what the hop carried last, zeros before the first window.
func (w *watcher) now() values {
	w.mu.Lock()
	defer w.mu.Unlock()
	v, _ := w.newest()
	return v
}
