package metrics

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/vlanrules"
)

const deviceLabel = "device"

// adder takes one value of a family, with the values of its labels but the device's.
type adder func(value float64, labels ...string)

// family is one metric.
type family struct {
	name, help string
	kind       dto.MetricType
	labels     []string

	process   func(add adder, p *program)
	device    func(add adder, d *Device) // may add nothing
	histogram func(d *Device) *api.Latency
}

const (
	gauge     = dto.MetricType_GAUGE
	counter   = dto.MetricType_COUNTER
	histogram = dto.MetricType_HISTOGRAM
)

// program is what there is to say of one when it is scraped.
type program struct {
	version string
	reload  *api.Reload
}

var ofDevice = []string{deviceLabel}

// families are all metrics, in the order of docs/operations.md, which describes each. No label has
// text of a device: their values are names of the fleet file and words that csig defines.
var families = slices.Concat(ofProcess, ofAgents, ofLoops, ofSources, ofPlanes, ofPorts)

var ofProcess = []family{
	{name: "csig_build_info", help: "The program: always 1.", kind: gauge, labels: []string{"version", "goversion"},
		process: func(add adder, p *program) { add(1, p.version, runtime.Version()) }},
	// These are called as those of every program in Go that Prometheus scrapes.
	{name: "go_goroutines", help: "Goroutines of the program.", kind: gauge,
		process: func(add adder, _ *program) { add(float64(runtime.NumGoroutine())) }},
	{name: "process_resident_memory_bytes", help: "Memory of the program that is resident; absent where there is no /proc.", kind: gauge,
		process: func(add adder, _ *program) {
			if n, ok := residentMemory(); ok {
				add(n)
			}
		}},
	{name: "process_open_fds", help: "Descriptors that the program has open; absent where there is no /proc.", kind: gauge,
		process: func(add adder, _ *program) {
			if n, ok := openDescriptors(); ok {
				add(n)
			}
		}},
	{name: "csig_reload_failed", help: "Whether the fleet file was not put in force (1) when it last changed or was read again; absent before.", kind: gauge,
		process: func(add adder, p *program) {
			if r := p.reload; r != nil {
				add(truth(r.Error != ""))
			}
		}},
	{name: "csig_reload_timestamp_seconds", help: "When that was, in Unix time.", kind: gauge,
		process: func(add adder, p *program) {
			if r := p.reload; r != nil {
				add(float64(r.Time.UnixMicro()) / 1e6)
			}
		}},
}

var ofAgents = []family{
	number("csig_configured", "Whether a configuration runs (1), or the agent waits for one (0).", gauge, func(d *Device) (float64, bool) {
		return truth(d.runs()), true
	}),
	number("csig_owned", "Whether this controller drives the device (1), or another one, or none (0); absent where controllers do not share devices.", gauge, func(d *Device) (float64, bool) {
		return truth(d.Own), d.Shared
	}),
	{name: "csig_owner_info", help: "The controller that drives the device, as far as this one knows: always 1.", kind: gauge, labels: []string{deviceLabel, "owner"}, device: func(add adder, d *Device) {
		if d.Owner != "" {
			add(1, d.Owner)
		}
	}},
	number("csig_start_time_seconds", "When the agent of the device started, in Unix time.", gauge, func(d *Device) (float64, bool) {
		if d.Status == nil {
			return 0, false
		}
		return instant(d.Status.Started)
	}),
	whenRuns("csig_records_failed", "Whether records of ports cannot be written to the file of csig agent --records; 0 where none are asked for.", gauge, ofDevice, func(add adder, s *api.Status) {
		add(truth(s.RecordsError != ""))
	}),
	whenRuns("csig_device_info", "The device and its configuration: always 1.", gauge, []string{deviceLabel, "platform", "on_stale", "config"}, func(add adder, s *api.Status) {
		add(1, s.Platform, s.OnStale, s.ConfigHash)
	}),
	whenRuns("csig_profile_info", "The profile of the device, which every device of a domain has in common: always 1.", gauge, []string{deviceLabel, "profile", "hash", "tpid", "layout"}, func(add adder, s *api.Status) {
		add(1, s.Profile, s.ProfileHash, fmt.Sprintf("0x%04x", s.TPID), s.Layout)
	}),
	whenRuns("csig_shadow", "Whether the agent programs nothing (csig agent --dry-run).", gauge, ofDevice, func(add adder, s *api.Status) {
		add(truth(s.Shadow))
	}),
	whenRuns("csig_setup_incomplete", "Whether the setup could not be written as a whole, and is tried again.", gauge, ofDevice, func(add adder, s *api.Status) {
		add(truth(s.SetupIncomplete))
	}),
	ofDrift("csig_drift_differences", "In how many things the device differed at the last check from what was approved, those aside that the agent restores; absent before the first check.", func(d *api.Drift) (float64, bool) {
		return float64(len(d.Differences)), !d.Checked.IsZero()
	}),
	ofDrift("csig_drift_checked_timestamp_seconds", "When the device was last compared with what was approved, in Unix time.", func(d *api.Drift) (float64, bool) {
		return instant(d.Checked)
	}),
	ofDrift("csig_drift_check_failed", "Whether the last check could not read the device.", func(d *api.Drift) (float64, bool) {
		return truth(d.Error != ""), true
	}),
	whenRuns("csig_limitations", "What the device does less than fully, by code of the finding and level.", gauge, []string{deviceLabel, "code", "level"}, func(add adder, s *api.Status) {
		countBy(add, len(s.Verdicts), func(i int) [2]string { return [2]string{string(s.Verdicts[i].Code), s.Verdicts[i].Level} })
		if l := s.SelfTest.Level; l == vlanrules.Degraded.String() || l == vlanrules.Refused.String() {
			add(1, string(findings.SelfTest), l)
		}
	}),
}

