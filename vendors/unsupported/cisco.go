package unsupported

import "github.com/csig-agent/csig/vendors"

func nxos() Platform {
	mapping := read("Cisco Nexus 9000 NX-OS Interfaces Configuration Guide 10.5(x), Configuring Port VLAN Mapping on VLANs; Nexus 6000 NX-OS Layer 2 Guide, Guidelines for Configuring VLANs: strictly one ingress VLAN to one local VLAN")
	vids := assumed("its commands name VIDs alone")
	reverts := read("Cisco CSCvw27705 (of Broadcom-based Nexus 9000 and 3000: ethertype returns to 0x8100 after a reload) and CSCvu24785 (after a link flap; fixed in 9.3(5)); nothing was read of other models")
	rollback := read("Cisco Nexus 9000 NX-OS System Management Configuration Guide 10.5(x), About Rollbacks")
	t := vendors.Traits{
		Access:     vendors.That("SSH", assumed("scrapli/scrapligo assets/platforms/cisco_nxos.yaml drives its CLI; csig does not yet")),
		MatchVID:   vendors.That(vendors.MatchExact, mapping),
		MatchPCP:   vendors.That(vendors.MatchNone, vids),
		MatchDEI:   vendors.That(vendors.MatchNone, vids),
		Key:        vendors.That(vendors.KeyBridging, mapping),
		Stage:      vendors.That(vendors.StageIngress, mapping),
		Sets:       vendors.That(vendors.Fields{vendors.FieldVID}, mapping),
		VIDs:       vendors.That(vendors.VIDs{First: 1, Last: 4094, Reserved: vendors.VIDRanges{{First: 3968, Last: 4094}}}, read("Cisco Nexus 7000 NX-OS Layer 2 Switching Configuration Guide, Configuring VLANs, Table 1 (as quoted): reserved by default")),
		Txn:        vendors.That(vendors.TxnNone, assumed("configuration commands take effect one by one")),
		Revert:     vendors.That("", rollback),
		TPIDs:      vendors.That(vendors.TPIDs{List: vendors.TPIDList{0x8100, 0x88a8, 0x9100}, AtMost: 1, Scope: vendors.ScopePort, AsVLAN: true}, reverts),
		TPIDChange: vendors.That("all VLANs of the trunk change with it; and on Broadcom-based models it falls back to 0x8100 after a reload and, before 9.3(5), a link flap: read it back", reverts),
		VLANTPIDs:  vendors.That(vendors.TPIDList{0x8100}, read("Cisco Nexus 9000 NX-OS Interfaces Configuration Guide 10.4(x), Configuring Layer 2 Interfaces: only IEEE 802.1Q encapsulation")),
		Survives:   vendors.That(false, reverts),
		Strip:      vendors.That(vendors.StripNone, assumed("no command was found that takes a tag away whatever its VID")),
		Native:     vendors.That("", assumed("no text of Cisco's on NX-OS that mentions CSIG was found")),
	}
	follows(&t, mapping)
	unrouted(&t)
	return platform("nxos", "Cisco NX-OS", "VLAN mapping is one VLAN to one on a port, for the bridging VLAN and back again: it cannot write one VID for many", mapping, t,
		"a lab report has a Nexus 93180YC-FX drop double-tagged frames unless multi-tag or dot1q-tunnel transit is allowed (net4you.hr, Forwarding multi tag frames through Nexus 9000)")
}

