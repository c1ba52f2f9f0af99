package quantize

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// MaxVLANs is how many VLAN tags may stand in front of a CSIG tag: the deepest
// placement of draft-00 §4.1.
const MaxVLANs = 4

// TPIDs are the two TPIDs of a domain; each format has its own (draft-00
// §4.1). A 0 means that the domain does not use that format.
type TPIDs struct {
	Compact uint16
	Wide    uint16
}

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

// Insert returns a copy of an untagged frame with t behind its VLAN tags, as a
// sender host makes it (draft-00 §4.4.1). The tag's TPID must be the one of
// tpids for its format. A frame that already has a CSIG tag, in either format,
// is an error, and so is what FindTag and Tag.Encode refuse.
func Insert(frame []byte, tpids TPIDs, l Layout, t Tag) ([]byte, error) {
	want := tpids.Compact
	if t.Wide {
		want = tpids.Wide
	}
	if t.TPID != want || want == 0 {
		return nil, fmt.Errorf("insert a %s tag: its TPID is 0x%04x, the domain's is 0x%04x", t.format(), t.TPID, want)
	}
	p, err := FindTag(frame, tpids)
	switch {
	case err == nil:
		return nil, fmt.Errorf("insert a CSIG tag: the frame already has one at offset %d", p.Offset)
	case !errors.Is(err, ErrNoTag):
		return nil, fmt.Errorf("insert a CSIG tag: %w", err)
	}
	out := make([]byte, 0, len(frame)+t.Size())
	out = append(out, frame[:p.EtherType]...)
	if out, err = t.AppendTo(out, l); err != nil {
		return nil, fmt.Errorf("insert a CSIG tag: %w", err)
	}
	return append(out, frame[p.EtherType:]...), nil
}

// Remove returns a copy of a frame without its CSIG tag, as a port that strips
// sends it (draft-00 §6.1). Errors are FindTag's.
func Remove(frame []byte, tpids TPIDs) ([]byte, error) {
	p, err := FindTag(frame, tpids)
	if err != nil {
		return nil, fmt.Errorf("remove the CSIG tag: %w", err)
	}
	out := make([]byte, 0, len(frame)-(p.EtherType-p.Offset))
	out = append(out, frame[:p.Offset]...)
	return append(out, frame[p.EtherType:]...), nil
}

// Validate refuses TPIDs that would make frames change which are not CSIG's:
// 0x8100, values below 0x0600 (an 802.3 length), the ethertypes of common
// protocols, and one TPID for both formats. 0x88a8 is allowed here: whether
// the domain uses it for VLANs is not known to this package. Every problem is
// a *Problem with the field "tpid" or "wide_tpid", all of them joined.
func (p TPIDs) Validate() error {
	var errs []error
	if why := tpidRefused(p.Compact); why != "" {
		errs = append(errs, problem("tpid", "%s", why))
	}
	if p.Wide == 0 {
		return errors.Join(errs...)
	}
	if why := tpidRefused(p.Wide); why != "" {
		errs = append(errs, problem("wide_tpid", "%s", why))
	}
	if p.Wide == p.Compact {
		errs = append(errs, problem("wide_tpid", "0x%04x is the compact tag's TPID too: a device could not distinguish the formats", p.Wide))
	}
	return errors.Join(errs...)
}

func tpidRefused(tpid uint16) string {
	if tpid < 0x0600 {
		return fmt.Sprintf("0x%04x is below 0x0600, where the field is a frame's length: choose a TPID that nothing else in the domain uses, e.g. 0x9900", tpid)
	}
	var owner string
	switch tpid {
	case 0x8100:
		owner = "802.1Q VLAN tags"
	case 0x0800:
		owner = "IPv4"
	case 0x0806:
		owner = "ARP"
	case 0x86dd:
		owner = "IPv6"
	case 0x8808:
		owner = "MAC control (pause, PFC)"
	case 0x8809:
		owner = "slow protocols (LACP)"
	case 0x8847, 0x8848:
		owner = "MPLS"
	case 0x8863, 0x8864:
		owner = "PPPoE"
	case 0x888e:
		owner = "802.1X"
	case 0x88cc:
		owner = "LLDP"
	case 0x88e5:
		owner = "MACsec"
	case 0x88f7:
		owner = "PTP"
	case 0x8902:
		owner = "CFM"
	case 0x8906, 0x8914:
		owner = "FCoE"
	case 0x8915:
		owner = "RoCE"
	default:
		return ""
	}
	return fmt.Sprintf("0x%04x is the ethertype of %s, whose frames must never change: choose another, e.g. 0x9900", tpid, owner)
}

func (p TPIDs) has(et uint16) bool {
	return et != 0 && (et == p.Compact || et == p.Wide)
}

func isVLAN(et uint16) bool { return et == 0x8100 || et == 0x88a8 }

func etherType(frame []byte, off int) (uint16, bool) {
	if len(frame) < off+2 {
		return 0, false
	}
	return binary.BigEndian.Uint16(frame[off:]), true
}
