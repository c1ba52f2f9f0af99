package unsupported

import "github.com/csig-agent/csig/vendors"

func eos() Platform {
	tpid := read("Arista EOS Central, Configurable TPID (eos.arista.com, P. R. Pandurangan)")
	mapping := read("Arista EOS Central, Dual Tag VLAN mapping: at ingress VIDs are mapped to a bridging VLAN, at egress the bridging VLAN to VIDs")
	vids := assumed("its commands name VIDs alone")
	session := read("Arista EOS User Manual, Configure Session")
	t := vendors.Traits{
		Access:     vendors.That("SSH or eAPI", assumed("scrapli/scrapligo assets/platforms/arista_eos.yaml drives its CLI; csig does not yet")),
		MatchVID:   vendors.That(vendors.MatchExact, mapping),
		MatchPCP:   vendors.That(vendors.MatchNone, vids),
		MatchDEI:   vendors.That(vendors.MatchNone, vids),
		Key:        vendors.That(vendors.KeyBridging, mapping),
		Stage:      vendors.That(vendors.StageEgress, mapping),
		Sets:       vendors.That(vendors.Fields{vendors.FieldVID}, mapping),
		VIDs:       vendors.That(vendors.VIDs{First: 1, Last: 4094}, read("Arista EOS User Manual, Virtual LANs, VLAN Conceptual Overview")),
		Txn:        vendors.That(vendors.TxnCandidate, session),
		Revert:     vendors.That("configure session … commit timer", read("Arista EOS Central, Config Session Commit Timer")),
		TPIDs:      vendors.That(vendors.TPIDs{Any: true, AtMost: 3, Scope: vendors.ScopeChip, AsVLAN: true}, read("Arista TOI, Configurable TPID: set per switchport, on 7280R/R2 up to 3 distinct non-default values per chip; no list of values is given")),
		TPIDChange: vendors.That("a port treats only frames with its own TPID as tagged: ordinary 0x8100 frames count as untagged on it", tpid),
		VLANTPIDs:  vendors.That(vendors.TPIDList{0x8100}, tpid),
		Strip:      vendors.That(vendors.StripNone, assumed("no command was found that takes a tag away whatever its VID")),
		Native:     vendors.That("", assumed("no text of Arista's that mentions CSIG was found")),
	}
	follows(&t, mapping)
	unrouted(&t)
	return platform("eos", "Arista EOS", "VLAN translation at egress is keyed by the bridging VLAN, not by the VID on the wire, and its commands do not match the PCP, which carries the signal type", mapping, t)
}
