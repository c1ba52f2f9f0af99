package integration

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	csigagent "github.com/csig-agent/csig/agent"
	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
)

// runUntil runs an agent that was started until its status is as wanted.
func runUntil(t *testing.T, a *csigagent.Agent, met <-chan struct{}, last *api.Status) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		select {
		case <-met:
		case <-ctx.Done():
		}
		cancel()
	}()
	_ = a.Run(ctx) // a switch that carries out nothing has no lease to give up
	select {
	case <-met:
	default:
		t.Fatalf("it came to %s (%s), %+v", last.DataPlane, last.DataPlaneReason, last.Ports)
	}
}

// TestOpenFlowLosesChanges: of a switch that acknowledges every change and carries out none no
// port is live at any time.
func TestOpenFlowLosesChanges(t *testing.T) {
	t.Parallel()
	met, over := make(chan struct{}), false
	var last api.Status
	a, proxy := switchAgent(t, oftest.StartSwitch(t, 2), 2, 500*time.Millisecond, 0, func(a *csigagent.Agent) {
		last = *a.Status()
		for _, p := range last.Ports {
			if p.State == api.StateLive || len(p.Signals) > 0 {
				t.Errorf("cycle %d, %d repairs: %s: %+v", last.Cycle.Count, last.Cycle.Repairs, last.DataPlane, p)
			}
		}
		if !over && last.DataPlane == api.DataPlaneUnknown && last.Cycle.Repairs >= 2 {
			over = true
			close(met)
		}
	})
	proxy.Set(func(f *oftest.Faults) {
		f.Lose = func(m oftest.Message) bool { return m.Type() == oftest.TypeFlowMod }
	})
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	runUntil(t, a, met, &last)
}

// TestLongOpenFlowRepairsAlternate: two ports whose flows another process deletes in turn, each
// when the other's were restored, become unknown; the third one stays live.
func TestLongOpenFlowRepairsAlternate(t *testing.T) {
	t.Parallel()
	sw := oftest.StartSwitch(t, 3)
	met, over, lived, repairs := make(chan struct{}), false, false, uint64(0)
	var last api.Status
	a, _ := switchAgent(t, sw, 3, 500*time.Millisecond, 0, func(a *csigagent.Agent) {
		last = *a.Status()
		p := last.Ports
		lived = lived || p[0].State == api.StateLive && p[1].State == api.StateLive && p[2].State == api.StateLive
		if lived && p[2].State != api.StateLive {
			t.Errorf("cycle %d, %d repairs: the port that was left alone: %+v", last.Cycle.Count, last.Cycle.Repairs, p[2])
		}
		if lived && (repairs == 0 || last.Cycle.Repairs >= repairs) {
			sw.Flow("del-flows", fmt.Sprintf("table=11,metadata=%d/0xfff", 1+last.Cycle.Repairs%2))
			repairs = last.Cycle.Repairs + 1
		}
		if !over && p[0].State == api.StateUnknown && p[1].State == api.StateUnknown {
			over = true
			close(met)
		}
	})
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	runUntil(t, a, met, &last)
}

// TestLongOpenFlowAnswersLate: of a switch whose answers come so late that updates end after their lease
// no port is live while frames leave it with the fallback, and status and assess report why.
func TestLongOpenFlowAnswersLate(t *testing.T) {
	t.Parallel()
	const period, answers = 250 * time.Millisecond, 180 * time.Millisecond // 7 of these, as an update waits for, are more than a lease of a second
	sw := oftest.StartSwitch(t, 3)
	for n := 1; n <= 3; n++ {
		sw.Flow("add-flow", fmt.Sprintf("table=0,priority=10,dl_dst=02:00:00:00:00:%02x,actions=write_metadata:%d/0xfff,goto_table:10", n, n))
	}
	h := newHardware(t, sw, oftest.Options{}, strings.NewReplacer("interval: 200ms", "interval: 250ms", "speed: 50M", "speed: 1M").Replace(openflowText))
	h.traffic()
	a := h.agent("hw1")
	plan := filepath.Join(h.dir, "up.plan")
	h.run(2, "plan", "-i", h.fleet, "-o", plan)
	h.run(0, "apply", plan, "--soak", "50ms")
	a.await("that its port is live", live)
	every(t, period/10, func(int) { // each cycle changes buckets
		if s, err := a.client.Status(t.Context()); err == nil {
			h.setLoad([]int{60, 1400}[s.Cycle.Count%2])
		}
	})
	h.proxy.Set(func(f *oftest.Faults) { f.BarrierDelay = answers })

	tooFast := func(s *api.Status) bool {
		return slices.ContainsFunc(s.Verdicts, func(v api.Verdict) bool { return v.Code == findings.ScheduleTooFast })
	}
	var since time.Time // since when each frame was stale and each status live, in turns
	frames, of := 0, 0
	for began, known := time.Now(), false; !known || frames == 0 || time.Since(began) < 5*time.Second; of++ {
		sent := time.Now()
		stale := fallsBack(h.leaves(2))
		s := a.await("its status", func(*api.Status) bool { return true })
		known = known || tooFast(s)
		if time.Since(began) > patience {
			t.Fatalf("%d of %d frames had the fallback; %+v, %+v", frames, of, s.Verdicts, s.Cycle)
		}
		if stale {
			frames++
		}
		switch {
		case !stale || first(s).State != api.StateLive:
			since = time.Time{}
		case since.IsZero():
			since = sent
		case time.Since(since) > period:
			t.Fatalf("live for %v while every frame had the fallback: %+v, %+v", time.Since(since), first(s), s.Cycle)
		}
	}
	t.Logf("%d of %d frames had the fallback", frames, of)
	var out string
	if !within(patience, func() bool {
		out = strings.Join(strings.Fields(h.run(0, "assess", "-i", h.fleet)), " ")
		return strings.Contains(out, "make its schedule longer")
	}) {
		t.Fatalf("csig assess:\n%s", out)
	}
}
