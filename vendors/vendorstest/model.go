package vendorstest

import (
	"testing"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// Tags compares those that frames left with, which came with tags, with those that they want.
func Tags(t testing.TB, what string, tags, got []uint16, want func(i int) uint16) {
	t.Helper()
	wrong := 0
	for i, tci := range got {
		if want := want(i); tci != want {
			if wrong++; wrong < 5 {
				t.Errorf("%s: %04x leaves as %04x, want %04x", what, tags[i], tci, want)
			}
		}
	}
	if wrong > 0 {
		t.Fatalf("%s: %d of %d tags", what, wrong, len(tags))
	}
}

// Model is what a port with these intents makes of a tag, from the draft's text
// (draft-00 §5.4, §4.1.3.3) and not from any table.
func Model[T ~uint16](layout quantize.Layout, intents []vlanrules.Intent, tci T) T {
	t, s := quantize.Signal(tci>>13), uint8(tci>>7&31)
	for _, in := range intents {
		if in.Signal != t || in.Action != vlanrules.Update {
			continue
		}
		worse := in.S < s
		if t == quantize.MaxPD || t == quantize.MaxNQD { // the delays are aggregated by max
			worse = in.S > s
		}
		if layout == quantize.UEC && tci&1 == 1 || !worse {
			return tci
		}
		lm := in.LM
		if layout == quantize.UEC { // D is the lowest bit
			lm <<= 1
		}
		return tci&0xf000 | T(in.S)<<7 | T(lm)
	}
	return tci
}
