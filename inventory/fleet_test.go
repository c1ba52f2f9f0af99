package inventory

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

func parse(t *testing.T, text string) *Fleet {
	t.Helper()
	f, err := Parse("fleet.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

var raw = Estimator{Method: Raw}

// TestParse reads the right file of the mistakes' table.
func TestParse(t *testing.T) {
	f := parse(t, good)
	want := &Fleet{
		Path: "fleet.yaml",
		Profile: quantize.Profile{
			Name: "lab", TPID: 0x9900, Interval: 100 * time.Millisecond,
			Signals: make(map[quantize.Signal]quantize.SignalProfile),
		},
		Policy:    Policy{OnStale: Conservative, Schedule: "@every 100ms", Estimator: raw},
		VLANTPIDs: []uint16{0x8100, 0x88a8},
	}
	locator := quantize.Locator{Fields: []quantize.LocatorField{
		{Name: "stage", Bits: 2, Names: map[string]uint16{"tor": 1, "spine": 2}},
		{Name: "port", Bits: 5},
	}}
	for sig, preset := range map[quantize.Signal]string{quantize.MinABW: "log-10G", quantize.MinABWC: "log"} {
		b, err := quantize.Preset(sig, preset)
		if err != nil {
			t.Fatal(err)
		}
		want.Profile.Signals[sig] = quantize.SignalProfile{Buckets: b, Locator: locator}
	}
	both := func(lm uint16) map[quantize.Signal]uint16 {
		return map[quantize.Signal]uint16{quantize.MinABW: lm, quantize.MinABWC: lm}
	}
	s1 := Device{Name: "s1", Platform: "linux", Local: true, Interval: 100 * time.Millisecond, Schedule: "@every 100ms", Estimator: raw, Ports: []Port{
		{Name: "swp1", Speed: 10e9, Action: vlanrules.Update, LM: both(1<<5 | 1), Peer: Peer{"s2", "swp1"}},
		{Name: "swp2", Speed: 10e9, Action: vlanrules.Strip, Peer: Peer{"h1", ""}},
		{Name: "swp3", Action: vlanrules.Passthrough, LM: both(17)},
	}}
	s2 := Device{Name: "s2", Platform: "linux", Interval: 100 * time.Millisecond, Schedule: "@every 100ms", Estimator: raw, Ports: []Port{
		{Name: "swp1", Speed: 10e9, Action: vlanrules.Update, LM: both(2<<5 | 1), Peer: Peer{"s1", "swp1"}},
	}}
	want.Devices = []Device{s1, s2}
	if !reflect.DeepEqual(plain(f), want) {
		t.Errorf("got  %+v\nwant %+v", f, want)
	}
}

// TestForms reads the parts of a file that have more than one form.
func TestForms(t *testing.T) {
	rows := []struct {
		name  string
		text  string
		check func(t *testing.T, f *Fleet)
	}{
		{"profile only", strings.SplitAfter(good, "bits: 5}\n")[0], func(t *testing.T, f *Fleet) {
			if !reflect.DeepEqual(f.Policy, Policy{OnStale: Conservative, Schedule: "@every 100ms", Estimator: raw}) || f.Devices != nil {
				t.Errorf("got %+v, %v", f.Policy, f.Devices)
			}
		}},
		{"Windows line ends and a byte order mark", "\ufeff" + strings.ReplaceAll(good, "\n", "\r\n"), func(t *testing.T, f *Fleet) {
			if want := parse(t, good); !reflect.DeepEqual(plain(f), plain(want)) {
				t.Errorf("got %+v", f)
			}
		}},
		{"pairs", strings.Replace(good, "log-10G", pairs(nil), 1), func(t *testing.T, f *Fleet) {
			b := f.Profile.Signals[quantize.MinABW].Buckets
			if low, high := b.Range(9); low != 9e9 || high != 10e9 || b.Preset != "" {
				t.Errorf("bucket 9 is [%d, %d), preset %q", low, high, b.Preset)
			}
		}},
		{"bounds", strings.Replace(good, "log-10G", numbers(33, "Gbps"), 1), func(t *testing.T, f *Fleet) {
			b := f.Profile.Signals[quantize.MinABW].Buckets
			if low, high := b.Range(31); low != 31e9 || high != 32e9 {
				t.Errorf("bucket 31 is [%d, %d)", low, high)
			}
		}},
		{"initial_s", strings.Replace(good, "log-10G", "log-10G, initial_s: 30", 1), func(t *testing.T, f *Fleet) {
			if a, b := f.Profile.Initial(quantize.MinABW), f.Profile.Initial(quantize.MinABWC); a != 30 || b != 31 {
				t.Errorf("got %d, %d", a, b)
			}
		}},
		{"lm per signal", strings.Replace(good, "lm: 17", "lm: {abw: 17, abwc: {stage: tor, port: 9}}", 1), func(t *testing.T, f *Fleet) {
			if lm := f.Devices[0].Ports[2].LM; lm[quantize.MinABW] != 17 || lm[quantize.MinABWC] != 1<<5|9 {
				t.Errorf("got %v", lm)
			}
		}},
		{"locator per signal", strings.Replace(good, "abwc: {buckets: log}", "abwc: {buckets: log, locator: []}", 1), func(t *testing.T, f *Fleet) {
			t.Error("unreachable: the ports' fields do not suit abwc")
		}},
		{"88a8 where no VLAN has it", strings.Replace(good, "tpid: 0x9900", "tpid: 0x88a8", 1) + "vlan_tpids: [0x8100]\n", func(t *testing.T, f *Fleet) {
			if f.Profile.TPID != 0x88a8 || !reflect.DeepEqual(f.VLANTPIDs, []uint16{0x8100}) {
				t.Errorf("got %#x, %#x", f.Profile.TPID, f.VLANTPIDs)
			}
		}},
		{"device overrides", strings.Replace(good, "local: true", "interval: 1s\n    schedule: '@every 500ms'\n    counters: {overhead: 20}", 1), func(t *testing.T, f *Fleet) {
			d := f.Devices[0]
			if d.Interval != time.Second || d.Schedule != "@every 500ms" || d.Counters.Overhead == nil || *d.Counters.Overhead != 20 {
				t.Errorf("got %+v", d)
			}
		}},
		{"default schedule follows the device's interval", strings.Replace(strings.Replace(good, "  schedule: \"@every 100ms\"\n", "", 1), "local: true", "interval: 5s", 1), func(t *testing.T, f *Fleet) {
			if a, b, p := f.Devices[0].Schedule, f.Devices[1].Schedule, f.Policy.Schedule; a != "@every 5s" || b != "@every 100ms" || p != "@every 100ms" {
				t.Errorf("got %q, %q, policy %q", a, b, p)
			}
		}},
		{"cron on a slow domain", strings.NewReplacer("interval: 100ms", "interval: 1m", `"@every 100ms"`, `"* * * * *"`).Replace(good), func(t *testing.T, f *Fleet) {
			if f.Devices[0].Schedule != "* * * * *" {
				t.Errorf("got %q", f.Devices[0].Schedule)
			}
		}},
		{"aliases", strings.NewReplacer("lm: {stage: tor, port: 1}", "lm: &one {stage: tor, port: 1}", "lm: {stage: spine, port: 1}", "lm: *one").Replace(good), func(t *testing.T, f *Fleet) {
			if a, b := f.Devices[0].Ports[0].LM, f.Devices[1].Ports[0].LM; !reflect.DeepEqual(a, b) {
				t.Errorf("got %v, %v", a, b)
			}
		}},
		{"names that look like numbers", strings.NewReplacer("name: swp2", "name: 1e3", "name: swp3", "name: 0x10", "peer: h1", "peer: 42").Replace(good), func(t *testing.T, f *Fleet) {
			if p := f.Devices[0].Ports; p[1].Name != "1e3" || p[2].Name != "0x10" || p[1].Peer.Device != "42" {
				t.Errorf("got %+v", p)
			}
		}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if row.name == "locator per signal" {
				_, err := Parse("fleet.yaml", []byte(row.text))
				if err == nil || !strings.Contains(err.Error(), "the profile's locator for abwc has no fields") {
					t.Errorf("got %v", err)
				}
				return
			}
			row.check(t, parse(t, row.text))
		})
	}
}

// TestExamples loads each file of examples/, and writes and reads it again.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../examples/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("examples: %v, %v", files, err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f, err := Load(path)
			if err != nil {
				t.Fatal(err)
			}
			// A file for an agent has where that runs; devices that are polled
			// remotely have addresses instead.
			if _, err := f.LocalDevice(); err != nil && slices.ContainsFunc(f.Devices, func(d Device) bool { return d.Address == "" }) {
				t.Error(err)
			}
			roundTrip(t, f)
		})
	}
	tor, err := Load("../examples/tor.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(tor.Devices[0].Ports); n != 54 {
		t.Errorf("tor.yaml has %d ports, its comment says 48 and 6", n)
	}
}

