package linux

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf/asm"

	"github.com/csig-agent/csig/vendors"
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
// its last L2 tag (draft-00 §4.1), or stands behind more than 4 VLAN tags. If
// the kernel runs out of memory in between, the frame is dropped: a tag must
// not get past a port that strips (draft-00 §6.2).
func stripProgram(s *vendors.Setup) asm.Instructions {
	g := &stripGenerator{setup: s}
	return g.program()
}

type stripGenerator struct {
	setup *vendors.Setup
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
		for _, w := range g.sizes() {
			g.found("in", k, w, firstType+4*k)
			g.found("off", k, w, firstType+4*(k-1))
			g.remove(k, w)
		}
	}
	g.label = "next"
	g.emit(asm.Mov.Imm(asm.R0, tcxNext), asm.Return())
	g.label = "drop"
	g.emit(asm.Mov.Imm(asm.R0, tcxDrop), asm.Return())
	return g.out
}

// sizes are the lengths of CSIG tags in this domain, in units of 4 bytes.
func (g *stripGenerator) sizes() []int {
	if g.setup.WideTPID != 0 {
		return []int{1, 2}
	}
	return []int{1}
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
	g.emit(asm.JEq.Imm(asm.R2, networkOrder(g.setup.TPID), fmt.Sprintf("%s-found%d-1", way, k)))
	if g.setup.WideTPID != 0 {
		g.emit(asm.JEq.Imm(asm.R2, networkOrder(g.setup.WideTPID), fmt.Sprintf("%s-found%d-2", way, k)))
	}
	if k < maxDepth {
		for _, t := range vlanTypes(g.setup) {
			g.emit(asm.JEq.Imm(asm.R2, networkOrder(t), fmt.Sprintf("%s%d", way, k+1)))
		}
	}
	g.emit(asm.Ja.Label("next"))
}

// found checks that the CSIG tag of w units at offset is the last L2 tag.
func (g *stripGenerator) found(way string, k, w, offset int) {
	g.label = fmt.Sprintf("%s-found%d-%d", way, k, w)
	g.loadType(offset + 4*w)
	for _, t := range tagTypes(g.setup) {
		g.emit(asm.JEq.Imm(asm.R2, networkOrder(t), "next"))
	}
	g.emit(asm.Ja.Label(fmt.Sprintf("remove%d-%d", k, w)))
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
