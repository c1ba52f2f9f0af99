package unsupported

import "github.com/csig-agent/csig/vendors"

const sdk = "Broadcom-Network-Switching-Software/OpenBCM sdk-6.5.27/include/bcm/"

// broadcom is what tables of Broadcom's SDK have in common.
func broadcom() vendors.Traits {
	tpid := read(sdk + "port.h, bcm_port_tpid_add: adds an allowed outer TPID of a port")
	t := vendors.Traits{
		Access:    vendors.That("the SDK's diagnostic shell", assumed("bcmcmd on SONiC, other names elsewhere; csig does not use it")),
		DropDEI:   vendors.That(true, assumed("ports can map the CFI to a colour; whether they do is the switch's QoS profile")),
		TPIDs:     vendors.That(vendors.TPIDs{Any: true, Scope: vendors.ScopePort, AsVLAN: true}, tpid),
		VLANTPIDs: vendors.That(vendors.TPIDList{0x8100}, assumed("the switch's software sets them")),
		Survives:  vendors.That(false, assumed("the switch's software rewrites the chip's tables when it starts")),
		Revert:    vendors.That("", assumed("the SDK has no such call")),
		Native:    vendors.That("", assumed("the published SDK does not mention CSIG; for newer chips see platform sai")),
	}
	follows(&t, assumed("the ingress VLAN lookup takes the outer VID, unless VLAN translation is configured otherwise"))
	unrouted(&t)
	return t
}

func broadcomFP() Platform {
	field := read(sdk + "field.h, bcmFieldQualifyStageEgress with OutPort, OuterVlanId, OuterVlanPri and OuterVlanCfi; bcmFieldActionOuterVlanNew")
	t := broadcom()
	t.MatchVID = vendors.That(vendors.MatchTernary, field)
	t.MatchPCP = vendors.That(vendors.MatchTernary, field)
	t.MatchDEI = vendors.That(vendors.MatchTernary, field)
	t.Key = vendors.That(vendors.KeyWire, assumed("whether the egress stage sees the VID on the wire or the bridging VLAN differs from chip to chip, and the SDK does not document it"))
	t.Stage = vendors.That(vendors.StageEgress, field)
	t.Sets = vendors.That(vendors.Fields{vendors.FieldPCP, vendors.FieldVID}, field)
	t.Position = vendors.That(vendors.PositionOuter, field)
	t.VLANs = vendors.That(0, assumed("the CSIG tag would have to be the outer one"))
	t.Table = vendors.That(vendors.Table{Sharers: "all ports of a pipe, and every other egress ACL"}, assumed("it is one TCAM"))
	t.Txn = vendors.That(vendors.TxnEntry, read(sdk+"field.h, bcm_field_entry_install"))
	t.Strip = vendors.That(vendors.StripNone, assumed("no such action of the egress stage was looked for"))
	return platform("broadcom-fp", "Broadcom SDK, egress field processor", "its entries could express compare-and-replace, if the egress stage sees the VID on the wire; SONiC's tables (platform sonic) reach the same TCAM", field, t)
}

func broadcomVT() Platform {
	translate := read(sdk + "vlan.h, bcm_vlan_translate_egress_action_add: a port class, an outer and an inner VLAN")
	t := broadcom()
	t.MatchVID = vendors.That(vendors.MatchExact, translate)
	t.MatchPCP = vendors.That(vendors.MatchNone, translate)
	t.MatchDEI = vendors.That(vendors.MatchNone, translate)
	t.Key = vendors.That(vendors.KeyBridging, assumed("egress translation comes after the VLAN is chosen"))
	t.Stage = vendors.That(vendors.StageEgress, translate)
	t.Sets = vendors.That(vendors.Fields{vendors.FieldPCP, vendors.FieldVID}, read(sdk+"types.h, bcm_vlan_action_set_t"))
	t.Table = vendors.That(vendors.Table{Sharers: "all ports of the chip"}, assumed("it is one hash table"))
	t.Txn = vendors.That(vendors.TxnEntry, translate)
	t.Strip = vendors.That(vendors.StripPop, assumed("bcmVlanActionDelete of an entry's action set"))
	return platform("broadcom-vt", "Broadcom SDK, egress VLAN translation", "entries match one VID each and no PCP: it cannot distinguish two signals, and a port would need 3,968 entries for one", translate, t)
}
