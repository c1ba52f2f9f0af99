package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/counters/fleet"
	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/findings"
)

// watchSpread is how durations are spread; of a histogram whose classes are a fifth
// wide.
type watchSpread struct {
	Count uint64 `json:"count"`
	P50NS int64  `json:"p50_ns"`
	P99NS int64  `json:"p99_ns"`
	MaxNS int64  `json:"max_ns"`
}

func spreadOf(h *fleet.Histogram) watchSpread {
	return watchSpread{h.Count(), h.Quantile(0.5).Nanoseconds(), h.Quantile(0.99).Nanoseconds(), h.Max().Nanoseconds()}
}

func (s watchSpread) text() string {
	if s.Count == 0 {
		return "-"
	}
	return fmt.Sprintf("%v median, %v p99, %v at most", short(s.P50NS), short(s.P99NS), short(s.MaxNS))
}

// short is a duration with about three digits.
func short(ns int64) time.Duration {
	d, unit := time.Duration(ns), time.Duration(1)
	for d >= 1000*unit {
		unit *= 10
	}
	return d.Round(unit)
}

// overdue is after how many times the distance of two readings a reading that does
// not end makes what is known stale.
const overdue = 3

// watchFleet is the fleet in a report.
type watchFleet struct {
	Format    string      `json:"format"`
	Time      time.Time   `json:"time"`
	ElapsedNS int64       `json:"elapsed_ns"`
	Devices   int         `json:"devices"`
	Ports     int         `json:"ports"`
	PortsBad  int         `json:"failing_ports"` // that could not be read in their device's newest reading
	Good      int         `json:"good"`          // devices whose last reading gave one port at least
	Failing   int         `json:"failing"`       // devices whose last reading gave none
	Unread    int         `json:"unread"`        // without any yet
	Running   int         `json:"running"`       // readings under way
	Reads     uint64      `json:"reads"`
	Failed    uint64      `json:"failed"`
	Missed    uint64      `json:"missed"` // slots without a reading
	Late      watchSpread `json:"late"`   // from a slot to the start of its reading
	Took      watchSpread `json:"took"`   // how long readings took
	Age       watchSpread `json:"age"`    // of the devices' last good readings, now
}

func (w *watch) fleetLine(now time.Time) watchFleet {
	s := w.fleet.Status()
	bad := 0
	var views []fleet.PortView
	var ages fleet.Histogram
	for i := range w.devices {
		d := w.fleet.Device(i)
		if age := w.age(i, &d, now); age != nil {
			ages.Add(time.Duration(*age))
		}
		s.Failed += w.store.Answers(i).Mute
		if d.Fails > 0 {
			continue // counted there
		}
		views = w.store.Ports(i, views)
		n := 0
		for j := range views {
			if views[j].Err != nil {
				n++
			}
		}
		if bad += n; n > 0 && n == len(views) {
			s.Good--
			s.Failing++
		}
	}
	return watchFleet{
		Format: "csig.watch/v1", Time: now, ElapsedNS: now.Sub(w.started).Nanoseconds(), Devices: s.Devices, Ports: w.ports, PortsBad: bad,
		Good: s.Good, Failing: s.Failing, Unread: s.Unread, Running: s.Running, Reads: s.Reads, Failed: s.Failed, Missed: s.Missed,
		Late: spreadOf(&s.Late), Took: spreadOf(&s.Took), Age: spreadOf(&ages),
	}
}

// watchDevice is one device in a report.
type watchDevice struct {
	Format       string                 `json:"format"`
	Time         time.Time              `json:"time"`
	Device       string                 `json:"device"`
	Source       string                 `json:"source"`
	Reads        uint64                 `json:"reads"`
	Failed       uint64                 `json:"failed"`
	Missed       uint64                 `json:"missed"`
	Fails        int                    `json:"fails"`      // in a row up to now
	Error        string                 `json:"error"`      // of the last reading
	AgeNS        *int64                 `json:"age_ns"`     // of the last good reading; null before the first
	RunningNS    int64                  `json:"running_ns"` // how long a reading has been under way; 0 for none
	LastLateNS   int64                  `json:"last_late_ns"`
	LastTookNS   int64                  `json:"last_took_ns"`
	Late         watchSpread            `json:"late"`
	Took         watchSpread            `json:"took"`
	Refresh      counters.RefreshStatus `json:"refresh"`
	IntervalNS   int64                  `json:"interval_ns"`
	IntervalNote string                 `json:"interval_note"` // why the configured Δt is not the achieved one
	Ports        []watchPort            `json:"ports"`

	portsBad int
	portNote string // which ports could not be read, and why
}

type watchPort struct {
	Port   string `json:"port"`
	State  string `json:"state"` // of the newest reading; unread before the first
	Reason string `json:"reason"`
	measured
	ABWCPPM *uint32 `json:"abwc_ppm"` // of that window
	AgeNS   *int64  `json:"age_ns"`   // since it ended; null before the first
}

// age is that of a device's last reading with a port; nil before the first.
func (w *watch) age(i int, d *fleet.DeviceStatus, now time.Time) *int64 {
	good, age := d.Good, d.Age.Nanoseconds()
	if a := w.store.Answers(i); a.InRow > 0 {
		good, age = a.Good, now.Sub(a.Good).Nanoseconds()
	}
	if good.IsZero() {
		return nil
	}
	return &age
}

