package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// The loop's own decisions are tested here with a scripted source and a driver
// that only remembers; real counters and rules are in integration.

// script is a source whose one port sends at a rate the test sets.
type script struct {
	last   time.Time
	octets uint64
	rate   uint64 // bit/s
	speed  uint64 // bit/s; 0: 1 Gbit/s
	down   bool
	port   error         // this port cannot be read
	device error         // nothing can be read
	stop   time.Duration // we are stopped for so long behind a reading
	panics atomic.Bool
	block  atomic.Pointer[chan struct{}] // Read waits for it
	reads  atomic.Int64
}

func (s *script) Read(ctx context.Context, dst []counters.Sample) ([]counters.Sample, error) {
	s.reads.Add(1)
	if c := s.block.Load(); c != nil {
		<-*c
	}
	if s.panics.Load() {
		panic("scripted")
	}
	now := time.Now()
	if !s.last.IsZero() {
		s.octets += s.rate / 8 * uint64(now.Sub(s.last)) / uint64(time.Second)
	}
	s.last = now
	defer time.Sleep(s.stop)
	if s.device != nil {
		return nil, s.device
	}
	return append(dst[:0], counters.Sample{Port: "swp1", Octets: s.octets, Speed: cmp.Or(s.speed, 1e9), Up: !s.down, At: now, Bits: 64, Live: true, Err: s.port}), nil
}

func (*script) Close() error { return nil }

// recorder is a driver that remembers what it was told.
type recorder struct {
	applied  []vendors.Setup
	updates  [][]vlanrules.Intent // of swp1
	leases   []time.Duration
	apply    error
	update   error
	portErr  error  // of single ports: the rest is done
	tried    func() // called by each update
	released int
	release  error
	fails    int // how many releases fail with that; 0: all
	removed  int

	facts     vendors.Facts
	have      vendors.Setup
	observe   error
	diff      error
	changes   []vendors.Change // that Diff finds
	remove    error
	takes     time.Duration   // an update
	applies   func()          // called by Apply
	rounded   time.Duration   // what the device makes of a lease; 0: what was asked for
	repaired  vendors.Repairs // what an update had to restore
	before    bool            // an update reads the device before it writes, and not after
	restarted bool
	tested    vlanrules.Verdict
	tests     int
	changed   *vendors.Facts // that the next update tells

	now     *vendors.Setup // what is on the device; nil: have
	written bool           // ports write what an update gave them
	until   time.Time      // and fall back then, where the device has a lease
	blind   error          // it cannot be looked at
	looks   int
	hangs   func() bool // a look takes as long as it may; nil: it does not
}

// errPanic is a blindness that ends in a panic.
var errPanic = errors.New("the driver panics")

// Look is what a device does that obeys: it keeps count of its lease by itself.
func (r *recorder) Look(ctx context.Context) (vendors.DataPlane, error) {
	r.looks++
	if r.hangs != nil && r.hangs() {
		<-ctx.Done()
		return vendors.DataPlane{}, ctx.Err()
	}
	if errors.Is(r.blind, errPanic) {
		panic(r.blind)
	}
	seen := vendors.DataPlane{Setup: r.have, Signal: vendors.SignalFallback}
	if r.now != nil {
		seen.Setup = *r.now
	}
	left, leased := time.Until(r.until), r.facts.Lease.Level != vlanrules.Refused
	if r.written && (!leased || left > 0) {
		seen.Signal = vendors.SignalWritten
		if leased {
			seen.Left = left
		}
	}
	return seen, r.blind
}

// clear is csig off by another process.
func (r *recorder) clear() { r.now, r.written = &vendors.Setup{}, false }

