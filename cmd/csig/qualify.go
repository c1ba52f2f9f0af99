package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/qualify"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
)

// qualifyOptions are the flags of csig qualify and of its calibration.
type qualifyOptions struct {
	file, device, calibration string
	restart, sflow, routed    string
	cables                    []string
	about                     qualify.About
	json                      bool
	qualify.Options
}

func newQualify() *cobra.Command {
	var o qualifyOptions
	cmd := &cobra.Command{
		Use:   "qualify -i FLEET --device NAME --port PORT=CARD --port PORT=CARD",
		Short: "Test bench: find out what a switch does with tags",
		Long: `Find out what a switch does with tags. Two network cards of this machine, or three or
four, are cabled to ports of the switch, which nothing else is connected to. Each
experiment ends as pass, fail or not tested, with its reason. The report is written to
a folder: report.txt, report.json, report.md, and a capture file for each experiment.

csig is the device's agent while it runs, changes only the ports named, and removes
what it made, also after Ctrl-C. After a kill, --resume or csig off removes it.
Exit code 1 is for an error, and 3 for a switch in which a fault was found.`,
		Example: `  csig qualify calibrate eth1 eth2 -o cards
  csig qualify -i lab.yaml --device sw1 --port swp1=eth1 --port swp2=eth2 --calibration cards/report.json
  csig qualify -i lab.yaml --device sw1 --port swp1=eth1 --port swp2=eth2 --only vids,marks -o again
  csig qualify list`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runQualify(cmd, &o) },
	}
	addFleet(cmd, &o.file)
	f := cmd.Flags()
	f.StringVar(&o.device, "device", "", "the switch, a device of the fleet file (required)")
	f.StringArrayVar(&o.cables, "port", nil, "a cable: PORT=CARD, a port of the switch and the network card of this machine at its other end (two to four)")
	f.StringVar(&o.calibration, "calibration", "", "report.json of csig qualify calibrate with these cards")
	f.BoolVar(&o.Destructive, "destructive", false, "allow experiments that fill tables or restart the switch")
	f.StringVar(&o.restart, "restart", "", "command that restarts the switch, e.g. \"ssh sw1 sudo reboot\"; with --destructive")
	f.StringVar(&o.sflow, "sflow", "", "receive the switch's sFlow here: ADDRESS:PORT of this machine, UDP, e.g. 192.0.2.1:6343")
	f.StringVar(&o.routed, "routed", "", "MAC,ADDRESS: the switch's MAC address as a router, and an IPv4 address whose two next hops are at the third port and the fourth")
	f.StringVar(&o.about.Model, "model", "", "model of the switch, where its driver does not read it")
	f.StringVar(&o.about.LineCard, "line-card", "", "line card of the ports")
	f.StringVar(&o.about.ASIC, "asic", "", "switching chip")
	f.StringVar(&o.about.Version, "version", "", "version of the switch's software, where its driver does not read it")
	f.StringVar(&o.about.TCAMProfile, "tcam-profile", "", "how the switch's tables are divided")
	f.StringVar(&o.about.ConfigHash, "config-hash", "", "hash of the switch's own configuration")
	addQualify(cmd, &o, "folder of the report (default: qualify-NAME)")
	_ = cmd.MarkFlagRequired("device")
	_ = cmd.MarkFlagRequired("port")
	cmd.AddCommand(newQualifyCalibrate(), newQualifyList())
	return cmd
}

// addQualify adds the flags that a run at a switch and one at a cable have.
func addQualify(cmd *cobra.Command, o *qualifyOptions, folder string) {
	f := cmd.Flags()
	f.StringVarP(&o.Folder, "output", "o", "", folder)
	f.StringSliceVar(&o.Only, "only", nil, "only these experiments: csig qualify list shows them; with --resume also those that have a result")
	f.BoolVar(&o.Resume, "resume", false, "continue the run that the folder has: what is left of its experiments, or those of --only")
	f.BoolVar(&o.AllowForeign, "allow-foreign", false, "run although other traffic arrives at the cards")
	f.DurationVar(&o.Quiet, "quiet", 3*time.Second, "for how long no other traffic may arrive before the start")
	atLeast(f, "quiet", &o.Quiet, 10*time.Millisecond, false)
	addJSON(cmd, &o.json)
}

func newQualifyCalibrate() *cobra.Command {
	o := qualifyOptions{Options: qualify.Options{IsCable: true}}
	cmd := &cobra.Command{
		Use:   "calibrate CARD CARD",
		Short: "Find out what the cards themselves do, at a direct cable",
		Long: `Find out what two network cards lose, alter and delay themselves: they are cabled to
each other. csig qualify --calibration judges a switch by the result, which is
report.json in the folder of -o.`,
		Example: `  csig qualify calibrate eth1 eth2             # calibration/report.json
  csig qualify calibrate eth1 eth2 -i lab.yaml -o cards`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 || args[0] == args[1] {
				return usageError(cmd, "want the names of two network cards")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			b := &qualify.Bench{Profile: &quantize.Profile{TPID: defaultTPID}, Device: inventory.Device{Name: "cable"}, NoWay: "there is no switch"}
			if o.file != "" {
				fleet, err := device.LoadFleet(o.file)
				if err != nil {
					return err
				}
				b.Profile = &fleet.Profile
			}
			if o.Folder == "" {
				o.Folder = "calibration"
			}
			if err := openCards(cmd, b, &o, []string{"=" + args[0], "=" + args[1]}); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, b.Close()) }()
			return runBench(cmd, b, &o)
		},
	}
	cmd.Flags().StringVarP(&o.file, "inventory", "i", "", fmt.Sprintf("fleet file, for its TPIDs (default: TPID 0x%04x)", defaultTPID))
	addQualify(cmd, &o, "folder of the report (default: calibration)")
	return cmd
}

