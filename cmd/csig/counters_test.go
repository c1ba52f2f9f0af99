package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/counters/fleet"
	"github.com/csig-agent/csig/counters/trace"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
)

const countersFleet = `
format: csig.fleet/v1
profile:
  name: lab
  tpid: 0x9900
  interval: 1s
  signals:
    abw: {buckets: log-1G}
    abwc: {buckets: linear}
devices:
  - name: leaf1
    platform: sonic
    address: 127.0.0.1
    counters: {source: snmp, snmp: {version: 2c, port: %d, community: {env: CSIG_TEST_COMMUNITY}, timeout: 20ms, retries: 0}}
    ports:
      - {name: lag1, speed: 2G, lm: 17}
      - {name: swp3, speed: 1G, lm: 18}
  - name: leaf2
    platform: linux
    ports:
      - {name: lo, speed: 1G, lm: 19}
`

func writeFleet(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// grouped is a source with link aggregates.
type grouped struct {
	members map[string][]string
	err     error
}

func (g grouped) Read(context.Context, []counters.Sample) ([]counters.Sample, error) {
	return nil, g.err
}
func (g grouped) Close() error                                         { return nil }
func (g grouped) Members(context.Context) (map[string][]string, error) { return g.members, g.err }

func TestMembersOfAnAggregateAreReadToo(t *testing.T) {
	file, err := inventory.Parse("fleet.yaml", fmt.Appendf(nil, countersFleet, 161))
	if err != nil {
		t.Fatal(err)
	}
	dev, _ := file.Device("leaf1")
	found, why := aggregates(t.Context(), grouped{members: map[string][]string{
		"lag1": {"swp1", "swp2", "swp3"}, "lag9": {"swp8", "swp9"}, // the latter is not in the file
	}}, dev)
	if why != "" || len(found) != 1 {
		t.Fatalf("%v, %q", found, why)
	}
	wide := found.expand(dev)
	if got, want := wide.PortNames(), []string{"lag1", "swp3", "swp1", "swp2"}; !slices.Equal(got, want) || len(dev.Ports) != 2 {
		t.Errorf("%v, want %v; the device has now %v", got, want, dev.PortNames())
	}
	res := readResult{}
	for _, p := range wide.Ports {
		res.Ports = append(res.Ports, portResult{Port: p.Name})
	}
	found.note(&res, "")
	for i, want := range []string{"", "lag1", "lag1", "lag1"} {
		if res.Ports[i].MemberOf != want {
			t.Errorf("%s is a member of %q, want %q", res.Ports[i].Port, res.Ports[i].MemberOf, want)
		}
	}
	if len(res.Ports[0].Members) != 3 || len(res.Limitations) != 1 || !strings.Contains(res.Limitations[0], "swp1, swp2, swp3") {
		t.Errorf("%+v", res)
	}
	if found, why := aggregates(t.Context(), grouped{err: errors.New("no such table")}, dev); len(found) != 0 || why != "no such table" {
		t.Errorf("%v, %q", found, why)
	}
}

// watchLines runs csig counters watch and returns its lines of JSON.
func watchLines(t *testing.T, args ...string) (devices []watchDevice, fleets []watchFleet, err error) {
	t.Helper()
	var out bytes.Buffer
	root := newRoot()
	root.SetOut(&out)
	root.SetArgs(append([]string{"counters", "watch", "--json"}, args...))
	err = root.ExecuteContext(t.Context())
	lines := bufio.NewScanner(&out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var kind struct{ Format string }
		if err := json.Unmarshal(lines.Bytes(), &kind); err != nil {
			t.Fatalf("%v in %s", err, lines.Text())
		}
		var into any
		switch kind.Format {
		case "csig.watch-device/v1":
			devices = append(devices, watchDevice{})
			into = &devices[len(devices)-1]
		case "csig.watch/v1":
			fleets = append(fleets, watchFleet{})
			into = &fleets[len(fleets)-1]
		default:
			t.Fatalf("format %q", kind.Format)
		}
		if err := json.Unmarshal(lines.Bytes(), into); err != nil {
			t.Fatal(err)
		}
	}
	return devices, fleets, err
}

func TestWatch(t *testing.T) {
	t.Setenv("CSIG_TEST_COMMUNITY", "public")
	mute, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}) // never answers
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	text := fmt.Sprintf(countersFleet, mute.LocalAddr().(*net.UDPAddr).Port)

	// atLast runs a check that watches for ever longer: a busy machine reads late.
	atLast := func(t *testing.T, check func(duration string) error) {
		t.Helper()
		var err error
		for d := time.Second; d <= 16*time.Second; d *= 2 {
			if err = check(d.String()); err == nil {
				return
			}
			t.Log(err)
		}
		t.Fatal(err)
	}

	t.Run("a device that answers and one that does not", func(t *testing.T) {
		if runtime.GOOS != "linux" {
			t.Skip("the device that answers is this kernel")
		}
		file := writeFleet(t, strings.Replace(text, "platform: linux\n", "platform: linux\n    local: true\n", 1))
		atLast(t, func(duration string) error { return watchesBoth(t, file, duration) })
	})
	t.Run("nothing answers", func(t *testing.T) {
		atLast(t, func(duration string) error {
			_, fleets, err := watchLines(t, "-i", writeFleet(t, text), "--device", "leaf1", "--every", "100ms", "--duration", duration)
			if err == nil || !strings.Contains(err.Error(), "none of ") || len(fleets) == 0 || fleets[0].Devices != 1 {
				return fmt.Errorf("%+v, %w", fleets, err)
			}
			return nil
		})
	})
	t.Run("a switch that only its own agent can read", func(t *testing.T) {
		// The other one is watched all the same.
		atLast(t, func(duration string) error {
			_, fleets, err := watchLines(t, "-i", writeFleet(t, text), "--every", "100ms", "--duration", duration)
			if err == nil || len(fleets) == 0 || fleets[0].Devices != 1 || !strings.Contains(err.Error(), "device leaf1") {
				return fmt.Errorf("%+v, %w", fleets, err)
			}
			return nil
		})
	})
	t.Run("nothing read in the time", func(t *testing.T) {
		_, fleets, err := watchLines(t, "-i", writeFleet(t, text), "--device", "leaf1", "--every", "1h", "--duration", "20ms")
		if err == nil || !strings.Contains(err.Error(), "no reading has ended yet") || len(fleets) != 1 || fleets[0].Unread != 1 {
			t.Errorf("%+v, %v", fleets, err)
		}
	})
	t.Run("a device that answers about none of its ports", func(t *testing.T) {
		if runtime.GOOS != "linux" {
			t.Skip("the device that answers is this kernel")
		}
		file := writeFleet(t, strings.ReplaceAll(strings.Replace(text, "platform: linux\n", "platform: linux\n    local: true\n", 1), "name: lo,", "name: nowhere0,"))
		atLast(t, func(duration string) error {
			devices, fleets, err := watchLines(t, "-i", file, "--device", "leaf2", "--every", "100ms", "--duration", duration)
			if err == nil || len(devices) != 1 || len(fleets) != 1 {
				return fmt.Errorf("%+v, %+v, %w", devices, fleets, err)
			}
			d, f := devices[0], fleets[0]
			if d.Reads == 0 || d.Fails != int(d.Reads) || d.Failed != d.Reads || d.AgeNS != nil || !strings.Contains(d.Error, "no such interface") || f.Good != 0 || f.Failing != 1 || f.Failed != f.Reads || f.Age.Count != 0 {
				return fmt.Errorf("%+v\n%+v", d, f)
			}
			return nil
		})
	})
	t.Run("no such device", func(t *testing.T) {
		_, _, err := watchLines(t, "-i", writeFleet(t, text), "--device", "leaf1,leaf7")
		if err == nil || !strings.Contains(err.Error(), `no device "leaf7"`) {
			t.Errorf("%v", err)
		}
	})
}

// watchesBoth watches leaf1, which never answers, and the device of a fleet file
// that is here.
func watchesBoth(t *testing.T, file, duration string) error {
	t.Helper()
	devices, fleets, err := watchLines(t, "-i", file, "--every", "100ms", "--report", "400ms", "--duration", duration)
	if err != nil || len(fleets) < 2 || len(devices) != 2*len(fleets) {
		return fmt.Errorf("%d devices, %d fleets, %w", len(devices), len(fleets), err)
	}
	dead, here, sum := devices[len(devices)-2], devices[len(devices)-1], fleets[len(fleets)-1]
	if dead.Device != "leaf1" || dead.Reads == 0 || dead.Failed != dead.Reads || dead.AgeNS != nil || !strings.Contains(dead.Error, "no answer") ||
		strings.Count(dead.Error, "device leaf1") != 1 || len(dead.Ports) != 2 || dead.Ports[0].State != "error" || dead.Missed == 0 {
		return fmt.Errorf("dead: %+v", dead)
	}
	if here.Failed != 0 || here.Reads < 2 || here.Reads+here.Missed < 8 || here.AgeNS == nil || *here.AgeNS > int64(time.Second) || here.Late.Count != here.Reads ||
		here.Refresh.Kind != counters.RefreshLive || here.Ports[0].State != "ok" || len(here.Ports[0].Signals) != 2 || here.Ports[0].AgeNS == nil {
		return fmt.Errorf("here: %+v", here)
	}
	if sum.Good != 1 || sum.Failing != 1 || sum.Ports != 3 || sum.Reads != dead.Reads+here.Reads || sum.Failed != dead.Failed || sum.Late.MaxNS == 0 {
		return fmt.Errorf("%+v", sum)
	}
	return nil
}

// What was measured of a device is what it is now: the ports of one that stops answering
// are in error, and those of one whose reading does not end are stale.
func TestWatchOfDyingDevices(t *testing.T) {
	w := &watch{started: time.Now(), ports: 2}
	hang, cut := make(chan struct{}), make(chan struct{})
	sources := []*mortal{{then: func(ctx context.Context) error { return errors.New("it is off") }}, {then: func(context.Context) error { <-hang; return nil }}}
	cfg := fleet.Config{Interval: 20 * time.Millisecond}
	var setups []counters.PipelineConfig
	for i, name := range []string{"off", "hangs"} {
		sources[i].dies = cut
		w.devices = append(w.devices, &inventory.Device{Name: name, Platform: "sonic", Interval: time.Second, Ports: []inventory.Port{{Name: "swp1"}}})
		cfg.Devices = append(cfg.Devices, fleet.Device{Name: name, Open: func(context.Context) (counters.Source, error) { return sources[i], nil }})
		setups = append(setups, counters.PipelineConfig{Ports: []counters.PipelinePort{{Name: "swp1"}}, Interval: time.Second})
	}
	var err error
	if w.store, err = fleet.NewStore(setups); err != nil {
		t.Fatal(err)
	}
	cfg.Sink = w.store.Take
	if w.fleet, err = fleet.New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- w.fleet.Run(ctx) }()
	until := func(states ...string) (lines []watchDevice) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			var views []fleet.PortView
			lines = []watchDevice{w.deviceLine(0, time.Now(), &views), w.deviceLine(1, time.Now(), &views)}
			if lines[0].Ports[0].State == states[0] && lines[1].Ports[0].State == states[1] {
				return lines
			}
			if time.Now().After(deadline) {
				t.Fatalf("states %s %s, want %v", lines[0].Ports[0].State, lines[1].Ports[0].State, states)
			}
		}
	}
	for _, l := range until("ok", "ok") {
		// The device's clock is three hours behind.
		if age := l.Ports[0].AgeNS; age == nil || *age < 0 || *age > int64(time.Minute) {
			t.Errorf("age %v", age)
		}
	}
	close(cut)
	lines := until("error", "stale")
	if p := lines[0].Ports[0]; !strings.Contains(p.Reason, "it is off") || p.ABWBPS == nil {
		t.Errorf("%+v", p)
	}
	if p := lines[1].Ports[0]; !strings.Contains(p.Reason, "is being read for") {
		t.Errorf("%+v", p)
	}
	close(hang)
	stop()
	if err := <-ran; err != nil {
		t.Error(err)
	}
}

// mortal counts a frame a reading, by a clock that is behind, until it dies.
type mortal struct {
	n    uint64
	dies chan struct{}
	then func(context.Context) error
}

func (m *mortal) Read(ctx context.Context, dst []counters.Sample) ([]counters.Sample, error) {
	select {
	case <-m.dies:
		return dst[:0], m.then(ctx)
	default:
	}
	m.n++
	now := time.Now()
	return append(dst[:0], counters.Sample{Port: "swp1", Octets: 100 * m.n, Packets: m.n, Speed: 1e9, Up: true,
		At: now.Add(-3 * time.Hour), Local: now, Bits: 64, Overhead: 20, Live: true}), nil
}

func (m *mortal) Close() error { return nil }

// Devices in trouble come first, and the rest is counted.
func TestWatchText(t *testing.T) {
	t.Setenv("CSIG_TEST_COMMUNITY", "public")
	dead := errors.New("it is off")
	w := &watch{rows: 2, started: time.Now(), ports: 4}
	cfg := fleet.Config{Interval: 20 * time.Millisecond}
	var setups []counters.PipelineConfig
	for _, name := range []string{"a", "b", "c", "d"} {
		src := counters.Source(still{})
		if name == "c" {
			src = grouped{err: dead}
		}
		w.devices = append(w.devices, &inventory.Device{Name: name, Platform: "sonic", Interval: time.Second, Ports: []inventory.Port{{Name: "swp1"}}})
		cfg.Devices = append(cfg.Devices, fleet.Device{Name: name, Open: func(context.Context) (counters.Source, error) { return src, nil }})
		setups = append(setups, counters.PipelineConfig{Ports: []counters.PipelinePort{{Name: "swp1"}}, Interval: time.Second})
	}
	var err error
	if w.store, err = fleet.NewStore(setups); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	cfg.Sink = func(r *fleet.Reading) {
		w.store.Take(r)
		if s := w.fleet.Status(); s.Unread == 0 && s.Failed > 0 {
			stop()
		}
	}
	if w.fleet, err = fleet.New(cfg); err != nil {
		t.Fatal(err)
	}
	if err := w.fleet.Run(ctx); err != nil {
		t.Fatal(err)
	}
	text := w.text()
	lines := strings.Split(text, "\n")
	table := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "DEVICE") })
	if table < 0 || !strings.HasPrefix(lines[table+1], "c ") || !strings.Contains(lines[table+1], "device c: it is off") || !strings.Contains(text, "and 2 more") ||
		!strings.Contains(lines[0], "4 devices, 4 ports") || !strings.Contains(lines[0], "3 good, 1 failing") {
		t.Errorf("%s", text)
	}
}

// lost is a source that answers, but about none of its ports.
type lost struct{}

func (lost) Close() error { return nil }
func (lost) Read(_ context.Context, dst []counters.Sample) ([]counters.Sample, error) {
	return append(dst, counters.Sample{Port: "swp1", At: time.Now(), Err: errors.New("no such port")}), nil
}

// Ports that were never read have no numbers, and a device without any other is failing.
func TestNoPortCanBeRead(t *testing.T) {
	dev := &inventory.Device{Name: "a", Platform: "sonic", Interval: time.Second, Ports: []inventory.Port{{Name: "swp1", Speed: 1e9}}}
	file := &inventory.Fleet{}
	res, err := readCounters(t.Context(), file, dev, lost{}, time.Millisecond, 2)
	if err != nil || res.unreadable == nil || !strings.Contains(res.unreadable.Error(), "none of its 1 ports could be read; the first: port swp1: no such port") || res.FailingPorts != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	if p := res.Ports[0]; p.Up != nil || p.LoadBPS != nil || p.ABWBPS != nil || p.Octets != nil || p.SpeedBPS == nil || *p.SpeedBPS != 1e9 {
		t.Errorf("%+v", p)
	}
	var out bytes.Buffer
	if err := res.write(&out); err != nil || !strings.Contains(out.String(), "1 of 1 ports cannot be read") || strings.Contains(out.String(), "0 bit/s") || strings.Contains(out.String(), "down") {
		t.Errorf("%v\n%s", err, out.String())
	}

	w := &watch{started: time.Now(), ports: 1, devices: []*inventory.Device{dev}}
	if w.store, err = fleet.NewStore([]counters.PipelineConfig{{Ports: []counters.PipelinePort{{Name: "swp1", Speed: 1e9}}, Interval: time.Second}}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	cfg := fleet.Config{Interval: 10 * time.Millisecond, Sink: func(r *fleet.Reading) { w.store.Take(r); stop() }}
	cfg.Devices = []fleet.Device{{Name: "a", Open: func(context.Context) (counters.Source, error) { return lost{}, nil }}}
	if w.fleet, err = fleet.New(cfg); err != nil {
		t.Fatal(err)
	}
	if text := w.text(); !strings.Contains(text, "age now  -") || !strings.Contains(text, "0 good, 0 failing, 1 not read") {
		t.Errorf("before the first reading:\n%s", text)
	}
	if err := w.fleet.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if text := w.text(); !strings.Contains(text, "0 good, 1 failing") || !strings.Contains(text, "; ports that cannot be read: 1") || !strings.Contains(text, "no such port") {
		t.Errorf("%s", text)
	}
	if err := w.outcome(); err == nil || !strings.Contains(err.Error(), "none of 1 ports could be read; the first: port swp1: no such port") {
		t.Errorf("%v", err)
	}
	var views []fleet.PortView
	if p := w.deviceLine(0, time.Now(), &views).Ports[0]; p.LoadBPS != nil || p.WindowNS != nil || p.SpeedBPS == nil {
		t.Errorf("%+v", p)
	}
}

// A recording of nothing but failures is one, and reports that.
func TestRecordOfNothing(t *testing.T) {
	for _, tt := range []struct {
		name string
		src  counters.Source
		want string // "" for a good one
	}{
		{"no answer", grouped{err: errors.New("it is off")}, "it is off"},
		{"no port", lost{}, "no such port"},
		{"good", still{}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var file bytes.Buffer
			rec, err := trace.NewRecorder(tt.src, &file, trace.RecorderConfig{Header: trace.Header{Device: "a", Ports: []string{"swp1"}}})
			if err != nil {
				t.Fatal(err)
			}
			_, unreadable, err := record(t.Context(), rec, counters.RefreshConfig{}, time.Millisecond, 100*time.Millisecond)
			if err = errors.Join(err, rec.Close()); err != nil || rec.Readings() == 0 {
				t.Fatal(rec.Readings(), err)
			}
			if (unreadable != nil) != (tt.want != "") || unreadable != nil && !strings.Contains(unreadable.Error(), tt.want) {
				t.Errorf("%v, want %q", unreadable, tt.want)
			}
		})
	}
}

// still is a source that counts nothing and knows it.
type still struct{}

func (still) Close() error { return nil }
func (still) Read(_ context.Context, dst []counters.Sample) ([]counters.Sample, error) {
	return append(dst, counters.Sample{Port: "swp1", Speed: 1e9, Up: true, At: time.Now(), Bits: 64, Overhead: 20, Live: true}), nil
}

func TestShort(t *testing.T) {
	for ns, want := range map[int64]time.Duration{0: 0, 7: 7, 1234: 1230, 1_234_567: 1_230_000, 59_999_999_999: 60_000_000_000} {
		if got := short(ns); got != want {
			t.Errorf("short(%d) = %v, want %v", ns, got, want)
		}
	}
}

// refreshing is a source that counts 10,000 frames/s, and shows them so often.
type refreshing struct{ period time.Duration }

