package vendors

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

func TestSetupIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Setup{
			TPID: 0x9900, Layout: rapid.SampledFrom([]quantize.Layout{quantize.Draft00, quantize.UEC}).Draw(t, "layout"),
			Signals: []quantize.Signal{quantize.MinABW}, OnStale: inventory.Conservative,
		}
		name := rapid.OneOf(
			rapid.StringMatching(`(swp|eth|Ethernet1/|a0)[0-9]{0,3}`),
			rapid.StringMatching(`[a-z0-9/-]{1,12}`),
			rapid.StringMatching(`swp[1-9]`),
		)
		for range rapid.IntRange(1, 20).Draw(t, "ports") {
			s.Ports = append(s.Ports, PortSetup{
				Port:   name.Draw(t, "port"),
				Action: vlanrules.Action(rapid.IntRange(0, 2).Draw(t, "action")),

				StripOthers: rapid.Bool().Draw(t, "strip others"),
				Damaged:     rapid.SampledFrom([]string{"", "", "chain is gone"}).Draw(t, "damaged"),
			})
		}
		if rapid.Bool().Draw(t, "profile") {
			s.Profile = rapid.StringMatching(`[0-9a-f]{64}`).Draw(t, "hash")
		}
		s.Others = rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) OtherTPID {
			return OtherTPID{rapid.Uint16Range(0x600, 0xffff).Draw(t, "tpid"), rapid.Bool().Draw(t, "wide")}
		}), 0, 4, rapid.ID).Draw(t, "others")
		slices.SortFunc(s.Others, CompareTPIDs)
		if len(s.Others) == 0 {
			s.Others = nil
		}
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var got Setup
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, s) {
			t.Fatalf("got %+v\nwant %+v\nby %s", got, s, text)
		}
	})
}

// TestSetupOfOlderVersions reads what was written before profiles were
// recorded, and writes it again as it was: saved plans and journals hold hashes
// of such texts.
func TestSetupOfOlderVersions(t *testing.T) {
	const text = `{"tpid":39168,"wide_tpid":0,"layout":"draft-00","signals":["abw"],"on_stale":"conservative",` +
		`"ports":[{"action":"update","prefix":"swp","first":1,"last":2}]}`
	var s Setup
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	if s.Profile != "" || s.Others != nil || len(s.Ports) != 2 || s.Ports[1].StripOthers {
		t.Errorf("read %+v", s)
	}
	if again, err := json.Marshal(s); err != nil || string(again) != text {
		t.Errorf("written again it is %s (%v)\nwant %s", again, err, text)
	}
}

func TestSetupIsShort(t *testing.T) {
	var s Setup
	s.TPID = 1
	for n := range 64 {
		action := vlanrules.Update
		if n >= 48 {
			action = vlanrules.Strip
		}
		s.Ports = append(s.Ports, PortSetup{Port: "swp" + string(rune('0'+n/10)) + string(rune('0'+n%10)), Action: action})
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if runs := strings.Count(string(text), "prefix"); runs != 3 { // swp00-swp09 have a longer prefix
		t.Errorf("%d runs: %s", runs, text)
	}
}

func TestNoSetup(t *testing.T) {
	for name, s := range map[string]setupJSON{
		"layout":                            {Layout: "draft-99"},
		"signal":                            {Signals: []string{"speed"}},
		"profile":                           {Profile: "1a2b"},
		"action":                            {Ports: []portRun{{Action: "drop", Prefix: "swp1", First: -1}}},
		"range":                             {Ports: []portRun{{Action: "strip", Prefix: "swp", First: 3, Last: 2}}},
		"endless range":                     {Ports: []portRun{{Action: "strip", Prefix: "swp", First: 0, Last: 1 << 40}}},
		"range to the last number":          {Ports: []portRun{{Action: "strip", Prefix: "swp", First: math.MaxInt - 1, Last: math.MaxInt}}},
		"range of numbers that no name has": {Ports: []portRun{{Action: "strip", Prefix: "swp", First: 1e8, Last: 1e8}}},
		"a long range":                      {Ports: []portRun{{Action: "strip", Prefix: "swp", First: 0, Last: 1 << 16}}},
		"ranges":                            {Ports: []portRun{{Action: "strip", Prefix: "a", First: 1, Last: 1 << 16}, {Action: "strip", Prefix: "b", First: 1, Last: 1}}},
		"ports":                             {Ports: slices.Repeat([]portRun{{Action: "strip", Prefix: "a", First: -1}}, 1<<16+1)},
		"a long name":                       {Ports: []portRun{{Action: "strip", Prefix: strings.Repeat("a", 256), First: 1, Last: 1 << 10}}},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			var got Setup
			if err := json.Unmarshal(text, &got); err == nil {
				t.Errorf("no error, %+v", got)
			}
		})
	}
}

func TestNames(t *testing.T) {
	for _, tc := range []struct {
		names []string
		want  string
	}{
		{nil, ""},
		{[]string{"swp1"}, "swp1"},
		{[]string{"swp1", "swp2"}, "swp1, swp2"},
		{[]string{"swp1", "swp2", "swp3", "swp5", "eth0"}, "swp1 … swp3, swp5, eth0"},
		{[]string{"swp08", "swp09", "swp10"}, "swp08, swp09, swp10"},
		{[]string{"lo", "lo"}, "lo, lo"},
	} {
		if got := Names(tc.names); got != tc.want {
			t.Errorf("%v: %q, want %q", tc.names, got, tc.want)
		}
	}
}

// FuzzSetup reads what a daemon or a file has as a setup: whatever is taken is
// bounded, and is the same when it is written and read again.
func FuzzSetup(f *testing.F) {
	f.Add([]byte(`{"tpid":39168,"signals":["abw"],"ports":[{"action":"update","prefix":"swp","first":1,"last":2}]}`))
	f.Add([]byte(`{"ports":[{"action":"strip","prefix":"swp","first":9223372036854775806,"last":9223372036854775807}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var s, again Setup
		if json.Unmarshal(text, &s) != nil {
			return
		}
		if len(s.Ports) > MaxPorts {
			t.Fatalf("%d ports", len(s.Ports))
		}
		written, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(written, &again); err != nil {
			t.Fatalf("%s: %v", written, err)
		}
		if !slices.Equal(s.Ports, again.Ports) {
			t.Fatalf("%+v\nwant %+v", again.Ports, s.Ports)
		}
	})
}
