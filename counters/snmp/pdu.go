package snmp

import (
	"encoding/binary"
	"fmt"

	"github.com/gosnmp/gosnmp"

	"github.com/csig-agent/csig/protocol/secret"
)

// want is one binding that a reply must carry, in its place.
type want struct {
	at   uint32 // where in pdu.oids its name starts
	size uint8
	col  column
	port int32 // index into Source.ports, or noPort
}

const noPort = -1 // a scalar of the whole device

// pdu is a request and what its answer must look like.
type pdu struct {
	kind        gosnmp.PDUType
	repetitions int
	names       []string // what is asked for, dotted

	wants []want // what must come back; nil for a walk
	oids  []byte // their names, encoded
	ports []int32

	parts    []*pdu // sent instead, where the agent does not take it at once
	counting int    // so many of them, the first ones, have the counters

	msg  []byte // SNMPv2c: the encoded request
	idAt int    // where its request-id is
}

// ask asks for an object, which is a column of a port or a scalar of the device.
func (p *pdu) ask(o oid, port int32, col column) {
	p.names = append(p.names, o.dotted())
	start := len(p.oids)
	p.oids = o.encode(p.oids)
	p.wants = append(p.wants, want{at: uint32(start), size: uint8(len(p.oids) - start), col: col, port: port})
}

// size is how many bindings are sent at once.
func (p *pdu) size() int {
	if p.parts != nil {
		return len(p.parts[0].wants)
	}
	return len(p.wants)
}

func (p *pdu) name(w *want) []byte { return p.oids[w.at : w.at+uint32(w.size)] }

// firstID is the lowest request-id used: all of them are encoded in four bytes,
// so that a request is encoded once and only its id is replaced.
const firstID = 1 << 24

// encode makes the SNMPv2c message.
func (p *pdu) encode(community secret.Text) error {
	packet := gosnmp.SnmpPacket{
		Version:        gosnmp.Version2c,
		Community:      string(community),
		PDUType:        p.kind,
		RequestID:      firstID,
		MaxRepetitions: uint32(p.repetitions),
	}
	for _, name := range p.names {
		packet.Variables = append(packet.Variables, gosnmp.SnmpPDU{Name: name, Type: gosnmp.Null})
	}
	msg, err := packet.MarshalMsg()
	if err != nil {
		return fmt.Errorf("encode a request of %d objects: %w", len(p.names), err)
	}
	at, ok := requestIDAt(msg)
	if !ok {
		return fmt.Errorf("encode a request of %d objects: no four-byte request-id in it", len(p.names))
	}
	p.msg, p.idAt = msg, at
	p.names = nil // only SNMPv3 needs them again
	return nil
}

// requestIDAt finds the four bytes of the request-id in an SNMPv2c message.
func requestIDAt(msg []byte) (int, bool) {
	b := ber(msg)
	body, ok := b.expect(byte(gosnmp.Sequence))
	if !ok {
		return 0, false
	}
	b = body
	_, ok1 := b.integer()
	_, ok2 := b.expect(byte(gosnmp.OctetString))
	_, inner, ok3 := b.next()
	if !ok1 || !ok2 || !ok3 || len(inner) < 6 || inner[0] != byte(gosnmp.Integer) || inner[1] != 4 {
		return 0, false
	}
	at := len(msg) - len(inner) + 2
	return at, binary.BigEndian.Uint32(msg[at:]) == firstID
}

// getPDU asks for the columns of ports, all columns of a port together.
// sysUpTime comes first and ifTableLastChange last, so that both enclose what
// they vouch for. One port that does not fit is asked for in parts.
func (s *Source) getPDU(ports []int32, cols func(*port) mask) *pdu {
	p := &pdu{kind: gosnmp.GetRequest, ports: ports}
	p.ask(sysUpTime.at(0), noPort, uptimeScalar)
	for _, i := range ports {
		pt := &s.ports[i]
		need := cols(pt)
		for c := range nColumns {
			if need.has(c) {
				p.ask(c.oid().at(pt.index), i, c)
			}
		}
	}
	if s.hasLastChange {
		p.ask(ifTableLastChange.at(0), noPort, lastChangeScalar)
	}
	if len(ports) == 1 && len(p.wants) > s.limit {
		return s.inParts(ports[0], cols(&s.ports[ports[0]]), s.limit)
	}
	return p
}
