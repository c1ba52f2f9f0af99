package ovs

import (
	"time"

	"github.com/csig-agent/csig/docs"
	"github.com/csig-agent/csig/vendors"
)

// traits is how Open vSwitch treats tags.
func traits() vendors.Traits {
	frames := vendors.Source{Mark: vendors.Ran, From: "vendors/ovs, TestOneFrame, TestLongEveryTag and TestLongEveryTagOfDevices (Open vSwitch 3.1, userspace datapath)"}
	fields := vendors.Source{Mark: vendors.Read, From: "ovs-fields(7), VLAN (openvswitch/ovs lib/meta-flow.xml)"}
	ofctl := vendors.Source{Mark: vendors.Read, From: "ovs-ofctl(8), --bundle (openvswitch/ovs utilities/ovs-ofctl.8.in)"}
	ports := vendors.Source{Mark: vendors.Read, From: "ovs-vswitchd.conf.db(5), Port, vlan_mode (openvswitch/ovs vswitchd/vswitch.xml)"}
	extract := vendors.Source{Mark: vendors.Read, From: "openvswitch/ovs lib/flow.c, parse_vlan and miniflow_extract"}
	return vendors.Traits{
		Access:   vendors.That("OpenFlow 1.4 on the bridge's own socket, and its database; both through SSH from another machine", frames),
		MatchVID: vendors.That(vendors.MatchTernary, frames),
		MatchPCP: vendors.That(vendors.MatchExact, frames),
		MatchDEI: vendors.That(vendors.MatchNone, fields),
		Key:      vendors.That(vendors.KeyWire, frames),
		Stage:    vendors.That(vendors.StageBeforeOutput, frames),
		Sets:     vendors.That(vendors.Fields{vendors.FieldPCP, vendors.FieldVID}, fields),
		Loses:    vendors.That(vendors.Fields{vendors.FieldDEI}, frames),
		Position: vendors.That(vendors.PositionAny, frames),
		VLANs:    vendors.That(1, frames),
		VIDs:     vendors.That(vendors.VIDs{Last: 4095}, frames),
		Table:    vendors.That(vendors.Table{}, vendors.Source{Mark: vendors.Read, From: "ovs-vswitchd.conf.db(5), Flow_Table, flow_limit: none unless it is configured"}),
		Txn:      vendors.That(vendors.TxnTable, ofctl),
		Revert:   vendors.That("", ofctl),
		Survives: vendors.That(false, vendors.Source{Mark: vendors.Ran, From: "vendors/ovs, TestRestartOfTheSwitch: flows are lost with ovs-vswitchd; the agent restores them"}),

		MinUpdate: vendors.That(1900*time.Microsecond, vendors.Source{Mark: vendors.Ran, From: "BenchmarkUpdate: 64 ports with two signals whose buckets all change, on 2 cores of an AMD EPYC"}),

		TPIDs:      vendors.That(vendors.TPIDs{List: vendors.TPIDList{tpidCSIG}, AtMost: 1, Scope: vendors.ScopeGlobal}, extract),
		TPIDChange: vendors.That("", extract),
		VLANTPIDs:  vendors.That(vendors.TPIDList{tpidVLAN, tpidCSIG}, extract),

		Independent: vendors.That(true, vendors.Source{Mark: vendors.Assumed, From: "where the flows choose the port without the VLAN, or the ports of the bridge that switches by NORMAL have vlan_mode=dot1q-tunnel (" + docs.OVS + "); by NORMAL between trunk ports it does follow the VID"}),
		Learning:    vendors.That(true, vendors.Source{Mark: vendors.Assumed, From: "as the bridging VLAN"}),
		Parses:      vendors.That(true, extract),
		Hash:        vendors.That(vendors.Fields{vendors.FieldMAC, vendors.FieldVID, vendors.FieldIP, vendors.FieldL4}, vendors.Source{Mark: vendors.Read, From: "openvswitch/ovs lib/flow.c, flow_hash_symmetric_l4 and flow_hash_in_wildcards: of balance-tcp bonds and of groups"}),
		DropDEI:     vendors.That(false, fields),
		TrustPCP:    vendors.That(false, vendors.Source{Mark: vendors.Read, From: "ovs-actions(7): queues are chosen by set_queue and enqueue alone"}),
		Routed:      vendors.That(true, vendors.Source{Mark: vendors.Assumed, From: "it routes by flows, which leave a tag as it is unless they say otherwise; a port of the machine's own IP stack is another matter: see linux"}),

		Strip:  vendors.That(vendors.StripPop, vendors.Source{Mark: vendors.Ran, From: "vendors/ovs, TestStrip (Open vSwitch 3.1, userspace datapath)"}),
		Native: vendors.That("", ports),

		UpdateSource: frames, WideSource: extract,
		LeaseSource:       vendors.Source{Mark: vendors.Ran, From: "vendors/ovs, TestLease; hard_timeout has whole seconds (ovs-ofctl(8))"},
		PassthroughSource: frames,
	}
}
