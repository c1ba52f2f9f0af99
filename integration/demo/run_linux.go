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

	"github.com/csig-agent/csig/integration/fabric"
	"github.com/csig-agent/csig/integration/probe"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
)

//go:embed fleet.yaml
var fleetFile []byte

// Options are how to run the demo.
type Options struct {
	Executable string               // the csig binary, for the agents
	Version    string               // for the result
	Duration   time.Duration        // of the measured part
	Interval   time.Duration        // averaging window Δt of the agents
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
)

const (
	probeEvery   = 5 * time.Millisecond // both signals in turns
	probeSize    = 64                   // bytes without FCS
	dwellWindows = 25                   // how many Δt a load step lasts
	settle       = 2                    // how many Δt after a step its samples are counted apart
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
	if o.Interval < MinInterval || o.Interval > MaxInterval {
		return nil, fmt.Errorf("interval %v: want %v to %v", o.Interval, MinInterval, MaxInterval)
	}
	if o.Duration < 4*o.Interval {
		return nil, fmt.Errorf("duration %v is too short for an interval of %v: want at least %v", o.Duration, o.Interval, 4*o.Interval)
	}
	fleet, err := inventory.Parse("demo fleet", fleetFile)
	if err != nil {
		return nil, err
	}
	fleet.Profile.Interval = o.Interval
	for i := range fleet.Devices {
		fleet.Devices[i].Interval, fleet.Devices[i].Schedule = o.Interval, "@every "+o.Interval.String()
	}
	fleet.Policy.Schedule = "@every " + o.Interval.String()
	// In a mount namespace of our own: nothing of it outlives us.
	const dir = "/run"
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700"); err != nil {
		return nil, fmt.Errorf("scratch space: mount a tmpfs on %s: %w", dir, err)
	}
	p, err := buildPath(fleet)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	r := &runner{o: o, fleet: fleet, path: p, dir: dir}
	res, err = r.run(ctx)
	if err != nil && ctx.Err() != nil && !r.measuring {
		return nil, ErrInterrupted // what did not get ready in time does not matter
	}
	return res, err
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
	ages    []float64
	sent    uint64
	arrived int
	pending []received
	last    [len(signals)]*Probe

	measuring bool

	wanted    []uint64    // loads of the step that runs
	stepBegin []time.Time // of each step: just before the load changed
}

