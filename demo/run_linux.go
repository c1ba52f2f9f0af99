package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/probe"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors/ebpf"
)

//go:embed fleet.yaml
var fleetFile []byte

// Options are how to run the demo.
type Options struct {
	Executable string               // the csig binary, for the agents
	Version    string               // for the result
	Duration   time.Duration        // of the measured part; of the mesh 0: each load step once
	Interval   time.Duration        // averaging window Δt of the agents
	Native     []string             // switches that measure by themselves: nil for none
	NativeDt   time.Duration        // Δt of those
	Live       io.Writer            // where to show progress
	Redraw     func(lines []string) // shows lines of at most 79 columns in place of the ones before; nil: Live gets a line a second
	Resized    <-chan os.Signal     // redraw now: the terminal has another size; nil: never
	PCAP       io.Writer            // what the receiver got; nil for nothing
	KeepProbes bool                 // fill Result.Probes
}

// ErrInterrupted is what Run returns when its context ends before anything was
// measured.
var ErrInterrupted = errors.New("interrupted before anything was measured")

// Limits of Options.Interval: below 10 ms the shapers' queues are as long as
// the window.
const (
	MinInterval = 10 * time.Millisecond
	MaxInterval = 10 * time.Second

	MinNative = 100 * time.Microsecond // Δt of native hops
)

const (
	probeEvery   = 5 * time.Millisecond // both signals in turns
	probeSize    = 64                   // bytes without FCS
	dwellWindows = 25                   // how many Δt a load step lasts
)

// probeBPS is what the probes take of every hop's cable, in bit/s.
const probeBPS = 8 * (probeSize + fabric.L1Overhead) * uint64(time.Second/probeEvery)

// Dwell is how long each load step lasts.
func Dwell(interval time.Duration) time.Duration { return dwellWindows * interval }

// DefaultDuration shows every load step twice.
func DefaultDuration(interval time.Duration) time.Duration {
	return time.Duration(2*len(steps)) * Dwell(interval)
}

// Run builds the fabric, runs the demo and takes everything down again. When
// ctx ends while it measures, what was measured so far is the result. It
// must be called inside namespaces of its own (fabric.Enter): it mounts its
// scratch space over /run.
func Run(ctx context.Context, o Options) (res *Result, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	fleet, err := o.fleet(fleetFile)
	if err != nil {
		return nil, err
	}
	if err := o.mayBeNative(ctx); err != nil {
		return nil, err
	}
	if err := mountScratch(); err != nil {
		return nil, err
	}
	p, err := buildPath(fleet)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	r := &runner{o: o, fleet: fleet, path: p, dir: scratch}
	res, err = r.run(ctx)
	if err != nil && ctx.Err() != nil && !r.measuring {
		return nil, ErrInterrupted // what did not get ready in time does not matter
	}
	return res, err
}

func (o *Options) check() error {
	if o.Interval < MinInterval || o.Interval > MaxInterval {
		return fmt.Errorf("interval %v: want %v to %v", o.Interval, MinInterval, MaxInterval)
	}
	if o.Duration < 4*o.Interval {
		return fmt.Errorf("duration %v is too short for an interval of %v: want at least %v", o.Duration, o.Interval, 4*o.Interval)
	}
	return nil
}

// scratch is where the demo keeps its files.
const scratch = "/run"

// mountScratch makes that empty in a mount namespace of our own: nothing of it outlives us.
func mountScratch() error {
	if err := unix.Mount("tmpfs", scratch, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700"); err != nil {
		return fmt.Errorf("scratch space: mount a tmpfs on %s: %w", scratch, err)
	}
	return nil
}

// supervision is how often an agent looks after a native hop: as often as without a schedule in
// the fleet file. Its lease outlasts what a busy machine keeps a process from running.
const supervision = time.Second

// fleet is that of a fleet file of the demo, with these intervals and kinds of hops.
func (o *Options) fleet(file []byte) (*inventory.Fleet, error) {
	if o.Native != nil && (o.NativeDt < MinNative || o.NativeDt > MaxInterval) {
		return nil, fmt.Errorf("interval %v of native hops: want %v to %v", o.NativeDt, MinNative, MaxInterval)
	}
	fleet, err := inventory.Parse("demo fleet", file)
	if err != nil {
		return nil, err
	}
	fleet.Profile.Interval = o.Interval
	fleet.Policy.Schedule = "@every " + o.Interval.String()
	for i := range fleet.Devices {
		d := &fleet.Devices[i]
		d.Interval, d.Schedule = o.Interval, fleet.Policy.Schedule
		if slices.Contains(o.Native, d.Name) {
			d.Platform = ebpf.Platform.Name
			d.Interval, d.Schedule = o.NativeDt, "@every "+max(o.NativeDt, supervision).String()
		}
	}
	return fleet, nil
}

// runner is one run of the demo.
type runner struct {
	o      Options
	fleet  *inventory.Fleet
	path   *path
	dir    string
	sender *probe.Sender

	agents   []*proc
	watchers []*watcher

	res     Result
	natives []*native // by hop; nil for software
	ages    ages
	sent    uint64
	arrived int
	pending []received
	last    [len(signals)]*Probe

	measuring bool
	kinds     []KindSummary

	wanted    []uint64    // loads of the step that runs
	stepBegin []time.Time // of each step: just before the load changed
}

