package linux

import "github.com/csig-agent/csig/vlanrules"

// Rules is what a port's interval map, behind the rule that tests D, can
// express. An element that changes is deleted and added in one transaction,
// so match and value change at once.
func Rules() vlanrules.Caps {
	return vlanrules.Caps{Match: vlanrules.MatchRange, MatchPCP: true, MatchD: true, Txn: vlanrules.TxnTable, ModifyEntry: true}
}
