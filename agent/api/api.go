// Package api is the agent's socket: the types of its answers, a client and a
// server. Over TCP the same is behind TLS with certificates of both ends.
// The protocol is HTTP with JSON over a unix socket; a result is one object
// with a format name, rates are in bit/s, times in RFC 3339.
package api

import (
	"time"

	"github.com/csig-agent/csig/findings"
)

// StatusFormat names the shape of Status.
const StatusFormat = "csig.status/v1"

// Paths of the agent's socket.
const (
	StatusPath = "/v1/status" // GET: one Status
	WatchPath  = "/v1/watch"  // GET: a Status a line, one for each cycle, and one a second while none completes
)

// Status is what the agent knows at one instant.
type Status struct {
	Format      string    `json:"format"`
	Device      string    `json:"device"`
	Platform    string    `json:"platform"`
	Version     string    `json:"version"`
	Shadow      bool      `json:"shadow"` // polls and computes, programs nothing
	Time        time.Time `json:"time"`
	Started     time.Time `json:"started"`
	Profile     string    `json:"profile"`
	ProfileHash string    `json:"profile_hash"`
	TPID        uint16    `json:"tpid"`
	Layout      string    `json:"layout"`
	IntervalNS  int64     `json:"interval_ns"` // averaging window Δt
	Schedule    string    `json:"schedule"`
	PhaseNS     int64     `json:"phase_ns"` // of cycles after the schedule's instants: a controller spreads its devices
	LeaseNS     int64     `json:"lease_ns"` // 0 while none was given, and in shadow mode
	OnStale     string    `json:"on_stale"`
	DataPlane   string    `json:"data_plane"` // what the rules do at Time, by what was last seen of them: a DataPlane constant
	SelfTest    Verdict   `json:"self_test"`  // of the start; level SelfTestNotRun where there was none
	// SetupIncomplete is whether the setup could not be written as a whole: it is tried again.
	SetupIncomplete bool `json:"setup_incomplete"`
	// DataPlaneReason is why DataPlane is not what it should be, "" where it is;
	// DataPlaneSeen is when the device last took an update or was read, absent
	// where neither has happened.
	DataPlaneReason string    `json:"data_plane_reason"`
	DataPlaneSeen   time.Time `json:"data_plane_seen,omitzero"`

	Cycle    Cycle     `json:"cycle"`
	Refresh  Refresh   `json:"refresh"`
	Updates  *Updates  `json:"updates,omitempty"`  // where updates are changes of the device's configuration
	DeadMan  *DeadMan  `json:"dead_man,omitempty"` // where one on the device takes the place of a lease
	Table    *Table    `json:"table,omitempty"`    // where the device's entries are counted, or their number is limited
	Verdicts []Verdict `json:"verdicts"`           // capabilities that are degraded or refused
	Ports    []Port    `json:"ports"`

	Drift  *Drift  `json:"drift,omitempty"`  // absent before the first check, and in shadow mode
	Reload *Reload `json:"reload,omitempty"` // the last of the agent's file while it ran; absent where there was none
	// RecordsError is why records of ports cannot be written to the file of csig agent --records,
	// "" where they can, or none are asked for.
	RecordsError string `json:"records_error"`

	// Waiting is what a daemon that runs no configuration waits for, and why:
	// what follows of a device is then empty. "" when it runs.
	Waiting string `json:"waiting"`
	// Elsewhere is the last status that the owner of the device has published, of a controller
	// that is not the owner; its Elsewhere is nil.
	Elsewhere  *Status `json:"elsewhere,omitempty"`
	ConfigHash string  `json:"config_hash"` // inventory.Fleet.Hash of the configuration that runs, as far as it concerns the device; "" when waiting
}

// ownerLate is how old an owner's status is at least where no owner is left: an owner publishes it
// at most 12 s apart.
const ownerLate = 30 * time.Second

// OwnerSilent returns whether Elsewhere is so old that it does not have what the device does now.
func (s *Status) OwnerSilent() bool {
	return s.Elsewhere != nil && s.Time.Sub(s.Elsewhere.Time) > ownerLate
}

// Drift is what the last check found that is not as it was approved, and that the agent does
// not restore by itself.
type Drift struct {
	Checked     time.Time    `json:"checked,omitzero"` // the last check that could read the device; absent where none could
	Error       string       `json:"error"`            // why the last check could not; "" where it could
	Differences []Difference `json:"differences"`
}

// Difference is one thing in which a device differs from what was approved.
type Difference struct {
	Port string `json:"port"` // "" for the device as a whole
	What string `json:"what"`
}

