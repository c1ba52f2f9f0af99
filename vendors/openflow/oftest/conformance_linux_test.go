package oftest

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestMemoryIsASwitch has the switch in memory and a real Open vSwitch take the same changes, refuse
// the same, show the same, and forward the same frames.
func TestMemoryIsASwitch(t *testing.T) {
	t.Parallel()
	benches := []Bench{&Memory{Ports: []string{"p1", "p2", "p3"}, Tables: 254}, StartSwitch(t, 3)}
	var talkers []*talker
	for _, b := range benches {
		c, err := b.Dial(t.Context())
		talkers = append(talkers, talk(t, c, err))
		b.Flow("add-flow", "priority=65535,dl_dst=02:00:00:00:00:ff,actions=output:2,output:3") // see forwards
	}
	cookie := func(b []byte, cookie, mask uint64) []byte {
		order.PutUint64(b, cookie)
		order.PutUint64(b[8:], mask)
		return b
	}
	hard := func(b []byte, seconds uint16) []byte { order.PutUint16(b[20:], seconds); return b }
	out := func(port uint32) []byte { return instruction(4, output(port)) }
	metadata := []byte{0, 2, 0, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0x0f, 0xff}
	isMetadata := oxm(FieldMetadata, true, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0x0f, 0xff)
	vlan := func(v uint16) [][]byte { return [][]byte{port(1), vid(v)} }
	for _, tc := range []struct {
		name string
		typ  uint8
		body []byte
	}{
		{"a flow", TypeFlowMod, cookie(flowMod(0, 0, 10, vlan(5), out(2)), 0xa1, 0)},
		{"it again, with other actions", TypeFlowMod, cookie(flowMod(0, 0, 10, vlan(5), out(3)), 0xa2, 0)},
		{"one of a lower priority", TypeFlowMod, cookie(flowMod(0, 0, 9, [][]byte{port(1), vids(0, 0)}, out(2)), 0xa1, 0)},
		{"one that sets the VID", TypeFlowMod, cookie(flowMod(0, 0, 11, [][]byte{port(1), vids(0x100, 0x100), oxm(FieldVLANPCP, false, 1)}, instruction(4, setVID(7), output(2))), 0xb1, 0)},
		{"one that goes on", TypeFlowMod, flowMod(0, 0, 12, vlan(6), metadata, goesTo(3))},
		{"the next table", TypeFlowMod, hard(flowMod(3, 0, 1, [][]byte{isMetadata, vid(6)}, instruction(4, []byte{0, 18, 0, 8, 0, 0, 0, 0}, output(3))), 600)},
		{"a goto backwards", TypeFlowMod, flowMod(3, 0, 1, vlan(6), goesTo(3))},
		{"a group that is not there", TypeFlowMod, flowMod(0, 0, 20, vlan(8), instruction(4, group(9)))},
		{"a group", TypeGroupMod, groupMod(0, 2, 9, slices.Concat(setVID(0x99), output(2)))},
		{"a group that is there", TypeGroupMod, groupMod(0, 2, 9, output(2))},
		{"a group that is not", TypeGroupMod, groupMod(1, 2, 8, output(2))},
		{"a flow of the group", TypeFlowMod, flowMod(0, 0, 20, vlan(8), instruction(3, group(9)))},
		{"a group of all", TypeGroupMod, groupMod(0, 0, 10, output(2), slices.Concat(setVID(0x77), output(3)))},
		{"a flow of it", TypeFlowMod, flowMod(0, 0, 20, vlan(9), instruction(4, group(10)))},
		{"back to where it came from", TypeFlowMod, flowMod(0, 0, 20, vlan(10), out(1))},
		{"clear_actions", TypeFlowMod, flowMod(3, 0, 0, nil, instruction(5))},
		{"a written output that is cleared", TypeFlowMod, flowMod(0, 0, 20, vlan(11), instruction(3, output(2)), goesTo(3))},
		{"the group's buckets", TypeGroupMod, groupMod(1, 2, 9, slices.Concat(setVID(0x98), output(3)))},
		{"a change of one that is not there", TypeFlowMod, flowMod(0, 2, 77, vlan(5), out(2))},
		{"a change of one", TypeFlowMod, flowMod(0, 2, 10, vlan(5), out(2))},
		{"a change of those of a cookie", TypeFlowMod, cookie(flowMod(0, 1, 0, nil, out(3)), 0xb0, 0xf0)},
		{"one deleted whose cookie differs", TypeFlowMod, cookie(flowMod(0, 4, 9, [][]byte{port(1), vids(0, 0)}), 0xb0, 0xf0)},
		{"those deleted that are within a match", TypeFlowMod, flowMod(0, 3, 0, [][]byte{vids(8, 0x0ff)})},
		{"a table full of flows", TypeFlowMod, flowMod(7, 0, 1, vlan(1), out(2))},
		{"one more", TypeFlowMod, flowMod(7, 0, 1, vlan(2), out(2))},
		{"it in place of the other", TypeFlowMod, flowMod(7, 0, 1, vlan(1), out(3))},
		{"a group that is deleted, with its flow", TypeGroupMod, groupMod(2, 0, 10)},
		{"those of a cookie, of all tables", TypeFlowMod, cookie(flowMod(0xff, 3, 0, nil), 0xa0, 0xf0)},
		// Open vSwitch carries out the action set of a frame that meets no flow in a later table, which
		// OpenFlow 1.3 drops (1.3.5 §5.4).
		{"one deleted", TypeFlowMod, flowMod(0, 4, 20, vlan(11))},
		{"all of a table", TypeFlowMod, flowMod(3, 3, 0, nil)},
	} {
		var refused, shown, frames []string
		for i, b := range benches {
			b.Limit(7, 1)
			k := talkers[i]
			xid := k.send(tc.typ, tc.body)
			barrier := k.send(TypeBarrierReq, nil)
			m := k.next()
			said := "taken"
			if m.Type() == TypeError && m.XID() == xid {
				said, m = hex.EncodeToString(m[8:12]), k.next()
			}
			if m.Type() != TypeBarrierRep || m.XID() != barrier {
				t.Fatalf("%s: %x in place of the answer to the barrier", tc.name, m)
			}
			refused, shown = append(refused, said), append(shown, k.flows()+k.groups())
			b.Settled()
			frames = append(frames, forwards(b))
		}
		for _, what := range []struct {
			name string
			of   []string
		}{{"refused", refused}, {"flows and groups", shown}, {"frames", frames}} {
			if memory, real := what.of[0], what.of[1]; memory != real {
				t.Errorf("%s: %s: in memory\n%sOpen vSwitch\n%s", tc.name, what.name, less(memory, real), less(real, memory))
			}
		}
	}
}

