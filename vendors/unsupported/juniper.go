package unsupported

import "github.com/csig-agent/csig/vendors"

// junos is what all of Junos has in common.
func junos(tpids vendors.Fact[vendors.TPIDs]) vendors.Traits {
	confirmed := read("Juniper NETCONF XML Management Protocol Guide, Commit the Candidate Configuration Only After Confirmation; not on the ephemeral database")
	expected := read("Junos CLI Reference, tag-protocol-id (TPIDs Expected to Be Sent or Received)")
	return vendors.Traits{
		TPIDChange: vendors.That("the Routing Engine takes 0x8100 alone: what is sent to the device itself with another TPID is discarded", expected),

		Access:    vendors.That("NETCONF or SSH", assumed("scrapli/scrapligo assets/platforms/juniper_junos.yaml drives its CLI; csig does not yet")),
		Txn:       vendors.That(vendors.TxnCandidate, confirmed),
		Revert:    vendors.That("commit confirmed", confirmed),
		TPIDs:     tpids,
		VLANTPIDs: vendors.That(vendors.TPIDList{0x8100}, read("Junos CLI Reference, tag-protocol-id (TPID to Rewrite): the default is 0x8100")),
		Strip:     vendors.That(vendors.StripNone, assumed("no action was found that takes a tag away whatever its VID")),
		Native:    vendors.That("", assumed("no text of Juniper's that mentions CSIG was found")),
	}
}

func junosEX() Platform {
	tpids := read("Junos CLI Reference, tag-protocol-id (TPIDs Expected to Be Sent or Received): of interfaces of EX switches; of older ones without it, dot1q-tunneling has 0x8100, 0x88a8 or 0x9100 for the whole device")
	return junosSwitch("junos-ex", "Juniper Junos on EX", vendors.That(vendors.TPIDs{List: vendors.TPIDList{0x8100, 0x88a8, 0x9100, 0x9200}, Scope: vendors.ScopePort, AsVLAN: true}, tpids))
}

func junosQFX() Platform {
	tpids := read("Junos CLI Reference, tag-protocol-id (TPIDs Expected to Be Sent or Received): up to four for each VLAN of an interface, on QFX5100, 5110, 5120, 5200 and 5210 since Junos 22.4R1")
	return junosSwitch("junos-qfx", "Juniper Junos on QFX", vendors.That(vendors.TPIDs{List: vendors.TPIDList{0x8100, 0x88a8, 0x9100, 0x9200}, Scope: vendors.ScopePort, AsVLAN: true}, tpids))
}

func junosSwitch(name, title string, tpids vendors.Fact[vendors.TPIDs]) Platform {
	filters := read("Junos Routing Policy, Firewall Filter Match Conditions and Actions (QFX and EX Series Switches): actions count, mirror, rate-limit and classify")
	t := junos(tpids)
	t.MatchVID = vendors.That(vendors.MatchRange, filters)
	t.MatchPCP = vendors.That(vendors.MatchExact, assumed("learn-vlan-1p-priority is there for EX and MX; for QFX, and at egress, no text was found"))
	t.MatchDEI = vendors.That(vendors.MatchNone, assumed("no such match condition was found for these switches"))
	t.Key = vendors.That(vendors.KeyBridging, assumed("filters of family ethernet-switching see the VLAN that a frame is in"))
	t.Stage = vendors.That(vendors.StageEgress, filters)
	t.Sets = vendors.That(vendors.Fields(nil), filters)
	follows(&t, assumed("a VLAN's members and its VID are configured together"))
	unrouted(&t)
	return platform(name, title, "firewall filters match ranges of VIDs, but no action of theirs rewrites a VID", filters, t)
}

func junosMX() Platform {
	profile := read("Junos Multicast and L2, Configuring Frames with Particular TPIDs to Be Processed as Tagged Frames: up to eight for each port")
	maps := read("Junos CLI Reference, tag-protocol-id (TPID to Rewrite), input-vlan-map and output-vlan-map of a unit")
	filters := read("Juniper EX9200 VPLS Feature Guide, Table 5: learn-vlan-id, learn-vlan-1p-priority and learn-vlan-dei (MX Series)")
	t := junos(vendors.That(vendors.TPIDs{Any: true, AtMost: 8, Scope: vendors.ScopePort, AsVLAN: true}, profile))
	t.MatchVID = vendors.That(vendors.MatchRange, filters)
	t.MatchPCP = vendors.That(vendors.MatchExact, filters)
	t.MatchDEI = vendors.That(vendors.MatchExact, filters)
	t.Key = vendors.That(vendors.KeySubinterface, maps)
	t.Stage = vendors.That(vendors.StageEgress, maps)
	t.Sets = vendors.That(vendors.Fields{vendors.FieldVID}, maps)
	follows(&t, assumed("a unit and its bridge domain are chosen by the VID"))
	unrouted(&t)
	return platform("junos-mx", "Juniper Junos on MX", "a VLAN map writes one VID for a unit, and a unit is chosen at ingress by the VID: one unit for each value", maps, t,
		"all TPIDs of VLAN maps must be among those of the port's ethernet-switch-profile (Junos CLI Reference, tag-protocol-id)")
}
