package quantize

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"
)

func mustPreset(t *testing.T, sig Signal, name string) Buckets {
	t.Helper()
	b, err := Preset(sig, name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func lab(t *testing.T) *Profile {
	t.Helper()
	return &Profile{
		Name:     "lab",
		TPID:     0x9900,
		WideTPID: 0x9901,
		Layout:   Draft00,
		Signals: map[Signal]SignalProfile{
			MinABW:  {Buckets: mustPreset(t, MinABW, "log-100M"), Quantum: 8_000_000, Locator: clos(), WideLocator: Locator{Fields: []LocatorField{{Name: "device", Bits: 10}, {Name: "port", Bits: 6}}}},
			MinABWC: {Buckets: mustPreset(t, MinABWC, "linear"), Quantum: 1},
		},
		Interval: 100 * time.Millisecond,
	}
}

const labCanonical = `csig-profile 1
tpid 39168
wide-tpid 39169
layout draft-00
signal 0
bounds 0 90000 112000 140000 180000 224000 280000 355000 450000 560000 710000 900000 1120000 1400000 1800000 2240000 2800000 3550000 4500000 5600000 7100000 9000000 11200000 14000000 18000000 22400000 28000000 35500000 45000000 56000000 71000000 90000000 100000000
quantum 8000000
lm "stage" 2 "tor"=0 "spine"=1 "core"=2
lm "orientation" 2 "up"=0 "down"=1 "side"=2
lm "port" 3
wide-lm "device" 10
wide-lm "port" 6
signal 1
bounds 0 31250 62500 93750 125000 156250 187500 218750 250000 281250 312500 343750 375000 406250 437500 468750 500000 531250 562500 593750 625000 656250 687500 718750 750000 781250 812500 843750 875000 906250 937500 968750 1000000
quantum 1
`

// Running daemons compare the hash: a change of this
// golden value means a new version in the first line of the canonical form.
const labHash = "340ca19ef369feeba31cb725fee102927e07db3ae397f67e23a624fa4b273660"

func TestHashGolden(t *testing.T) {
	p := lab(t)
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	if got := p.Canonical(); got != labCanonical {
		t.Errorf("canonical form is\n%s\nwant\n%s", got, labCanonical)
	}
	sum := sha256.Sum256([]byte(labCanonical))
	if got := p.Hash(); got != labHash || got != hex.EncodeToString(sum[:]) {
		t.Errorf("hash is %s, want %s", got, labHash)
	}
}

func TestHashDependsOn(t *testing.T) {
	base := lab(t).Hash()
	signal := func(p *Profile, sig Signal, change func(*SignalProfile)) {
		sp := p.Signals[sig]
		change(&sp)
		p.Signals[sig] = sp
	}
	for _, c := range []struct {
		name   string
		change func(*Profile)
		same   bool
	}{
		{"tpid", func(p *Profile) { p.TPID++ }, false},
		{"wide tpid", func(p *Profile) { p.WideTPID++ }, false},
		{"layout", func(p *Profile) { p.Layout = UEC }, false},
		{"signal removed", func(p *Profile) { delete(p.Signals, MinABWC) }, false},
		{"signal added", func(p *Profile) {
			p.Signals[MaxPD] = SignalProfile{Buckets: mustPreset(t, MaxPD, "log-1ms"), Quantum: 128}
		}, false},
		{"quantum", func(p *Profile) { signal(p, MinABW, func(s *SignalProfile) { s.Quantum++ }) }, false},
		{"locator bits", func(p *Profile) { signal(p, MinABW, func(s *SignalProfile) { s.Locator.Fields[2].Bits = 2 }) }, false},
		{"locator field name", func(p *Profile) { signal(p, MinABW, func(s *SignalProfile) { s.Locator.Fields[2].Name = "p" }) }, false},
		{"locator value", func(p *Profile) {
			signal(p, MinABW, func(s *SignalProfile) { s.Locator.Fields[0].Names["core"] = 3 })
		}, false},
		{"locator value name", func(p *Profile) {
			signal(p, MinABW, func(s *SignalProfile) { s.Locator.Fields[0].Names["edge"] = 3 })
		}, false},
		{"locator of the other signal", func(p *Profile) { signal(p, MinABWC, func(s *SignalProfile) { s.Locator = clos() }) }, false},
		{"wide locator", func(p *Profile) { signal(p, MinABW, func(s *SignalProfile) { s.WideLocator.Fields[1].Bits = 5 }) }, false},
		{"a quote in a name", func(p *Profile) {
			signal(p, MinABWC, func(s *SignalProfile) { s.Locator.Fields = []LocatorField{{Name: "a\" 1\nlm \"b", Bits: 1}} })
		}, false},

		{"name", func(p *Profile) { p.Name = "other" }, true},
		{"interval", func(p *Profile) { p.Interval++ }, true},
		{"initial S", func(p *Profile) { p.InitialS = map[Signal]uint8{MinABW: 30} }, true},
		{"preset name", func(p *Profile) { signal(p, MinABW, func(s *SignalProfile) { s.Buckets.Preset = "" }) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := lab(t)
			c.change(p)
			if same := p.Hash() == base; same != c.same {
				t.Errorf("same hash: %t, want %t", same, c.same)
			}
		})
	}
	for i := range NumBuckets + 1 {
		p := lab(t)
		signal(p, MinABW, func(s *SignalProfile) { s.Buckets.bounds[i]++ })
		if p.Hash() == base {
			t.Errorf("bound %d is not in the hash", i)
		}
	}
}

func TestHashDoesNotDependOnMapOrder(t *testing.T) {
	want := lab(t).Hash()
	for i := range 200 { // fresh maps each time: Go starts their iteration anywhere
		p := lab(t)
		if i%2 == 1 { // inserted in the other order
			all := p.Signals
			p.Signals = map[Signal]SignalProfile{}
			for _, sig := range []Signal{MinABWC, MinABW} {
				p.Signals[sig] = all[sig]
			}
		}
		if got := p.Hash(); got != want {
			t.Fatalf("hash %d is %s, want %s", i, got, want)
		}
	}
}

func TestProfileValidate(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Profile)
		want   []string // fields of the problems, in order
	}{
		{"valid", func(*Profile) {}, nil},
		{"0x88a8", func(p *Profile) { p.TPID = 0x88a8 }, nil},
		{"initial S of 30", func(p *Profile) { p.InitialS = map[Signal]uint8{MinABW: 30} }, nil},
		{"no wide tags, no quanta", func(p *Profile) {
			p.WideTPID = 0
			p.Signals = map[Signal]SignalProfile{MinABW: {Buckets: mustPreset(t, MinABW, "log-1G")}}
		}, nil},
		{"TPIDs", func(p *Profile) { p.TPID, p.WideTPID = 0x8100, 0x0500 }, []string{"tpid", "wide_tpid"}},
		{"layout", func(p *Profile) { p.Layout = 2 }, []string{"layout"}},
		{"no signal", func(p *Profile) { p.Signals = nil }, []string{"signals"}},
		{"unknown signal", func(p *Profile) { p.Signals[5] = p.Signals[MinABW] }, []string{"signals.t5"}},
		{"table of another signal", func(p *Profile) { p.Signals[MaxPD] = p.Signals[MinABWC] }, []string{"signals.pd.buckets"}},
		{"no table", func(p *Profile) { p.Signals[MinABW] = SignalProfile{Quantum: 1} }, []string{"signals.abw.buckets"}},
		{"no quantum", func(p *Profile) { p.Signals[MinABWC] = SignalProfile{Buckets: p.Signals[MinABWC].Buckets} }, []string{"signals.abwc.quantum"}},
		{"locator too wide for uec", func(p *Profile) { p.Layout = UEC }, []string{"signals.abw.locator", "signals.abw.wide_locator"}},
		{"nqd in draft-00", func(p *Profile) {
			p.Signals[MaxNQD] = SignalProfile{Buckets: mustPreset(t, MaxNQD, "log"), Quantum: 1}
		}, []string{"signals.nqd"}},
		{"interval", func(p *Profile) { p.Interval = -1 }, []string{"interval"}},
		{"initial S", func(p *Profile) { p.InitialS = map[Signal]uint8{MinABW: 32, MinABWC: 0, MaxPD: 3} }, []string{"initial_s.abw", "initial_s.abwc", "initial_s.pd"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := lab(t)
			c.change(p)
			err := p.Validate()
			var got []string
			for _, problem := range problems(err) {
				got = append(got, problem.Field)
			}
			if strings.Join(got, " ") != strings.Join(c.want, " ") || (err == nil) != (len(c.want) == 0) {
				t.Errorf("problems in %v, want %v: %v", got, c.want, err)
			}
		})
	}
}

