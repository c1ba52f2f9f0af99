package ebpf

import (
	"time"

	"github.com/csig-agent/csig/vendors"
)

// traits is how the data plane treats tags.
func traits() vendors.Traits {
	ran := vendors.Source{Mark: vendors.Ran, From: "vendors/ebpf, TestEveryTag, TestRows and TestSetupsInAnyOrder (Linux 6.18)"}
	kernel := vendors.Source{Mark: vendors.Assumed, From: "as platform linux: the same kernel forwards"}
	return vendors.Traits{
		Access:   vendors.That("bpf(2) on the device", ran),
		MatchVID: vendors.That(vendors.MatchAny, ran),
		MatchPCP: vendors.That(vendors.MatchAny, ran),
		MatchDEI: vendors.That(vendors.MatchAny, ran),
		Key:      vendors.That(vendors.KeyWire, ran),
		Stage:    vendors.That(vendors.StageEgress, ran),
		Sets:     vendors.That(vendors.Fields{vendors.FieldPCP, vendors.FieldDEI, vendors.FieldVID}, ran),
		Loses:    vendors.That(vendors.Fields(nil), ran),
		Position: vendors.That(vendors.PositionAny, ran),
		VLANs:    vendors.That(maxVLANs, ran),
		VIDs:     vendors.That(vendors.VIDs{Last: 4095}, ran),
		Table:    vendors.That(vendors.Table{}, vendors.Source{Mark: vendors.Ran, From: "no rules: an entry a port, 1024 at most"}),
		Txn:      vendors.That(vendors.TxnEntry, ran),
		Revert:   vendors.That("", ran),
		Survives: vendors.That(false, vendors.Source{Mark: vendors.Assumed, From: "programs live in the kernel's memory; the agent restores them"}),

		MinUpdate: vendors.That(time.Duration(0), vendors.Source{Mark: vendors.Assumed, From: "the signal changes without csig, at the interval"}),

		TPIDs:      vendors.That(vendors.TPIDs{Any: true, Scope: vendors.ScopeGlobal, AtMost: 1}, ran),
		TPIDChange: vendors.That("", ran),
		VLANTPIDs: vendors.That(vendors.TPIDList{0x8100, 0x88a8}, vendors.Source{Mark: vendors.Read,
			From: "torvalds/linux include/linux/if_vlan.h, eth_type_vlan"}),

		Independent: vendors.That(true, kernel),
		Learning:    vendors.That(true, kernel),
		Parses:      vendors.That(true, kernel),
		Hash:        vendors.That(vendors.Fields{vendors.FieldVID, vendors.FieldPCP, vendors.FieldIP, vendors.FieldL4}, kernel),
		DropDEI:     vendors.That(false, kernel),
		TrustPCP:    vendors.That(false, kernel),
		Routed:      vendors.That(false, kernel),

		Strip:  vendors.That(vendors.StripPop, ran),
		Native: vendors.That("measures, compares and replaces, compact and wide tags", ran),

		UpdateSource: ran, WideSource: ran, LeaseSource: ran, PassthroughSource: ran,
	}
}
