package agent

import (
	"fmt"
	"slices"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Status returns what the agent knows now. Safe for concurrent use.
func (a *Agent) Status() *api.Status {
	now := time.Now()
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
		PhaseNS:     a.phase.Nanoseconds(),
		OnStale:     string(a.cfg.Policy.OnStale),
		SelfTest:    a.tried,
		Cycle:       a.cycle.Cycle,
		Refresh: api.Refresh{
			Kind:          a.cycle.refresh.Kind.String(),
			PeriodNS:      a.cycle.refresh.Period.Nanoseconds(),
			PeriodErrorNS: a.cycle.refresh.PeriodError.Nanoseconds(),
			JitterNS:      a.cycle.refresh.Jitter.Nanoseconds(),
			Stuck:         a.cycle.refresh.Stuck,
			Note:          a.cycle.refresh.IntervalNote(a.cfg.Device.Interval),
		},
		Updates:  a.pacingStatus(now),
		DeadMan:  a.deadManStatus(),
		Table:    a.tableStatus(),
		Verdicts: a.limitationsLocked(),
		Ports:    make([]api.Port, 0, len(a.ports)),
	}
	s.SetupIncomplete = a.setupError != ""
	s.Cycle.PollToRule = a.cycle.pollToRule.status()
	s.Cycle.Hangs = a.hangsLocked(now)
	s.DataPlane, s.DataPlaneReason = a.dataPlane(now)
	s.DataPlaneSeen = a.cycle.seen.at
	if a.cfg.Shadow {
		s.Cycle.WouldOperate, s.Cycle.Operations = a.cycle.Operations, 0
	} else if a.unaided() {
		s.Cycle.LeaseEnds = time.Time{}
	} else if !a.cycle.LeaseEnds.IsZero() {
		s.LeaseNS = a.cycle.lastLease.Nanoseconds()
	}
	for i := range a.ports {
		s.Ports = append(s.Ports, a.portStatus(&a.ports[i], s, now))
	}
	return s
}

// tableStatus is nil where nothing of the table is known.
func (a *Agent) tableStatus() *api.Table {
	t := api.Table{Entries: a.cycle.entries, Foreign: a.facts.Rules.Taken}
	if a.facts.Rules.Shared {
		t.Capacity = a.facts.Rules.Entries
	}
	if t == (api.Table{}) {
		return nil
	}
	return &t
}

// portStatus is one port as it is now, which may be long after the last cycle.
func (a *Agent) portStatus(p *port, s *api.Status, now time.Time) api.Port {
	plane := s.DataPlane
	out := api.Port{
		Port:    p.cfg.Name,
		Action:  p.cfg.Action.String(),
		Changes: p.taken, LinkDowns: p.downs,
		Signals: []api.Signal{},
	}
	measured := p.current && now.Sub(a.cycle.readAt) <= a.cycle.patience
	out.State, out.Code, out.Reason = a.stateNow(p, s, measured, now)
	if p.view.Known {
		out.AgeNS = now.Sub(p.view.Last.End).Nanoseconds()
	}
	live := plane == api.DataPlaneLeased || plane == api.DataPlaneNative || plane == api.DataPlaneShadow || plane == api.DataPlaneFrozen
	if measured {
		est := &p.view.Last
		if live && p.cfg.Action == vlanrules.Update && !p.since.IsZero() {
			est = &p.took
		}
		start, off := est.Likely()
		end := est.End
		out.CapacityBPS = est.Capacity
		out.WindowStart, out.WindowEnd, out.AgeNS = &start, &end, now.Sub(end).Nanoseconds()
		out.LoadBPS, out.ABWBPS, out.ABWCPPM = est.Load(), est.ABW, est.ABWC
		out.WindowErrorNS = off.Nanoseconds()
	}
	switch {
	case p.cfg.Action != vlanrules.Update || p.refused != "" || out.State == api.StateLost || out.State == api.StateUnknown || p.unread != "":
	case live:
		for i, in := range p.programmed {
			if in.Action == vlanrules.Update {
				sig := a.signal(in.Signal, in.S, in.LM)
				sig.Doubtful = p.doubtful[i]
				if m := &p.supervised.measured; a.facts.Native && m.Live && in.Signal.Counted() {
					own := a.signal(in.Signal, m.S[in.Signal], in.LM)
					own.Computed, sig = &sig.Bucket, own
				}
				if plane == api.DataPlaneLeased || plane == api.DataPlaneFrozen {
					sig.ProgrammedAt = p.since
				}
				out.Signals = append(out.Signals, sig)
			}
		}
	case plane == api.DataPlaneFallback && a.cfg.Policy.OnStale == inventory.Conservative:
		for _, sig := range a.setup.Signals {
			out.Signals = append(out.Signals, a.signal(sig, sig.WorstBucket(), a.cfg.Profile.Layout.LMStale()))
		}
	}
	return out
}