// problems walks a joined error as a reader of fleet files does.
func problems(err error) []*Problem {
	var p *Problem
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*Problem
		for _, e := range joined.Unwrap() {
			all = append(all, problems(e)...)
		}
		return all
	}
	if errors.As(err, &p) {
		return []*Problem{p}
	}
	return nil
}

func TestInitial(t *testing.T) {
	p := lab(t)
	p.InitialS = map[Signal]uint8{MinABW: 30}
	if p.Initial(MinABW) != 30 || p.Initial(MinABWC) != 31 || p.Initial(MaxPD) != 0 {
		t.Errorf("initial S: %d %d %d", p.Initial(MinABW), p.Initial(MinABWC), p.Initial(MaxPD))
	}
}

func TestProfileRead(t *testing.T) {
	p := lab(t)
	for _, c := range []struct {
		name    string
		tag     Tag
		text    string
		locator string
		err     string
	}{
		{"compact", Tag{T: MinABW, S: 11, LM: 3}, "900 kbit/s – 1.12 Mbit/s", "stage=tor,orientation=up,port=3", ""},
		{"last bucket", Tag{T: MinABW, S: 31, LM: 126}, "90 Mbit/s and above", "none", ""},
		{"share", Tag{T: MinABWC, S: 1, LM: 9}, "3.125–6.25 %", "9", ""},
		{"wide", Tag{Wide: true, T: MinABW, S: 1250, LM: 3<<6 | 5}, "10–10.008 Gbit/s", "device=3,port=5", ""},
		{"last quantum but one", Tag{Wide: true, T: MinABW, S: MaxWideS - 1, LM: 0xfffd}, "8.388592–8.3886 Tbit/s", "stale", ""},
		{"last quantum", Tag{Wide: true, T: MinABW, S: MaxWideS, LM: 0xfffd}, "8.3886 Tbit/s and above", "stale", ""},
		{"signal not carried", Tag{T: MaxPD}, "", "", "does not carry signal pd"},
		{"S that is none", Tag{T: MinABW, S: 32}, "", "", "S=32 does not fit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := p.Read(c.tag)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || r.String() != c.text || r.Locator != c.locator {
				t.Errorf("Read = %q %q, %v, want %q %q", r, r.Locator, err, c.text, c.locator)
			}
		})
	}
	sp := p.Signals[MinABW]
	sp.Quantum = 0
	p.Signals[MinABW] = sp
	if _, err := p.Read(Tag{Wide: true, T: MinABW}); err == nil {
		t.Error("a wide tag was read without a quantum")
	}
}