func (w *watch) deviceLine(i int, now time.Time, views *[]fleet.PortView) watchDevice {
	dev, d, rs := w.devices[i], w.fleet.Device(i), w.store.Refresh(i)
	out := watchDevice{
		Format: "csig.watch-device/v1", Time: now, Device: dev.Name, Source: device.SourceName(dev),
		Reads: d.Reads, Failed: d.Failed, Missed: d.Missed, Fails: d.Fails, Error: d.Error, RunningNS: d.Running.Nanoseconds(),
		LastLateNS: d.LastLate.Nanoseconds(), LastTookNS: d.LastTook.Nanoseconds(), Late: spreadOf(&d.Late), Took: spreadOf(&d.Took),
		Refresh: rs, IntervalNS: dev.Interval.Nanoseconds(), IntervalNote: rs.IntervalNote(dev.Interval), Ports: []watchPort{},
	}
	out.AgeNS = w.age(i, &d, now)
	answers := w.store.Answers(i)
	out.Failed += answers.Mute
	if out.Fails == 0 {
		out.Fails = answers.InRow // the device answers, and about none of its ports
	}
	*views = w.store.Ports(i, *views)
	for j := range *views {
		v := &(*views)[j]
		p := watchPortOf(v, dev.Ports[j].Speed, now)
		if d.Running > overdue*d.Interval && d.Fails == 0 && p.State != "unread" {
			p.State, p.Reason = counters.Stale.String(), fmt.Sprintf("the device is being read for %v", d.Running.Round(time.Second))
		}
		out.Ports = append(out.Ports, p)
		if v.Err != nil && d.Fails == 0 {
			out.portsBad++
			if out.portNote == "" {
				out.portNote = "port " + v.Port + ": " + v.Err.Error()
			}
		}
	}
	if out.portsBad > 1 {
		out.portNote = fmt.Sprintf("%d ports cannot be read; the first: %s", out.portsBad, out.portNote)
	}
	if out.Fails > 0 && out.Error == "" {
		out.Error = out.portNote
	}
	return out
}

func watchPortOf(v *fleet.PortView, speed uint64, now time.Time) watchPort {
	p := watchPort{Port: v.Port, State: v.Now.State.String(), Reason: findings.Join(slowLink(&v.PortState, speed), v.Now.Reason), measured: measuredOf(v, cmp.Or(v.Now.Capacity, speed))}
	if v.Now.End.IsZero() {
		p.State = "unread"
	}
	if !v.Seen.IsZero() {
		age, abwc := max(now.Sub(v.Ended).Nanoseconds(), 0), v.Last.ABWC
		p.AgeNS, p.ABWCPPM = &age, &abwc
	}
	return p
}

// text is a report for people: the fleet, then the devices, those in trouble first.
func (w *watch) text() string {
	out := &strings.Builder{}
	now := time.Now()
	f := w.fleetLine(now)
	bad := ""
	if f.PortsBad > 0 {
		bad = fmt.Sprintf("; ports that cannot be read: %d", f.PortsBad)
	}
	fmt.Fprintf(out, "%s, %s, %v: %d good, %d failing, %d not read yet, %d being read%s\n",
		count(f.Devices, "device"), ports(f.Ports), time.Duration(f.ElapsedNS).Round(time.Second), f.Good, f.Failing, f.Unread, f.Running, bad)
	fmt.Fprintf(out, "readings %d, %d failed, slots missed %d\n", f.Reads, f.Failed, f.Missed)
	fmt.Fprintf(out, "late     %s\ntook     %s\nage now  %s\n\n", f.Late.text(), f.Took.text(), f.Age.text())

	var views []fleet.PortView
	order := make([]int, len(w.devices))
	status := make([]fleet.DeviceStatus, len(w.devices))
	trouble := make([]int, len(w.devices))
	for i := range order {
		order[i], status[i] = i, w.fleet.Device(i)
		if views = w.store.Ports(i, views); status[i].Fails > 0 {
			trouble[i] = 2
		} else if slices.ContainsFunc(views, func(v fleet.PortView) bool { return v.Err != nil }) {
			trouble[i] = 1
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &status[a], &status[b]
		return cmp.Or(cmp.Compare(trouble[b], trouble[a]), cmp.Compare(short(y.Age.Nanoseconds())/time.Second, short(x.Age.Nanoseconds())/time.Second), cmp.Compare(w.devices[a].Name, w.devices[b].Name))
	})
	shown := order
	if w.rows > 0 && len(shown) > w.rows {
		shown = shown[:w.rows]
	}
	tw := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "DEVICE\tSOURCE\tAGE\tLATE\tTOOK\tREADS\tFAILED\tMISSED\tREFRESH\tPORTS\tNOTE")
	for _, i := range shown {
		l := w.deviceLine(i, now, &views)
		age := "-"
		if l.AgeNS != nil {
			age = short(*l.AgeNS).String()
		}
		live, doubtful := 0, 0
		for _, p := range l.Ports {
			if p.AgeNS != nil {
				live++
			}
			if slices.ContainsFunc(p.Signals, func(s replaySignal) bool { return s.Doubtful }) {
				doubtful++
			}
		}
		ports := fmt.Sprintf("%d/%d", live, len(l.Ports))
		if doubtful > 0 {
			ports += fmt.Sprintf(", %d in doubt", doubtful)
		}
		refresh := l.Refresh.Kind.String()
		if l.Refresh.Period > 0 && l.Refresh.Kind != counters.RefreshLive {
			refresh += fmt.Sprintf(" %v±%v", short(l.Refresh.Period.Nanoseconds()), short(l.Refresh.PeriodError.Nanoseconds()))
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%v\t%v\t%d\t%d\t%d\t%s\t%s\t%s\n", l.Device, l.Source, age,
			short(l.LastLateNS), short(l.LastTookNS), l.Reads, l.Failed, l.Missed, refresh, ports, cmp.Or(l.Error, l.portNote, l.IntervalNote))
	}
	_ = tw.Flush() // a Builder takes everything
	if left := len(order) - len(shown); left > 0 {
		fmt.Fprintf(out, "and %d more (--rows 0 shows all)\n", left)
	}
	return out.String()
}
