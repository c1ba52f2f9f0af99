package mesh

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/csig-agent/csig/quantize"
)

// EtherTypes and header sizes of what carries a probe.
const (
	typeIPv4, typeIPv6   = 0x0800, 0x86dd
	headIPv4, headIPv6   = 20, 40
	headUDP, protocolUDP = 8, 17
	hops                 = 64
)

// errOther is the error for a frame that is no probe of a mesh.
var errOther = errors.New("not a frame of a mesh")

// packet is a UDP datagram in an Ethernet frame. Both addresses are of one family.
type packet struct {
	to, from net.HardwareAddr // 6 bytes each
	tag      quantize.Tag     // TPID 0: none
	src, dst netip.AddrPort
	payload  []byte
}

// appendTo appends the frame to b, from its destination address on and without FCS. The tag is
// the last of L2 (draft-00 §4.1), so that a switch hashes the packet as any other of its flow.
func (p *packet) appendTo(b []byte, l quantize.Layout) ([]byte, error) {
	b = append(append(b, p.to...), p.from...)
	if p.tag.TPID != 0 {
		var err error
		if b, err = p.tag.AppendTo(b, l); err != nil {
			return b, err
		}
	}
	length := headUDP + len(p.payload)
	src, dst := p.src.Addr(), p.dst.Addr()
	if src.Is4() {
		b = binary.BigEndian.AppendUint16(b, typeIPv4)
		at := len(b)
		b = append(b, 0x45, 0) // version, length in words, DSCP and ECN
		b = binary.BigEndian.AppendUint16(b, uint16(headIPv4+length))
		b = append(b, 0, 0, 0x40, 0, hops, protocolUDP, 0, 0) // don't fragment
		b = append(append(b, src.AsSlice()...), dst.AsSlice()...)
		binary.BigEndian.PutUint16(b[at+10:], ^sum(b[at:], 0))
	} else {
		b = binary.BigEndian.AppendUint16(b, typeIPv6)
		b = append(b, 0x60, 0, 0, 0)
		b = binary.BigEndian.AppendUint16(b, uint16(length))
		b = append(b, protocolUDP, hops)
		b = append(append(b, src.AsSlice()...), dst.AsSlice()...)
	}
	at := len(b)
	b = binary.BigEndian.AppendUint16(b, p.src.Port())
	b = binary.BigEndian.AppendUint16(b, p.dst.Port())
	b = binary.BigEndian.AppendUint16(b, uint16(length))
	b = append(append(b, 0, 0), p.payload...)
	binary.BigEndian.PutUint16(b[at+6:], checksumUDP(src, dst, b[at:]))
	return b, nil
}

// checksumUDP is a datagram's with its pseudo-header (RFC 768, RFC 8200 §8.1), over what is in its
// own field: of one with 0 there the value to send; of one that arrived whole, 0xffff.
func checksumUDP(src, dst netip.Addr, datagram []byte) uint16 {
	if c := ^sum(datagram, uint32(sumPseudo(src, dst, len(datagram)))); c != 0 {
		return c
	}
	return 0xffff // 0 says that there is none
}

// sumPseudo is the sum of a pseudo-header. A datagram has it in place of a checksum where both ends are on one machine, as
// those of containers and virtual machines are, and no network card has come to complete it.
func sumPseudo(src, dst netip.Addr, length int) uint16 {
	pseudo := append(src.AsSlice(), dst.AsSlice()...)
	pseudo = append(pseudo, 0, protocolUDP)
	return sum(binary.BigEndian.AppendUint16(pseudo, uint16(length)), 0)
}

// sum is the Internet checksum's sum (RFC 1071).
func sum(b []byte, s uint32) uint16 {
	for ; len(b) > 1; b = b[2:] {
		s += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		s += uint32(b[0]) << 8
	}
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}

// arrived is a tagged datagram that came in.
type arrived struct {
	src, dst netip.AddrPort
	wide     bool
	fields   [wideFields]byte // behind the TPID
	payload  []byte           // of the frame's memory
}

// parseTagged reads a frame with its VLAN tags in place that has a CSIG tag and a whole UDP datagram.
// Any other frame is errOther, or an error of quantize.FindTag.
func parseTagged(b []byte, tpids quantize.TPIDs) (a arrived, err error) {
	pos, err := quantize.FindTag(b, tpids)
	if err != nil {
		return a, err
	}
	size := compactFields
	if a.wide = pos.Wide; a.wide {
		size = wideFields
	}
	copy(a.fields[:], b[pos.Offset+2:pos.Offset+2+size])
	inner := b[pos.EtherType+2:]
	var src, dst netip.Addr
	var datagram []byte
	switch binary.BigEndian.Uint16(b[pos.EtherType:]) {
	case typeIPv4:
		if len(inner) < headIPv4 || inner[0]>>4 != 4 || inner[9] != protocolUDP || binary.BigEndian.Uint16(inner[6:])&0x3fff != 0 {
			return a, errOther // of another protocol, or a fragment
		}
		head, length := int(inner[0]&15)*4, int(binary.BigEndian.Uint16(inner[2:]))
		if head < headIPv4 || length < head+headUDP || length > len(inner) || sum(inner[:head], 0) != 0xffff {
			return a, errOther
		}
		src, dst, datagram = netip.AddrFrom4([4]byte(inner[12:])), netip.AddrFrom4([4]byte(inner[16:])), inner[head:length]
	case typeIPv6:
		if len(inner) < headIPv6+headUDP || inner[0]>>4 != 6 || inner[6] != protocolUDP {
			return a, errOther
		}
		length := int(binary.BigEndian.Uint16(inner[4:]))
		if length < headUDP || headIPv6+length > len(inner) {
			return a, errOther
		}
		src, dst, datagram = netip.AddrFrom16([16]byte(inner[8:])), netip.AddrFrom16([16]byte(inner[24:])), inner[headIPv6:headIPv6+length]
	default:
		return a, errOther
	}
	whole := checksumUDP(src, dst, datagram) == 0xffff || binary.BigEndian.Uint16(datagram[6:]) == sumPseudo(src, dst, len(datagram)) // a probe has a MAC
	if int(binary.BigEndian.Uint16(datagram[4:])) != len(datagram) || !whole {
		return a, fmt.Errorf("%w: its UDP header is wrong", errOther)
	}
	a.src = netip.AddrPortFrom(src, binary.BigEndian.Uint16(datagram))
	a.dst = netip.AddrPortFrom(dst, binary.BigEndian.Uint16(datagram[2:]))
	a.payload = datagram[headUDP:]
	return a, nil
}
