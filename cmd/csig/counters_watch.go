package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/agent"
	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/counters/fleet"
	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
)

func newCountersWatch() *cobra.Command {
	var o watchOptions
	cmd := &cobra.Command{
		Use:   "watch -i FLEET",
		Short: "Read the counters of a whole fleet from here, and show how late and how old they are",
		Long: `Read the egress counters of all devices of a fleet file from one process until
Ctrl-C, each device in a slot of its own so that the load is even, and show how
late readings begin, how long they take and how old the newest ones are; then
sum up. Nothing is changed on any device.

With --json each report is one line a device, then one line for the fleet.`,
		Example: `  csig counters watch -i fleet.yaml
  csig counters watch -i fleet.yaml --device leaf7,leaf8 --every 1s
  csig counters watch -i fleet.yaml --json --report 1m | jq -c 'select(.fails > 0) | {device, error}'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runWatch(cmd.Context(), o, cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	addFleet(cmd, &o.file)
	f.StringSliceVar(&o.devices, "device", nil, "only these devices")
	f.DurationVar(&o.every, "every", 0, "time between two readings of a device (default: each device's schedule)")
	f.DurationVar(&o.report, "report", 0, "time between two reports (default: 1s on a terminal, else 10s)")
	f.DurationVar(&o.duration, "duration", 0, "how long to watch; 0 until interrupted")
	f.IntVar(&o.concurrency, "concurrency", 0, "how many readings may begin before one of them has ended (default 64)")
	f.IntVar(&o.rows, "rows", 10, "how many devices a report shows, those in trouble first; 0 for all")
	addJSON(cmd, &o.json)
	cmd.Flags().Lookup("json").Usage = "print JSON, one object a line"
	return cmd
}

type watchOptions struct {
	file                    string
	devices                 []string
	every, report, duration time.Duration
	concurrency, rows       int
	json                    bool
}

// watch is a fleet being watched.
type watch struct {
	devices []*inventory.Device
	fleet   *fleet.Fleet
	store   *fleet.Store
	started time.Time
	ports   int
	rows    int
}

func runWatch(ctx context.Context, o watchOptions, out io.Writer) error {
	w, err := newWatch(o)
	if err != nil {
		return err
	}
	if need := uint64(2*len(w.devices) + 64); fewerFiles(need) {
		fmt.Fprintf(os.Stderr, "csig: %d devices may need %d open files, and this process may have fewer: ulimit -n %d\n", len(w.devices), need, need)
	}
	screen := newScreen(out)
	if o.report == 0 {
		o.report = 10 * time.Second
		if screen.terminal() && !o.json {
			o.report = time.Second
		}
	}
	if o.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		// Not a deadline, which a source under way would take for its own.
		defer time.AfterFunc(o.duration, cancel).Stop()
	}
	// Loading the file, and looking around at the start, take memory that reading
	// does not: a reading allocates next to nothing, so a small heap costs no time.
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	debug.FreeOSMemory()
	ran := make(chan error, 1)
	go func() { ran <- w.fleet.Run(ctx) }()
	tick := time.NewTicker(o.report)
	defer tick.Stop()
	report := func(more bool) error {
		if o.json {
			return w.writeLines(out)
		}
		return screen.draw(w.text(), more)
	}
	for {
		select {
		case <-tick.C:
			if ctx.Err() != nil {
				continue // the last report is about to come
			}
			if err := report(true); err != nil {
				return err // the output has lost its reader
			}
		case err := <-ran: // Ctrl-C is how it ends
			return errors.Join(err, report(false), w.outcome())
		}
	}
}

// outcome is an error where nothing could be read at all.
func (w *watch) outcome() error {
	sum := w.fleet.Status()
	switch {
	case sum.Reads == 0:
		return errors.New("no reading has ended yet: watch for longer than the devices' schedules")
	case sum.Reads == sum.Failed:
		return fmt.Errorf("none of %d readings succeeded; the first device: %s", sum.Reads, w.fleet.Device(0).Error)
	}
	var views []fleet.PortView
	var first error
	for i := range w.devices {
		views = w.store.Ports(i, views)
		for j := range views {
			if !views[j].Read.IsZero() {
				return nil
			}
			if first == nil && views[j].Err != nil {
				first = fmt.Errorf("port %s: %w", views[j].Port, views[j].Err)
			}
		}
	}
	if first == nil {
		return nil // not one of these devices has ports
	}
	return fmt.Errorf("none of %d ports could be read; the first: %w", w.ports, first)
}

func newWatch(o watchOptions) (*watch, error) {
	file, err := device.LoadFleet(o.file)
	if err != nil {
		return nil, err
	}
	w := &watch{started: time.Now(), rows: o.rows}
	if len(o.devices) == 0 {
		for i := range file.Devices {
			w.devices = append(w.devices, &file.Devices[i])
		}
	}
	for _, name := range o.devices {
		dev, err := pickDevice(file, name)
		if err != nil {
			return nil, err
		}
		w.devices = append(w.devices, dev)
	}
	if len(w.devices) == 0 {
		return nil, fmt.Errorf("%s has no devices", file.Path)
	}
	cfg := fleet.Config{Concurrency: o.concurrency}
	var setups []counters.PipelineConfig
	var errs []error
	// What only an agent on the device can read must not keep the rest from being
	// watched.
	var mute []string
	all := w.devices
	w.devices = nil
	for _, dev := range all {
		if device.SourceName(dev) == string(inventory.LinuxSource) && !dev.Local && len(all) > 1 {
			mute = append(mute, dev.Name)
			continue
		}
		w.devices = append(w.devices, dev)
	}
	if len(mute) > 0 {
		note := fmt.Sprintf("%s: counters can be read on the device alone: give it a counters.source of snmp or gnmi, or run csig counters watch there", strings.Join(mute, ", "))
		if len(w.devices) == 0 {
			return nil, fmt.Errorf("devices %s", note)
		}
		fmt.Fprintf(os.Stderr, "csig: not watched: %s\n", note)
	}
	for _, dev := range w.devices {
		every := o.every
		if every == 0 {
			if every, err = device.PollPeriod(dev); err != nil {
				errs = append(errs, err)
			}
		}
		if slow := slowTries(dev, every); slow != "" {
			fmt.Fprintln(os.Stderr, "csig:", slow)
		}
		setup, err := countedPipeline(file, dev)
		if err != nil {
			errs = append(errs, err)
		}
		cfg.Devices = append(cfg.Devices, fleet.Device{Name: dev.Name, Interval: every, Open: func(ctx context.Context) (counters.Source, error) {
			return device.OpenSource(ctx, &file.Profile, dev, every)
		}})
		w.ports += len(dev.Ports)
		setups = append(setups, setup)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if w.store, err = fleet.NewStore(setups); err != nil {
		return nil, err
	}
	cfg.Sink = w.store.Take
	w.fleet, err = fleet.New(cfg)
	return w, err
}

// countedPipeline is how the agent would turn a device's readings into buckets, of
// the signals that counters can give.
func countedPipeline(file *inventory.Fleet, dev *inventory.Device) (counters.PipelineConfig, error) {
	cfg, err := agent.PipelineConfig(&file.Profile, &file.Policy, dev)
	cfg.Tables = slices.DeleteFunc(cfg.Tables, func(b *quantize.Buckets) bool { return !b.Signal.Counted() })
	return cfg, err
}

// fewerFiles reports whether this process may open fewer files than that.
func fewerFiles(need uint64) bool {
	var limit unix.Rlimit
	return unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil && limit.Cur < need
}

// writeLines is a report as JSON.
func (w *watch) writeLines(out io.Writer) error {
	enc := json.NewEncoder(out)
	now := time.Now().UTC()
	var views []fleet.PortView
	for i := range w.devices {
		if err := enc.Encode(w.deviceLine(i, now, &views)); err != nil {
			return err
		}
	}
	return enc.Encode(w.fleetLine(now))
}

// slowTries notes that the tries of one SNMP request do not fit between two readings,
// "" where they do.
func slowTries(dev *inventory.Device, every time.Duration) string {
	s := dev.Counters.SNMP
	if device.SourceName(dev) != "snmp" || s == nil || s.Timeout == inventory.DefaultSNMPTimeout {
		return ""
	}
	all := s.Timeout * time.Duration(s.Retries+1)
	if all <= every {
		return ""
	}
	return fmt.Sprintf("device %s: %d tries of %v take longer than the %v between two readings: the last ones never happen; make timeout or retries smaller", dev.Name, s.Retries+1, s.Timeout, every)
}
