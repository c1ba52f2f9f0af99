package unsupported

import (
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// native marks a platform whose data plane can update tags itself once its own
// software configures that. csig does not configure it yet.
func native(p Platform) Platform {
	p.Facts.Passthrough = vlanrules.Verdict{Level: vlanrules.Degraded, Reason: "what it does with tags depends on how its own software has configured it"}
	p.Facts.Traits.PassthroughSource = assumed("no text states what it does before it is configured")
	return p
}

func fboss() Platform {
	const utils = "facebook/fboss fboss/agent/test/utils/CsigTestUtils"
	cpp, h := read(utils+".cpp"), read(utils+".h")
	t := vendors.Traits{
		Access:   vendors.That("FBOSS's own agent: vendor attributes of SAI", cpp),
		MatchVID: vendors.That(vendors.MatchNone, cpp),
		MatchPCP: vendors.That(vendors.MatchNone, cpp),
		MatchDEI: vendors.That(vendors.MatchNone, cpp),
		Key:      vendors.That(vendors.KeyNone, cpp),
		Stage:    vendors.That(vendors.StageEgress, read(utils+".h: UPDATE at egress")),
		Sets:     vendors.That(vendors.Fields{vendors.FieldVID}, read(utils+".cpp, parseCsigTag: the layout of draft-00")),
		Txn:      vendors.That(vendors.TxnEntry, cpp),
		TPIDs:    vendors.That(vendors.TPIDs{Any: true, Scope: vendors.ScopeGlobal}, read(utils+".cpp, SAI_SWITCH_ATTR_CSIG_TPID, a list; its tests use 0x9900")),
		Parses:   vendors.That(true, read(utils+".h: packets of the tests have IP behind the tag")),
		Strip:    vendors.That(vendors.StripFlag, read(utils+".cpp, SAI_PORT_CSIG_TAG_ACTION_STRIP")),
		Native:   vendors.That("compact tags, ABW and ABW/C, on Cisco's YUBA and G202X", read(utils+".cpp, isCsigSupportedAsic")),
	}
	t.Routed = vendors.That(true, assumed("its tests send routed packets and look at the tag of what leaves"))
	return native(platform("fboss", "FBOSS on Cisco Silicon One with its own CSIG", "it does so itself, once vendor attributes are set up", cpp, t,
		"it has 7 thresholds a signal, and its tests expect S with the highest bit set (16 to 22) on the wire ("+h.From+"): a profile of 32 buckets does not describe that"))
}
