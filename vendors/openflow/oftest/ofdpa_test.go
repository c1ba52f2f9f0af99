package oftest

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// oxm is a field of a match; a value twice as long as the field has a mask.
func oxm(id uint8, masked bool, value ...byte) []byte {
	f := id << 1
	if masked {
		f |= 1
	}
	return append([]byte{0x80, 0, f, byte(len(value))}, value...)
}

func port(n byte) []byte  { return oxm(0, false, 0, 0, 0, n) }
func vid(v uint16) []byte { return oxm(6, false, byte(v>>8)|0x10, byte(v)) }
func vids(v, mask uint16) []byte {
	return oxm(6, true, byte(v>>8)|0x10, byte(v), byte(mask>>8)|0x10, byte(mask))
}
func goesTo(table byte) []byte { return []byte{0, 1, 0, 8, table, 0, 0, 0} }
func group(id uint32) []byte   { return order.AppendUint32([]byte{0, 22, 0, 8}, id) }
func setVID(v uint16) []byte {
	return []byte{0, 25, 0, 16, 0x80, 0, 12, 2, byte(v>>8) | 0x10, byte(v), 0, 0, 0, 0, 0, 0}
}
func instruction(typ byte, actions ...[]byte) []byte {
	b := append([]byte{0, typ, 0, 0, 0, 0, 0, 0}, slices.Concat(actions...)...)
	order.PutUint16(b[2:], uint16(len(b)))
	return b
}

// flowMod is one with a match of fields, and instructions.
func flowMod(table, command uint8, priority uint16, match [][]byte, instructions ...[]byte) []byte {
	b := make([]byte, 40)
	b[16], b[17] = table, command
	order.PutUint16(b[22:], priority)
	copy(b[24:], bytes.Repeat([]byte{0xff}, 12))
	m := slices.Concat(match...)
	b = append(append(b, 0, 1, 0, byte(4+len(m))), m...)
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	return append(b, slices.Concat(instructions...)...)
}

// groupMod is one with a bucket of actions for each.
func groupMod(command uint16, kind byte, id uint32, buckets ...[]byte) []byte {
	b := order.AppendUint32(append(order.AppendUint16(nil, command), kind, 0), id)
	for _, a := range buckets {
		b = append(order.AppendUint16(b, uint16(16+len(a))), 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0)
		b = append(b, a...)
	}
	return b
}

// tagged is a frame with one tag of 0x88a8.
func tagged(tci uint16) []byte {
	b := binary.BigEndian.AppendUint16([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xa8}, tci)
	return append(append(b, 0x08, 0x00), make([]byte, 46)...)
}

// ofdpa is a switch of OF-DPA with 3 ports, and what its operator made: every VLAN
// of port 1 passes, and port 2 has an L2 Unfiltered Interface.
func ofdpa(t *testing.T, size int) (*Memory, *Proxy, *talker) {
	t.Helper()
	s := &Memory{Ports: []string{"p1", "p2", "p3"}, Tables: 64}
	s.BuiltIn()
	p := Start(t, Options{Bench: s, OFDPA: &OFDPA{Size: size}}, Faults{})
	k := dialed(t, p)
	allow := []byte{0, 25, 0, 16, 0xff, 0xff, 48, 5, 0, 0, 0x10, 0x18, 1, 0, 0, 0} // ALLOW_VLAN_TRANSLATION
	k.send(TypeFlowMod, flowMod(TableVLAN, 0, 7, [][]byte{port(1), vids(0, 0)}, goesTo(TableTermination)))
	k.send(TypeGroupMod, groupMod(0, 2, 0xb0000002, slices.Concat(output(2), allow)))
	k.barrier()
	return s, p, k
}

