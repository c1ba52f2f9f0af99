package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/csig-agent/csig/counters"
)

// Device is one device to read.
type Device struct {
	Name string
	// Open makes the device's source. It is called for the first reading and
	// again after failures, and must heed its context.
	Open func(context.Context) (counters.Source, error)
	// Interval is how often to read it; 0 is the fleet's.
	Interval time.Duration
}

// Config says what to read and how. The defaults are for the zero values.
type Config struct {
	Devices  []Device
	Interval time.Duration // how often to read a device; 1 s

	// Concurrency is how many readings may be under way that began less than
	// Patience ago; 64.
	Concurrency int
	// Patience is how long a reading may take before it stops to count against
	// Concurrency; 50 ms.
	Patience time.Duration
	// Ramp is how many devices are begun with in a second at the start, where the
	// first reading of each is the dearest: most sources look around first. 250.
	Ramp int
	// MaxBackoff is the longest time between two tries of a device that fails;
	// 30 s.
	MaxBackoff time.Duration

	// Sink takes the readings. It is called from the goroutine that read, at the
	// same time for different devices but never for one; what it does is part of
	// the reading's time. Nothing in the Reading may be kept.
	Sink func(*Reading)
}

// Reading is one reading of one device.
type Reading struct {
	Device  string
	Index   int               // of the device in Config.Devices
	Due     time.Time         // its slot
	Start   time.Time         // when it really began
	End     time.Time         // when the answer was there
	Missed  int               // slots since the reading before that had none
	Err     error             // of the whole device; then there are no samples
	Samples []counters.Sample // in the source's order of ports
	Next    time.Time         // the next slot

	// Look is when the Sink wants another reading before the next slot; zero for none.
	Look time.Time
}

const (
	defaultInterval    = time.Second
	defaultConcurrency = 64
	defaultPatience    = 50 * time.Millisecond
	defaultMaxBackoff  = 30 * time.Second
	defaultRamp        = 250
	minInterval        = time.Millisecond

	// reopenAfter is after how many failures in a row a source is opened again.
	reopenAfter = 3
)

func (c Config) withDefaults() (Config, error) {
	for _, d := range []struct {
		v   *time.Duration
		def time.Duration
	}{{&c.Interval, defaultInterval}, {&c.Patience, defaultPatience}, {&c.MaxBackoff, defaultMaxBackoff}} {
		if *d.v <= 0 {
			*d.v = d.def
		}
	}
	if c.Concurrency <= 0 {
		c.Concurrency = defaultConcurrency
	}
	if c.Ramp <= 0 {
		c.Ramp = defaultRamp
	}
	if c.Sink == nil {
		return c, errors.New("fleet: no sink for the readings")
	}
	var errs []error
	c.Devices = slices.Clone(c.Devices)
	seen := make(map[string]bool, len(c.Devices))
	for i := range c.Devices {
		d := &c.Devices[i]
		if d.Interval == 0 {
			d.Interval = c.Interval
		}
		switch {
		case d.Name == "":
			errs = append(errs, fmt.Errorf("fleet: device %d has no name", i+1))
		case seen[d.Name]:
			errs = append(errs, fmt.Errorf("fleet: device %s is listed twice", d.Name))
		case d.Open == nil:
			errs = append(errs, fmt.Errorf("fleet: device %s has no source", d.Name))
		case d.Interval < minInterval:
			errs = append(errs, fmt.Errorf("fleet: device %s: interval %v: want %v or more", d.Name, d.Interval, minInterval))
		}
		seen[d.Name] = true
	}
	return c, errors.Join(errs...)
}