func TestMisfitSaysWhatSCannotTell(t *testing.T) {
	preset := func(sig Signal, name string) SignalProfile {
		table, err := Preset(sig, name)
		if err != nil {
			t.Fatal(err)
		}
		return SignalProfile{Buckets: table}
	}
	shares := preset(MinABWC, "log")
	bounds := shares.Buckets.Bounds()
	for i := range bounds {
		bounds[i] /= 4 // up to 25 %
	}
	quarter, err := NewBuckets(MinABWC, bounds[:])
	if err != nil {
		t.Fatal(err)
	}
	p := Profile{Signals: map[Signal]SignalProfile{MinABW: preset(MinABW, "log-100G"), MinABWC: preset(MinABWC, "log"), MaxPD: preset(MaxPD, "log-1ms")}}
	low := p.Signals[MinABW].Buckets.bounds
	for _, tc := range []struct {
		capacity uint64
		want     string // "" for a table that fits
	}{
		{0, ""}, // not known
		{low[1] - 1, "S is 0"},
		{low[1], ""},
		{100e9, ""},
		{100e9 + low[32] - low[31], ""}, // one more bucket as wide as the last
		{100e9 + low[32] - low[31] + 1, "S is 31"},
	} {
		if got := p.Misfit(tc.capacity); tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%d bit/s: %q, want %q", tc.capacity, got, tc.want)
		}
	}
	p.Signals[MinABWC] = SignalProfile{Buckets: quarter}
	if got := p.Misfit(1e6); !strings.Contains(got, "abw is never above 1 Mbit/s") || !strings.Contains(got, "; abwc goes up to 100 %") {
		t.Errorf("both: %q", got)
	}
}
