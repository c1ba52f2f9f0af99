package vlanrules

import (
	"math"

	"github.com/csig-agent/csig/quantize"
)

// Caps is what one device's VLAN table can express. The zero value is a table
// of VID ranges that takes a port's whole change at once.
type Caps struct {
	Match    MatchKind `json:"match"`
	MatchPCP bool      `json:"match_pcp"` // T can be matched
	MatchD   bool      `json:"match_d"`   // the device itself leaves tags with D=1 alone before the table is looked up (uec); entries need not test D
	Txn      Txn       `json:"transaction"`

	Modify      bool `json:"modify"`       // an entry's action can change in place
	ModifyMatch bool `json:"modify_match"` // an entry's match can change in place, in a write of its own
	ModifyEntry bool `json:"modify_entry"` // match and action of an entry can change in one write
	Values      bool `json:"values"`       // entries can share a value that one operation changes

	Ranges   int  `json:"ranges"`   // VID ranges that one entry can list; none of them spans VIDs that entries may not name. 0 or 1: one, which may
	Prefixes bool `json:"prefixes"` // the hardware holds a range as the value/mask prefixes that it expands to, and Entries counts those

	Entries   int  `json:"entries"`       // capacity of the table; 0: not limited
	Taken     int  `json:"entries_taken"` // entries of it that other applications hold
	Shared    bool `json:"shared"`        // the capacity is shared by all ports
	Ports     int  `json:"ports"`         // ports that share it
	Positions int  `json:"positions"`     // tag positions (outer, inner behind one tag, …) that need a copy of the entries each; 0: one

	VIDMin        uint16     `json:"vid_min"`        // VIDs that entries may name
	VIDMax        uint16     `json:"vid_max"`        // 0: 4095
	Reserved      []VIDRange `json:"reserved"`       // VIDs the device keeps for itself: never written
	MatchReserved bool       `json:"match_reserved"` // entries may nevertheless match the VIDs that must not be written
}

// VIDRange is the VIDs First…Last.
type VIDRange struct {
	First uint16 `json:"first"`
	Last  uint16 `json:"last"`
}

// Txn is the largest change the device takes as a whole.
type Txn uint8

// Transaction models.
const (
	TxnTable Txn = iota // any number of operations, all or nothing
	TxnBatch            // one port's operations
	TxnEntry            // one operation
)

var txnNames = [...]string{"table", "batch", "entry"}

// String returns "table", "batch" or "entry".
func (t Txn) String() string { return nameOf("Txn", t, txnNames[:]) }

// MarshalText is String, for JSON.
func (t Txn) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (t *Txn) UnmarshalText(text []byte) error {
	return valueOf("transaction model", t, text, txnNames[:])
}

// An Option gives a compiler what the capabilities cannot: what the operator
// chose, and what tags of the domain can carry.
type Option func(*Compiler)

// WithBudget is how many entries one signal of one port may take in a ternary
// table, 7 by default. A budget under 6 asks for the smallest table (at most
// 3 entries); more entries make changes shorter.
func WithBudget(entries int) Option {
	return func(c *Compiler) { c.budget = entries }
}

// WithLocators lists the locators that tags of this signal carry anywhere in
// the domain, so that an exact table need not hold the others; `none` and
// `stale` are always among them.
func WithLocators(sig quantize.Signal, lms []uint16) Option {
	return func(c *Compiler) {
		in := make([]bool, c.layout.LMAllOnes()+1)
		for _, lm := range append([]uint16{c.layout.LMNone(), c.layout.LMStale()}, lms...) {
			if int(lm) < len(in) {
				in[lm] = true
			}
		}
		if sig.Known() {
			c.locators[sig] = in
		}
	}
}

// WithInitial is the S that senders of a signal start with, where it is not the best one
// (draft-00 §5.4: initial_s of the profile): no tag of the domain is better.
func WithInitial(sig quantize.Signal, s uint8) Option {
	return func(c *Compiler) {
		if sig.Known() {
			c.starts[sig] = s != sig.InitialBucket()
		}
	}
}

// unlimited is the share of a table without a capacity.
const unlimited = math.MaxInt

// share is how many entries of the table are one port's: unlimited where the
// table is, and 0 where there are more ports and positions than entries that no other application
// holds.
func (c *Caps) share() int {
	if c.Entries == 0 {
		return unlimited
	}
	n := max(0, c.Entries-c.Taken)
	if c.Shared && c.Ports > 1 {
		n /= c.Ports
	}
	if c.Positions > 1 {
		n /= c.Positions
	}
	return n
}

// writable reports whether an entry may write vid. VIDs 0 and 4095 are not
// for writing on any hardware.
func (c *Caps) writable(vid uint16) bool {
	return vid != 0 && vid != 4095 && c.named(vid)
}

// matchable reports whether an entry can take a tag with this VID.
func (c *Caps) matchable(vid uint16) bool { return c.MatchReserved || c.named(vid) }

func (c *Caps) named(vid uint16) bool {
	if vid < c.VIDMin || c.VIDMax != 0 && vid > c.VIDMax {
		return false
	}
	for _, r := range c.Reserved {
		if r.First <= vid && vid <= r.Last {
			return false
		}
	}
	return true
}
