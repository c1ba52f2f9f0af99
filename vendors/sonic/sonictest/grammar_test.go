package sonictest

import (
	"strings"
	"testing"
)

// TestGrammar: what the fake has to refuse, so that a driver that it takes
// everything from says it as P4Orch has it, or stricter.
func TestGrammar(t *testing.T) {
	const (
		defined = definitions + "ACL_X"
		good    = `ACL_X:{"match/out_port":"Ethernet0","match/vlan_id":"0x800&0x800","match/vlan_pri":"0x1&0x7","priority":11}`
	)
	definition := func(change ...string) map[string]string {
		row := map[string]string{
			"stage": "EGRESS", "priority": "5", "size": "2",
			"match/out_port": `{"format":"STRING","kind":"sai_field","sai_field":"SAI_ACL_TABLE_ATTR_FIELD_OUT_PORT"}`,
			"match/vlan_id":  `{"bitwidth":12,"format":"HEX_STRING","kind":"sai_field","sai_field":"SAI_ACL_TABLE_ATTR_FIELD_OUTER_VLAN_ID"}`,
			"match/vlan_pri": `{"bitwidth":3,"format":"HEX_STRING","kind":"sai_field","sai_field":"SAI_ACL_TABLE_ATTR_FIELD_OUTER_VLAN_PRI"}`,
			"action/set":     `[{"action":"SAI_ACL_ENTRY_ATTR_ACTION_SET_OUTER_VLAN_ID","param":"vlan_id"}]`,
		}
		for i := 0; i < len(change); i += 2 {
			if row[change[i]] = change[i+1]; change[i+1] == "-" {
				delete(row, change[i])
			}
		}
		return row
	}
	set := func(change ...string) map[string]string {
		row := map[string]string{"action": "set", "param/vlan_id": "0x385"}
		for i := 0; i < len(change); i += 2 {
			if row[change[i]] = change[i+1]; change[i+1] == "-" {
				delete(row, change[i])
			}
		}
		return row
	}
	in := func(from, to string) string { return strings.Replace(good, from, to, 1) }
	ports := map[string]bool{"Ethernet0": true}
	a := &asic{tables: map[string]*table{}, full: 100, db: &asicDB{do: func(int, string, ...any) (any, error) { return nil, nil }}}
	for _, row := range []struct {
		name, key string
		row       map[string]string
		status    string
	}{
		{"an entry before its table", good, set(), invalid},
		{"a table of another stage", defined, definition("stage", "INGRESS"), invalid},
		{"a negative priority", defined, definition("priority", "-1"), invalid},
		{"a size with more behind it", defined, definition("size", "2x"), invalid},
		{"no size", defined, definition("size", "-"), invalid},
		{"an unknown field", defined, definition("meter/unit", "BYTES"), invalid},
		{"a match without a width", defined, definition("match/vlan_id", `{"format":"HEX_STRING","kind":"sai_field","sai_field":"SAI_ACL_TABLE_ATTR_FIELD_OUTER_VLAN_ID"}`), invalid},
		{"a match of another format", defined, definition("match/vlan_id", `{"bitwidth":12,"format":"STRING","kind":"sai_field","sai_field":"SAI_ACL_TABLE_ATTR_FIELD_OUTER_VLAN_ID"}`), invalid},
		{"a match of another kind", defined, definition("match/vlan_id", `{"bitwidth":12,"format":"HEX_STRING","kind":"udf","sai_field":"SAI_ACL_TABLE_ATTR_FIELD_OUTER_VLAN_ID"}`), invalid},
		{"a field twice", defined, definition("match/vid", `{"bitwidth":12,"format":"HEX_STRING","kind":"sai_field","sai_field":"SAI_ACL_TABLE_ATTR_FIELD_OUTER_VLAN_ID"}`), invalid},
		{"an action without a parameter", defined, definition("action/set", `[{"action":"SAI_ACL_ENTRY_ATTR_ACTION_SET_OUTER_VLAN_ID"}]`), invalid},
		{"the table", defined, definition(), success},
		{"the table again", defined, definition(), unimplemented},

		{"no JSON", "ACL_X:x", set(), invalid},
		{"no object", "ACL_X:[]", set(), invalid},
		{"more behind the key", good + "x", set(), invalid},
		{"no priority", in(`,"priority":11`, ""), set(), invalid},
		{"priority 0", in(":11", ":0"), set(), invalid},
		{"a negative priority", in(":11", ":-1"), set(), invalid},
		{"a priority of 33 bits", in(":11", ":4294967296"), set(), invalid},
		{"a priority that is text", in(":11", `:"11"`), set(), invalid},
		{"a match that is none", in("match/vlan_pri", "match/vlan_cfi"), set(), invalid},
		{"a match without its word", in("match/vlan_pri", "vlan_pri"), set(), invalid},
		{"a match that is a number", in(`"0x1&0x7"`, "1"), set(), invalid},
		{"no mask", in("0x800&0x800", "0x800"), set(), invalid},
		{"a mask of nothing", in("0x800&0x800", "0x000&0x000"), set(), invalid},
		{"a value beyond its mask", in("0x800&0x800", "0x900&0x800"), set(), invalid},
		{"too few digits", in("0x800&0x800", "0x80&0x80"), set(), invalid},
		{"too many digits", in("0x800&0x800", "0x0800&0x0800"), set(), invalid},
		{"upper case", in("0x800&0x800", "0xF00&0xF00"), set(), invalid},
		{"decimal", in("0x1&0x7", "1&7"), set(), invalid},
		{"more than 3 bits", in("0x1&0x7", "0x8&0x8"), set(), invalid},
		{"spaces", in("0x1&0x7", "0x1 & 0x7"), set(), invalid},
		{"no such port", in("Ethernet0", "Ethernet4"), set(), notFound},
		{"an aggregate", in("Ethernet0", "PortChannel1"), set(), notFound},
		{"no action", good, set("action", "-"), invalid},
		{"another action", good, set("action", "drop"), invalid},
		{"no parameter", good, set("param/vlan_id", "-"), invalid},
		{"an empty parameter", good, set("param/vlan_id", ""), invalid},
		{"another parameter", good, set("param/x", "0x1"), invalid},
		{"VID 0", good, set("param/vlan_id", "0x000"), invalid},
		{"VID 4095", good, set("param/vlan_id", "0xfff"), invalid},
		{"a meter", good, set("meter/cir", "1"), invalid},
		{"the entry is not there", good, nil, notFound},

		{"the entry", good, set(), success},
		{"another value", good, set("param/vlan_id", "0x7ff"), success},
		{"the same match with another priority", in(":11", ":12"), set(), invalid},
		{"an overlap with the same priority", in("0x800&0x800", "0x400&0x400"), set(), invalid},
		{"an overlap with another priority", strings.Replace(in("0x800&0x800", "0x400&0x400"), ":11", ":12", 1), set(), success},
		{"a full table", in("0x1&0x7", "0x2&0x7"), set(), full},
		{"a table with entries goes", defined, nil, invalid},
		{"the entry goes, in other JSON", `ACL_X:{"priority": 11, "match/vlan_pri": "0x1&0x7", "match/vlan_id": "0x800&0x800", "match/out_port": "Ethernet0"}`, nil, success},
		{"and the other", strings.Replace(in("0x800&0x800", "0x400&0x400"), ":11", ":12", 1), nil, success},
		{"the table goes", defined, nil, success},
		{"which is not there", defined, nil, notFound},
	} {
		a.mu.Lock()
		status, why := a.process(row.key, row.row, ports)
		a.mu.Unlock()
		if status != row.status || (status == success) != (why == "") {
			t.Errorf("%s: %s (%s), want %s", row.name, status, why, row.status)
		}
	}
	if a.entries != 0 || len(a.tables) != 0 {
		t.Errorf("%d entries, %d tables left", a.entries, len(a.tables))
	}
}