func TestDoc(t *testing.T) {
	src, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for line := range strings.Lines(string(src)) {
		if code, ok := strings.CutPrefix(line, "//\t"); ok {
			text.WriteString(code)
		}
	}
	if _, err := Parse("doc.go", []byte(text.String())); err != nil {
		t.Errorf("the example of the package's documentation: %v", err)
	}
}

func TestLoadErrors(t *testing.T) {
	if _, err := Load("testdata/absent.yaml"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want a file that does not exist", err)
	}
	if _, err := Load("testdata"); err == nil {
		t.Error("a folder was read")
	}
}

func TestDevices(t *testing.T) {
	f := parse(t, good)
	if d, ok := f.Device("s2"); !ok || d != &f.Devices[1] {
		t.Errorf("Device(s2) = %v, %v", d, ok)
	}
	if _, ok := f.Device("s3"); ok {
		t.Error("there is no s3")
	}
	if p, ok := f.Devices[0].Port("swp3"); !ok || p != &f.Devices[0].Ports[2] {
		t.Errorf("Port(swp3) = %v, %v", p, ok)
	}
	if d, err := f.LocalDevice(); err != nil || d.Name != "s1" {
		t.Errorf("LocalDevice() = %v, %v", d, err)
	}
	f.Devices[0].Local = false
	if _, err := f.LocalDevice(); err == nil || !strings.Contains(err.Error(), "fleet.yaml:17:11: no device") || !strings.Contains(err.Error(), "s1, s2") {
		t.Errorf("no local device: %v", err)
	}
	f.Devices[0].Local, f.Devices[1].Local = true, true
	if _, err := f.LocalDevice(); err == nil || !strings.Contains(err.Error(), "fleet.yaml:24:11: 2 devices") {
		t.Errorf("two local devices: %v", err)
	}
}

