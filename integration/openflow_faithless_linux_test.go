package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	csigagent "github.com/csig-agent/csig/agent"
	"github.com/csig-agent/csig/agent/api"
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
