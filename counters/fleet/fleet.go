package fleet

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/csig-agent/csig/counters"
)

// Fleet reads its devices from Run until Run returns. Status may be called at any
// time.
type Fleet struct {
	cfg     Config
	devices []*device

	mu      sync.Mutex
	waiting queue // devices that are not being read, by their slots
	fast    list  // readings that count against the concurrency, oldest first
	running int   // readings under way
	idle    *sync.Cond
	buffers [][]counters.Sample // for readings to come
	stopped bool

	wake chan struct{} // the scheduler has something new to look at
}

// New checks the configuration and returns a Fleet that has not touched any device.
func New(cfg Config) (*Fleet, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	f := &Fleet{cfg: cfg, wake: make(chan struct{}, 1)}
	f.idle = sync.NewCond(&f.mu)
	for i := range cfg.Devices {
		f.devices = append(f.devices, newDevice(f, i))
	}
	f.spread()
	return f, nil
}

// spread gives every device its place in the interval.
func (f *Fleet) spread() {
	order := slices.Clone(f.devices)
	sum := func(d *device) uint64 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(d.cfg.Name)) // never fails
		return h.Sum64()
	}
	slices.SortFunc(order, func(a, b *device) int {
		return cmp.Or(cmp.Compare(sum(a), sum(b)), cmp.Compare(a.cfg.Name, b.cfg.Name))
	})
	for rank, d := range order {
		d.phase = time.Duration(float64(d.interval) * float64(rank) / float64(len(order)))
		// So many intervals it takes to begin with all; every n-th device is in
		// each, so that the load is even in them, too.
		rounds := max(1, int(math.Ceil(float64(len(order))/(float64(f.cfg.Ramp)*d.interval.Seconds()))))
		d.wait = time.Duration(rank%rounds) * d.interval
	}
}

// Run reads the devices until ctx ends, then closes their sources. Its error names
// devices that could not be stopped or closed; ctx having ended is none.
func (f *Fleet) Run(ctx context.Context) error {
	now := time.Now()
	f.mu.Lock()
	if f.stopped {
		f.mu.Unlock()
		return fmt.Errorf("fleet: it has run already: make another one")
	}
	for _, d := range f.devices {
		d.begin(ctx, now)
		heap.Push(&f.waiting, d)
	}
	f.mu.Unlock()

	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if next, ok := f.schedule(); ok {
			timer.Reset(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return f.stop()
		case <-timer.C:
		case <-f.wake:
		}
	}
}

// schedule starts every reading whose slot has come, as far as there are places, and
// returns when to look again.
func (f *Fleet) schedule() (next time.Time, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.waiting) > 0 {
		now := time.Now()
		d := f.waiting[0]
		if d.due.After(now) {
			return d.due, true
		}
		for f.fast.n >= f.cfg.Concurrency {
			oldest := f.fast.first
			if age := now.Sub(oldest.started); age < f.cfg.Patience {
				return now.Add(f.cfg.Patience - age), true
			}
			f.fast.remove(oldest) // it waits, and may do so on its own account
		}
		heap.Pop(&f.waiting)
		d.started, d.busy = now, true
		f.fast.add(d)
		f.running++
		go d.read()
	}
	return time.Time{}, false
}

// done takes a device back whose reading has ended, to be read again at due.
func (f *Fleet) done(d *device, due time.Time, buf []counters.Sample) {
	f.mu.Lock()
	full := f.fast.n >= f.cfg.Concurrency
	f.fast.remove(d)
	f.running--
	if f.running == 0 {
		f.idle.Broadcast()
	}
	clear(buf[:cap(buf)]) // no errors and strings kept alive
	f.buffers = append(f.buffers, buf[:0])
	d.due, d.busy = due, false
	heap.Push(&f.waiting, d)
	first := f.waiting[0] == d
	f.mu.Unlock()
	if full || first {
		select {
		case f.wake <- struct{}{}:
		default: // it is going to look anyway
		}
	}
}

// buffer returns memory for a reading.
func (f *Fleet) buffer() []counters.Sample {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.buffers); n > 0 {
		b := f.buffers[n-1]
		f.buffers = f.buffers[:n-1]
		return b
	}
	return nil
}

// stopGrace is how long cancelled readings may take to end.
const stopGrace = 5 * time.Second

func (f *Fleet) stop() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
	over := false
	timer := time.AfterFunc(stopGrace, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		over = true
		f.idle.Broadcast()
	})
	defer timer.Stop()
	for f.running > 0 && !over {
		f.idle.Wait()
	}
	var stuck []string
	var first error
	for _, d := range f.devices {
		if d.busy {
			stuck = append(stuck, d.cfg.Name)
			continue
		}
		if err := d.close(); err != nil && first == nil {
			first = fmt.Errorf("device %s: closing: %w", d.cfg.Name, err)
		}
	}
	if len(stuck) > 0 {
		return fmt.Errorf("fleet: %d devices, %s first, were still being read %v after they had to stop", len(stuck), stuck[0], stopGrace)
	}
	return first
}

// queue is a heap of devices by their slots.
type queue []*device

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(d any)        { *q = append(*q, d.(*device)) }
func (q *queue) Pop() any {
	old := *q
	d := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return d
}

// list is a queue of devices from which any can leave.
type list struct {
	first, last *device
	n           int
}

func (l *list) add(d *device) {
	d.prev, d.next, d.listed = l.last, nil, true
	if l.last != nil {
		l.last.next = d
	} else {
		l.first = d
	}
	l.last = d
	l.n++
}

func (l *list) remove(d *device) {
	if !d.listed {
		return
	}
	if d.prev != nil {
		d.prev.next = d.next
	} else {
		l.first = d.next
	}
	if d.next != nil {
		d.next.prev = d.prev
	} else {
		l.last = d.prev
	}
	d.prev, d.next, d.listed = nil, nil, false
	l.n--
}
