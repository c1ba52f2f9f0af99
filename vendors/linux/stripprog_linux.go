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

// stripProgram removes the CSIG tags of the frames that leave a device: of those
// that are the last L2 tags, behind at most 4 VLAN tags, each one that its spec
// says, in whatever order they stand.
//
// The kernel offers no helper that removes four bytes behind an ethertype it
// does not know. But it pops VLAN tags, so the program turns the CSIG tag's
// place into VLAN tags:
//
//   - It pushes VLAN tags until the kernel holds one of ours as metadata and
//     the frame's first tag lies in the frame, so that the rest is a matter of
//     bytes: one push if the frame's own outermost tag was metadata, else two.
//     Then the tags in front and the CSIG tag start at byte 12 or, behind our
//     second one, at byte 16.
//   - It writes VLAN TPIDs to the start of the row, as many as units of 4 bytes go,
//     and behind them the tags that stay, in their order. A wide tag has two
//     units.
//   - It pops what it pushed and what it wrote. The kernel takes the next VLAN
//     tag into metadata each time, so the ethertype ends up right.
//
// A frame without such a tag is not touched, nor is a CSIG tag in front of a
// VLAN's, nor anything in a row of more than maxUnits. If the kernel runs out of
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

// wanted reports whether there is a program.
func (s *stripSpec) wanted() bool { return *s != stripSpec{} }

// csigTag is a kind of CSIG tag.
type csigTag struct {
	tpid    uint16
	units   int // of 4 bytes
	removed bool
}

// csig are the CSIG tags that the program knows.
func (s *stripSpec) csig() []csigTag {
	out := []csigTag{{s.tpid, 1, s.own}}
	if s.wide != 0 {
		out = append(out, csigTag{s.wide, 2, s.own})
	}
	for _, t := range s.others {
		switch {
		case t.TPID == 0:
		case t.Wide:
			out = append(out, csigTag{t.TPID, 2, true})
		default:
			out = append(out, csigTag{t.TPID, 1, true})
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
	regUnit  = asm.R7 // how many units of the row were walked
	regFirst = asm.R8 // where unit 0 is: 12, or 8 where it is metadata; behind the pushes 4 more
	regCount = asm.R9
)

// maxUnits is how long the row of a frame's tags may be, in units of 4 bytes.
const maxUnits = 2 * maxDepth

// Stack: the row, and an ethertype. What is counted are single bytes off the
// kernel's own grid: of those it knows no value, and so it need not follow the
// program through each combination of them, which takes a hundred times as long.
const (
	stackRow   = -4 * maxUnits
	stackType  = stackRow - 8
	stackUnits = stackType - 7 // of the row so far
	stackVLANs = stackUnits + 1
	stackGone  = stackUnits + 2 // units to remove, behind the last VLAN tag
	stackMask  = stackUnits + 3 // which those are
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
		asm.Mov.Imm(regFirst, firstType),
		asm.LoadMem(asm.R2, asm.R2, firstType, asm.Half),
		asm.Ja.Label("tag0"),
	)
	g.label = "offloaded"
	g.emit(
		asm.Mov.Imm(regFirst, firstType-4),
		asm.LoadMem(asm.R2, regSkb, skbVLANProto, asm.Word),
	)
	for n := 0; n <= maxUnits; n++ {
		g.label = fmt.Sprintf("tag%d", n)
		if n > 0 {
			g.loadType()
		}
		g.tag(n)
	}
	g.label = "end"
	g.emit(
		asm.LoadMem(regCount, asm.RFP, stackGone, asm.Byte),
		asm.JNE.Imm(regCount, 0, "remove"),
	)
	g.label = "next"
	g.emit(asm.Mov.Imm(asm.R0, tcxNext), asm.Return())
	g.label = "drop"
	g.emit(asm.Mov.Imm(asm.R0, tcxDrop), asm.Return())
	g.label = "remove"
	g.remove()
	return g.out
}

// loadType loads the ethertype behind the units so far into R2.
func (g *stripGenerator) loadType() {
	g.emit(
		asm.LoadMem(regUnit, asm.RFP, stackUnits, asm.Byte),
		asm.Mov.Reg(asm.R2, regUnit),
		asm.LSh.Imm(asm.R2, 2),
		asm.Add.Reg(asm.R2, regFirst),
		asm.Mov.Reg(asm.R1, regSkb),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, stackType),
		asm.Mov.Imm(asm.R4, 2),
		asm.FnSkbLoadBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, "next"), // the frame ends here
		asm.LoadMem(asm.R2, asm.RFP, stackType, asm.Half),
	)
}