// defaultTPID is calibrated without a fleet file: IEEE has assigned none, and examples use
// this one.
const defaultTPID = 0x9900

func runQualify(cmd *cobra.Command, o *qualifyOptions) (err error) {
	fleet, err := device.LoadFleet(o.file)
	if err != nil {
		return err
	}
	d, ok := fleet.Device(o.device)
	if !ok {
		return fmt.Errorf("--device %s: %s has no such device", o.device, o.file)
	}
	b := &qualify.Bench{Device: *d, Profile: &fleet.Profile, Policy: fleet.Policy}
	o.about.Device, o.about.Platform = d.Name, d.Platform
	o.About = o.about
	if o.Folder == "" {
		o.Folder = "qualify-" + d.Name
	}
	if err := openCards(cmd, b, o, o.cables); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	logger := logrus.New()
	logger.SetOutput(cmd.ErrOrStderr())
	opener := device.NewOpener(fleet)
	unmeasured := *d
	unmeasured.Facts = nil // what a driver waits by them would be in what is measured, and missing in the next facts
	open := func(ctx context.Context) (vendors.Driver, error) {
		return opener.OpenSole(ctx, &unmeasured, "csig qualify", logrus.NewEntry(logger))
	}
	b.Waits = func(delay time.Duration) {
		if unmeasured.Facts = nil; delay > 0 {
			unmeasured.Facts = &inventory.Facts{Platform: d.Platform, AckToWire: &delay}
		}
	}
	b.Driver, err = open(cmd.Context())
	here := (*device.NotHereError)(nil)
	switch {
	case errors.As(err, &here):
		b.NoWay = here.Why
	case err != nil:
		return fmt.Errorf("device %s: %w", d.Name, err)
	default:
		b.Reopen = open
		defer func() { err = errors.Join(err, b.Driver.Close()) }() // the one that is open then
	}
	if words := strings.Fields(o.restart); len(words) > 0 {
		b.Restart = func(ctx context.Context) error {
			if out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput(); err != nil {
				return fmt.Errorf("--restart: %w: %s", err, untrusted.Text(string(out), 200))
			}
			return nil
		}
	}
	if o.sflow != "" {
		if b.SFlow, err = net.ListenPacket("udp", o.sflow); err != nil {
			return fmt.Errorf("--sflow: %w: want ADDRESS:PORT of this machine, e.g. 192.0.2.1:6343", err)
		}
		defer func() { err = errors.Join(err, b.SFlow.Close()) }()
	}
	cabled := *d
	cabled.Ports = nil
	for _, c := range o.cables {
		port, _, _ := strings.Cut(c, "=")
		if i := slices.Index(d.PortNames(), port); i >= 0 {
			cabled.Ports = append(cabled.Ports, d.Ports[i])
		}
	}
	source, err := device.OpenSource(cmd.Context(), b.Profile, &cabled, 0)
	if err != nil {
		logger.WithError(err).Warn("the switch's counters cannot be read")
	} else {
		b.Counters = source
		defer func() { err = errors.Join(err, source.Close()) }()
	}
	return runBench(cmd, b, o)
}

