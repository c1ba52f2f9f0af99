package vendors

import (
	"fmt"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vlanrules"
)

// ConfigUpdates is what an update of the signal costs where it is a change of the
// device's configuration.
type ConfigUpdates struct {
	Interval Fact[time.Duration] `json:"interval_ns"` // the shortest from the end of one to the start of the next
	Lines    int                 `json:"lines"`       // that the change of one bucket of one port writes to an accounting log, at most
	DeadMan  string              `json:"dead_man"`    // what on the device withdraws the signal unless the agent renews it, e.g. "EEM applet"; "" nothing does

	// Changes is how many buckets an hour the device's agent has changed there; not known
	// where none has run for long enough.
	Changes Fact[float64] `json:"changes_per_hour"`
}

// ConfigInterval is the shortest interval between two updates that are changes of
// configuration: what the driver says, or what was measured of a change where that is longer.
func (f *Facts) ConfigInterval() Fact[time.Duration] {
	if f.ConfigUpdates == nil {
		return Fact[time.Duration]{}
	}
	if m := f.Traits.MinUpdate; m.Is > f.ConfigUpdates.Interval.Is {
		return m
	}
	return f.ConfigUpdates.Interval
}

// LeasePeriods is how many periods of its schedule a device's lease lasts, so that lost
// cycles are forgiven.
const LeasePeriods = 3

// MinLease is the shortest lease: below it a scheduling hiccup of the agent would read as its death.
const MinLease = 300 * time.Millisecond

// TooFast is what an update of a device takes of its schedule's period and lease, with what to
// write: refused where no update could end before its lease, degraded where one takes longer than
// the period.
func (f *Facts) TooFast(d *inventory.Device) vlanrules.Verdict {
	update := f.Traits.MinUpdate.Is
	period := d.Period()
	if period == 0 {
		return vlanrules.Verdict{}
	}
	lease, is := LeasePeriods*period, fmt.Sprintf("%d times its schedule", LeasePeriods)
	if lease < MinLease {
		lease, is = MinLease, "the shortest there is"
	}
	switch {
	case update <= max(period, 2*f.ConfigInterval().Is):
		return vlanrules.Verdict{}
	case update <= max(lease, 2*f.ConfigInterval().Is):
		return vlanrules.Verdict{Level: vlanrules.Degraded, Reason: fmt.Sprintf("it is sampled every %v, but an update of its rules takes %v at least (%s): make its schedule longer, e.g. schedule: \"@every %v\"", period, update.Round(time.Millisecond), f.Traits.MinUpdate.Mark, wholeSeconds(update))}
	}
	waits := ""
	if f.AckWaits > 1 {
		waits = fmt.Sprintf(" with its %d waits for what it acknowledged", f.AckWaits)
	}
	return Refusal(fmt.Sprintf("an update of its rules takes up to %v%s (%s), and a lease lasts %v, %s: it would end first, and the ports would keep their fallback: make its schedule longer, e.g. schedule: \"@every %v\"",
		update.Round(time.Millisecond), waits, f.Traits.MinUpdate.Mark, lease, is, wholeSeconds((update+LeasePeriods-1)/LeasePeriods)))
}

// wholeSeconds is the shortest schedule to propose that is not shorter than d.
func wholeSeconds(d time.Duration) time.Duration {
	return max(time.Second, d+time.Second-1).Truncate(time.Second)
}

// WriteTime is how long the device may take to write so many buckets, at most: the whole
// signal, as when its agent ends. A command line takes about a second for each line.
func (f *Facts) WriteTime(buckets int) time.Duration {
	const most = 75 * time.Second // service managers kill what has not ended after 90 s
	t := 5 * time.Second
	if c := f.ConfigUpdates; c != nil {
		t += time.Duration(buckets*c.Lines+fixedLines) * time.Second
	}
	return min(t, most)
}

// fixedLines of a session are there for whatever it writes: login, modes, read-back.
const fixedLines = 15

// UpdatesRefused is why the fleet file does not allow csig to update a device whose updates
// are changes of configuration, and what to write there; "" where it does.
func (f *Facts) UpdatesRefused(d *inventory.Device) string {
	c := f.ConfigUpdates
	switch {
	case c == nil:
	case d.Updates != inventory.UpdatesCLI:
		return fmt.Sprintf("each update of its signal is a change of its configuration (%s in accounting logs for each bucket), which the fleet file does not allow: allow it (updates: cli on the device, a group or defaults), or let the port pass tags through", lines(float64(c.Lines)))
	case f.Lease.Level == vlanrules.Refused && c.DeadMan == "" && d.Lease != inventory.LeaseNone:
		return fmt.Sprintf("nothing would withdraw the signal when its agent is gone: there is no lease (%s) and no dead-man on the device; accept that its last values stay advertised then (lease: none on the device, a group or defaults), or let the port pass tags through", f.Lease.Reason)
	}
	return ""
}

// UpdatesCost is what the updates of so many buckets of a device (each signal of each port)
// write to accounting logs, as a sentence; "" where they are no changes of configuration.
func (f *Facts) UpdatesCost(buckets int) string {
	c := f.ConfigUpdates
	if c == nil {
		return ""
	}
	every := f.ConfigInterval()
	text := fmt.Sprintf("each update is a change of its configuration, at most one every %v (%s)", every.Is.Round(time.Millisecond), every.Mark)
	if c.Changes.Known() {
		return text + fmt.Sprintf(": about %s an hour in accounting logs, at the rate of bucket changes that was observed (%s)", lines(c.Changes.Is*float64(c.Lines)), c.Changes.From)
	}
	most := float64(buckets*c.Lines) * float64(time.Hour) / float64(max(every.Is, time.Second))
	return text + fmt.Sprintf(": at most %s an hour in accounting logs; no agent has observed the rate of bucket changes for 10 minutes, and it is assumed that all %d change with each update", lines(most), buckets)
}

func lines(n float64) string {
	if n == 1 {
		return "1 line"
	}
	return fmt.Sprintf("%.0f lines", n)
}
