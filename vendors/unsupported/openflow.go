package unsupported

import "github.com/csig-agent/csig/vendors"

// hardwareOpenFlow is what switches that are driven by OpenFlow 1.3 have in common.
// match, set and pop are where it is read that a flow masks the VID, sets it, and takes
// a tag away.
func hardwareOpenFlow(match, pcp, set, pop vendors.Source) vendors.Traits {
	spec := read("OpenFlow Switch Specification 1.3.5 §7.2.3.7, Flow Match Fields: OXM_OF_VLAN_VID, with a mask, and OXM_OF_VLAN_PCP; none of the fields is DEI, and none the TPID")
	return vendors.Traits{
		Access:      vendors.That("OpenFlow 1.3", read("OpenFlow Switch Specification 1.3.5 §6")),
		MatchVID:    vendors.That(vendors.MatchTernary, match),
		MatchPCP:    vendors.That(vendors.MatchExact, pcp),
		MatchDEI:    vendors.That(vendors.MatchNone, spec),
		Key:         vendors.That(vendors.KeyWire, assumed("flows match a frame as it arrives; a table before may have changed its tag")),
		Stage:       vendors.That(vendors.StageIngress, match),
		Sets:        vendors.That(vendors.Fields{vendors.FieldVID}, set),
		Position:    vendors.That(vendors.PositionOuter, read("OpenFlow Switch Specification 1.3.5 §5.12, Set-Field: the VLAN ID set is the outermost tag's")),
		VLANs:       vendors.That(0, assumed("the CSIG tag has to be the outermost one")),
		Txn:         vendors.That(vendors.TxnEntry, read("OpenFlow Switch Specification 1.3.5 §6.2, Message Handling: one flow or group in a message, ordered by barriers alone; bundles came with 1.4")),
		Revert:      vendors.That("", assumed("OpenFlow 1.3 has no message for that")),
		VLANTPIDs:   vendors.That(vendors.TPIDList{0x8100}, assumed("what a switch takes for a VLAN tag's TPID is its own configuration")),
		TPIDs:       vendors.That(vendors.TPIDs{List: vendors.TPIDList{0x8100, 0x88a8}, Scope: vendors.ScopeGlobal, AsVLAN: true}, assumed("PUSH_VLAN takes these two (OpenFlow Switch Specification 1.3.5 §5.12), and OpenFlow sets none")),
		Strip:       vendors.That(vendors.StripPop, pop),
		Survives:    vendors.That(false, assumed("flows belong to the controller, which sends them again")),
		Independent: vendors.That(true, assumed("flows choose the port; it is not so of frames that a flow hands to the switch's own bridge (OFPP_NORMAL)")),
		Learning:    vendors.That(true, assumed("as for the bridging VLAN")),
		Native:      vendors.That("", match),
	}
}

func ofdpa() Platform {
	const pattern = "Broadcom-Switch/of-dpa ofdpa-2.02-15-jun-2016.json, "
	acl := read(pattern + "table Policy ACL, IPv4 VLAN and IPv6 VLAN: VLAN_VID with a mask, VLAN_PCP and VLAN_DEI exact or left out")
	rewrite := read(pattern + "group L2 Rewrite: SET_FIELD VLAN_ID, then one group, L2 Interface or L2 Unfiltered Interface")
	t := hardwareOpenFlow(acl, acl, rewrite, read(pattern+"group L2 Interface: POP_VLAN"))
	t.MatchDEI = vendors.That(vendors.MatchExact, acl)
	t.Key = vendors.That(vendors.KeyWire, assumed("where the VLAN table lets frames pass with the VID they have; it may give them another"))
	t.VIDs = vendors.That(vendors.VIDs{First: 1, Last: 4094}, read("Dell Networking OS for OpenFlow Deployment Guide, Table 9: VLAN_VID must be between 1 and 4094"))
	t.Table = vendors.That(vendors.Table{Sharers: "all flows of the Policy ACL table"}, assumed("it is one TCAM, whose size is the chip's"))
	follows(&t, assumed("the VLAN table gives every frame its VLAN by its VID, and the bridging table looks there; a flow of the Policy ACL table that names a group chooses the port instead"))
	unrouted(&t)
	return platform("ofdpa", "Broadcom OF-DPA", "flows of its Policy ACL table mask the VID and match the PCP, and L2 Rewrite groups set the VID of one output port; csig has no driver for it", acl, t,
		"its egress VLAN table matches one VID of one output port and no PCP (Broadcom OF-DPA API Guide and Reference Manual, ofdpaEgressVlanFlowEntry_s): it is no way to compare and replace",
		"the Policy ACL table is at ingress, and its flows do not match the output port: the group that they name has it")
}

// tcES0 is switchdev hardware whose egress VCAP tc programs.
func tcES0() Platform {
	const sparx5 = "torvalds/linux drivers/net/ethernet/microchip/sparx5/sparx5_tc_flower.c, "
	mask := read("torvalds/linux net/sched/cls_flower.c, fl_set_key_vlan: VLAN_VID_MASK and all bits of the priority, whatever the user asks for")
	key := read(sparx5 + "sparx5_tc_flower_handler_vlan_usage: in ES0 the keys are the classified VID and PCP")
	modify := read(sparx5 + "sparx5_tc_action_vlan_modify: in ES0 it sets VID and PCP, keeps the classified DEI, and takes the TPIDs 0x8100 and 0x88a8")
	t := vendors.Traits{
		Access:    vendors.That("tc flower, over netlink", mask),
		MatchVID:  vendors.That(vendors.MatchExact, mask),
		MatchPCP:  vendors.That(vendors.MatchExact, mask),
		MatchDEI:  vendors.That(vendors.MatchNone, mask),
		Key:       vendors.That(vendors.KeyBridging, key),
		Stage:     vendors.That(vendors.StageEgress, modify),
		Sets:      vendors.That(vendors.Fields{vendors.FieldPCP, vendors.FieldVID}, modify),
		Position:  vendors.That(vendors.PositionOuter, modify),
		Table:     vendors.That(vendors.Table{Entries: 4096, Sharers: "all ports"}, read("torvalds/linux drivers/net/ethernet/microchip/sparx5/sparx5_vcap_impl.c, sparx5_vcap_inst_cfg: 4,096 addresses of ES0; of LAN969x 1,536 (lan969x_vcap_inst_cfg)")),
		Txn:       vendors.That(vendors.TxnEntry, assumed("a filter in a message")),
		Revert:    vendors.That("", assumed("tc has none")),
		TPIDs:     vendors.That(vendors.TPIDs{List: vendors.TPIDList{0x8100, 0x88a8}, Scope: vendors.ScopePort, AsVLAN: true}, modify),
		VLANTPIDs: vendors.That(vendors.TPIDList{0x8100, 0x88a8}, assumed("the two that its filters name")),
		Survives:  vendors.That(false, assumed("tc keeps nothing over a reboot")),
		Strip:     vendors.That(vendors.StripPop, read(sparx5+"sparx5_tc_action_vlan_pop: in ES0")),
		Native:    vendors.That("", modify),
	}
	follows(&t, key)
	unrouted(&t)
	return platform("tc-es0", "Linux tc on sparx5 and ocelot (ES0)", "a filter at egress matches one VID, that of the VLAN the frame was classified into and not the one on the wire: 3,968 filters for one signal of one port, in a table of 4,096", key, t,
		"ocelot's ES0 adds a number to the classified VID in place of setting one (torvalds/linux drivers/net/ethernet/mscc/ocelot_flower.c, ocelot_flower_parse_egress_vlan_modify)")
}
