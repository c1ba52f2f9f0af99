package ofp

import (
	"bytes"
	"fmt"
	"strings"
)

// Action types (§7.2.5), and Nicira's subtypes (lib/ofp-actions.c, enum
// ofp_raw_action_type).
const (
	actOutput   = 0
	actPushVLAN = 17
	actPopVLAN  = 18
	actPushMPLS = 19
	actPopMPLS  = 20
	actGroup    = 22
	actSetField = 25
	actVendor   = 0xffff

	nicira = 0x00002320

	nxRegMove       = 6
	nxRegLoad       = 7
	nxNote          = 8
	nxResubmitTable = 14
	nxOutputReg     = 15
	nxClone         = 42
)

// Ports that are not ports (§7.2.1.1).
const (
	PortMax        = 0xffffff00
	PortNormal     = 0xfffffffa
	PortFlood      = 0xfffffffb
	PortAll        = 0xfffffffc
	PortController = 0xfffffffd
	PortAny        = 0xffffffff
)

// Field is a field that actions read or write, with its OXM header.
type Field uint32

// The fields that csig's flows move bits between, or that it looks for in the
// features of a table.
const (
	FieldInPort   Field = classBasic<<16 | fieldInPort<<9 | 4
	FieldMetadata Field = classBasic<<16 | fieldMetadata<<9 | 8
	FieldEthType  Field = classBasic<<16 | fieldEthType<<9 | 2
	FieldVLANVID  Field = classBasic<<16 | fieldVLANVID<<9 | 2
	FieldVLANPCP  Field = classBasic<<16 | fieldVLANPCP<<9 | 1
	FieldPktMark  Field = classNXM1<<16 | fieldPktMark<<9 | 4
)

// Reg is register n.
func Reg(n int) Field { return Field(classNXM1<<16 | uint32(n)<<9 | 4) }

// Actions is a list of actions, as it is on the wire.
type Actions []byte

func (a Actions) vendor(length int, subtype uint16) Actions {
	a = order.AppendUint16(a, actVendor)
	a = order.AppendUint16(a, uint16(length))
	a = order.AppendUint32(a, nicira)
	return order.AppendUint16(a, subtype)
}

// Output sends the frame out of a port.
func (a Actions) Output(port uint32) Actions {
	a = append(a, 0, actOutput, 0, 16)
	a = order.AppendUint32(a, port)
	return zeros(order.AppendUint16(a, 0xffff), 6) // to a controller: all of the frame
}

// OutputReg sends the frame out of the port whose number is in a register.
func (a Actions) OutputReg(n int) Actions {
	a = a.vendor(24, nxOutputReg)
	a = order.AppendUint16(a, 0<<6|31) // bits 0…31
	a = order.AppendUint32(a, uint32(Reg(n)))
	return zeros(order.AppendUint16(a, 0xffff), 6)
}

// PushVLAN puts a tag of the TPID, with VID and PCP 0, in front of the others.
func (a Actions) PushVLAN(tpid uint16) Actions {
	return zeros(order.AppendUint16(append(a, 0, actPushVLAN, 0, 8), tpid), 2)
}

// PopVLAN takes the outermost tag away.
func (a Actions) PopVLAN() Actions { return zeros(append(a, 0, actPopVLAN, 0, 8), 4) }

// PushMPLS puts an MPLS header of the ethertype in front of the payload.
func (a Actions) PushMPLS(ethType uint16) Actions {
	return zeros(order.AppendUint16(append(a, 0, actPushMPLS, 0, 8), ethType), 2)
}

// PopMPLS takes an MPLS header away and gives the payload the ethertype.
func (a Actions) PopMPLS(ethType uint16) Actions {
	return zeros(order.AppendUint16(append(a, 0, actPopMPLS, 0, 8), ethType), 2)
}

// Load sets a register.
func (a Actions) Load(reg int, value uint32) Actions {
	a = append(a, 0, actSetField, 0, 16)
	a = order.AppendUint32(a, uint32(Reg(reg)))
	return zeros(order.AppendUint32(a, value), 4)
}

// SetVID sets the VID of the outermost tag; it has to have one (§7.2.3.7).
func (a Actions) SetVID(vid uint16) Actions {
	a = append(a, 0, actSetField, 0, 16)
	a = order.AppendUint32(a, uint32(FieldVLANVID))
	return zeros(order.AppendUint16(a, VLANPresent|vid), 6)
}

// SetPCP sets the PCP of the outermost tag; it has to have one.
func (a Actions) SetPCP(pcp uint8) Actions {
	a = append(a, 0, actSetField, 0, 16)
	a = order.AppendUint32(a, uint32(FieldVLANPCP))
	return zeros(append(a, pcp), 7)
}

