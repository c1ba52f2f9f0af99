package linux

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Offsets in struct __sk_buff (linux/bpf.h).
const (
	skbVLANPresent = 20
	skbVLANProto   = 28
	skbData        = 76
	skbDataEnd     = 80
)

// Verdicts of tcx (linux/bpf.h): let the next program decide, or drop.
const (
	tcxNext = -1
	tcxDrop = 2
)

// stripProgram removes the CSIG tag of the frames that leave a device.
//
// The kernel offers no helper that removes four bytes behind an ethertype it
// does not know. But it pops VLAN tags, so the program turns the CSIG tag's
// place into VLAN tags:
//
//   - It pushes VLAN tags until the kernel holds one of ours as metadata and
//     the frame's first tag lies in the frame, so that the rest is a matter of
//     bytes: one push if the frame's own outermost tag was metadata, else two.
//     Then k VLAN tags and the CSIG tag start at byte 12 or, behind our second
//     one, at byte 16.
//   - It moves the k VLAN tags over the CSIG tag and writes a VLAN TPID where
//     they stood. A wide tag is two tags long.
//   - It pops what it pushed and what it wrote. The kernel takes the next VLAN
//     tag into metadata each time, so the ethertype ends up right.
//
// A frame without a CSIG tag is not touched; nor is one whose CSIG tag is not
// its last L2 tag (draft-00 §4.1), or stands behind more than 4 VLAN tags. A tag
// of another TPID than the domain's that is not the last counts as a VLAN's, as
// it would on any switch that knows of no such TPID. If the kernel runs out of
// memory in between, the frame is dropped: a tag must not get past a port that
// strips (draft-00 §6.2).
func stripProgram(spec stripSpec) asm.Instructions {
	g := &stripGenerator{spec: spec}
	return g.program()
}

// stripSpec is what a program does; all that its code depends on. The zero value
// is no program at all.
type stripSpec struct {
	tpid, wide uint16 // the domain's own
	own        bool   // whose tags are removed, too
	others     [maxOthers]vendors.OtherTPID
}

// stripSpecOf is the program for a port of a setup.
func stripSpecOf(s *vendors.Setup, p *vendors.PortSetup) stripSpec {
	own := p.Action == vlanrules.Strip
	if !own && (!p.StripOthers || len(s.Others) == 0) {
		return stripSpec{}
	}
	spec := stripSpec{tpid: s.TPID, wide: s.WideTPID, own: own}
	copy(spec.others[:], s.Others)
	return spec
}

// wanted tells whether there is a program.
func (s *stripSpec) wanted() bool { return *s != stripSpec{} }

// removed is a kind of tag that is removed.
type removed struct {
	tpid  uint16
	units int // of 4 bytes
	other bool
}

func (s *stripSpec) removed() []removed {
	var out []removed
	if s.own {
		out = append(out, removed{s.tpid, 1, false})
		if s.wide != 0 {
			out = append(out, removed{s.wide, 2, false})
		}
	}
	for _, t := range s.others {
		switch {
		case t.TPID == 0:
		case t.Wide:
			out = append(out, removed{t.TPID, 2, true})
		default:
			out = append(out, removed{t.TPID, 1, true})
		}
	}
	return out
}

// vlans are the ethertypes of VLAN tags.
func (s *stripSpec) vlans() []uint16 {
	return slices.DeleteFunc([]uint16{0x8100, 0x88a8}, func(t uint16) bool {
		return t == s.tpid || t == s.wide || slices.ContainsFunc(s.others[:], func(o vendors.OtherTPID) bool { return o.TPID == t })
	})
}

// tags are the ethertypes of all tags that may stand in a row.
func (s *stripSpec) tags() []uint16 {
	out := append(s.vlans(), s.tpid)
	if s.wide != 0 {
		out = append(out, s.wide)
	}
	for _, t := range s.others {
		if t.TPID != 0 {
			out = append(out, t.TPID)
		}
	}
	slices.Sort(out)
	return out
}

