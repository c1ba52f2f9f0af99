package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans/assess"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors/all"
)

type assessOptions struct {
	fleet                string
	devices              []string
	offline, init        bool
	json, markdown, html bool
	parallel, readings   int
	every, timeout       time.Duration
	answered             func(done, of int) // called while devices are asked
}

func newAssess() *cobra.Command {
	var o assessOptions
	cmd := &cobra.Command{
		Use:   "assess [-i FLEET]",
		Short: "Show what devices can do with CSIG tags, and what that requires of their neighbours (read-only)",
		Long: `With a fleet file: the level of support of each device and port with the reason,
what the rules take of its table, how old its signal will be, and what the draft
(§6.3) therefore requires of every port and host. Devices are asked as far as they
can be reached; with --offline the facts are those of their platforms.

Without one: this machine. Its ports, who shapes them, what the kernel takes, how
fresh its counters are and the shortest interval they can serve; --init prints a
fleet file for it. Nothing is changed on any device. The exit code is 0 also where
devices are refused: csig plan fails then.`,
		Example: `  csig assess
  csig assess --init > tor.yaml
  csig assess -i fleet.yaml --offline
  csig assess -i fleet.yaml --html > report.html`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runAssess(cmd, &o) },
	}
	f := cmd.Flags()
	f.StringVarP(&o.fleet, "inventory", "i", "", "fleet file (default: this machine)")
	f.BoolVar(&o.offline, "offline", false, "ask no device: use the platforms' facts")
	f.StringSliceVar(&o.devices, "device", nil, "show only these devices, port by port; the whole fleet is assessed")
	f.BoolVar(&o.init, "init", false, "print a fleet file for this machine")
	f.BoolVar(&o.markdown, "markdown", false, "print Markdown, for the change ticket")
	f.BoolVar(&o.html, "html", false, "print one self-contained page, for the change review")
	addAtOnce(f, &o.parallel, 16, "devices to ask at once", &o.timeout, 30*time.Second, "for each device")
	f.IntVar(&o.readings, "readings", 10, "how often to read each device's counters; 0 not at all")
	f.DurationVar(&o.every, "every", 200*time.Millisecond, "time between two readings")
	addJSON(cmd, &o.json)
	cmd.MarkFlagsMutuallyExclusive("json", "markdown", "html", "init")
	cmd.MarkFlagsMutuallyExclusive("inventory", "init")
	return cmd
}

func runAssess(cmd *cobra.Command, o *assessOptions) error {
	switch {
	case o.readings < 0 || o.readings == 1:
		return usageError(cmd, "--readings %d: a rate takes two or more, or 0 for none", o.readings)
	case o.every < inventory.MinPeriod:
		return usageError(cmd, "--every %v: want %v or more", o.every, inventory.MinPeriod)
	case cmd.Flags().Changed("inventory") && o.fleet == "":
		return usageError(cmd, "--inventory is empty: name a fleet file, or leave it out for this machine")
	}
	if o.fleet == "" {
		for _, name := range []string{"offline", "device", "markdown", "html"} {
			if cmd.Flags().Changed(name) {
				return usageError(cmd, "--%s goes with -i FLEET", name)
			}
		}
		return runAssessMachine(cmd, o)
	}
	fleet, devices, err := loadFleet(o.fleet, o.devices, o.offline)
	if err != nil {
		return err
	}
	o.devices = devices
	o.answered = newAsking(cmd.ErrOrStderr()).answered
	evidence, err := gatherEvidence(cmd.Context(), fleet, o)
	if err != nil {
		return err
	}
	a := assess.Fleet(fleet, func(d *inventory.Device) assess.Evidence { return evidence[d.Name] }, assess.Options{
		Offline: o.offline, Version: version, InventoryHash: fleet.Hash(), Now: time.Now(),
	})
	a = a.Only(o.devices)
	w := cmd.OutOrStdout()
	switch {
	case o.json:
		err = printJSON(w, a)
	case o.markdown:
		_, err = fmt.Fprint(w, assessMarkdown(a))
	case o.html:
		err = assessHTML(w, a)
	default:
		_, err = fmt.Fprint(w, assessText(a, len(o.devices) > 0, newScreen(w).columns()))
	}
	if err == nil && a.Totals.Asked > 0 && a.Totals.NotRead == a.Totals.Asked {
		err = &exitError{code: 1} // it is about no device
	}
	return err
}

