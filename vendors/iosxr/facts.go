package iosxr

import (
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/setup"
	"github.com/csig-agent/csig/vlanrules"
)

const (
	noUpdate = "tags are matched at ingress, before the egress port is known, and by subinterface: it would take one for every VID"
	noStrip  = "rewrite … pop takes the tag of one subinterface's VID, and restores it in the other direction"
)

// tpids are those that a port takes; 0x88a8 is a subinterface's (encapsulation dot1ad), and
// csig makes none.
var tpids = vendors.TPIDList{0x8100, 0x9100, 0x9200}

// Rules is what the platform's subinterfaces could match, which no update uses.
func Rules() vlanrules.Caps { return vlanrules.Caps{Match: vlanrules.MatchRange} }

// Offline is what is known without a device at hand.
func Offline() vendors.Facts {
	read, assumed := setup.Read, setup.Assumed
	circuits := read("Cisco NCS 5500 L2VPN Configuration Guide 7.0.x, Configure Virtual LANs in Layer 2 VPNs: an attachment circuit covers all frames received and sent with a VLAN tag")
	ethertype := read("Cisco ASR 9000 VPN and Ethernet Services Command Reference, dot1q tunneling ethertype")
	dot1ad := read("Cisco ASR 9000 VPN and Ethernet Services Command Reference, encapsulation dot1ad dot1q: hyphens and commas make ranges of VIDs")
	commit := read("ansible-collections/cisco.iosxr docs/cisco.iosxr.iosxr_cliconf.rst, commit confirmed")
	t := vendors.Traits{
		Access:     vendors.That("SSH, the command line", read("scrapli/scrapligo assets/platforms/cisco_iosxr.yaml")),
		MatchVID:   vendors.That(vendors.MatchRange, dot1ad),
		MatchPCP:   vendors.That(vendors.MatchNone, assumed("encapsulation commands match VIDs")),
		MatchDEI:   vendors.That(vendors.MatchNone, assumed("encapsulation commands match VIDs")),
		Key:        vendors.That(vendors.KeySubinterface, circuits),
		Stage:      vendors.That(vendors.StageIngress, circuits),
		Sets:       vendors.That(vendors.Fields{vendors.FieldVID}, assumed("rewrite ingress tag translate")),
		Txn:        vendors.That(vendors.TxnCandidate, commit),
		Revert:     vendors.That("commit confirmed", commit),
		Survives:   vendors.That(true, assumed("a commit is persistent: IOS XR knows no start-up configuration beside it")),
		TPIDs:      vendors.That(vendors.TPIDs{List: tpids, AtMost: 1, Scope: vendors.ScopePort, AsVLAN: true}, read("Cisco ASR 9000 VPN and Ethernet Services Command Reference, dot1q tunneling ethertype (0x9100 and 0x9200, of the port) and encapsulation dot1ad dot1q (0x88a8, of a subinterface, to which the port's does not apply)")),
		TPIDChange: vendors.That("it changes the outer tag of every QinQ subinterface of the port", ethertype),
		VLANTPIDs:  vendors.That(vendors.TPIDList{0x8100}, ethertype),
		Strip:      vendors.That(vendors.StripNone, assumed(noStrip)),
		Native:     vendors.That("", assumed("no text of Cisco's on IOS XR that mentions CSIG was found")),

		Independent: vendors.That(false, circuits),
		Learning:    vendors.That(false, assumed("MAC addresses are learned in the bridge domain of the subinterface, which the VID chooses")),
		Routed:      vendors.That(false, assumed("a router ends the L2 header, tags included, and writes its own")),
	}
	f := setup.Facts("iosxr", t, circuits, noUpdate, noStrip,
		"with tag: outer, subinterfaces with two tags alone take the port's TPID (encapsulation dot1q … second-dot1q …); others see a tag of an unknown type",
		"0x88a8 is no port's but a subinterface's (encapsulation dot1ad), and csig makes none: such a domain is refused with tag: outer",
		"a change is committed on trial for a minute, read back over a second connection and then confirmed, or taken back; the auto-revert of a whole csig apply is its agent's, and needs the device to be reachable; a commit is persistent, and stays after a restart",
		"MTUs are without the 14 bytes of the L2 header, which IOS XR counts")
	f.Rules = Rules()
	return f
}
