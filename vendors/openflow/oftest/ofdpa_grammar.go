package oftest

import (
	"bytes"
	"fmt"
	"slices"
)

// What OF-DPA 2.02 takes, of the tables that bridge frames: flow types, their
// conditions and instructions, and groups are those of its table type pattern
// (Broadcom-Switch/of-dpa, ofdpa-2.02-15-jun-2016.json, flow_tables and
// group_entry_types). Routing, MPLS, OAM, overlays, meters and egress tables are
// refused as what is unknown is: tests of csig have no use for them.

// The tables.
const (
	TableIngressPort = 0
	TableVLAN        = 10
	TableTermination = 20
	TableBridging    = 50
	TableACL         = 60
)

// Types of groups, in the four highest bits of their IDs.
const (
	groupL2Interface  = 0
	groupL2Rewrite    = 1
	groupL2Multicast  = 3
	groupL2Flood      = 4
	groupL2Unfiltered = 11
)

// how is in which way a flow type takes a field.
type how uint8

const (
	exact      how = iota // needed, without a mask
	allOrExact            // without a mask, or left out
	masked                // with any mask, or left out
)

// condition is what a flow type wants of a field.
type condition struct {
	how   how
	value []byte // that it must have; nil: any
	mask  []byte // that it must have beside the value
	not   []byte // a value that it must not have
}

// flowType is a way in which a flow of a table can look.
type flowType struct {
	name  string
	match map[uint8]condition
	next  []uint8 // tables of goto_table, one of which it needs; none: it has none
	clear bool    // it may have clear_actions
	write []uint8 // types of groups of which it may write one
	sets  []uint8 // fields that write_actions may set
	apply []uint8 // fields that apply_actions may set; pushes and pops with VLAN_VID among them
}

// Fields of OXM that OF-DPA's tables name.
const (
	fieldInPort  = 0
	fieldEthDst  = 3
	fieldEthSrc  = 4
	fieldEthType = 5
	fieldDSCP    = 8
	fieldECN     = 9
	fieldProto   = 10
	fieldTunnel  = 38
)

var present = []byte{0x10, 0x00} // OFPVID_PRESENT

// acl is what Policy ACL takes of both kinds of frames.
func acl(more map[uint8]condition) map[uint8]condition {
	m := map[uint8]condition{
		fieldInPort: {how: allOrExact}, fieldEthSrc: {how: masked}, fieldEthDst: {how: masked}, FieldVLANVID: {how: masked}, FieldVLANPCP: {how: allOrExact},
		fieldProto: {how: allOrExact}, fieldDSCP: {how: allOrExact}, fieldECN: {how: allOrExact},
	}
	for port := uint8(13); port <= 18; port++ { // TCP, UDP and SCTP
		m[port] = condition{how: allOrExact}
	}
	for f, c := range more {
		m[f] = c
	}
	return m
}

var grammar = map[uint8][]flowType{
	TableIngressPort: {
		{name: "Normal Ethernet", match: map[uint8]condition{fieldInPort: {how: allOrExact}, fieldTunnel: {how: allOrExact, value: make([]byte, 8)}}, next: []uint8{TableVLAN}},
	},
	TableVLAN: {
		{name: "VLAN Filtering", match: map[uint8]condition{fieldInPort: {how: exact}, FieldVLANVID: {how: exact}}, next: []uint8{TableTermination}, apply: []uint8{FieldVLANVID}},
		{name: "VLAN Allow All", match: map[uint8]condition{fieldInPort: {how: exact}, FieldVLANVID: {how: masked, value: present, mask: present}}, next: []uint8{TableTermination}},
	},
	TableBridging: {
		{name: "Unicast or Multicast VLAN", match: map[uint8]condition{fieldEthDst: {how: exact}, FieldVLANVID: {how: exact}}, next: []uint8{TableACL}, write: []uint8{groupL2Interface, groupL2Multicast}},
		{name: "DLF VLAN", match: map[uint8]condition{FieldVLANVID: {how: exact}}, next: []uint8{TableACL}, write: []uint8{groupL2Flood}},
	},
	TableACL: {
		{
			name: "IPv6 VLAN", match: acl(map[uint8]condition{fieldEthType: {how: exact, value: []byte{0x86, 0xdd}}, 26: {how: masked}, 27: {how: masked}, 28: {how: allOrExact}, 29: {how: allOrExact}, 30: {how: allOrExact}}),
			clear: true, write: []uint8{groupL2Interface, groupL2Unfiltered, groupL2Rewrite, groupL2Multicast}, sets: []uint8{fieldDSCP, fieldECN, FieldVLANPCP},
		},
		{
			name: "IPv4 VLAN", match: acl(map[uint8]condition{fieldEthType: {how: allOrExact, not: []byte{0x86, 0xdd}}, 11: {how: masked}, 12: {how: masked}, 19: {how: allOrExact}, 20: {how: allOrExact}, 22: {how: masked}}),
			clear: true, write: []uint8{groupL2Interface, groupL2Unfiltered, groupL2Rewrite, groupL2Multicast}, sets: []uint8{fieldDSCP, fieldECN, FieldVLANPCP},
		},
	},
}

