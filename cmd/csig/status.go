package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/vlanrules"
)

func newStatus() *cobra.Command {
	var (
		socket        string
		asJSON, watch bool
		check         bool
		rows          int
	)
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the live ports of the agent on this machine",
		Long: `Show what the agent on this machine knows and has programmed: for each egress
port its capacity, load and available bandwidth in bit/s, what it writes for
each signal as bucket(locator), and the age of the measurement. Without
--socket it asks the agent that programs or, where there is none, one that runs
with --dry-run. Ports that are not live come first. With --watch on a terminal
as many are shown as fit.

--check prints one line for a monitoring system, and its exit code is what
monitoring plugins use: 0 all ports are live or do what the file asks for, 1
warning (a link is down, a port waits for its first window, the agent waits or
runs with --dry-run, a change of its file was refused), 2 critical (no agent
answers, rules are refused, lost or stale, cycles fail), 3 unknown (the answer
could not be read, or the command line is wrong).`,
		Example: `  csig status
  csig status --watch
  csig status --check
  csig status --json | jq '.ports[] | {port, abw_bps, age_ns}'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if rows < 0 {
				return usageError(cmd, "--rows %d: want 0 or more", rows)
			}
			c := api.NewClient(socket)
			defer c.Close()
			out := cmd.OutOrStdout()
			if check {
				return checkStatus(cmd, c, asJSON)
			}
			screen := newScreen(out)
			show := func(s *api.Status, silent time.Duration) error {
				switch {
				case asJSON && silent > 0:
					_, err := fmt.Fprintln(cmd.ErrOrStderr(), "csig: "+silenceText(s, silent))
					return err
				case asJSON:
					return printJSON(out, s)
				}
				note := ""
				if silent > 0 {
					note = wrap(silenceText(s, silent), screen.columns(), 2) + "Its last answer:\n\n"
				}
				text := note + statusText(s, screen.columns(), rows)
				if _, height, ok := screen.size(); ok && watch && !cmd.Flags().Changed("rows") {
					text = fitStatus(s, text, silent, screen.columns(), height-1)
				}
				return screen.draw(text, watch)
			}
			err := watchOrAsk(cmd, c, watch, show)
			if errors.Is(err, api.ErrNoAgent) && !cmd.Flags().Changed("socket") {
				// No agent that programs: perhaps one that only looks.
				shadow := api.NewClient(api.DefaultShadowSocket())
				defer shadow.Close()
				if e := watchOrAsk(cmd, shadow, watch, show); !errors.Is(e, api.ErrNoAgent) {
					return e
				}
			}
			return err
		},
	}
	addSocket(cmd, &socket)
	addJSON(cmd, &asJSON)
	cmd.Flags().BoolVar(&watch, "watch", false, "show the status again after each cycle, until interrupted")
	cmd.Flags().BoolVar(&check, "check", false, "print one line, and exit with 0, 1, 2 or 3 as monitoring plugins do")
	cmd.Flags().IntVar(&rows, "rows", 0, "how many ports to show, those that are not live first; 0 for all (default with --watch on a terminal: as many as fit)")
	cmd.MarkFlagsMutuallyExclusive("check", "watch")
	cmd.MarkFlagsMutuallyExclusive("check", "rows")
	cmd.MarkFlagsMutuallyExclusive("json", "rows")
	return cmd
}

func addSocket(cmd *cobra.Command, v *string) {
	cmd.Flags().StringVar(v, "socket", api.DefaultSocket(), "the agent's unix socket")
}

// statusText is one status as text of at most so many columns, the table's rows aside; of
// the table so many rows, 0 for all.
func statusText(s *api.Status, columns, rows int) string {
	var b strings.Builder
	line := func(indent int, format string, args ...any) {
		b.WriteString(wrap(fmt.Sprintf(format, args...), columns, indent))
	}
	if s.Waiting != "" {
		line(2, "WAITING %s", s.Waiting)
		line(2, "version %s, since %s", s.Version, s.Started.Format("2006-01-02 15:04:05"))
		reloadText(line, s.Reload)
		recordsText(line, s.RecordsError)
		if s.Elsewhere != nil {
			b.WriteByte('\n')
			line(2, "The owner's status, %v ago:", max(0, s.Time.Sub(s.Elsewhere.Time)).Round(time.Second))
			b.WriteByte('\n')
			b.WriteString(statusText(s.Elsewhere, columns, rows))
		}
		return b.String()
	}
	line(2, "%s  %s  profile %s %.12s  TPID 0x%04x %s", s.Device, s.Platform, s.Profile, s.ProfileHash, s.TPID, s.Layout)
	phase := ""
	if s.PhaseNS > 0 {
		phase = fmt.Sprintf(" +%v", time.Duration(s.PhaseNS).Round(time.Millisecond/10))
	}
	line(2, "Δt %v  schedule %s%s  cycles %d (%d skipped, %d failed)", time.Duration(s.IntervalNS), s.Schedule, phase, s.Cycle.Count, s.Cycle.Skipped, s.Cycle.Failed)
	line(2, "read %v  compute %v  program %v", micros(s.Cycle.ReadNS), micros(s.Cycle.ComputeNS), micros(s.Cycle.ProgramNS))
	line(2, "%s", planeText(s))
	reloadText(line, s.Reload)
	recordsText(line, s.RecordsError)
	driftText(line, s.Drift)
	if s.Cycle.Lapses > 0 {
		line(2, "expired leases: %d (not renewed in time), the last for %v", s.Cycle.Lapses, time.Duration(s.Cycle.LastLapseNS).Round(time.Millisecond))
	}
	if s.Cycle.Repairs > 0 {
		line(2, "repairs: %d (rules changed by another process or lost, and restored)", s.Cycle.Repairs)
	}
	if u := s.Updates; u != nil {
		achieved := ""
		if u.AchievedNS > 0 {
			achieved = fmt.Sprintf(", every %v so far", time.Duration(u.AchievedNS).Round(time.Second))
		}
		lines := "lines in accounting logs are known after a minute"
		if u.LinesHour != nil {
			lines = fmt.Sprintf("about %d lines an hour in accounting logs", *u.LinesHour)
		}
		line(2, "updates: changes of configuration, coalesced, at most one every %v%s: %d sent with %d buckets, %d values replaced before they were sent, %s waiting; %s",
			time.Duration(u.IntervalNS), achieved, u.Sent, u.Changes, u.Coalesced, ports(u.Waiting), lines)
	}
	if s.SelfTest.Reason == "" {
		line(2, "self-test: %s", s.SelfTest.Level)
	} else {
		line(2, "self-test: %s: %s", s.SelfTest.Level, s.SelfTest.Reason)
	}
	if s.Cycle.LastError != "" {
		line(2, "last error: %s", s.Cycle.LastError)
	}
	for _, v := range s.Verdicts {
		where := ""
		if v.Port != "" {
			where = "port " + v.Port + ": "
		}
		line(2, "%s: %s: %s%s", v.Level, v.What, where, v.Reason)
	}
	b.WriteByte('\n')
	if summary := portSummary(s.Ports); summary != "" {
		line(2, "%s", summary)
	}
	table, left := portTable(s.Ports, false, rows)
	b.WriteString(strings.Join(table, "\n") + "\n")
	if left > 0 {
		line(2, "and %s more (--rows 0 shows all)", ports(left))
	}
	for i, n := range portNotes(s.Ports) {
		if i == 0 {
			b.WriteByte('\n')
		}
		line(2, "%s", n)
	}
	return b.String()
}

// recordsText has why csig why has no file now.
func recordsText(line func(indent int, format string, args ...any), err string) {
	if err != "" {
		line(4, "RECORDS are not written to their file: %s", err)
	}
}

// reloadText has a file that the agent could not put in force.
func reloadText(line func(indent int, format string, args ...any), r *api.Reload) {
	if r == nil || r.Error == "" {
		return
	}
	for i, text := range strings.Split(r.Error, "\n") {
		if i == 0 {
			text = fmt.Sprintf("NOT RELOADED at %s: %s", r.Time.Format("2006-01-02 15:04:05"), text)
		} else {
			text = "  " + text
		}
		line(4, "%s", text)
	}
}

// mostDrift is how many differences are shown.
const mostDrift = 10

// driftText has what the last check found that is not as it was approved.
func driftText(line func(indent int, format string, args ...any), d *api.Drift) {
	if d == nil {
		return
	}
	if d.Error != "" {
		line(2, "drift not checked: %s", d.Error)
	}
	shown, left := atMost(d.Differences, mostDrift)
	for _, f := range shown {
		line(4, "DRIFT %s", f)
	}
	if left > 0 {
		line(4, "DRIFT and %s more (--json has all)", count(left, "difference"))
	}
}

// planeText returns what the data plane does.
func planeText(s *api.Status) string {
	left := s.Cycle.LeaseEnds.Sub(s.Time).Round(time.Millisecond)
	switch s.DataPlane {
	case api.DataPlaneShadow:
		return fmt.Sprintf("SHADOW: nothing is programmed; %d operations would have been sent", s.Cycle.WouldOperate)
	case api.DataPlaneNative:
		return "native: the chip measures by itself, as it is set up, and what it writes is not known here: nothing has to be renewed"
	case api.DataPlaneNone:
		if left > 0 {
			return "lease: confirmed, and not known to be there: " + s.DataPlaneReason
		}
		if d := s.DeadMan; d != nil && d.State != api.DeadManArmed {
			return fmt.Sprintf("no lease: nothing is written before the dead-man on the device (%s) was seen to fire: %s", d.What, d.State)
		}
		if leaseVerdict(s).Level == vlanrules.Refused.String() {
			return "no lease: nothing has been written yet"
		}
		return fmt.Sprintf("lease: none yet; without one ports fall back: %s", s.OnStale)
	case api.DataPlaneAbsent:
		return "lease: NONE: " + s.DataPlaneReason + seenText(s)
	case api.DataPlaneUnknown:
		if left > 0 || s.Cycle.LeaseEnds.IsZero() {
			return "what the data plane does is not known: " + s.DataPlaneReason
		}
		return fmt.Sprintf("lease: ENDED %v ago, and what the data plane does since is not known: %s", -left, s.DataPlaneReason)
	case api.DataPlaneForeign:
		return "lease: NONE: our rules are gone, the fallback with them, and foreign ones are in their place" + seenText(s)
	case api.DataPlaneFrozen:
		return fmt.Sprintf("lease: NONE: this device cannot expire rules, and what was written %v ago stays advertised", -left+time.Duration(s.LeaseNS)) + seenText(s)
	case api.DataPlaneFallback:
		if s.Cycle.LeaseEnds.IsZero() {
			return fmt.Sprintf("lease: none yet; ports are at their fallback: %s", s.OnStale) + seenText(s)
		}
		switch leaseVerdict(s).Level {
		case vlanrules.Refused.String():
			return fmt.Sprintf("no lease: nothing was written for %v, and ports were made to fall back: %s", -left+time.Duration(s.LeaseNS), s.OnStale) + seenText(s)
		case vlanrules.Degraded.String():
			return fmt.Sprintf("lease: ENDED %v ago; the data plane falls back, as the note on the lease below describes: %s", -left, s.OnStale) + seenText(s)
		}
		return fmt.Sprintf("lease: ENDED %v ago; the data plane has fallen back: %s", -left, s.OnStale) + seenText(s)
	}
	if d := s.DeadMan; d != nil && d.State == api.DeadManArmed {
		return fmt.Sprintf("no lease: after %v without a cycle the agent itself makes ports fall back (%s), once the device answers, and when it is gone the device does, %v after the last renewal (%s, seen to fire after %v)",
			time.Duration(s.LeaseNS), s.OnStale, time.Duration(d.AfterNS), d.What, time.Duration(d.ProvedNS).Round(time.Millisecond))
	}
	if leaseVerdict(s).Level == vlanrules.Refused.String() {
		return fmt.Sprintf("no lease: after %v without a cycle the agent itself makes ports fall back (%s), once the device answers; when it is killed they do not fall back", time.Duration(s.LeaseNS), s.OnStale)
	}
	return fmt.Sprintf("lease: %v, ends in %v unless renewed; then %s", time.Duration(s.LeaseNS), left, s.OnStale)
}

// seenText is how long ago the data plane was seen; "" of an agent that does not
// report it.
func seenText(s *api.Status) string {
	if s.DataPlaneSeen.IsZero() {
		return ""
	}
	return fmt.Sprintf(" (seen %v ago)", max(0, s.Time.Sub(s.DataPlaneSeen)).Round(time.Millisecond))
}

// leaseVerdict is how well the device expires what was written; the zero verdict
// where it does so in full.
func leaseVerdict(s *api.Status) api.Verdict {
	for _, v := range s.Verdicts {
		if v.What == "lease" {
			return v
		}
	}
	return api.Verdict{}
}

// portNotes are the ports' reasons, each once with all its ports.
func portNotes(ports []api.Port) []string {
	var list []findings.Finding
	for _, p := range ports {
		if p.Reason != "" {
			list = append(list, findings.Finding{Code: p.Code, Ports: []string{p.Port}, Reason: p.Reason})
		}
	}
	var out []string
	for _, f := range findings.Merge(list) {
		out = append(out, f.String())
	}
	return out
}

func micros(ns int64) time.Duration { return time.Duration(ns).Round(time.Microsecond) }

func ports(n int) string {
	if n == 1 {
		return "1 port"
	}
	return fmt.Sprintf("%d ports", n)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// rate writes a measured rate in bit/s with three significant digits and no
// unit, for a table.
func rate(v uint64) string {
	digits, prefix := scaled(v)
	return digits + prefix
}

// bps writes a measured rate with three significant digits.
func bps(v uint64) string {
	digits, prefix := scaled(v)
	return digits + " " + prefix + "bit/s"
}

func scaled(v uint64) (digits, prefix string) {
	f := float64(v)
	for _, p := range []string{"k", "M", "G", "T"} {
		if f < 999.5 {
			break
		}
		f, prefix = f/1000, p
	}
	return fmt.Sprintf("%.3g", f), prefix
}