var ofLoops = []family{
	whenRuns("csig_interval_seconds", "The configured Δt: the window that a signal is the average of.", gauge, ofDevice, func(add adder, s *api.Status) {
		add(seconds(s.IntervalNS))
	}),
	whenRuns("csig_cycles_total", "Cycles that completed: counters read, buckets computed, rules right.", counter, ofDevice, func(add adder, s *api.Status) {
		add(float64(s.Cycle.Count))
	}),
	whenRuns("csig_cycles_failed_total", "Cycles that failed; their lease is not renewed.", counter, ofDevice, func(add adder, s *api.Status) {
		add(float64(s.Cycle.Failed))
	}),
	whenRuns("csig_cycles_skipped_total", "Ticks of the schedule at which the cycle before still ran.", counter, ofDevice, func(add adder, s *api.Status) {
		add(float64(s.Cycle.Skipped))
	}),
	number("csig_loop_hangs", "Whether no cycle has ended, completed or failed, for longer than three leases, or the agent of the device cannot run.", gauge, func(d *Device) (float64, bool) {
		if d.Status == nil {
			return 1, true
		}
		return truth(d.Status.Cycle.Hangs), d.runs()
	}),
	whenRuns("csig_last_cycle_timestamp_seconds", "When the last cycle completed, in Unix time; absent before the first.", gauge, ofDevice, func(add adder, s *api.Status) {
		if v, ok := instant(s.Cycle.Last); ok {
			add(v)
		}
	}),
	whenRuns("csig_cycle_phase_seconds", "How long each phase of the last completed cycle took.", gauge, []string{deviceLabel, "phase"}, func(add adder, s *api.Status) {
		if s.Cycle.Count > 0 {
			add(seconds(s.Cycle.ReadNS), "read")
			add(seconds(s.Cycle.ComputeNS), "compute")
			add(seconds(s.Cycle.ProgramNS), "program")
		}
	}),
	{name: "csig_poll_to_rule_seconds", help: "From the beginning of a reading until the rules are what it says.", kind: histogram, labels: ofDevice, histogram: func(d *Device) *api.Latency {
		return &d.Status.Cycle.PollToRule
	}},
	whenRuns("csig_rule_operations_total", "Operations on entries that the device was sent; 0 in shadow mode.", counter, ofDevice, func(add adder, s *api.Status) {
		add(float64(s.Cycle.Operations))
	}),
	whenRuns("csig_rule_repairs_total", "Setups restored after another process changed them, or the device lost them.", counter, ofDevice, func(add adder, s *api.Status) {
		add(float64(s.Cycle.Repairs))
	}),
	whenRuns("csig_config_updates_total", "Updates that were changes of the device's configuration; absent where updates are none.", counter, ofDevice, func(add adder, s *api.Status) {
		if s.Updates != nil {
			add(float64(s.Updates.Sent))
		}
	}),
	whenRuns("csig_config_updates_coalesced_total", "Values that a newer one replaced before such an update.", counter, ofDevice, func(add adder, s *api.Status) {
		if s.Updates != nil {
			add(float64(s.Updates.Coalesced))
		}
	}),
	whenRuns("csig_config_updates_waiting", "Ports whose newest value waits for the next such update.", gauge, ofDevice, func(add adder, s *api.Status) {
		if s.Updates != nil {
			add(float64(s.Updates.Waiting))
		}
	}),
}

