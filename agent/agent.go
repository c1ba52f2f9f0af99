// Package agent is csig's daemon: it polls a device's byte counters, estimates
// the available bandwidth of each egress port, quantizes it and keeps the
// device's match/action rules true (draft-00 §6.4).
//
// The loop is level-based: every cycle states what the rules should be, and
// the driver changes what differs, so that a failed cycle, a restart or a
// hand-made change is repaired by the next one.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// setupRetry is how long a failed setup rests before it is tried again; the
// signal continues in between.
const setupRetry = time.Second

// Agent keeps one device's rules true.
type Agent struct {
	cfg      Config
	hash     string
	schedule cron.Schedule
	phase    time.Duration // of the cycles after the instants that the fleet file has
	setup    vendors.Setup
	log      *logrus.Entry
	started  time.Time
	turns    *progress     // of the schedule
	cycled   chan struct{} // has something in it when a cycle has ended
	probed   bool          // facts are known already
	examined *examination  // what the daemon has just read of the device; nil: Start reads it
	dropped  bool          // the record before did not fit into the file's queue
	holds    bool          // the start found its setup in place: the self-test waits

	// Only the cycle touches these.
	pipe     *counters.Pipeline
	samples  []counters.Sample
	measured []vendors.Measurement // of a device that measures by itself
	updates  []vendors.PortUpdate
	setupDue time.Time // when to apply the setup (again); zero: it holds
	refusals bool      // some port is marked as refused
	reloaded bool      // no cycle has ended since a reload

	reloads atomic.Bool // a reload waits for the end of a cycle

	driverMu sync.Mutex    // held while the driver is used, once the cycles run
	waiters  atomic.Int32  // how many wait for it
	writes   atomic.Uint64 // beginnings and ends of writes to the device: odd during one

	mu         sync.Mutex // guards what Status reads
	cancelLook func()     // ends a late look that is under way; nil: there is none
	facts      vendors.Facts
	tried      api.Verdict // the self-test

	setupError string             // why the setup does not hold; "" where it does
	cutOff     bool               // it was the device's connection, and no port
	would      []findings.Finding // what a real run would refuse, in shadow mode
	ports      []port
	cycle      cycleState
	pacing     pacing
	dead       deadMan
}

// cycleState is the bookkeeping behind api.Cycle.
type cycleState struct {
	api.Cycle
	pollToRule  latency
	updateTimes updateTimes
	entries     int // of the table, as the last update counted them

	lease     time.Duration
	lastLease time.Duration // the lease, as the device has it
	ended     time.Time     // of the last cycle, completed or failed; before the first, when the loop began
	readAt    time.Time     // of the last reading that was computed with
	patience  time.Duration // how long it says something: the lease of its cycle
	seen      observation   // of the data plane
	stuck     string        // without a lease: why ports could not be made to fall back
	refresh   counters.RefreshStatus
	repairs   repairs
	overran   bool   // ticks were skipped while the cycle runs that runs now
	armed     bool   // that cycle armed the dead-man
	advised   uint64 // of Skipped, when a longer schedule was advised
}

// New checks the configuration and returns an agent that has not touched the
// device yet.
func New(cfg Config) (*Agent, error) {
	a := &Agent{
		cfg:     cfg,
		hash:    cfg.Profile.Hash(),
		log:     cfg.Log.WithField("device", cfg.Device.Name),
		started: time.Now(),
		turns:   newProgress(),
		cycle:   cycleState{repairs: repairs{}},
		cycled:  make(chan struct{}, 1),
		tried:   api.Verdict{Code: findings.SelfTest, What: selfTest, Level: api.SelfTestNotRun},
	}
	// What the source caches, and for how long, is learned from its readings;
	// one that counts on the box passes through as it is.
	how, err := PipelineConfig(&cfg.Profile, &cfg.Policy, &cfg.Device)
	if err == nil {
		a.schedule, a.phase, err = scheduleOf(&cfg.Device, cfg.Beside)
	}
	if err == nil {
		// Two readings of the schedule make a window, unless the first came late.
		how.Least = min(how.Interval, a.between(a.schedule.Next(time.Now()))) / 2
		a.pipe, err = counters.NewPipeline(how)
	}
	if err != nil {
		return nil, fmt.Errorf("device %s: %w", cfg.Device.Name, err)
	}
	a.setup = vendors.SetupOf(&cfg.Profile, cfg.Policy, &cfg.Device)
	pack := new([]byte)
	for i, p := range cfg.Device.Ports {
		a.ports = append(a.ports, newPort(a.pipe, i, newRecords(len(cfg.Device.Ports), pack), &a.cfg.Profile, p))
	}
	a.keepRecords()
	return a, nil
}

// Run samples on the schedule until ctx ends. Cycles never overlap: a tick at
// which the one before still runs is skipped and counted. When it returns the
// lease has been given up, so that the data plane has already fallen back.
func (a *Agent) Run(ctx context.Context) error {
	a.loop(ctx)
	return a.release()
}

