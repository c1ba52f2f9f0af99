package quantize

import (
	"math"
	"math/big"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseAndFormatValue(t *testing.T) {
	for _, c := range []struct {
		sig   Signal
		text  string
		want  uint64
		shown string
	}{
		{MinABW, "1Gbps", 1e9, "1 Gbit/s"},
		{MinABW, "250Mbps", 250e6, "250 Mbit/s"},
		{MinABW, "1.25 Gbps", 1.25e9, "1.25 Gbit/s"},
		{MinABW, "0.5kbps", 500, "500 bit/s"},
		{MinABW, "10Kbps", 1e4, "10 kbit/s"},
		{MinABW, "1.6Tbit/s", 1.6e12, "1.6 Tbit/s"},
		{MinABW, "1.000000000000000Gbps", 1e9, "1 Gbit/s"},
		{MinABW, "1234567891bps", 1234567891, "1.234567891 Gbit/s"},
		{MinABW, "18446744073709551615bps", math.MaxUint64, "18446744.073709551615 Tbit/s"},
		{MinABW, "0", 0, "0 bit/s"},
		{MinABWC, "5%", 50_000, "5 %"},
		{MinABWC, "0.5 %", 5_000, "0.5 %"},
		{MinABWC, "12.5%", 125_000, "12.5 %"},
		{MinABWC, "0.0005%", 5, "5 ppm"},
		{MinABWC, "800ppm", 800, "0.08 %"},
		{MinABWC, "100ppm", 100, "0.01 %"},
		{MinABWC, "99ppm", 99, "99 ppm"},
		{MinABWC, "0%", 0, "0 %"},
		{MaxNQD, "100%", 1_000_000, "100 %"},
		{MaxPD, "50us", 50_000, "50 µs"},
		{MaxPD, "50\u00b5s", 50_000, "50 \u00b5s"},
		{MaxPD, "50\u03bcs", 50_000, "50 \u00b5s"},
		{MaxPD, "10ms", 10_000_000, "10 ms"},
		{MaxPD, "2.5us", 2_500, "2.5 µs"},
		{MaxPD, "1s", 1e9, "1 s"},
		{MaxPD, "007ns", 7, "7 ns"},
	} {
		t.Run(c.sig.String()+" "+c.text, func(t *testing.T) {
			got, err := c.sig.Unit().Parse(c.text)
			if err != nil || got != c.want {
				t.Fatalf("Parse = %d, %v, want %d", got, err, c.want)
			}
			if shown := FormatValue(c.sig, got); shown != c.shown {
				t.Errorf("FormatValue = %q, want %q", shown, c.shown)
			}
		})
	}
}

func TestUnitParseErrors(t *testing.T) {
	for _, c := range []struct {
		sig        Signal
		text, want string
	}{
		{MinABW, "5%", `"5%": "%" is the wrong unit, the value is counted in bit/s: want a rate, e.g. 250Mbit/s`},
		{MinABW, "5ms", `"ms" is the wrong unit`},
		{MinABWC, "1Gbps", `"1Gbps": "Gbps" is the wrong unit, the value is counted in ppm: want a share, e.g. 2.5%`},
		{MaxPD, "1Mbps", `"1Mbps": "Mbps" is the wrong unit, the value is counted in ns: want a time, e.g. 50us`},
		{MinABW, "10GB", `unknown unit "GB": want Tbit/s, Gbit/s, Mbit/s, kbit/s, bit/s`},
		{MinABW, "10G", `unknown unit "G"`},
		{MinABW, "1mbps", `unknown unit "mbps"`}, // not milli, not mega
		{MinABW, "5", `the unit is missing: want a rate`},
		{MinABW, "0 ", `the unit is missing`},
		{MinABW, "0.0", `the unit is missing`},
		{MinABW, "", `"" is not a value`},
		{MinABW, "Gbps", `"Gbps" is not a value`},
		{MinABW, "-1bps", `"-1bps" is not a value`},
		{MinABW, " 1bps", `" 1bps" is not a value`},
		{MinABW, "1e9bps", `unknown unit "e9bps"`},
		{MinABW, "1bps ", `unknown unit "bps "`},
		{MinABW, "0.5bps", `"0.5bps" is not a whole number of bit/s`},
		{MinABW, "1.0000000001Gbps", `is not a whole number of bit/s`},
		{MinABWC, "0.00001%", `is not a whole number of ppm`},
		{MaxPD, "0.5ns", `is not a whole number of ns`},
		{MinABW, "1.bps", `at most one decimal point between`},
		{MinABW, ".5Gbps", `at most one decimal point between`},
		{MinABW, "1.2.3Gbps", `at most one decimal point between`},
		{MinABW, "18446744073709551616bps", `too large for 64 bits`},
		{MinABW, "18446744.073709551616Tbps", `too large for 64 bits`},
		{MinABW, "18446745Tbps", `too large for 64 bits`},
	} {
		t.Run(c.sig.String()+" "+c.text, func(t *testing.T) {
			got, err := c.sig.Unit().Parse(c.text)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Parse = %d, %v, want an error with %s", got, err, c.want)
			}
		})
	}
}

