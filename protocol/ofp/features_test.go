package ofp

import (
	"context"
	"errors"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// property is one of a table: type, length, value, padding.
func property(typ uint16, value ...byte) []byte {
	b := order.AppendUint16(nil, typ)
	return pad(append(order.AppendUint16(b, uint16(4+len(value))), value...), 0)
}

// oxmIDs are fields as a table's property has them.
func oxmIDs(ids ...uint32) (b []byte) {
	for _, id := range ids {
		b = order.AppendUint32(b, id)
	}
	return b
}

// tableFeatures is a table as the switch returns it (OpenFlow 1.3.5 §7.3.5.5).
func tableFeatures() []byte {
	b := make([]byte, tableFeaturesLen)
	b[2] = 60
	copy(b[8:], "acl\x1b")
	order.PutUint64(b[40:], 0xfff)
	order.PutUint64(b[48:], 0xff)
	order.PutUint32(b[60:], 1000)
	b = append(b, property(propInstructions, 0, instGoto, 0, 4, 0, instApply, 0, 4, 0xff, 0xff, 0, 8, 0, 0, 0, 1)...)
	b = append(b, property(propNext, 61, 254)...)
	b = append(b, property(3, 62)...)                 // of the flow that takes every frame
	b = append(b, property(4, 0, actOutput, 0, 4)...) // of the action set
	b = append(b, property(propApplyActions, 0, actSetField, 0, 4, 0, actGroup, 0, 4)...)
	b = append(b, property(propMatch, oxmIDs(uint32(FieldVLANVID)|1<<8, uint32(FieldVLANPCP), 0xffff0404, 0x4f4e4600)...)...)
	b = append(b, property(propApplySetFields, oxmIDs(uint32(FieldVLANVID))...)...)
	b = append(b, property(0xfffe, 0, 0, 0, 1)...)
	order.PutUint16(b, uint16(len(b)))
	return b
}

// TestTableFeatures reads what a table can do, and what the switch does not say.
func TestTableFeatures(t *testing.T) {
	bare := make([]byte, tableFeaturesLen)
	order.PutUint16(bare, tableFeaturesLen)
	got, err := parseTableFeatures(nil, append(tableFeatures(), bare...))
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	f := &got[0]
	if f.ID != 60 || f.Name != `acl\x1b` || f.MaxEntries != 1000 || f.MetadataMatch != 0xfff {
		t.Errorf("%+v", f)
	}
	if !f.Instructions.Has(InstructionGoto) || !f.Instructions.Has(InstructionApply) || f.Instructions.Has(InstructionWrite) || f.Instructions.Has(0xffff) || f.Instructions.Has(-1) {
		t.Errorf("instructions: %+v", f.Instructions)
	}
	if !f.Next.Has(61) || !f.Next.Has(254) || f.Next.Has(62) {
		t.Errorf("next tables: %+v", f.Next)
	}
	if !f.ApplyActions.Has(actGroup) || !f.ApplyActions.Has(actSetField) || f.ApplyActions.Has(ActionOutput) {
		t.Errorf("actions: %+v", f.ApplyActions)
	}
	for _, tc := range []struct {
		field       Field
		all, masked bool
	}{{FieldVLANVID, true, true}, {FieldVLANPCP, true, false}, {FieldMetadata, false, false}, {FieldInPort, false, false}} {
		if all, masked := f.Matches(tc.field); all != tc.all || masked != tc.masked {
			t.Errorf("field %#x: %v, %v", tc.field, all, masked)
		}
	}
	if x := f.Match[2]; x != (OXM{Class: 0xffff, Field: 2, Experimenter: 0x4f4e4600}) {
		t.Errorf("an experimenter's field: %+v", x)
	}
	if !f.Sets(FieldVLANVID) || f.Sets(FieldVLANPCP) {
		t.Errorf("set fields: %+v", f)
	}
	if n := got[1]; n.Instructions.Known || n.Next.Known || n.ApplyActions.Known || n.Match != nil {
		t.Errorf("of a table of which it says nothing: %+v", n)
	}
	b := tableFeatures()
	for _, bad := range [][]byte{b[:len(b)-8], b[:20], slices.Concat(bare[:2], []byte{0}), broken(property(propMatch, 1, 2)), broken(property(propMatch, 0xff, 0xff, 0, 0)), broken(property(propInstructions, 0, 1, 0, 3)), broken([]byte{0, 0, 0, 3, 0, 0, 0, 0}), broken([]byte{0, 0, 0, 9, 0, 0, 0, 0})} {
		if _, err := parseTableFeatures(nil, bad); !errors.Is(err, ErrMalformed) {
			t.Errorf("%x: %v", bad, err)
		}
	}
}

// broken is a table with one property.
func broken(property []byte) []byte {
	b := append(make([]byte, tableFeaturesLen), property...)
	order.PutUint16(b, uint16(len(b)))
	return b
}

// TestDescriptions reads what a switch says of itself.
func TestDescriptions(t *testing.T) {
	b := make([]byte, 4*descLen+serialLen)
	for at, text := range map[int]string{0: "maker", descLen: "hard\x1bware", 2 * descLen: "1.2", 3 * descLen: "serial", 3*descLen + serialLen: "rack 4"} {
		copy(b[at:], text)
	}
	if d, err := parseDesc(b); err != nil || d != (Desc{"maker", `hard\x1bware`, "1.2", "serial", "rack 4"}) {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := parseDesc(b[:len(b)-1]); !errors.Is(err, ErrMalformed) {
		t.Errorf("cut short: %v", err)
	}
}

// TestPorts13 reads ports and counters as OpenFlow 1.3 has them (1.3.5 §7.2.1, §7.3.5.6).
func TestPorts13(t *testing.T) {
	desc := func(number uint32, name string, config, state, features, speed uint32) []byte {
		b := make([]byte, portLen13)
		copy(b[16:32], name)
		for at, v := range map[int]uint32{0: number, 32: config, 36: state, 40: features, 48: features, 56: speed, 60: 1 << 30} {
			order.PutUint32(b[at:], v)
		}
		return b
	}
	const full10G, copper = 1 << 6, 1 << 11
	b := slices.Concat(desc(1, "ge-1/1/1", 0, 4, copper, 1000), desc(2, "te-1/1/2", 0, 0, full10G|1<<3|copper, 0), desc(3, "te-1/1/3", 1, 0, 0, 0), desc(4, "te-1/1/4", 0, 1, 0, 0), desc(0xfffffffe, "local", 0, 0, 0, 0))
	want := []Port{{Number: 1, Name: "ge-1/1/1", Up: true, Speed: 1e6, Modes: true}, {Number: 2, Name: "te-1/1/2", Up: true, Speed: 1e10, Modes: true}, {Number: 3, Name: "te-1/1/3", Up: false, Speed: 0}, {Number: 4, Name: "te-1/1/4", Up: false, Speed: 0}}
	if got, err := parsePorts(nil, Version13, b); err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := parsePorts(nil, Version13, b[:len(b)-1]); !errors.Is(err, ErrMalformed) {
		t.Errorf("cut short: %v", err)
	}
	stats := make([]byte, portStatsLen13)
	order.PutUint32(stats, 9)
	for i, v := range []uint64{1, 2, 3, NotCounted, 50, 600, 7000, NotCounted} { // rx and tx packets, bytes, dropped, errors
		order.PutUint64(stats[8+8*i:], v)
	}
	order.PutUint32(stats[104:], 77)
	if got, err := parsePortStats(nil, Version13, stats); err != nil || !slices.Equal(got, []PortStats{{Number: 9, Age: 77, TxPackets: 2, TxBytes: NotCounted, Dropped: 650, Errors: 7000}}) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := parsePortStats(nil, Version13, stats[:portStatsLen13-1]); !errors.Is(err, ErrMalformed) {
		t.Errorf("cut short: %v", err)
	}
}

// TestHello agrees on a version with switches that speak some (1.3.5 §6.3.1).
func TestHello(t *testing.T) {
	both, only13 := []Version{Version13, Version14}, []Version{Version13}
	bitmap := func(bits uint32) []byte { return order.AppendUint32([]byte{0, 1, 0, 8}, bits) }
	for _, tc := range []struct {
		name  string
		ours  []Version
		hello []byte
		want  Version // 0: none
		says  string
	}{
		{"1.3 alone", both, message(4, typeHello, 1), Version13, ""},
		{"1.3 alone, where csig speaks no other", only13, message(4, typeHello, 1), Version13, ""},
		{"1.4 by its header", both, message(5, typeHello, 1), Version14, ""},
		{"1.5 by its header", both, message(6, typeHello, 1), Version14, ""},
		{"1.4, where csig speaks 1.3", only13, message(5, typeHello, 1), Version13, ""},
		{"1.0 and 1.3 by the bitmap", both, message(4, typeHello, 1, bitmap(1<<1|1<<4)...), Version13, ""},
		{"1.0 and 1.5 by the bitmap", both, message(6, typeHello, 1, bitmap(1<<1|1<<6)...), 0, "it speaks 1.0, 1.5, csig 1.3, 1.4"},
		{"1.4 alone by the bitmap", only13, message(5, typeHello, 1, bitmap(1<<5)...), 0, "it speaks 1.4, csig 1.3"},
		{"an older one", both, message(1, typeHello, 1), 0, "it speaks 1.0, csig 1.3, 1.4"},
		{"an element that csig does not know", both, message(4, typeHello, 1, append([]byte{0, 9, 0, 5, 1, 0, 0, 0}, bitmap(1<<4)...)...), Version13, ""},
		{"elements that are malformed", both, message(4, typeHello, 1, 0, 1, 0, 2), Version13, ""},
	} {
		run(t, tc.name, func(t *testing.T, _ *network) {
			here, there := net.Pipe()
			defer here.Close()
			said := make(chan []byte, 1)
			go func() {
				defer there.Close()
				head := make([]byte, 16)
				_, _ = there.Read(head)
				_, _ = there.Write(tc.hello)
				next := make([]byte, 64)
				n, _ := there.Read(next)
				said <- next[:n]
				_, _ = there.Write(message(byte(tc.want), typeFeaturesRep, 2, append(order.AppendUint64(nil, 77), 0, 0, 0, 0, 254, 1, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0)...))
			}()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			o, err := NewConn(ctx, here, tc.ours...)
			next := <-said
			if tc.want == 0 {
				if !isRefusal(err) || !strings.Contains(err.Error(), tc.says) || next[1] != typeError {
					t.Errorf("%v; it said %x", err, next)
				}
				return
			}
			if err != nil || o.Version != tc.want || next[0] != byte(tc.want) || next[1] != typeFeaturesReq {
				t.Fatalf("%v; it said %x", err, next)
			}
			if want := (Datapath{ID: 77, Tables: 254, Auxiliary: 1, Capabilities: 9}); !reflect.DeepEqual(o.Datapath, want) {
				t.Errorf("%+v", o.Datapath)
			}
			o.Close()
		})
	}
}