// stateNow is a port's state and the reason for it, with its code. measured reports whether the
// last measurement still holds.
func (a *Agent) stateNow(p *port, s *api.Status, measured bool, now time.Time) (state string, code findings.Code, reason string) {
	c, plane := &a.cycle, s.DataPlane
	because := func(what string) string {
		switch {
		case c.LastError != "":
			return what + ": " + c.LastError
		case c.Last.IsZero():
			return what + ": no cycle has completed yet"
		}
		if until := a.pauseLocked(); now.Before(until) {
			return fmt.Sprintf("%s: the schedule pauses until %s", what, until.Format(time.RFC3339))
		}
		return fmt.Sprintf("%s: the last cycle completed %v ago", what, now.Sub(c.Last).Round(time.Millisecond))
	}
	switch {
	case p.cfg.Action != vlanrules.Passthrough && c.seen.plane != "":
		return api.StateLost, findings.RulesLost, c.seen.why
	case p.cfg.Action != vlanrules.Passthrough && c.seen.ports[p.cfg.Name] != "":
		return api.StateLost, findings.RulesLost, c.seen.ports[p.cfg.Name]
	case p.cfg.Action != vlanrules.Passthrough && c.seen.all != "" && a.unaided():
		return api.StateLost, findings.RulesLost, c.seen.all
	case p.cfg.Action != vlanrules.Passthrough && c.repairs.recur(p.cfg.Name, now) != "":
		return api.StateUnknown, findings.PlaneUnknown, c.repairs.recur(p.cfg.Name, now)
	case p.refused != "":
		return api.StateRefused, findings.NotTaken, p.refused
	case p.cfg.Action != vlanrules.Update:
		return p.state, p.code, p.reason
	case plane == api.DataPlaneUnknown:
		return api.StateUnknown, findings.PlaneUnknown, s.DataPlaneReason
	case plane == api.DataPlaneFrozen:
		return api.StateStale, findings.NoLease, because("this device cannot expire rules: what was written last stays advertised")
	case plane == api.DataPlaneFallback && c.LeaseEnds.IsZero():
		return api.StateStale, findings.NotProgrammed, because("nothing has been programmed yet")
	case plane == api.DataPlaneFallback:
		ended := fmt.Sprintf("the lease ended %v ago", now.Sub(c.LeaseEnds).Round(time.Millisecond))
		if a.withoutLeaseLocked() {
			ended = fmt.Sprintf("nothing was written for %v", now.Sub(c.LeaseEnds.Add(-c.lastLease)).Round(time.Millisecond))
		}
		if why := a.withheld(p); c.LastError == "" && why != "" {
			return api.StateStale, findings.LeaseEnded, ended + ": " + why
		}
		return api.StateStale, findings.LeaseEnded, because(ended)
	case p.unread != "" && p.state != api.StateWaiting:
		return api.StateWaiting, findings.NotProgrammed, p.unread
	case plane == api.DataPlaneNone && (p.state == api.StateLive || p.state == api.StateDown):
		return api.StateWaiting, findings.NotProgrammed, because("nothing has been programmed yet")
	case plane == api.DataPlaneNone && p.state == api.StateStale: // nor does it advertise a fallback that we know of
		return api.StateWaiting, findings.NotProgrammed, "nothing has been programmed yet: " + p.reason
	case (p.state == api.StateLive || p.state == api.StateDown) && !measured && !a.unaided():
		return api.StateStale, findings.NoCurrentReading, because("there is no current reading")
	case p.state == api.StateLive && a.wroteFallback(p):
		return api.StateStale, findings.NotProgrammed, "the fallback was written last, and the update that ends it is under way"
	}
	return p.state, p.code, p.reason
}

