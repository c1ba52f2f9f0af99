package quantize

import (
	"slices"
	"strings"
	"testing"
)

func TestEveryPresetIsAValidTable(t *testing.T) {
	for _, sig := range Signals {
		for _, name := range PresetNames(sig) {
			b, err := Preset(sig, name)
			if err != nil {
				t.Errorf("%s %s: %v", sig, name, err)
				continue
			}
			if b.Signal != sig || b.Preset != name {
				t.Errorf("%s %s is labelled %s %s", sig, name, b.Signal, b.Preset)
			}
			again, _ := NewBuckets(sig, b.bounds[:])
			if again.bounds != b.bounds {
				t.Errorf("%s %s is not what NewBuckets makes of its bounds", sig, name)
			}
		}
	}
}

func TestPresetUnknown(t *testing.T) {
	for _, c := range []struct {
		sig        Signal
		name, want string
	}{
		{MinABW, "log-50G", `abw has no preset "log-50G": want one of draft-appendix-a, log-100M, log-1G`},
		{MaxNQD, "draft-appendix-a", `want one of log, linear`},
		{Signal(9), "log", "signal t9 has no presets"},
	} {
		if _, err := Preset(c.sig, c.name); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Preset(%s, %s): %v, want %q", c.sig, c.name, err, c.want)
		}
	}
}

// The draft's Table 2, typed in as it stands there: low ends of its 8 ranges.
func TestAppendixAIsARefinementOfTable2(t *testing.T) {
	for sig, text := range map[Signal]string{
		MinABWC: "0% 1% 5% 10% 20% 50% 75% 90%",
		MinABW:  "0Gbps 1Gbps 5Gbps 10Gbps 20Gbps 50Gbps 75Gbps 90Gbps",
		MaxPD:   "0us 10us 50us 100us 200us 400us 800us 2000us",
	} {
		b, err := Preset(sig, "draft-appendix-a")
		if err != nil {
			t.Fatal(err)
		}
		for value, low := range strings.Fields(text) {
			edge, err := sig.Unit().Parse(low)
			if err != nil {
				t.Fatal(err)
			}
			if s := b.Bucket(edge); int(s) != 4*value || b.bounds[s] != edge {
				t.Errorf("%s: the draft's value %d starts in bucket %d at %d", sig, value, s, b.bounds[s])
			}
			for k := 4 * value; k < 4*value+3; k++ { // four buckets of the same width
				if b.bounds[k+1]-b.bounds[k] != b.bounds[k+2]-b.bounds[k+1] {
					t.Errorf("%s: buckets %d and %d differ in width", sig, k, k+1)
				}
			}
		}
	}
}

func TestLogPresets(t *testing.T) {
	tops := map[Signal]map[string]string{
		MinABW: {"log-100M": "100Mbps", "log-1G": "1Gbps", "log-10G": "10Gbps", "log-25G": "25Gbps", "log-40G": "40Gbps", "log-100G": "100Gbps",
			"log-200G": "200Gbps", "log-400G": "400Gbps", "log-800G": "800Gbps", "log-1600G": "1600Gbps"},
		MinABWC: {"log": "100%"},
		MaxPD:   {"log-100us": "100us", "log-1ms": "1ms", "log-10ms": "10ms", "log-100ms": "100ms"},
		MaxNQD:  {"log": "100%"},
	}
	for _, sig := range Signals {
		for _, name := range PresetNames(sig) {
			if !strings.HasPrefix(name, "log") {
				continue
			}
			b, err := Preset(sig, name)
			if err != nil {
				t.Fatal(err)
			}
			top, err := sig.Unit().Parse(tops[sig][name])
			if err != nil || b.bounds[NumBuckets] != top {
				t.Errorf("%s %s ends at %d, want %q, %v", sig, name, b.bounds[NumBuckets], tops[sig][name], err)
			}
			if b.bounds[1]*1000 > top {
				t.Errorf("%s %s: bucket 0 reaches up to %d, more than 0.1 %% of the top", sig, name, b.bounds[1])
			}
			for i := 2; i < NumBuckets; i++ {
				// The steps of R20/2 as it is rounded lie between 1.24 and 1.29.
				if ratio := b.bounds[i] * 100 / b.bounds[i-1]; ratio < 124 || ratio > 128 {
					t.Errorf("%s %s: bound %d is %d%% of the one before", sig, name, i, ratio)
				}
				digits := strings.TrimRight(FormatValue(sig, b.bounds[i]), " abcdefghijklmnopqrstuvwxyzGMT/µ%")
				if len(strings.Trim(strings.ReplaceAll(digits, ".", ""), "0")) > 3 {
					t.Errorf("%s %s: bound %d reads %s", sig, name, i, digits)
				}
			}
		}
	}
}

// An idle link's available bandwidth is its speed, and a little traffic takes a
// little of it away: that must not move it to another bucket. The speeds are
// those that IEEE 802.3 has, and what people buy of them.
func TestRoundSpeedsAreNoEdgesOfLogPresets(t *testing.T) {
	speeds := strings.Fields("10Mbps 50Mbps 100Mbps 200Mbps 500Mbps 1Gbps 2Gbps 2.5Gbps 4Gbps 5Gbps 8Gbps 10Gbps 20Gbps 25Gbps 40Gbps 50Gbps 100Gbps 200Gbps 400Gbps 800Gbps 1600Gbps")
	for _, name := range PresetNames(MinABW) {
		if !strings.HasPrefix(name, "log-") {
			continue
		}
		b, err := Preset(MinABW, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range speeds {
			speed, err := MinABW.Unit().Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			s := b.Bucket(speed)
			low, high := b.Range(s)
			switch {
			case speed > b.bounds[NumBuckets]:
				continue // no link of this domain
			case s == 0:
				continue // what is so narrow in such a domain is as good as full
			case s == NumBuckets-1:
				high = 2 * speed // the last bucket is open
			}
			if (speed-low)*10 < speed || (high-speed)*10 < speed {
				t.Errorf("%s: an idle %s link has bucket %d, %s: nearer than 10 %% to its end", name, text, s, b.FormatRange(s))
			}
		}
	}
}

func TestOneLogPresetBoundByBound(t *testing.T) {
	b, err := Preset(MinABW, "log-25G")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range b.bounds {
		got = append(got, strings.ReplaceAll(FormatValue(MinABW, v), " ", ""))
	}
	want := strings.Fields(`0bit/s 22.4Mbit/s 28Mbit/s 35.5Mbit/s 45Mbit/s 56Mbit/s 71Mbit/s 90Mbit/s 112Mbit/s 140Mbit/s 180Mbit/s 224Mbit/s 280Mbit/s 355Mbit/s
		450Mbit/s 560Mbit/s 710Mbit/s 900Mbit/s 1.12Gbit/s 1.4Gbit/s 1.8Gbit/s 2.24Gbit/s 2.8Gbit/s 3.55Gbit/s 4.5Gbit/s 5.6Gbit/s 7.1Gbit/s 9Gbit/s 11.2Gbit/s 14Gbit/s
		18Gbit/s 22.4Gbit/s 25Gbit/s`)
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestLinearPreset(t *testing.T) {
	for _, sig := range []Signal{MinABWC, MaxNQD} {
		b, err := Preset(sig, "linear")
		if err != nil {
			t.Fatal(err)
		}
		for i, bound := range b.bounds {
			if bound != uint64(i)*31_250 {
				t.Errorf("%s: bound %d is %d", sig, i, bound)
			}
		}
	}
}
