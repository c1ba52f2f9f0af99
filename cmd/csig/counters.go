package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/counters/fleet"
	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
)

func newCounters() *cobra.Command {
	return group("counters", "Read, record and replay a device's byte counters", `  csig counters scan leaf7.example.net -v 2c -c file:community
  csig counters read -i fleet.yaml
  csig counters show leaf7.trace`, newCountersScan(), newCountersRead(), newCountersWatch(), newCountersRecord(), newCountersReplay(), newCountersShow())
}

// deviceFlags choose a device of a fleet file.
type deviceFlags struct {
	file, device string
	every        time.Duration
}

func (f *deviceFlags) add(cmd *cobra.Command) {
	addFleet(cmd, &f.file)
	cmd.Flags().StringVar(&f.device, "device", "", "device of the fleet file (default: the local one, or the only one)")
	cmd.Flags().DurationVar(&f.every, "every", 0, "time between two readings (default: the device's schedule)")
}

// open loads the file and opens the device's counter source.
func (f *deviceFlags) open(ctx context.Context) (*inventory.Fleet, *inventory.Device, counters.Source, error) {
	fleet, err := device.LoadFleet(f.file)
	if err != nil {
		return nil, nil, nil, err
	}
	dev, err := pickDevice(fleet, f.device)
	if err != nil {
		return nil, nil, nil, err
	}
	if f.every == 0 {
		if f.every, err = device.PollPeriod(dev); err != nil {
			return nil, nil, nil, err
		}
	}
	if f.every < inventory.MinPeriod {
		return nil, nil, nil, fmt.Errorf("--every %v: want %v or more", f.every, inventory.MinPeriod)
	}
	src, err := device.OpenSource(ctx, &fleet.Profile, dev, f.every)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("device %s: counters: %w", dev.Name, err)
	}
	return fleet, dev, src, nil
}

func pickDevice(fleet *inventory.Fleet, name string) (*inventory.Device, error) {
	if name != "" {
		if dev, ok := fleet.Device(name); ok {
			return dev, nil
		}
		var names []string
		for i := range fleet.Devices {
			names = append(names, fleet.Devices[i].Name)
		}
		return nil, fmt.Errorf("%s has no device %q; it has %s", fleet.Path, name, strings.Join(names, ", "))
	}
	if len(fleet.Devices) == 1 {
		return &fleet.Devices[0], nil
	}
	dev, err := fleet.LocalDevice()
	if err != nil {
		return nil, fmt.Errorf("%w; or choose one with --device", err)
	}
	return dev, nil
}

// readResult is what counters read finds.
type readResult struct {
	Format       string                 `json:"format"`
	Device       string                 `json:"device"`
	Source       string                 `json:"source"`
	Readings     int                    `json:"readings"`
	Failed       int                    `json:"failed"`
	FailingPorts int                    `json:"failing_ports"` // that could not be read in the last good reading
	EveryNS      int64                  `json:"every_ns"`
	ReadP50NS    int64                  `json:"read_p50_ns"` // how long a reading takes
	ReadMaxNS    int64                  `json:"read_max_ns"`
	Refresh      counters.RefreshStatus `json:"refresh"`
	Limitations  []string               `json:"limitations"` // what the source does not show
	Details      []string               `json:"details"`     // how it is read
	Ports        []portResult           `json:"ports"`
	LastError    string                 `json:"last_error"`
	IntervalNS   int64                  `json:"interval_ns"`
	ShortestNS   int64                  `json:"shortest_interval_ns"` // the shortest honest Δt: a refresh, or a reading
	IntervalNote string                 `json:"interval_note"`        // what is wrong with the configured Δt; "" for nothing

	unreadable error // no port could ever be read
}

