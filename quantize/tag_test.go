package quantize

import (
	"bytes"
	"strings"
	"testing"
)

// The widths of the draft's Figure 1 and of SAI's compact tag, written down
// again so that the codec is not checked against itself.
func modelFields(l Layout, tci uint16) Tag {
	f := Tag{T: Signal(tci / 8192), R: uint8(tci / 4096 % 2), S: uint32(tci / 128 % 32)}
	switch l {
	case Draft00:
		f.LM = tci % 128
	case UEC:
		f.LM, f.D = tci%128/2, tci%2 == 1
	}
	return f
}

func TestEveryTCIRoundTrips(t *testing.T) {
	for _, l := range []Layout{Draft00, UEC} {
		for n := range 1 << 16 {
			tci := TCI(n)
			f := l.Unpack(tci)
			if want := modelFields(l, uint16(n)); f != want {
				t.Fatalf("%s: Unpack(0x%04x) = %+v, want %+v", l, n, f, want)
			}
			if back, err := l.Pack(f); err != nil || back != tci {
				t.Fatalf("%s: Pack(%+v) = 0x%04x, %v, want 0x%04x", l, f, back, err, n)
			}
			raw := []byte{0x99, 0x00, byte(n >> 8), byte(n)}
			tag, err := DecodeTag(raw, l, false)
			if err != nil {
				t.Fatal(err)
			}
			if want := (Tag{TPID: 0x9900, T: f.T, R: f.R, S: f.S, LM: f.LM, D: f.D}); tag != want {
				t.Fatalf("%s: DecodeTag(% x) = %+v, want %+v", l, raw, tag, want)
			}
			if back, err := tag.Encode(l); err != nil || !bytes.Equal(back, raw) {
				t.Fatalf("%s: Encode(%+v) = % x, %v, want % x", l, tag, back, err, raw)
			}
		}
	}
}

func TestWideTag(t *testing.T) {
	for _, c := range []struct {
		name   string
		layout Layout
		raw    []byte
		want   Tag
	}{
		{"draft-00", Draft00, []byte{0x99, 0x01, 0x12, 0x34, 0x2a, 0xbc, 0xde, 0xf0},
			Tag{TPID: 0x9901, Wide: true, LM: 0x1234, T: 2, S: 0xabcde, R: 0xf0}},
		{"uec, D=0", UEC, []byte{0x99, 0x01, 0x12, 0x34, 0x2a, 0xbc, 0xde, 0xf0},
			Tag{TPID: 0x9901, Wide: true, LM: 0x091a, T: 2, S: 0xabcde, R: 0xf0}},
		{"uec, D=1", UEC, []byte{0x99, 0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00},
			Tag{TPID: 0x9901, Wide: true, LM: 0x7fff, D: true, T: 15, S: 0xfffff}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := DecodeTag(c.raw, c.layout, true)
			if err != nil || got != c.want {
				t.Errorf("DecodeTag = %+v, %v, want %+v", got, err, c.want)
			}
			raw, err := c.want.Encode(c.layout)
			if err != nil || !bytes.Equal(raw, c.raw) {
				t.Errorf("Encode = % x, %v, want % x", raw, err, c.raw)
			}
		})
	}
}

func TestDecodeTagTakesExactLengths(t *testing.T) {
	for n := range 12 {
		for _, wide := range []bool{false, true} {
			_, err := DecodeTag(make([]byte, n), Draft00, wide)
			want := n == 4 && !wide || n == 8 && wide
			if (err == nil) != want {
				t.Errorf("%d bytes, wide=%t: %v", n, wide, err)
			}
		}
	}
}

