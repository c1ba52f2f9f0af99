package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/counters"
)

// fake is a source that takes a while.
type fake struct {
	name   string
	takes  func(n int) time.Duration // of the nth reading; nil is none
	fails  func(n int) error
	deaf   bool // ignores that its reading is cancelled
	n      int
	busy   atomic.Bool
	closed bool
}

func (f *fake) Read(ctx context.Context, dst []counters.Sample) ([]counters.Sample, error) {
	if !f.busy.CompareAndSwap(false, true) {
		panic("two readings of " + f.name + " at a time")
	}
	defer f.busy.Store(false)
	n := f.n
	f.n++
	if f.takes != nil {
		if f.deaf {
			time.Sleep(f.takes(n)) // in the bubble's time
		} else if d := f.takes(n); d > 0 {
			t := time.NewTimer(d)
			defer t.Stop()
			select {
			case <-t.C:
			case <-ctx.Done():
				return dst[:0], ctx.Err()
			}
		}
	}
	if f.fails != nil {
		if err := f.fails(n); err != nil {
			return dst[:0], err
		}
	}
	return append(dst[:0], counters.Sample{Port: "swp1", Octets: uint64(n), At: time.Now()}), nil
}

func (f *fake) Close() error { f.closed = true; return nil }

func opened(f *fake) Device {
	return Device{Name: f.name, Open: func(context.Context) (counters.Source, error) { return f, nil }}
}

// log collects readings.
type log struct {
	mu   sync.Mutex
	all  []Reading
	when map[string][]Reading
}

func (l *log) sink(r *Reading) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.when == nil {
		l.when = map[string][]Reading{}
	}
	c := *r
	c.Samples = slices.Clone(r.Samples)
	l.all = append(l.all, c)
	l.when[r.Device] = append(l.when[r.Device], c)
}

func (l *log) of(device string) []Reading {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.when[device])
}

// runFor runs a fleet for d of the bubble's time.
func runFor(t *testing.T, cfg Config, d time.Duration) (*Fleet, *log, error) {
	t.Helper()
	l := &log{}
	cfg.Sink = l.sink
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	err = f.Run(ctx)
	return f, l, err
}

func many(n int, change func(i int, f *fake)) (devices []Device) {
	for i := range n {
		f := &fake{name: fmt.Sprintf("leaf%d", i)}
		if change != nil {
			change(i, f)
		}
		devices = append(devices, opened(f))
	}
	return devices
}

func TestDevicesAreSpreadEvenly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, err := runFor(t, Config{Devices: many(1000, nil), Ramp: 1000}, 3*time.Second+500*time.Microsecond)
		if err != nil {
			t.Fatal(err)
		}
		if len(l.all) < 2990 || len(l.all) > 3010 {
			t.Errorf("%d readings in 3 s", len(l.all))
		}
		for i := 1; i < len(l.all); i++ {
			if d := l.all[i].Start.Sub(l.all[i-1].Start); d != time.Millisecond {
				t.Fatalf("reading %d starts %v after the one before", i, d)
			}
		}
		s := f.Status()
		if s.Late.Max() != 0 || s.Missed != 0 || s.Failed != 0 || s.Good != 1000 || s.Age.Max() > 1001*time.Millisecond {
			t.Errorf("%+v", s)
		}
	})
}

// At the start no second has more new devices than it should, evenly; a slot is the
// one that the device would have had anyway.
func TestStartIsSpreadOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		f, l, err := runFor(t, Config{Devices: many(1000, nil)}, 6*time.Second+500*time.Microsecond)
		if err != nil {
			t.Fatal(err)
		}
		perTenth := map[time.Duration]int{}
		for name, all := range l.when {
			first := all[0].Start.Sub(start)
			perTenth[first/(100*time.Millisecond)]++
			if phase := all[len(all)-1].Start.Sub(start) % time.Second; first%time.Second != phase {
				t.Errorf("%s: first after %v, later at %v in the second", name, first, phase)
			}
		}
		for tenth := range time.Duration(40) {
			if n := perTenth[tenth]; n < 24 || n > 26 {
				t.Errorf("%d devices begin in tenth %d, want 25", n, tenth)
			}
		}
		if s := f.Status(); len(l.when) != 1000 || s.Missed != 0 || s.Late.Max() != 0 {
			t.Errorf("%d devices, %+v", len(l.when), s)
		}
	})
}

