package agent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
)

// The cycles keep the rules true. What else the approved setup consists of (TPIDs, ports,
// strip, the profile's record, MTUs, the device's own configuration of ports) another process
// may change, and no cycle looks at it: on a schedule it is read and compared. A check has a
// connection of its own beside that of the cycles, and writes nothing.

const (
	driftFirst  = time.Minute      // after a configuration began to run
	driftLook   = 10 * time.Second // how often it is looked whether another one runs
	driftSpread = 10 * time.Minute // devices of a fleet are checked spread over this, at most
	driftRest   = time.Second      // what is there at two looks so far apart, at least, is no cycle's to restore
	driftLimit  = 5 * time.Minute  // of a look
	mostDrift   = 100              // differences that are kept
)

// approved is what a device had at the first check of a configuration that no setup has: the
// gate of csig apply has just tried it.
type approved struct {
	mtus   map[string]int
	issues []vendors.PortVerdict
}

// keepDriftChecks checks the configuration that runs on its schedule, until ctx ends.
func (d *Daemon) keepDriftChecks(ctx context.Context) {
	if d.cfg.Shadow {
		return // nothing of its configuration is to be there
	}
	var of *running
	var schedule cron.Schedule
	var due time.Time
	var was *approved
	for {
		now := time.Now()
		if r := d.current(); r != of {
			of, was = r, nil
			if r != nil {
				schedule, due = driftSchedule(r), now.Add(driftFirst)
			}
		}
		wait := driftLook
		switch {
		case of == nil:
		case !now.Before(due):
			d.checkDrift(ctx, of, &was)
			due = schedule.Next(time.Now())
		default:
			wait = min(wait, due.Sub(now))
			if was != nil { // also where the clock was set back
				due = minTime(due, schedule.Next(now))
			}
		}
		if vendors.Wait(ctx, wait) != nil {
			return
		}
	}
}

func minTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// driftSchedule is the schedule of a configuration's checks, later by a part of driftSpread
// that is the device's own.
func driftSchedule(r *running) cron.Schedule {
	s, err := inventory.ParseSchedule(cmp.Or(r.fleet.Policy.DriftCheck, inventory.DefaultDriftCheck))
	if err != nil { // which reading the file has refused
		return inventory.Every(time.Hour)
	}
	name := sha256.Sum256([]byte(r.dev.Name))
	spread := max(min(driftSpread, inventory.LongestGap(s)/2), 1)
	return later{s, time.Duration(binary.BigEndian.Uint64(name[:]) % uint64(spread))}
}

// checkDrift compares the device with the configuration that runs, and says what it found.
func (d *Daemon) checkDrift(ctx context.Context, r *running, was **approved) {
	look := func() ([]api.Difference, error) {
		ctx, cancel := context.WithTimeout(ctx, driftLimit)
		defer cancel()
		return d.differences(ctx, r, was)
	}
	found, err := look()
	if err == nil && len(found) > 0 {
		// A cycle may be about to restore it: where Δt is long, so is the rest, beyond the limit of a look.
		for rest := max(driftRest, 3*r.dev.Interval); rest > 0 && d.current() == r; rest -= driftLook {
			if vendors.Wait(ctx, min(rest, driftLook)) != nil {
				return
			}
		}
		var again []api.Difference
		again, err = look()
		found = slices.DeleteFunc(found, func(f api.Difference) bool { return !slices.Contains(again, f) })
	}
	if ctx.Err() != nil {
		return // it is stopping
	}
	next := &api.Drift{Checked: time.Now(), Differences: found}
	d.mu.Lock()
	if d.run != r { // it is about another configuration by now
		d.mu.Unlock()
		return
	}
	before := d.drift
	if err != nil {
		next.Error, next.Checked, next.Differences = untrusted.Text(err.Error(), 500), time.Time{}, nil
		if before != nil {
			next.Checked, next.Differences = before.Checked, before.Differences
		}
	}
	if next.Differences == nil {
		next.Differences = []api.Difference{}
	}
	d.drift = next
	d.mu.Unlock()
	d.logDrift(r, before, next)
	if d.cfg.OnCycle != nil { // the status has changed
		d.cfg.OnCycle()
	}
}

// logDrift logs what has changed since the check before.
func (d *Daemon) logDrift(r *running, before, now *api.Drift) {
	log := d.cfg.Log.WithField("device", r.dev.Name)
	if before == nil {
		before = &api.Drift{}
	}
	switch {
	case now.Error != "":
		if now.Error != before.Error {
			log.WithField("error", now.Error).Warn("drift not checked: the device could not be compared with its configuration")
		}
	case slices.Equal(now.Differences, before.Differences):
	case len(now.Differences) == 0:
		log.Info("no drift any more: the device is as it was approved")
	default:
		const most = 8
		var texts []string
		for _, f := range now.Differences[:min(most, len(now.Differences))] {
			texts = append(texts, f.String())
		}
		if more := len(now.Differences) - most; more > 0 {
			texts = append(texts, fmt.Sprintf("and %d more", more))
		}
		log.WithField("differences", strings.Join(texts, "; ")).Warn("drift: the device is not as it was approved, and no cycle restores it; csig plan shows the way back")
	}
}

// differences is what a device has that is not as it was approved. The first look of a
// configuration is what is approved of that no setup has.
func (d *Daemon) differences(ctx context.Context, r *running, was **approved) (out []api.Difference, err error) {
	defer untrusted.Recover(&err)
	var now approved
	var changes []vendors.Change
	err = d.open(r.dev, func(driver vendors.Driver) error {
		have, err := d.observe(ctx, driver)
		if err != nil {
			return fmt.Errorf("reading its setup: %w", err)
		}
		if changes, err = driver.Diff(have, r.agent.setup); err != nil {
			return fmt.Errorf("comparing its setup: %w", err)
		}
		facts, err := driver.Probe(ctx)
		if err != nil {
			return fmt.Errorf("probe: %w", err)
		}
		now.issues = facts.PortIssues
		if now.mtus, err = vendors.MTUs(ctx, driver); err != nil {
			return fmt.Errorf("reading its MTUs: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if *was == nil {
		*was = &now
	}
	add := func(port, format string, args ...any) {
		if f := (api.Difference{Port: port, What: untrusted.Text(fmt.Sprintf(format, args...), 300)}); len(out) < mostDrift && !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	for _, c := range changes {
		what := string(c.Kind) + " " + c.What
		if c.Detail != "" {
			what += ": " + c.Detail
		}
		add(c.Port, "%s", what)
	}
	for i := range r.dev.Ports {
		port := r.dev.Ports[i].Name
		if before, after := (*was).mtus[port], now.mtus[port]; after > 0 && after < before {
			add(port, "its MTU is %d, and was %d", after, before)
		}
		for _, issue := range now.issues {
			if issue.Port == port && !slices.Contains((*was).issues, issue) {
				add(port, "%s", issue.Reason)
			}
		}
	}
	return out, nil
}
