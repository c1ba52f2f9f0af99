package main

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/quantize"
)

func newWhy() *cobra.Command {
	var socket, at, file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "why PORT",
		Short: "Show how a port's S came about, now or at an earlier time",
		Long: `Show how a port's S and LM came about, now or at an earlier time: the counters, the
window, the value, its bucket, damping, the operations that wrote it and when the
device had acknowledged them. The agent remembers the last changes of each port, as
many as fit in 1 MiB; cycles that changed nothing are counted in one record.`,
		Example: `  csig why swp7
  csig why swp7 --at 12:00:03
  csig why swp7 --at 2026-11-22T12:00:03Z --json
  csig why swp7 --at 2026-11-22T12:00:03Z --file /var/lib/csig/records`,
		Args: oneArg("PORT"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			c := api.NewClient(socket)
			defer c.Close()
			if s, err := c.Status(cmd.Context()); err == nil && len(args) == 0 {
				for _, p := range s.Ports {
					names = append(names, p.Port)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			when, err := parseAt(at, time.Now())
			if err != nil {
				return usageError(cmd, "%v", err)
			}
			w, err := askWhy(cmd, socket, file, args[0])
			if err != nil {
				return err
			}
			if when.After(time.Now()) {
				return usageError(cmd, "--at %s is yet to come", at)
			}
			i, err := recordAt(w, when)
			if err != nil {
				return err
			}
			if asJSON {
				w.Records = w.Records[i : i+1]
				return printJSON(cmd.OutOrStdout(), w)
			}
			fmt.Fprint(cmd.OutOrStdout(), whyText(w, i, when, newScreen(cmd.OutOrStdout()).columns()))
			return nil
		},
	}
	addSocket(cmd, &socket)
	addJSON(cmd, &asJSON)
	cmd.Flags().StringVar(&file, "file", "", "read what csig agent --records has kept in this file, and not what the agent has in memory")
	cmd.MarkFlagsMutuallyExclusive("socket", "file")
	cmd.Flags().StringVar(&at, "at", "", "when: a time of day (the last one), or one of RFC 3339; now unless given")
	return cmd
}

// askWhy asks the agent, or a file of records.
func askWhy(cmd *cobra.Command, socket, file, port string) (*api.Why, error) {
	if file != "" {
		w, err := api.KeptWhy(file, port)
		if err == nil && len(w.Records) == 0 {
			err = fmt.Errorf("%s has no record of a port %s", file, port)
		}
		return w, err
	}
	w, err := queryWhy(cmd, socket, port)
	if errors.Is(err, api.ErrNoAgent) && !cmd.Flags().Changed("socket") { // as csig status
		if shadow, e := queryWhy(cmd, api.DefaultShadowSocket(), port); !errors.Is(e, api.ErrNoAgent) {
			return shadow, e
		}
	}
	return w, err
}

func queryWhy(cmd *cobra.Command, socket, port string) (*api.Why, error) {
	c := api.NewClient(socket)
	defer c.Close()
	return c.Why(cmd.Context(), port)
}

// parseAt reads a time of day, which is the last one before now, or a whole time; zero is now.
func parseAt(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	for _, layout := range []string{time.TimeOnly, "15:04"} {
		t, err := time.ParseInLocation(layout, text, now.Location())
		if err != nil {
			continue
		}
		day := time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), now.Location())
		if day.After(now) {
			day = day.AddDate(0, 0, -1)
		}
		return day, nil
	}
	return time.Time{}, fmt.Errorf("--at %q: want a time of day such as 12:00:03, or 2026-11-22T12:00:03Z", text)
}

// recordAt is the index of the record that held at a time: the last one that had begun.
func recordAt(w *api.Why, when time.Time) (int, error) {
	last := len(w.Records) - 1
	if last < 0 {
		return 0, fmt.Errorf("port %s: no cycle has ended yet", w.Port)
	}
	if when.IsZero() {
		return last, nil
	}
	for i := last; i >= 0; i-- {
		if !w.Records[i].First.At.After(when) {
			return i, nil
		}
	}
	return 0, fmt.Errorf("port %s at %s: the first record is of %s", w.Port, when.Local().Format(time.DateTime), w.Records[0].First.At.Local().Format(time.DateTime))
}

// around is how many records before and behind the one that is explained are listed.
const around = 4

// longGap is how long no cycle ends until a record does not speak for the time that was asked for.
const longGap = time.Second