// What is cut off because the fleet stops is no failure of the device.
func TestStoppingIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _, err := runFor(t, Config{Devices: many(3, func(_ int, f *fake) { f.takes = func(int) time.Duration { return 700 * time.Millisecond } })}, 2500*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if s := f.Status(); s.Failed != 0 || s.Failing != 0 || s.Running != 0 || s.Reads == 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestSlotsAreTheSameAfterARestart(t *testing.T) {
	slots := func(wait time.Duration) (out map[string]time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(wait)
			_, l, err := runFor(t, Config{Devices: many(50, nil)}, 2*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			out = map[string]time.Duration{}
			for _, r := range l.all {
				at := time.Duration(r.Due.UnixNano()) % time.Second
				if old, ok := out[r.Device]; ok && old != at {
					t.Fatalf("%s is read at %v and %v", r.Device, old, at)
				}
				out[r.Device] = at
			}
		})
		return out
	}
	a, b := slots(0), slots(1234567*time.Microsecond)
	for name, at := range a {
		if b[name] != at {
			t.Errorf("%s: slot %v, then %v", name, at, b[name])
		}
	}
}

// A third of the devices is dead, a third takes three intervals, some ignore being
// cancelled: the others never notice.
func TestSlowAndDeadDevicesDelayNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Concurrency: 8, Patience: 20 * time.Millisecond, Devices: many(300, func(i int, f *fake) {
			switch i % 6 {
			case 0, 1:
				f.takes = func(int) time.Duration { return time.Hour }
			case 2:
				f.takes = func(int) time.Duration { return 3500 * time.Millisecond }
				f.deaf = true
			default:
				f.takes = func(int) time.Duration { return 2 * time.Millisecond }
			}
		})}
		f, l, err := runFor(t, cfg, 60*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		for i := range cfg.Devices {
			d := f.Device(i)
			rs := l.of(d.Device)
			switch i % 6 {
			case 0, 1:
				if d.Error == "" || d.Good != (time.Time{}) || !strings.Contains(d.Error, "device leaf") || !strings.Contains(d.Error, "no answer within 1s") {
					t.Fatalf("%+v", d)
				}
			case 2:
				if len(rs) < 13 || len(rs) > 15 || rs[5].Missed != 3 || d.Missed < 36 || rs[5].Err != nil {
					t.Fatalf("%d readings, %+v", len(rs), rs[5])
				}
			default:
				if len(rs) < 59 || d.Missed != 0 || d.Failed != 0 || d.Late.Max() > 20*time.Millisecond {
					t.Fatalf("%s: %d readings, %d missed, late by up to %v", d.Device, len(rs), d.Missed, d.Late.Max())
				}
			}
		}
		if s := f.Status(); s.Failing != 100 || s.Good != 200 || s.Late.Quantile(0.5) > time.Millisecond {
			t.Errorf("%+v", s)
		}
	})
}

// With all places taken by devices that just died the others wait for the patience,
// no longer.
func TestAllPlacesTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Concurrency: 2, Patience: 30 * time.Millisecond, Devices: many(20, func(i int, f *fake) {
			f.takes = func(n int) time.Duration {
				if i < 10 && n >= 3 {
					return time.Hour
				}
				return 0
			}
		})}
		f, _, err := runFor(t, cfg, 30*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		for i := 10; i < 20; i++ {
			if d := f.Device(i); d.Late.Max() > 30*time.Millisecond || d.Reads < 29 {
				t.Errorf("%s: late by up to %v, %d readings", d.Device, d.Late.Max(), d.Reads)
			}
		}
	})
}