// takes is "" where a flow is one of the type, and else why not.
func (ft *flowType) takes(in []field, instructions [][]byte) string {
	for _, f := range in {
		c, known := ft.match[f.id]
		n := len(f.value)
		value, mask := f.value, []byte(nil)
		if f.masked {
			value, mask = f.value[:n/2], f.value[n/2:]
		}
		switch {
		case !known:
			return fmt.Sprintf("it does not match field %d", f.id)
		case f.masked && c.how != masked:
			return fmt.Sprintf("it has no mask of field %d", f.id)
		case c.value != nil && !bytes.Equal(value, c.value) || c.mask != nil && !bytes.Equal(mask, c.mask):
			return fmt.Sprintf("field %d can only be %x", f.id, c.value)
		case c.not != nil && bytes.Equal(value, c.not):
			return fmt.Sprintf("field %d cannot be %x", f.id, c.not)
		case f.id == FieldVLANVID && mask != nil && (mask[0]&0x10 == 0 || value[0]&0x10 == 0):
			return "a VID has OFPVID_PRESENT, in its mask, too"
		}
	}
	for id, c := range ft.match {
		if (c.how == exact || c.mask != nil) && !slices.ContainsFunc(in, func(f field) bool { return f.id == id }) {
			return fmt.Sprintf("it needs field %d", id)
		}
	}
	goes := false
	for _, i := range instructions {
		switch typ := order.Uint16(i); typ {
		case 1: // goto_table
			if !slices.Contains(ft.next, i[4]) {
				return fmt.Sprintf("it does not go to table %d", i[4])
			}
			goes = true
		case 3, 4: // write_actions, apply_actions
			sets := ft.apply
			if typ == 3 {
				sets = ft.sets
			}
			if why := ft.actions(i[8:], typ == 3, sets); why != "" {
				return why
			}
		case 5:
			if !ft.clear {
				return "it has no clear_actions"
			}
		default:
			return fmt.Sprintf("it has no instruction %d", typ)
		}
	}
	if !goes && ft.next != nil {
		return fmt.Sprintf("it goes to table %d", ft.next[0])
	}
	return ""
}

func (ft *flowType) actions(b []byte, write bool, sets []uint8) string {
	all, ok := records(b, 2, 8)
	groups := 0
	for _, a := range all {
		switch typ := order.Uint16(a); {
		case typ == 22 && write: // group
			if groups++; !slices.Contains(ft.write, uint8(order.Uint32(a[4:])>>28)) {
				return fmt.Sprintf("it does not write group %08x", order.Uint32(a[4:]))
			}
		case typ == 25 && slices.Contains(sets, a[6]>>1): // set_field
		case typ == 17 && !write && slices.Contains(sets, FieldVLANVID): // push_vlan
		case typ == 0 && !write && order.Uint32(a[4:]) == 0xfffffffd: // to the controller
		default:
			return fmt.Sprintf("it has no action %d here", typ)
		}
	}
	if !ok || groups > 1 {
		return "it writes one group"
	}
	return ""
}

// refs are the groups that buckets refer to.
func refs(buckets [][]byte) (out []uint32) {
	for _, b := range buckets {
		actions, _ := records(b[16:], 2, 8)
		for _, a := range actions {
			if order.Uint16(a) == 22 {
				out = append(out, order.Uint32(a[4:]))
			}
		}
	}
	return out
}

// groupContent is "" where buckets are those of the group's type, and else why not.
func groupContent(id uint32, kind uint8, buckets [][]byte) string {
	typ := uint8(id >> 28)
	if !slices.Contains([]uint8{groupL2Interface, groupL2Rewrite, groupL2Multicast, groupL2Flood, groupL2Unfiltered}, typ) {
		return "there is no such type of group"
	}
	if all := typ == groupL2Multicast || typ == groupL2Flood; all && kind != 0 || !all && (kind != 2 || len(buckets) != 1) {
		return "this type of group has another kind, or another number of buckets"
	}
	if typ == groupL2Unfiltered && id>>16&0xfff != 0 {
		return "an L2 Unfiltered Interface has no VLAN"
	}
	for _, b := range buckets {
		actions, ok := records(b[16:], 2, 8)
		outputs, groups := 0, 0
		for _, a := range actions {
			switch t := order.Uint16(a); {
			case t == 0 && (typ == groupL2Interface || typ == groupL2Unfiltered):
				if outputs++; order.Uint32(a[4:]) != id&0xffff {
					return "its port is not the one of its ID"
				}
			case t == 18 && typ == groupL2Interface: // pop_vlan
			case t == 25 && typ == groupL2Rewrite && a[6]>>1 == FieldVLANVID:
				if vid := order.Uint16(a[8:]); vid&0x1000 == 0 || vid == 0x1000 {
					return "a VID is 1 to 4095, with OFPVID_PRESENT"
				}
			case t == 25 && typ == groupL2Rewrite && (a[6]>>1 == fieldEthDst || a[6]>>1 == fieldEthSrc):
			case t == 22 && typ != groupL2Interface && typ != groupL2Unfiltered:
				to := order.Uint32(a[4:]) >> 28
				if groups++; to != groupL2Interface && (typ != groupL2Rewrite || to != groupL2Unfiltered) {
					return "it does not refer to that type of group"
				}
			default:
				return fmt.Sprintf("it has no action %d", t)
			}
		}
		if !ok || outputs+groups != 1 {
			return "it outputs once"
		}
	}
	return ""
}
