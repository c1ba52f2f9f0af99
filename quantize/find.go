package quantize

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// MaxVLANs is how many VLAN tags may stand in front of a CSIG tag: the deepest
// placement of draft-00 §4.1.
const MaxVLANs = 4

// Errors of FindTag, to be compared with errors.Is.
var (
	ErrTruncated = errors.New("frame ends before its last L2 tag does")
	ErrNoTag     = errors.New("frame has no CSIG tag")
	ErrTooDeep   = fmt.Errorf("frame has more than %d VLAN tags", MaxVLANs)
	ErrNotLast   = errors.New("CSIG tag is not the last L2 tag")
)

// Position is where FindTag found a tag. Offsets count bytes from the start of
// the destination address.
type Position struct {
	Offset    int  // of the tag's TPID
	Wide      bool // 8 bytes instead of 4
	VLANs     int  // VLAN tags in front
	EtherType int  // offset of the ethertype behind the tag
}

// FindTag finds the CSIG tag of an Ethernet frame that starts with its
// destination address and carries its VLAN tags in the payload (not as
// offloaded metadata). It allocates nothing.
//
// The CSIG tag is the last L2 tag (draft-00 §4.1): it stands behind 0 to 4
// VLAN tags of TPID 0x8100 or 0x88a8 in any mix, and the ethertype behind it
// is neither a VLAN's nor CSIG's. Where the domain uses 0x88a8 for CSIG, it is
// always CSIG and never a VLAN tag.
//
// Errors: ErrNoTag for any other frame, in which case Position still holds how
// many VLAN tags there are and where the ethertype is; ErrNotLast where a CSIG
// tag is followed by a VLAN tag or by a second CSIG tag (a packet carries at
// most one signal, draft-00 §4.1.3.1, so neither counts);
// ErrTooDeep for more than 4 VLAN tags; ErrTruncated for a frame that ends
// before its ethertype. A frame with a MACsec tag counts as untagged: what
// stands behind that tag is, in general, encrypted.
func FindTag(frame []byte, tpids TPIDs) (Position, error) {
	p := Position{Offset: 12, EtherType: 12}
	for {
		et, ok := etherType(frame, p.Offset)
		if !ok {
			return p, ErrTruncated
		}
		size := CompactSize
		switch {
		case tpids.has(et):
			if et == tpids.Wide {
				p.Wide, size = true, WideSize
			}
			p.EtherType = p.Offset + size
			inner, ok := etherType(frame, p.EtherType)
			switch {
			case !ok:
				return p, ErrTruncated
			case tpids.has(inner) || isVLAN(inner):
				return p, ErrNotLast
			}
			return p, nil
		case !isVLAN(et):
			return p, ErrNoTag
		case p.VLANs == MaxVLANs:
			return p, ErrTooDeep
		}
		p.VLANs++
		p.Offset += CompactSize
		p.EtherType = p.Offset
	}
}

// ReadTag finds and decodes the CSIG tag of a frame. Errors are FindTag's.
func ReadTag(frame []byte, tpids TPIDs, l Layout) (Tag, Position, error) {
	p, err := FindTag(frame, tpids)
	if err != nil {
		return Tag{}, p, err
	}
	t, err := DecodeTag(frame[p.Offset:p.EtherType], l, p.Wide)
	return t, p, err
}

func isVLAN(et uint16) bool { return et == 0x8100 || et == 0x88a8 }

func etherType(frame []byte, off int) (uint16, bool) {
	if len(frame) < off+2 {
		return 0, false
	}
	return binary.BigEndian.Uint16(frame[off:]), true
}
