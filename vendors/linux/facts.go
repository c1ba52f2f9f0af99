package linux

import (
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Offline is what the platform promises without a device at hand: what Probe
// finds on Linux 6.8 or newer with the rights that csig needs.
func Offline() vendors.Facts {
	f := facts()
	f.TagDepths = make([]vlanrules.Verdict, maxDepth+1)
	f.Notes = append(f.Notes, "assumed from the platform, not probed: Linux 6.8 or newer with nftables' egress hook; strip needs tcx and CAP_SYS_ADMIN too")
	return f
}

// facts is what is so on every Linux.
func facts() vendors.Facts {
	return vendors.Facts{
		Platform:    "linux",
		Rules:       Rules(),
		MTUHeadroom: slack,
		Others:      maxOthers,
		Traits:      traits(),
		Wide:        vendors.Refusal("wide tags pass through untouched: a table of 2^20 values of S is more than a map of intervals can keep current, and only compact tags are implemented"),
		Notes: []string{
			"the rewrite happens before the queueing discipline: frames that already wait in a queue keep the value they were given",
			"any TPID can be CSIG's, and ordinary VLANs keep 0x8100 and 0x88a8",
		},
	}
}

// trialSetup is a whole setup, for a kernel to check and take back.
func trialSetup() vendors.Setup {
	return vendors.Setup{TPID: 0x9900, Layout: quantize.UEC, Signals: quantize.Signals[:], OnStale: inventory.Conservative,
		Ports: []vendors.PortSetup{{Port: "lo", Action: vlanrules.Update}}}
}

// Rules is what a port's interval map, behind the rule that tests D, can
// express. An element that changes is deleted and added in one transaction,
// so match and value change at once.
func Rules() vlanrules.Caps {
	return vlanrules.Caps{Match: vlanrules.MatchRange, MatchPCP: true, MatchD: true, Txn: vlanrules.TxnTable, ModifyEntry: true}
}

// slack is how many bytes beyond a port's MTU a bridge forwards: the kernel
// leaves room for one VLAN tag, whatever it is for.
const slack = 4