// Same reports whether two lists do the same, one after the other: how much of a frame
// an output would give a controller counts only where it goes to one, and padding
// does not count. Malformed lists are the same where their bytes are.
func (a Actions) Same(b Actions) bool {
	if bytes.Equal(a, b) {
		return true
	}
	for len(a) >= 8 && len(b) >= 8 {
		n, m := int(order.Uint16(a[2:])), int(order.Uint16(b[2:]))
		if n != m || n < 8 || n > len(a) || n > len(b) || order.Uint16(a) != order.Uint16(b) {
			return false
		}
		counts := n
		switch typ := order.Uint16(a); {
		case typ == actOutput && n == 16 && order.Uint32(a[4:]) != PortController:
			counts = 8
		case typ == actOutput && n == 16:
			counts = 10
		case typ == actPushVLAN, typ == actPushMPLS, typ == actPopMPLS:
			counts = 6
		case typ == actPopVLAN:
			counts = 4
		case typ == actSetField:
			counts = min(n, 8+int(a[7]))
		}
		if !bytes.Equal(a[:counts], b[:counts]) {
			return false
		}
		a, b = a[n:], b[n:]
	}
	return len(a) == 0 && len(b) == 0
}

// LoadBits sets n bits of a field from one on.
func (a Actions) LoadBits(f Field, from, n int, value uint64) Actions {
	a = a.vendor(24, nxRegLoad)
	a = order.AppendUint16(a, uint16(from<<6|(n-1)))
	a = order.AppendUint32(a, uint32(f))
	return order.AppendUint64(a, value)
}

// Move copies n bits from one field to another.
func (a Actions) Move(from Field, fromBit int, to Field, toBit, n int) Actions {
	a = a.vendor(24, nxRegMove)
	a = order.AppendUint16(a, uint16(n))
	a = order.AppendUint16(a, uint16(fromBit))
	a = order.AppendUint16(a, uint16(toBit))
	return order.AppendUint32(order.AppendUint32(a, uint32(from)), uint32(to))
}

// Resubmit looks the frame up in a table, and carries out what it finds.
func (a Actions) Resubmit(table uint8) Actions {
	a = a.vendor(16, nxResubmitTable)
	a = order.AppendUint16(a, 0xfff8) // the port it came in
	return append(a, table, 0, 0, 0)
}

// Group carries out the buckets of a group, each with the frame as it is here, and
// leaves the frame as it is.
func (a Actions) Group(id uint32) Actions {
	return order.AppendUint32(append(a, 0, actGroup, 0, 8), id)
}

// Note does nothing and keeps text.
func (a Actions) Note(text []byte) Actions {
	start := len(a)
	a = append(a.vendor(0, nxNote), text...)
	a = pad(a, start)
	order.PutUint16(a[start+2:], uint16(len(a)-start))
	return a
}

// ReadNote is the text of the first note, nil where there is none; what pads it
// is part of it.
func (a Actions) ReadNote() []byte {
	var text []byte
	_ = a.each(func(typ, subtype uint16, body []byte) {
		if typ == actVendor && subtype == nxNote && text == nil {
			text = body[10:]
		}
	})
	return text
}

// each calls f for every action; body is the whole of it. Subtype is that of
// Nicira's own, 0 for others.
func (a Actions) each(f func(typ, subtype uint16, body []byte)) error {
	return records(a, "actions", 2, 8, func(b []byte) error {
		typ, subtype := order.Uint16(b), uint16(0)
		if typ == actVendor && len(b) >= 16 && order.Uint32(b[4:]) == nicira {
			subtype = order.Uint16(b[8:])
		}
		f(typ, subtype, b)
		return nil
	})
}

// Effects is what a list of actions may do with a frame, as far as csig has to
// know.
type Effects struct {
	Ports     []uint32 // it names these to output to, PortNormal and its like among them
	Resubmits []uint8  // it looks the frame up in these tables
	Pushes    []uint16 // it puts VLAN tags of these TPIDs on
	Groups    []uint32 // it carries these out
	Opaque    bool     // it may output in ways that are not looked into: registers, learned flows
}

// Effects looks into actions, clones included. Actions that are malformed are
// opaque.
func (a Actions) Effects() Effects {
	var e Effects
	e.of(a, 0)
	return e
}

func (e *Effects) of(a Actions, depth int) {
	err := a.each(func(typ, subtype uint16, body []byte) {
		switch {
		case typ == actOutput:
			e.Ports = append(e.Ports, order.Uint32(body[4:]))
		case typ == actPushVLAN:
			e.Pushes = append(e.Pushes, order.Uint16(body[4:]))
		case typ == actGroup:
			e.Groups = append(e.Groups, order.Uint32(body[4:]))
		case typ != actVendor:
		case subtype == nxResubmitTable && len(body) >= 16:
			e.Resubmits = append(e.Resubmits, body[12])
		case subtype == nxClone && depth < maxClones:
			e.of(Actions(body[16:]), depth+1)
		case subtype == nxClone, outputsOtherwise[subtype]:
			e.Opaque = true
		}
	})
	if err != nil {
		e.Opaque = true
	}
}

const (
	maxClones = 8       // clones within clones
	maxLooked = 1 << 12 // actions and buckets of groups that are looked into for one flow
)

