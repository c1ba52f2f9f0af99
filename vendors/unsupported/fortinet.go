package unsupported

import "github.com/csig-agent/csig/vendors"

func fortiSwitch() Platform {
	const guide = "FortiSwitchOS 7.0.6 Administration Guide, ACL (docs.fortinet.com/document/fortiswitch/7.0.6/administration-guide/738913/acl)"
	acl := read("FortiSwitchOS 7.0.1 CLI Reference, config switch acl egress (docs.fortinet.com/document/fortiswitch/7.0.1/fortiswitchos-cli-reference/511852): an interface, cos and one vlan-id to match, outer-vlan-tag to set")
	stacking := read("FortiSwitchOS 7.0.0 Administration Guide, VLAN stacking (docs.fortinet.com/document/fortiswitch/7.0.0/administration-guide/146340): an interface has one VLAN TPID profile, and a switch four at most with that of 0x8100")
	t := vendors.Traits{
		Access:    vendors.That("SSH, the command line", assumed("csig does not use it")),
		MatchVID:  vendors.That(vendors.MatchExact, acl),
		MatchPCP:  vendors.That(vendors.MatchExact, acl),
		MatchDEI:  vendors.That(vendors.MatchNone, acl),
		Key:       vendors.That(vendors.KeyBridging, assumed("no text says which VID the egress stage sees")),
		Stage:     vendors.That(vendors.StageEgress, acl),
		Sets:      vendors.That(vendors.Fields{vendors.FieldVID}, acl),
		Position:  vendors.That(vendors.PositionOuter, acl),
		VLANs:     vendors.That(0, assumed("the CSIG tag would have to be the outer one")),
		Table:     vendors.That(vendors.Table{Sharers: "all ACL policies"}, read(guide+": get switch acl usage shows what a model has")),
		Txn:       vendors.That(vendors.TxnEntry, assumed("a policy takes effect by itself")),
		Revert:    vendors.That("", assumed("no command was found that takes a change back by itself")),
		TPIDs:     vendors.That(vendors.TPIDs{Any: true, AtMost: 1, Scope: vendors.ScopePort, AsVLAN: true}, stacking),
		VLANTPIDs: vendors.That(vendors.TPIDList{0x8100}, stacking),
		Survives:  vendors.That(true, assumed("its configuration is kept as it is entered")),
		Strip:     vendors.That(vendors.StripNone, assumed("the list of untagged VLANs of a port, and remove-inner of VLAN stacking, go by VIDs")),
		Native:    vendors.That("", assumed("no text of Fortinet's that mentions CSIG was found")),
	}
	follows(&t, assumed("the VLAN of a tagged frame is its tag's VID, which has to be an allowed VLAN of the port"))
	unrouted(&t)
	return platform("fortiswitch", "Fortinet FortiSwitch, egress ACL", "an egress policy matches one VID: 3,968 policies for one signal of one port, and all of them would change with the bucket", acl, t,
		"models of the 100 series have no egress ACLs, and none has them while a FortiGate manages it (FortiLink mode) ("+guide+")")
}
