package ofp

import (
	"encoding/binary"
	"fmt"
)

// Version is a version of OpenFlow, by its number on the wire.
type Version uint8

// The versions that are spoken, and the newest whose hello is understood.
const (
	Version13 Version = 4
	Version14 Version = 5

	newest Version = 7
)

// String is the version as people write it, e.g. 1.3.
func (v Version) String() string { return fmt.Sprintf("1.%d", int(v)-1) }

// The message types that are sent or understood (1.3.5 and 1.4 §7.1).
const (
	typeHello         = 0
	typeError         = 1
	typeEchoRequest   = 2
	typeEchoReply     = 3
	typeFeaturesReq   = 5
	typeFeaturesRep   = 6
	typeFlowMod       = 14
	typeGroupMod      = 15
	typeMultipartReq  = 18
	typeMultipartRep  = 19
	typeBarrierReq    = 20
	typeBarrierRep    = 21
	typeRoleReq       = 24
	typeRoleRep       = 25
	typeSetAsync      = 28
	typeBundleControl = 33 // 1.4
	typeBundleAdd     = 34
)

const headerLen = 8

// order is the byte order of the wire.
var order = binary.BigEndian

// begin appends a message's header; its length is set by end.
func begin(b []byte, v Version, typ uint8, xid uint32) []byte {
	return order.AppendUint32(append(b, byte(v), typ, 0, 0), xid)
}

// end sets the length of the message that begins at start.
func end(b []byte, start int) {
	order.PutUint16(b[start+2:], uint16(len(b)-start))
}

// pad appends zeros until what began at start is a multiple of 8 long.
func pad(b []byte, start int) []byte {
	for (len(b)-start)%8 != 0 {
		b = append(b, 0)
	}
	return b
}

func zeros(b []byte, n int) []byte {
	for range n {
		b = append(b, 0)
	}
	return b
}

// records gives f each of the records that b is made of. The length of one, itself
// included, is in 16 bits at lengthAt, and at least least.
func records(b []byte, what string, lengthAt, least int, f func(record []byte) error) error {
	for len(b) > 0 {
		if len(b) < least {
			return errMalformed(what)
		}
		n := int(order.Uint16(b[lengthAt:]))
		if n < least || n > len(b) {
			return errMalformed(what)
		}
		if err := f(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// fixed gives f each of the records that b is made of, which have one length.
func fixed(b []byte, what string, length int, f func(record []byte) error) error {
	for ; len(b) > 0; b = b[length:] {
		if len(b) < length {
			return errMalformed(what)
		}
		if err := f(b[:length]); err != nil {
			return err
		}
	}
	return nil
}

// properties gives f each of the properties that b is made of: type, length and
// value. What pads one to a multiple of 8 is no part of its length (1.4 §7.1.2).
func properties(b []byte, what string, f func(typ uint16, value []byte) error) error {
	for len(b) > 0 {
		if len(b) < 4 {
			return errMalformed(what)
		}
		n := int(order.Uint16(b[2:]))
		padded := (n + 7) / 8 * 8
		if n < 4 || padded > len(b) {
			return errMalformed(what)
		}
		if err := f(order.Uint16(b), b[4:n]); err != nil {
			return err
		}
		b = b[padded:]
	}
	return nil
}