func TestFormatRange(t *testing.T) {
	for _, c := range []struct {
		sig       Signal
		low, high uint64
		want      string
	}{
		{MinABW, 1e9, 1.25e9, "1–1.25 Gbit/s"},
		{MinABW, 800e6, 1e9, "800 Mbit/s – 1 Gbit/s"},
		{MinABW, 0, 8e6, "0–8 Mbit/s"},
		{MaxPD, 10_000, 50_000, "10–50 µs"},
		{MinABWC, 5_000, 50_000, "0.5–5 %"},
		{MinABWC, 50, 5_000, "50 ppm – 0.5 %"},
	} {
		if got := FormatRange(c.sig, c.low, c.high); got != c.want {
			t.Errorf("FormatRange(%s, %d, %d) = %q, want %q", c.sig, c.low, c.high, got, c.want)
		}
	}
}

func TestFormatThenParseIsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sig := rapid.SampledFrom(Signals[:]).Draw(t, "signal")
		v := rapid.Uint64().Draw(t, "v")
		text := FormatValue(sig, v)
		if back, err := sig.Unit().Parse(text); err != nil || back != v {
			t.Fatalf("%s: %d → %q → %d, %v", sig, v, text, back, err)
		}
	})
}

// FuzzUnitParse compares with rational arithmetic: what is accepted is exactly
// number times unit, and whatever is of that form and whole is accepted.
func FuzzUnitParse(f *testing.F) {
	for _, s := range []string{"1Gbps", "0.5%", "50us", "1.25 Gbit/s", "0", "18446744073709551616bps", "1.0000000001Gbps", "10 ms"} {
		for sig := range Signals {
			f.Add(uint8(sig), s)
		}
	}
	form := regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) *(\S+)$`)
	units := map[Unit]map[string]int64{
		BitPerSecond: {"Tbps": 1e12, "Gbps": 1e9, "Mbps": 1e6, "kbps": 1e3, "Kbps": 1e3, "bps": 1, "Tbit/s": 1e12, "Gbit/s": 1e9, "Mbit/s": 1e6, "kbit/s": 1e3, "bit/s": 1},
		Nanosecond:   {"s": 1e9, "ms": 1e6, "us": 1e3, "\u00b5s": 1e3, "\u03bcs": 1e3, "ns": 1},
		PPM:          {"%": 1e4, "ppm": 1},
	}
	bareZero := regexp.MustCompile(`^0+$`)
	f.Fuzz(func(t *testing.T, n uint8, text string) {
		if len(text) > 1000 {
			return // big.Rat would be slow, not wrong
		}
		sig := Signals[int(n)%len(Signals)]
		got, err := sig.Unit().Parse(text)
		var want *big.Rat
		if m := form.FindStringSubmatch(text); m != nil && units[sig.Unit()][m[2]] != 0 {
			want, _ = new(big.Rat).SetString(m[1])
			want.Mul(want, new(big.Rat).SetInt64(units[sig.Unit()][m[2]]))
		} else if bareZero.MatchString(text) {
			want = new(big.Rat)
		}
		ok := want != nil && want.IsInt() && want.Num().IsUint64()
		if ok != (err == nil) || ok && got != want.Num().Uint64() {
			t.Fatalf("Parse(%s, %q) = %d, %v, want %v", sig, text, got, err, want)
		}
	})
}

func TestFormatCount(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 65536: "65,536", 1234567: "1,234,567"} {
		if is := FormatCount(n); is != want {
			t.Errorf("%d is written %s, want %s", n, is, want)
		}
	}
}
