package unsupported

import "github.com/csig-agent/csig/vendors"

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
