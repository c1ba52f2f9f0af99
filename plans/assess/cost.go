package assess

import (
	"fmt"
	"slices"
	"time"

	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// TableCost is what csig's rules take of a device's table.
type TableCost struct {
	Match    string  `json:"match"` // what an entry can match: "range", "ternary", …
	Form     string  `json:"form"`  // how the entries are laid out; "" where none fits
	Ports    int     `json:"ports"` // that are updated
	PerPort  int     `json:"entries_per_port"`
	Entries  int     `json:"entries"`            // of all ports, between changes
	Headroom int     `json:"headroom"`           // further entries of one port while it changes
	Capacity int     `json:"capacity"`           // entries there is room for; 0: no limit is known
	Taken    int     `json:"capacity_taken"`     // of them, by other applications
	Shared   bool    `json:"capacity_is_shared"` // by all ports; else it is of each port
	OpsMean  float64 `json:"ops_mean"`           // operations for each signal when its bucket moves by one; 0: not known
	OpsMax   int     `json:"ops_max"`
	Why      string  `json:"why"`
}

// SignalAge is how old the signal is that csig's rules write.
type SignalAge struct {
	Source     string `json:"source"`      // of the counters
	Refresh    string `json:"refresh"`     // how the device refreshes them: "live", "timer", …; "unknown"
	Measured   bool   `json:"measured"`    // by reading them just now
	RefreshNS  int64  `json:"refresh_ns"`  // from refresh to refresh; 0: live, or not known
	ReadNS     int64  `json:"read_ns"`     // how long a reading takes; 0: not measured
	ScheduleNS int64  `json:"schedule_ns"` // from reading to reading
	IntervalNS int64  `json:"interval_ns"` // Δt as configured; 0: the device has its own
	ShortestNS int64  `json:"shortest_ns"` // the shortest honest Δt; 0: not known

	// The end of the window that S tells of is at most so long ago, on a device
	// that keeps its schedule; a load that changes is all in S after SettlesNS.
	// 0: not known.
	AgeNS     int64  `json:"age_ns"`
	SettlesNS int64  `json:"settles_ns"`
	Note      string `json:"note"`
}

// tableOps is what vlanrules.Costs says of a table.
type tableOps struct {
	form vlanrules.Form
	ops  vlanrules.Spread
	ok   bool
}

// table judges the rules of every port of a device, and adds them up.
func (a *assessor) table(d *assessed) *TableCost {
	caps := d.seen.Facts.Rules
	updates := setupPorts(d.dev)
	if caps.Shared {
		caps.Ports = max(caps.Ports, updates)
	}
	c := &TableCost{Match: caps.Match.String(), Ports: updates, Capacity: caps.Entries, Taken: caps.Taken, Shared: caps.Shared}
	compiler := vlanrules.NewCompiler(caps, a.fleet.Profile.Layout, plans.Starts(&a.fleet.Profile)...)
	d.ports = make([]plans.Level, len(d.dev.Ports))
	var form vlanrules.Form
	intents := make([]vlanrules.Intent, 0, len(a.signals))
	for i := range d.dev.Ports {
		p := &d.dev.Ports[i]
		d.ports[i] = d.level
		if p.Action != vlanrules.Update {
			continue
		}
		intents = intents[:0]
		for _, sig := range a.signals {
			if sig.Counted() {
				intents = append(intents, vlanrules.Intent{Signal: sig, Action: vlanrules.Update, LM: p.LM[sig]})
			}
		}
		v, choice := compiler.Judge(intents)
		switch v.Level {
		case vlanrules.Refused:
			d.ports[i] = a.below(d, v.Reason)
			a.find(findings.RulesRefused, findings.Error, d.dev.Name, []string{p.Name}, "csig cannot keep its rules: %s", v.Reason)
		case vlanrules.Degraded:
			d.ports[i].Reason = v.Reason
		}
		if choice == nil {
			continue
		}
		entries, headroom, copies := choice.Entries, choice.Headroom, max(1, caps.Positions)
		if l := d.seen.Facts.Layout; l != nil {
			entries, headroom = l.Entries*len(intents), l.Headroom*len(intents)
		}
		c.Form, c.Why = choice.Form.String(), choice.Why
		c.PerPort = max(c.PerPort, entries*copies)
		c.Headroom = max(c.Headroom, headroom*copies)
		c.Entries += entries * copies
		form = choice.Form
	}
	if l := d.seen.Facts.Layout; l != nil && c.Form != "" {
		copies := max(1, caps.Positions)
		c.OpsMean, c.OpsMax = l.OpsMean*float64(copies), l.OpsMax*copies
	} else if t := a.ops(caps); c.Form != "" && t.ok && t.form == form {
		c.OpsMean, c.OpsMax = t.ops.Mean, t.ops.Max
	}
	return c
}

// ops counts the operations of a bucket that moves by one, once for each kind
// of table.
func (a *assessor) ops(caps vlanrules.Caps) tableOps {
	if caps.Entries > 0 { // one port's share is what counts: more devices are alike
		room := max(0, caps.Entries-caps.Taken)
		if caps.Shared && caps.Ports > 1 {
			room /= caps.Ports
		}
		if room == 0 {
			return tableOps{} // no entry of it is a port's
		}
		caps.Entries, caps.Taken = room, 0
	}
	caps.Ports, caps.Shared = 0, false
	key := fmt.Sprintf("%v", caps)
	t, ok := a.costs[key]
	if ok {
		return t
	}
	cost, v := vlanrules.Costs(caps, a.fleet.Profile.Layout)
	if v.Level != vlanrules.Refused {
		i := slices.IndexFunc(cost.Changes, func(c vlanrules.ChangeCost) bool { return c.Step == 1 })
		t = tableOps{form: cost.Choice.Form, ops: cost.Changes[i].Walk, ok: true}
	}
	a.costs[key] = t
	return t
}

// age works out how old a device's signal is.
func (a *assessor) age(d *assessed) *SignalAge {
	c := &d.seen.Counters
	s := &SignalAge{
		Source: c.Source, Refresh: "unknown", Measured: c.Readings > 0, ReadNS: c.Read.Nanoseconds(),
		IntervalNS: d.dev.Interval.Nanoseconds(), Note: c.Note,
	}
	if d.seen.Facts.Native {
		s.Source, s.Refresh, s.Measured, s.ReadNS = "its data plane", "each interval", false, 0
		if own := &d.seen.Facts.Interval; own.Level != vlanrules.Full {
			s.IntervalNS = 0
			s.note(own.Reason)
			return s
		}
		s.AgeNS, s.SettlesNS = s.IntervalNS, 2*s.IntervalNS
		return s
	}
	interval, measured := d.dev.Interval, d.seen.Measured(d.dev)
	period, known := d.dev.Counters.Refresh, d.dev.Counters.Refresh > 0
	if known {
		s.Refresh = "as the fleet file says"
	}
	switch {
	case c.Readings > 0 && c.Kind == "live":
		s.Refresh, period, known = c.Kind, 0, true
	case c.Readings > 0 && c.Period > 0:
		s.Refresh, period, known = c.Kind, c.Period, true
	case c.Readings > 0 && !known:
		s.Refresh = c.Kind
		s.note("too few readings, or no traffic, to tell how often they are refreshed: csig counters read --count 100")
	case !known && measured != nil && measured.CounterRefresh != nil:
		s.Refresh, period, known = vendors.RanOn(measured).String(), *measured.CounterRefresh, true
	case !known && c.Source == "ovs":
		s.Refresh, known = "assumed live", true
		s.note("taken for live: Open vSwitch asks its devices at each reading")
	case !known && c.Source == "linux":
		s.Refresh, known = "assumed live", true
		s.note("taken for live, as what the kernel counts itself is; the drivers of some cards fetch their counters once a second: csig assess on the device measures it")
	case !known:
		s.note("how often the device refreshes its counters was not measured: csig counters read")
	}
	s.RefreshNS = period.Nanoseconds()
	s.ScheduleNS = d.dev.Period().Nanoseconds()
	if !known {
		return s
	}
	update := d.seen.Facts.Traits.MinUpdate.Is
	s.ShortestNS = max(period, c.Read, update, inventory.MinPeriod).Nanoseconds()
	s.AgeNS = s.ScheduleNS + s.RefreshNS + s.ReadNS
	s.SettlesNS = s.AgeNS + max(interval, time.Duration(s.ShortestNS)).Nanoseconds()
	if v := d.seen.Facts.TooFast(d.dev); v.Level == vlanrules.Refused {
		a.find(findings.ScheduleTooFast, findings.Error, d.dev.Name, nil, "%s", v.Reason)
	} else if v.Level == vlanrules.Degraded {
		a.find(findings.ScheduleTooFast, findings.Warning, d.dev.Name, nil, "%s", v.Reason)
	} else if interval < time.Duration(s.ShortestNS) {
		a.find(findings.IntervalTooShort, findings.Warning, d.dev.Name, nil, "Δt is %v, but its counters have news only every %v: make its interval at least that", interval, time.Duration(s.ShortestNS).Round(time.Millisecond))
	}
	return s
}

func (s *SignalAge) note(text string) {
	if s.Note != "" {
		s.Note += "; "
	}
	s.Note += text
}