// wroteFallback reports whether what the device has of a port is the fallback, which was written while
// nothing was known of it.
func (a *Agent) wroteFallback(p *port) bool {
	return slices.ContainsFunc(p.programmed, func(in vlanrules.Intent) bool {
		return in.Action == vlanrules.Update && in.LM == a.cfg.Profile.Layout.LMStale()
	})
}

// withheld is why a port has no value that could be renewed though cycles complete; where the
// port has no reason of its own, that of the first port that has one.
func (a *Agent) withheld(p *port) string {
	if p.reason != "" {
		return p.reason
	}
	for i := range a.ports {
		o := &a.ports[i]
		if o.cfg.Action == vlanrules.Update && o.reason != "" {
			return "port " + o.cfg.Name + ": " + o.reason
		}
	}
	return ""
}

// signal is a value that a port writes.
func (a *Agent) signal(sig quantize.Signal, s uint8, lm uint16) api.Signal {
	sp := a.cfg.Profile.Signals[sig]
	low, high := sp.Buckets.Range(s)
	return api.Signal{
		Signal:  sig.String(),
		T:       uint8(sig),
		Bucket:  s,
		Low:     low,
		High:    high,
		Unit:    string(sig.Unit()),
		LM:      lm,
		Locator: sp.Locator.Text(a.cfg.Profile.Layout.LMBits(), lm),
		Stale:   lm == a.cfg.Profile.Layout.LMStale(),
	}
}

// limitations lists what the device, or any agent that polls counters, does
// less than fully.
func (a *Agent) limitations() []api.Verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.limitationsLocked()
}

func (a *Agent) limitationsLocked() []api.Verdict {
	out := []api.Verdict{}
	add := func(code findings.Code, what string, v vlanrules.Verdict) {
		if v.Level != vlanrules.Full {
			out = append(out, api.Verdict{Code: code, What: what, Level: v.Level.String(), Reason: v.Reason})
		}
	}
	for _, f := range a.would {
		out = append(out, api.Verdict{Code: f.Code, What: "a real run", Level: vlanrules.Refused.String(), Port: vendors.Names(f.Ports), Reason: f.Reason})
	}
	add(findings.Update, "update", a.facts.Update)
	add(findings.Lease, "lease", a.facts.Lease)
	facts := a.measuredLocked(a.facts)
	add(findings.ScheduleTooFast, "schedule", facts.TooFast(&a.cfg.Device))
	for _, p := range a.cfg.Device.Ports {
		if p.Action == vlanrules.Strip {
			add(findings.Strip, "strip", a.facts.Strip)
			break
		}
	}
	if a.cfg.Profile.WideTPID != 0 {
		add(findings.WideTags, "wide tags", a.facts.Wide)
	}
	for n, v := range a.facts.TagDepths {
		add(findings.TagDepth, fmt.Sprintf("tags behind %d VLAN tags", n), v)
	}
	for _, sig := range quantize.Signals {
		if _, ok := a.cfg.Profile.Signals[sig]; ok && !sig.Counted() && !a.facts.Native {
			add(findings.NotCounted, "signal "+sig.String(), vlanrules.Verdict{
				Level:  vlanrules.Refused,
				Reason: "a per-frame signal cannot be read from counters (draft-00 §6.4): its tags pass through untouched",
			})
		}
	}
	return out
}
