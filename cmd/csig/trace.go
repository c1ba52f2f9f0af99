package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/csig-agent/csig/agent"
	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/counters/trace"
	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
)

func newCountersRecord() *cobra.Command {
	var (
		f        deviceFlags
		out      string
		note     string
		duration time.Duration
		asJSON   bool
	)
	cmd := &cobra.Command{
		Use:   "record -i FLEET -o TRACE",
		Short: "Record a device's counters in one file that can be mailed",
		Long: `Record every reading of a device's counters, with its times and errors, until
--duration is over or Ctrl-C. The trace holds names of ports and what their buckets
depend on (capacities, Δt, estimator, damping, bucket tables), and neither secrets nor
addresses nor users.`,
		Example: "  csig counters record -i fleet.yaml --device leaf7 -o leaf7.trace --duration 10m",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := notNegative(cmd, "duration", duration); err != nil {
				return err
			}
			fleet, dev, src, err := f.open(cmd.Context())
			if err != nil {
				return err
			}
			settings, err := traceSettings(fleet, dev)
			if err != nil {
				return errors.Join(err, src.Close())
			}
			file, err := createNew(out)
			if err != nil {
				return errors.Join(err, src.Close())
			}
			rec, err := trace.NewRecorder(src, file, trace.RecorderConfig{Hide: hiddenWords(dev), Header: trace.Header{
				Device: dev.Name, Source: device.SourceName(dev), IntervalNS: dev.Interval.Nanoseconds(), Note: note, Ports: dev.PortNames(), Settings: settings,
			}})
			if err != nil {
				return errors.Join(err, src.Close(), file.Close())
			}
			failed, unreadable, err := record(cmd.Context(), rec, settings.Refresh(), f.every, duration)
			if err = errors.Join(err, rec.Close(), file.Close()); err != nil {
				return err
			}
			res := recordResult{Format: "csig.record/v1", Device: dev.Name, File: out, Readings: rec.Readings(), Failed: failed}
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), res)
			} else {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d readings of %s in %s, %d failed; look at it with csig counters show %s\n", res.Readings, res.Device, out, failed, out)
			}
			if err == nil && unreadable != nil {
				err = fmt.Errorf("%s holds nothing but failures: %w", out, ofDevice(dev, unreadable))
			}
			return err
		},
	}
	f.add(cmd)
	cmd.Flags().StringVarP(&out, "output", "o", "", "the trace to write (required)")
	cmd.Flags().StringVar(&note, "note", "", "a sentence for readers of the trace")
	cmd.Flags().DurationVar(&duration, "duration", time.Minute, "how long to record; 0 until interrupted")
	addJSON(cmd, &asJSON)
	_ = cmd.MarkFlagRequired("output")
	return cmd
}

// traceSettings are what the device's buckets depend on, so that the trace is enough to
// replay them.
func traceSettings(file *inventory.Fleet, dev *inventory.Device) (*trace.Settings, error) {
	d, err := countedPipeline(file, dev)
	if err != nil {
		return nil, err
	}
	s := &trace.Settings{
		SpeedsBPS: map[string]uint64{}, Estimator: d.Method.String(), TimeConstantNS: d.Tau.Nanoseconds(),
		RefreshNS: d.Refresh.Period.Nanoseconds(), Overhead: d.Overhead, Hold: d.Damping.Hold, Margin: d.Damping.Margin,
	}
	for _, p := range d.Ports {
		if p.Speed > 0 {
			s.SpeedsBPS[p.Name] = p.Speed
		}
		if p.Override {
			s.Overrides = append(s.Overrides, p.Name)
		}
	}
	for _, b := range d.Tables {
		s.Buckets = append(s.Buckets, trace.TableOf(b))
	}
	return s, nil
}

// hiddenWords are what errors may contain of a device's configuration.
func hiddenWords(dev *inventory.Device) []string {
	words := []string{dev.Address}
	if s := dev.Counters.SNMP; s != nil {
		words = append(words, s.User)
	}
	if g := dev.Counters.GNMI; g != nil {
		words = append(words, g.Username, g.TLS.ServerName, g.Target)
	}
	return slices.DeleteFunc(words, func(w string) bool { return w == "" || w == dev.Name })
}

type recordResult struct {
	Format   string `json:"format"`
	Device   string `json:"device"`
	File     string `json:"file"`
	Readings int    `json:"readings"`
	Failed   int    `json:"failed"`
}

