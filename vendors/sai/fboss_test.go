package sai

import (
	"errors"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// table is one whose buckets 0 to 15, and those from 24 on, are next to nothing.
func table(t *testing.T, sig quantize.Signal, unit, top uint64, edges ...uint64) quantize.Buckets {
	t.Helper()
	var bounds []uint64
	for i := range uint64(fbossFirst + 1) {
		bounds = append(bounds, i)
	}
	for _, e := range edges {
		bounds = append(bounds, e*unit)
	}
	for i := range uint64(quantize.NumBuckets + 1 - len(bounds)) {
		bounds = append(bounds, top+i)
	}
	b, err := quantize.NewBuckets(sig, bounds)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func fbossInput(t *testing.T) *Input {
	t.Helper()
	in := draft00(t)
	in.Profile.Signals = map[quantize.Signal]quantize.SignalProfile{
		quantize.MinABW:  {Buckets: table(t, quantize.MinABW, 1_000_000, 800_000_000_000, 15_000, 25_000, 35_000, 45_000, 55_000, 65_000, 85_000)},
		quantize.MinABWC: {Buckets: table(t, quantize.MinABWC, 10_000, 999_992, 15, 25, 35, 45, 55, 65, 85)},
	}
	in.Ports = []Port{
		port(1, vlanrules.Update, quantize.MinABW, quantize.MinABWC), port(2, vlanrules.Strip), port(3, vlanrules.Passthrough),
	}
	return in
}

func fbossDevice(in *Input, played string) (*inventory.Device, vendors.Setup) {
	d := device(in, "")
	d.Platform = FBOSS.Name
	d.Management.Own = map[string]inventory.PlatformKeys{FBOSS.Key: &FBOSSKeys{Played: played}}
	return d, setupOf(in, d)
}

// FBOSS's attributes of a profile, what changes them, and what takes them off.
func TestFBOSS(t *testing.T) {
	path := filepath.Join(t.TempDir(), "played")
	in := fbossInput(t)
	dev, want := fbossDevice(in, path)
	var have vendors.Setup
	step := func(name string, dev *inventory.Device, want vendors.Setup) {
		t.Helper()
		text, err := CommandsFBOSS(dev, have, want)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, text)
		appendTo(t, path, text)
		d, err := OpenFBOSS(dev)
		if err != nil {
			t.Fatal(err)
		}
		if have, err = d.Observe(t.Context()); err != nil || !sameSetup(&have, &want) {
			t.Fatalf("%s: it has %+v, %v", name, have, err)
		}
		if want.Nothing() {
			return
		}
		if changes, err := d.Diff(have, want); err != nil || len(changes) > 0 {
			t.Errorf("%s: there is left to do %v, %v", name, changes, err)
		}
	}
	step("fboss.txt", dev, want)
	in.Ports[0].LM = map[quantize.Signal]uint16{quantize.MinABW: 66, quantize.MinABWC: 66}
	in.Ports[1].Action = vlanrules.Passthrough
	in.Ports = in.Ports[:2]
	dev, want = fbossDevice(in, path)
	step("fboss-changed.txt", dev, want)
	step("fboss-removed.txt", dev, vendors.Setup{})
}

func TestFBOSSRefuses(t *testing.T) {
	for capability, change := range map[string]func(*Input){
		"wide":       func(in *Input) { in.Profile.WideTPID = 0x9901 },
		"layout uec": func(in *Input) { in.Profile.Layout = quantize.UEC },
		"thresholds of abw": func(in *Input) {
			in.Profile.Signals[quantize.MinABW] = quantize.SignalProfile{Buckets: preset(t, quantize.MinABW, "log-100M")}
		},
		"thresholds of abwc": func(in *Input) {
			in.Profile.Signals[quantize.MinABWC] = quantize.SignalProfile{Buckets: preset(t, quantize.MinABWC, "linear")}
		},
		"signal pd": func(in *Input) {
			in.Profile.Signals[quantize.MaxPD] = quantize.SignalProfile{Buckets: preset(t, quantize.MaxPD, "log-1ms")}
		},
		"locator per signal": func(in *Input) { in.Ports[0].LM[quantize.MinABW] = 9 },
		"locator": func(in *Input) {
			in.Ports[0].LM[quantize.MinABW], in.Ports[0].LM[quantize.MinABWC] = 200, 200
		},
	} {
		in := fbossInput(t)
		change(in)
		if in.Profile.Signals[quantize.MaxPD].Buckets.Signal == quantize.MaxPD {
			in.Ports[0].LM[quantize.MaxPD] = 1
		}
		dev, want := fbossDevice(in, "")
		var lacking *CapabilityError
		if err := RefuseFBOSS(dev, want); !errors.As(err, &lacking) || lacking.Capability != capability {
			t.Errorf("%s: %v", capability, err)
		}
	}
}

// Calls lead to what is wanted from anywhere; a port that updates is not told so again
// without an action between, which the chip would ignore.
func TestFBOSSCalls(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	have := map[string]string{}
	for range 2000 {
		var ports []setting
		for _, p := range []string{"eth1/1/1", "eth1/2/1", "eth1/3/1"} {
			switch random.IntN(4) {
			case 0:
				ports = append(ports, setting{ofPort(p, fbossAction), fbossStrips})
			case 1:
				ports = append(ports, setting{ofPort(p, fbossAction), fbossPasses})
			case 2:
				ports = append(ports, setting{ofPort(p, fbossLocator), string(rune('1' + random.IntN(3)))}, setting{ofPort(p, fbossAction), fbossUpdates})
			}
		}
		shared := []setting{{"switch " + fbossTPIDs, string(rune('1' + random.IntN(2)))}}
		want := maps.Clone(have)
		for key := range want {
			if strings.HasSuffix(key, fbossAction) {
				want[key] = fbossPasses
			}
		}
		for _, s := range append(ports, shared...) {
			want[s.key] = s.value
		}
		stale := map[string]bool{} // ports whose chip has an older locator, or older thresholds
		for _, c := range fbossCalls(have, shared, ports) {
			place, isLocator := strings.CutSuffix(c.key, fbossLocator)
			switch action := place + fbossAction; {
			case isLocator:
				stale[action] = have[action] == fbossUpdates
			case strings.HasPrefix(c.key, "switch "):
				for key, is := range have {
					stale[key] = stale[key] || is == fbossUpdates
				}
			case c.value != fbossUpdates || have[c.key] != fbossUpdates:
				stale[c.key] = false
			}
			have[c.key] = c.value
		}
		for place, is := range stale {
			if is {
				t.Fatalf("%s with what it had before", place)
			}
		}
		if !maps.Equal(have, want) {
			t.Fatalf("there is\n%v\nwant\n%v", have, want)
		}
		if again := fbossCalls(have, shared, ports); len(again) > 0 {
			t.Fatalf("there is left to do %v", again)
		}
	}
}

func FuzzFBOSSPlayed(f *testing.F) {
	f.Add("# a comment\nswitch SAI_X=1:2\nport a=b SAI_Y=3\n" + setupMark + "{}\n")
	f.Fuzz(func(t *testing.T, text string) {
		set, _, err := replayFBOSS(strings.NewReader(text))
		for key := range set {
			if err == nil && !strings.HasPrefix(key, "switch ") && !strings.HasPrefix(key, "port ") {
				t.Fatalf("%q is set", key)
			}
		}
	})
}