// String is the difference with its port.
func (d Difference) String() string {
	if d.Port == "" {
		return d.What
	}
	return "port " + d.Port + ": " + d.What
}

// Reload is how an agent put a fleet file in force that a user has changed, or that SIGHUP
// asked it to read again.
type Reload struct {
	Time  time.Time `json:"time"`
	File  string    `json:"file"`
	Error string    `json:"error"` // "" where the file is in force; else what ran before still runs, unless the text says otherwise
}

// What the data plane does.
const (
	DataPlaneNone     = "none"     // this agent has programmed no signal yet, or none that was read back (DataPlaneReason): the fallback, or what a predecessor's lease still holds
	DataPlaneLeased   = "leased"   // the ports' rules apply until Cycle.LeaseEnds
	DataPlaneNative   = "native"   // its chip measures by itself, as it was seen to be set up: nothing is renewed, and what it writes is not known
	DataPlaneFallback = "fallback" // seen without a lease: every port has the OnStale fallback
	DataPlaneFrozen   = "frozen"   // the device does not support leases, and the last value could not be withdrawn: it stays advertised
	DataPlaneForeign  = "foreign"  // our rules are gone, fallback included: foreign ones stand in their place
	DataPlaneAbsent   = "absent"   // nothing of csig is on the device: tags pass untouched
	DataPlaneUnknown  = "unknown"  // the lease has ended, and the device was not looked at since: DataPlaneReason
	DataPlaneShadow   = "shadow"   // nothing is programmed by this agent
)

// SelfTestNotRun is the level of a self-test that was not asked for.
const SelfTestNotRun = "not run"

// Cycle is the bookkeeping of the loop.
type Cycle struct {
	Count      uint64    `json:"count"`   // completed cycles
	Skipped    uint64    `json:"skipped"` // ticks at which the one before still ran
	Failed     uint64    `json:"failed"`
	Last       time.Time `json:"last"`       // end of the last completed cycle
	ReadNS     int64     `json:"read_ns"`    // counter dump
	ComputeNS  int64     `json:"compute_ns"` // estimate, quantize
	ProgramNS  int64     `json:"program_ns"` // compile, diff, program
	Operations uint64    `json:"operations"` // entry operations since the start; 0 in shadow mode
	LastError  string    `json:"last_error"` // "" when the last cycle completed
	Repairs    uint64    `json:"repairs"`    // setups restored after another process changed them
	PollToRule Latency   `json:"-"`          // of cycles that wrote, from the beginning of the reading; for metrics alone
	Hangs      bool      `json:"hangs"`      // no cycle has ended, completed or failed, for longer than three leases

	// WouldOperate counts the operations that shadow mode only logs.
	WouldOperate uint64 `json:"would_operate"`

	// LeaseEnds is when the data plane falls back by itself, or has done so;
	// absent where no lease was given.
	LeaseEnds time.Time `json:"lease_ends,omitzero"`

	// Lapses counts the leases that ended before they were renewed, while the
	// agent ran; LastLapseNS is how long the last one lasted, at most.
	Lapses      uint64 `json:"lapses"`
	LastLapseNS int64  `json:"last_lapse_ns"`
}

// Latency is how long something took, each time since the start.
type Latency struct {
	Count uint64
	Sum   time.Duration
	Most  []Within
}

// Within is how many took so long at most.
type Within struct {
	Limit time.Duration
	Count uint64
}

// Updates is how updates that are changes of configuration are put together: the newest
// value of each port goes with the next one, worse values first.
type Updates struct {
	IntervalNS int64   `json:"interval_ns"`                  // the shortest from one to the next
	AchievedNS int64   `json:"achieved_ns"`                  // what it has been on average; 0 before the second
	Sent       uint64  `json:"sent"`                         // updates that changed something
	Changes    uint64  `json:"changes"`                      // buckets that they changed
	Coalesced  uint64  `json:"coalesced"`                    // values that a newer one replaced before they were sent
	Waiting    int     `json:"waiting"`                      // ports whose newest value waits for its turn
	LinesHour  *uint64 `json:"log_lines_per_hour,omitempty"` // that they write to accounting logs, at the rate of Changes so far; absent in the first minute
}

// Table is the use of the device's table of rules.
type Table struct {
	Entries  int `json:"entries"`  // that the values of all ports take; 0: they are not counted
	Foreign  int `json:"foreign"`  // that other applications take
	Capacity int `json:"capacity"` // of all; 0: it is not limited, or not known, or each port has its own
}