func (r *recorder) Probe(ctx context.Context) (vendors.Facts, error) { return r.facts, ctx.Err() }
func (r *recorder) Observe(context.Context) (vendors.Setup, error) {
	return r.have, r.observe
}
func (r *recorder) Diff(_, _ vendors.Setup) ([]vendors.Change, error) { return r.changes, r.diff }
func (r *recorder) SelfTest(ctx context.Context) (vlanrules.Verdict, error) {
	r.tests++
	return r.tested, ctx.Err()
}
func (r *recorder) Apply(_ context.Context, s vendors.Setup) error {
	r.applied, r.now = append(r.applied, s), &s
	if r.applies != nil {
		r.applies()
	}
	return r.apply
}
func (r *recorder) Update(_ context.Context, u []vendors.PortUpdate, lease time.Duration) (vendors.UpdateResult, error) {
	if r.tried != nil {
		r.tried()
	}
	if r.update != nil {
		return vendors.UpdateResult{Repaired: r.repaired}, r.update
	}
	for _, p := range u {
		r.updates = append(r.updates, append([]vlanrules.Intent(nil), p.Intents...))
	}
	r.leases = append(r.leases, lease)
	r.written, r.until = true, time.Now().Add(max(lease, r.rounded))
	time.Sleep(r.takes)
	changed, readBack := r.changed, vendors.ReadBackAfter
	if r.before {
		readBack = vendors.ReadBackBefore
	}
	r.changed = nil
	return vendors.UpdateResult{Leased: true, Lease: r.rounded, Facts: changed, Repaired: r.repaired, Restarted: r.restarted, ReadBack: readBack}, r.portErr
}
func (r *recorder) Release(context.Context) error {
	r.released++
	if r.fails > 0 && r.released > r.fails {
		r.release = nil
	}
	r.written = r.written && r.release != nil
	return r.release
}
func (r *recorder) Remove(context.Context) error {
	if r.removed++; r.remove == nil {
		r.clear()
	}
	return r.remove
}
func (r *recorder) Close() error { return nil }

func (r *recorder) lastIntents(t *testing.T) []vlanrules.Intent {
	t.Helper()
	if len(r.updates) == 0 {
		t.Fatal("nothing was programmed")
	}
	return r.updates[len(r.updates)-1]
}

const interval = 100 * time.Millisecond

func testConfig(t *testing.T, src *script, drv *recorder) Config {
	t.Helper()
	abw, err := quantize.Preset(quantize.MinABW, "log-1G")
	if err != nil {
		t.Fatal(err)
	}
	abwc, err := quantize.Preset(quantize.MinABWC, "linear")
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	return Config{
		Profile: quantize.Profile{Name: "test", TPID: 0x9900, Interval: interval, Signals: map[quantize.Signal]quantize.SignalProfile{
			quantize.MinABW: {Buckets: abw}, quantize.MinABWC: {Buckets: abwc},
		}},
		Policy: inventory.Policy{OnStale: inventory.Conservative},
		Device: inventory.Device{Name: "s1", Platform: "test", Local: true, Interval: interval, Schedule: "@every 100ms", Ports: []inventory.Port{{
			Name: "swp1", Action: vlanrules.Update, LM: map[quantize.Signal]uint16{quantize.MinABW: 5, quantize.MinABWC: 6},
		}}},
		Source: src, Driver: drv, Log: logrus.NewEntry(log),
	}
}

func newTest(t *testing.T, src *script, drv *recorder) *Agent {
	t.Helper()
	a, err := New(testConfig(t, src, drv))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a
}

// cycles runs n cycles an interval apart.
func cycles(t *testing.T, a *Agent, n int) {
	t.Helper()
	for range n {
		time.Sleep(interval) // the clock of a synctest bubble: no real time passes
		_ = a.Cycle(t.Context())
	}
}

var stale = []vlanrules.Intent{
	{Signal: quantize.MinABW, Action: vlanrules.Update, S: 0, LM: 125},
	{Signal: quantize.MinABWC, Action: vlanrules.Update, S: 0, LM: 125},
}

func TestSignalFollowsLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, drv := &script{}, &recorder{}
		a := newTest(t, src, drv)
		abw := a.cfg.Profile.Signals[quantize.MinABW].Buckets
		abwc := a.cfg.Profile.Signals[quantize.MinABWC].Buckets
		for _, load := range []uint64{0, 400e6, 930e6, 100e6} {
			src.rate = load
			cycles(t, a, 2)
			free := uint64(1e9) - load
			want := []vlanrules.Intent{
				{Signal: quantize.MinABW, Action: vlanrules.Update, S: abw.Bucket(free), LM: 5},
				{Signal: quantize.MinABWC, Action: vlanrules.Update, S: abwc.Bucket(free / 1000), LM: 6},
			}
			if got := drv.lastIntents(t); !reflect.DeepEqual(got, want) {
				t.Errorf("at %d bit/s: programmed %v, want %v", load, got, want)
			}
			p := a.Status().Ports[0]
			if p.State != api.StateLive || p.LoadBPS != load || p.ABWBPS != free {
				t.Errorf("at %d bit/s: status %+v", load, p)
			}
		}
	})
}

func TestNothingIsProgrammedBeforeAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, drv := &script{}, &recorder{}
		a := newTest(t, src, drv)
		cycles(t, a, 1)
		if len(drv.leases) != 0 {
			t.Errorf("the first reading renewed the lease of whatever a predecessor left")
		}
		cycles(t, a, 1)
		if len(drv.leases) != 1 {
			t.Errorf("the first window was not programmed")
		}
	})
}

func TestPortGoesStaleAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, drv := &script{rate: 300e6}, &recorder{}
		a := newTest(t, src, drv)
		cycles(t, a, 3)
		live := drv.lastIntents(t)
		src.port = errors.New("no such port")
		cycles(t, a, 2)
		if got := drv.lastIntents(t); !reflect.DeepEqual(got, live) {
			t.Errorf("after two lost readings: %v, want what was measured last, %v", got, live)
		}
		cycles(t, a, 3)
		if got := drv.lastIntents(t); !reflect.DeepEqual(got, stale) {
			t.Errorf("after five lost readings: %v, want the stale fallback", got)
		}
		st := a.Status()
		if p := st.Ports[0]; p.State != api.StateStale || !p.Signals[0].Stale || p.Signals[0].Locator != "stale" {
			t.Errorf("status does not say stale: %+v", p)
		}
		if st.Cycle.Failed != 0 {
			t.Errorf("one port's error counts as %d failed cycles", st.Cycle.Failed)
		}
		src.port = nil
		cycles(t, a, 2)
		if got := drv.lastIntents(t); !reflect.DeepEqual(got, live) {
			t.Errorf("after recovery: %v, want %v", got, live)
		}
	})
}