type stripGenerator struct {
	spec  stripSpec
	out   asm.Instructions
	label string // of the next instruction
}

func (g *stripGenerator) emit(list ...asm.Instruction) {
	for _, i := range list {
		if g.label != "" {
			i = i.WithSymbol(g.label)
			g.label = ""
		}
		g.out = append(g.out, i)
	}
}

// networkOrder is an ethertype as the program sees it when it loads the two bytes.
func networkOrder(ethertype uint16) int32 {
	return int32(binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, ethertype)))
}

// Registers that keep their value over helper calls.
const (
	regSkb   = asm.R6
	regFirst = asm.R7 // where the first tag starts after the pushes: 12 or 16
	regTwo   = asm.R8 // 1 where two pushes are needed
)

// Stack: a buffer for the VLAN tags, and one for an ethertype.
const (
	stackTags = -4 * maxDepth
	stackType = stackTags - 8
)

func (g *stripGenerator) program() asm.Instructions {
	g.emit(
		asm.Mov.Reg(regSkb, asm.R1),
		asm.LoadMem(asm.R2, regSkb, skbVLANPresent, asm.Word),
		asm.JNE.Imm(asm.R2, 0, "offloaded"),
		// The way of ordinary frames: one look at the ethertype.
		asm.LoadMem(asm.R2, regSkb, skbData, asm.Word),
		asm.LoadMem(asm.R3, regSkb, skbDataEnd, asm.Word),
		asm.Mov.Reg(asm.R4, asm.R2),
		asm.Add.Imm(asm.R4, firstType+2),
		asm.JGT.Reg(asm.R4, asm.R3, "next"),
		asm.Mov.Imm(regFirst, firstType+4),
		asm.Mov.Imm(regTwo, 1),
		asm.LoadMem(asm.R2, asm.R2, firstType, asm.Half),
	)
	g.dispatch("in", 0)
	for k := 1; k <= maxDepth; k++ {
		g.label = fmt.Sprintf("in%d", k)
		g.loadType(firstType + 4*k)
		g.dispatch("in", k)
	}
	g.label = "offloaded"
	g.emit(
		asm.Mov.Imm(regFirst, firstType),
		asm.Mov.Imm(regTwo, 0),
		asm.LoadMem(asm.R2, regSkb, skbVLANProto, asm.Word),
	)
	g.dispatch("off", 0)
	for k := 1; k <= maxDepth; k++ {
		g.label = fmt.Sprintf("off%d", k)
		g.loadType(firstType + 4*(k-1))
		g.dispatch("off", k)
	}
	for k := 0; k <= maxDepth; k++ {
		for _, r := range g.kinds() {
			g.found("in", k, r, firstType+4*k)
			g.found("off", k, r, firstType+4*(k-1))
		}
		for _, w := range g.sizes() {
			g.remove(k, w)
		}
	}
	g.label = "next"
	g.emit(asm.Mov.Imm(asm.R0, tcxNext), asm.Return())
	g.label = "drop"
	g.emit(asm.Mov.Imm(asm.R0, tcxDrop), asm.Return())
	return g.out
}

// kinds are the tags that are removed, but for their TPIDs.
func (g *stripGenerator) kinds() []removed {
	var out []removed
	for _, r := range g.spec.removed() {
		if r.tpid = 0; !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}

// sizes are the lengths of the tags that are removed, in units of 4 bytes.
func (g *stripGenerator) sizes() []int {
	var out []int
	for _, r := range g.kinds() {
		if !slices.Contains(out, r.units) {
			out = append(out, r.units)
		}
	}
	return out
}

// foundLabel is where a tag behind k VLAN tags is looked at.
func foundLabel(way string, k int, r removed) string {
	if r.other {
		return fmt.Sprintf("%s-other%d-%d", way, k, r.units)
	}
	return fmt.Sprintf("%s-found%d-%d", way, k, r.units)
}

// loadType loads the ethertype at a fixed offset of the frame into R2.
func (g *stripGenerator) loadType(offset int) {
	g.emit(
		asm.Mov.Reg(asm.R1, regSkb),
		asm.Mov.Imm(asm.R2, int32(offset)),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, stackType),
		asm.Mov.Imm(asm.R4, 2),
		asm.FnSkbLoadBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, "next"), // the frame ends here
		asm.LoadMem(asm.R2, asm.RFP, stackType, asm.Half),
	)
}