// record reads until the time is up; failed readings are part of the record, and those between two of the schedule,
// as an agent's. It returns how many failed, and why no port could be read where that was never possible.
func record(ctx context.Context, rec *trace.Recorder, cfg counters.RefreshConfig, every, duration time.Duration) (failed int, unreadable, err error) {
	unreadable = errors.New("the recording ended before the first reading did")
	ever := false
	defer func() {
		if ever {
			unreadable = nil
		}
	}()
	within := ctx
	if duration > 0 {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, duration)
		defer cancel()
	}
	refresh, when := counters.NewRefresh(cfg), cadence{every: every}
	var samples []counters.Sample
	for {
		if _, err := when.wait(within); err != nil {
			return failed, unreadable, nil
		}
		samples, err = rec.Read(ctx, samples[:0])
		if ctx.Err() != nil {
			return failed, unreadable, nil // Ctrl-C is how a recording ends
		}
		if err != nil {
			failed++
			unreadable = err
		} else {
			unreadable = noPort(samples)
			ever = ever || slices.ContainsFunc(samples, func(s counters.Sample) bool { return s.Err == nil })
			refresh.Observe(samples)
			when.look = refresh.Look(when.next)
		}
		if err := rec.Err(); err != nil {
			return failed, unreadable, err
		}
	}
}

// playFlags are how to turn a trace into buckets.
type playFlags struct {
	file, method string
	tau          time.Duration
	ports        []string
	hold         int
	margin       uint32
	changed      func(flag string) bool
}

func (f *playFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVarP(&f.file, "inventory", "i", "", "fleet file to take bucket tables, and this device's capacities, interval, estimator, damping and refresh from (default: what the trace was recorded with; of an old trace the presets log-100G and log)")
	fl.StringVar(&f.method, "estimator", "", "raw, ewma or dre (default: as recorded, else raw)")
	fl.DurationVar(&f.tau, "time-constant", 0, "of ewma and dre (default: as recorded, else the interval)")
	fl.StringSliceVar(&f.ports, "port", nil, "only these ports")
	fl.IntVar(&f.hold, "hold", 0, "damping: readings for which better news has to hold (default: as recorded, else 0)")
	fl.Uint32Var(&f.margin, "margin", 0, "damping: how far inside the better bucket, in thousandths of its width (default: as recorded, else 0)")
	f.changed = fl.Changed
}

// config opens a trace and returns how to play it.
func (f *playFlags) config(name string) (*trace.Reader, counters.PipelineConfig, func() error, error) {
	var cfg counters.PipelineConfig
	file, err := os.Open(name)
	if err != nil {
		return nil, cfg, nil, err
	}
	fail := func(err error) (*trace.Reader, counters.PipelineConfig, func() error, error) {
		return nil, cfg, nil, errors.Join(err, file.Close())
	}
	if info, err := file.Stat(); err == nil && info.IsDir() {
		return fail(fmt.Errorf("%s is a directory: name a file that csig counters record wrote", name))
	}
	r, err := trace.NewReader(file)
	if err != nil {
		return fail(fmt.Errorf("%s: %w; want a file that csig counters record wrote", name, err))
	}
	for _, port := range f.ports {
		if !slices.Contains(r.Header().Ports, port) {
			return fail(fmt.Errorf("--port %s: the trace %s has no such port; it has %s", port, name, strings.Join(r.Header().Ports, ", ")))
		}
	}
	if cfg, err = r.Header().Config(); err != nil {
		return fail(err)
	}
	switch {
	case f.file != "":
		err = fleetTables(f.file, r.Header().Device, &cfg)
	case len(cfg.Tables) == 0:
		cfg.Tables, err = presetTables()
	}
	if err != nil {
		return fail(err)
	}
	if f.changed("estimator") {
		if cfg.Method, err = counters.ParseMethod(f.method); err != nil {
			return fail(fmt.Errorf("--estimator: %w", err))
		}
	}
	if f.changed("time-constant") {
		cfg.Tau = f.tau
	}
	if f.changed("hold") {
		cfg.Damping.Hold = f.hold
	}
	if f.changed("margin") {
		cfg.Damping.Margin = f.margin
	}
	if err := cfg.Damping.Validate(); err != nil {
		return fail(err)
	}
	return r, cfg, file.Close, nil
}