// A device that needs several readings for its first one is neither given a rest nor
// closed.
func TestUnfinishedReadings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{name: "leaf1", fails: func(n int) error {
			if n < 20 {
				return fmt.Errorf("3 interfaces so far: %w", counters.ErrUnfinished)
			}
			return nil
		}}
		fl, l, err := runFor(t, Config{Devices: []Device{opened(f)}}, 30*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if rs := l.of("leaf1"); len(rs) < 29 || rs[19].Err == nil || rs[20].Err != nil || fl.Device(0).Missed > 0 {
			t.Errorf("%d readings, %+v", len(rs), fl.Device(0))
		}
	})
}

func TestBackoffAndReopen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opens, closed := 0, 0
		var sources []*fake
		dev := Device{Name: "leaf1", Open: func(context.Context) (counters.Source, error) {
			opens++
			if opens == 3 {
				return nil, errors.New("connection refused")
			}
			f := &fake{name: "leaf1", fails: func(n int) error {
				if opens < 5 && (opens > 1 || n > 1) {
					return errors.New("no such name")
				}
				return nil
			}}
			sources = append(sources, f)
			return f, nil
		}}
		f, l, err := runFor(t, Config{Devices: []Device{dev}, MaxBackoff: 5 * time.Second}, 60*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		var gaps []int
		rs := l.of("leaf1")
		for i := 1; i < len(rs); i++ {
			gaps = append(gaps, int(rs[i].Due.Sub(rs[i-1].Due)/time.Second))
			if rs[i].Missed != gaps[i-1]-1 {
				t.Errorf("reading %d: %d missed, gap %d", i, rs[i].Missed, gaps[i-1])
			}
			if (rs[i].Samples == nil) != (rs[i].Err != nil) {
				t.Errorf("reading %d: %v, %v", i, rs[i].Samples, rs[i].Err)
			}
		}
		if first, last := rs[0].Samples[0].Epoch, rs[len(rs)-1].Samples[0].Epoch; first == last {
			t.Errorf("a source that was opened again continues in epoch %d", first)
		}
		// Good, good, then failures: the first costs nothing, the others 2, 4, 5, 5, 5.
		if want := []int{1, 1, 1, 2, 4, 5, 5, 5, 1, 1}; !slices.Equal(gaps[:len(want)], want) {
			t.Errorf("gaps %v, want %v …", gaps, want)
		}
		if opens != 5 || f.Device(0).Fails != 0 || f.Device(0).Error != "" {
			t.Errorf("opened %d times, %+v", opens, f.Device(0))
		}
		for _, s := range sources {
			if s.closed {
				closed++
			}
		}
		if closed != len(sources) {
			t.Errorf("%d of %d sources are closed", closed, len(sources))
		}
	})
}

func TestSinkThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		cfg := Config{Devices: many(2, nil), Sink: func(r *Reading) {
			if r.Index == 0 && r.Err == nil {
				panic("no such number")
			}
			l.sink(r)
		}}
		f, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := f.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if e := l.of("leaf0")[0].Err; e == nil || !strings.Contains(e.Error(), "device leaf0: a defect in csig, please report it: no such number") {
			t.Error(e)
		}
		if bad, good := f.Device(0), f.Device(1); bad.Failed == 0 || good.Failed != 0 || good.Reads < 19 {
			t.Errorf("%+v, %+v", bad, good)
		}
	})
}

func TestSourceThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Devices: many(2, func(i int, f *fake) {
			f.fails = func(n int) error {
				if i == 0 && n == 1 {
					var m []int
					_ = m[n]
				}
				return nil
			}
		})}
		f, l, err := runFor(t, cfg, 20*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if d := f.Device(0); d.Failed != 1 || d.Fails != 0 {
			t.Errorf("%+v", d)
		}
		if e := l.of("leaf0")[1].Err; e == nil || !strings.Contains(e.Error(), "device leaf0: a defect in csig, please report it: runtime error: index out of range") {
			t.Error(e)
		}
		if d := f.Device(1); d.Failed != 0 || d.Reads < 19 {
			t.Errorf("%+v", d)
		}
	})
}

func TestStoppingWhileADeviceHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Devices: many(3, func(i int, f *fake) {
			if i == 1 {
				f.takes, f.deaf = func(int) time.Duration { return time.Hour }, true
			}
		})}
		begun := time.Now()
		f, _, err := runFor(t, cfg, 10*time.Second)
		if err == nil || !strings.Contains(err.Error(), "1 devices, leaf1 first, were still being read 5s after") {
			t.Error(err)
		}
		if d := time.Since(begun); d != 15*time.Second {
			t.Errorf("took %v to stop", d)
		}
		if d := f.Device(1); d.Running < 13*time.Second || f.Status().Slow != 1 || f.Status().Unread != 1 {
			t.Errorf("%+v", d)
		}
		if err := f.Run(t.Context()); err == nil {
			t.Error("it ran twice")
		}
		time.Sleep(2 * time.Hour) // of the bubble: lets the hanging one end
	})
}

func TestIntervalsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		devices := many(3, nil)
		devices[1].Interval = 100 * time.Millisecond
		devices[2].Interval = 5 * time.Second
		_, l, err := runFor(t, Config{Devices: devices}, 20*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []int{20, 200, 4} {
			if n := len(l.of(devices[i].Name)); n < want-1 || n > want+1 {
				t.Errorf("device %d: %d readings, want %d", i, n, want)
			}
		}
	})
}

func TestConfigMistakes(t *testing.T) {
	sink := func(*Reading) {}
	open := func(context.Context) (counters.Source, error) { return nil, nil }
	for _, tt := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, "no sink"},
		{Config{Sink: sink, Devices: []Device{{Open: open}}}, "device 1 has no name"},
		{Config{Sink: sink, Devices: []Device{{Name: "a", Open: open}, {Name: "a", Open: open}}}, "device a is listed twice"},
		{Config{Sink: sink, Devices: []Device{{Name: "a"}}}, "device a has no source"},
		{Config{Sink: sink, Devices: []Device{{Name: "a", Open: open, Interval: 1}}}, "device a: interval 1ns"},
	} {
		if _, err := New(tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
}

// Every slot has either a reading or is counted as missed, whatever the devices do.
func TestEverySlotIsAccountedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Interval: 100 * time.Millisecond, Concurrency: 1, Patience: 5 * time.Millisecond, MaxBackoff: time.Second, Devices: many(40, func(i int, f *fake) {
			f.takes = func(n int) time.Duration { return time.Duration((n*7919+i*104729)%300) * time.Millisecond }
			f.deaf = i%3 == 0
			f.fails = func(n int) error {
				if (n*31+i*17)%11 < 4 {
					return errors.New("sometimes")
				}
				return nil
			}
		})}
		_, l, err := runFor(t, cfg, 30*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range cfg.Devices {
			rs := l.of(d.Name)
			if len(rs) < 20 {
				t.Errorf("%s: %d readings", d.Name, len(rs))
			}
			for i := 1; i < len(rs); i++ {
				if slots := int(rs[i].Due.Sub(rs[i-1].Due) / cfg.Interval); rs[i].Missed != slots-1 || rs[i].Due.Sub(rs[i-1].Due)%cfg.Interval != 0 {
					t.Fatalf("%s, reading %d: %d slots on, %d missed", d.Name, i, slots, rs[i].Missed)
				}
				if rs[i].Start.Before(rs[i].Due) || rs[i].Start.Before(rs[i-1].End) {
					t.Fatalf("%s, reading %d starts too early", d.Name, i)
				}
			}
		}
	})
}
