package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Fleet reads its devices from Run until Run returns. Status may be called at any
// time.
type Fleet struct {
	cfg     Config
	devices []*device
	ran     atomic.Bool
	places  chan struct{} // of readings that count against the concurrency
	buffers sync.Pool     // of *[]counters.Sample, for readings to come
}

// New checks the configuration and returns a Fleet that has not touched any device.
func New(cfg Config) (*Fleet, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	f := &Fleet{cfg: cfg, places: make(chan struct{}, cfg.Concurrency)}
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
		d.phase = time.Duration(float64(d.cfg.Interval) * float64(rank) / float64(len(order)))
		// So many intervals it takes to begin with all; every n-th device is in
		// each, so that the load is even in them, too.
		rounds := max(1, int(math.Ceil(float64(len(order))/(float64(f.cfg.Ramp)*d.cfg.Interval.Seconds()))))
		d.wait = time.Duration(rank%rounds) * d.cfg.Interval
	}
}

// Run reads the devices until ctx ends, then closes their sources. Its error names
// devices that could not be stopped or closed; ctx having ended is none.
func (f *Fleet) Run(ctx context.Context) error {
	if f.ran.Swap(true) {
		return fmt.Errorf("fleet: it has run already: make another one")
	}
	now := time.Now()
	for _, d := range f.devices {
		d.begin(ctx, now)
	}
	<-ctx.Done()
	return f.stop()
}

// stopGrace is how long cancelled readings may take to end.
const stopGrace = 5 * time.Second

func (f *Fleet) stop() error {
	over := make(chan struct{})
	defer time.AfterFunc(stopGrace, func() { close(over) }).Stop()
	var stuck []string
	var first error
	for _, d := range f.devices {
		switch err := d.stop(over); {
		case errors.Is(err, errStuck):
			stuck = append(stuck, d.cfg.Name)
		case err != nil && first == nil:
			first = fmt.Errorf("device %s: closing: %w", d.cfg.Name, err)
		}
	}
	if len(stuck) > 0 {
		return fmt.Errorf("fleet: %d devices, %s first, were still being read %v after they had to stop", len(stuck), stuck[0], stopGrace)
	}
	return first
}
