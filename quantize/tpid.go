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

// etherTypes are those of protocols whose frames must never change.
var etherTypes = map[uint16]string{
	0x8100: "802.1Q VLAN tags",
	0x0800: "IPv4",
	0x0806: "ARP",
	0x86dd: "IPv6",
	0x8808: "MAC control (pause, PFC)",
	0x8809: "slow protocols (LACP)",
	0x8847: "MPLS",
	0x8848: "MPLS",
	0x8863: "PPPoE",
	0x8864: "PPPoE",
	0x888e: "802.1X",
	0x88cc: "LLDP",
	0x88e5: "MACsec",
	0x88f7: "PTP",
	0x8902: "CFM",
	0x8906: "FCoE",
	0x8914: "FCoE",
	0x8915: "RoCE",
}

func tpidRefused(tpid uint16) string {
	if tpid < 0x0600 {
		return fmt.Sprintf("0x%04x is below 0x0600, where the field is a frame's length: choose a TPID that nothing else in the domain uses, e.g. 0x9900", tpid)
	}
	owner, used := etherTypes[tpid]
	if !used {
		return ""
	}
	return fmt.Sprintf("0x%04x is the ethertype of %s, whose frames must never change: choose another, e.g. 0x9900", tpid, owner)
}

func (p TPIDs) has(et uint16) bool {
	return et != 0 && (et == p.Compact || et == p.Wide)
}