// received is a probe that waits for the judge.
type received struct {
	sent, at time.Time
	sig      int
	seq      uint64
	tagged   bool
	tag      quantize.Tag
}

func (r *runner) run(ctx context.Context) (res *Result, err error) {
	if err := r.path.WaitUp(ctx); err != nil {
		return nil, err
	}
	if err := r.setStep(0); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.path.stopLoads()) }()
	for _, h := range r.path.hops {
		a, err := startAgent(r.o.Executable, r.dir, r.fleet, h)
		if err != nil {
			return nil, err
		}
		r.agents = append(r.agents, a)
	}

	// Helpers run until the end, beyond Ctrl-C: the probes on their way are to
	// arrive and to be judged. The first that fails ends the run.
	run, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	spawn := func(f func(context.Context) error) {
		wg.Go(func() {
			if err := f(run); err != nil {
				cancel(err)
			}
		})
	}
	defer wg.Wait()
	defer cancel(nil)

	fmt.Fprintf(r.o.Live, "Three switches in namespaces of this run, an agent in each.\nThe load moves from hop to hop for %v; Ctrl-C ends it early.\n", r.o.Duration.Round(time.Second/10))
	for i, h := range r.path.hops {
		w := &watcher{
			profile: &r.fleet.Profile, probes: map[probeKey]int64{},
			polled: polled{link: link{capacity: h.port.Speed}, interval: int64(r.o.Interval)},
		}
		for j, sig := range signals {
			w.buckets[j] = r.fleet.Profile.Signals[sig].Buckets
		}
		r.watchers, r.natives = append(r.watchers, w), append(r.natives, nil)
		spawn(func(ctx context.Context) error { return w.watch(ctx, h.egress) })
		fmt.Fprintf(r.o.Live, "%s starts its agent (%d of %d)\n", h.device.Name, i+1, len(r.path.hops))
	}
	startup, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	defer context.AfterFunc(run, func() { giveUp(context.Cause(run)) })()
	startup, done := context.WithTimeoutCause(startup, 15*time.Second+10*max(r.o.Interval, r.o.NativeDt, supervision), errors.New("no measured value in time"))
	defer done()
	for i, a := range r.agents {
		if err := a.ready(startup); err != nil {
			return nil, err
		}
		a.judge = r.watchers[i]
		spawn(a.follow)
	}
	for i, w := range r.watchers {
		ready := w.ready
		if h := r.path.hops[i]; h.device.Platform == ebpf.Platform.Name {
			n, err := newNative(h.egress, &r.fleet.Profile, w.link)
			if err != nil {
				return nil, fmt.Errorf("judge: %w", err)
			}
			r.natives[i], ready = n, n.ready
			w.native.Store(n)
			if err := poll(startup, n.told); err != nil {
				return nil, fmt.Errorf("the judge's first look behind the shaper: %w", err)
			}
			if n.recorder, err = h.egress.Record(); err != nil {
				return nil, fmt.Errorf("judge: %w", err)
			}
			spawn(n.watch)
		}
		if err := poll(startup, ready); err != nil {
			return nil, fmt.Errorf("the judge's first windows: %w", err)
		}
	}
	r.listKinds()
	if err := r.measure(ctx, run, spawn); err != nil {
		return nil, err
	}
	cancel(nil)
	wg.Wait()
	for _, n := range r.natives {
		if n == nil {
			continue
		}
		if err := n.check(); err != nil {
			return nil, fmt.Errorf("judge: %w", err)
		}
	}
	for _, a := range r.agents {
		if err := a.stop(); err != nil {
			return nil, err
		}
	}
	r.finish()
	return &r.res, nil
}

// setStep changes the background load. What the probes themselves need is
// part of the wanted load.
func (r *runner) setStep(n int) error {
	st := steps[n%len(steps)]
	begin := time.Now()
	var burst time.Duration
	r.wanted = r.wanted[:0]
	background := make([]uint64, len(r.path.hops))
	for i, h := range r.path.hops {
		load := midBucket(h.port.Speed, st.util[i], bucketsOf(r.fleet))
		r.wanted = append(r.wanted, load)
		background[i] = load - probeBPS
		burst = max(burst, drain(h.port.Speed, load, fabric.LoadBurst))
	}
	if err := r.path.setLoads(background); err != nil {
		return err
	}
	r.stepBegin = append(r.stepBegin, begin)
	r.res.Steps = append(r.res.Steps, Step{
		Time: time.Now(), Name: st.name, Burst: burst, LoadsBPS: slices.Clone(r.wanted),
	})
	return nil
}

