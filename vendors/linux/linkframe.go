package linux

import (
	"encoding/binary"

	"github.com/csig-agent/csig/vendors"
)

// linkGroup is the group address of nearest-bridge protocols, LLDP's: no bridge
// forwards it unless its operator tells it to (IEEE 802.1Q, table 8-1).
var linkGroup = [6]byte{0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e}

// A test frame of a link, in network byte order:
//
//	destination(6) source(6) [CSIG tag] 0x88b5(2) "CSGL" nonce(8) padding
//
// 0x88b5 is IEEE 802's first ethertype for local experiments. probe
// has frames for whole paths.
const (
	linkType  = 0x88b5
	linkMagic = 0x4353474c
	linkSize  = 12 + 2 + 4 + 8 // without tag and padding
	linkLeast = 60             // Ethernet's own minimum
)

const etherHeader = 14

// appendLink appends a test frame to b.
func appendLink(b []byte, source [6]byte, f *vendors.LinkFrame) []byte {
	start := len(b)
	b = append(append(b, linkGroup[:]...), source[:]...)
	b = append(b, f.Tag...)
	b = binary.BigEndian.AppendUint16(b, linkType)
	b = binary.BigEndian.AppendUint32(b, linkMagic)
	b = binary.BigEndian.AppendUint64(b, f.Nonce)
	for len(b)-start < max(f.Size, linkLeast) {
		b = append(b, 0)
	}
	return b
}

// parseLink reads a test frame; false for any other. The tag shares b's memory.
func parseLink(b []byte) (vendors.LinkFrame, bool) {
	f := vendors.LinkFrame{Size: len(b)}
	if len(b) < linkSize || [6]byte(b) != linkGroup {
		return f, false
	}
	for _, tag := range []int{0, 4, 8} {
		if len(b) < linkSize+tag {
			break
		}
		rest := b[12+tag:]
		if binary.BigEndian.Uint16(rest) == linkType && binary.BigEndian.Uint32(rest[2:]) == linkMagic {
			f.Tag, f.Nonce = b[12:12+tag:12+tag], binary.BigEndian.Uint64(rest[6:])
			return f, true
		}
	}
	return f, false
}
