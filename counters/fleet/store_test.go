package fleet

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/quantize"
)

func storeTables(t *testing.T) []*quantize.Buckets {
	t.Helper()
	var out []*quantize.Buckets
	for _, p := range []struct {
		sig  quantize.Signal
		name string
	}{{quantize.MinABW, "log-1G"}, {quantize.MinABWC, "linear"}} {
		table, err := quantize.Preset(p.sig, p.name)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, &table)
	}
	return out
}

// boardReading is a reading at a second of a port that sends 1000-byte frames.
func boardReading(index, second int, frames uint64) *Reading {
	at := time.Unix(1_780_000_000+int64(second), 0)
	return &Reading{Index: index, End: at, Samples: []counters.Sample{
		{Port: "swp1", Octets: 1000 * frames, Packets: frames, Speed: 1e9, Up: true, At: at, Bits: 64, Overhead: 20, Live: true},
	}}
}

func TestStore(t *testing.T) {
	overhead := uint8(25)
	tables := storeTables(t)
	b, err := NewStore([]counters.PipelineConfig{
		{Ports: []counters.PipelinePort{{Name: "swp1"}}, Interval: time.Second, Tables: tables},
		{Ports: []counters.PipelinePort{{Name: "swp1", Speed: 5e8}}, Interval: time.Second, Tables: tables, Overhead: &overhead},
		{Ports: []counters.PipelinePort{{Name: "swp1"}}, Interval: time.Second, Tables: tables, Damping: counters.Damping{Hold: 2}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if v := b.Ports(0, nil)[0]; v.Port != "swp1" || !v.Seen.IsZero() || v.Now.State != counters.First {
		t.Errorf("before the first reading: %+v", v)
	}
	for i := range 3 {
		b.Take(boardReading(i, 0, 0))
		b.Take(boardReading(i, 1, 50_000)) // 408 or 410 Mbit/s
	}
	v := b.Ports(0, nil)[0]
	if !v.Seen.Equal(time.Unix(1_780_000_001, 0)) {
		t.Errorf("seen at %v", v.Seen)
	}
	if v.Now.State != counters.OK || v.Last.Load() != 408_000_000 || v.Signals[0].Bucket != tables[0].Bucket(592_000_000) || v.Signals[1].Bucket != tables[1].Bucket(592_000) || v.Signals[1].Range.Doubtful() {
		t.Errorf("%+v", v)
	}
	if v := b.Ports(1, nil)[0]; v.Last.Load() != 410_000_000 || v.Last.Capacity != 5e8 {
		t.Errorf("with its own speed and overhead: %+v", v)
	}
	// Errors, of the device or of a port, leave what was known before.
	b.Take(&Reading{Index: 0, Err: errors.New("no answer"), End: time.Unix(1_780_000_002, 0)})
	if got := b.Ports(0, nil)[0]; got.Now.State != counters.Error || got.Now.Reason != "no answer" || got.Now.End.IsZero() || got.Last != v.Last {
		t.Errorf("of a device that cannot be read: %+v", got.Now)
	}
	bad := boardReading(0, 2, 0)
	bad.Samples[0].Err = errors.New("gone")
	b.Take(bad)
	if got := b.Ports(0, nil)[0]; got.Now.State != counters.Error || got.Last != v.Last || got.Seen != v.Seen || got.Signals[0] != v.Signals[0] {
		t.Errorf("after errors: %+v, had %+v", got, v)
	}
	// The third one is damped: better news waits for another reading.
	before := b.Ports(2, nil)[0]
	b.Take(boardReading(2, 2, 50_000))
	held := b.Ports(2, nil)[0]
	b.Take(boardReading(2, 3, 50_000))
	passed := b.Ports(2, nil)[0]
	if held.Last.Load() != 0 || held.Signals[0].Bucket != before.Signals[0].Bucket || passed.Signals[0].Bucket != 31 {
		t.Errorf("damping: %+v, %+v, %+v", before.Signals, held.Signals, passed.Signals)
	}
	if st := b.Refresh(2); st.Kind != counters.RefreshLive || st.Period != time.Second {
		t.Errorf("%+v", st)
	}
}

// A reading that repeats the one before says nothing about the port.
func TestStoreSeesThroughACache(t *testing.T) {
	b, err := NewStore([]counters.PipelineConfig{{Ports: []counters.PipelinePort{{Name: "swp1"}}, Interval: time.Second, Tables: storeTables(t)}})
	if err != nil {
		t.Fatal(err)
	}
	for second := range 60 {
		r := boardReading(0, second, uint64(second/5*5)*50_000) // refreshed every 5 s
		r.Samples[0].Live = false
		b.Take(r)
		v := b.Ports(0, nil)[0]
		if second < 20 {
			continue
		}
		if lo, hi := v.Last.LoadRange(); lo > 408_000_000 || hi < 408_000_000 || lo < 300_000_000 {
			t.Errorf("second %d: load in [%d, %d], want 408 Mbit/s", second, lo, hi)
		}
		if repeats := second%5 != 0; repeats != (v.Now.State == counters.NotRefreshed) {
			t.Errorf("second %d: %v", second, v.Now.State)
		}
	}
	if st := b.Refresh(0); (st.Period - 5*time.Second).Abs() > st.PeriodError {
		t.Errorf("%+v", st)
	}
}

func TestStoreMistakes(t *testing.T) {
	pd, err := quantize.Preset(quantize.MaxPD, "log-1ms")
	if err != nil {
		t.Fatal(err)
	}
	ports := []counters.PipelinePort{{Name: "swp1"}}
	for want, d := range map[string]counters.PipelineConfig{
		"cannot be read from counters": {Ports: ports, Tables: []*quantize.Buckets{&pd}},
		"damping":                      {Ports: ports, Damping: counters.Damping{Hold: -1}},
	} {
		if _, err := NewStore([]counters.PipelineConfig{d}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// counting is a source whose port sends steadily.
type counting struct{}

func (counting) Close() error { return nil }
func (counting) Read(_ context.Context, dst []counters.Sample) ([]counters.Sample, error) {
	now := time.Now()
	n := uint64(now.UnixMicro())
	return append(dst, counters.Sample{Port: "swp1", Octets: 10 * n, Packets: n / 100, Speed: 1e9, Up: true, At: now, Bits: 64, Overhead: 20}), nil
}

// A store under a fleet that runs, looked at from another goroutine.
func TestStoreUnderAFleet(t *testing.T) {
	const devices = 20
	var setups []counters.PipelineConfig
	cfg := Config{Interval: 5 * time.Millisecond}
	for i := range devices {
		setups = append(setups, counters.PipelineConfig{Ports: []counters.PipelinePort{{Name: "swp1"}}, Interval: 5 * time.Millisecond, Tables: storeTables(t)})
		cfg.Devices = append(cfg.Devices, Device{Name: "leaf" + string(rune('a'+i)), Open: func(context.Context) (counters.Source, error) { return counting{}, nil }})
	}
	b, err := NewStore(setups)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Sink = b.Take
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := f.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	var views []PortView
	for done := 0; done < devices && ctx.Err() == nil; {
		done = 0
		for i := range devices {
			if views = b.Ports(i, views); views[0].Last.State == counters.OK && b.Refresh(i).Refreshes > 3 {
				done++
			}
		}
	}
	stop()
	wg.Wait()
	for i := range devices {
		if v := b.Ports(i, nil)[0]; v.Last.State != counters.OK {
			t.Errorf("device %d: %+v", i, v)
		}
	}
}

func TestStoreAllocatesNothing(t *testing.T) {
	b, err := NewStore([]counters.PipelineConfig{{Ports: []counters.PipelinePort{{Name: "swp1"}}, Interval: time.Second, Tables: storeTables(t)}})
	if err != nil {
		t.Fatal(err)
	}
	second, r := 0, boardReading(0, 0, 0)
	next := func() {
		second++
		s := &r.Samples[0]
		s.At, s.Octets, s.Packets = s.At.Add(time.Second), s.Octets+1000, s.Packets+1
		b.Take(r)
	}
	for range 200 {
		next()
	}
	if n := testing.AllocsPerRun(100, next); n != 0 {
		t.Errorf("%v allocations a reading", n)
	}
}

// A device that answers about none of its ports is one that cannot be read.
func TestAnswersWithoutAPort(t *testing.T) {
	st, err := NewStore([]counters.PipelineConfig{{Ports: []counters.PipelinePort{{Name: "a", Speed: 1e9}, {Name: "b", Speed: 1e9}}, Interval: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	bad := errors.New("no such interface")
	for i, c := range []struct {
		a, b error
		err  error
		want Answers
	}{
		{bad, bad, nil, Answers{Mute: 1, InRow: 1}},
		{nil, nil, errors.New("no answer"), Answers{Mute: 1, InRow: 1}}, // a reading without samples is counted elsewhere
		{bad, bad, nil, Answers{Mute: 2, InRow: 2}},
		{bad, nil, nil, Answers{Mute: 2, Good: at.Add(3 * time.Second)}},
		{bad, bad, nil, Answers{Mute: 3, InRow: 1, Good: at.Add(3 * time.Second)}},
	} {
		end := at.Add(time.Duration(i) * time.Second)
		st.Take(&Reading{End: end, Err: c.err, Samples: []counters.Sample{{Port: "a", At: end, Err: c.a}, {Port: "b", At: end, Err: c.b}}})
		if got := st.Answers(0); got != c.want {
			t.Errorf("after reading %d: %+v, want %+v", i, got, c.want)
		}
	}
}