// TestOutageIsNotAveraged stops the agent in several places for longer than its
// lease, while the load changes: what was sent meanwhile says nothing about the
// last Δt, so the port stays stale until there is a window that does.
func TestOutageIsNotAveraged(t *testing.T) {
	const outage = 87 * interval
	for _, tc := range []struct {
		name   string
		outage func(*testing.T, *Agent, *script, *recorder)
		stale  int // cycles that program the fallback afterwards
	}{
		{"stopped between two cycles", func(*testing.T, *Agent, *script, *recorder) { time.Sleep(outage) }, 1},
		{"stopped behind a reading", func(t *testing.T, a *Agent, src *script, drv *recorder) {
			src.stop = outage
			updates := len(drv.updates)
			cycles(t, a, 1)
			src.stop = 0
			if len(drv.updates) != updates || a.Status().Cycle.Failed != 1 {
				t.Error("a reading older than the lease renewed the lease")
			}
		}, 1},
		{"stopped while programming", func(t *testing.T, a *Agent, _ *script, drv *recorder) {
			drv.takes = outage
			cycles(t, a, 1)
			drv.takes = 0
		}, 1},
		{"nothing was read", func(t *testing.T, a *Agent, src *script, _ *recorder) {
			src.device = errors.New("no answer")
			cycles(t, a, 87)
			src.device = nil
		}, 1},
		{"the port could not be read", func(t *testing.T, a *Agent, src *script, _ *recorder) {
			src.port = errors.New("no answer")
			cycles(t, a, 87)
			src.port = nil
		}, 1},
		{"two cycles were lost", func(*testing.T, *Agent, *script, *recorder) { time.Sleep(vendors.MinLease - interval) }, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src, drv := &script{rate: 900e6}, &recorder{}
				a := newTest(t, src, drv)
				cycles(t, a, 3)
				busy := drv.lastIntents(t)
				src.rate = 100e6
				tc.outage(t, a, src, drv)
				for range tc.stale {
					cycles(t, a, 1)
					if got := drv.lastIntents(t); !reflect.DeepEqual(got, stale) {
						t.Errorf("after the outage: %v, want the fallback", got)
					}
					if p := a.Status().Ports[0]; p.State != api.StateStale || p.WindowEnd != nil {
						t.Errorf("after the outage: %+v, want a stale port without figures", p)
					}
				}
				src.rate = 900e6
				cycles(t, a, 2)
				if p := a.Status().Ports[0]; p.State != api.StateLive || p.LoadBPS != 900e6 {
					t.Errorf("two cycles later: %+v, want the load of the last Δt", p)
				}
				if got := drv.lastIntents(t); !reflect.DeepEqual(got, busy) {
					t.Errorf("two cycles later: %v, want %v", got, busy)
				}
			})
		})
	}
}

func TestLinkDownIsNoBandwidth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, drv := &script{rate: 300e6}, &recorder{}
		a := newTest(t, src, drv)
		cycles(t, a, 3)
		src.down = true
		cycles(t, a, 1)
		for _, in := range drv.lastIntents(t) {
			if in.S != 0 || in.LM == 125 {
				t.Errorf("link down: %v, want bucket 0 with the port's own locator", in)
			}
		}
		if s := a.Status().Ports[0].State; s != api.StateDown {
			t.Errorf("state %q, want down", s)
		}
		src.down = false
		cycles(t, a, 3)
		src.down = true
		cycles(t, a, 2)
		if n := a.Status().Ports[0].LinkDowns; n != 2 {
			t.Errorf("the link went down %d times, want 2", n)
		}
	})
}

func TestLeaseIsRenewedOnlyByCompletedCycles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, drv := &script{}, &recorder{}
		a := newTest(t, src, drv)
		cycles(t, a, 3)
		renewed := len(drv.leases)
		src.device = errors.New("no answer")
		cycles(t, a, 3)
		if len(drv.leases) != renewed {
			t.Errorf("the lease was renewed without a reading")
		}
		st := a.Status()
		if st.Cycle.Failed != 3 || st.Cycle.LastError == "" {
			t.Errorf("cycle %+v, want 3 failed and the reason", st.Cycle)
		}
		src.device, drv.update = nil, errors.New("table full")
		cycles(t, a, 1)
		if st := a.Status(); st.Cycle.Failed != 4 {
			t.Errorf("a failed update counts %d failures, want 4", st.Cycle.Failed)
		}
		drv.update = nil
		cycles(t, a, 1)
		if st := a.Status(); st.Cycle.LastError != "" || len(drv.leases) != renewed+1 {
			t.Errorf("after recovery: %+v, %d renewals", st.Cycle, len(drv.leases)-renewed)
		}
		for _, l := range drv.leases {
			if l != vendors.MinLease {
				t.Errorf("lease %v, want %v = 3 schedules of 100 ms", l, vendors.MinLease)
			}
		}
	})
}