// whyText is what a record says about a time, zero for that of the answer.
func whyText(w *api.Why, at int, when time.Time, columns int) string {
	var b strings.Builder
	line := func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		indent := len(text) - len(strings.TrimLeft(text, " "))
		b.WriteString(text[:indent] + wrap(text[indent:], columns-indent, indent+2))
	}
	r := &w.Records[at]
	fmt.Fprintf(&b, "%s of %s, %s\n", w.Port, w.Device, w.Action)
	if w.Shadow {
		b.WriteString("SHADOW: nothing is programmed\n")
	}
	b.WriteByte('\n')
	cycles := "one cycle, at " + clock(w, r.First.At)
	if r.Cycles > 1 {
		cycles = fmt.Sprintf("%d cycles, from %s to %s", r.Cycles, clock(w, r.First.At), clock(w, r.Last.At))
	}
	line("%s: %s", cycles, recordState(r))
	if when.IsZero() {
		when = w.Time
	}
	if when.Sub(r.Last.At) > longGap {
		line("no cycle is recorded between %s and %s, the time that is asked for: the agent waited for its next cycle, hung, or did not run, or its newest record is not in its file yet", clock(w, r.Last.At), clock(w, when))
	}
	for _, s := range r.Signals {
		what := fmt.Sprintf("S %d (%s to %s), LM %d (%s)", s.Bucket, quantity(s.Low, s.Unit), quantity(s.High, s.Unit), s.LM, s.Locator)
		if s.Stale {
			what = fmt.Sprintf("S %d, LM %d: the fallback (on_stale: %s)", s.Bucket, s.LM, w.OnStale)
		}
		line("%s: %s", s.Signal, what)
	}
	if r.Reason != "" { // of a live port it explains no value
		what := "reason"
		if r.State == api.StateLive {
			what = "note"
		}
		line("%s: %s", what, r.Reason)
	}
	if r.Failure != "" {
		line("the cycle failed: %s", r.Failure)
	}
	if r.Refused != "" {
		line("not written: %s", r.Refused)
	}
	b.WriteString("\n")
	moment(line, w, r, &r.First, "First")
	if r.Cycles > 1 {
		moment(line, w, r, &r.Last, "Last")
		if r.MaxABW > 0 {
			line("ABW of these cycles: %s to %s", bps(r.MinABW), bps(r.MaxABW))
		}
	}
	if len(w.Records) > 1 {
		b.WriteString("\n" + recordTable(w, at))
	}
	return b.String()
}

// moment writes what one cycle had.
func moment(line func(string, ...any), w *api.Why, r *api.Record, m *api.Moment, which string) {
	line("%s cycle, which ended at %s:", which, clock(w, m.At))
	if !m.ReadAt.IsZero() {
		line("  counter %d octets at %s, read in %v", m.Octets, clock(w, m.ReadAt), micros(m.ReadNS))
	}
	if window := m.WindowEnd.Sub(m.WindowStart); window > 0 {
		line("  window %v ± %v, up to %s: %d bits of %s", window.Round(time.Microsecond), micros(m.WindowErrNS), clock(w, m.WindowEnd), m.Bits, bps(m.CapacityBPS))
		line("  load %s, ABW %s, ABW/C %s", bps(m.LoadBPS), bps(m.ABWBPS), quantize.PPM.Format(uint64(m.ABWCPPM)))
	} else if m.CapacityBPS == 0 {
		line("  no window: the port's capacity is unknown (estimate: %s)", m.Estimate)
	} else {
		line("  no window (estimate: %s)", m.Estimate)
	}
	for i, s := range r.Signals {
		if i >= len(m.Buckets) || s.Stale {
			continue
		}
		damped := ""
		if m.Buckets[i] != int(s.Bucket) {
			damped = fmt.Sprintf("; damping keeps %d until a better one was seen %d times in a row", s.Bucket, max(w.Hold, 1))
		}
		line("  %s: bucket %d%s", s.Signal, m.Buckets[i], damped)
	}
	switch {
	case w.Shadow:
		line("  %s would have been sent", count(int(m.Operations), "operation"))
	case !r.Written:
		line("  nothing of this port was written")
	case m.Operations == 0:
		line("  0 operations: the rules were as they should be; the device had answered after %v", micros(m.ProgramNS))
	default:
		line("  %d operations on the device, acknowledged after %v", m.Operations, micros(m.ProgramNS))
	}
	if r.Written && !w.Shadow && !m.LeaseEnds.IsZero() {
		line("  the lease lasts until %s", clock(w, m.LeaseEnds))
	}
	if which == "First" && r.Repaired != "" {
		line("  rules had been changed, and were restored: %s", r.Repaired)
	}
}

// recordTable lists the records around one.
func recordTable(w *api.Why, at int) string {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "\tFROM\tTO\tCYCLES\tSTATE\tWRITES\tABW")
	for i := max(0, at-around); i < min(len(w.Records), at+around+1); i++ {
		r := &w.Records[i]
		mark := ""
		if i == at {
			mark = ">"
		}
		writes := make([]string, 0, len(r.Signals))
		for _, s := range r.Signals {
			writes = append(writes, fmt.Sprintf("%s %d(%s)", s.Signal, s.Bucket, s.Locator))
		}
		abw := "-"
		if r.MaxABW > 0 {
			abw = rate(r.MinABW) + ".." + rate(r.MaxABW)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", mark, clock(w, r.First.At), clock(w, r.Last.At), r.Cycles, recordState(r), orDash(strings.Join(writes, " ")), abw)
	}
	_ = tw.Flush()
	return b.String()
}

// recordState is a record's state in a word or two.
func recordState(r *api.Record) string {
	switch {
	case r.Failure != "":
		return r.State + ", failed"
	case r.Refused != "":
		return r.State + ", refused"
	case r.Held:
		return r.State + ", held"
	}
	return r.State
}

// clock is a time to the millisecond, with its date unless that is the day of the answer.
func clock(w *api.Why, t time.Time) string {
	t = t.Local()
	text := t.Format("15:04:05.000")
	if day := t.Format(time.DateOnly); day != w.Time.Local().Format(time.DateOnly) {
		text = day + " " + text
	}
	return text
}

// quantity is a value in a signal's unit.
func quantity(v uint64, unit string) string {
	switch unit {
	case "bit/s":
		return bps(v)
	case string(quantize.PPM):
		return quantize.PPM.Format(v)
	}
	return fmt.Sprintf("%d %s", v, unit)
}
