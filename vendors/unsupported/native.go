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

func sai() Platform {
	const spec = "opencomputeproject/SAI doc/CSIG/SAI-CSIG-Spec.md (SAI 1.18) "
	whole := read(spec + "§4.0: forwarding continues by standard means, such as the IP address")
	tam := read(spec + "§4.5")
	t := vendors.Traits{
		Access:      vendors.That("the switch's own SAI program", tam),
		MatchVID:    vendors.That(vendors.MatchNone, tam),
		MatchPCP:    vendors.That(vendors.MatchExact, read(spec+"§4.5, CSIG_SIGNAL_TYPE")),
		MatchDEI:    vendors.That(vendors.MatchNone, tam),
		Key:         vendors.That(vendors.KeyNone, tam),
		Stage:       vendors.That(vendors.StageEgress, read(spec+"§4.8: what egresses a port")),
		Sets:        vendors.That(vendors.Fields{vendors.FieldVID}, read(spec+"§3.0: S, LM and, where it can, D")),
		Txn:         vendors.That(vendors.TxnEntry, assumed("one attribute of one object in a call")),
		TPIDs:       vendors.That(vendors.TPIDs{Any: true, Scope: vendors.ScopeGlobal}, read(spec+"§4.5, ETH_TYPE_CODE_POINT of each TAM INT object")),
		Independent: vendors.That(true, whole),
		Learning:    vendors.That(true, whole),
		Parses:      vendors.That(true, whole),
		Routed:      vendors.That(true, whole),
		Strip:       vendors.That(vendors.StripFlag, read(spec+"§4.8, SAI_PORT_ATTR_INT_DELETE")),
		Native:      vendors.That("compact and wide tags, ABW, ABW/C, delay and nQD, as far as the chip's capability query reports them", read(spec+"§3.0 and §4.3")),
	}
	p := native(platform("sai", "SAI 1.18 or newer with its own CSIG", "it does so itself, once TAM INT objects are set up", tam, t,
		"its buckets of ABW are in bytes/s ("+spec+"§4.6), and every switch of the fabric has to have the same interval (§3.3)",
		"one TAM INT object for each signal and tag format; the default interval is 128 µs ("+spec+"§4.4.2)"))
	p.Facts.Wide = vendors.Refusal("it does so itself, once TAM INT objects are set up")
	p.Facts.Traits.WideSource = read(spec + "§3.2: 1,048,576 bands of a base and a step that are powers of two")
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
