package openflow

import "github.com/csig-agent/csig/vendors"

// ofPlatform adds to the facts of any switch of OpenFlow 1.3 what a platform's own texts
// state, or others that tried it.
func ofPlatform(f *vendors.Facts) {
	read := func(from string) vendors.Source { return vendors.Source{Mark: vendors.Read, From: from} }
	assumed := func(why string) vendors.Source { return vendors.Source{Mark: vendors.Assumed, From: why} }
	t := &f.Traits
	flows := func(match, pcp, set, pop vendors.Source) {
		t.MatchVID.Source, t.MatchPCP.Source, t.Sets.Source, t.Strip.Source = match, pcp, set, pop
		t.Access.Source, t.Key.Source = match, assumed("a flow matches a frame as it arrives; a table before may have changed its tag")
	}
	switch f.Platform {
	case "picos":
		ryu := read("osrg/ryu-certification switch/Pica8_P-3290.md, of a P-3290 with PicOS 2.2 (switch/config/Pica8_P-3290.md): VLAN_VID with and without a mask, and VLAN_PCP, match; SET_FIELD VLAN_VID and VLAN_PCP, and POP_VLAN, are right on tagged frames")
		flows(ryu, ryu, ryu, ryu)
		t.Table = vendors.That(vendors.Table{Sharers: "all flows of a bridge"}, assumed("one TCAM, whose size is the model's: Probe reads max_entries"))
		f.Notes = append(f.Notes, "where table type patterns are in force, metadata has bits of PicOS itself: 1 to 3 are hits of its tables, 16 to 22 the port group, and the others are reserved (PicOS 4.4.4, Picos_ttp.json, PICOS_TTP 2.0.0, identifiers)")
	case "onyx":
		flow := read("NVIDIA Onyx User Manual v3.10.4006, OpenFlow 1.3 Workflow: ACL tables 0 to 249 match vlan_vid, vlan_pcp and metadata (0xFFF) with an arbitrary mask, push, pop and set the VLAN ID and the PCP, write metadata, output, or hand over to Normal")
		flows(flow, flow, flow, flow)
		t.VIDs = vendors.That(vendors.VIDs{First: 1, Last: 4094}, assumed("a frame comes to OpenFlow only past the port's VLAN filter (NVIDIA Onyx User Manual v3.10.4006, OpenFlow 1.3 Workflow), and 4095 is no VLAN (IEEE 802.1Q, table 9-2)"))
		t.Table = vendors.That(vendors.Table{Sharers: "all ACL tables, and the user's own ACLs"}, assumed("one TCAM: Probe reads max_entries"))
		f.Notes = append(f.Notes,
			"a frame comes to OpenFlow only past the port's VLAN and spanning tree filters (NVIDIA Onyx User Manual v3.10.4006, OpenFlow 1.3 Workflow): the port has to be in every VLAN that a VID of the domain's tags names; bucket S has the VIDs from S*128 to S*128+127, and those of a VLAN that the port is not in are dropped",
			"no port is in VLAN 4095: a tag with S=31 and locator 127 (in uec S=31, locator 63, D=1) is dropped. Where Onyx keeps VLANs from 3968 up to itself, S=31 is lost as a whole: senders that start at 30 (initial_s: 30) send none",
			"a flow that matches ethertype 0x9100 matches no VLAN ID (same page)")
	case "comware-openflow":
		match := read("HPE 5998-5598r (5700), OpenFlow Configuration Guide, Appendix A, Matching restrictions: the VLAN ID with the bit 0x1000 and a VLAN mask match by their combination")
		not := assumed("Appendix A of the HPE 5700 OpenFlow Configuration Guide lists what is restricted, and has no entry for it")
		flows(match, not, not, not)
		t.Table = vendors.That(vendors.Table{Sharers: "ACLs and QoS policies"}, assumed("extensibility flow tables are ACL resources (H3C S6800 OpenFlow Configuration Guide, Reserving ACL resources for extensibility flow tables)"))
		f.Notes = append(f.Notes,
			"the VLANs that a masked match stands for have to be associated with the OpenFlow instance (HPE 5998-5598r, Appendix A): every VID of the domain's tags, or an instance of the whole switch",
			"metadata can be matched in tables other than the first (HPE 5998-5598r, Appendix A, Metadata matching)",
			"frames of protocols that are enabled, LLDP apart, do not come to OpenFlow (HPE 5998-5598r, Appendix A, Protocol packet matching)")
	}
}