// refreshText is how a source refreshes its counters, in a few words.
func refreshText(r *counters.RefreshStatus) string {
	switch {
	case r.Stuck:
		return "STUCK: no counter has moved for longer than expected"
	case r.Kind == counters.RefreshLive:
		return "live: every reading is current"
	case r.Kind == counters.RefreshHidden:
		return fmt.Sprintf("hidden: it refreshes every %v, between the readings", r.Period.Round(time.Millisecond))
	case r.Period == 0:
		return r.Kind.String() + "; more readings, or some traffic, would show it"
	}
	return fmt.Sprintf("%s, every %v ± %v", r.Kind, r.Period.Round(time.Microsecond), r.PeriodError.Round(time.Microsecond))
}

type portResult struct {
	Port     string   `json:"port"`
	MemberOf string   `json:"member_of"` // the aggregate that it was added for; "" for a port of the file
	Members  []string `json:"members"`   // of an aggregate
	Up       *bool    `json:"up"`        // null, as all that follows, where it is not known
	Octets   *uint64  `json:"octets"`
	Packets  *uint64  `json:"packets"`
	Bits     *uint8   `json:"counter_bits"`
	Overhead *uint8   `json:"overhead_bytes"`
	State    string   `json:"state"`
	measured
	Note string `json:"note"`

	slow, other string // of the note: findings.SlowLink, and the rest
}

// measured is what was measured of a port in its newest complete window; null before
// the first.
type measured struct {
	SpeedBPS      *uint64        `json:"speed_bps"` // the capacity; null while unknown
	LoadBPS       *uint64        `json:"load_bps"`
	ABWBPS        *uint64        `json:"abw_bps"`
	WindowNS      *int64         `json:"window_ns"` // the achieved Δt of load and ABW
	WindowErrorNS *int64         `json:"window_error_ns"`
	Signals       []replaySignal `json:"signals"`
}

// measuredOf is a port's window; speed is the capacity before there is one.
func measuredOf(v *fleet.PortView, speed uint64) measured {
	if v.Seen.IsZero() {
		return measured{SpeedBPS: known(speed), Signals: []replaySignal{}}
	}
	e := v.Last // of its own: views are used again
	start, give := e.Likely()
	load, window, off := e.Load(), e.End.Sub(start).Nanoseconds(), give.Nanoseconds()
	return measured{known(e.Capacity), &load, &e.ABW, &window, &off, replaySignals(v.Signals)}
}

func newCountersRead() *cobra.Command {
	var (
		f      deviceFlags
		count  int
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "read -i FLEET",
		Short: "Show what a device's counter source gives, how fast, how fresh, and its limitations",
		Long: `Read the egress counters of a device of the fleet file a few times, and show what
the source gives, how long a reading takes, how often the source refreshes its
numbers, and its limitations. Of a port that is a link aggregate the members
are read as well. Nothing is changed on the device.`,
		Example: `  csig counters read -i fleet.yaml
  csig counters read -i fleet.yaml --device leaf7 --every 1s --count 30`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if count < 2 {
				return fmt.Errorf("--count %d: a rate takes two readings or more", count)
			}
			file, dev, src, err := f.open(cmd.Context())
			if err != nil {
				return err
			}
			lags, why := aggregates(cmd.Context(), src, dev)
			if len(lags) > 0 { // read again, with the members
				if err := src.Close(); err != nil {
					return err
				}
				dev = lags.expand(dev)
				if src, err = device.OpenSource(cmd.Context(), &file.Profile, dev, f.every); err != nil {
					return fmt.Errorf("device %s: counters: %w", dev.Name, err)
				}
			}
			defer src.Close()
			res, err := readCounters(cmd.Context(), file, dev, src, f.every, count)
			if err != nil {
				return err
			}
			lags.note(res, why)
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), res)
			} else {
				err = res.write(cmd.OutOrStdout())
			}
			if err == nil && res.unreadable != nil {
				err = ofDevice(dev, res.unreadable)
			}
			return err
		},
	}
	f.add(cmd)
	cmd.Flags().IntVar(&count, "count", 10, "how many readings")
	addJSON(cmd, &asJSON)
	return cmd
}

