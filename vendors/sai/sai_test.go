package sai

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

var update = flag.Bool("update", false, "rewrite the goldens")

// golden compares a text with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s is another one (-update rewrites it):\n%s", path, got)
	}
}

const testSwitch OID = 33 << 48

// port is a port of the tests, whose number is also its locator.
func port(n int, action vlanrules.Action, signals ...quantize.Signal) Port {
	p := Port{Name: "Ethernet" + string(rune('0'+n)), OID: OID(PortObject)<<48 | OID(n), Action: action, LM: map[quantize.Signal]uint16{}}
	for _, sig := range signals {
		p.LM[sig] = uint16(n)
	}
	return p
}

// percents are 32 buckets of abwc at whole percents.
func percents(t *testing.T) quantize.Buckets {
	t.Helper()
	var bounds []uint64
	for i := range uint64(quantize.NumBuckets) {
		bounds = append(bounds, i*3*10_000)
	}
	b, err := quantize.NewBuckets(quantize.MinABWC, append(bounds, 1_000_000))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func preset(t *testing.T, sig quantize.Signal, name string) quantize.Buckets {
	t.Helper()
	b, err := quantize.Preset(sig, name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// everything is a switch that has all that can be asked for.
func everything() *Capabilities {
	return &Capabilities{
		Compact: true, Wide: true, Signals: quantize.Signals[:], Timers: 2,
		Intervals: []time.Duration{128 * time.Microsecond, time.Millisecond}, DBit: DBitSets, Strip: true, Locator: true,
	}
}

// The three profiles of the goldens.
func draft00(t *testing.T) *Input {
	t.Helper()
	return &Input{
		Profile: &quantize.Profile{Name: "draft", TPID: 0x9900, Layout: quantize.Draft00, Signals: map[quantize.Signal]quantize.SignalProfile{
			quantize.MinABW: {Buckets: preset(t, quantize.MinABW, "log-100G")},
		}},
		Interval: time.Millisecond, Switch: testSwitch, Caps: everything(),
		Ports: []Port{port(2, vlanrules.Update, quantize.MinABW), port(4, vlanrules.Strip)},
	}
}

func uec(t *testing.T) *Input {
	t.Helper()
	return &Input{
		Profile: &quantize.Profile{Name: "uec", TPID: 0x9900, Layout: quantize.UEC, Signals: map[quantize.Signal]quantize.SignalProfile{
			quantize.MinABW:  {Buckets: preset(t, quantize.MinABW, "log-400G")},
			quantize.MinABWC: {Buckets: percents(t)},
			quantize.MaxPD:   {Buckets: preset(t, quantize.MaxPD, "log-1ms")},
		}},
		Interval: 128 * time.Microsecond, Switch: testSwitch, Caps: everything(),
		Ports: []Port{
			port(1, vlanrules.Update, quantize.MinABW, quantize.MinABWC, quantize.MaxPD),
			port(2, vlanrules.Strip),
			port(3, vlanrules.Update, quantize.MinABW, quantize.MinABWC, quantize.MaxPD),
		},
	}
}

func wide(t *testing.T) *Input {
	t.Helper()
	in := uec(t)
	p := *in.Profile
	p.Name, p.TPID, p.WideTPID = "wide", 0x9902, 0x9901
	p.Signals = map[quantize.Signal]quantize.SignalProfile{
		quantize.MinABW: {Buckets: preset(t, quantize.MinABW, "log-400G"), Quantum: 8 << 16},
		quantize.MaxPD:  {Buckets: preset(t, quantize.MaxPD, "log-1ms"), Quantum: 64},
	}
	in.Profile, in.Interval = &p, time.Millisecond
	in.Ports = []Port{
		port(1, vlanrules.Update, quantize.MinABW, quantize.MaxPD),
		port(2, vlanrules.Update, quantize.MinABW, quantize.MaxPD),
		port(5, vlanrules.Strip),
	}
	return in
}

func compiled(t *testing.T, in *Input) *Program {
	t.Helper()
	p, _, err := Compile(in)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The objects of three profiles, and what leads from each to the next and away.
func TestGoldens(t *testing.T) {
	names := []string{"draft-00", "uec", "wide"}
	programs := []*Program{compiled(t, draft00(t)), compiled(t, uec(t)), compiled(t, wide(t))}
	for i, name := range names {
		golden(t, name+".rec", Record(Changes(nil, programs[i])))
		next := (i + 1) % len(names)
		golden(t, name+"-to-"+names[next]+".rec", Record(Changes(programs[i], programs[next])))
		golden(t, name+"-removed.rec", Record(Changes(programs[i], nil)))
	}
}

// What each capability that is missing refuses, and what SAI itself cannot have.
func TestRefusals(t *testing.T) {
	without := func(change func(*Input)) *Input {
		in := wide(t)
		change(in)
		return in
	}
	rows := []struct {
		name string
		in   *Input
	}{
		{"compact", without(func(in *Input) { in.Caps.Compact = false })},
		{"wide", without(func(in *Input) { in.Caps.Wide = false })},
		{"a signal", without(func(in *Input) { in.Caps.Signals = []quantize.Signal{quantize.MinABW} })},
		{"timers", without(func(in *Input) { in.Caps.Timers = 0 })},
		{"interval", without(func(in *Input) { in.Interval = 3 * time.Millisecond })},
		{"interval below a microsecond", without(func(in *Input) { in.Caps, in.Interval = nil, 1500*time.Nanosecond })},
		{"d-bit", without(func(in *Input) { in.Caps.DBit = DBitNone })},
		{"strip", without(func(in *Input) { in.Caps.Strip = false })},
		{"locator", without(func(in *Input) { in.Caps.Locator = false })},
		{"passthrough", without(func(in *Input) { in.Ports[0].Action = vlanrules.Passthrough })},
		{"object ID", without(func(in *Input) { in.Ports[1].OID = 0 })},
		{"locators that differ", without(func(in *Input) { in.Ports[0].LM[quantize.MaxPD] = 9 })},
		{"locators of two formats", without(func(in *Input) {
			for sig, sp := range in.Profile.Signals {
				sp.Locator.Fields = []quantize.LocatorField{{Name: "tier", Bits: 2}, {Name: "port", Bits: 4}}
				sp.WideLocator.Fields = []quantize.LocatorField{{Name: "port", Bits: 13}, {Name: "tier", Bits: 2}}
				in.Profile.Signals[sig] = sp
			}
		})},
		{"odd locator", func() *Input {
			in := draft00(t)
			in.Ports[0].LM[quantize.MinABW] = 3
			return in
		}()},
		{"fractions of percent", without(func(in *Input) {
			in.Profile.Signals[quantize.MinABWC] = quantize.SignalProfile{Buckets: preset(t, quantize.MinABWC, "linear"), Quantum: 10_000}
			for i := range in.Ports {
				in.Ports[i].LM[quantize.MinABWC] = uint16(i + 1)
			}
		})},
		{"nqd", without(func(in *Input) {
			in.Profile.Signals[quantize.MaxNQD] = quantize.SignalProfile{Buckets: preset(t, quantize.MaxNQD, "log"), Quantum: 1}
			for i := range in.Ports {
				in.Ports[i].LM[quantize.MaxNQD] = uint16(i + 1)
			}
		})},
		{"wide step", without(func(in *Input) {
			sp := in.Profile.Signals[quantize.MinABW]
			sp.Quantum = 1_000_000
			in.Profile.Signals[quantize.MinABW] = sp
		})},
	}
	var text strings.Builder
	for _, r := range rows {
		p, _, err := Compile(r.in)
		if err == nil || p != nil {
			t.Errorf("%s: it compiles", r.name)
			continue
		}
		text.WriteString(r.name + "\n")
		for _, line := range strings.Split(err.Error(), "\n") {
			text.WriteString("    " + line + "\n")
		}
	}
	golden(t, "refusals.txt", []byte(text.String()))
}
