package memory

import (
	"time"

	"github.com/csig-agent/csig/vlanrules"
)

// Faults are what is wrong with a switch's data plane; the zero value is a healthy one.
// Any of them go together.
type Faults struct {
	// Bridging.
	BridgesByVID bool                 // the VID of a CSIG tag chooses the VLAN a frame is bridged in
	LearnsByVID  bool                 // MAC addresses are learned, and looked up, by the VID of a CSIG tag
	DropsVIDs    []vlanrules.VIDRange // CSIG tags with these VIDs are not forwarded
	TightMTU     bool                 // the CSIG tag takes its bytes from the payload that a frame may have

	// Frames.
	LosesDEI         bool // of CSIG tags
	RemarksPCP       bool // of CSIG tags, to 0
	ReordersTags     bool // a CSIG tag behind a VLAN's leaves in front of it
	TagsUntagged     bool // untagged frames leave with a priority tag
	StripsPayload    bool // strip removes four bytes too many
	RewriteClearsDEI bool // DEI is lost where a rule rewrites the VID, and only there

	PassesOneIn  int // of frames with CSIG tags one in so many is forwarded; 0: all
	DoublesOneIn int // of frames with CSIG tags one in so many is forwarded twice; 0: none
	LosesOneIn   int // of frames with tags, of VLANs or CSIG, one in so many is lost; 0: none

	// Rules. Of one port alone, where RulesOf names it, but for Table; and so are
	// RewriteClearsDEI and StripsPayload.
	RulesOf             string
	MatchesBridgingVLAN bool          // rules see the bridging VLAN in place of the VID on the wire
	RulesTakeVLANs      bool          // rules take tags of ordinary VLANs, too
	IgnoresPCP          bool          // rules take the tags of every signal
	Gap                 time.Duration // a change deletes the old entries first and adds the new ones so much later
	Table               int           // so many entries fit, whatever the data sheet says; 0: as it says
	AckEarly            time.Duration // the hardware has a change so much later than it is acknowledged
	ForgetsOnLinkDown   bool          // TPID and rules of a port are gone when its link comes back
	LeaseForever        bool          // a lease never ends
	ShadowsACL          bool          // frames that rules look at pass ACLs
	NoFallback          bool          // the rules are gone when the lease ends, and the fallback with them

	// Counters.
	StaleCounters time.Duration // they are refreshed so often
	CountsNoFCS   bool          // octets lack the FCS, which the driver says they have
	CountsNoTag   bool          // octets lack the CSIG tag
	Counters32    bool          // they wrap at 32 bits
}