// DeadMan is what on the device makes its ports fall back when the agent is gone.
type DeadMan struct {
	What     string    `json:"what"`
	State    string    `json:"state"`            // a DeadMan constant
	AfterNS  int64     `json:"after_ns"`         // without a renewal it fires; 0: it was not armed yet
	ProvedNS int64     `json:"proved_ns"`        // after so long it was seen to have fired, when it was let; 0: not yet
	Renewed  time.Time `json:"renewed,omitzero"` // by the last cycle that renewed it
	Fired    uint64    `json:"fired"`            // times that a renewal came too late
	Reason   string    `json:"reason"`           // why it failed
}

// What a dead-man does.
const (
	DeadManNone    = "none"    // it is not armed yet
	DeadManProving = "proving" // it is let to fire once; nothing is updated before it has
	DeadManArmed   = "armed"   // it fires unless it is renewed
	DeadManFailed  = "failed"  // it did not fire: nothing is updated
)

// Refresh is what was learned of how the source of counters refreshes them.
type Refresh struct {
	Kind          string `json:"kind"`      // counters.RefreshKind
	PeriodNS      int64  `json:"period_ns"` // from refresh to refresh; 0 while unknown
	PeriodErrorNS int64  `json:"period_error_ns"`
	JitterNS      int64  `json:"jitter_ns"`
	Stuck         bool   `json:"stuck"` // nothing has moved for longer than expected
	Note          string `json:"note"`  // why the configured Δt is not the achieved one; "" where it is
}

// Verdict is one capability that is degraded or refused, with the reason.
type Verdict struct {
	Code   findings.Code `json:"code"`
	What   string        `json:"what"`
	Level  string        `json:"level"`
	Port   string        `json:"port,omitempty"` // "" for the device as a whole
	Reason string        `json:"reason"`
}

// Port states.
const (
	StateWaiting     = "waiting"     // no complete window yet, or its value was not read back yet
	StateLive        = "live"        // the signal is current
	StateDown        = "down"        // link down: no bandwidth is available
	StateStale       = "stale"       // counters do not come, or the lease has ended; the fallback is advertised
	StateRefused     = "refused"     // the device does not take the rules; it advertises its fallback
	StateLost        = "lost"        // our rules are not there, or not as they should be: the reason has what was seen
	StateUnknown     = "unknown"     // see DataPlaneUnknown
	StatePassthrough = "passthrough" // tags are forwarded untouched
	StateStrip       = "strip"       // tags are removed
)

// Port is one egress port.
type Port struct {
	Port        string        `json:"port"`
	Action      string        `json:"action"` // the file's
	State       string        `json:"state"`
	Code        findings.Code `json:"code"`         // of the reason; "" where there is none
	Reason      string        `json:"reason"`       // why not live, or in what way degraded
	CapacityBPS uint64        `json:"capacity_bps"` // C
	LoadBPS     uint64        `json:"load_bps"`     // wire bits over the window
	ABWBPS      uint64        `json:"abw_bps"`
	ABWCPPM     uint32        `json:"abwc_ppm"`
	WindowStart *time.Time    `json:"window_start"` // of these figures; null, and they 0, where nothing current is measured
	WindowEnd   *time.Time    `json:"window_end"`
	AgeNS       int64         `json:"age_ns"` // time since the end of the last complete window, also of one that is no longer current
	// WindowErrorNS bounds the error of the window's length, where the refresh
	// instants of a cached counter were estimated.
	WindowErrorNS int64    `json:"window_error_ns"`
	Changes       uint64   `json:"changes"`    // times that the device took another S or LM, for any signal
	LinkDowns     uint64   `json:"link_downs"` // times that its link went down, as readings saw it
	Signals       []Signal `json:"signals"`
}

// Signal is what one port writes for one signal.
type Signal struct {
	Signal       string    `json:"signal"`
	T            uint8     `json:"t"`
	Bucket       uint8     `json:"bucket"` // S
	Low          uint64    `json:"low"`    // of the bucket, in the signal's unit
	High         uint64    `json:"high"`
	Unit         string    `json:"unit"`
	LM           uint16    `json:"lm"`
	Locator      string    `json:"locator"`
	Computed     *uint8    `json:"computed,omitempty"`     // of a device that measures by itself: the S of its counters, to compare
	Doubtful     bool      `json:"doubtful"`               // the window is too uncertain for one bucket
	Stale        bool      `json:"stale"`                  // the fallback, not a measurement
	ProgrammedAt time.Time `json:"programmed_at,omitzero"` // when the data plane took this value's window; absent for its own fallback and in shadow mode
}