// TestOFDPAForwards: a flow of Policy ACL, an L2 Rewrite and an L2 Unfiltered
// Interface change the VIDs that the flow masks, and no others.
func TestOFDPAForwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, k := ofdpa(t, 0)
		k.send(TypeGroupMod, groupMod(0, 2, 0x10000001, slices.Concat(setVID(0x105), group(0xb0000002))))
		k.send(TypeFlowMod, flowMod(TableACL, 0, 10, [][]byte{port(1), vids(0x800, 0x800), oxm(FieldVLANPCP, false, 1)}, instruction(5), instruction(3, group(0x10000001))))
		k.send(TypeFlowMod, flowMod(TableACL, 0, 5, [][]byte{port(1)}, instruction(3, group(0xb0000002))))
		k.barrier()
		s.Settled()
		for _, tc := range []struct{ in, out uint16 }{{0x2fff, 0x2105}, {0x2801, 0x2105}, {0x27ff, 0x27ff}, {0x4fff, 0x4fff}} {
			s.Send(1, tagged(tc.in))
			if got := s.Receive(2); !bytes.Equal(got, tagged(tc.out)) {
				t.Errorf("%04x: %x", tc.in, got)
			}
		}
		// A group that is modified has no buckets for a while.
		var lost []bool
		p.Set(func(f *Faults) {
			f.After = func(Message) {
				s.Settled()
				s.Send(1, tagged(0x2fff), tagged(0x4fff))
				lost = append(lost, bytes.Equal(s.Receive(2), tagged(0x4fff)))
				if !lost[len(lost)-1] {
					s.Receive(2)
				}
			}
		})
		k.send(TypeGroupMod, groupMod(1, 2, 0x10000001, slices.Concat(setVID(0x106), group(0xb0000002))))
		k.barrier()
		if want := []bool{true, false}; !slices.Equal(lost, want) {
			t.Errorf("%v", lost)
		}
		p.Set(func(f *Faults) { f.After = nil })
		k.send(TypeGroupMod, groupMod(2, 2, 0x10000001)) // its flow goes with it
		k.barrier()
		if got := s.Flow("dump-flows"); strings.Contains(got, "priority=10,") {
			t.Error(got)
		}
		if got := p.Refused(); got != nil {
			t.Errorf("refused %q", got)
		}
	})
}

