package oftest

import (
	"bytes"
	"slices"
	"testing"
)

// TestFeatures: what a real switch says of its tables is rewritten, and refused.
func TestFeatures(t *testing.T) {
	t.Parallel()
	s := StartSwitch(t, 1)
	p := Start(t, Options{Bench: s}, Faults{})
	k := dialed(t, p)
	plain := tablesOf(t, k.part(partTableFeatures, nil))
	if len(plain) < 100 {
		t.Fatalf("%d tables", len(plain))
	}
	five := plain[5]
	if !five.can(PropMatch, FieldVLANVID, true) || !five.can(PropMatch, FieldMetadata, true) || !five.can(PropApplySetField, FieldVLANVID, false) || five.MetadataWrite == 0 {
		t.Fatalf("%+v", five)
	}
	p.Set(func(f *Faults) { f.Features = func(*TableFeatures) {} })
	again := tablesOf(t, k.part(partTableFeatures, nil))
	for i := range plain {
		if !bytes.Equal(plain[i].append(nil), again[i].append(nil)) {
			t.Errorf("table %d changed", i)
		}
	}
	p.Set(func(f *Faults) {
		f.NoMetadata = true
		f.Features = func(t *TableFeatures) {
			if t.ID == 5 {
				t.Unmask(FieldVLANVID)
				t.Drop(FieldVLANPCP)
				t.DropSet(FieldVLANVID)
				t.MaxEntries = 12
			}
		}
	})
	got := tablesOf(t, k.part(partTableFeatures, nil))
	five, six := got[5], got[6]
	if !five.can(PropMatch, FieldVLANVID, false) || five.can(PropMatch, FieldVLANVID, true) || five.can(PropMatch, FieldVLANPCP, false) || five.can(PropWildcards, FieldVLANPCP, false) ||
		five.can(PropApplySetField, FieldVLANVID, false) || five.can(PropWriteSetField, FieldVLANVID, false) || five.MaxEntries != 12 {
		t.Errorf("%+v", five)
	}
	if !six.can(PropMatch, FieldVLANVID, true) || !six.can(PropApplySetField, FieldVLANVID, false) || six.MaxEntries == 12 {
		t.Errorf("%+v", six)
	}
	for _, x := range got {
		if x.can(PropMatch, FieldMetadata, false) || x.can(PropMatch, FieldMetadata, true) || x.MetadataWrite != 0 || x.MetadataMatch != 0 {
			t.Errorf("table %d has metadata", x.ID)
		}
	}
	if got := k.refused(k.send(TypeFlowMod, flow(0, 1, 0, 2, 0, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1))); got != unsupMetadata {
		t.Errorf("write_metadata: %+v", got)
	}
	p.Set(func(f *Faults) { f.NoFeatures = true })
	if got := k.refused(k.send(TypeMultipartReq, []byte{0, partTableFeatures, 0, 0, 0, 0, 0, 0})); got != BadMultipart {
		t.Errorf("%+v", got)
	}
}

func tablesOf(t *testing.T, parts []Message) (out []*TableFeatures) {
	t.Helper()
	for _, m := range parts {
		all, ok := records(m[16:], 0, featuresLen)
		if !ok {
			t.Fatalf("%x", m)
		}
		for _, b := range all {
			f, ok := parseFeatures(b)
			if !ok {
				t.Fatalf("%x", b)
			}
			out = append(out, f)
		}
	}
	return out
}

// can reports whether a property names a field.
func (f *TableFeatures) can(typ uint16, id uint8, masked bool) bool {
	for _, p := range f.props {
		in, _ := fields(p.body, false)
		if p.typ == typ && slices.ContainsFunc(in, func(x field) bool { return x.class == classBasic && x.id == id && x.masked == masked }) {
			return true
		}
	}
	return false
}
