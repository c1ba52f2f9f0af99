package vlanrules_test

import (
	"testing"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// wantTCI is the test's own reading of compare-and-replace (draft-00 §4.4.2):
// what a tag leaves with when the port's local bucket for signal sig is s.
func wantTCI(l quantize.Layout, sig quantize.Signal, s uint8, lm uint16, tci uint16) uint16 {
	if tci>>13 != uint16(sig) {
		return tci
	}
	if l == quantize.UEC && tci&1 == 1 {
		return tci
	}
	in := uint8(tci >> 7 & 31)
	if sig == quantize.MinABW || sig == quantize.MinABWC {
		if in <= s {
			return tci
		}
	} else if in >= s {
		return tci
	}
	if l == quantize.UEC {
		lm <<= 1
	}
	return tci&0xf000 | uint16(s)<<7 | lm
}

func TestRangeWholeTagSpace(t *testing.T) {
	caps := vlanrules.Caps{Match: vlanrules.MatchRange, MatchPCP: true, MatchD: true}
	for _, layout := range []quantize.Layout{quantize.Draft00, quantize.UEC} {
		for _, sig := range quantize.Signals {
			c := vlanrules.NewCompiler(caps, layout)
			var res vlanrules.Result
			for s := range uint8(32) {
				c.Compile(&res, res.Table, []vlanrules.Intent{{Signal: sig, Action: vlanrules.Update, S: s, LM: 5}})
				if res.Verdict.Level != vlanrules.Full {
					t.Fatalf("%s %s s=%d: %s: %s", layout, sig, s, res.Verdict.Level, res.Verdict.Reason)
				}
				for tci := range 1 << 16 {
					in := uint16(tci)
					if layout == quantize.UEC && in&1 == 1 {
						continue // the device leaves these alone before the table
					}
					if got, want := uint16(res.Table.Apply(quantize.TCI(in))), wantTCI(layout, sig, s, 5, in); got != want {
						t.Fatalf("%s %s s=%d: tag %#04x leaves as %#04x, want %#04x", layout, sig, s, in, got, want)
					}
				}
			}
		}
	}
}
