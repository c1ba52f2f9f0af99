package ofp

import (
	"encoding/binary"
)

// version is OpenFlow 1.4's number on the wire.
const version = 5

// The message types that are sent or understood (§7.1).
const (
	typeHello         = 0
	typeError         = 1
	typeEchoRequest   = 2
	typeEchoReply     = 3
	typeFlowMod       = 14
	typeGroupMod      = 15
	typeMultipartReq  = 18
	typeMultipartRep  = 19
	typeBarrierReq    = 20
	typeBarrierRep    = 21
	typeBundleControl = 33
	typeBundleAdd     = 34
)

const headerLen = 8

// order is the byte order of the wire.
var order = binary.BigEndian

// begin appends a message's header; its length is set by end.
func begin(b []byte, typ uint8, xid uint32) []byte {
	return order.AppendUint32(append(b, version, typ, 0, 0), xid)
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
