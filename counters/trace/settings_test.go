package trace

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/csig-agent/csig/counters"
)

// A trace alone gives the buckets that were recorded with.
func TestSettingsTravel(t *testing.T) {
	wide := uint8(38)
	h := Header{Device: "leaf1", IntervalNS: 3e9, Ports: []string{"swp1", "swp2"}, Settings: &Settings{
		SpeedsBPS: map[string]uint64{"swp1": 2e9}, Overrides: []string{"swp1"}, Estimator: "ewma", TimeConstantNS: 5e9, RefreshNS: 1e9, Overhead: &wide, Hold: 3, Margin: 100,
	}}
	want := tables(t)
	for _, b := range want {
		h.Settings.Buckets = append(h.Settings.Buckets, TableOf(b))
	}
	file, _ := record(t, h, nil, RecorderConfig{})
	got, err := reader(t, file).Header().Config()
	if err != nil {
		t.Fatal(err)
	}
	if got.Method != counters.EWMA || got.Interval != 3e9 || got.Tau != 5e9 || got.Ports[0] != (counters.PipelinePort{Name: "swp1", Speed: 2e9, Override: true}) || got.Ports[1].Override || *got.Overhead != wide ||
		got.Refresh.Period != 1e9 || got.Damping != (counters.Damping{Hold: 3, Margin: 100}) || len(got.Tables) != len(want) {
		t.Errorf("%+v", got)
	}
	for i := range got.Tables {
		if got.Tables[i].Signal != want[i].Signal || got.Tables[i].Bounds() != want[i].Bounds() {
			t.Errorf("table %d: %+v, want %+v", i, got.Tables[i], want[i])
		}
	}
	old := Header{Device: "leaf1", IntervalNS: 3e9, Ports: []string{"swp1"}}
	if got, err := old.Config(); err != nil || !reflect.DeepEqual(got, counters.PipelineConfig{Interval: 3e9, Ports: []counters.PipelinePort{{Name: "swp1"}}}) {
		t.Errorf("old trace: %+v, %v", got, err)
	}
}

func TestStrangeSettings(t *testing.T) {
	for name, settings := range map[string]string{
		"estimator":     `{"estimator":"guess"}`,
		"time constant": `{"time_constant_ns":-1}`,
		"refresh":       `{"refresh_ns":-1}`,
		"hold":          `{"hold":-1}`,
		"signal":        `{"buckets":[{"signal":"mood","bounds":[]}]}`,
		"bounds":        `{"buckets":[{"signal":"abw","bounds":[0,1]}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewReader(strings.NewReader(`{"format":"csig.trace/v1","ports":["swp1"],"settings":` + settings + "}\n"))
			if err == nil {
				t.Error("no error")
			}
		})
	}
}

// The overhead that was configured replaces that of the samples.
func TestOverheadOfTheSettings(t *testing.T) {
	wide, seen := uint8(200), false
	_, err := Play(reader(t, cached(t, 60)), counters.PipelineConfig{Overhead: &wide}, func(s *Step) error {
		seen = true
		if s.Ports[0].Sample.Overhead != wide {
			t.Fatalf("%+v", s.Ports[0].Sample)
		}
		return nil
	})
	if err != nil || !seen {
		t.Error(err, seen)
	}
}

func TestErrorsAreRecordedWithoutAddresses(t *testing.T) {
	words := []string{"leaf1.example.net", "poller"}
	tests := []struct{ text, want string }{
		{"device leaf1: SNMP agent 192.0.2.7:161: no answer: check", "device leaf1: SNMP agent [address]: no answer: check"},
		{"SNMP agent [2001:db8::7]:161: no answer", "SNMP agent [address]: no answer"},
		{"agent leaf1.example.net:161: refused (user poller)", "agent [hidden]: refused (user [hidden])"},
		{"read udp 10.0.0.1:40000->192.0.2.7:161: i/o timeout", "read udp [address]->[address]: i/o timeout"},
		{"lookup leaf1.example.net on 10.0.0.53:53: no such host", "lookup [hidden] on [address]: no such host"},
		{"dial 2001:db8::7, then 192.0.2.7", "dial [address], then [address]"},
		{"compare with ifName in snmpwalk of 1.3.6.1.2.1.31.1.1.1.1", "compare with ifName in snmpwalk of 1.3.6.1.2.1.31.1.1.1.1"},
		{"in 3 tries of 300ms\n\twith a stack", "in 3 tries of 300ms\n\twith a stack"},
		{"pollers are many", "pollers are many"},
		{"", ""},
	}
	for _, tt := range tests {
		if got := hide(tt.text, words); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.text, got, tt.want)
		}
	}
	failed := errors.New("agent 192.0.2.7:161 of poller: no answer")
	file, _ := record(t, Header{Device: "leaf1", Ports: []string{"swp1"}}, []Reading{
		{Read: start, Err: failed},
		{Read: start, Samples: []counters.Sample{{Port: "swp1", At: start, Err: failed}}},
	}, RecorderConfig{Hide: words})
	all, err := readAll(t, file)
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	for _, got := range []error{all[0].Err, all[1].Samples[0].Err} {
		if text := got.Error(); bytes.Contains([]byte(text), []byte("192.0")) || strings.Contains(text, "poller") {
			t.Errorf("%q", text)
		}
	}
}
