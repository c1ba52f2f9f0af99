package linux

import (
	"time"

	"github.com/csig-agent/csig/docs"
	"github.com/csig-agent/csig/vendors"
)

// traits is how Linux treats tags.
func traits() vendors.Traits {
	ran := vendors.Source{Mark: vendors.Ran, From: docs.Linux + ", What it makes in the kernel (Linux 6.18)"}
	frames := vendors.Source{Mark: vendors.Ran, From: "vendors/linux, TestEveryTag, TestDepths and TestStrip (Linux 6.18)"}
	dev := vendors.Source{Mark: vendors.Read, From: "torvalds/linux net/core/dev.c, __netif_receive_skb_core: a protocol without a handler is dropped, and IP's is the tag's no more"}
	dissect := vendors.Source{Mark: vendors.Read, From: "torvalds/linux net/core/flow_dissector.c, flow_keys_dissector_keys with FLOW_DISSECTOR_KEY_VLAN"}
	return vendors.Traits{
		Access:   vendors.That("netlink on the device", ran),
		MatchVID: vendors.That(vendors.MatchAny, ran),
		MatchPCP: vendors.That(vendors.MatchAny, ran),
		MatchDEI: vendors.That(vendors.MatchAny, ran),
		Key:      vendors.That(vendors.KeyWire, ran),
		Stage:    vendors.That(vendors.StageEgress, ran),
		Sets:     vendors.That(vendors.Fields{vendors.FieldPCP, vendors.FieldDEI, vendors.FieldVID}, ran),
		Loses:    vendors.That(vendors.Fields(nil), frames),
		Position: vendors.That(vendors.PositionAny, frames),
		VLANs:    vendors.That(maxDepth, frames),
		VIDs:     vendors.That(vendors.VIDs{Last: 4095}, frames),
		Table:    vendors.That(vendors.Table{}, vendors.Source{Mark: vendors.Ran, From: "BenchmarkUpdate: 512 ports; the limit is the kernel's memory"}),
		Txn:      vendors.That(vendors.TxnTable, ran),
		Revert:   vendors.That("", ran),
		Survives: vendors.That(false, vendors.Source{Mark: vendors.Assumed, From: "rules live in the kernel's memory, and csig saves none; the agent restores them"}),

		MinUpdate: vendors.That(980*time.Microsecond, vendors.Source{Mark: vendors.Ran, From: "BenchmarkUpdate: 64 ports whose buckets all change, on 2 cores of an AMD EPYC"}),

		TPIDs:      vendors.That(vendors.TPIDs{Any: true, Scope: vendors.ScopeGlobal, AtMost: 1}, ran),
		TPIDChange: vendors.That("", ran),
		VLANTPIDs: vendors.That(vendors.TPIDList{0x8100, 0x88a8}, vendors.Source{Mark: vendors.Read,
			From: "torvalds/linux include/linux/if_vlan.h, eth_type_vlan"}),

		Independent: vendors.That(true, vendors.Source{Mark: vendors.Assumed, From: "of bridges without vlan_filtering, or with that of the other protocol; with it for the tag's own TPID it does follow the VID"}),
		Learning:    vendors.That(true, vendors.Source{Mark: vendors.Assumed, From: "as the bridging VLAN"}),
		Parses:      vendors.That(true, dissect),
		Hash:        vendors.That(vendors.Fields{vendors.FieldVID, vendors.FieldPCP, vendors.FieldIP, vendors.FieldL4}, dissect),
		DropDEI:     vendors.That(false, vendors.Source{Mark: vendors.Assumed, From: "no queueing discipline reads it by itself"}),
		TrustPCP:    vendors.That(false, vendors.Source{Mark: vendors.Assumed, From: "only VLAN devices map it, and a bridged port has none"}),
		Routed:      vendors.That(false, dev),

		Strip:  vendors.That(vendors.StripPop, vendors.Source{Mark: vendors.Ran, From: docs.Linux + ", What it makes in the kernel: a BPF program on tcx egress"}),
		Native: vendors.That("", ran),

		UpdateSource: frames, WideSource: frames, LeaseSource: ran, PassthroughSource: frames,
	}
}