// received is a probe that waits for the judge.
type received struct {
	sent, at time.Time
	sig      int
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

	for i, h := range r.path.hops {
		w := &watcher{truth: truth{capacity: h.port.Speed, maxGap: r.o.Interval / minSamples}}
		for j, sig := range signals {
			w.buckets[j] = r.fleet.Profile.Signals[sig].Buckets
		}
		r.watchers = append(r.watchers, w)
		spawn(func(ctx context.Context) error { return w.watch(ctx, h.egress, r.o.Interval) })
		fmt.Fprintf(r.o.Live, "%s starts its agent (%d of %d)\n", h.device.Name, i+1, len(r.path.hops))
	}
	startup, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	defer context.AfterFunc(run, func() { giveUp(context.Cause(run)) })()
	startup, done := context.WithTimeoutCause(startup, 15*time.Second+10*r.o.Interval, errors.New("no measured value in time"))
	defer done()
	for _, a := range r.agents {
		if err := a.ready(startup); err != nil {
			return nil, err
		}
		spawn(a.follow)
	}
	for _, w := range r.watchers {
		if err := poll(startup, w.ready); err != nil {
			return nil, fmt.Errorf("the judge's first windows: %w", err)
		}
	}
	if err := r.measure(ctx, run, spawn); err != nil {
		return nil, err
	}
	cancel(nil)
	wg.Wait()
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
		var b [len(signals)]quantize.Buckets
		for j, sig := range signals {
			b[j] = r.fleet.Profile.Signals[sig].Buckets
		}
		load := midBucket(h.port.Speed, st.util[i], b)
		r.wanted = append(r.wanted, load)
		background[i] = load - probeBPS
		burst = max(burst, drain(h.port.Speed, load, fabric.LoadBurst))
	}
	if err := r.path.setLoads(background); err != nil {
		return err
	}
	r.stepBegin = append(r.stepBegin, begin)
	r.res.Steps = append(r.res.Steps, Step{
		Time: time.Now(), Name: st.name, BurstMS: burst.Seconds() * 1000, LoadsBPS: slices.Clone(r.wanted),
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
		Profile: r.fleet.Profile.Name, Probes: []Probe{},
	}
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
			r.judgePending(time.Now().Add(-r.o.Interval))
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
	grace := time.NewTimer(r.o.Interval + 200*time.Millisecond)
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

// judgePending judges the probes that arrived before an instant.
func (r *runner) judgePending(before time.Time) {
	keep := r.pending[:0]
	for _, rec := range r.pending {
		if rec.at.After(before) {
			keep = append(keep, rec)
			continue
		}
		r.judge(rec)
	}
	r.pending = keep
}

func (r *runner) judge(rec received) {
	r.arrived++
	sig := signals[rec.sig]
	sp := r.fleet.Profile.Signals[sig]
	p := Probe{Time: rec.at, Signal: sig.String(), Settling: r.settling(rec)}
	hopIndex := -2
	if rec.tagged {
		p.S, p.LM = uint8(rec.tag.S), rec.tag.LM
		p.Low, p.High = sp.Buckets.Range(p.S)
		hopIndex = r.locate(sig, p.LM)
	}
	p.Locator = r.hopName(hopIndex, p.LM, sig)

	through := passages(len(r.path.hops), rec.sent, rec.at)
	truths := make([]*truth, len(r.watchers))
	for i, w := range r.watchers {
		w.mu.Lock()
		defer w.mu.Unlock()
		truths[i] = &w.truth
	}
	v := judge(truths, through, rec.sig, r.fleet.Profile.Initial(sig), p.S, hopIndex)
	if p.Unjudged = !v.known; v.known {
		p.Exact = v.exact && rec.tagged
		p.TruthS, p.TruthLocator = v.s, r.hopName(v.hop, 0, sig)
	}
	if end, ok := r.windowEnd(hopIndex, rec.sig, p.S, through); ok {
		age := rec.at.Sub(end).Seconds() * 1000
		p.AgeMS = age
		r.ages = append(r.ages, age)
	}
	r.res.Summary.add(&p, v.locator && rec.tagged)
	r.last[rec.sig] = &p
	if r.o.KeepProbes {
		r.res.Probes = append(r.res.Probes, p)
	}
}

// settling reports whether a probe was on its way within 2 Δt of a load step,
// which lasts from the first change of a rate until its burst is gone.
func (r *runner) settling(rec received) bool {
	for i := len(r.stepBegin) - 1; i >= 0; i-- {
		if !rec.at.Before(r.stepBegin[i]) {
			burst := time.Duration(r.res.Steps[i].BurstMS * float64(time.Millisecond))
			return rec.sent.Before(r.res.Steps[i].Time.Add(burst + settle*r.o.Interval))
		}
	}
	return true
}

// locate returns the hop that a locator names, -1 for "none", -2 for others.
func (r *runner) locate(sig quantize.Signal, lm uint16) int {
	if lm == r.fleet.Profile.Layout.LMNone() {
		return -1
	}
	for i, h := range r.path.hops {
		if h.port.LM[sig] == lm {
			return i
		}
	}
	return -2
}

func (r *runner) hopName(i int, lm uint16, sig quantize.Signal) string {
	switch {
	case i >= 0:
		return r.path.hops[i].name
	case i == -1:
		return "none"
	}
	return r.fleet.Profile.Signals[sig].Locator.Text(r.fleet.Profile.Layout.LMBits(), lm)
}

// windowEnd is the end of the counter window that produced a probe's S: the
// writing hop's, or, where no hop wrote, the oldest of all, because then the
// tag stands for every hop's word that it has no less.
func (r *runner) windowEnd(hopIndex, sig int, s uint8, through []time.Time) (time.Time, bool) {
	if hopIndex >= 0 {
		return r.agents[hopIndex].source(through[hopIndex], sig, int(s))
	}
	var oldest time.Time
	for i, a := range r.agents {
		end, ok := a.source(through[i], sig, -1)
		if !ok {
			return time.Time{}, false
		}
		if oldest.IsZero() || end.Before(oldest) {
			oldest = end
		}
	}
	return oldest, true
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
		w, _ := r.watchers[i].newest()
		hop := Hop{
			Device: h.device.Name, Port: h.port.Name, Locator: h.name, CapacityBPS: h.port.Speed,
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
	s.AgeP50MS, s.AgeP99MS = percentile(r.ages, 0.50), percentile(r.ages, 0.99)
}

// listen opens the probes' two ends: first the receiver, which must not miss
// the first one.
func (r *runner) listen() (l *probe.Listener, err error) {
	rx, tx := r.path.receiver, r.path.sender
	err = tx.Node().Do(func() (err error) {
		r.sender, err = probe.NewSender(probe.SenderConfig{
			Interface: tx.Name, Dst: rx.MAC, Profile: &r.fleet.Profile, Signals: signals[:], Size: probeSize,
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("probe sender: %w", err)
	}
	err = rx.Node().Do(func() (err error) {
		l, err = probe.NewListener(probe.ListenerConfig{Interface: rx.Name, Profile: &r.fleet.Profile, RunID: r.sender.RunID()})
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("probe listener: %w", err), r.sender.Close())
	}
	return l, nil
}

// receive hands on what arrives, and captures it, until ctx ends.
func (r *runner) receive(ctx context.Context, l *probe.Listener, out chan<- received) error {
	var capture *probe.Capture
	if r.o.PCAP != nil {
		var err error
		if capture, err = probe.NewCapture(r.o.PCAP); err != nil {
			return fmt.Errorf("capture: %w", err)
		}
	}
	for {
		f, err := l.Next(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("receiving probes: %w", err)
		}
		if capture != nil {
			if err := capture.Write(f.At, f.Bytes); err != nil {
				return fmt.Errorf("capture: %w", err)
			}
		}
		sig := slices.Index(signals[:], f.Payload.Signal)
		if sig < 0 {
			continue // not one of ours
		}
		select {
		case out <- received{sent: f.Payload.Sent, at: f.At, sig: sig, tagged: f.Tagged, tag: f.Tag}:
		case <-ctx.Done():
			return nil
		}
	}
}