// less are the lines of a text that another one does not have.
func less(text, other string) (out string) {
	for line := range strings.Lines(text + "\n") {
		if !strings.Contains(other, line) {
			out += line
		}
	}
	return out
}

// forwards is what becomes of frames with several tags, and of one without. One that leaves by all
// ports comes last.
func forwards(b Bench) string {
	for _, tci := range []uint16{5, 6, 8, 9, 10, 11, 0x2105, 0x2005, 0x6105, 0x0105, 0x2fff} {
		b.Send(1, tagged(tci))
	}
	plain := slices.Concat(tagged(0)[:12], []byte{8, 0}, make([]byte, 50))
	last := slices.Clone(plain)
	last[5] = 0xff
	b.Send(1, plain, last)
	var out strings.Builder
	for p := 2; p <= 3; p++ {
		var got []string
		for f := b.Receive(p); f != nil && f[5] != 0xff; f = b.Receive(p) {
			got = append(got, hex.EncodeToString(bytes.TrimRight(f[12:], "\x00")))
		}
		slices.Sort(got)
		fmt.Fprintf(&out, "port %d: %q\n", p, got)
	}
	return out.String()
}

// flows are those that the switch shows, in any order, without their ages and counters.
func (k *talker) flows() string {
	var lines []string
	for _, m := range k.part(partFlow, slices.Concat([]byte{0xff, 0, 0, 0}, bytes.Repeat([]byte{0xff}, 8), make([]byte, 20), []byte{0, 1, 0, 4, 0, 0, 0, 0})) {
		all, _ := records(m[headerLen+8:], 0, 56)
		for _, f := range all {
			in, rest, _ := match(f[48:])
			var fields []string
			for _, x := range in {
				fields = append(fields, fmt.Sprintf("%d=%x", x.id, x.value))
			}
			slices.Sort(fields)
			list, _ := records(rest, 2, 8)
			var does []string
			for _, i := range list {
				does = append(does, hex.EncodeToString(i))
			}
			slices.Sort(does)
			lines = append(lines, fmt.Sprintf("table %d priority %d cookie %x timeouts %x: %q %q\n", f[2], order.Uint16(f[12:]), f[24:32], f[14:18], fields, does))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func (k *talker) groups() string {
	var lines []string
	for _, m := range k.part(partGroupDesc, nil) {
		all, _ := records(m[headerLen+8:], 0, 8)
		for _, g := range all {
			buckets, _ := records(g[8:], 0, 16)
			line := fmt.Sprintf("group %x of type %d:", g[4:8], g[2])
			for _, b := range buckets {
				line += fmt.Sprintf(" %x", b[16:])
			}
			lines = append(lines, line+"\n")
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}
