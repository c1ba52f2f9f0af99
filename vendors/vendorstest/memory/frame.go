package memory

import (
	"encoding/binary"
	"slices"
)

// Offsets and sizes of Ethernet frames without FCS, in bytes.
const (
	macs    = 12 // both addresses
	tagSize = 4
	header  = macs + 2
)

// VLAN TPIDs of ordinary tags.
const (
	cTag = 0x8100
	sTag = 0x88a8
)

// maxVLANs is how many VLAN tags in front of a CSIG tag the parser takes.
const maxVLANs = 2

// parsed is what the parser finds in a frame.
type parsed struct {
	vlans int // ordinary VLAN tags in front
	csig  int // offset of the domain's compact tag; 0: none
	size  int // of all tags
}

// vlan is the outermost ordinary tag's VID, 0 where there is none.
func (p *parsed) vlan(frame []byte) uint16 {
	if p.vlans == 0 {
		return 0
	}
	return tciAt(frame, macs) & 0xfff
}

func typeAt(frame []byte, at int) uint16 {
	if len(frame) < at+2 {
		return 0
	}
	return binary.BigEndian.Uint16(frame[at:])
}

func tciAt(frame []byte, at int) uint16 { return typeAt(frame, at+2) }

func setTCI(frame []byte, at int, tci uint16) { binary.BigEndian.PutUint16(frame[at+2:], tci) }

// parse looks for a compact tag of this TPID behind VLAN tags; 0 is no TPID.
func parse(frame []byte, tpid uint16) (p parsed) {
	for at := macs; ; at += tagSize {
		t := typeAt(frame, at)
		switch {
		case len(frame) < at+tagSize+2:
			return p
		case t == tpid && tpid != 0:
			if next := typeAt(frame, at+tagSize); next != cTag && next != sTag { // CSIG's is the last
				p.csig = at
				p.size += tagSize
			}
			return p
		case (t == cTag || t == sTag) && p.vlans < maxVLANs:
			p.vlans++
			p.size += tagSize
		default:
			return p
		}
	}
}

// cut removes n bytes of a frame.
func cut(frame []byte, at, n int) []byte {
	return slices.Delete(frame, at, min(at+n, len(frame)))
}