var ofSources = []family{
	whenRuns("csig_counters_refresh_seconds", "The time between two refreshes of the device's counters, as it was learned; absent while it is not known.", gauge, ofDevice, func(add adder, s *api.Status) {
		if s.Refresh.PeriodNS > 0 {
			add(seconds(s.Refresh.PeriodNS))
		}
	}),
	whenRuns("csig_counters_refresh_error_seconds", "The error of that, at most.", gauge, ofDevice, func(add adder, s *api.Status) {
		if s.Refresh.PeriodNS > 0 {
			add(seconds(s.Refresh.PeriodErrorNS))
		}
	}),
	whenRuns("csig_counters_stuck", "Whether no counter of the device has moved for longer than its refreshes take.", gauge, ofDevice, func(add adder, s *api.Status) {
		add(truth(s.Refresh.Stuck))
	}),
}

// planes are all states of a data plane, states those of a port.
var (
	planes = []string{api.DataPlaneNone, api.DataPlaneLeased, api.DataPlaneNative, api.DataPlaneFallback, api.DataPlaneFrozen, api.DataPlaneForeign, api.DataPlaneAbsent, api.DataPlaneUnknown, api.DataPlaneShadow}
	states = []string{api.StateWaiting, api.StateLive, api.StateDown, api.StateStale, api.StateRefused, api.StateLost, api.StateUnknown, api.StatePassthrough, api.StateStrip}
)

var ofPlanes = []family{
	whenRuns("csig_data_plane", "What the data plane does: 1 for the state that it has, 0 for the others.", gauge, []string{deviceLabel, "state"}, func(add adder, s *api.Status) {
		for _, state := range planes {
			add(truth(s.DataPlane == state), state)
		}
	}),
	whenRuns("csig_table_entries", "Entries of the device's table that the values of all ports take; absent where the driver does not count them.", gauge, ofDevice, func(add adder, s *api.Status) {
		if s.Table != nil && s.Table.Entries > 0 {
			add(float64(s.Table.Entries))
		}
	}),
	whenRuns("csig_table_foreign_entries", "Entries of that table that other applications take; absent where it is not limited.", gauge, ofDevice, func(add adder, s *api.Status) {
		if s.Table != nil && s.Table.Capacity > 0 {
			add(float64(s.Table.Foreign))
		}
	}),
	whenRuns("csig_table_capacity_entries", "Entries that the table has for all ports; absent where it is not limited, or not known.", gauge, ofDevice, func(add adder, s *api.Status) {
		if s.Table != nil && s.Table.Capacity > 0 {
			add(float64(s.Table.Capacity))
		}
	}),
	whenRuns("csig_lease_seconds", "How long rules outlive their last renewal; 0 while there is no lease.", gauge, ofDevice, func(add adder, s *api.Status) {
		add(seconds(s.LeaseNS))
	}),
	whenRuns("csig_lease_lapses_total", "Leases that ended before they were renewed, while the agent ran.", counter, ofDevice, func(add adder, s *api.Status) {
		add(float64(s.Cycle.Lapses))
	}),
	whenRuns("csig_last_lapse_duration_seconds", "How long the last of them lasted, at most; absent where there was none.", gauge, ofDevice, func(add adder, s *api.Status) {
		if s.Cycle.Lapses > 0 {
			add(seconds(s.Cycle.LastLapseNS))
		}
	}),
	whenRuns("csig_dead_man_armed", "Whether what is on the device makes its ports fall back when the agent is gone; absent where leases do.", gauge, ofDevice, func(add adder, s *api.Status) {
		if s.DeadMan != nil {
			add(truth(s.DeadMan.State == api.DeadManArmed))
		}
	}),
	whenRuns("csig_dead_man_fired_total", "Times that its renewal came too late.", counter, ofDevice, func(add adder, s *api.Status) {
		if s.DeadMan != nil {
			add(float64(s.DeadMan.Fired))
		}
	}),
	whenRuns("csig_ports", "Ports in each state.", gauge, []string{deviceLabel, "state"}, func(add adder, s *api.Status) {
		for _, state := range states {
			n := 0
			for i := range s.Ports {
				if s.Ports[i].State == state {
					n++
				}
			}
			add(float64(n), state)
		}
	}),
	whenRuns("csig_port_findings", "Ports that are not as they should be, by code of the finding.", gauge, []string{deviceLabel, "code"}, func(add adder, s *api.Status) {
		countBy(add, len(s.Ports), func(i int) [2]string { return [2]string{string(s.Ports[i].Code)} })
	}),
}

