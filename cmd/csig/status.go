package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/agent/api"
)

func newStatus() *cobra.Command {
	var (
		socket        string
		asJSON, watch bool
	)
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the live ports of the agent on this machine",
		Long: `Show what the agent on this machine knows and has programmed: for each egress
port its capacity, load, available bandwidth, bucket and the signal's age.`,
		Example: `  csig status
  csig status --watch
  csig status --json | jq '.ports[] | {port, abw_bps, age_ns}'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := api.NewClient(socket)
			defer c.Close()
			show := func(s *api.Status) error {
				if asJSON {
					return printJSON(cmd.OutOrStdout(), s)
				}
				return writeStatus(cmd.OutOrStdout(), s)
			}
			if watch {
				err := c.Watch(cmd.Context(), show)
				if cmd.Context().Err() != nil {
					return nil // Ctrl-C is how a watch ends
				}
				return err
			}
			ctx, cancel := contextWithTimeout(cmd, 5*time.Second)
			defer cancel()
			s, err := c.Status(ctx)
			if err != nil {
				return err
			}
			return show(s)
		},
	}
	addSocket(cmd, &socket)
	addJSON(cmd, &asJSON)
	cmd.Flags().BoolVar(&watch, "watch", false, "show the status again after each cycle, until interrupted")
	return cmd
}

func addSocket(cmd *cobra.Command, v *string) {
	cmd.Flags().StringVar(v, "socket", api.DefaultSocket(), "the agent's unix socket")
}

// writeStatus draws one status as text.
func writeStatus(w io.Writer, s *api.Status) error {
	shadow := ""
	if s.Shadow {
		shadow = "  SHADOW: nothing is programmed"
	}
	fmt.Fprintf(w, "%s  %s  profile %s %.12s  TPID 0x%04x %s%s\n", s.Device, s.Platform, s.Profile, s.ProfileHash, s.TPID, s.Layout, shadow)
	fmt.Fprintf(w, "Δt %v  schedule %s  cycles %d (%d skipped, %d failed)  read %v  compute %v  program %v\n",
		time.Duration(s.IntervalNS), s.Schedule, s.Cycle.Count, s.Cycle.Skipped, s.Cycle.Failed,
		micros(s.Cycle.ReadNS), micros(s.Cycle.ComputeNS), micros(s.Cycle.ProgramNS))
	switch left := s.Cycle.LeaseEnds.Sub(s.Time); {
	case s.Shadow:
	case s.Cycle.LeaseEnds.IsZero():
		fmt.Fprintf(w, "lease: none yet; the data plane's fallback is %s\n", s.OnStale)
	case left <= 0:
		fmt.Fprintf(w, "lease: ENDED %v ago; the data plane has fallen back (%s)\n", (-left).Round(time.Millisecond), s.OnStale)
	default:
		fmt.Fprintf(w, "lease: %v, ends in %v unless renewed; then %s\n", time.Duration(s.LeaseNS), left.Round(time.Millisecond), s.OnStale)
	}
	if s.Cycle.LastError != "" {
		fmt.Fprintf(w, "last error: %s\n", s.Cycle.LastError)
	}
	if s.Refresh.Stuck {
		fmt.Fprintln(w, "counters: STUCK: none has moved for longer than expected")
	}
	if s.Refresh.Note != "" {
		fmt.Fprintln(w, "counters:", s.Refresh.Note)
	}
	for _, v := range s.Verdicts {
		fmt.Fprintf(w, "%s: %s: %s\n", v.Level, v.What, v.Reason)
	}
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "PORT\tACTION\tSTATE\tCAPACITY\tLOAD\tABW\tABW/C\tSIGNALS\tAGE\tNOTE")
	for _, p := range s.Ports {
		var sig []string
		for _, g := range p.Signals {
			sig = append(sig, fmt.Sprintf("%s=%d(%s)", g.Signal, g.Bucket, g.Locator))
		}
		capacity, load, abw, abwc, age := "-", "-", "-", "-", "-"
		if p.WindowEnd != nil {
			capacity, load, abw = bps(p.CapacityBPS), bps(p.LoadBPS), bps(p.ABWBPS)
			abwc = fmt.Sprintf("%.1f%%", float64(p.ABWCPPM)/1e4)
			age = time.Duration(p.AgeNS).Round(time.Millisecond).String()
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			p.Port, p.Action, p.State, capacity, load, abw, abwc, orDash(strings.Join(sig, " ")), age, p.Reason)
	}
	return tw.Flush()
}

func micros(ns int64) time.Duration { return time.Duration(ns).Round(time.Microsecond) }

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// bps writes a measured rate with three significant digits.
func bps(v uint64) string {
	f, unit := float64(v), "bit/s"
	for _, u := range []string{"kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"} {
		if f < 1000 {
			break
		}
		f, unit = f/1000, u
	}
	return fmt.Sprintf("%.3g %s", f, unit)
}
