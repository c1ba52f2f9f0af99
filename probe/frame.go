package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/csig-agent/csig/quantize"
)

// EtherType is the inner ethertype of a probe: IEEE 802 local experimental 1.
const EtherType = 0x88B5

// PayloadSize is the length of a probe's payload in bytes, without padding.
const PayloadSize = 32

// MinSize is the shortest probe that is sent, in bytes without FCS: Ethernet's
// own minimum.
const MinSize = 60

const (
	magic   = 0x43534750 // "CSGP"
	version = 1
)

// ErrNotProbe is the error for a frame or payload that is not a probe's.
var ErrNotProbe = errors.New("not a probe")

// Payload identifies one probe.
type Payload struct {
	Signal quantize.Signal // the T that the sender asked for
	Run    uint64          // random, the same for all probes of one sender
	Seq    uint64          // from 0 up, for each signal of a run on its own
	Sent   time.Time       // by the sender's clock, to the ns
}

// AppendTo appends the PayloadSize bytes of the payload to b.
func (p Payload) AppendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, magic)
	b = append(b, version, byte(p.Signal), 0, 0)
	b = binary.BigEndian.AppendUint64(b, p.Run)
	b = binary.BigEndian.AppendUint64(b, p.Seq)
	return binary.BigEndian.AppendUint64(b, uint64(p.Sent.UnixNano()))
}

// ParsePayload reads the payload at the start of b; what follows is padding.
// Anything but a version 1 payload is ErrNotProbe.
func ParsePayload(b []byte) (Payload, error) {
	switch {
	case len(b) < PayloadSize:
		return Payload{}, fmt.Errorf("%w: its payload has %d bytes, want at least %d", ErrNotProbe, len(b), PayloadSize)
	case binary.BigEndian.Uint32(b) != magic:
		return Payload{}, fmt.Errorf("%w: its payload starts with %#08x, want %#08x", ErrNotProbe, binary.BigEndian.Uint32(b), uint32(magic))
	case b[4] != version:
		return Payload{}, fmt.Errorf("%w: its payload is of version %d, want %d", ErrNotProbe, b[4], version)
	}
	return Payload{
		Signal: quantize.Signal(b[5]),
		Run:    binary.BigEndian.Uint64(b[8:]),
		Seq:    binary.BigEndian.Uint64(b[16:]),
		Sent:   time.Unix(0, int64(binary.BigEndian.Uint64(b[24:]))),
	}, nil
}

// VLAN is one VLAN tag.
type VLAN struct {
	TPID uint16 `json:"tpid"` // 0x8100 or 0x88a8
	TCI  uint16 `json:"tci"`
}

// Frame is a probe with its fields apart.
type Frame struct {
	Dst, Src net.HardwareAddr
	VLANs    []VLAN       // outermost first
	Tagged   bool         // has a CSIG tag
	Tag      quantize.Tag // where Tagged
	Payload  Payload
}

// size is what headers and payload take, in bytes.
func (f *Frame) size() int {
	n := 14 + 4*len(f.VLANs) + PayloadSize
	if f.Tagged {
		n += f.Tag.Size()
	}
	return n
}

// AppendTo appends the frame to b, padded with zeros to size bytes without
// FCS. Errors: addresses of the wrong length, a tag that does not fit the
// layout, a size below what the headers and payload need.
func (f *Frame) AppendTo(b []byte, l quantize.Layout, size int) ([]byte, error) {
	start := len(b)
	if len(f.Dst) != 6 || len(f.Src) != 6 {
		return b, fmt.Errorf("probe frame: addresses %q and %q: want 6 bytes each", f.Dst, f.Src)
	}
	if size < f.size() {
		return b, fmt.Errorf("probe frame: %d bytes do not hold its headers and payload: want at least %d", size, f.size())
	}
	out := append(append(b, f.Dst...), f.Src...)
	for _, v := range f.VLANs {
		out = binary.BigEndian.AppendUint16(out, v.TPID)
		out = binary.BigEndian.AppendUint16(out, v.TCI)
	}
	if f.Tagged {
		var err error
		if out, err = f.Tag.AppendTo(out, l); err != nil {
			return b, fmt.Errorf("probe frame: %w", err)
		}
	}
	out = binary.BigEndian.AppendUint16(out, EtherType)
	out = f.Payload.AppendTo(out)
	for len(out)-start < size {
		out = append(out, 0)
	}
	return out, nil
}

// Parse reads a frame whose VLAN tags are all in place. Addresses share b's
// memory. Errors: ErrNotProbe, or quantize.FindTag's for a frame whose L2 tags
// make no sense. The L2 part of the result is valid with ErrNotProbe too.
func Parse(b []byte, tpids quantize.TPIDs, l quantize.Layout) (Frame, error) {
	tag, pos, err := quantize.ReadTag(b, tpids, l)
	tagged := err == nil
	if err != nil && !errors.Is(err, quantize.ErrNoTag) {
		return Frame{}, err
	}
	f := Frame{Dst: b[0:6:6], Src: b[6:12:12], Tagged: tagged, Tag: tag}
	for i := range pos.VLANs {
		at := b[12+4*i:]
		f.VLANs = append(f.VLANs, VLAN{TPID: binary.BigEndian.Uint16(at), TCI: binary.BigEndian.Uint16(at[2:])})
	}
	inner := b[pos.EtherType:]
	if et := binary.BigEndian.Uint16(inner); et != EtherType {
		return f, fmt.Errorf("%w: its ethertype is %#04x, want %#04x", ErrNotProbe, et, EtherType)
	}
	f.Payload, err = ParsePayload(inner[2:])
	return f, err
}

// InitialTag is what a sender host puts on a frame (draft-00 §4.1.3.2,
// §4.1.3.3): the value that anything replaces, and no locator.
func InitialTag(p *quantize.Profile, wide bool, sig quantize.Signal) quantize.Tag {
	if wide {
		return quantize.Tag{
			TPID: p.WideTPID, Wide: true, T: sig,
			S:  sig.WideInitial(),
			LM: uint16(1<<p.Layout.WideLMBits() - 2), // all ones minus one, as in the compact tag
		}
	}
	return quantize.Tag{TPID: p.TPID, T: sig, S: uint32(p.Initial(sig)), LM: p.Layout.LMNone()}
}
