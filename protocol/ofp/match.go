package ofp

import "math"

// Classes and fields of OXM headers (§7.2.3.2; nicira-ext.h for NXM).
const (
	classNXM1         = 0x0001 // Nicira's extensions
	classBasic        = 0x8000
	classExperimenter = 0xffff

	fieldInPort   = 0 // of classBasic
	fieldMetadata = 2
	fieldEthType  = 5
	fieldVLANVID  = 6
	fieldVLANPCP  = 7
	fieldPktMark  = 33 // of classNXM1

	registers = 16 // fields 0 to 15 of classNXM1
)

// VLANPresent is the bit of a VID that says that there is a VLAN tag
// (OFPVID_PRESENT, §7.2.3.7).
const VLANPresent = 0x1000

// Match is a flow's condition on a frame. The zero value takes every frame.
type Match struct {
	InPort   uint32 // 0: any
	EthType  uint16 // of what follows the VLAN tags that the switch parses; 0: any
	VID      uint16 // of the outermost tag, with VLANPresent
	VIDMask  uint16
	PCP      uint8 // of the outermost tag
	MatchPCP bool
	Metadata Masked64 // what earlier tables wrote (write_metadata)
	Regs     [registers]Masked
	Mark     Masked // a condition on the frame's mark in the datapath

	// Else is what else the flow's condition has, in the bytes of OXM and the
	// order in which the switch returned it. It is written back as it is.
	Else string
}

// Masked64 is a condition on 64 bits, or what is written to them: those of Mask
// are Value's.
type Masked64 struct{ Value, Mask uint64 }

// Masked is a condition on 32 bits of metadata: r&Mask == Value.
type Masked struct{ Value, Mask uint32 }

// Exactly is the condition that a register has the value.
func Exactly(v uint32) Masked { return Masked{v, 0xffffffff} }

// append appends the match with its header and padding (§7.2.3.1).
func (m *Match) append(b []byte) []byte {
	start := len(b)
	b = append(b, 0, 1, 0, 0) // OFPMT_OXM
	if m.InPort != 0 {
		b = order.AppendUint32(oxm(b, classBasic, fieldInPort, false, 4), m.InPort)
	}
	switch m.Metadata.Mask {
	case 0:
	case math.MaxUint64:
		b = order.AppendUint64(oxm(b, classBasic, fieldMetadata, false, 8), m.Metadata.Value)
	default:
		b = order.AppendUint64(oxm(b, classBasic, fieldMetadata, true, 16), m.Metadata.Value)
		b = order.AppendUint64(b, m.Metadata.Mask)
	}
	if m.EthType != 0 {
		b = order.AppendUint16(oxm(b, classBasic, fieldEthType, false, 2), m.EthType)
	}
	switch m.VIDMask {
	case 0:
	case 0x1fff:
		b = order.AppendUint16(oxm(b, classBasic, fieldVLANVID, false, 2), m.VID)
	default:
		b = order.AppendUint16(oxm(b, classBasic, fieldVLANVID, true, 4), m.VID)
		b = order.AppendUint16(b, m.VIDMask)
	}
	if m.MatchPCP {
		b = append(oxm(b, classBasic, fieldVLANPCP, false, 1), m.PCP)
	}
	for r, v := range m.Regs {
		b = v.append(b, r)
	}
	b = m.Mark.append(b, fieldPktMark)
	b = append(b, m.Else...)
	order.PutUint16(b[start+2:], uint16(len(b)-start)) // without the padding
	return pad(b, start)
}

func (v Masked) append(b []byte, field int) []byte {
	switch v.Mask {
	case 0:
		return b
	case 0xffffffff:
		return order.AppendUint32(oxm(b, classNXM1, field, false, 4), v.Value)
	}
	b = order.AppendUint32(oxm(b, classNXM1, field, true, 8), v.Value)
	return order.AppendUint32(b, v.Mask)
}

func oxm(b []byte, class uint16, field int, masked bool, length uint8) []byte {
	b = order.AppendUint16(b, class)
	f := uint8(field) << 1
	if masked {
		f |= 1
	}
	return append(b, f, length)
}

// parseMatch reads a match and returns what follows it.
func parseMatch(b []byte) (Match, []byte, error) {
	var m Match
	if len(b) < 4 || order.Uint16(b) != 1 {
		return m, nil, errMalformed("a match")
	}
	length := int(order.Uint16(b[2:]))
	padded := (length + 7) / 8 * 8
	if length < 4 || padded > len(b) {
		return m, nil, errMalformed("a match")
	}
	rest := b[padded:]
	var others []byte
	for b = b[4:length]; len(b) > 0; {
		if len(b) < 4 {
			return m, nil, errMalformed("a match")
		}
		class, f, n := order.Uint16(b), b[2], int(b[3])
		field, masked := int(f>>1), f&1 != 0
		if len(b) < 4+n {
			return m, nil, errMalformed("a match")
		}
		v := b[4 : 4+n]
		if !m.take(class, field, masked, v) {
			others = append(others, b[:4+n]...)
		}
		b = b[4+n:]
	}
	m.Else = string(others)
	return m, rest, nil
}

// take notes one condition; false where Match has no place for it, which would
// not give it back as it was.
func (m *Match) take(class uint16, field int, masked bool, v []byte) bool {
	switch {
	case class == classBasic && field == fieldInPort && !masked && len(v) == 4 && order.Uint32(v) != 0:
		m.InPort = order.Uint32(v)
	case class == classBasic && field == fieldMetadata && !masked && len(v) == 8:
		m.Metadata = Masked64{order.Uint64(v), math.MaxUint64}
	case class == classBasic && field == fieldMetadata && masked && len(v) == 16 && order.Uint64(v[8:]) != 0:
		m.Metadata = Masked64{order.Uint64(v), order.Uint64(v[8:])}
	case class == classBasic && field == fieldEthType && !masked && len(v) == 2 && order.Uint16(v) != 0:
		m.EthType = order.Uint16(v)
	case class == classBasic && field == fieldVLANVID && !masked && len(v) == 2:
		m.VID, m.VIDMask = order.Uint16(v), 0x1fff
	case class == classBasic && field == fieldVLANVID && masked && len(v) == 4 && order.Uint16(v[2:]) != 0:
		m.VID, m.VIDMask = order.Uint16(v), order.Uint16(v[2:])
	case class == classBasic && field == fieldVLANPCP && !masked && len(v) == 1:
		m.PCP, m.MatchPCP = v[0], true
	case class == classNXM1 && field < registers && !masked && len(v) == 4:
		m.Regs[field] = Exactly(order.Uint32(v))
	case class == classNXM1 && field < registers && masked && len(v) == 8 && order.Uint32(v[4:]) != 0:
		m.Regs[field] = Masked{order.Uint32(v), order.Uint32(v[4:])}
	case class == classNXM1 && field == fieldPktMark && !masked && len(v) == 4:
		m.Mark = Exactly(order.Uint32(v))
	case class == classNXM1 && field == fieldPktMark && masked && len(v) == 8 && order.Uint32(v[4:]) != 0:
		m.Mark = Masked{order.Uint32(v), order.Uint32(v[4:])}
	default:
		return false
	}
	return true
}