// openCards checks what is to be run and opens the cards, before anything of the switch is.
func openCards(cmd *cobra.Command, b *qualify.Bench, o *qualifyOptions, cables []string) (err error) {
	o.Experiments = qualify.All()
	for _, id := range o.Only {
		if !slices.ContainsFunc(o.Experiments, func(e qualify.Experiment) bool { return e.ID == id }) {
			return usageError(cmd, "--only %q: there is no such experiment: csig qualify list shows them", id)
		}
	}
	if len(cables) < 2 || len(cables) > 4 {
		return usageError(cmd, "--port: %d cables, want two to four", len(cables))
	}
	if o.routed != "" {
		if b.Routed, err = qualify.ParseRouted(o.routed); err != nil {
			return usageError(cmd, "--routed %v", err)
		}
	}
	if o.restart != "" && !o.Destructive {
		return usageError(cmd, "--restart goes with --destructive")
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	for _, c := range cables {
		port, card, ok := strings.Cut(c, "=")
		if !ok || card == "" || port == "" && !o.IsCable {
			return usageError(cmd, "--port %q: want PORT=CARD", c)
		}
		if slices.ContainsFunc(b.Ports, func(p *qualify.Port) bool { return p.Card == card || p.Name == port && port != "" }) {
			return usageError(cmd, "--port %q: its port or its card has another cable already", c)
		}
		if !o.IsCable && !slices.Contains(b.Device.PortNames(), port) {
			return fmt.Errorf("--port %s: device %s has no port %s in the fleet file", c, b.Device.Name, port)
		}
		if o.Resume {
			if err := qualify.Restore(o.Folder, card); err != nil {
				return err
			}
		}
		p, err := qualify.OpenCard(cmp.Or(port, card), card)
		if err != nil {
			return err
		}
		b.Ports = append(b.Ports, p)
	}
	if o.calibration != "" {
		if o.Calibration, err = qualify.LoadCalibration(o.calibration, b.Ports); err != nil {
			return fmt.Errorf("--calibration: %w", err)
		}
	}
	return nil
}

// runBench runs what is to be run, with the cards that are open.
func runBench(cmd *cobra.Command, b *qualify.Bench, o *qualifyOptions) (err error) {
	o.Version = version
	show := &qualifyProgress{w: cmd.OutOrStdout(), json: o.json}
	o.Progress = show.report
	report, err := qualify.Run(cmd.Context(), b, o.Options)
	if err != nil {
		switch {
		case errors.Is(err, unix.ENOSPC): // which closing files finds again
			first, _, _ := strings.Cut(err.Error(), "\n")
			return &exitError{code: 1, err: fmt.Errorf("%s: make room for folder %s, then --resume continues the run", first, o.Folder)}
		case cmd.Context().Err() != nil && report != nil:
			err = fmt.Errorf("%w; --resume continues it", err)
		}
		return err
	}
	if o.json {
		err = printJSON(cmd.OutOrStdout(), report)
	} else {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s; report in %s\n", report.Summary(), o.Folder)
		if err == nil && report.NoFacts != "" {
			_, err = fmt.Fprintln(cmd.OutOrStdout(), report.NoFacts)
		}
	}
	if n := report.Count(qualify.Fail); err == nil && n > 0 {
		err = &exitError{code: 3, err: fmt.Errorf("%s found a fault", count(n, "experiment"))}
	}
	return err
}

// qualifyProgress shows experiments as they end, and on a terminal the one that runs.
type qualifyProgress struct {
	w    io.Writer
	json bool
	live *screen
}

func (p *qualifyProgress) report(done, of int, r *qualify.Result) {
	if p.json {
		return
	}
	if p.live == nil {
		p.live = newScreen(p.w)
	}
	// A broken terminal must not end the run: its report is in files.
	switch {
	case r.ID == "" && p.live.terminal():
		_ = p.live.redraw("", []string{r.Title})
	case r.Outcome == "" && r.Found != "" && p.live.terminal():
		_ = p.live.redraw("", []string{fmt.Sprintf("%d of %d: %s: %s", done+1, of, r.ID, r.Found)})
	case r.Outcome == "" && p.live.terminal():
		_ = p.live.redraw("", []string{fmt.Sprintf("%d of %d: %s: %s", done+1, of, r.ID, r.Title)})
	case r.Outcome == "" && r.Found != "":
		fmt.Fprintf(p.w, "%s: %s\n", r.ID, r.Found)
	case r.Outcome == "":
	case p.live.terminal():
		_ = p.live.redraw(resultLine(r), nil)
	default:
		fmt.Fprintln(p.w, resultLine(r))
	}
}

// resultLine is one result in a line.
func resultLine(r *qualify.Result) string {
	return fmt.Sprintf("%-10s  %-12s %s", r.Outcome, r.ID, r.Found)
}

func newQualifyList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "Show the experiments, and what each needs",
		Example: "  csig qualify list",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list := experimentList{Format: "csig.experiments/v1", Experiments: []experimentRow{}}
			for _, e := range qualify.All() {
				list.Experiments = append(list.Experiments, experimentRow{e.ID, e.Title, max(2, e.Needs.Ports), e.Needs.Driver || e.Needs.Update, e.Needs.Destructive, e.Needs.Also})
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), list)
			}
			for _, e := range list.Experiments {
				fmt.Fprintf(cmd.OutOrStdout(), "%-13s %s\n", e.ID, e.Title)
				if needs := e.needs(); len(needs) > 0 {
					fmt.Fprintf(cmd.OutOrStdout(), "%-13s needs %s\n", "", strings.Join(needs, "; "))
				}
			}
			return nil
		},
	}
	addJSON(cmd, &asJSON)
	return cmd
}

// experimentList is what list prints.
type experimentList struct {
	Format      string          `json:"format"`
	Experiments []experimentRow `json:"experiments"`
}

type experimentRow struct {
	ID          string `json:"id"`
	Title       string `json:"title"`
	Ports       int    `json:"ports"`
	Driver      bool   `json:"driver"`
	Destructive bool   `json:"destructive"`
	Also        string `json:"also"`
}

func (e *experimentRow) needs() (out []string) {
	if e.Ports > 2 {
		out = append(out, fmt.Sprintf("%d ports", e.Ports))
	}
	if e.Driver {
		out = append(out, "a driver that sets rules")
	}
	if e.Also != "" {
		out = append(out, e.Also)
	}
	if e.Destructive {
		out = append(out, "--destructive")
	}
	return out
}
