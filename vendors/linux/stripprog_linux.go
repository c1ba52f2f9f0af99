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
//   - It moves the tags in front over the CSIG tag and writes a VLAN TPID where
//     they stood. A wide tag is two tags long.
//   - It pops what it pushed and what it wrote. The kernel takes the next VLAN
//     tag into metadata each time, so the ethertype ends up right.
//   - It looks at the frame again, for the next one.
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

// wanted tells whether there is a program.
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
	regFirst = asm.R7 // where the first tag starts after the pushes: 12 or 16
	regTwo   = asm.R8 // 1 where two pushes are needed
	regFound = asm.R9 // the first tag to remove behind the last VLAN tag (foundID); 0: none yet
)

// maxUnits is how long the row of a frame's tags may be, in units of 4 bytes.
const maxUnits = 2 * maxDepth

// Stack: a buffer for the tags in front, one for an ethertype, and how many tags
// were removed.
const (
	stackTags = -4 * maxUnits
	stackType = stackTags - 8
	stackGone = stackType - 8
)

// foundID tells a tag of w units behind u from any other.
func foundID(u, w int) int32 { return int32(2*u + w) }

func (g *stripGenerator) program() asm.Instructions {
	g.emit(
		asm.Mov.Reg(regSkb, asm.R1),
		asm.StoreImm(asm.RFP, stackGone, 0, asm.Word),
	)
	g.label = "again"
	g.emit(
		asm.Mov.Imm(regFound, 0),
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
	g.row("in", firstType)
	g.label = "offloaded"
	g.emit(
		asm.Mov.Imm(regFirst, firstType),
		asm.Mov.Imm(regTwo, 0),
		asm.LoadMem(asm.R2, regSkb, skbVLANProto, asm.Word),
	)
	g.row("off", firstType-4)
	g.label = "end"
	for u := 0; u <= maxUnits; u++ {
		for _, w := range g.sizes() {
			g.emit(asm.JEq.Imm(regFound, foundID(u, w), fmt.Sprintf("remove%d-%d", u, w)))
		}
	}
	g.label = "next"
	g.emit(asm.Mov.Imm(asm.R0, tcxNext), asm.Return())
	g.label = "drop"
	g.emit(asm.Mov.Imm(asm.R0, tcxDrop), asm.Return())
	for u := 0; u <= maxUnits; u++ {
		for _, w := range g.sizes() {
			g.remove(u, w)
		}
	}
	g.label = "removed"
	g.emit(
		asm.LoadMem(asm.R1, asm.RFP, stackGone, asm.Word),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.RFP, stackGone, asm.R1, asm.Word),
		asm.JGT.Imm(asm.R1, maxUnits, "drop"), // so many do not fit into a row
		asm.Ja.Label("again"),
	)
	return g.out
}

// sizes are the lengths of the tags that are removed, in units of 4 bytes.
func (g *stripGenerator) sizes() []int {
	var out []int
	for _, r := range g.spec.csig() {
		if r.removed && !slices.Contains(out, r.units) {
			out = append(out, r.units)
		}
	}
	return out
}

// at is where the ethertype behind u units, v of them VLAN tags, is looked at.
func at(way string, u, v int) string { return fmt.Sprintf("%s%d-%d", way, u, v) }

// row walks a frame's tags, the first of which starts at an offset; its ethertype
// is in R2.
func (g *stripGenerator) row(way string, offset int) {
	for u := 0; u <= maxUnits; u++ {
		for v := 0; v <= min(u, maxDepth); v++ {
			if u > 0 {
				g.label = at(way, u, v)
				g.loadType(offset + 4*u)
			}
			g.dispatch(way, u, v)
		}
	}
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

// dispatch goes on with the ethertype in R2 behind u units, v of them VLAN tags.
func (g *stripGenerator) dispatch(way string, u, v int) {
	on := func(units, vlans int) string {
		if u+units > maxUnits || v+vlans > maxDepth {
			return "next"
		}
		return at(way, u+units, v+vlans)
	}
	here := at(way, u, v)
	vlan := here + "-vlan"
	for _, t := range g.spec.csig() {
		to := on(t.units, 0)
		if t.removed {
			to = fmt.Sprintf("%s-found%d", here, t.units)
		}
		g.emit(asm.JEq.Imm(asm.R2, networkOrder(t.tpid), to))
	}
	for _, t := range g.spec.vlans() {
		g.emit(asm.JEq.Imm(asm.R2, networkOrder(t), vlan))
	}
	g.emit(asm.Ja.Label("end"))
	if len(g.spec.vlans()) > 0 {
		g.label = vlan
		g.emit(asm.Mov.Imm(regFound, 0), asm.Ja.Label(on(1, 1))) // what stood in front is not last
	}
	for _, w := range g.sizes() {
		g.label = fmt.Sprintf("%s-found%d", here, w)
		g.emit(
			asm.JNE.Imm(regFound, 0, on(w, 0)),
			asm.Mov.Imm(regFound, foundID(u, w)),
			asm.Ja.Label(on(w, 0)),
		)
	}
}

// remove removes a CSIG tag of w units behind k others.
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
	g.emit(asm.JEq.Imm(regTwo, 0, "removed"))
	pop()
	g.emit(asm.Ja.Label("removed"))
}
