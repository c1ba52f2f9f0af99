package openflow

import "github.com/csig-agent/csig/vendors"

// traits is how a switch of OpenFlow 1.3 treats tags.
func traits(_ string) vendors.Traits {
	frames := vendors.Source{Mark: vendors.Ran, From: "vendors/openflow, TestEveryTag (Open vSwitch 3.1 with OpenFlow 1.3 alone)"}
	fields := vendors.Source{Mark: vendors.Read, From: "OpenFlow Switch Specification 1.3.5 (ONF TS-023), §7.2.3.7 Flow match fields"}
	actions := vendors.Source{Mark: vendors.Read, From: "OpenFlow Switch Specification 1.3.5 (ONF TS-023), §5.12 Actions"}
	tablesOf := vendors.Source{Mark: vendors.Read, From: "OpenFlow Switch Specification 1.3.5 (ONF TS-023), §5.1 Pipeline processing"}
	messages := vendors.Source{Mark: vendors.Read, From: "OpenFlow Switch Specification 1.3.5 (ONF TS-023), §6.2 Message handling and §6.4 Flow table modification messages"}
	switches := vendors.Source{Mark: vendors.Assumed, From: "each switch has its own answer, which csig qualify finds"}
	return vendors.Traits{
		Access:   vendors.That("OpenFlow 1.3, over TLS or plain TCP", frames),
		MatchVID: vendors.That(vendors.MatchTernary, frames),
		MatchPCP: vendors.That(vendors.MatchExact, frames),
		MatchDEI: vendors.That(vendors.MatchNone, fields),
		Key:      vendors.That(vendors.KeyWire, frames),
		Stage:    vendors.That(vendors.StageBeforeOutput, tablesOf),
		Sets:     vendors.That(vendors.Fields{vendors.FieldPCP, vendors.FieldVID}, actions),
		Loses:    vendors.That(vendors.Fields{}, switches),
		Position: vendors.That(vendors.PositionOuter, fields),
		VLANs:    vendors.That(0, fields),
		VIDs:     vendors.That(vendors.VIDs{Last: 4095}, switches),
		Table:    vendors.That(vendors.Table{}, vendors.Source{Mark: vendors.Assumed, From: "Probe reads max_entries from the switch's table features (1.3.5 §7.3.5.5)"}),
		Txn:      vendors.That(vendors.TxnEntry, messages),
		Revert:   vendors.That("", messages),
		Survives: vendors.That(false, vendors.Source{Mark: vendors.Assumed, From: "OpenFlow says nothing of restarts; the agent restores the flows"}),

		TPIDs:      vendors.That(vendors.TPIDs{List: vendors.TPIDList{0x8100, 0x88a8}, Scope: vendors.ScopeGlobal, AsVLAN: true}, vendors.Source{Mark: vendors.Assumed, From: "PUSH_VLAN takes these two (1.3.5 §5.12), and OpenFlow sets none"}),
		TPIDChange: vendors.That("it is configured on the switch, not by csig", switches),
		VLANTPIDs:  vendors.That(vendors.TPIDList{0x8100}, switches),

		Independent: vendors.That(true, tablesOf),
		Learning:    vendors.That(true, tablesOf),
		Parses:      vendors.That(true, switches),
		DropDEI:     vendors.That(false, switches),
		TrustPCP:    vendors.That(false, switches),
		Routed:      vendors.That(true, actions),

		Strip:  vendors.That(vendors.StripPop, actions),
		Native: vendors.That("", actions),

		UpdateSource: frames, WideSource: actions,
		LeaseSource:       vendors.Source{Mark: vendors.Ran, From: "vendors/openflow, TestLease (Open vSwitch 3.1 with OpenFlow 1.3 alone)"},
		PassthroughSource: switches,
	}
}
