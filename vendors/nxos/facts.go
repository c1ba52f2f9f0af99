package nxos

import (
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/setup"
	"github.com/csig-agent/csig/vlanrules"
)

const (
	noUpdate = "VLAN mapping is one VLAN to one on a port, for the bridging VLAN and back again: it cannot write one VID for many"
	noStrip  = "no command was found that takes a tag away whatever its VID"
)

// tpids are those that a port takes (CSCvw27705).
var tpids = vendors.TPIDList{0x8100, 0x88a8, 0x9100}

// Rules is what the platform's table could match, which no update uses.
func Rules() vlanrules.Caps { return vlanrules.Caps{Match: vlanrules.MatchExact} }

// Offline is what is known without a device at hand.
func Offline() vendors.Facts {
	read, assumed := setup.Read, setup.Assumed
	mapping := read("Cisco Nexus 9000 NX-OS Interfaces Configuration Guide 10.5(x), Configuring Port VLAN Mapping on VLANs; Nexus 6000 NX-OS Layer 2 Guide, Guidelines for Configuring VLANs: strictly one ingress VLAN to one local VLAN")
	vids := assumed("its commands name VIDs alone")
	reverts := read("Cisco CSCvw27705 (of Broadcom-based Nexus 9000 and 3000: ethertype returns to 0x8100 after a reload) and CSCvu24785 (after a link flap; fixed in 9.3(5)); nothing was read of other models")
	rollback := read("Cisco Nexus 9000 NX-OS System Management Configuration Guide 10.5(x), About Rollbacks")
	t := vendors.Traits{
		Access:     vendors.That("SSH, the command line", read("scrapli/scrapligo assets/platforms/cisco_nxos.yaml")),
		MatchVID:   vendors.That(vendors.MatchExact, mapping),
		MatchPCP:   vendors.That(vendors.MatchNone, vids),
		MatchDEI:   vendors.That(vendors.MatchNone, vids),
		Key:        vendors.That(vendors.KeyBridging, mapping),
		Stage:      vendors.That(vendors.StageIngress, mapping),
		Sets:       vendors.That(vendors.Fields{vendors.FieldVID}, mapping),
		VIDs:       vendors.That(vendors.VIDs{First: 1, Last: 4094, Reserved: vendors.VIDRanges{{First: 3968, Last: 4094}}}, read("Cisco Nexus 7000 NX-OS Layer 2 Switching Configuration Guide, Configuring VLANs, Table 1 (as quoted): reserved by default")),
		Txn:        vendors.That(vendors.TxnNone, assumed("configuration commands take effect one by one")),
		Revert:     vendors.That("", rollback),
		TPIDs:      vendors.That(vendors.TPIDs{List: tpids, AtMost: 1, Scope: vendors.ScopePort, AsVLAN: true}, reverts),
		TPIDChange: vendors.That("frames of the port with any other TPID are untagged frames then, those of its VLANs with 0x8100 too; and on Broadcom-based models it falls back to 0x8100 after a reload and, before 9.3(5), a link flap: csig reads it back and sets it again", reverts),
		VLANTPIDs:  vendors.That(vendors.TPIDList{0x8100}, read("Cisco Nexus 9000 NX-OS Interfaces Configuration Guide 10.4(x), Configuring Layer 2 Interfaces: only IEEE 802.1Q encapsulation")),
		Survives:   vendors.That(false, reverts),
		Strip:      vendors.That(vendors.StripNone, assumed(noStrip)),
		Native:     vendors.That("", assumed("no text of Cisco's on NX-OS that mentions CSIG was found")),

		Independent: vendors.That(false, mapping),
		Learning:    vendors.That(false, assumed("MAC addresses are learned in the bridging VLAN, which follows the VID")),
		Routed:      vendors.That(false, assumed("a router ends the L2 header, tags included, and writes its own")),
	}
	f := setup.Facts("nxos", t, mapping, noUpdate, noStrip,
		"with tag: outer, tags with the VIDs 3968 to 4094, which are reserved VLANs, are dropped: those of S 31 are among them",
		"csig sets the TPID again where `show interface` reports another EtherType, or the switch has restarted or a link has flapped since it was set, by the time that the switch is up: the configuration does not show that hardware has lost it",
		"a change has no auto-revert: checkpoint and rollback take back other users' changes, too, and no timer does",
		"never saved: after a restart of the switch csig sets it up again",
		"the MTU of a switched port is 1500 or the system's jumbo MTU",
		"a lab report has a Nexus 93180YC-FX drop double-tagged frames unless multi-tag or dot1q-tunnel transit is allowed (net4you.hr, Forwarding multi tag frames through Nexus 9000)")
	f.Rules = Rules()
	return f
}