// readCounters reads a source count times; Ctrl-C ends it early with what there
// is by then.
func readCounters(ctx context.Context, file *inventory.Fleet, dev *inventory.Device, src counters.Source, every time.Duration, count int) (*readResult, error) {
	res := &readResult{
		Format: "csig.counters/v1", Device: dev.Name, Source: device.SourceName(dev), EveryNS: every.Nanoseconds(),
		IntervalNS: dev.Interval.Nanoseconds(), Limitations: []string{}, Details: []string{}, Ports: []portResult{},
	}
	setup, err := countedPipeline(file, dev)
	if err != nil {
		return nil, err
	}
	store, err := fleet.NewStore([]counters.PipelineConfig{setup})
	if err != nil {
		return nil, err
	}
	var buf, last []counters.Sample
	var took []time.Duration
	when := cadence{every: every}
	for n := 0; n < count; {
		scheduled, err := when.wait(ctx)
		if err != nil {
			break
		}
		if scheduled {
			n++
		}
		start := time.Now()
		buf, err = src.Read(ctx, buf[:0])
		if errors.Is(err, context.Canceled) {
			break
		}
		end := time.Now()
		res.Readings++
		took = append(took, end.Sub(start))
		reading := fleet.Reading{Device: dev.Name, Start: start, End: end, Next: when.next, Err: err, Samples: buf}
		store.Take(&reading)
		when.look = reading.Look
		if err != nil {
			res.Failed++
			res.LastError = err.Error()
			continue
		}
		last = append(last[:0], buf...)
	}
	if res.Readings == res.Failed {
		if res.LastError == "" {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("device %s: none of %d readings succeeded: %s", dev.Name, res.Readings, strings.TrimPrefix(res.LastError, "device "+dev.Name+": "))
	}
	slices.Sort(took)
	res.ReadP50NS, res.ReadMaxNS = took[len(took)/2].Nanoseconds(), took[len(took)-1].Nanoseconds()
	ever := false
	for i, v := range store.Ports(0, nil) {
		res.Ports = append(res.Ports, portOf(&last[i], &v, dev.Ports[i].Speed))
		if v.Err != nil {
			res.FailingPorts++
		}
		ever = ever || !v.Read.IsZero()
	}
	if !ever {
		res.unreadable = noPort(last)
	}
	res.Refresh = store.Refresh(0)
	res.Details, res.Limitations = device.SourceDetails(src)
	res.judgeInterval(dev.Interval)
	return res, nil
}

// judgeInterval returns whether the source can serve the configured Δt.
func (r *readResult) judgeInterval(interval time.Duration) {
	r.ShortestNS = r.ReadMaxNS
	if !r.Refresh.Kind.EveryReading() {
		r.ShortestNS = max(r.ShortestNS, r.Refresh.Period.Nanoseconds())
	}
	if r.IntervalNote = r.Refresh.IntervalNote(interval); r.IntervalNote == "" && interval < time.Duration(r.ReadMaxNS) {
		r.IntervalNote = fmt.Sprintf("Δt is %v, but a reading takes up to %v: make the device's interval at least that", interval, micros(r.ReadMaxNS))
	}
}

// ofDevice names the device of err, unless err does so itself.
func ofDevice(dev *inventory.Device, err error) error {
	if prefix := "device " + dev.Name + ": "; !strings.HasPrefix(err.Error(), prefix) {
		return fmt.Errorf("%s%w", prefix, err)
	}
	return err
}

// noPort is the error of a device that answers, but about none of its ports.
func noPort(samples []counters.Sample) error {
	for i := range samples {
		if err := samples[i].Err; err != nil {
			return fmt.Errorf("none of its %d ports could be read; the first: port %s: %w", len(samples), samples[i].Port, err)
		}
	}
	return errors.New("no port could be read")
}

// known is a number that was measured, or nil for 0, which no capacity is.
func known(n uint64) *uint64 {
	if n == 0 {
		return nil
	}
	return &n
}

// slowLink is why the capacity of a port is less than the fleet file's speed, "" where it is not.
func slowLink(s *counters.PortState, speed uint64) string {
	if s.Slow == 0 || s.Now.State == counters.Error {
		return ""
	}
	return findings.SlowLinkReason(speed, s.Slow)
}

// portOf is a port after its last reading; speed is the fleet file's.
func portOf(s *counters.Sample, v *fleet.PortView, speed uint64) portResult {
	p := portResult{Port: v.Port, State: v.Now.State.String(), Members: []string{}}
	if s.Err != nil {
		p.other = s.Err.Error()
		p.Note, p.measured = p.other, measured{SpeedBPS: known(speed), Signals: []replaySignal{}}
		return p
	}
	p.Up, p.Octets, p.Packets, p.Bits, p.Overhead = &s.Up, &s.Octets, &s.Packets, &s.Bits, &s.Overhead
	p.slow, p.other = slowLink(&v.PortState, speed), cmp.Or(v.Now.Reason, s.Degraded)
	p.Note = findings.Join(p.slow, p.other)
	p.measured = measuredOf(v, counters.Capacity(speed, s.Speed))
	return p
}

func (r *readResult) write(w io.Writer) error {
	failing := ""
	if r.FailingPorts > 0 {
		failing = fmt.Sprintf("; %d of %d ports cannot be read", r.FailingPorts, len(r.Ports))
	}
	fmt.Fprintf(w, "%s  source %s  %d readings every %v, %d failed%s\n", r.Device, r.Source, r.Readings, time.Duration(r.EveryNS), r.Failed, failing)
	fmt.Fprintf(w, "a reading takes %v (median), %v at most\n", micros(r.ReadP50NS), micros(r.ReadMaxNS))
	fmt.Fprintf(w, "refresh: %s\n", refreshText(&r.Refresh))
	if r.IntervalNote != "" {
		fmt.Fprintln(w, "interval:", r.IntervalNote)
	}
	for _, d := range r.Details {
		fmt.Fprintln(w, "how:", d)
	}
	for _, l := range r.Limitations {
		fmt.Fprintln(w, "limitation:", l)
	}
	if r.LastError != "" {
		fmt.Fprintln(w, "last error:", r.LastError)
	}
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "PORT\tLINK\tSPEED\tOCTETS\tPACKETS\tBITS\tOVERHEAD\tSTATE\tΔt\tLOAD\tABW\tBUCKETS\tNOTE")
	for i := range r.Ports {
		p := &r.Ports[i]
		link, overhead, window := "-", "-", "-"
		if p.Up != nil {
			link = map[bool]string{true: "up", false: "down"}[*p.Up]
		}
		if p.Overhead != nil {
			overhead = fmt.Sprintf("%d B", *p.Overhead)
		}
		if p.WindowNS != nil && *p.WindowNS > 0 {
			window = short(*p.WindowNS).String()
		}
		if p.WindowErrorNS != nil && *p.WindowErrorNS > 0 {
			window += "±" + short(*p.WindowErrorNS).String()
		}
		var buckets []string
		for _, g := range p.Signals {
			buckets = append(buckets, g.text())
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.Port, link, bpsOrDash(p.SpeedBPS), numberOrDash(p.Octets), numberOrDash(p.Packets), numberOrDash(p.Bits), overhead,
			p.State, window, bpsOrDash(p.LoadBPS), bpsOrDash(p.ABWBPS), orDash(strings.Join(buckets, " ")), p.Note)
	}
	return tw.Flush()
}

func numberOrDash[N uint8 | uint64](n *N) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}

func bpsOrDash(n *uint64) string {
	if n == nil {
		return "-"
	}
	return bps(*n)
}
