package sai

import (
	"slices"
	"time"

	"github.com/csig-agent/csig/docs"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

const spec = "opencomputeproject/SAI doc/CSIG/SAI-CSIG-Spec.md (SAI 1.18) "

func read(from string) vendors.Source { return vendors.Source{Mark: vendors.Read, From: spec + from} }

func assumed(why string) vendors.Source { return vendors.Source{Mark: vendors.Assumed, From: why} }

// Offline is what SAI's text has a switch do that csig reaches; its chip need not support all.
func Offline() vendors.Facts {
	whole := read("§4.0: forwarding continues by standard means, such as the IP address")
	tam := read("§4.5")
	return vendors.Facts{
		Platform: Platform.Name, Native: true,
		Rules:  vlanrules.Caps{Match: vlanrules.MatchRange, MatchPCP: true, MatchD: true, Txn: vlanrules.TxnTable, ModifyEntry: true},
		Layout: &vendors.Layout{},
		Frames: []quantize.Signal{quantize.MaxPD},
		Update: vlanrules.Verdict{Level: vlanrules.Degraded, Reason: "its chip does it, by objects that csig has orchagent make: that ran with a fake of orchagent alone, and never on a switch"},
		Passthrough: vlanrules.Verdict{Level: vlanrules.Degraded,
			Reason: "what it does with tags before its objects are there is not stated"},
		Lease:     vendors.Refusal("the chip measures by itself: nothing that csig writes grows old"),
		TagDepths: []vlanrules.Verdict{{}},
		Notes: []string{
			"csig asks orchagent's own SAI server, which SONiC has since 202111; CSIG is in its SAI since 202605 (" + docs.SAI + ")",
			"its S cannot be read, as SAI has neither an attribute nor statistics of it (inc of 2026-07): csig's own load and ABW, of the port's counters, are beside it where those tell",
			"config reload, a restart of orchagent and a warm restart take its objects away: tags leave as the chip does without them until csig's next cycle makes them again, once orchagent is ready",
			"what is bound on the switch updates tags at every port that does not strip, also at those that the fleet file does not name, with the locator 0",
			"no lease has to be renewed, and on_stale has no meaning there: the chip measures by itself, and its signal does not grow old",
			"its buckets of ABW are in bytes/s and those of ABW/C in percents (" + spec + "§4.6), and every switch of the fabric has to have the same interval (§3.3)",
		},
		Traits: vendors.Traits{
			Access:      vendors.That("orchagent's SAI server (ZeroMQ) and Redis, on the switch or through SSH", vendors.Source{Mark: vendors.Read, From: "sonic-net/sonic-sairedis lib/ServerSai.cpp, meta/ZeroMQSelectableChannel.cpp"}),
			MatchVID:    vendors.That(vendors.MatchAny, read("§3.2: 32 bands of S")),
			MatchPCP:    vendors.That(vendors.MatchExact, read("§4.5, CSIG_SIGNAL_TYPE")),
			MatchDEI:    vendors.That(vendors.MatchNone, tam),
			Key:         vendors.That(vendors.KeyWire, read("§3.0: the tag's own fields")),
			Stage:       vendors.That(vendors.StageEgress, read("§4.8: what egresses a port")),
			Sets:        vendors.That(vendors.Fields{vendors.FieldVID}, read("§3.0: S, LM and, where it can, D")),
			Txn:         vendors.That(vendors.TxnEntry, assumed("one attribute of one object in a call")),
			MinUpdate:   vendors.That(time.Duration(0), assumed("the signal changes without csig, at the interval")),
			TPIDs:       vendors.That(vendors.TPIDs{Any: true, Scope: vendors.ScopeGlobal}, read("§4.5, ETH_TYPE_CODE_POINT of each TAM INT object")),
			TPIDChange:  vendors.That("", assumed("a TAM INT object of another code point is made before the old one goes")),
			Independent: vendors.That(true, whole),
			Learning:    vendors.That(true, whole),
			Parses:      vendors.That(true, whole),
			Routed:      vendors.That(true, whole),
			Strip:       vendors.That(vendors.StripFlag, read("§4.8, SAI_PORT_ATTR_INT_DELETE")),
			Native:      vendors.That("compact and wide tags, ABW, ABW/C, delay and nQD, as far as the chip's capability query reports them", read("§3.0 and §4.3")),

			UpdateSource: tam, WideSource: read("§3.2: 1,048,576 bands of a base and a step that are powers of two"),
			LeaseSource:       assumed("the chip measures by itself: nothing that csig writes grows old"),
			PassthroughSource: assumed("no text states what it does before it is configured"),
		},
	}
}

// byHand are the facts of a switch that csig does not reach; c are its capabilities, nil: not known.
func byHand(c *Capabilities) vendors.Facts {
	f := Offline()
	f.Update.Reason = "its chip does it, once a person has played the recording that csig writes: csig does not reach it"
	f.Notes = append([]string{
		"csig plan --commands writes a recording for a virtual SAI, or for a switch in a laboratory without orchagent (" + docs.SAI + ")",
		"nothing is measured here: the switch has no counters, health or data plane that csig reads, and what it has is what management.sai.played says",
	}, f.Notes[3:]...) // the first ones are of one that it reaches
	f.Off = []string{"the objects of its recording stay until a person plays the one that csig plan --remove --commands writes"}
	f.Traits.Access = vendors.That("recordings of sairedis, played by a person", read("§4.5"))
	if c == nil {
		f.Notes = append(f.Notes, unknownCapabilities)
		return f
	}
	return c.restrict(f, "management.sai.capabilities does not have it")
}

// restrict is the facts of a switch with these capabilities; where tells where it says that it lacks one.
func (c *Capabilities) restrict(f vendors.Facts, where string) vendors.Facts {
	no := func(v *vlanrules.Verdict, is bool, what string) {
		if !is {
			*v = vendors.Refusal("SAI capability " + what + ": " + where)
		}
	}
	no(&f.Update, c.Compact, "compact")
	no(&f.Wide, c.Wide, "wide")
	no(&f.Strip, c.Strip, "strip")
	f.Frames = slices.DeleteFunc(f.Frames, func(sig quantize.Signal) bool { return !slices.Contains(c.Signals, sig) })
	return f
}

const ownInterval = "no public attribute sets its interval"

const unknownCapabilities = "what the switch supports is not known: management.sai.capabilities has its answers to SAI's capability queries"

// OfflineFBOSS is what FBOSS's own tests have a switch do.
func OfflineFBOSS() vendors.Facts {
	const utils = "facebook/fboss fboss/agent/test/utils/CsigTestUtils"
	of := func(what string) vendors.Source { return vendors.Source{Mark: vendors.Read, From: utils + what} }
	cpp := of(".cpp")
	t := vendors.Traits{
		Access:     vendors.That("vendor attributes of SAI, set by a person", cpp),
		MatchVID:   vendors.That(vendors.MatchAny, of(".cpp: 7 thresholds a signal")),
		MatchPCP:   vendors.That(vendors.MatchExact, of(".h, kCsigAbwcSignalType")),
		MatchDEI:   vendors.That(vendors.MatchNone, cpp),
		Key:        vendors.That(vendors.KeyWire, of(".cpp, parseCsigTag")),
		Stage:      vendors.That(vendors.StageEgress, of(".h: UPDATE at egress")),
		Sets:       vendors.That(vendors.Fields{vendors.FieldVID}, of(".cpp, parseCsigTag: the layout of draft-00")),
		Txn:        vendors.That(vendors.TxnEntry, cpp),
		MinUpdate:  vendors.That(time.Duration(0), assumed("the signal changes without csig")),
		TPIDs:      vendors.That(vendors.TPIDs{Any: true, Scope: vendors.ScopeGlobal}, of(".cpp, SAI_SWITCH_ATTR_CSIG_TPID, a list; its tests use 0x9900")),
		TPIDChange: vendors.That("", assumed("it is an attribute of CSIG alone")),
		Parses:     vendors.That(true, of(".h: packets of the tests have IP behind the tag")),
		Routed:     vendors.That(true, assumed("its tests send routed packets and look at the tag of what leaves")),
		Strip:      vendors.That(vendors.StripFlag, of(".cpp, SAI_PORT_CSIG_TAG_ACTION_STRIP")),
		Native:     vendors.That("compact tags, ABW and ABW/C, on Cisco's YUBA and G202X", of(".cpp, isCsigSupportedAsic")),

		UpdateSource: cpp, WideSource: assumed("no text mentions tags of 8 bytes"),
		LeaseSource:       assumed("the chip measures by itself: nothing that csig writes grows old"),
		PassthroughSource: assumed("no text states what it does before it is configured"),
	}
	f := Offline()
	f.Platform, f.Traits, f.Frames = FBOSS.Name, t, nil
	f.Wide = vendors.Refusal("FBOSS has compact tags alone")
	f.Interval = vlanrules.Verdict{Level: vlanrules.Degraded, Reason: ownInterval}
	f.Update.Reason = "its chip does it with 8 buckets a signal, once a person has set the attributes that csig writes: csig reaches no switch"
	f.Passthrough.Reason = "what it does with tags before its attributes are set is not stated"
	f.Notes = []string{
		"the attributes are the vendor's own, in no public header: csig plan --commands writes them for a person, by their names in FBOSS's tests (" + docs.SAI + ")",
		"nothing is measured here: the switch has no counters, health or data plane that csig reads, and what it has is what management.fboss.played says",
		"it has 7 thresholds a signal, and its tests expect S with the highest bit set (16 to 23) on the wire (" + utils + ".h): buckets 0 to 16 of a profile are one, and so are 23 to 31",
		"its tests flood a port to see buckets from 0 to 6: bucket 7 is assumed to be all above the last threshold",
	}
	f.Off = []string{"TPID and thresholds stay, and ports pass tags through, once a person has set what csig plan --remove --commands writes"}
	return f
}
