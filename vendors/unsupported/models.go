package unsupported

import "github.com/csig-agent/csig/vendors"

func srlinux() Platform {
	const model = "nokia/srlinux-yang-models srlinux-yang-models/srl_nokia/models/interfaces/srl_nokia-interfaces-vlans.yang"
	encap := read(model + ", vlan-match-top: the outer tag is stripped at ingress and restored at egress")
	tpid := read(model + ", vlan-tpid-config, of platforms with the feature vlan-tpid")
	t := vendors.Traits{
		Access:    vendors.That("gNMI", assumed("counters are read so (docs/counters.md); its configuration is not written yet")),
		MatchVID:  vendors.That(vendors.MatchRange, read(model+", vlan-single-tagged-range-params")),
		MatchPCP:  vendors.That(vendors.MatchNone, encap),
		MatchDEI:  vendors.That(vendors.MatchNone, encap),
		Key:       vendors.That(vendors.KeySubinterface, encap),
		Stage:     vendors.That(vendors.StageIngress, encap),
		Sets:      vendors.That(vendors.Fields{vendors.FieldVID}, read(model+", vlan-egress-mapping-top: a fixed VLAN identifier")),
		VIDs:      vendors.That(vendors.VIDs{First: 1, Last: 4094}, read(model+", vlan-id")),
		Txn:       vendors.That(vendors.TxnCandidate, read("openconfig/reference rpc/gnmi/gnmi-specification.md §3.4.3")),
		Revert:    vendors.That("commit confirmed", assumed("of its CLI; for gNMI no text was found")),
		TPIDs:     vendors.That(vendors.TPIDs{List: vendors.TPIDList{0x8100, 0x88a8, 0x9100, 0x9200}, AtMost: 1, Scope: vendors.ScopePort, AsVLAN: true}, tpid),
		VLANTPIDs: vendors.That(vendors.TPIDList{0x8100}, read("Nokia SR Linux 24.10 Interfaces Guide, Subinterface VLAN configuration: with vlan-tagging, ethertype 0x8100")),
		Strip:     vendors.That(vendors.StripNone, assumed("a tag is taken away only where it chooses the subinterface")),
		Native:    vendors.That("", assumed("no text of Nokia's that mentions CSIG was found")),
	}
	follows(&t, encap)
	unrouted(&t)
	return platform("srlinux", "Nokia SR Linux", "a subinterface is chosen by the VID at ingress, and its egress mapping writes one fixed VID; nothing matches the PCP", encap, t,
		"with vlan-tagging false all frames of an interface, tagged or not, are in its one untagged subinterface (SR Linux 24.10 Interfaces Guide, Subinterface VLAN configuration): bridged there, tags stay as they are")
}