func iosxr() Platform {
	circuits := read("Cisco NCS 5500 L2VPN Configuration Guide 7.0.x, Configure Virtual LANs in Layer 2 VPNs: an attachment circuit covers all frames received and sent with a VLAN tag")
	ethertype := read("Cisco ASR 9000 VPN and Ethernet Services Command Reference, dot1q tunneling ethertype")
	dot1ad := read("Cisco ASR 9000 VPN and Ethernet Services Command Reference, encapsulation dot1ad dot1q: hyphens and commas make ranges of VIDs")
	commit := read("ansible-collections/cisco.iosxr docs/cisco.iosxr.iosxr_cliconf.rst, commit confirmed")
	t := vendors.Traits{
		Access:     vendors.That("SSH", assumed("scrapli/scrapligo assets/platforms/cisco_iosxr.yaml drives its CLI; csig does not yet")),
		MatchVID:   vendors.That(vendors.MatchRange, dot1ad),
		MatchPCP:   vendors.That(vendors.MatchNone, assumed("encapsulation commands match VIDs")),
		MatchDEI:   vendors.That(vendors.MatchNone, assumed("encapsulation commands match VIDs")),
		Key:        vendors.That(vendors.KeySubinterface, circuits),
		Stage:      vendors.That(vendors.StageIngress, circuits),
		Sets:       vendors.That(vendors.Fields{vendors.FieldVID}, assumed("rewrite ingress tag translate")),
		Txn:        vendors.That(vendors.TxnCandidate, commit),
		Revert:     vendors.That("commit confirmed", commit),
		TPIDs:      vendors.That(vendors.TPIDs{List: vendors.TPIDList{0x8100, 0x88a8, 0x9100, 0x9200}, AtMost: 1, Scope: vendors.ScopePort, AsVLAN: true}, read("Cisco ASR 9000 VPN and Ethernet Services Command Reference, dot1q tunneling ethertype (0x9100 and 0x9200, of the port) and encapsulation dot1ad dot1q (0x88a8, of a subinterface, to which the port's does not apply)")),
		TPIDChange: vendors.That("it changes the outer tag of every QinQ subinterface of the port", ethertype),
		VLANTPIDs:  vendors.That(vendors.TPIDList{0x8100}, ethertype),
		Strip:      vendors.That(vendors.StripNone, assumed("rewrite … pop takes the tag of one subinterface's VID, and restores it in the other direction")),
		Native:     vendors.That("", assumed("no text of Cisco's on IOS XR that mentions CSIG was found")),
	}
	follows(&t, circuits)
	unrouted(&t)
	return platform("iosxr", "Cisco IOS XR", "tags are matched at ingress, before the egress port is known, and by subinterface: it would take one for every VID", circuits, t)
}

func iosxe() Platform {
	efp := read("Cisco ME 3800X and 3600X Switch Software Configuration Guide OL-23400-01, ch. 11, Configuring EFPs")
	confirmed := read("Cisco IOS 17.x System Management, Configuration Rollback Confirmed Change")
	t := vendors.Traits{
		Access:    vendors.That("SSH", assumed("scrapli/scrapligo assets/platforms/cisco_iosxe.yaml drives its CLI; csig does not yet")),
		MatchVID:  vendors.That(vendors.MatchRange, assumed("of encapsulation dot1q lists and ranges; the guide that was read shows single VIDs")),
		MatchPCP:  vendors.That(vendors.MatchExact, efp),
		MatchDEI:  vendors.That(vendors.MatchNone, assumed("the guide shows cos and etype beside VIDs, and nothing for it")),
		Key:       vendors.That(vendors.KeySubinterface, efp),
		Stage:     vendors.That(vendors.StageIngress, efp),
		Sets:      vendors.That(vendors.Fields{vendors.FieldVID}, assumed("rewrite ingress tag translate")),
		Txn:       vendors.That(vendors.TxnNone, assumed("configuration commands take effect one by one")),
		Revert:    vendors.That("configuration rollback confirmed change", confirmed),
		TPIDs:     vendors.That(vendors.TPIDs{List: vendors.TPIDList{0x8100, 0x88a8, 0x9100, 0x9200}, AtMost: 1, Scope: vendors.ScopePort, AsVLAN: true}, assumed("dot1q tunneling ethertype, as on IOS XR; it differs from line card to line card")),
		VLANTPIDs: vendors.That(vendors.TPIDList{0x8100}, assumed("the ethertype of IEEE 802.1Q")),
		Strip:     vendors.That(vendors.StripNone, assumed("rewrite … pop takes the tag of one service instance's VIDs")),
		Native:    vendors.That("", assumed("no text of Cisco's on IOS XE that mentions CSIG was found")),
	}
	follows(&t, efp)
	unrouted(&t)
	return platform("iosxe", "Cisco IOS XE", "service instances match at ingress, and a frame leaves only where it matches the egress instance after the rewrite: what is written chooses where it may leave", efp, t)
}
