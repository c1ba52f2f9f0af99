package vlanrules

import "github.com/csig-agent/csig/quantize"

// Field is a condition on one field of the tag's TCI. The zero value matches
// everything.
type Field struct {
	Kind        FieldKind
	Value, Mask uint16 // Ternary: field&Mask == Value
	First, Last uint16 // Range: First ≤ field ≤ Last
}

// FieldKind is the form of a Field.
type FieldKind uint8

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
type ActionType uint8

// The actions an entry may have.
const (
	RewriteVID ActionType = iota // set the 12-bit VID, keep PCP and DEI
	NoOp                         // leave the frame as it is
)

// Entry is one row of a table. A higher Priority matches first; where
// priorities are equal the matches are disjoint.
type Entry struct {
	ID       uint32 // unique in the table and stable across changes
	Priority uint16
	Match    Match
	Type     ActionType
	VID      uint16 // with RewriteVID
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

// String returns "add", "modify" or "delete".
func (k OpKind) String() string { return [...]string{"add", "modify", "delete"}[k] }

// Op is one operation. Add and Modify carry the whole new entry, Delete the
// entry as it was.
type Op struct {
	Kind  OpKind
	Entry Entry
}

// MatchKind is the strongest condition on the VID a table can express.
type MatchKind uint8

// The match kinds of DESIGN §3.
const (
	MatchRange            MatchKind = iota // first…last
	MatchTernary                           // value/mask with priorities
	MatchTernaryUnordered                  // value/mask, no priorities
	MatchExact                             // one VID an entry
)

// String returns "range", "ternary", "ternary-unordered" or "exact".
func (k MatchKind) String() string {
	return [...]string{"range", "ternary", "ternary-unordered", "exact"}[k]
}

// Apply is the table's meaning: the TCI a frame leaves with.
func (t Table) Apply(tci quantize.TCI) quantize.TCI {
	for i := range t {
		e := &t[i]
		if !e.Match.Matches(tci) {
			continue
		}
		if e.Type == RewriteVID {
			return tci&0xf000 | quantize.TCI(e.VID)
		}
		return tci
	}
	return tci
}

// Matches reports whether a tag meets every condition of m.
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
