package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

type demoOptions struct {
	duration, interval time.Duration
	native, mixed      bool
	mesh, flows        bool
	nativeInterval     time.Duration
	json               bool
	pcap, svg          string
}

func newDemo() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run CSIG end to end on this machine: kernel switches, agents, probes",
		Long: `Build a fabric of kernel switches in private network namespaces, run an agent in
each on real counters, drive background load that moves the bottleneck from hop
to hop, send tagged probes of both signals through it, and compare what the
receiver read with the truth from the links' own counters.

Ctrl-C ends the run early with the summary of what was measured so far, and
status 0; before anything was measured, with status 1.

With --native the kernels of all switches do CSIG by themselves (platform linux-ebpf), with
--mixed that of the second one does, between two that agents keep rewriting rules of: then
the summary and --svg have the ages of both kinds of signals beside each other. What such a
switch wrote is compared with a record of every frame, in the intervals that its own data
plane closed. Both need root, outside any user namespace.

With --mesh four hosts probe each other instead (csig mesh run), and the demo shows what csig
mesh status prints while the load moves: which port limits how many pairs of hosts.

With --flows two TCP flows cross such switches, one with the signal (csig host run) and one
over a path of its own without any csig, while what others leave to them changes: the demo shows
how much of it each takes, and which port the first one reads as its bottleneck. It needs root,
as --native does, and Linux 6.6 or newer.

It needs no privilege else where the kernel lets users make namespaces, touches no
interface of this machine, and leaves nothing behind.`,
		Example: `  csig demo
  csig demo --duration 30s --interval 50ms
  csig demo --mesh
  csig demo --flows
  csig demo --mixed --svg ages.svg
  csig demo --native --native-interval 10ms
  csig demo --json --svg timeline.svg --pcap receiver.pcap > demo.json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("duration") && o.duration <= 0 {
				return fmt.Errorf("--duration %v: nothing can be measured in that: name a longer one, or leave it out for every load step twice", o.duration)
			}
			if cmd.Flags().Changed("native-interval") && !o.native && !o.mixed {
				return errors.New("--native-interval applies to native switches: add --native or --mixed")
			}
			if o.flows && o.interval > time.Second {
				return fmt.Errorf("--interval %v: with --flows a load lasts 7 s, and a signal as old as that says nothing of it: want 1s at most", o.interval)
			}
			return runDemo(cmd, o)
		},
	}
	f := cmd.Flags()
	f.DurationVar(&o.duration, "duration", 0, "how long to measure (default: every load step twice, with --mesh and --flows once)")
	f.DurationVar(&o.interval, "interval", 100*time.Millisecond, "averaging window Δt of the agents, 10ms to 10s")
	f.BoolVar(&o.native, "native", false, "all switches measure, compare and replace in their kernels")
	f.BoolVar(&o.mixed, "mixed", false, "the second switch does, the others have agents that rewrite rules")
	f.BoolVar(&o.mesh, "mesh", false, "hosts probe each other, and name the ports that limit them")
	f.BoolVar(&o.flows, "flows", false, "TCP flows with and without the signal, side by side")
	f.DurationVar(&o.nativeInterval, "native-interval", time.Millisecond, "averaging window Δt of native switches, 100us to 10s")
	cmd.MarkFlagsMutuallyExclusive("native", "mixed", "mesh", "flows")
	f.StringVar(&o.pcap, "pcap", "", "write what the receiver got to this new file")
	f.StringVar(&o.svg, "svg", "", "write a timeline of truth against S to this new file")
	addJSON(cmd, &o.json)
	for _, of := range []string{"pcap", "svg"} { // of the probes from h1 to h2
		cmd.MarkFlagsMutuallyExclusive("mesh", of)
		cmd.MarkFlagsMutuallyExclusive("flows", of)
	}
	cmd.MarkFlagsMutuallyExclusive("mesh", "json")
	return cmd
}