func TestOneRefusedPortDoesNotFailTheCycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, drv := &script{}, &recorder{}
		a := newTest(t, src, drv)
		drv.portErr = errors.Join(fmt.Errorf("update: %w", &vendors.PermanentError{Port: "swp1", Err: errors.New("locator is VID 4095")}))
		cycles(t, a, 3)
		st := a.Status()
		p := st.Ports[0]
		if st.Cycle.Failed != 0 || p.State != api.StateRefused || p.Reason != "locator is VID 4095" || len(p.Signals) != 0 {
			t.Errorf("cycle %+v, port %+v, want a complete cycle and a refused port", st.Cycle, p)
		}
		drv.portErr = nil
		cycles(t, a, 1)
		if p := a.Status().Ports[0]; p.State != api.StateLive || len(p.Signals) != 2 {
			t.Errorf("after recovery: %+v", p)
		}
	})
}

func TestSetupIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, drv := &script{}, &recorder{apply: errors.New("interface swp1: no such interface")}
		a := newTest(t, src, drv)
		cycles(t, a, 5)
		if n := len(drv.applied); n != 1 {
			t.Errorf("setup tried %d times in half a second, want 1", n)
		}
		drv.apply = nil
		cycles(t, a, 20)
		if n := len(drv.applied); n != 2 {
			t.Errorf("setup tried %d times, want a second time and then no more", n)
		}
	})
}

// run starts Run and returns a function that stops it and returns its error.
func run(t *testing.T, a *Agent) func() error {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	return func() error { cancel(); return <-done }
}

func TestRunFollowsTheSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, drv := &script{}, &recorder{}
		a := newTest(t, src, drv)
		stop := run(t, a)
		time.Sleep(time.Second + interval/2)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if n := src.reads.Load(); n != 10 {
			t.Errorf("%d readings in a second at 100 ms, want 10", n)
		}
		if drv.released != 1 {
			t.Errorf("the lease was given up %d times, want once", drv.released)
		}
	})
}

// TestReleaseTriesAgain: without a lease, the last values are not left for an error
// that passes: no cycle comes afterwards.
func TestReleaseTriesAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		err      error
		released int
		written  bool
	}{
		"passes":    {errors.New("the session of before was ended"), 2, false},
		"permanent": {&vendors.PermanentError{Err: errors.New("another csig writes here")}, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				drv := &recorder{release: tc.err, fails: 1, facts: vendors.Facts{Lease: vlanrules.Verdict{Level: vlanrules.Refused}}}
				stop := run(t, newTest(t, &script{}, drv))
				time.Sleep(5*interval + interval/2) // five cycles, of synctest's time
				if err := stop(); (err != nil) != tc.written || drv.released != tc.released || drv.written != tc.written {
					t.Errorf("%v, released %d times, written %t", err, drv.released, drv.written)
				}
			})
		})
	}
}

func TestPanicEndsOneCycleOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, drv := &script{}, &recorder{}
		a := newTest(t, src, drv)
		stop := run(t, a)
		src.panics.Store(true)
		time.Sleep(3*interval + interval/2)
		src.panics.Store(false)
		reads := src.reads.Load()
		time.Sleep(5 * interval)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if n := src.reads.Load() - reads; n != 5 {
			t.Errorf("%d readings in half a second after a panic, want 5", n)
		}
		if st := a.Status(); st.Cycle.Failed != 3 {
			t.Errorf("3 panics count as %d failed cycles", st.Cycle.Failed)
		}
	})
}

func TestCyclesDoNotOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, drv, block := &script{}, &recorder{}, make(chan struct{})
		src.block.Store(&block)
		a := newTest(t, src, drv)
		stop := run(t, a)
		time.Sleep(5*interval + interval/2)
		if n := src.reads.Load(); n != 1 {
			t.Errorf("%d readings at once, want 1", n)
		}
		close(block)
		time.Sleep(interval)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if st := a.Status(); st.Cycle.Skipped != 4 {
			t.Errorf("%d ticks skipped, want 4", st.Cycle.Skipped)
		}
	})
}
