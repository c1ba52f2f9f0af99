package srlinux

import (
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/gnmiset"
	"github.com/csig-agent/csig/vendors/setuponly"
	"github.com/csig-agent/csig/vlanrules"
)

// Open returns a driver that connects when it is first used.
func Open(cfg gnmiset.Config) *gnmiset.Driver { return gnmiset.Open(Platform(), Model(), cfg) }

// Platform is what package setuponly needs to know.
func Platform() setuponly.Platform {
	return setuponly.Platform{Offline: Offline, Format: gnmiset.Format}
}

func read(from string) vendors.Source { return vendors.Source{Mark: vendors.Read, From: from} }

func assumed(why string) vendors.Source { return vendors.Source{Mark: vendors.Assumed, From: why} }

// Where Nokia's text is.
const (
	models = "nokia/srlinux-yang-models srlinux-yang-models/srl_nokia/models/"
	vlans  = models + "interfaces/srl_nokia-interfaces-vlans.yang"
	config = models + "system/srl_nokia-configuration.yang"
	server = models + "grpc/srl_nokia-gnmi.yang"
	set    = "openconfig/reference rpc/gnmi/gnmi-specification.md §3.4.3"
)

// Offline is what is known without a device at hand.
func Offline() vendors.Facts {
	const (
		encap  = vlans + ", vlan-match-top"
		ranges = vlans + ", single-tagged-range: the outer tag is not stripped on ingress, and none is pushed on egress"
	)
	t := vendors.Traits{
		Access:    vendors.That("gNMI", read(set)),
		MatchVID:  vendors.That(vendors.MatchRange, read(ranges)),
		MatchPCP:  vendors.That(vendors.MatchNone, read(encap)),
		MatchDEI:  vendors.That(vendors.MatchNone, read(encap)),
		Key:       vendors.That(vendors.KeySubinterface, read(encap)),
		Stage:     vendors.That(vendors.StageIngress, read(encap)),
		Sets:      vendors.That(vendors.Fields{vendors.FieldVID}, read(vlans+", vlan-egress-mapping-top: a fixed VLAN identifier")),
		VIDs:      vendors.That(vendors.VIDs{First: 1, Last: 4094}, read(vlans+", vlan-id")),
		Txn:       vendors.That(vendors.TxnCandidate, read(set)),
		Revert:    vendors.That("commit-confirmed extension", assumed("no text of Nokia's says whether its gNMI server has it: csig asks each device; the server's own commit-confirmed-timeout is for all clients ("+server+")")),
		Survives:  vendors.That(false, read(server+", commit-save, and "+config+", auto-save: false unless configured")),
		TPIDs:     vendors.That(vendors.TPIDs{List: gnmiset.TPIDs, AtMost: 1, Scope: vendors.ScopePort, AsVLAN: true}, read(vlans+", vlan-tpid-config, of platforms with the feature vlan-tpid")),
		VLANTPIDs: vendors.That(vendors.TPIDList{0x8100}, read("Nokia SR Linux 24.10 Interfaces Guide, Subinterface VLAN configuration: with vlan-tagging, ethertype 0x8100")),
		TPIDChange: vendors.That("a port accepts one TPID: with another one, its ordinary tags with 0x8100 become those of untagged frames",
			assumed(vlans+", vlan-tpid-config, has the TPID that is accepted on the VLAN, and not what becomes of other tags")),
		Independent: vendors.That(false, read(encap+"; but for single-tagged-range, which csig cannot see")),
		Learning:    vendors.That(false, assumed("MAC addresses are learned in the bridging VLAN, which follows the VID")),
		Routed:      vendors.That(false, assumed("a router ends the L2 header, tags included, and writes its own")),
		Strip:       vendors.That(vendors.StripNone, assumed("a tag is taken away only where it chooses the subinterface")),
		Native:      vendors.That("", assumed("no text of Nokia's that mentions CSIG was found")),

		UpdateSource: read(encap), WideSource: assumed("no text mentions tags of 8 bytes"), LeaseSource: assumed("there is no signal of csig's that could expire"),
		PassthroughSource: read(ranges),
	}
	return vendors.Facts{
		Platform: "srlinux", Traits: t, SetupOnly: true,
		Update: vendors.Refusal("a subinterface is chosen by the VID at ingress, and its egress mapping writes one fixed VID; nothing matches the PCP"),
		Wide:   vendors.Refusal("as for compact tags"),
		Strip:  vendors.Refusal("a tag is taken away only where it chooses the subinterface"),
		Lease:  vendors.Refusal("csig writes no signal there that could expire"),
		Passthrough: vlanrules.Verdict{Level: vlanrules.Degraded, Reason: "csig gives its ports the domain's TPID; tags then pass where a bridged subinterface of each has the operator's single-tagged-range from 1 to 4094, " +
			"and those with VID 0 where another one is untagged; no subinterface takes VID 4095"},
		Notes: []string{
			"with vlan-tagging false all frames of an interface, tagged or not, are in its one untagged subinterface (SR Linux 24.10 Interfaces Guide, Subinterface VLAN configuration): bridged there, tags stay as they are",
			"one gNMI Set is one commit of the running configuration (" + set + "); csig saves nothing, so that a restart takes the TPID away, which the agent writes again",
			"where a gRPC server has a commit-confirmed-timeout, SR Linux waits for a confirmation of each change (" + server + "), and no text says how a gNMI client gives it: csig then changes nothing",
			"MTUs are without the 14 bytes of the L2 header, which SR Linux counts (" + models + "interfaces/srl_nokia-interfaces.yang, mtu); csig does not read the l2-mtu of subinterfaces, 9232 by default (srl_nokia-mtu.yang, default-l2-mtu)",
			"csig's record is in the descriptions of ACL filters csig-record-0 and so on, which no interface uses; the models of releases before 24.3 have no acl-filter, so that they are refused",
		},
	}
}