// measure sends probes through the load steps and judges what arrives.
func (r *runner) measure(ctx, run context.Context, spawn func(func(context.Context) error)) error {
	listener, err := r.listen()
	if err != nil {
		return err
	}
	defer listener.Close()
	arrivals := make(chan received, 1024)
	spawn(func(ctx context.Context) error { return r.receive(ctx, listener, arrivals) })

	r.res = Result{
		Format: Format, Version: r.o.Version, Started: time.Now(), IntervalNS: r.o.Interval.Nanoseconds(),
		Profile: r.fleet.Profile.Name, Probes: []Probe{}, Summary: Summary{Kinds: r.kinds},
	}
	abw := r.fleet.Profile.Signals[quantize.MinABW].Buckets
	r.res.abw = &abw
	r.stepBegin = r.stepBegin[:0]
	if err := r.setStep(0); err != nil {
		return err
	}
	r.measuring = true
	sending, stop := context.WithCancel(run)
	defer stop()
	sendDone := make(chan error, 1)
	go func() { sendDone <- r.sender.Run(sending, probeEvery, 0) }()

	end := time.NewTimer(r.o.Duration)
	defer end.Stop()
	dwell := time.NewTicker(Dwell(r.o.Interval))
	defer dwell.Stop()
	redraw := time.NewTicker(r.redrawEvery())
	defer redraw.Stop()
	n := 0
	for running := true; running; {
		select {
		case rec := <-arrivals:
			r.pending = append(r.pending, rec)
		case <-redraw.C:
			r.judgePending(time.Now().Add(-r.o.Interval - 2*late))
			r.draw()
		case <-r.o.Resized:
			r.draw()
		case <-dwell.C:
			n++
			if err := r.setStep(n); err != nil {
				return err
			}
		case <-end.C:
			running = false
		case <-run.Done():
			return context.Cause(run)
		case <-ctx.Done():
			running = false // Ctrl-C: what was measured so far is the result
		}
	}
	r.res.DurationNS = time.Since(r.res.Started).Nanoseconds()
	stop()
	if err := <-sendDone; err != nil {
		return fmt.Errorf("sending probes: %w", err)
	}
	for _, sig := range signals {
		r.sent += r.sender.Sent(sig)
	}
	// The last probes are still on their way, and the judge's last window too.
	grace := time.NewTimer(max(r.o.Interval, r.o.NativeDt) + 200*time.Millisecond)
	defer grace.Stop()
	for waiting := true; waiting; {
		select {
		case rec := <-arrivals:
			r.pending = append(r.pending, rec)
		case <-grace.C:
			waiting = false
		}
	}
	r.judgePending(time.Now())
	r.draw()
	return nil
}

// poll waits for a condition.
func poll(ctx context.Context, ok func() bool) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (r *runner) redrawEvery() time.Duration {
	if r.o.Redraw != nil {
		return 200 * time.Millisecond
	}
	return time.Second
}

func (r *runner) draw() {
	f := frame{
		elapsed: time.Since(r.res.Started), total: r.o.Duration, step: r.res.Steps[len(r.res.Steps)-1].Name,
		hops: r.hops(), last: r.last, summary: r.res.Summary, arrived: r.arrived,
	}
	if r.o.Redraw == nil {
		f.line(r.o.Live)
		return
	}
	var text strings.Builder
	f.table(&text)
	r.o.Redraw(strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n"))
}

// hops describes every hop as the judge sees it now.
func (r *runner) hops() []Hop {
	out := make([]Hop, 0, len(r.path.hops))
	for i, h := range r.path.hops {
		w := r.watchers[i].now()
		hop := Hop{
			Device: h.device.Name, Kind: r.kind(i), IntervalNS: h.device.Interval.Nanoseconds(), Port: h.port.Name, Locator: h.name, CapacityBPS: h.port.Speed,
			LoadBPS: w.load, ABWBPS: w.abw, ABWCPPM: w.abwc,
		}
		for j, sig := range signals {
			hop.Signals = append(hop.Signals, HopSignal{Signal: sig.String(), Bucket: w.s[j], LM: h.port.LM[sig]})
		}
		a := r.agents[i]
		a.mu.Lock()
		if a.last != nil {
			hop.Cycles, hop.Failed, hop.Skipped = a.last.Cycle.Count, a.last.Cycle.Failed, a.last.Cycle.Skipped
		}
		a.mu.Unlock()
		out = append(out, hop)
	}
	return out
}

func (r *runner) finish() {
	r.res.Hops = r.hops()
	s := &r.res.Summary
	s.Probes = int(r.sent)
	s.Lost = s.Probes - r.arrived
	s.AgeP50, s.AgeP99 = percentile(r.ages.all, 0.50), percentile(r.ages.all, 0.99)
	for i := range s.Kinds {
		k := &s.Kinds[i]
		k.AgeP50, k.AgeP99 = percentile(r.ages.kind[k.Kind], 0.50), percentile(r.ages.kind[k.Kind], 0.99)
	}
}

// listKinds are the kinds of hops on the path.
func (r *runner) listKinds() {
	for i, h := range r.path.hops {
		if k := r.kind(i); !slices.ContainsFunc(r.kinds, func(s KindSummary) bool { return s.Kind == k }) {
			r.kinds = append(r.kinds, KindSummary{Kind: k, IntervalNS: h.device.Interval.Nanoseconds()})
		}
	}
}
