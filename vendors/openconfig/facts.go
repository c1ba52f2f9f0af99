package openconfig

import (
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/gnmiset"
	"github.com/csig-agent/csig/vendors/setuponly"
	"github.com/csig-agent/csig/vlanrules"
)

// Open returns a driver that connects when it is first used.
func Open(cfg gnmiset.Config) *gnmiset.Driver {
	return gnmiset.Open(Platform(), Model(), cfg)
}

// Platform is what package setuponly needs to know.
func Platform() setuponly.Platform {
	return setuponly.Platform{Offline: Offline, Format: gnmiset.Format}
}

func read(from string) vendors.Source { return vendors.Source{Mark: vendors.Read, From: from} }

func assumed(why string) vendors.Source { return vendors.Source{Mark: vendors.Assumed, From: why} }

// Where the models' text is.
const (
	vlans     = "openconfig/public release/models/vlan/openconfig-vlan.yang"
	vlanTypes = "openconfig/public release/models/vlan/openconfig-vlan-types.yang"
	set       = "openconfig/reference rpc/gnmi/gnmi-specification.md §3.4.3"
	confirmed = "openconfig/reference rpc/gnmi/gnmi-commit-confirmed.md"
)

// Offline is what is known without a device at hand.
func Offline() vendors.Facts {
	const match = vlans + ", vlan-logical-match-top"
	const egress = vlans + ", vlan-logical-egress-mapping-config: a fixed VLAN identifier"
	t := vendors.Traits{
		Access:    vendors.That("gNMI", read(set)),
		MatchVID:  vendors.That(vendors.MatchRange, read(match)),
		MatchPCP:  vendors.That(vendors.MatchNone, read(match)),
		MatchDEI:  vendors.That(vendors.MatchNone, read(match)),
		Key:       vendors.That(vendors.KeySubinterface, read(match)),
		Stage:     vendors.That(vendors.StageEgress, read(egress)),
		Sets:      vendors.That(vendors.Fields{vendors.FieldVID}, read(egress)),
		VIDs:      vendors.That(vendors.VIDs{First: 1, Last: 4094}, read(vlanTypes+", vlan-id")),
		Txn:       vendors.That(vendors.TxnCandidate, read(set)),
		Revert:    vendors.That("commit-confirmed extension", read(confirmed+"; csig asks each device whether it has it")),
		Survives:  vendors.That(true, assumed("a Set should persist (openconfig/reference issue 192); csig asks for nothing more")),
		TPIDs:     vendors.That(vendors.TPIDs{List: gnmiset.TPIDs, AtMost: 1, Scope: vendors.ScopePort, AsVLAN: true}, read(vlanTypes+", identities of TPID_TYPES")),
		VLANTPIDs: vendors.That(vendors.TPIDList{0x8100}, read(vlans+", vlan-tpid-config: the default is TPID_0X8100")),
		TPIDChange: vendors.That("a port accepts one TPID: with another one, its ordinary tags with 0x8100 become those of untagged frames",
			assumed(vlans+", vlan-tpid-config, has the TPID that is accepted on the VLAN, and not what becomes of other tags")),
		Independent: vendors.That(false, read(match)),
		Learning:    vendors.That(false, assumed("MAC addresses are learned in the bridging VLAN, which follows the VID")),
		Routed:      vendors.That(false, assumed("a router ends the L2 header, tags included, and writes its own")),
		Strip:       vendors.That(vendors.StripNone, assumed("POP of an egress-mapping takes the tag of a subinterface, and a subinterface is chosen by the VID")),
		Native:      vendors.That("", read("openconfig/public: no model mentions CSIG")),

		UpdateSource: read(match), WideSource: assumed("no text mentions tags of 8 bytes"), LeaseSource: assumed("there is no signal of csig's that could expire"),
		PassthroughSource: assumed("no text states what happens to ethertypes that are unknown"),
	}
	return vendors.Facts{
		Platform: "openconfig", Traits: t, SetupOnly: true,
		Update:      vendors.Refusal("a subinterface matches a range of VIDs where frames arrive, and its egress-mapping writes one fixed VID where they leave; nothing matches the PCP"),
		Wide:        vendors.Refusal("as for compact tags"),
		Strip:       vendors.Refusal("no model takes a tag away whatever its VID"),
		Lease:       vendors.Refusal("csig writes no signal there that could expire"),
		Passthrough: vlanrules.Verdict{Level: vlanrules.Degraded, Reason: "csig gives its ports the domain's TPID; which VLANs the tags are then bridged in, by their VID, is the operator's configuration, and has to forward all of 0 to 4095"},
		Notes: []string{
			"by gNMI one Set is one transaction: TPID, MTU and csig's record change together (" + set + ")",
			"MTUs are without the 14 bytes of the L2 header, which OpenConfig's text counts (openconfig-interfaces.yang, mtu: 1514 bytes by default): a target that does not count them gets 14 more than frames need",
			"csig's record is in the descriptions of ACL sets csig-record-0 and so on, which no interface uses",
		},
	}
}