func TestLocatorPorts(t *testing.T) {
	// swp3 passes tags through, so it writes no LM; abwc of s2 is another.
	f := parse(t, strings.NewReplacer("lm: {stage: spine, port: 1}", "lm: {abw: 33, abwc: 34}").Replace(good))
	rows := []struct {
		name string
		sig  quantize.Signal
		lm   uint16
		want []PortRef
	}{
		{"two candidates", quantize.MinABW, 33, []PortRef{{"s1", "swp1"}, {"s2", "swp1"}}},
		{"by signal", quantize.MinABWC, 33, []PortRef{{"s1", "swp1"}}},
		{"passthrough writes none", quantize.MinABW, 17, nil},
		{"none", quantize.MinABW, quantize.Draft00.LMNone(), nil},
		{"signal not carried", quantize.MaxPD, 33, nil},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if got, err := f.Candidates(row.sig, row.lm, "", ""); err != nil || !reflect.DeepEqual(got, row.want) {
				t.Errorf("got %v, want %v", got, row.want)
			}
		})
	}
}

func TestSpeed(t *testing.T) {
	for text, want := range map[string]uint64{"10G": 10e9, "2.5G": 25e8, "100M": 1e8, "400Gbps": 4e11, "1.6T": 16e11, "64k": 64e3, "500bps": 500, "500bit/s": 500, "25Gbit/s": 25e9} {
		got, err := ParseSpeed(text)
		if err != nil || got != want {
			t.Errorf("ParseSpeed(%q) = %d, %v, want %d", text, got, err, want)
		}
		if again, err := ParseSpeed(FormatSpeed(got)); err != nil || again != got {
			t.Errorf("ParseSpeed(%q) = %d, %v, want %d", FormatSpeed(got), again, err, got)
		}
	}
	for _, text := range []string{"", "0", "0G", "10", "G", "10Gb", "-1G", "1e9", "10 G B", "99999999999T"} {
		if got, err := ParseSpeed(text); err == nil {
			t.Errorf("ParseSpeed(%q) = %d", text, got)
		}
	}
	if got := FormatSpeed(25e9); got != "25G" {
		t.Errorf("FormatSpeed = %q", got)
	}
}