// TestOFDPARefuses: what its tables, groups and agent do not take is an error.
func TestOFDPARefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, k := ofdpa(t, 2)
		rewrite := slices.Concat(setVID(0x105), group(0xb0000002))
		k.send(TypeGroupMod, groupMod(0, 2, 0x10000001, rewrite))
		out := instruction(3, group(0x10000001))
		k.send(TypeFlowMod, flowMod(TableACL, 0, 10, [][]byte{port(1), vids(0x800, 0xf00)}, out))
		k.barrier()
		before := s.Flow("dump-flows", "--no-stats") + s.Flow("dump-groups")
		ipv6 := oxm(fieldEthType, false, 0x86, 0xdd)
		for _, tc := range []struct {
			name string
			typ  uint8
			body []byte
			want Refusal
			why  string
		}{
			{"a table that it does not have", TypeFlowMod, flowMod(61, 0, 9, [][]byte{port(1)}, out), NotPermitted, "no table 61"},
			{"metadata", TypeFlowMod, flowMod(TableACL, 0, 9, [][]byte{oxm(2, false, 0, 0, 0, 0, 0, 0, 0, 1)}, out), NotPermitted, "not match field 2"},
			{"a masked PCP", TypeFlowMod, flowMod(TableACL, 0, 9, [][]byte{vids(0, 0), oxm(7, true, 1, 1)}, out), NotPermitted, "no mask of field 7"},
			{"a VID without its bit", TypeFlowMod, flowMod(TableACL, 0, 9, [][]byte{oxm(6, true, 0, 1, 0, 1)}, out), NotPermitted, "OFPVID_PRESENT"},
			{"a set_field in the flow", TypeFlowMod, flowMod(TableACL, 0, 9, [][]byte{port(1)}, instruction(3, setVID(5), group(0x10000001))), NotPermitted, "no action 25"},
			{"an output in the flow", TypeFlowMod, flowMod(TableACL, 0, 9, [][]byte{port(1)}, instruction(4, output(2))), NotPermitted, "no action 0"},
			{"a goto", TypeFlowMod, flowMod(TableACL, 0, 9, [][]byte{port(1)}, goesTo(65)), NotPermitted, "not go to table 65"},
			{"an L2 Flood group in Policy ACL", TypeFlowMod, flowMod(TableACL, 0, 9, [][]byte{port(1)}, instruction(3, group(0x40000001))), NotPermitted, "not write group 40000001"},
			{"IPv4 of IPv6", TypeFlowMod, flowMod(TableACL, 0, 9, [][]byte{ipv6, oxm(11, false, 10, 0, 0, 1)}, out), NotPermitted, "cannot be 86dd"},
			{"a VLAN flow without a port", TypeFlowMod, flowMod(TableVLAN, 0, 9, [][]byte{vid(5)}, goesTo(TableTermination)), NotPermitted, "needs field 0"},
			{"a masked VLAN flow", TypeFlowMod, flowMod(TableVLAN, 0, 9, [][]byte{port(1), vids(0x100, 0x100)}, goesTo(TableTermination)), NotPermitted, "no mask of field 6"},
			{"a VLAN flow that goes on to Policy ACL", TypeFlowMod, flowMod(TableVLAN, 0, 9, [][]byte{port(2), vid(5)}, goesTo(TableACL)), NotPermitted, "not go to table 60"},
			{"a flow that is there", TypeFlowMod, flowMod(TableACL, 0, 10, [][]byte{port(1), vids(0x800, 0xf00)}, out), NotPermitted, "overlaps"},
			{"a flow that overlaps", TypeFlowMod, flowMod(TableACL, 0, 10, [][]byte{vids(0x800, 0x800)}, out), NotPermitted, "overlaps"},
			{"a flow of priority 0", TypeFlowMod, flowMod(TableACL, 0, 0, [][]byte{port(1)}, out), NotPermitted, "priority 0"},
			{"a flow whose group is not there", TypeFlowMod, flowMod(TableACL, 0, 10, [][]byte{port(2)}, instruction(3, group(0x10000009))), Refusal{2, 9}, ""},
			{"a group that is there", TypeGroupMod, groupMod(0, 2, 0x10000001, rewrite), groupExists, "it is there"},
			{"a group that is not there", TypeGroupMod, groupMod(1, 2, 0x10000007, rewrite), unknownGroup, "it is not there"},
			{"a group of a type that it does not have", TypeGroupMod, groupMod(0, 2, 0xc0000001, rewrite), invalidGroup, "type of group"},
			{"a group whose group is not there", TypeGroupMod, groupMod(0, 2, 0x10000002, slices.Concat(setVID(5), group(0xb0000003))), unknownGroup, "b0000003"},
			{"a rewrite without a group", TypeGroupMod, groupMod(0, 2, 0x10000002, setVID(5)), invalidGroup, "outputs once"},
			{"a rewrite with a port", TypeGroupMod, groupMod(0, 2, 0x10000002, slices.Concat(setVID(5), output(2))), invalidGroup, "no action 0"},
			{"a rewrite to VID 0", TypeGroupMod, groupMod(0, 2, 0x10000002, slices.Concat(setVID(0), group(0xb0000002))), invalidGroup, "1 to 4095"},
			{"an interface of another port", TypeGroupMod, groupMod(0, 2, 0xb0000003, output(2)), invalidGroup, "its port"},
			{"an interface in use", TypeGroupMod, groupMod(2, 2, 0xb0000002), chainedGroup, "10000001 refers to it"},
			{"table features", TypeMultipartReq, []byte{0, partTableFeatures, 0, 0, 0, 0, 0, 0}, BadMultipart, ""},
		} {
			told := len(p.Refused())
			if got := k.refused(k.send(tc.typ, tc.body)); got != tc.want {
				t.Errorf("%s: %+v, want %+v: %q", tc.name, got, tc.want, p.Refused()[told:])
			}
			if why := strings.Join(p.Refused()[told:], ""); !strings.Contains(why, tc.why) {
				t.Errorf("%s: %q", tc.name, why)
			}
		}
		if got := s.Flow("dump-flows", "--no-stats") + s.Flow("dump-groups"); got != before {
			t.Errorf("%s\nbefore\n%s", got, before)
		}
		k.send(TypeFlowMod, flowMod(TableACL, 0, 10, [][]byte{port(2)}, out))
		if got := k.refused(k.send(TypeFlowMod, flowMod(TableACL, 0, 10, [][]byte{port(3)}, out))); got != TableFull {
			t.Errorf("%+v", got)
		}
		k.send(TypeFlowMod, flowMod(TableACL, 4, 10, [][]byte{port(2)}))
		k.send(TypeFlowMod, flowMod(TableACL, 0, 10, [][]byte{port(3)}, out))
		k.barrier()
	})
}