// EffectsWith is Effects with those of the groups that actions carry out, and of the
// groups in these. A group that is not there is opaque, and so are too many actions.
func (a Actions) EffectsWith(groups map[uint32]*Group) Effects {
	e := a.Effects()
	if len(e.Groups) == 0 {
		return e
	}
	seen, left := map[uint32]bool{}, maxLooked
	for i := 0; i < len(e.Groups); i++ { // Add adds more
		id := e.Groups[i]
		g := groups[id]
		switch {
		case seen[id]:
			continue
		case g == nil:
			e.Opaque = true
			continue
		}
		seen[id] = true
		for _, bucket := range g.Buckets {
			if left -= 1 + len(bucket)/8; left < 0 {
				e.Opaque = true
				return e
			}
			e.Add(bucket.Effects())
		}
	}
	return e
}

// Add adds what others do.
func (e *Effects) Add(b Effects) {
	e.Ports, e.Pushes, e.Resubmits, e.Groups = append(e.Ports, b.Ports...), append(e.Pushes, b.Pushes...), append(e.Resubmits, b.Resubmits...), append(e.Groups, b.Groups...)
	e.Opaque = e.Opaque || b.Opaque
}

// outputsOtherwise are Nicira's actions that may output, or add flows that do:
// output_reg, bundle and bundle_load, learn, output_reg2, output_trunc and
// learn2, enqueue aside, which is OpenFlow's own.
var outputsOtherwise = map[uint16]bool{12: true, 13: true, 15: true, 16: true, 32: true, 39: true, 45: true}

// fieldName is what ovs-fields(7) calls a field that csig moves bits between.
func fieldName(f Field) string {
	switch f {
	case FieldVLANVID:
		return "OXM_OF_VLAN_VID"
	case FieldVLANPCP:
		return "OXM_OF_VLAN_PCP"
	case FieldPktMark:
		return "NXM_NX_PKT_MARK"
	}
	return fmt.Sprintf("NXM_NX_REG%d", f>>9&0x7f)
}

// Text is the actions as ovs-actions(7) writes them, those that csig makes; of
// others it says that they are there.
func (a Actions) Text() string {
	var out []string
	err := a.each(func(typ, subtype uint16, b []byte) {
		bits := func(f uint32, from, n int) string {
			return fmt.Sprintf("%s[%d..%d]", fieldName(Field(f)), from, from+n-1)
		}
		switch {
		case typ == actOutput:
			out = append(out, fmt.Sprintf("output:%d", order.Uint32(b[4:])))
		case typ == actPushVLAN:
			out = append(out, fmt.Sprintf("push_vlan:0x%04x", order.Uint16(b[4:])))
		case typ == actPopVLAN:
			out = append(out, "pop_vlan")
		case typ == actPushMPLS:
			out = append(out, fmt.Sprintf("push_mpls:0x%04x", order.Uint16(b[4:])))
		case typ == actPopMPLS:
			out = append(out, fmt.Sprintf("pop_mpls:0x%04x", order.Uint16(b[4:])))
		case typ == actGroup:
			out = append(out, fmt.Sprintf("group:%d", order.Uint32(b[4:])))
		case typ == actSetField && len(b) == 16 && order.Uint16(b[4:]) == classNXM1 && b[7] == 4:
			out = append(out, fmt.Sprintf("set_field:%#x->reg%d", order.Uint32(b[8:]), Field(order.Uint32(b[4:]))>>9&0x7f))
		case typ == actSetField && len(b) == 16 && Field(order.Uint32(b[4:])) == FieldVLANVID:
			out = append(out, fmt.Sprintf("set_field:%d->vlan_vid", order.Uint16(b[8:])))
		case typ == actSetField && len(b) == 16 && Field(order.Uint32(b[4:])) == FieldVLANPCP:
			out = append(out, fmt.Sprintf("set_field:%d->vlan_pcp", b[8]))
		case typ == actVendor && subtype == nxRegLoad && len(b) == 24:
			ofs := order.Uint16(b[10:])
			out = append(out, fmt.Sprintf("load:%#x->", order.Uint64(b[16:]))+bits(order.Uint32(b[12:]), int(ofs>>6), int(ofs&63)+1))
		case typ == actVendor && subtype == nxRegMove && len(b) == 24:
			n := int(order.Uint16(b[10:]))
			out = append(out, "move:"+bits(order.Uint32(b[16:]), int(order.Uint16(b[12:])), n)+"->"+bits(order.Uint32(b[20:]), int(order.Uint16(b[14:])), n))
		case typ == actVendor && subtype == nxOutputReg && len(b) == 24:
			out = append(out, "output:"+fieldName(Field(order.Uint32(b[12:])))+"[]")
		case typ == actVendor && subtype == nxResubmitTable:
			out = append(out, fmt.Sprintf("resubmit(,%d)", b[12]))
		case typ == actVendor && subtype == nxClone:
			out = append(out, "clone("+Actions(b[16:]).Text()+")")
		case typ == actVendor && subtype == nxNote:
			text := make([]string, 0, len(b))
			for _, c := range b[10:] {
				text = append(text, fmt.Sprintf("%02x", c))
			}
			out = append(out, "note:"+strings.Join(text, "."))
		default:
			out = append(out, fmt.Sprintf("action %d/%d", typ, subtype))
		}
	})
	if err != nil {
		out = append(out, "malformed")
	}
	return strings.Join(out, ",")
}
