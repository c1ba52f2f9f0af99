package qualify

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/counters"
)

// chatty counts a frame at each reading, as of a port that sends by itself.
type chatty struct {
	counters.Source
	n uint64
}

func (c *chatty) Read(context.Context, []counters.Sample) ([]counters.Sample, error) {
	c.n++
	return []counters.Sample{{Port: "p2", Packets: c.n}}, nil
}

// TestCountersNeverStill: an experiment does not wait for ever for counters of a port that
// sends by itself.
func TestCountersNeverStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := cabled(t)
		b.Patience, b.Counters = 5*time.Millisecond, &chatty{}
		r := reading{t: &Trial{Bench: b}}
		if _, err := r.settled(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "the switch sends by itself") {
			t.Error(err)
		}
	})
}

// lagging is a counter that is refreshed so often; 0: never.
type lagging struct {
	counters.Source
	every time.Duration
	began time.Time
}

func (s *lagging) Read(context.Context, []counters.Sample) ([]counters.Sample, error) {
	n := uint64(0)
	if s.every > 0 {
		n = uint64(time.Since(s.began) / s.every)
	}
	return []counters.Sample{{Port: "p2", Packets: n}}, nil
}

// TestCountersStuck: counters that do not change under traffic are a fault, and no reason not
// to test them.
func TestCountersStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := cabled(t)
		b.Patience, b.Counters = 20*time.Millisecond, &lagging{}
		list := slices.DeleteFunc(Rules(), func(e Experiment) bool { return e.ID != "counters" })
		r, err := Run(t.Context(), b, options(t, list...))
		if err != nil {
			t.Fatal(err)
		}
		if res := r.Result("counters"); res.Outcome != Fail || !res.Has("counters-stuck") {
			t.Errorf("%s: %s %v", res.Outcome, res.Found, res.Faults)
		}
	})
}

// TestCountersSlow: two refreshes in all of the time that they are given are a period, too.
func TestCountersSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := cabled(t)
		b.Patience, b.Profile.Interval = 100*time.Millisecond, 100*time.Millisecond
		b.Start(1)
		b.Counters = &lagging{every: 1200 * time.Millisecond, began: time.Now()}
		r := reading{t: &Trial{Bench: b}}
		if stuck, err := r.age(t.Context()); err != nil || stuck || r.period < time.Second || !r.t.Has("counters-stale") {
			t.Errorf("every %v, %v, %v, %v", r.period, stuck, err, r.t.Faults)
		}
	})
}

// prompt counts each frame at once; one reading comes late.
type prompt struct {
	counters.Source
	b     *Bench
	reads int
}

func (p *prompt) Read(context.Context, []counters.Sample) ([]counters.Sample, error) {
	if p.reads++; p.reads == 4 {
		<-time.After(400 * time.Millisecond)
	}
	return []counters.Sample{{Port: "p2", Packets: p.b.last()}}, nil
}

// TestCountersReadLate: a bench that is late makes no counter stale.
func TestCountersReadLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := cabled(t)
		b.Patience, b.Profile.Interval = time.Second, 100*time.Millisecond
		b.Start(1)
		b.Counters = &prompt{b: b}
		r := reading{t: &Trial{Bench: b}}
		if stuck, err := r.age(t.Context()); err != nil || stuck || len(r.t.Faults) > 0 || r.period > 300*time.Millisecond {
			t.Errorf("every %v, %v, %v, %v", r.period, stuck, err, r.t.Faults)
		}
	})
}