// tag takes the tag of which the TPID is in R2, the nth of the row, into account;
// behind the last one it goes to the end.
func (g *stripGenerator) tag(n int) {
	label := func(units int, removed bool) string { return fmt.Sprintf("tag%d-%d-%v", n, units, removed) }
	vlan, end := fmt.Sprintf("tag%d-vlan", n), "end"
	var ways []csigTag
	for _, t := range g.spec.csig() {
		g.emit(asm.JEq.Imm(asm.R2, networkOrder(t.tpid), label(t.units, t.removed)))
		if t.tpid = 0; !slices.Contains(ways, t) {
			ways = append(ways, t)
		}
	}
	for _, t := range g.spec.vlans() {
		g.emit(asm.JEq.Imm(asm.R2, networkOrder(t), vlan))
	}
	if n == 0 {
		end = "next"
	}
	g.emit(asm.Ja.Label(end))
	on := func(units int) {
		if n == 0 {
			g.emit(asm.StoreImm(asm.RFP, stackUnits, int64(units), asm.Byte))
		} else {
			g.emit(
				asm.Add.Imm(regUnit, int32(units)),
				asm.JGT.Imm(regUnit, maxUnits, "next"), // too long a row
				asm.StoreMem(asm.RFP, stackUnits, regUnit, asm.Byte),
			)
		}
		if n < maxUnits {
			g.emit(asm.Ja.Label(fmt.Sprintf("tag%d", n+1)))
		} else {
			g.emit(asm.Ja.Label("next"))
		}
	}
	set := func(at int16, value int64) { g.emit(asm.StoreImm(asm.RFP, at, value, asm.Byte)) }
	for _, t := range ways {
		g.label = label(t.units, t.removed)
		bits := int64(1)<<t.units - 1
		switch {
		case n == 0 && t.removed:
			set(stackVLANs, 0)
			set(stackGone, int64(t.units))
			set(stackMask, bits)
		case n == 0:
			set(stackVLANs, 0)
			set(stackGone, 0)
			set(stackMask, 0)
		case t.removed:
			g.emit(
				asm.LoadMem(asm.R1, asm.RFP, stackGone, asm.Byte),
				asm.Add.Imm(asm.R1, int32(t.units)),
				asm.StoreMem(asm.RFP, stackGone, asm.R1, asm.Byte),
				asm.Mov.Imm(asm.R1, int32(bits)),
				asm.LSh.Reg(asm.R1, regUnit),
				asm.LoadMem(asm.R2, asm.RFP, stackMask, asm.Byte),
				asm.Or.Reg(asm.R1, asm.R2),
				asm.StoreMem(asm.RFP, stackMask, asm.R1, asm.Byte),
			)
		}
		on(t.units)
	}
	g.label = vlan
	set(stackGone, 0) // what stands in front of a VLAN tag is not last
	set(stackMask, 0)
	if n == 0 {
		set(stackVLANs, 1)
	} else {
		g.emit(
			asm.LoadMem(asm.R1, asm.RFP, stackVLANs, asm.Byte),
			asm.Add.Imm(asm.R1, 1),
			asm.JGT.Imm(asm.R1, maxDepth, "next"),
			asm.StoreMem(asm.RFP, stackVLANs, asm.R1, asm.Byte),
		)
	}
	on(1)
}