// presetTables are what a trace is shown with by default.
func presetTables() ([]*quantize.Buckets, error) {
	abw, err := quantize.Preset(quantize.MinABW, "log-100G")
	if err != nil {
		return nil, err
	}
	abwc, err := quantize.Preset(quantize.MinABWC, "log")
	return []*quantize.Buckets{&abw, &abwc}, err
}

// fleetTables takes bucket tables from a fleet file, and everything else as well where
// it has the device.
func fleetTables(file, device string, cfg *counters.PipelineConfig) error {
	fleet, err := inventory.Load(file)
	if err != nil {
		return err
	}
	cfg.Tables = nil
	for _, sig := range quantize.Signals {
		if sp, ok := fleet.Profile.Signals[sig]; ok {
			cfg.Tables = append(cfg.Tables, &sp.Buckets)
		}
	}
	cfg.Interval = fleet.Profile.Interval
	if dev, ok := fleet.Device(device); ok {
		from, err := agent.PipelineConfig(&fleet.Profile, &fleet.Policy, dev)
		if err != nil {
			return err
		}
		for i := range cfg.Ports {
			cfg.Ports[i].Speed, cfg.Ports[i].Override = 0, false
			if p, ok := dev.Port(cfg.Ports[i].Name); ok {
				cfg.Ports[i].Speed, cfg.Ports[i].Override = p.Speed, p.SpeedOverride
			}
		}
		from.Ports, from.Tables = cfg.Ports, cfg.Tables
		*cfg = from
	}
	return nil
}

// replayResult is what counters replay --json prints.
type replayResult struct {
	Format   string                 `json:"format"`
	Device   string                 `json:"device"`
	Note     string                 `json:"note"`
	Readings int                    `json:"readings"`
	Failed   int                    `json:"failed"`
	Damaged  string                 `json:"damaged"` // why the trace ends before its end; "" for a whole one
	Refresh  counters.RefreshStatus `json:"refresh"`
	Steps    []replayStep           `json:"steps"`
}

type replayStep struct {
	Time  time.Time    `json:"time"`
	Error string       `json:"error"`
	Ports []replayPort `json:"ports"`
}

type replayPort struct {
	Port    string         `json:"port"`
	State   string         `json:"state"`
	Reason  string         `json:"reason"`
	LoadBPS *uint64        `json:"load_bps"` // null, as the next two, where the state has no window
	ABWBPS  *uint64        `json:"abw_bps"`
	ABWCPPM *uint32        `json:"abwc_ppm"`
	Signals []replaySignal `json:"signals"`
}

type replaySignal struct {
	Signal   string `json:"signal"`
	Bucket   uint8  `json:"bucket"`
	Worst    uint8  `json:"worst"` // what an uncertain Δt allows
	Best     uint8  `json:"best"`
	Doubtful bool   `json:"doubtful"`
}

func replaySignals(list []counters.SignalState) []replaySignal {
	out := []replaySignal{}
	for _, g := range list {
		if g.Possible {
			out = append(out, replaySignal{g.Signal.String(), g.Bucket, g.Range.Worst, g.Range.Best, g.Range.Doubtful()})
		}
	}
	return out
}

// text is the bucket, and in doubt those that it may be.
func (g *replaySignal) text() string {
	if g.Doubtful {
		return fmt.Sprintf("%s=%d(%d…%d)", g.Signal, g.Bucket, g.Worst, g.Best)
	}
	return fmt.Sprintf("%s=%d", g.Signal, g.Bucket)
}

