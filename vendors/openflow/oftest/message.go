package oftest

import (
	"encoding/binary"
	"errors"
	"io"
)

// The version of OpenFlow 1.3 on the wire, and its message types (§7.1).
const (
	Version = 4

	TypeHello        = 0
	TypeError        = 1
	TypeEchoRequest  = 2
	TypeEchoReply    = 3
	TypeExperimenter = 4
	TypeFlowMod      = 14
	TypeGroupMod     = 15
	TypeTableMod     = 17
	TypeMultipartReq = 18
	TypeMultipartRep = 19
	TypeBarrierReq   = 20
	TypeBarrierRep   = 21
	TypeRoleReq      = 24
	TypeRoleRep      = 25
	TypeMeterMod     = 29 // the last type that OpenFlow 1.3 has
)

// Multipart types (§7.3.5).
const (
	partFlow          = 1
	partAggregate     = 2
	partTable         = 3
	partGroup         = 6
	partGroupDesc     = 7
	partGroupFeatures = 8
	partTableFeatures = 12
	partExperimenter  = 0xffff
)

const headerLen = 8

var order = binary.BigEndian

// Message is one OpenFlow message, header included.
type Message []byte

// Type is the message's type.
func (m Message) Type() uint8 { return m[1] }

// XID is the transaction that the message belongs to.
func (m Message) XID() uint32 { return order.Uint32(m[4:]) }

// Change reports whether the message changes flows, groups, tables or meters.
func (m Message) Change() bool {
	switch m.Type() {
	case TypeFlowMod, TypeGroupMod, TypeTableMod, TypeMeterMod:
		return true
	}
	return false
}

// part is the type of a multipart message, and its flags.
func (m Message) part() (typ, flags uint16) {
	if len(m) < headerLen+8 {
		return 0, 0
	}
	return order.Uint16(m[8:]), order.Uint16(m[10:])
}

var errShort = errors.New("a message shorter than its header")

// readMessage reads one message; the 16 bits of its length bound it.
func readMessage(r io.Reader) (Message, error) {
	var head [headerLen]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := int(order.Uint16(head[2:]))
	if n < headerLen {
		return nil, errShort
	}
	m := append(make(Message, 0, n), head[:]...)[:n]
	_, err := io.ReadFull(r, m[headerLen:])
	return m, err
}

// message makes one.
func message(typ uint8, xid uint32, body []byte) Message {
	m := order.AppendUint32([]byte{Version, typ, 0, 0}, xid)
	m = append(m, body...)
	order.PutUint16(m[2:], uint16(len(m)))
	return m
}

// Refusal is an error that a switch answers with (§7.4.4). The zero value is a
// failed hello: it does not occur.
type Refusal struct{ Type, Code uint16 }

// Refusals that tests name.
var (
	BadVersion      = Refusal{1, 0}
	BadType         = Refusal{1, 1}
	BadMultipart    = Refusal{1, 2}
	BadExperimenter = Refusal{1, 3}
	TableFull       = Refusal{5, 1}
	TooManyGroups   = Refusal{6, 3}

	badLen          = Refusal{1, 6}
	badActionType   = Refusal{2, 0}
	badActionVendor = Refusal{2, 2}
	badInstruction  = Refusal{3, 0}
	unsupMetadata   = Refusal{3, 3}
	badInstrVendor  = Refusal{3, 5}
	badMatchType    = Refusal{4, 0}
	badMatchField   = Refusal{4, 6}
	badGroupCommand = Refusal{6, 12}
)

// of is the error message about a request: at least 64 bytes of it follow.
func (r Refusal) of(m Message) Message {
	body := order.AppendUint16(order.AppendUint16(nil, r.Type), r.Code)
	return message(TypeError, m.XID(), append(body, m[:min(len(m), 64)]...))
}
