package unsupported

import "github.com/csig-agent/csig/vendors"

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