// gatherEvidence finds out about every device of a fleet: by asking it, and
// else, or offline, from what is known of its platform.
func gatherEvidence(ctx context.Context, fleet *inventory.Fleet, o *assessOptions) (map[string]assess.Evidence, error) {
	r := device.NewOpener(fleet)
	r.ReadOnly = true
	if o.offline {
		out := make(map[string]assess.Evidence, len(fleet.Devices))
		for i := range fleet.Devices {
			d := &fleet.Devices[i]
			out[d.Name] = platformEvidence(r.Registry, d)
		}
		return out, nil
	}
	seen, err := r.ObserveAll(ctx, o.parallel, o.timeout, o.answered)
	if err != nil {
		return nil, err
	}
	return device.Each(ctx, fleet, o.parallel, o.answered, func(d *inventory.Device) assess.Evidence {
		e := assess.Evidence{Observation: seen[d.Name], Basis: assess.BasisProbe}
		switch {
		case e.NoDriver != "":
			e.Basis = assess.BasisPlatform
		case e.Err != nil:
			err, via := e.Err, e.Via
			e = platformEvidence(r.Registry, d)
			if e.Basis != assess.BasisFile { // the reason that it has no driver is more specific
				e.Err = err
			}
			e.Via = via
		}
		e.Counters = readFreshness(ctx, fleet, d, o)
		return e
	})
}

// platformEvidence is what is known of a device without asking it.
func platformEvidence(registry *all.Registry, d *inventory.Device) assess.Evidence {
	e := assess.Evidence{Counters: assess.Freshness{Source: device.SourceName(d)}}
	p, err := registry.Platform(d.Platform)
	if err != nil {
		e.Basis, e.Err = assess.BasisFile, err
		return e
	}
	e.Basis, e.Facts, e.NoDriver, e.Experimental = assess.BasisPlatform, p.Offline(), p.NoDriver(d.Platform), p.Experimental
	return e
}

// readFreshness reads a device's counters a few times.
func readFreshness(ctx context.Context, fleet *inventory.Fleet, d *inventory.Device, o *assessOptions) (f assess.Freshness) {
	var panicked error
	defer func() {
		if panicked != nil {
			f.Note = "its counters cannot be read: " + panicked.Error()
		}
	}()
	defer untrusted.Recover(&panicked)
	f = assess.Freshness{Source: device.SourceName(d)}
	switch {
	case o.readings == 0:
		return f
	case f.Source == string(inventory.LinuxSource) && !d.Local && d.Management.NetNS == "":
		f.Note = "not read, as its kernel's counters are read on the device itself: csig assess there"
		return f
	case d.Level.Support == inventory.LevelDiscard || d.Level.Support == inventory.LevelPassthrough || d.Level.Support == inventory.LevelNative:
		return f // csig computes no signal there
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	src, err := device.OpenSource(ctx, &fleet.Profile, d, 0)
	if err != nil {
		return unread(f, d, err)
	}
	defer src.Close()
	res, err := readCounters(ctx, fleet, d, src, o.every, o.readings)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer in %v", o.timeout)
		}
		return unread(f, d, err)
	}
	f.Readings, f.Kind = res.Readings-res.Failed, res.Refresh.Kind.String()
	f.Period, f.Read = res.Refresh.Period, time.Duration(res.ReadMaxNS)
	f.Ports = map[string]string{}
	for _, p := range res.Ports {
		if p.State != "" && p.other != "" {
			f.Ports[p.Port] = p.other
		}
		if p.slow != "" {
			f.Findings = append(f.Findings, findings.Finding{Code: findings.SlowLink, Level: findings.Warning, Device: d.Name, Ports: []string{p.Port}, Reason: p.slow})
		}
	}
	f.Findings = findings.Merge(f.Findings)
	return f
}

// unread is the freshness of a device whose counters cannot be read.
func unread(f assess.Freshness, d *inventory.Device, err error) assess.Freshness {
	f.Note = "its counters cannot be read: " + err.Error()
	f.Findings = []findings.Finding{{Code: findings.CountersFail, Level: findings.Warning, Device: d.Name, Reason: f.Note}}
	return f
}
