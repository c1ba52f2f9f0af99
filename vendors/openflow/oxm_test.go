package openflow

import (
	"testing"

	"github.com/csig-agent/csig/protocol/ofp"
)

// TestFieldsOfOthers: a field of an experimenter is none of OpenFlow's own with its number.
func TestFieldsOfOthers(t *testing.T) {
	mac := oxmBytes(oxmEthDst, []byte{2, 0, 0, 0, 0, 1}, []byte{255, 255, 255, 255, 255, 255})
	theirs := append([]byte{0xff, 0xff, oxmEthDst << 1, 6}, 0, 0, 0x4f, 0x4e, 9, 9)
	ours := ofp.Match{Else: string(mac)}
	if !overlap(&ours, &ofp.Match{Else: string(theirs)}) {
		t.Error("a flow with an experimenter's field takes no frames of ours")
	}
	for _, both := range []string{string(mac) + string(theirs), string(theirs) + string(mac)} {
		if got := canonical(ofp.Match{Else: both}).Else; got != string(mac)+string(theirs) {
			t.Errorf("%x became %x", both, got)
		}
	}
}