// remove removes the units of the row that are marked.
func (g *stripGenerator) remove() {
	push := func() {
		g.emit(
			asm.Mov.Reg(asm.R1, regSkb),
			asm.Mov.Imm(asm.R2, networkOrder(0x8100)),
			asm.Mov.Imm(asm.R3, 0),
			asm.FnSkbVlanPush.Call(),
			asm.JNE.Imm(asm.R0, 0, "drop"),
		)
	}
	store := func(stack, size int32) { // at R2
		g.emit(
			asm.Mov.Reg(asm.R1, regSkb),
			asm.Mov.Reg(asm.R3, asm.RFP),
			asm.Add.Imm(asm.R3, stack),
			asm.Mov.Imm(asm.R4, size),
			asm.Mov.Imm(asm.R5, 1), // keep a received checksum right
			asm.FnSkbStoreBytes.Call(),
			asm.JNE.Imm(asm.R0, 0, "drop"),
		)
	}
	push()
	g.emit(asm.JEq.Imm(regFirst, firstType-4, "pushed"))
	push()
	g.label = "pushed"
	g.emit(asm.Add.Imm(regFirst, 4), asm.Mov.Imm(asm.R1, 0))
	for at := int16(stackRow); at < 0; at += 8 {
		g.emit(asm.StoreMem(asm.RFP, at, asm.R1, asm.DWord))
	}
	g.emit(
		asm.LoadMem(asm.R4, asm.RFP, stackUnits, asm.Byte),
		asm.JEq.Imm(asm.R4, 0, "drop"), // it is neither, which the kernel wants to see
		asm.JGT.Imm(asm.R4, maxUnits, "drop"),
		asm.LSh.Imm(asm.R4, 2),
		asm.Mov.Reg(asm.R1, regSkb),
		asm.Mov.Reg(asm.R2, regFirst),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, stackRow),
		asm.FnSkbLoadBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, "drop"),
		asm.StoreImm(asm.RFP, stackType, int64(networkOrder(0x8100)), asm.Half),
	)
	for n := range maxUnits { // as many VLAN tags as units go
		g.emit(
			asm.JLE.Imm(regCount, int32(n), "turned"),
			asm.Mov.Reg(asm.R2, regFirst),
			asm.Add.Imm(asm.R2, int32(4*n)),
		)
		store(stackType, 2)
	}
	g.label = "turned"
	for n := range maxUnits { // and behind them what stays
		if n > 0 {
			g.label = fmt.Sprintf("unit%d", n)
		}
		g.emit(
			asm.LoadMem(asm.R1, asm.RFP, stackUnits, asm.Byte),
			asm.JLE.Imm(asm.R1, int32(n), "moved"),
			asm.LoadMem(asm.R1, asm.RFP, stackMask, asm.Byte),
			asm.JSet.Imm(asm.R1, 1<<n, fmt.Sprintf("unit%d", n+1)),
			asm.Mov.Reg(asm.R2, regCount),
			asm.LSh.Imm(asm.R2, 2),
			asm.Add.Reg(asm.R2, regFirst),
		)
		store(int32(stackRow+4*n), 4)
		g.emit(asm.Add.Imm(regCount, 1))
	}
	g.label = fmt.Sprintf("unit%d", maxUnits)
	g.emit(asm.Ja.Label("moved"))
	g.label = "moved"
	g.emit(
		asm.LoadMem(regCount, asm.RFP, stackGone, asm.Byte),
		asm.Add.Imm(regCount, 1),
		asm.JEq.Imm(regFirst, firstType, "pop0"),
		asm.Add.Imm(regCount, 1),
	)
	for n := range maxUnits + 2 {
		g.label = fmt.Sprintf("pop%d", n)
		g.emit(
			asm.JLE.Imm(regCount, int32(n), "done"),
			asm.Mov.Reg(asm.R1, regSkb),
			asm.FnSkbVlanPop.Call(),
			asm.JNE.Imm(asm.R0, 0, "drop"),
		)
	}
	g.label = "done"
	g.emit(asm.Mov.Imm(asm.R0, tcxNext), asm.Return())
}
