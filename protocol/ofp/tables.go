package ofp

import (
	"bytes"
	"context"
	"fmt"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// OXM is a field that a table matches or sets.
type OXM struct {
	Class        uint16 // 0x8000: OpenFlow's own; 0xffff: an experimenter's
	Field        uint8
	Masked       bool   // bits of it
	Experimenter uint32 // its number, where it is an experimenter's
}

// TableFeatures is what a table can do (§7.3.5.5). Where a list is nil the switch does
// not say.
type TableFeatures struct {
	ID            uint8
	Name          string // what does not print is escaped
	MaxEntries    uint32
	MetadataMatch uint64 // bits that it can

	Instructions   TypeSet  // of flows, OFPIT_*
	Next           TableSet // tables that a flow's goto_table may name
	ApplyActions   TypeSet  // OFPAT_*
	Match          []OXM
	ApplySetFields []OXM
}

// TypeSet is a set of instructions or actions, by their types up to 62. Known is false
// where the switch does not say.
type TypeSet struct {
	bits  uint64
	Known bool
}

// Has reports whether a type is in the set.
func (s TypeSet) Has(typ int) bool { return typ >= 0 && typ < 63 && s.bits&(1<<typ) != 0 }

// TableSet is a set of tables. Known is false where the switch does not say.
type TableSet struct {
	bits  [4]uint64
	Known bool
}

// Has reports whether a table is in the set.
func (s *TableSet) Has(table uint8) bool { return s.bits[table/64]&(1<<(table%64)) != 0 }

// Types of instructions and actions, for TypeSet.
const (
	InstructionGoto  = instGoto
	InstructionWrite = instWrite
	InstructionApply = instApply
	ActionOutput     = actOutput
	ActionPopVLAN    = actPopVLAN
)

// Matches reports whether a table can match a field, and whether bits of it.
func (t *TableFeatures) Matches(f Field) (all, masked bool) { return has(t.Match, f) }

// Sets reports whether actions that are carried out at once can set a field.
func (t *TableFeatures) Sets(f Field) bool { ok, _ := has(t.ApplySetFields, f); return ok }

func has(list []OXM, f Field) (all, masked bool) {
	for _, x := range list {
		if x.Class == uint16(f>>16) && x.Field == uint8(f>>9&0x7f) {
			all, masked = true, masked || x.Masked
		}
	}
	return all, masked
}

// maxTables is how many tables a switch has at most.
const maxTables = 256

const (
	tableFeaturesLen = 64
	tableNameLen     = 32
)

// TableFeatures reads what the tables can do.
func (o *Conn) TableFeatures(ctx context.Context) ([]TableFeatures, error) {
	var out []TableFeatures
	err := o.multipart(ctx, partTableFeatures, nil, func(body []byte) (err error) {
		if out, err = parseTableFeatures(out, body); len(out) > maxTables {
			return fmt.Errorf("%w: of tables csig takes %d", untrusted.ErrTooLong, maxTables)
		}
		return err
	})
	return out, err
}

// Types of a table's properties (§7.3.5.5.2), those that are read.
const (
	propInstructions   = 0
	propNext           = 2
	propApplyActions   = 6
	propMatch          = 8
	propApplySetFields = 14
)

// parseTableFeatures appends the tables of one multipart body to out.
func parseTableFeatures(out []TableFeatures, b []byte) ([]TableFeatures, error) {
	err := records(b, "features of a table", 0, tableFeaturesLen, func(b []byte) error {
		name, _, _ := bytes.Cut(b[8:8+tableNameLen], []byte{0})
		t := TableFeatures{ID: b[2], Name: untrusted.Text(string(name), 4*tableNameLen),
			MetadataMatch: order.Uint64(b[40:]), MaxEntries: order.Uint32(b[60:])}
		if err := properties(b[tableFeaturesLen:], "a property of a table", t.take); err != nil {
			return err
		}
		out = append(out, t)
		return nil
	})
	return out, err
}

func (t *TableFeatures) take(typ uint16, v []byte) (err error) {
	switch typ {
	case propInstructions:
		t.Instructions, err = parseTypes(v)
	case propNext:
		t.Next = parseNext(v)
	case propApplyActions:
		t.ApplyActions, err = parseTypes(v)
	case propMatch:
		t.Match, err = parseOXMs(v)
	case propApplySetFields:
		t.ApplySetFields, err = parseOXMs(v)
	}
	return err
}

// parseTypes reads a list of instructions or actions without their bodies. Some
// switches have the length of one padded to 8, which an experimenter's has anyhow.
func parseTypes(b []byte) (TypeSet, error) {
	s := TypeSet{Known: true}
	err := records(b, "a list of types", 2, 4, func(b []byte) error {
		if typ := order.Uint16(b); typ < 63 {
			s.bits |= 1 << typ
		}
		return nil
	})
	return s, err
}

func parseNext(b []byte) TableSet {
	s := TableSet{Known: true}
	for _, table := range b {
		s.bits[table/64] |= 1 << (table % 64)
	}
	return s
}

func parseOXMs(b []byte) ([]OXM, error) {
	out := make([]OXM, 0, len(b)/4)
	for len(b) > 0 {
		if len(b) < 4 {
			return nil, errMalformed("a list of fields")
		}
		x := OXM{Class: order.Uint16(b), Field: b[2] >> 1, Masked: b[2]&1 != 0}
		b = b[4:]
		if x.Class == classExperimenter {
			if len(b) < 4 {
				return nil, errMalformed("a list of fields")
			}
			x.Experimenter = order.Uint32(b)
			b = b[4:]
		}
		out = append(out, x)
	}
	return out, nil
}
