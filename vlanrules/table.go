package vlanrules

import (
	"fmt"
	"strings"

	"github.com/csig-agent/csig/quantize"
)

// Field is a condition on one field of the tag's TCI. The zero value matches
// everything.
type Field struct {
	Kind        FieldKind
	Value, Mask uint16 // Ternary: field&Mask == Value
	First, Last uint16 // Range: First ≤ field ≤ Last
}

// FieldKind is the form of a Field.
type FieldKind uint16

// The forms a condition may have.
const (
	Any FieldKind = iota
	Ternary
	Range
)

// Match is the condition of an entry on a tag: T is the PCP, R the DEI, S and
// LM (and D in uec) the VID. The TPID and the egress port are the table's.
type Match struct {
	PCP, DEI, VID Field
}

// ActionType is what an entry does with a frame it takes.
type ActionType uint16

// The actions an entry may have.
const (
	RewriteVID ActionType = iota // set the 12-bit VID, keep PCP and DEI
	NoOp                         // leave the frame as it is
	UseValue                     // set the VID that the Value row with ID Ref holds
	Value                        // not a match: a value that UseValue entries share
)

var actionTypeNames = [...]string{"rewrite", "none", "use-value", "value"}

// String returns "rewrite", "none", "use-value" or "value".
func (a ActionType) String() string { return nameOf("ActionType", a, actionTypeNames[:]) }

// Entry is one row of a table. A higher Priority matches first. Entries of
// equal priority are disjoint, or it does not matter which of them wins.
//
// The fields leave no gaps in memory, so that long tables compare as fast as
// bytes do (TestEntryHasNoGaps).
type Entry struct {
	ID       uint32 // unique in the table and stable across changes
	Priority uint16
	Match    Match
	VID      uint16 // with RewriteVID and Value
	Type     ActionType
	Ref      uint32 // with UseValue the ID of a Value row
}

// Table is the entries of one egress port, in match order.
type Table []Entry

// OpKind is the kind of an operation on a table.
type OpKind uint8

// The operations.
const (
	Add OpKind = iota
	Modify
	Delete
)

var opKindNames = [...]string{"add", "modify", "delete"}

// String returns "add", "modify" or "delete".
func (k OpKind) String() string { return nameOf("OpKind", k, opKindNames[:]) }

// Op is one operation on the entry with Entry.ID. Add and Modify carry the
// whole new entry, Delete the entry as it was. A Modify keeps ID and priority.
// An ID that was deleted may be added again later in the same sequence.
type Op struct {
	Kind  OpKind
	Entry Entry
}

// MatchKind is the strongest condition on the VID a table can express.
type MatchKind uint8

// The match kinds a VLAN table may have.
const (
	MatchRange            MatchKind = iota // first…last
	MatchTernary                           // value/mask with priorities and no-ops
	MatchTernaryUnordered                  // value/mask, no priorities: any entry that matches may win
	MatchExact                             // one VID an entry
)

var matchKindNames = [...]string{"range", "ternary", "ternary-unordered", "exact"}

// String returns "range", "ternary", "ternary-unordered" or "exact".
func (k MatchKind) String() string { return nameOf("MatchKind", k, matchKindNames[:]) }

// MarshalText is String, for JSON.
func (k MatchKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (k *MatchKind) UnmarshalText(text []byte) error {
	return valueOf("kind of match", k, text, matchKindNames[:])
}

// ParseMatchKind is the inverse of String.
func ParseMatchKind(name string) (MatchKind, error) {
	for i, n := range matchKindNames {
		if n == name {
			return MatchKind(i), nil
		}
	}
	return 0, fmt.Errorf("unknown match kind %q: want %s", name, strings.Join(matchKindNames[:], ", "))
}

// Matches reports whether a tag meets the conditions of m.
func (m *Match) Matches(tci quantize.TCI) bool {
	return m.PCP.matches(uint16(tci>>13)) && m.DEI.matches(uint16(tci>>12&1)) && m.VID.matches(uint16(tci&0xfff))
}

func (f *Field) matches(v uint16) bool {
	switch f.Kind {
	case Ternary:
		return v&f.Mask == f.Value
	case Range:
		return f.First <= v && v <= f.Last
	}
	return true
}
