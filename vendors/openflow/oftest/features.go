package oftest

import "slices"

// Properties of a table (§7.3.5.5.2) whose content is fields.
const (
	PropInstructions  = 0
	PropMatch         = 8
	PropWildcards     = 10
	PropWriteSetField = 12
	PropApplySetField = 14

	propWriteSetFieldMiss = 13
	propApplySetFieldMiss = 15
)

// TableFeatures are what a switch says of one table.
type TableFeatures struct {
	ID            uint8
	MetadataMatch uint64
	MetadataWrite uint64
	MaxEntries    uint32

	name  []byte
	rest  []byte // config
	props []prop
}

type prop struct {
	typ  uint16
	body []byte // without padding
}

// Unmask has the table match a field exactly or not at all.
func (t *TableFeatures) Unmask(id uint8) {
	t.each(PropMatch, func(oxm []byte) bool {
		if oxm[2]>>1 == id && oxm[2]&1 != 0 {
			oxm[2] &^= 1
			oxm[3] /= 2
		}
		return true
	})
}

// Drop has the table not match a field.
func (t *TableFeatures) Drop(id uint8) {
	for _, p := range []uint16{PropMatch, PropWildcards} {
		t.each(p, func(oxm []byte) bool { return oxm[2]>>1 != id })
	}
}

// DropSet has the table's actions not set a field.
func (t *TableFeatures) DropSet(id uint8) {
	for _, p := range []uint16{PropWriteSetField, propWriteSetFieldMiss, PropApplySetField, propApplySetFieldMiss} {
		t.each(p, func(oxm []byte) bool { return oxm[2]>>1 != id })
	}
}

// DropInstruction has the table not have an instruction.
func (t *TableFeatures) DropInstruction(typ uint16) {
	for i := range t.props {
		p := &t.props[i]
		if p.typ > PropInstructions+1 { // 1: on a miss
			continue
		}
		var kept []byte
		if all, ok := records(p.body, 2, 4); ok {
			for _, r := range all {
				if order.Uint16(r) != typ {
					kept = append(kept, r...)
				}
			}
			p.body = kept
		}
	}
}

// each keeps of a property the fields of OpenFlow for which keep is true, and all
// others.
func (t *TableFeatures) each(typ uint16, keep func(oxm []byte) bool) {
	for i := range t.props {
		p := &t.props[i]
		if p.typ != typ {
			continue
		}
		var kept []byte
		for b := p.body; len(b) >= 4; {
			n := 4
			if order.Uint16(b) == 0xffff { // an experimenter's
				n = min(8, len(b))
			}
			if oxm := slices.Clone(b[:n]); n > 4 || order.Uint16(b) != classBasic || keep(oxm) {
				kept = append(kept, oxm...)
			}
			b = b[n:]
		}
		p.body = kept
	}
}

const featuresLen = 64

func parseFeatures(b []byte) (*TableFeatures, bool) {
	t := &TableFeatures{ID: b[2], name: b[8:40], MetadataMatch: order.Uint64(b[40:]), MetadataWrite: order.Uint64(b[48:]), rest: b[56:60], MaxEntries: order.Uint32(b[60:])}
	for b = b[featuresLen:]; len(b) > 0; {
		if len(b) < 4 {
			return nil, false
		}
		n := int(order.Uint16(b[2:]))
		padded := (n + 7) / 8 * 8
		if n < 4 || padded > len(b) {
			return nil, false
		}
		t.props = append(t.props, prop{order.Uint16(b), slices.Clone(b[4:n])})
		b = b[padded:]
	}
	return t, true
}

func (t *TableFeatures) append(out []byte) []byte {
	start := len(out)
	out = append(out, 0, 0, t.ID, 0, 0, 0, 0, 0)
	out = append(out, t.name...)
	out = order.AppendUint64(order.AppendUint64(out, t.MetadataMatch), t.MetadataWrite)
	out = order.AppendUint32(append(out, t.rest...), t.MaxEntries)
	for _, p := range t.props {
		out = order.AppendUint16(out, p.typ)
		out = append(order.AppendUint16(out, uint16(4+len(p.body))), p.body...)
		for (len(out)-start)%8 != 0 {
			out = append(out, 0)
		}
	}
	order.PutUint16(out[start:], uint16(len(out)-start))
	return out
}

// rewriteFeatures changes an answer about tables; one that is malformed stays.
func (f *Faults) rewriteFeatures(m Message) Message {
	if f.Features == nil && !f.NoMetadata {
		return m
	}
	tables, ok := records(m[headerLen+8:], 0, featuresLen)
	if !ok {
		return m
	}
	body := slices.Clone(m[headerLen : headerLen+8])
	for _, b := range tables {
		t, ok := parseFeatures(b)
		if !ok {
			return m
		}
		if f.NoMetadata {
			t.MetadataMatch, t.MetadataWrite = 0, 0
			t.Drop(FieldMetadata)
			t.DropInstruction(2) // write-metadata
		}
		if f.Features != nil {
			f.Features(t)
		}
		body = t.append(body)
	}
	return message(TypeMultipartRep, m.XID(), body)
}