func TestEncodeRefusesWhatDoesNotFit(t *testing.T) {
	for _, c := range []struct {
		name   string
		layout Layout
		tag    Tag
		want   string
	}{
		{"compact T", Draft00, Tag{T: 8}, "T=8 does not fit 3 bits"},
		{"compact R", Draft00, Tag{R: 2}, "R=2 does not fit 1 bit"},
		{"compact S", Draft00, Tag{S: 32}, "S=32 does not fit 5 bits"},
		{"compact S above a byte", Draft00, Tag{S: 256}, "S=256 does not fit 5 bits"},
		{"compact LM", Draft00, Tag{LM: 128}, "LM=128 does not fit the 7 bits"},
		{"compact LM in uec", UEC, Tag{LM: 64}, "LM=64 does not fit the 6 bits"},
		{"compact D in draft-00", Draft00, Tag{D: true}, "only in the uec layout"},
		{"wide T", Draft00, Tag{Wide: true, T: 16}, "T=16 does not fit 4 bits"},
		{"wide S", Draft00, Tag{Wide: true, S: 1 << 20}, "S=1048576 does not fit 20 bits"},
		{"wide LM in uec", UEC, Tag{Wide: true, LM: 1 << 15}, "LM=32768 does not fit the 15 bits"},
		{"wide D in draft-00", Draft00, Tag{Wide: true, D: true}, "only in the uec layout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dst := []byte{1, 2, 3}
			out, err := c.tag.AppendTo(dst, c.layout)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if !bytes.Equal(out, dst) {
				t.Errorf("after an error dst is % x", out)
			}
		})
	}
}

func TestReservedLocators(t *testing.T) {
	for _, l := range []Layout{Draft00, UEC} {
		ones := uint16(127)
		if l == UEC {
			ones = 63
		}
		if l.LMAllOnes() != ones || l.LMNone() != ones-1 || l.LMStale() != ones-2 {
			t.Errorf("%s: all ones %d, none %d, stale %d", l, l.LMAllOnes(), l.LMNone(), l.LMStale())
		}
		for lm := range uint16(200) {
			reserved := lm == 0 || lm > ones-3
			if why := l.LMReserved(lm); (why != "") != reserved {
				t.Errorf("%s: LMReserved(%d) = %q", l, lm, why)
			}
		}
		// Why the two ends are reserved: gear drops VIDs 0 and 4095.
		if l.VID(0, 0) != 0 || l.VID(31, ones)|1 != 4095 {
			t.Errorf("%s: VIDs %d and %d", l, l.VID(0, 0), l.VID(31, ones))
		}
	}
	if lmReserved(Draft00.WideLMBits(), 127) != "" || lmReserved(Draft00.WideLMBits(), 0xffff) == "" || lmReserved(UEC.WideLMBits(), 0x7ffe) == "" {
		t.Error("the wide locator's reservations are counted from its own all-ones")
	}
}

func TestNames(t *testing.T) {
	for _, l := range []Layout{Draft00, UEC} {
		if got, err := ParseLayout(l.String()); err != nil || got != l {
			t.Errorf("ParseLayout(%s) = %v, %v", l, got, err)
		}
	}
	for _, s := range Signals {
		if got, err := ParseSignal(s.String()); err != nil || got != s {
			t.Errorf("ParseSignal(%s) = %v, %v", s, got, err)
		}
	}
	if _, err := ParseLayout("draft-01"); err == nil {
		t.Error("ParseLayout takes draft-01")
	}
	if _, err := ParseSignal("t4"); err == nil || Signal(4).String() != "t4" {
		t.Error("an unknown type prints as t4 and does not parse")
	}
}

func TestWorseAndItsEnds(t *testing.T) {
	for _, s := range Signals {
		for a := range uint8(NumBuckets) {
			if a != s.InitialBucket() && !s.Worse(a, s.InitialBucket()) {
				t.Errorf("%s: bucket %d does not replace the initial one", s, a)
			}
			if s.Worse(a, s.WorstBucket()) || s.Worse(a, a) {
				t.Errorf("%s: bucket %d replaces the worst one or itself", s, a)
			}
		}
	}
	if MinABW.WideInitial() != 1<<20-1 || MaxPD.WideInitial() != 0 {
		t.Error("wide initial values")
	}
}

func FuzzDecodeTag(f *testing.F) {
	f.Add([]byte{0x99, 0x00, 0x23, 0x85}, uint8(0), false)
	f.Add([]byte{0x99, 0x01, 0x12, 0x34, 0x2a, 0xbc, 0xde, 0xf0}, uint8(1), true)
	f.Fuzz(func(t *testing.T, raw []byte, layout uint8, wide bool) {
		l := Layout(layout % 2)
		tag, err := DecodeTag(raw, l, wide)
		if err != nil {
			if len(raw) == 4 && !wide || len(raw) == 8 && wide {
				t.Fatalf("% x refused: %v", raw, err)
			}
			return
		}
		back, err := tag.Encode(l)
		if err != nil || !bytes.Equal(back, raw) {
			t.Fatalf("% x → %+v → % x, %v", raw, tag, back, err)
		}
	})
}