// loop is Run without its end.
func (a *Agent) loop(ctx context.Context) {
	a.mu.Lock()
	a.cycle.ended = time.Now()
	a.mu.Unlock()
	var beside sync.WaitGroup
	defer beside.Wait()
	if a.holds {
		a.holds = false
		after := a.leaseDuration()
		beside.Go(func() { a.tryLater(ctx, after) })
	}
	beside.Go(func() {
		ticks := time.NewTicker(clockWatch)
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
				a.checkExpired(ctx)
			}
		}
	})
	a.keepSchedule(ctx)
}

// afterCycle waits for the end of a cycle that is to come, but not for long: the lease has longest to
// run then. It returns that lease.
func (a *Agent) afterCycle(ctx context.Context) (lease time.Duration) {
	select { // one that has ended already
	case <-a.cycled:
	default:
	}
	a.mu.Lock()
	limit := time.NewTimer(max(a.cycle.lease, vendors.MinLease) / 3)
	a.mu.Unlock()
	defer limit.Stop()
	select {
	case <-a.cycled:
	case <-limit.C:
	case <-ctx.Done():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cycle.lease
}

// Cycle reads the counters once and programs what they say. The error has
// been logged and counted; the lease is renewed only when there is none.
func (a *Agent) Cycle(ctx context.Context) error {
	began := time.Now()
	err := a.runCycle(ctx)
	if err != nil {
		a.failed(ctx, a.schedule.Next(began))
	}
	select {
	case a.cycled <- struct{}{}:
	default:
	}
	if a.cfg.OnCycle != nil {
		a.cfg.OnCycle()
	}
	return err
}

func (a *Agent) runCycle(ctx context.Context) error {
	if a.cfg.Off != nil {
		// An agent that hung while csig off bypassed it must not restore its rules.
		if err := a.cfg.Off(); err != nil {
			return a.fail(err)
		}
	}
	if !a.setupDue.IsZero() && !time.Now().Before(a.setupDue) && a.mayWrite() {
		a.noteSetup(a.apply(ctx)) // the ports that work go on
	}
	proof := a.dead.took == 0
	var withDeadMan bool
	var deadManErr error
	if proof { // it needs no counters
		withDeadMan, deadManErr = a.deadManReady(ctx, a.leaseDuration())
	}
	t0 := time.Now()
	var err error
	a.samples, err = a.cfg.Source.Read(ctx, a.samples[:0])
	t1 := time.Now()
	if err != nil && a.unaided() && ctx.Err() == nil {
		a.samples = a.samples[:0]
		for i := range a.ports {
			a.samples = append(a.samples, counters.Sample{Port: a.ports[i].cfg.Name, At: t1, Err: err})
		}
		err = nil
	}
	if err != nil {
		return a.fail(fmt.Errorf("reading counters: %w", err))
	}
	a.pipe.Observe(a.samples)
	if err := a.measure(ctx); err != nil {
		return a.fail(err)
	}
	lease := a.leaseDuration()
	if err := tooOld(t1.Sub(t0), lease); err != nil {
		return a.fail(err)
	}
	ready, writes := a.compute(a.samples, lease, t1), false
	t2 := time.Now()
	if ready {
		if !proof {
			withDeadMan, deadManErr = a.deadManReady(ctx, lease)
		}
		ready, err = withDeadMan, deadManErr
		if err == nil && ready {
			writes, err = a.pace(time.Now())
		}
		if err != nil {
			return a.fail(err)
		}
	}
	var res vendors.UpdateResult
	if ready {
		// Nothing is programmed before the first complete window: an agent
		// that takes over must not renew what its predecessor advertised.
		if writes {
			res, err = a.update(ctx, lease, t0)
		}
		if err != nil && !res.Leased {
			a.noteFailedUpdate(&res)
			return a.fail(fmt.Errorf("programming: %w", err))
		}
		if err := a.renewDeadMan(ctx, lease, t0); err != nil {
			return a.fail(err)
		}
	}
	t3 := time.Now()

	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cycle.LastError != "" {
		a.log.Info("cycles complete again")
	}
	seen := a.cycle.seen // before this cycle
	a.cycle.LastError, a.cycle.stuck = "", ""
	a.cycle.Count++
	a.cycle.Last, a.cycle.ended, a.cycle.lease = t3, t3, lease
	a.reloaded = false
	a.cycle.ReadNS, a.cycle.ComputeNS, a.cycle.ProgramNS = int64(t1.Sub(t0)), int64(t2.Sub(t1)), int64(t3.Sub(t2))
	a.cycle.Operations += uint64(res.Ops)
	if writes {
		a.cycle.entries = res.Entries
		a.cycle.pollToRule.note(t3.Sub(t0))
	}
	a.noteRepairs(&res, t3)
	a.cycle.refresh = a.pipe.Refresh()
	if ready {
		if writes { // a device that takes an update has what it says
			a.cycle.seen = observation{at: t3, tried: t3}
		}
		if !a.cfg.Shadow {
			a.cycle.lastLease = cmp.Or(res.Lease, lease)
			a.noteRenewal(t2, t3, a.cycle.lastLease, seen.plane != "" || res.Repaired != nil, seen.fallback)
		}
		a.noteRefusals(err)
		if writes {
			a.noteReadBack(&res, seen.plane != "")
		}
		var changes stateChanges
		for i := range a.ports {
			p := &a.ports[i]
			if p.held {
				continue
			}
			p.commit(t3)
			if p.refused == "" && p.unread == "" {
				changes.add(p)
			}
		}
		changes.log(a.log)
	}
	a.rememberLocked(&cycleRecord{at: t3, lease: a.cycle.LeaseEnds, read: t1.Sub(t0), program: t3.Sub(t2), ops: uint32(res.Ops), ready: ready, wrote: writes, repair: res.Repaired.String()})
	return nil
}

// lockDriver waits for the driver, and cancels a late look that holds it.
func (a *Agent) lockDriver() (release func()) {
	a.waiters.Add(1)
	defer a.waiters.Add(-1)
	a.mu.Lock()
	if a.cancelLook != nil {
		a.cancelLook()
	}
	a.mu.Unlock()
	a.driverMu.Lock()
	return a.driverMu.Unlock
}

// noteWriting counts the beginning of a write to the device, and ended its end.
func (a *Agent) noteWriting() (ended func()) {
	a.writes.Add(1)
	return func() { a.writes.Add(1) }
}

func (a *Agent) apply(ctx context.Context) error {
	defer a.lockDriver()() // a driver may panic
	defer a.wrote()
	defer a.noteWriting()()
	return a.cfg.Driver.Apply(ctx, a.setup)
}

func (a *Agent) update(ctx context.Context, lease time.Duration, read time.Time) (vendors.UpdateResult, error) {
	defer a.lockDriver()()
	if err := tooOld(time.Since(read), lease); err != nil { // a driver may not make way
		return vendors.UpdateResult{}, err
	}
	defer a.noteWriting()()
	began := time.Now()
	res, err := a.cfg.Driver.Update(ctx, a.updates, lease)
	a.noteUpdateTime(time.Since(began), lease, &res)
	a.noteFacts(res.Facts)
	a.paced(&res, err)
	return res, err
}

// failed is what a failed cycle still does until the next one.
func (a *Agent) failed(ctx context.Context, next time.Time) {
	defer a.lockDriver()()
	a.fallBackOnExpiry(ctx)
	a.checkAfterFailure(ctx, next)
}

// fail counts a failed cycle and logs the first of a series.
func (a *Agent) fail(err error) error {
	err = fmt.Errorf("device %s: %w", a.cfg.Device.Name, err)
	a.mu.Lock()
	defer a.mu.Unlock()
	if errors.Is(err, context.Canceled) {
		return err // we are stopping
	}
	a.cycle.Failed++
	a.cycle.ended = time.Now()
	msg := err.Error()
	a.rememberLocked(&cycleRecord{at: time.Now(), lease: a.cycle.LeaseEnds, failure: msg})
	if foreign := (*vendors.ForeignError)(nil); errors.As(err, &foreign) {
		now := time.Now()
		a.cycle.seen = observation{at: now, tried: now, plane: api.DataPlaneForeign, why: msg, because: msg}
	}
	if msg != a.cycle.LastError {
		what := "cycle failed; the lease is not renewed"
		switch {
		case a.unaided():
			what = "cycle failed; what is on the device stays"
		case a.withoutLeaseLocked():
			what = "cycle failed; nothing is written"
		}
		a.log.WithError(err).Error(what)
		a.cycle.LastError = msg
	}
	return err
}

// compute turns samples into wanted intents, in a.updates, and reports
// whether there is anything to program yet.
func (a *Agent) compute(samples []counters.Sample, lease time.Duration, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cycle.readAt, a.cycle.patience = now, lease
	ready := false
	var changes stateChanges
	for i := range a.ports {
		p := &a.ports[i]
		p.observe(&samples[i], lease, now)
		if a.unaided() {
			p.trustChip()
		}
		if p.state == api.StateWaiting || p.state == api.StateStale || p.state == api.StateDown {
			changes.add(p)
		} // the others are of the data plane, too, and have to be seen there
		ready = ready || p.view.Known
	}
	a.supervise(samples)
	changes.log(a.log)
	a.updates = a.updates[:0]
	for i := range a.ports {
		p := &a.ports[i]
		if p.cfg.Action == vlanrules.Update {
			p.intend(&a.cfg.Profile, a.facts.Native, a.unaided())
			a.updates = append(a.updates, vendors.PortUpdate{Port: p.cfg.Name, Intents: p.intents, Rate: p.view.Now.Capacity})
		}
	}
	return ready || len(a.updates) == 0 || a.unaided()
}

// unaided reports whether the data plane needs nothing that csig computes: it is looked after whatever the counters say,
// and what it writes is not known.
func (a *Agent) unaided() bool { return a.facts.Native && a.facts.Lease.Level == vlanrules.Refused }
