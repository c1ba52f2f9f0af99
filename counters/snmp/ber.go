package snmp

import (
	"fmt"

	"github.com/gosnmp/gosnmp"

	"github.com/csig-agent/csig/protocol/secret"
)

// ber is a cursor over BER-encoded bytes (X.690, as restricted by RFC 3417 §8:
// definite lengths, tags of one byte).
type ber []byte

// next cuts the next element off. ok is false where there is none that is complete.
func (b *ber) next() (tag byte, body []byte, ok bool) {
	tag, body, whole, ok := b.open()
	return tag, body, ok && whole
}

// open is next, but takes an element that is not whole for what there is of it.
func (b *ber) open() (tag byte, body []byte, whole, ok bool) {
	s := *b
	if len(s) < 2 || s[0]&0x1f == 0x1f {
		return 0, nil, false, false
	}
	n, head := int(s[1]), 2
	if n >= 0x80 {
		size := n & 0x7f
		if size == 0 || size > 4 || len(s) < 2+size {
			return 0, nil, false, false
		}
		var long uint64
		for _, c := range s[2 : 2+size] {
			long = long<<8 | uint64(c)
		}
		head += size
		n = int(min(long, maxDatagram))
	}
	if n > len(s)-head {
		*b = nil
		return s[0], s[head:], false, true
	}
	*b = s[head+n:]
	return s[0], s[head : head+n], true, true
}

// expect is next for a given tag.
func (b *ber) expect(want byte) (body []byte, ok bool) {
	tag, body, ok := b.next()
	return body, ok && tag == want
}

// integer is expect for an INTEGER that fits 32 bits.
func (b *ber) integer() (v int32, ok bool) {
	body, ok := b.expect(byte(gosnmp.Integer))
	if !ok {
		return 0, false
	}
	return signed(body)
}

func signed(body []byte) (v int32, ok bool) {
	if len(body) == 0 || len(body) > 4 {
		return 0, false
	}
	v = int32(int8(body[0]))
	for _, c := range body[1:] {
		v = v<<8 | int32(c)
	}
	return v, true
}

// unsigned decodes an unsigned value of at most size bytes. Some agents omit the
// zero byte in front of a value whose top bit is set; there is only one
// thing they can mean.
func unsigned(body []byte, size int) (v uint64, ok bool) {
	if len(body) == size+1 && body[0] == 0 {
		body = body[1:]
	}
	if len(body) == 0 || len(body) > size {
		return 0, false
	}
	for _, c := range body {
		v = v<<8 | uint64(c)
	}
	return v, true
}

// damaged is the kind of a binding whose value cannot be decoded.
const damaged = gosnmp.Asn1BER(0xff)

// binding is one variable binding of a reply. Its slices are valid until the
// next reply.
type binding struct {
	oid  []byte // encoded, without tag and length
	kind gosnmp.Asn1BER
	n    uint64 // the value where the kind is a number
	text []byte // the value where it is an OCTET STRING or an OBJECT IDENTIFIER
}

// set decodes the value.
func (v *binding) set(tag byte, body []byte) {
	v.kind, v.n, v.text = gosnmp.Asn1BER(tag), 0, nil
	ok := true
	switch v.kind {
	case gosnmp.Counter64:
		v.n, ok = unsigned(body, 8)
	case gosnmp.Counter32, gosnmp.Gauge32, gosnmp.TimeTicks, gosnmp.Uinteger32:
		v.n, ok = unsigned(body, 4)
	case gosnmp.Integer:
		var i int32
		i, ok = signed(body)
		v.n = uint64(int64(i))
	case gosnmp.OctetString, gosnmp.ObjectIdentifier:
		v.text = body
	case gosnmp.NoSuchObject, gosnmp.NoSuchInstance, gosnmp.EndOfMibView, gosnmp.Null:
		ok = len(body) == 0
	}
	if !ok {
		v.kind = damaged
	}
}

// reply is a decoded Response-PDU (RFC 3416 §3).
type reply struct {
	status int32 // error-status
	index  int32 // error-index
	binds  []binding
}

// parse decodes the SNMPv2c message msg into r, reusing r's memory. want is the
// request-id that is waited for; mine is false, and r undefined, for what is no reply
// to that request, with the reason as the error. A value that cannot be decoded is a
// binding of kind damaged; an error with mine means that the structure of the reply
// cannot be trusted.
func (r *reply) parse(msg []byte, want int32, community secret.Text) (mine bool, err error) {
	b := ber(msg)
	tag, body, whole, ok := b.open()
	if !ok || gosnmp.PDUType(tag) != gosnmp.Sequence {
		return false, fmt.Errorf("%w: %d bytes that are not an SNMP message", ErrMalformed, len(msg))
	}
	whole = whole && len(b) == 0
	b = body
	version, ok := b.integer()
	if !ok || gosnmp.SnmpVersion(version) != gosnmp.Version2c {
		return false, fmt.Errorf("%w: not SNMPv2c", ErrMalformed)
	}
	if c, ok := b.expect(byte(gosnmp.OctetString)); !ok || string(c) != string(community) {
		return false, fmt.Errorf("%w: not the community of the request", ErrMalformed)
	}
	tag, body, inner, ok := b.open()
	if !ok || gosnmp.PDUType(tag) != gosnmp.GetResponse {
		return false, fmt.Errorf("%w: no response PDU", ErrMalformed)
	}
	whole = whole && inner && len(b) == 0
	b = body
	id, ok := b.integer()
	if !ok || id != want {
		return false, fmt.Errorf("%w: not the request-id of the request", ErrMalformed)
	}
	if !whole {
		return true, fmt.Errorf("%w: %d bytes that are not one SNMP message", ErrMalformed, len(msg))
	}
	status, ok1 := b.integer()
	index, ok2 := b.integer()
	list, ok3 := b.expect(byte(gosnmp.Sequence))
	if !ok1 || !ok2 || !ok3 || len(b) != 0 {
		return true, fmt.Errorf("%w: error-status, error-index or bindings cut short", ErrMalformed)
	}
	r.status, r.index, r.binds = status, index, r.binds[:0]
	for b = list; len(b) > 0; {
		item, ok := b.expect(byte(gosnmp.Sequence))
		if len(r.binds) == maxBindings {
			return true, fmt.Errorf("%w: more than %d bindings", ErrMalformed, maxBindings)
		}
		if !ok {
			return true, fmt.Errorf("%w: binding %d cut short", ErrMalformed, len(r.binds)+1)
		}
		pair := ber(item)
		name, ok1 := pair.expect(byte(gosnmp.ObjectIdentifier))
		tag, value, ok2 := pair.next()
		if !ok1 || !ok2 || len(pair) != 0 {
			return true, fmt.Errorf("%w: binding %d is not a name and a value", ErrMalformed, len(r.binds)+1)
		}
		r.binds = append(r.binds, binding{oid: name})
		r.binds[len(r.binds)-1].set(tag, value)
	}
	return true, nil
}
