package quantize

import (
	"errors"
	"fmt"
)

// TPIDs are the two TPIDs of a domain; each format has its own (draft-00
// §4.1). A 0 means that the domain does not use that format.
type TPIDs struct {
	Compact uint16
	Wide    uint16
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