var ofPorts = []family{
	perPort("csig_port_state", "The state of the port, as a label: always 1.", gauge, []string{"state"}, func(add portAdder, p *api.Port) {
		add(1, p.State)
	}),
	perPort("csig_port_capacity_bytes_per_second", "The capacity C; absent, as the next three are, where nothing current is measured.", gauge, nil, measured(func(p *api.Port) float64 {
		return float64(p.CapacityBPS) / 8
	})),
	perPort("csig_port_load_bytes_per_second", "What the port sent on the wire, as the average of its last window.", gauge, nil, measured(func(p *api.Port) float64 {
		return float64(p.LoadBPS) / 8
	})),
	perPort("csig_port_available_bytes_per_second", "The available bandwidth (ABW).", gauge, nil, measured(func(p *api.Port) float64 {
		return float64(p.ABWBPS) / 8
	})),
	perPort("csig_port_window_seconds", "The achieved Δt: the length of that window.", gauge, nil, measured(func(p *api.Port) float64 {
		return p.WindowEnd.Sub(*p.WindowStart).Seconds()
	})),
	perPort("csig_port_window_error_seconds", "The error of its length, at most.", gauge, nil, measured(func(p *api.Port) float64 {
		return seconds(p.WindowErrorNS)
	})),
	perPort("csig_port_signal_age_seconds", "The time since the end of the last complete window, also of one that is no longer current; absent before the first.", gauge, nil, func(add portAdder, p *api.Port) {
		if p.AgeNS > 0 || p.WindowEnd != nil {
			add(seconds(p.AgeNS))
		}
	}),
	perPort("csig_port_bucket_index", "The bucket S that the port writes into tags of the signal; absent where it writes none.", gauge, []string{"signal"}, func(add portAdder, p *api.Port) {
		for i := range p.Signals {
			add(float64(p.Signals[i].Bucket), p.Signals[i].Signal)
		}
	}),
	perPort("csig_port_locator", "The locator LM that it writes with S.", gauge, []string{"signal"}, func(add portAdder, p *api.Port) {
		for i := range p.Signals {
			add(float64(p.Signals[i].LM), p.Signals[i].Signal)
		}
	}),
	perPort("csig_port_doubtful", "Whether the window is too uncertain for one bucket.", gauge, []string{"signal"}, func(add portAdder, p *api.Port) {
		for i := range p.Signals {
			add(truth(p.Signals[i].Doubtful), p.Signals[i].Signal)
		}
	}),
	perPort("csig_port_changes_total", "Times that the device took another S or LM of the port, for any signal.", counter, nil, func(add portAdder, p *api.Port) {
		add(float64(p.Changes))
	}),
	perPort("csig_port_link_downs_total", "Times that the port's link went down, as readings saw it.", counter, nil, func(add portAdder, p *api.Port) {
		add(float64(p.LinkDowns))
	}),
}

// portAdder takes one value of a port, with the values of the labels but the device's and the port's.
type portAdder func(value float64, label ...string)

// perPort is a metric of each port.
func perPort(name, help string, kind dto.MetricType, more []string, each func(add portAdder, p *api.Port)) family {
	labels := append([]string{deviceLabel, "port"}, more...)
	return whenRuns(name, help, kind, labels, func(add adder, s *api.Status) {
		values := make([]string, 1, len(labels))
		for i := range s.Ports {
			values[0] = s.Ports[i].Port
			each(func(v float64, label ...string) { add(v, append(values, label...)...) }, &s.Ports[i])
		}
	})
}

// measured is a value of ports that have a current window.
func measured(value func(p *api.Port) float64) func(add portAdder, p *api.Port) {
	return func(add portAdder, p *api.Port) {
		if p.WindowStart != nil && p.WindowEnd != nil {
			add(value(p))
		}
	}
}

// countBy adds how many of n have each pair of labels, of which the second may be left out.
func countBy(add adder, n int, of func(i int) [2]string) {
	count := map[[2]string]int{}
	for i := range n {
		count[of(i)]++
	}
	for _, key := range slices.SortedFunc(maps.Keys(count), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		switch {
		case key[0] == "":
		case key[1] == "":
			add(float64(count[key]), key[0])
		default:
			add(float64(count[key]), key[0], key[1])
		}
	}
}

// number is a metric with one value a device, if any.
func number(name, help string, kind dto.MetricType, value func(d *Device) (float64, bool)) family {
	return family{name: name, help: help, kind: kind, labels: ofDevice, device: func(add adder, d *Device) {
		if v, ok := value(d); ok {
			add(v)
		}
	}}
}

// ofDrift is a metric of the check for drift.
func ofDrift(name, help string, value func(d *api.Drift) (float64, bool)) family {
	return whenRuns(name, help, gauge, ofDevice, func(add adder, s *api.Status) {
		if s.Drift == nil {
			return
		}
		if v, ok := value(s.Drift); ok {
			add(v)
		}
	})
}

// whenRuns is a metric of a device whose configuration runs.
func whenRuns(name, help string, kind dto.MetricType, labels []string, each func(add adder, s *api.Status)) family {
	return family{name: name, help: help, kind: kind, labels: labels, device: func(add adder, d *Device) {
		if d.runs() {
			each(add, d.Status)
		}
	}}
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// instant is Unix time; an instant that has not come is no value.
func instant(t time.Time) (float64, bool) {
	return float64(t.UnixMicro()) / 1e6, !t.IsZero()
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }
