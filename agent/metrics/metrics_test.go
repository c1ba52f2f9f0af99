package metrics

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/findings"
)

// full is a device of which every metric has a value.
func full() Device {
	now := time.Unix(1700000000, 0)
	began := now.Add(-time.Second)
	return Device{Name: "tor\"1\n", Shared: true, Own: true, Owner: "c1", Status: &api.Status{
		Device: "tor1", Platform: "linux", Version: "v1", Started: now, Profile: "dc", ProfileHash: "abcd", TPID: 0x88a8, Layout: "draft-00",
		IntervalNS: 1e9, LeaseNS: 3e9, OnStale: "strip", DataPlane: api.DataPlaneLeased, ConfigHash: "ef01",
		SelfTest: api.Verdict{Code: findings.SelfTest, Level: "degraded"},
		Cycle: api.Cycle{Count: 7, Failed: 2, Skipped: 3, Last: now, ReadNS: 1e6, ComputeNS: 2e6, ProgramNS: 3e6, Operations: 11, Repairs: 1, Lapses: 4, LastLapseNS: 5e8,
			PollToRule: api.Latency{Count: 7, Sum: time.Second, Most: []api.Within{{Limit: time.Second, Count: 6}}}},
		Refresh:  api.Refresh{PeriodNS: 5e9, PeriodErrorNS: 1e6},
		Updates:  &api.Updates{Sent: 9, Coalesced: 8, Waiting: 1},
		DeadMan:  &api.DeadMan{State: api.DeadManArmed, Fired: 1},
		Drift:    &api.Drift{Checked: now, Error: "a text of the device", Differences: []api.Difference{{Port: "swp1", What: "a text of the device"}, {What: "another"}}},
		Table:    &api.Table{Entries: 40, Foreign: 6, Capacity: 64},
		Verdicts: []api.Verdict{{Code: findings.Lease, Level: "refused", Reason: "a text of the device"}, {Code: findings.Lease, Level: "refused"}, {Code: findings.Update, Level: "degraded"}},
		Ports: []api.Port{
			{Port: "swp1", State: api.StateLive, CapacityBPS: 8e9, LoadBPS: 4e9, ABWBPS: 2e9, WindowStart: &began, WindowEnd: &now, AgeNS: 2e8, WindowErrorNS: 3e6, Changes: 12,
				Signals: []api.Signal{{Signal: "abw", Bucket: 17, LM: 5}, {Signal: "abwc", Bucket: 3, LM: 9, Doubtful: true}}},
			{Port: "swp2", State: api.StateRefused, Code: findings.NotTaken, Reason: "a text of the device"},
		},
	}}
}

// scrape is what a handler answers, with the content type.
func scrape(t *testing.T, h http.Handler, path, accept string) (int, string, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String(), w.Header().Get("Content-Type")
}

// of is a program whose fleet file was last read at 12:00 and had a mistake.
func of(version string, devices ...Device) Process {
	return Process{Version: version, Devices: func() []Device { return devices }, Reload: func() *api.Reload {
		return &api.Reload{Time: time.Unix(1700000000, 0), Error: "a text of the device"}
	}}
}

func handlerOf(devices ...Device) http.Handler {
	return Handler(of("v1.2", devices...))
}

// Prometheus's own parser reads each value, and promtool has nothing to say about the names.
func TestEveryMetric(t *testing.T) {
	_, text, kind := scrape(t, handlerOf(full()), Path, "")
	if !strings.HasPrefix(kind, "text/plain") {
		t.Errorf("the text is %s", kind)
	}
	cmd := exec.Command("promtool", "check", "metrics")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool: %v\n%s", err, out)
	}
	parser := expfmt.TextParser{}
	got, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		have := got[f.name]
		switch {
		case have == nil:
			t.Errorf("%s has no value", f.name)
			continue
		case have.GetType() != f.kind || have.GetHelp() != f.help:
			t.Errorf("%s is a %s: %s", f.name, have.GetType(), have.GetHelp())
		}
		for _, m := range have.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName())
			}
			if !reflect.DeepEqual(labels, f.labels) {
				t.Errorf("%s has the labels %v, want %v", f.name, labels, f.labels)
			}
		}
	}
	if len(got) != len(families) {
		t.Errorf("%d metrics, want %d", len(got), len(families))
	}
	if strings.Contains(text, "text of the device") {
		t.Error("a label has text of a device")
	}
}

// Both formats, value by value.
func TestText(t *testing.T) {
	_, text, _ := scrape(t, handlerOf(full()), Path, "")
	const device = `{device="tor\"1"` // cleaned
	for _, want := range []string{
		`csig_build_info{version="v1.2",goversion="go`,
		"csig_reload_failed 1\n",
		"csig_reload_timestamp_seconds 1.7e+09\n",
		"csig_owned" + device + "} 1\n",
		"csig_owner_info" + device + `,owner="c1"} 1` + "\n",
		"csig_profile_info" + device + `,profile="dc",hash="abcd",tpid="0x88a8",layout="draft-00"} 1` + "\n",
		"csig_limitations" + device + `,code="lease",level="refused"} 2` + "\n",
		"csig_limitations" + device + `,code="self-test",level="degraded"} 1` + "\n",
		"csig_cycles_total" + device + "} 7\n",
		"csig_cycles_failed_total" + device + "} 2\n",
		"csig_cycle_phase_seconds" + device + `,phase="program"} 0.003` + "\n",
		"csig_poll_to_rule_seconds_bucket" + device + `,le="1"} 6` + "\n",
		"csig_poll_to_rule_seconds_bucket" + device + `,le="+Inf"} 7` + "\n",
		"csig_poll_to_rule_seconds_sum" + device + "} 1\n",
		"csig_data_plane" + device + `,state="leased"} 1` + "\n",
		"csig_data_plane" + device + `,state="frozen"} 0` + "\n",
		"csig_table_entries" + device + "} 40\n",
		"csig_table_foreign_entries" + device + "} 6\n",
		"csig_table_capacity_entries" + device + "} 64\n",
		"csig_ports" + device + `,state="refused"} 1` + "\n",
		"csig_port_findings" + device + `,code="not-taken"} 1` + "\n",
		"csig_port_state" + device + `,port="swp2",state="refused"} 1` + "\n",
		"csig_port_capacity_bytes_per_second" + device + `,port="swp1"} 1e+09` + "\n",
		"csig_port_available_bytes_per_second" + device + `,port="swp1"} 2.5e+08` + "\n",
		"csig_port_window_seconds" + device + `,port="swp1"} 1` + "\n",
		"csig_port_signal_age_seconds" + device + `,port="swp1"} 0.2` + "\n",
		"csig_port_bucket_index" + device + `,port="swp1",signal="abw"} 17` + "\n",
		"csig_port_locator" + device + `,port="swp1",signal="abwc"} 9` + "\n",
		"csig_port_changes_total" + device + `,port="swp1"} 12` + "\n",
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("there is no %s", want)
		}
	}
	for _, not := range []string{`csig_port_capacity_bytes_per_second` + device + `,port="swp2"`, `csig_port_signal_age_seconds` + device + `,port="swp2"`} {
		if strings.Contains(text, not) {
			t.Errorf("a port that measures nothing has %s", not)
		}
	}
	_, open, kind := scrape(t, handlerOf(full()), Path, "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
	if !strings.HasPrefix(kind, "application/openmetrics-text") || !strings.HasSuffix(open, "# EOF\n") || !strings.Contains(open, "# TYPE csig_cycles counter\n") {
		t.Errorf("%s:\n%s", kind, open)
	}
	if t.Failed() {
		t.Log(text)
	}
}

// A controller's devices are told apart. One that waits has no values, and one whose agent cannot
// run has an alert.
func TestDevices(t *testing.T) {
	waits := Device{Name: "b", Status: &api.Status{Waiting: "for a configuration", Started: time.Unix(1, 0)}}
	one := full()
	one.Name, one.Shared, one.Own = "a", false, false
	_, text, _ := scrape(t, handlerOf(one, waits, Device{Name: "c"}), Path, "")
	for _, want := range []string{`csig_configured{device="a"} 1`, `csig_configured{device="b"} 0`} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("there is no %s", want)
		}
	}
	var of []string
	for _, m := range regexp.MustCompile(`(?m)^(\w+)\{device="b"`).FindAllStringSubmatch(text, -1) {
		of = append(of, m[1])
	}
	if want := []string{"csig_configured", "csig_start_time_seconds"}; !slices.Equal(of, want) {
		t.Errorf("a device that waits has %v, want %v", of, want)
	}
	without := regexp.MustCompile(`(?m)^.*device="c".*$`).FindAllString(text, -1)
	if want := []string{`csig_configured{device="c"} 0`, `csig_loop_hangs{device="c"} 1`}; !slices.Equal(without, want) {
		t.Errorf("a device whose agent does not run has %v, want %v", without, want)
	}
	if strings.Contains(text, "csig_owned{") {
		t.Error("a device that is not shared has an owner")
	}
}

// The program with one agent has what that says of its file, and one whose file was never read
// again nothing.
func TestReloads(t *testing.T) {
	s := full().Status
	h := Handler(Own("v1", func() *api.Status { return s }))
	if _, text, _ := scrape(t, h, Path, ""); strings.Contains(text, "csig_reload") {
		t.Errorf("no file was read again:\n%s", text)
	}
	for reason, want := range map[string]string{"": "csig_reload_failed 0\n", "tor.yaml:3:1: what": "csig_reload_failed 1\n"} {
		s.Reload = &api.Reload{Time: time.Unix(1700000000, 0), Error: reason}
		if _, text, _ := scrape(t, h, Path, ""); !strings.Contains(text, want) {
			t.Errorf("a reload with %q: there is no %s", reason, want)
		}
	}
}

