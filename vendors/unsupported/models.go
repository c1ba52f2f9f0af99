package unsupported

import "github.com/csig-agent/csig/vendors"

// openconfig is any device that is driven by OpenConfig's models over gNMI.
func openconfig() Platform {
	const vlans = "openconfig/public release/models/vlan/openconfig-vlan.yang"
	types := read("openconfig/public release/models/vlan/openconfig-vlan-types.yang, identities of TPID_TYPES")
	match := read(vlans + ", vlan-logical-match-top")
	egress := read(vlans + ", vlan-logical-egress-mapping-config: a fixed VLAN identifier")
	set := read("openconfig/reference rpc/gnmi/gnmi-specification.md §3.4.3")
	t := vendors.Traits{
		Access:    vendors.That("gNMI", set),
		MatchVID:  vendors.That(vendors.MatchRange, match),
		MatchPCP:  vendors.That(vendors.MatchNone, match),
		MatchDEI:  vendors.That(vendors.MatchNone, match),
		Key:       vendors.That(vendors.KeySubinterface, match),
		Stage:     vendors.That(vendors.StageEgress, egress),
		Sets:      vendors.That(vendors.Fields{vendors.FieldVID}, egress),
		VIDs:      vendors.That(vendors.VIDs{First: 1, Last: 4094}, read("openconfig/public release/models/vlan/openconfig-vlan-types.yang, vlan-id")),
		Txn:       vendors.That(vendors.TxnCandidate, set),
		Revert:    vendors.That("commit-confirmed extension", read("openconfig/reference rpc/gnmi/gnmi-commit-confirmed.md; a device reports whether it supports it")),
		TPIDs:     vendors.That(vendors.TPIDs{List: vendors.TPIDList{0x8100, 0x88a8, 0x9100, 0x9200}, AtMost: 1, Scope: vendors.ScopePort, AsVLAN: true}, types),
		VLANTPIDs: vendors.That(vendors.TPIDList{0x8100}, read(vlans+", vlan-tpid-config: the default is TPID_0X8100")),
		Strip:     vendors.That(vendors.StripNone, assumed("POP of an egress-mapping takes the tag of a subinterface, and a subinterface is chosen by the VID")),
		Native:    vendors.That("", read("openconfig/public: no model mentions CSIG")),
	}
	follows(&t, match)
	unrouted(&t)
	return platform("openconfig", "OpenConfig", "a subinterface matches a range of VIDs where frames arrive, and its egress-mapping writes one fixed VID where they leave; nothing matches the PCP", match, t)
}

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
