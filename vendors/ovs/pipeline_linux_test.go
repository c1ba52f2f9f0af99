package ovs

import (
	"bytes"
	"testing"

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// TestPrioritiesDecide asks that no two flows of one table and priority take the same
// frame, unless they do the same: which one Open vSwitch takes is undefined, and changes
// when flows are restored.
func TestPrioritiesDecide(t *testing.T) {
	t.Parallel()
	states := []uint32{
		0, isNew, isWhole, isWhole | isDirect, isWhole | isUEC, isWhole | isDirect | isUEC, isSeen, isSeen | isInner, isSeen | isKept, isSeen | isChanged,
		isOuter, isOuter | isCSIGs, isAside, isAside | isCSIGs, isClass, isTag, isTag | isChanged, isLast, isRead,
	}
	does := []uint32{0, doRewrite, doStrip, doStale, doLeave, doLeave | doLeave4 | doParse} // one at a time
	for _, layout := range []quantize.Layout{quantize.Draft00, quantize.UEC} {
		setup := setupFor(layout, swp1)
		setup.WideTPID = 0x9901
		p, err := newPipeline(60, setup.Wanted())
		if err != nil {
			t.Fatal(err)
		}
		flows := append(p.shared(), p.lease(1))
		flows = append(flows, p.port(1, vlanrules.Update, false)...)
		for i := range flows {
			for j := range i {
				a, b := &flows[i], &flows[j]
				if a.Table != b.Table || a.Priority != b.Priority || bytes.Equal(a.Actions, b.Actions) || disjoint(&a.Match, &b.Match) {
					continue
				}
				for _, state := range states {
					for _, do := range does {
						if takes(&a.Match, state, do) && takes(&b.Match, state, do) {
							t.Errorf("%s: both take frames with register 13 %#x and 14 %#x:\n%s\n%s", layout, state, do, flowText(a), flowText(b))
						}
					}
				}
			}
		}
	}
}

// takes reports whether a match takes frames with these values of registers 13 and 14.
func takes(m *ofp.Match, state, do uint32) bool {
	vlan, vid := m.Regs[regVLAN], m.Regs[regVID]
	return (vlan.Value^state)&vlan.Mask == 0 && (vid.Value^do)&vid.Mask == 0
}

// disjoint reports whether no frame matches both, whatever its registers 13 and 14.
func disjoint(a, b *ofp.Match) bool {
	differ := func(a, b ofp.Masked) bool { return (a.Value^b.Value)&a.Mask&b.Mask != 0 }
	return differ(a.Regs[regOut], b.Regs[regOut]) || differ(a.Mark, b.Mark) || (a.VID^b.VID)&a.VIDMask&b.VIDMask != 0 ||
		a.MatchPCP && b.MatchPCP && a.PCP != b.PCP || a.EthType != 0 && b.EthType != 0 && a.EthType != b.EthType
}