func (refreshing) Close() error { return nil }
func (r refreshing) Read(_ context.Context, dst []counters.Sample) ([]counters.Sample, error) {
	now := time.Now()
	frames := uint64(now.Truncate(r.period).UnixNano() / 100_000)
	return append(dst, counters.Sample{Port: "swp1", Speed: 1e9, Up: true, At: now, Bits: 64, Overhead: 20, Octets: 1000 * frames, Packets: frames}), nil
}

// What is recorded is what an agent reads, between two readings of the schedule, too, and a replay comes to what the
// agent does.
func TestRecordedBetween(t *testing.T) {
	for _, period := range []time.Duration{250 * time.Millisecond, 70 * time.Millisecond, time.Nanosecond} {
		t.Run(period.String(), func(t *testing.T) { recordedBetween(t, refreshing{period}) })
	}
}

func recordedBetween(t *testing.T, src refreshing) {
	const every, long = 100 * time.Millisecond, 60 * time.Second
	table, err := quantize.Preset(quantize.MinABWC, "linear")
	if err != nil {
		t.Fatal(err)
	}
	cfg := counters.PipelineConfig{Interval: time.Second, Tables: []*quantize.Buckets{&table}, Ports: []counters.PipelinePort{{Name: "swp1", Speed: 1e9}}}
	type outcome struct {
		at      time.Time
		now     counters.Estimate
		buckets counters.BucketRange
	}
	of := func(at time.Time, s *counters.PortState) outcome {
		s.Now.Start, s.Now.End = s.Now.Start.UTC(), s.Now.End.UTC()
		return outcome{at.UTC(), s.Now, s.Signals[0].Range}
	}
	var agent, replayed []outcome
	var learned, again counters.RefreshStatus
	synctest.Test(t, func(t *testing.T) {
		pipe, err := counters.NewPipeline(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), long)
		defer cancel()
		for when := (cadence{every: every}); ; when.look = pipe.Look(when.next) {
			if _, err := when.wait(ctx); err != nil {
				break
			}
			at := time.Now()
			samples, _ := src.Read(ctx, nil)
			pipe.Observe(samples)
			state := *pipe.Take(0, &samples[0])
			agent = append(agent, of(at, &state))
		}
		learned = pipe.Refresh()
	})
	var file bytes.Buffer
	synctest.Test(t, func(t *testing.T) { // at the same time
		rec, err := trace.NewRecorder(src, &file, trace.RecorderConfig{Header: trace.Header{
			Device: "a", Ports: []string{"swp1"}, IntervalNS: cfg.Interval.Nanoseconds(),
			Settings: &trace.Settings{SpeedsBPS: map[string]uint64{"swp1": 1e9}, Buckets: []trace.Table{trace.TableOf(&table)}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		_, unreadable, err := record(t.Context(), rec, counters.RefreshConfig{}, every, long)
		if err = errors.Join(unreadable, err, rec.Close()); err != nil {
			t.Fatal(err)
		}
	})
	r, err := trace.NewReader(&file)
	if err != nil {
		t.Fatal(err)
	}
	how, err := r.Header().Config()
	if err != nil {
		t.Fatal(err)
	}
	sum, err := trace.Play(r, how, func(s *trace.Step) error {
		replayed = append(replayed, of(s.Read, &s.Ports[0].PortState))
		return nil
	})
	if err != nil || sum.Damaged != nil {
		t.Fatal(err, sum.Damaged)
	}
	again = sum.Refresh
	learned.Last, again.Last = time.Time{}, time.Time{}
	if n := len(agent) - int(long/every); n < 8 {
		t.Errorf("%d readings between two of the schedule", n)
	}
	if !slices.Equal(agent, replayed) || again != learned {
		t.Errorf("%d readings of an agent, which learned %+v;\n%d replayed, %+v", len(agent), learned, len(replayed), again)
		for i := range min(len(agent), len(replayed)) {
			if agent[i] != replayed[i] {
				t.Fatalf("reading %d: %+v,\nreplayed %+v", i, agent[i], replayed[i])
			}
		}
	}
}