// dispatch goes on with the ethertype in R2 behind k VLAN tags.
func (g *stripGenerator) dispatch(way string, k int) {
	for _, r := range g.spec.removed() {
		g.emit(asm.JEq.Imm(asm.R2, networkOrder(r.tpid), foundLabel(way, k, r)))
	}
	if k < maxDepth {
		for _, t := range g.spec.vlans() {
			g.emit(asm.JEq.Imm(asm.R2, networkOrder(t), fmt.Sprintf("%s%d", way, k+1)))
		}
	}
	g.emit(asm.Ja.Label("next"))
}

// found checks that the tag at offset is the last L2 tag.
func (g *stripGenerator) found(way string, k int, r removed, offset int) {
	g.label = foundLabel(way, k, r)
	g.loadType(offset + 4*r.units)
	goOn := "next"
	if r.other && r.units == 1 && k < maxDepth {
		goOn = fmt.Sprintf("%s%d", way, k+1)
	}
	for _, t := range g.spec.tags() {
		g.emit(asm.JEq.Imm(asm.R2, networkOrder(t), goOn))
	}
	g.emit(asm.Ja.Label(fmt.Sprintf("remove%d-%d", k, r.units)))
}

// remove removes a CSIG tag of w units behind k VLAN tags.
func (g *stripGenerator) remove(k, w int) {
	name := fmt.Sprintf("remove%d-%d", k, w)
	push := func() {
		g.emit(
			asm.Mov.Reg(asm.R1, regSkb),
			asm.Mov.Imm(asm.R2, networkOrder(0x8100)),
			asm.Mov.Imm(asm.R3, 0),
			asm.FnSkbVlanPush.Call(),
			asm.JNE.Imm(asm.R0, 0, "drop"),
		)
	}
	pop := func() {
		g.emit(
			asm.Mov.Reg(asm.R1, regSkb),
			asm.FnSkbVlanPop.Call(),
			asm.JNE.Imm(asm.R0, 0, "drop"),
		)
	}
	bytes := func(fn asm.BuiltinFunc, offset, stack, size int) {
		g.emit(
			asm.Mov.Reg(asm.R1, regSkb),
			asm.Mov.Reg(asm.R2, regFirst),
			asm.Add.Imm(asm.R2, int32(offset)),
			asm.Mov.Reg(asm.R3, asm.RFP),
			asm.Add.Imm(asm.R3, int32(stack)),
			asm.Mov.Imm(asm.R4, int32(size)),
			asm.Mov.Imm(asm.R5, 1), // when storing: keep a received checksum right
			fn.Call(),
			asm.JNE.Imm(asm.R0, 0, "drop"),
		)
	}
	g.label = name
	push()
	g.emit(asm.JEq.Imm(regTwo, 0, name+"-pushed"))
	push()
	g.label = name + "-pushed"
	if k > 0 {
		bytes(asm.FnSkbLoadBytes, 0, stackTags, 4*k)
		bytes(asm.FnSkbStoreBytes, 4*w, stackTags, 4*k)
	}
	g.emit(asm.StoreImm(asm.RFP, stackType, int64(networkOrder(0x8100)), asm.Half))
	for i := range w {
		bytes(asm.FnSkbStoreBytes, 4*i, stackType, 2)
	}
	for range w + 1 {
		pop()
	}
	g.emit(asm.JEq.Imm(regTwo, 0, "next"))
	pop()
	g.emit(asm.Ja.Label("next"))
}
