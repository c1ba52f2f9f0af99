package refreshtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/quantize"
)

// Truth is what a port of a real source truly sends.
type Truth interface {
	// When is when the port had sent so many frames and not one more: at no instant before first, nor after last.
	When(frames uint64) (first, last time.Time)
	// Sent is what it had sent by an instant, at least and at most.
	Sent(at time.Time) (least, most Sent)
}

// Sent is how many frames, and what they took of the wire.
type Sent struct{ Frames, Bits uint64 }

// Real is a real source, and how it is read.
type Real struct {
	Name   string
	Source counters.Source
	Every  time.Duration
	Speed  uint64 // of each port, in bit/s
	Ports  []string
	Truth  []Truth                       // of each port
	Behind time.Duration                 // how far its clock is
	Do     func(read func() error) error // where to read; nil is here

	pipe    *counters.Pipeline
	windows []realWindow
	result  Result
}

// realWindow is what was said of one.
type realWindow struct {
	port     int
	read     time.Time
	est      counters.Estimate
	from, to uint64 // frames
	kind     counters.RefreshKind
}

// T is what real sources need of a test.
type T interface {
	Helper()
	Log(args ...any)
	Error(args ...any)
	Fatal(args ...any)
}

// Long is how long sources are read: CSIG_JUDGED, or what the test has for it.
func Long(t T, usual time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv("CSIG_JUDGED")
	if text == "" {
		return usual
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatal(fmt.Sprintf("CSIG_JUDGED=%s: want a duration, as 150s", text))
	}
	return d
}

// Begin begins to read sources. The function that it returns waits until they have been read, as ctx has ended, and checks
// what was said of each.
func Begin(ctx context.Context, t T, list []*Real) (check func()) {
	var all sync.WaitGroup
	for _, r := range list {
		all.Go(func() {
			if err := r.Read(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	return func() {
		t.Helper()
		all.Wait()
		for _, r := range list {
			r.check(t)
		}
	}
}

// Read reads by the schedule, and when the pipeline asks for it between, until ctx ends.
func (r *Real) Read(ctx context.Context) error {
	cfg := counters.PipelineConfig{Interval: r.Every}
	for _, p := range r.Ports {
		cfg.Ports = append(cfg.Ports, counters.PipelinePort{Name: p, Speed: r.Speed})
	}
	var err error
	if r.pipe, err = counters.NewPipeline(cfg); err != nil {
		return err
	}
	of := make([]map[time.Time]uint64, len(r.Ports)) // frames, by the time of the values
	for i := range of {
		of[i] = map[time.Time]uint64{}
	}
	do := r.Do
	if do == nil {
		do = func(read func() error) error { return read() }
	}
	var samples []counters.Sample
	next, look := time.Now(), time.Time{}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		due, between := next, !look.IsZero()
		if between {
			due = look
		}
		timer.Reset(time.Until(due))
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		if between {
			r.result.Looks++
		} else {
			for next = next.Add(r.Every); next.Before(time.Now()); next = next.Add(r.Every) {
			}
		}
		err := do(func() (err error) { samples, err = r.Source.Read(ctx, samples[:0]); return err })
		if ctx.Err() != nil {
			return nil
		}
		look = time.Time{}
		if err != nil {
			if !between {
				return fmt.Errorf("%s: %w", r.Name, err)
			}
			continue
		}
		if err := r.take(samples, of, between); err != nil {
			return err
		}
		if look = r.pipe.Look(next); !look.Before(next) {
			look = time.Time{}
		}
	}
}

func (r *Real) take(samples []counters.Sample, of []map[time.Time]uint64, between bool) error {
	r.pipe.Observe(samples)
	for i := range samples {
		s := &samples[i]
		if s.Err != nil {
			return fmt.Errorf("%s: port %s: %w", r.Name, s.Port, s.Err)
		}
		if s.Fresh == counters.Current || s.Fresh == counters.Anchor {
			of[i][s.At] = s.Packets
		}
		r.result.Readings++
		if e := r.pipe.Take(i, s).Now; e.State == counters.OK {
			r.windows = append(r.windows, realWindow{i, time.Now(), e, of[i][e.Start], of[i][e.End], r.pipe.Refresh().Kind})
		}
	}
	return nil
}

// Refresh is what was learned.
func (r *Real) Refresh() counters.RefreshStatus { return r.pipe.Refresh() }

// Judge compares what was said of each window, also of those between two of the schedule, with the truth. Windows
// and those that are marked are counted once for each of some tables.
func (r *Real) Judge() (Result, error) {
	for _, preset := range []string{"linear", "log"} {
		table, err := quantize.Preset(quantize.MinABWC, preset)
		if err != nil {
			return r.result, err
		}
		for i := range r.windows {
			r.judge(&r.windows[i], &table)
		}
	}
	if len(r.windows) == 0 {
		return r.result, errors.New(r.Name + ": no window")
	}
	r.result.Windows = 2 * len(r.windows)
	return r.result, nil
}

func (r *Real) judge(w *realWindow, table *quantize.Buckets) {
	e := &w.est
	b, _ := counters.BucketsOf(e, table)
	if b.Doubtful() {
		r.result.Marked++
		return
	}
	tr, bits := r.Truth[w.port], e.Bits
	var least, most time.Duration
	outside := false
	if w.to-w.from < few { // what it says is that nothing was sent
		from, to := e.Start.Add(r.Behind+e.Error), e.End.Add(r.Behind-e.Error)
		_, before := tr.Sent(from)
		after, _ := tr.Sent(to)
		if !to.After(from) || after.Frames < before.Frames+2*few {
			return
		}
		bits, least, most = after.Bits-before.Bits, to.Sub(from), to.Sub(from)
	} else {
		firstFrom, lastFrom := tr.When(w.from)
		firstTo, lastTo := tr.When(w.to)
		least, most = firstTo.Sub(lastFrom), lastTo.Sub(firstFrom)
		outside = !within(e, &least, &most)
	}
	worst, ok := fits(b.S, table, e.Capacity, bits, least, most)
	if outside {
		r.result.Outside++
	}
	if !ok {
		r.result.Wrong++
	}
	if (outside || !ok) && len(r.result.Example) < 2000 {
		r.result.Example += fmt.Sprintf("\nread at %s, port %s, %v: bucket %d of %s, want %d; window %v ± %v, was %v to %v; %d bits, %d frames",
			w.read.Format("05.000"), r.Ports[w.port], w.kind, b.S, table.Signal, worst, e.End.Sub(e.Start), e.Error, least, most, e.Bits, w.to-w.from)
	}
}

// String is a line of what came of it.
func (r *Real) String() string {
	st := r.Refresh()
	return fmt.Sprintf("%-40s %5d windows, %5.1f %% marked, %d outside and unmarked, %d wrong; %d readings of ports, %d between two of the schedule; %v, %v ± %v",
		r.Name, r.result.Windows, r.result.Share(r.result.Marked), r.result.Outside, r.result.Wrong, r.result.Readings, r.result.Looks, st.Kind, st.Period, st.PeriodError)
}

// check judges a source that was read, prints what came of it, and wants no number outside its error without a mark.
func (r *Real) check(t T) {
	t.Helper()
	got, err := r.Judge()
	if t.Log(r); err != nil {
		t.Error(err)
	}
	if got.Outside > 0 || got.Wrong > 0 {
		t.Error(r.Name + ":" + got.Example)
	}
}
