package vendorstest

import (
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

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
