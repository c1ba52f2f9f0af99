package junos

import (
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/setup"
	"github.com/csig-agent/csig/vlanrules"
)

const noStrip = "no action was found that takes a tag away whatever its VID"

// tpidList are those that switches take.
var tpidList = vendors.TPIDList{0x8100, 0x88a8, 0x9100, 0x9200}

// facts are those of a platform, with a table that no update uses.
func facts(name string, t vendors.Traits, source vendors.Source, table vlanrules.Caps, update string, notes ...string) vendors.Facts {
	f := setup.Facts(name, t, source, update, noStrip, append([]string{
		"csig gives a port 0x8100 and the domain's TPID, so that ordinary tags stay tags there; a port with any other TPID is refused",
		"a change is committed on trial for a minute in an exclusive session, read back over a second connection and then confirmed, or taken back; the auto-revert of a whole csig apply is its agent's, and needs the device to be reachable; a commit is persistent, and stays after a restart",
		"MTUs are without the 14 bytes of the L2 header, which Junos counts",
	}, notes...)...)
	f.Rules = table
	return f
}

// follows records that the VID of a tag with the port's TPID selects where a frame is bridged,
// and with it where MAC addresses are learned.
func follows(t *vendors.Traits, s vendors.Source) {
	t.Independent = vendors.That(false, s)
	t.Learning = vendors.That(false, setup.Assumed("MAC addresses are learned in the bridging VLAN, which follows the VID"))
	t.Routed = vendors.That(false, setup.Assumed("a router ends the L2 header, tags included, and writes its own"))
	t.Survives = vendors.That(true, setup.Read("Junos OS Evolved CLI User Guide, Commit the Configuration: what is committed is saved as juniper.conf.gz"))
}

// traits are what all of Junos has in common.
func traits(tpids vendors.Fact[vendors.TPIDs]) vendors.Traits {
	confirmed := setup.Read("Juniper NETCONF XML Management Protocol Guide, Commit the Candidate Configuration Only After Confirmation; not on the ephemeral database")
	expected := setup.Read("Junos CLI Reference, tag-protocol-id (TPIDs Expected to Be Sent or Received)")
	return vendors.Traits{
		TPIDChange: vendors.That("the Routing Engine takes 0x8100 alone: what is sent to the device itself with another TPID is discarded", expected),

		Access:    vendors.That("SSH, the command line", setup.Read("scrapli/scrapligo assets/platforms/juniper_junos.yaml")),
		Txn:       vendors.That(vendors.TxnCandidate, confirmed),
		Revert:    vendors.That("commit confirmed", confirmed),
		TPIDs:     tpids,
		VLANTPIDs: vendors.That(vendors.TPIDList{0x8100}, setup.Read("Junos CLI Reference, tag-protocol-id (TPID to Rewrite): the default is 0x8100")),
		Strip:     vendors.That(vendors.StripNone, setup.Assumed(noStrip)),
		Native:    vendors.That("", setup.Assumed("no text of Juniper's that mentions CSIG was found")),
	}
}

func offlineEX() vendors.Facts {
	tpids := setup.Read("Junos CLI Reference, tag-protocol-id (TPIDs Expected to Be Sent or Received): of interfaces of EX switches; of older ones without it, dot1q-tunneling has 0x8100, 0x88a8 or 0x9100 for the whole device")
	return offlineSwitch("junos-ex", vendors.That(vendors.TPIDs{List: tpidList, Scope: vendors.ScopePort, AsVLAN: true}, tpids))
}

func offlineQFX() vendors.Facts {
	tpids := setup.Read("Junos CLI Reference, tag-protocol-id (TPIDs Expected to Be Sent or Received): up to four for each VLAN of an interface, on QFX5100, 5110, 5120, 5200 and 5210 since Junos 22.4R1")
	return offlineSwitch("junos-qfx", vendors.That(vendors.TPIDs{List: tpidList, Scope: vendors.ScopePort, AsVLAN: true}, tpids))
}

func offlineSwitch(name string, tpids vendors.Fact[vendors.TPIDs]) vendors.Facts {
	filters := setup.Read("Junos Routing Policy, Firewall Filter Match Conditions and Actions (QFX and EX Series Switches): actions count, mirror, rate-limit and classify")
	t := traits(tpids)
	t.MatchVID = vendors.That(vendors.MatchRange, filters)
	t.MatchPCP = vendors.That(vendors.MatchExact, setup.Assumed("learn-vlan-1p-priority is there for EX and MX; for QFX, and at egress, no text was found"))
	t.MatchDEI = vendors.That(vendors.MatchNone, setup.Assumed("no such match condition was found for these switches"))
	t.Key = vendors.That(vendors.KeyBridging, setup.Assumed("filters of family ethernet-switching see the VLAN that a frame is in"))
	t.Stage = vendors.That(vendors.StageEgress, filters)
	t.Sets = vendors.That(vendors.Fields(nil), filters)
	follows(&t, setup.Assumed("a VLAN's members and its VID are configured together"))
	return facts(name, t, filters, vlanrules.Caps{Match: vlanrules.MatchRange, MatchPCP: true}, "firewall filters match ranges of VIDs, but no action of theirs rewrites a VID")
}

func offlineMX() vendors.Facts {
	profile := setup.Read("Junos Multicast and L2, Configuring Frames with Particular TPIDs to Be Processed as Tagged Frames: up to eight for each port")
	maps := setup.Read("Junos CLI Reference, tag-protocol-id (TPID to Rewrite), input-vlan-map and output-vlan-map of a unit")
	filters := setup.Read("Juniper EX9200 VPLS Feature Guide, Table 5: learn-vlan-id, learn-vlan-1p-priority and learn-vlan-dei (MX Series)")
	t := traits(vendors.That(vendors.TPIDs{Any: true, AtMost: 8, Scope: vendors.ScopePort, AsVLAN: true}, profile))
	t.MatchVID = vendors.That(vendors.MatchRange, filters)
	t.MatchPCP = vendors.That(vendors.MatchExact, filters)
	t.MatchDEI = vendors.That(vendors.MatchExact, filters)
	t.Key = vendors.That(vendors.KeySubinterface, maps)
	t.Stage = vendors.That(vendors.StageEgress, maps)
	t.Sets = vendors.That(vendors.Fields{vendors.FieldVID}, maps)
	follows(&t, setup.Assumed("a unit and its bridge domain are chosen by the VID"))
	return facts("junos-mx", t, maps, vlanrules.Caps{Match: vlanrules.MatchRange, MatchPCP: true}, "a VLAN map writes one VID for a unit, and a unit is chosen at ingress by the VID: one unit for each value",
		"all TPIDs of VLAN maps must be among those of the port's ethernet-switch-profile (Junos CLI Reference, tag-protocol-id)")
}
