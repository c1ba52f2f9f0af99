package qualify

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
)

// EtherType is that of the bench's frames: IEEE 802 local experimental 2.
const EtherType = 0x88B6

const (
	magic       = 0x43534751 // "CSGQ"
	payloadSize = 4 + 8 + 8 + 2 + 1 + 1
	minFrame    = 84 // without FCS; a frame stays above Ethernet's 60 without its tags
	searched    = 160
)

// MAC is an Ethernet address.
type MAC [6]byte

func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// Frame is what to send.
type Frame struct {
	To     int    // the port it is for, which chooses its destination; see Dst
	Dst    MAC    // zero: that of the port To
	Src    MAC    // zero: that of the port it leaves from
	Tags   []byte // between the addresses and the ethertype: see VLAN
	Type   uint16 // ethertype behind the tags; 0: the bench's own
	Header []byte // between the ethertype and the bench's payload
	Size   int    // bytes without FCS; 0: the least
}

// VLAN is a tag of 4 bytes: a VLAN tag, or a compact CSIG tag.
func VLAN(tpid, tci uint16) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, tpid), tci)
}

// kinds of frames.
const (
	kindData = iota
	kindSentinel
)

// payload identifies a frame of the bench.
type payload struct {
	run  uint64 // of this run of the bench
	seq  uint64
	size uint16 // of the frame as it was sent
	from uint8  // port
	kind uint8
}

func (p *payload) appendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, magic)
	b = binary.BigEndian.AppendUint64(b, p.run)
	b = binary.BigEndian.AppendUint64(b, p.seq)
	b = binary.BigEndian.AppendUint16(b, p.size)
	return append(b, p.from, p.kind)
}

// find reads the payload of this run in a frame, wherever tags have moved it to.
func find(frame []byte, run uint64) (payload, bool) {
	mark := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, magic), run)
	at := bytes.Index(frame[:min(len(frame), searched)], mark)
	if at < 0 || len(frame) < at+payloadSize {
		return payload{}, false
	}
	b := frame[at:]
	return payload{
		run: run, seq: binary.BigEndian.Uint64(b[12:]), size: binary.BigEndian.Uint16(b[20:]), from: b[22], kind: b[23],
	}, true
}

// build makes the bytes of a frame, without FCS.
func (f *Frame) build(p payload) ([]byte, error) {
	least := 14 + len(f.Tags) + len(f.Header) + payloadSize
	size := max(f.Size, minFrame)
	if f.Size == 0 {
		size = max(size, least)
	}
	if size < least || least > searched {
		return nil, fmt.Errorf("a frame of %d bytes does not hold its %d bytes of headers", size, least)
	}
	p.size = uint16(size)
	b := append(append(make([]byte, 0, size), f.Dst[:]...), f.Src[:]...)
	b = append(b, f.Tags...)
	etherType := f.Type
	if etherType == 0 {
		etherType = EtherType
	}
	b = binary.BigEndian.AppendUint16(b, etherType)
	b = p.appendTo(append(b, f.Header...))
	for len(b) < size {
		b = append(b, byte(int(p.seq)+len(b))) // not all equal: what is overwritten shows
	}
	return b, nil
}

// Difference says how a frame that arrived differs from the one that was sent; "" where
// it does not.
func Difference(sent, got []byte) string {
	if bytes.Equal(sent, got) {
		return ""
	}
	if len(sent) != len(got) {
		return fmt.Sprintf("%d bytes were sent and %d arrived: %x became %x", len(sent), len(got), head(sent), head(got))
	}
	for i := range sent {
		if sent[i] != got[i] {
			from := max(0, i&^1)
			to := min(len(sent), from+4)
			return fmt.Sprintf("at byte %d, %x became %x", from, sent[from:to], got[from:to])
		}
	}
	return ""
}

// head is what follows the addresses.
func head(frame []byte) []byte { return frame[min(12, len(frame)):min(24, len(frame))] }