// As many ports as an agent may have cost a scrape little more than their text.
func TestScrapesKeepLittle(t *testing.T) {
	d := full()
	ports := d.Status.Ports
	for len(d.Status.Ports) < 512 {
		d.Status.Ports = append(d.Status.Ports, ports...)
	}
	p := of("v1", d)
	const scrapes = 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range scrapes {
		if err := p.write(io.Discard, expfmt.NewFormat(expfmt.TypeTextPlain)); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	each := (after.TotalAlloc - before.TotalAlloc) / scrapes
	if each > 2<<20 {
		t.Errorf("a scrape of 512 ports allocates %d KiB, want at most 2 MiB", each>>10)
	}
	t.Logf("a scrape of 512 ports allocates %d KiB", each>>10)
}

// More scrapes than there are places are refused, and hold none.
func TestScrapesAreBounded(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	p := of("v1")
	p.Devices = func() []Device {
		entered <- struct{}{}
		<-leave
		return nil
	}
	h := Handler(p)
	ended := make(chan int)
	for range maxScrapes {
		go func() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, Path, nil))
			ended <- w.Code
		}()
		<-entered
	}
	if code, _, _ := scrape(t, h, Path, ""); code != http.StatusServiceUnavailable {
		t.Errorf("one more is answered with %d", code)
	}
	close(leave)
	for range maxScrapes {
		if code := <-ended; code != http.StatusOK {
			t.Errorf("code %d", code)
		}
	}
}

func TestConditions(t *testing.T) {
	live := func(change func(d *Device)) Device {
		d := full()
		d.Name, d.Status.Ports = "s1", d.Status.Ports[:1]
		d.Shared, d.Own, d.Owner = false, false, ""
		change(&d)
		return d
	}
	for _, tc := range []struct {
		name         string
		d            Device
		health, tell string // "" for 200
	}{
		{"all is well", live(func(*Device) {}), "", ""},
		{"a link is down", live(func(d *Device) { d.Status.Ports[0].State, d.Status.Ports[0].Code = api.StateDown, findings.LinkDown }), "", ""},
		{"it does not run", live(func(d *Device) { d.Status = nil }), "device s1: its agent does not run", "device s1: its agent does not run"},
		{"it waits", live(func(d *Device) { d.Status.Waiting = "for a configuration" }), "", "device s1: no configuration runs"},
		{"no cycle yet", live(func(d *Device) { d.Status.Cycle.Count = 0 }), "", "device s1: no cycle has completed yet"},
		{"the loop hangs", live(func(d *Device) { d.Status.Cycle.Hangs = true }), "device s1: no cycle has ended for longer than three leases", ""},
		{"half a setup", live(func(d *Device) { d.Status.SetupIncomplete = true }), "", "device s1: its setup is not complete"},
		{"a stale port", live(func(d *Device) {
			d.Status.Ports[0].State, d.Status.Ports[0].Code, d.Status.Ports[0].Reason = api.StateStale, findings.CountersFail, "text of a device"
		}), "", "device s1: port swp1 is stale (counters-fail)"},
		{"a controller's that another drives", live(func(d *Device) { d.Shared, d.Owner, d.Status.Waiting = true, "c2", "for it" }), "", ""},
		{"a controller's that none drives", live(func(d *Device) { d.Shared, d.Status.Waiting = true, "for it" }), "", "device s1: no configuration runs"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for path, want := range map[string]string{HealthPath: tc.health, ReadyPath: tc.tell} {
				wantCode := http.StatusServiceUnavailable
				if want == "" {
					want, wantCode = "ok", http.StatusOK
				}
				if code, text, _ := scrape(t, handlerOf(tc.d), path, ""); code != wantCode || text != want+"\n" {
					t.Errorf("%s: %d %q, want %d %q", path, code, text, wantCode, want)
				}
			}
		})
	}
	many := live(func(d *Device) {
		for range 100 {
			d.Status.Ports = append(d.Status.Ports, api.Port{Port: "swp9", State: api.StateLost})
		}
	})
	if _, text, _ := scrape(t, handlerOf(many), ReadyPath, ""); strings.Count(text, "\n") != maxReasons+1 || !strings.HasSuffix(text, "and 80 more\n") {
		t.Errorf("100 ports: %s", text)
	}
}

// Families are written in their order, and the same twice.
func TestOrder(t *testing.T) {
	var once, twice bytes.Buffer
	for _, w := range []*bytes.Buffer{&once, &twice} {
		p := of("v1", full())
		if err := p.write(w, expfmt.NewFormat(expfmt.TypeTextPlain)); err != nil {
			t.Fatal(err)
		}
	}
	ofProcess := regexp.MustCompile(`(?m)^(go|process)_.*$`) // what this test holds changes meanwhile
	if ofProcess.ReplaceAllString(once.String(), "") != ofProcess.ReplaceAllString(twice.String(), "") {
		t.Error("two scrapes of the same status differ")
	}
}