func newCountersReplay() *cobra.Command {
	var (
		f      playFlags
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "replay TRACE",
		Short: "Play a trace through the estimators, the same every time",
		Long: `Play a recorded trace through refresh learning, an estimator and damping, and print
what each reading led to. The same trace and flags print the same, anywhere.`,
		Example: `  csig counters replay leaf7.trace -i fleet.yaml
  csig counters replay leaf7.trace --estimator ewma --time-constant 2s --json`,
		Args: oneArg("TRACE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, cfg, closeTrace, err := f.config(args[0])
			if err != nil {
				return err
			}
			defer closeTrace() //nolint:errcheck // it was only read
			w := cmd.OutOrStdout()
			res := replayResult{Format: "csig.replay/v1", Device: r.Header().Device, Note: r.Header().Note, Steps: []replayStep{}}
			sum, err := trace.Play(r, cfg, func(s *trace.Step) error {
				step := f.step(s, cfg.Ports)
				if asJSON {
					res.Steps = append(res.Steps, step)
					return nil
				}
				for _, p := range step.Ports {
					fmt.Fprintf(w, "%s  %-12s %-13s load %-12s abw %-12s", step.Time.Format("15:04:05.000"), p.Port, p.State, bpsOrDash(p.LoadBPS), bpsOrDash(p.ABWBPS))
					for _, g := range p.Signals {
						fmt.Fprint(w, "  ", g.text())
					}
					fmt.Fprintln(w, suffix("  ", p.Reason))
				}
				if step.Error != "" {
					fmt.Fprintf(w, "%s  no reading: %s\n", step.Time.Format("15:04:05.000"), step.Error)
				}
				return nil
			})
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			res.Readings, res.Failed = sum.Readings, sum.Failed
			res.Refresh = sum.Refresh
			if sum.Damaged != nil {
				res.Damaged = sum.Damaged.Error()
			}
			if asJSON {
				return printJSON(w, res)
			}
			_, err = fmt.Fprintf(w, "%d readings, %d failed; refresh: %s%s\n", res.Readings, res.Failed, refreshText(&res.Refresh), suffix("; the trace is damaged: ", res.Damaged))
			return err
		},
	}
	f.add(cmd)
	addJSON(cmd, &asJSON)
	return cmd
}

// suffix is text with something before it, or nothing.
func suffix(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

// step puts one reading's outcome in the terms of the result.
func (f *playFlags) step(s *trace.Step, ports []counters.PipelinePort) replayStep {
	out := replayStep{Time: s.Read.UTC(), Ports: []replayPort{}}
	if s.Err != nil {
		out.Error = s.Err.Error()
		return out
	}
	for i := range s.Ports {
		p := &s.Ports[i]
		if len(f.ports) > 0 && !slices.Contains(f.ports, p.Port) {
			continue
		}
		rp := replayPort{Port: p.Port, State: p.Now.State.String(), Reason: findings.Join(slowLink(&p.PortState, ports[i].Speed), p.Now.Reason), Signals: []replaySignal{}}
		if p.Now.State.Valid() {
			load, abw, abwc := p.Now.Load(), p.Now.ABW, p.Now.ABWC
			rp.LoadBPS, rp.ABWBPS, rp.ABWCPPM = &load, &abw, &abwc
		}
		if p.Known {
			rp.Signals = replaySignals(p.Signals)
		}
		out.Ports = append(out.Ports, rp)
	}
	return out
}

func newCountersShow() *cobra.Command {
	var (
		f      playFlags
		svg    string
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "show TRACE",
		Short: "Draw a trace: utilisation and buckets over time",
		Example: `  csig counters show leaf7.trace
  csig counters show leaf7.trace -i fleet.yaml --port swp1 -o swp1.svg`,
		Args: oneArg("TRACE"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if ext := strings.ToLower(filepath.Ext(svg)); svg != "" && ext != ".svg" {
				return fmt.Errorf("-o %s: what is drawn is SVG: name a file that ends in .svg", svg)
			}
			r, cfg, closeTrace, err := f.config(args[0])
			if err != nil {
				return err
			}
			defer closeTrace() //nolint:errcheck // it was only read
			chart, err := trace.NewChart(r.Header(), cfg.Tables, f.ports...)
			if err != nil {
				return err
			}
			sum, err := trace.Play(r, cfg, func(s *trace.Step) error { chart.Add(s); return nil })
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if sum.Damaged != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "csig: %s ends before its end, after %d readings: %v\n", args[0], sum.Readings, sum.Damaged)
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), chart.Result())
			}
			if svg == "" {
				return chart.WriteText(cmd.OutOrStdout(), columns())
			}
			file, err := createNew(svg)
			if err != nil {
				return fmt.Errorf("-o %w", err)
			}
			left, err := chart.WriteSVG(file)
			if err = errors.Join(err, file.Close()); err != nil {
				return fmt.Errorf("-o %w", err)
			}
			if left > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "csig: %d less loaded ports are not drawn; choose with --port\n", left)
			}
			return nil
		},
	}
	f.add(cmd)
	addJSON(cmd, &asJSON)
	cmd.Flags().StringVarP(&svg, "output", "o", "", "draw into this new .svg file instead of the terminal")
	cmd.MarkFlagsMutuallyExclusive("json", "output")
	return cmd
}

// columns is how wide the terminal is.
func columns() int {
	if w, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && w >= 40 {
		return w
	}
	return 80
}
