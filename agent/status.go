package agent

import (
	"fmt"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// Status returns what the agent knows now. Safe for concurrent use.
func (a *Agent) Status() *api.Status {
	now := a.cfg.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &api.Status{
		Format:      api.StatusFormat,
		Device:      a.cfg.Device.Name,
		Platform:    a.cfg.Device.Platform,
		Version:     a.cfg.Version,
		Shadow:      a.cfg.Shadow,
		Time:        now,
		Started:     a.started,
		Profile:     a.cfg.Profile.Name,
		ProfileHash: a.hash,
		TPID:        a.cfg.Profile.TPID,
		Layout:      a.cfg.Profile.Layout.String(),
		IntervalNS:  a.cfg.Device.Interval.Nanoseconds(),
		Schedule:    a.cfg.Device.Schedule,
		LeaseNS:     a.cycle.lease.Nanoseconds(),
		OnStale:     string(a.cfg.Policy.OnStale),
		Cycle: api.Cycle{
			Count:      a.cycle.count,
			Skipped:    a.cycle.skipped,
			Failed:     a.cycle.failed,
			Last:       a.cycle.last,
			ReadNS:     a.cycle.read.Nanoseconds(),
			ComputeNS:  a.cycle.compute.Nanoseconds(),
			ProgramNS:  a.cycle.program.Nanoseconds(),
			Operations: a.cycle.operations,
			LeaseEnds:  a.cycle.leaseEnds,
			LastError:  a.cycle.err,
			Repairs:    a.cycle.repairs,
		},
		Refresh: api.Refresh{
			Kind:          a.cycle.refresh.Kind.String(),
			PeriodNS:      a.cycle.refresh.Period.Nanoseconds(),
			PeriodErrorNS: a.cycle.refresh.PeriodError.Nanoseconds(),
			JitterNS:      a.cycle.refresh.Jitter.Nanoseconds(),
			Stuck:         a.cycle.refresh.Stuck,
			Note:          a.cycle.refresh.IntervalNote(a.cfg.Device.Interval),
		},
		Verdicts: a.shortcomingsLocked(),
		Ports:    make([]api.Port, 0, len(a.ports)),
	}
	for i := range a.ports {
		s.Ports = append(s.Ports, a.portStatus(&a.ports[i], now))
	}
	return s
}

func (a *Agent) portStatus(p *port, now time.Time) api.Port {
	out := api.Port{
		Port:        p.cfg.Name,
		Action:      p.cfg.Action.String(),
		State:       p.state,
		Reason:      p.reason,
		CapacityBPS: p.last.Capacity,
		Signals:     []api.Signal{},
	}
	if p.refused != "" {
		out.State, out.Reason = api.StateRefused, p.refused
	}
	if p.window {
		est := &p.last
		if p.cfg.Action == vlanrules.Update && !p.at.IsZero() {
			est = &p.took
		}
		start, end := est.Start, est.End
		out.WindowStart, out.WindowEnd, out.AgeNS = &start, &end, now.Sub(end).Nanoseconds()
		out.LoadBPS, out.ABWBPS, out.ABWCPPM = est.Load(), est.ABW, est.ABWC
		out.WindowErrorNS = est.Error.Nanoseconds()
	}
	for i, in := range p.programmed {
		if in.Action != vlanrules.Update {
			continue
		}
		sp := a.cfg.Profile.Signals[in.Signal]
		low, high := sp.Buckets.Range(in.S)
		out.Signals = append(out.Signals, api.Signal{
			Signal:       in.Signal.String(),
			T:            uint8(in.Signal),
			Bucket:       in.S,
			Low:          low,
			High:         high,
			Unit:         string(in.Signal.Unit()),
			LM:           in.LM,
			Locator:      sp.Locator.Text(a.cfg.Profile.Layout.LMBits(), in.LM),
			Doubtful:     p.doubtful[i],
			Stale:        in.LM == a.cfg.Profile.Layout.LMStale(),
			ProgrammedAt: p.at,
		})
	}
	return out
}

// shortcomings lists what the device, or any agent that polls counters, does
// less than fully.
func (a *Agent) shortcomings() []api.Verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.shortcomingsLocked()
}

func (a *Agent) shortcomingsLocked() []api.Verdict {
	out := []api.Verdict{}
	add := func(what string, v vlanrules.Verdict) {
		if v.Level != vlanrules.Full {
			out = append(out, api.Verdict{What: what, Level: v.Level.String(), Reason: v.Reason})
		}
	}
	add("update", a.facts.Update)
	add("lease", a.facts.Lease)
	for _, p := range a.cfg.Device.Ports {
		if p.Action == vlanrules.Strip {
			add("strip", a.facts.Strip)
			break
		}
	}
	if a.cfg.Profile.WideTPID != 0 {
		add("wide tags", a.facts.Wide)
	}
	for n, v := range a.facts.Depths {
		add(fmt.Sprintf("tags behind %d VLAN tags", n), v)
	}
	for _, sig := range []quantize.Signal{quantize.MaxPD, quantize.MaxNQD} {
		if _, ok := a.cfg.Profile.Signals[sig]; ok {
			add("signal "+sig.String(), vlanrules.Verdict{
				Level:  vlanrules.Refused,
				Reason: "a per-frame signal cannot be read from counters (draft-00 §6.4): its tags pass through untouched",
			})
		}
	}
	return out
}
