package oftest

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/csig-agent/csig/vendors/vendorstest/memory"
)

// Commands of ovs-ofctl, as far as tests use them, and flows as it prints them.

// Flow carries out add-flow, mod-flows, del-flows, dump-flows, add-group, mod-group or dump-groups.
// What it cannot read is a panic: the test has a mistake.
func (s *Memory) Flow(command string, args ...string) string {
	strict, text := false, ""
	for _, a := range args {
		switch a {
		case "--strict":
			strict = true
		case "--no-stats":
		default:
			text = a
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start()
	s.expire()
	refused, bad := Refusal{}, false
	switch command {
	case "add-flow":
		refused, bad = s.changeFlow(flowText(text, flowAdd))
	case "mod-flows":
		refused, bad = s.changeFlow(flowText(text, flowModify))
	case "del-flows":
		if strict {
			refused, bad = s.changeFlow(flowText(text, strictDelete))
		} else {
			refused, bad = s.changeFlow(flowText(text, flowDelete))
		}
	case "add-group":
		refused, bad = s.changeGroup(groupText(text, 0))
	case "mod-group":
		refused, bad = s.changeGroup(groupText(text, 1))
	case "dump-flows":
		return s.dumpFlows(text)
	case "dump-groups":
		return s.dumpGroups()
	default:
		panic("ovs-ofctl " + command)
	}
	if bad {
		panic(fmt.Sprintf("ovs-ofctl %s %s: refused: %+v", command, text, refused))
	}
	return ""
}

func (s *Memory) dumpFlows(text string) string {
	want, _, _ := s.readFlow(flowText(text, flowDelete))
	mask := order.Uint64(flowText(text, flowDelete)[8:])
	var lines []string
	for _, f := range s.list(want.Table, func(f *memoryFlow) bool {
		return (f.cookie^want.cookie)&mask == 0 && f.Match.Within(&want.Match)
	}) {
		lines = append(lines, f.text())
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func (s *Memory) dumpGroups() string {
	var lines []string
	for id, mod := range s.groups {
		line := fmt.Sprintf(" group_id=%d,type=%s", id, map[byte]string{0: "all", 2: "indirect"}[mod[2]])
		buckets, _ := records(mod[8:], 0, 16)
		for _, b := range buckets {
			actions, _, _ := readActions(b[16:])
			line += ",bucket=actions=" + strings.Join(actionsText(actions), ",")
		}
		lines = append(lines, line+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// Text is a message from csig: a change of a flow as dump-flows prints flows, any other by its bytes.
func (s *Memory) Text(m Message) string {
	body := m[headerLen:]
	if m.Type() == TypeFlowMod && len(body) >= flowModBody+8 && int(body[17]) < len(flowCommands) {
		if f, _, bad := s.readFlow(body); !bad {
			return flowCommands[body[17]] + strings.TrimSuffix(f.text(), "\n")
		}
	}
	return fmt.Sprintf("message %d: %x", m.Type(), body)
}

var flowCommands = [...]string{"add", "modify", "modify-strict", "delete", "delete-strict"}

// text is a flow as dump-flows --no-stats prints it.
func (f *memoryFlow) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, " cookie=%#x, ", f.cookie)
	if f.Table > 0 {
		fmt.Fprintf(&b, "table=%d, ", f.Table)
	}
	if idle := order.Uint16(f.timeouts[:]); idle > 0 {
		fmt.Fprintf(&b, "idle_timeout=%d, ", idle)
	}
	if hard := order.Uint16(f.timeouts[2:]); hard > 0 {
		fmt.Fprintf(&b, "hard_timeout=%d, ", hard)
	}
	fmt.Fprintf(&b, "priority=%d%s actions=", f.Priority, matchText(&f.Match))
	actions := actionsText(f.Apply)
	if f.Clear {
		actions = append(actions, "clear_actions")
	}
	if f.Write != nil {
		actions = append(actions, "write_actions("+strings.Join(actionsText(f.Write), ",")+")")
	}
	if f.Mask != 0 {
		actions = append(actions, fmt.Sprintf("write_metadata:%#x/%#x", f.Metadata, f.Mask))
	}
	if f.Goes {
		actions = append(actions, fmt.Sprintf("goto_table:%d", f.Goto))
	}
	if actions == nil {
		actions = []string{"drop"}
	}
	return b.String() + strings.Join(actions, ",") + "\n"
}

func matchText(m *memory.FlowMatch) string {
	var b strings.Builder
	masked := func(name string, f memory.FlowField, text func(v uint64) string) {
		switch v, mask := m.Field(f); {
		case mask == 0:
		case text(mask) == text(^uint64(0)):
			fmt.Fprintf(&b, ",%s=%s", name, text(v))
		default:
			fmt.Fprintf(&b, ",%s=%s/%s", name, text(v), text(mask))
		}
	}
	hex := func(v uint64) string { return fmt.Sprintf("%#x", v) }
	short := func(v uint64) string { return fmt.Sprintf("0x%04x", uint16(v)) }
	mac := func(v uint64) string { return net.HardwareAddr(order.AppendUint64(nil, v)[2:]).String() }
	masked("metadata", memory.FlowMetadata, hex)
	masked("in_port", memory.FlowInPort, func(v uint64) string { return fmt.Sprint(uint32(v)) })
	vid, vidMask := m.Field(memory.FlowVID)
	pcp, pcpMask := m.Field(memory.FlowPCP)
	if mask := vidMask | pcpMask<<13; mask == 0x1fff && vid != 0 {
		fmt.Fprintf(&b, ",dl_vlan=%d", vid&0xfff)
	} else if mask != 0 {
		fmt.Fprintf(&b, ",vlan_tci=%s/%s", short(vid|pcp<<13), short(mask))
	}
	masked("dl_src", memory.FlowEthSrc, mac)
	masked("dl_dst", memory.FlowEthDst, mac)
	masked("dl_type", memory.FlowEthType, short)
	if m.Never {
		b.WriteString(",other")
	}
	return b.String()
}

// names of ports that are none.
var reserved = map[string]uint32{"NORMAL": 0xfffffffa, "FLOOD": 0xfffffffb, "ALL": 0xfffffffc, "CONTROLLER": 0xfffffffd}

func actionsText(list []memory.FlowAction) (out []string) {
	for _, a := range list {
		switch a.Kind {
		case memory.FlowOutput:
			text := fmt.Sprintf("output:%d", a.Arg)
			for name, port := range reserved {
				if a.Arg == port {
					text = name
				}
			}
			out = append(out, text)
		case memory.FlowPop:
			out = append(out, "pop_vlan")
		case memory.FlowPush:
			out = append(out, fmt.Sprintf("push_vlan:0x%04x", a.Arg))
		case memory.FlowToGroup:
			out = append(out, fmt.Sprintf("group:%d", a.Arg))
		case memory.FlowSet:
			out = append(out, fmt.Sprintf("set_field:%d->%s", a.Value, map[memory.FlowField]string{memory.FlowVID: "vlan_vid", memory.FlowPCP: "vlan_pcp"}[a.Field]))
		default:
			out = append(out, "other")
		}
	}
	return out
}

// flowText is a flow of ovs-ofctl as the body of a flow_mod.
func flowText(text string, command byte) []byte {
	b := make([]byte, flowModBody)
	if b[17] = command; command >= flowDelete {
		b[16] = allTables
	}
	order.PutUint16(b[22:], 0x8000)
	for _, at := range []int{24, 28, 32} { // no buffer, any port, any group
		order.PutUint32(b[at:], 0xffffffff)
	}
	conditions, actions, _ := strings.Cut(text, "actions=")
	var fields []byte
	oxm := func(id byte, size int, value, mask uint64) {
		full := ^uint64(0) >> (64 - 8*size)
		if id == FieldVLANVID {
			full = 0x1fff
		}
		switch {
		case mask == 0:
		case mask&full == full:
			fields = append(append(fields, 0x80, 0, id<<1, byte(size)), order.AppendUint64(nil, value)[8-size:]...)
		default:
			fields = append(append(fields, 0x80, 0, id<<1|1, byte(2*size)), order.AppendUint64(nil, value)[8-size:]...)
			fields = append(fields, order.AppendUint64(nil, mask)[8-size:]...)
		}
	}
	for _, c := range strings.FieldsFunc(conditions, func(r rune) bool { return r == ',' || r == ' ' }) {
		name, text, _ := strings.Cut(c, "=")
		v, mask := maskedText(text)
		switch name {
		case "cookie":
			order.PutUint64(b, v)
			order.PutUint64(b[8:], mask)
			if command == flowAdd {
				order.PutUint64(b[8:], 0)
			}
		case "table":
			b[16] = byte(v)
		case "priority":
			order.PutUint16(b[22:], uint16(v))
		case "hard_timeout":
			order.PutUint16(b[20:], uint16(v))
		case "in_port":
			oxm(fieldInPort, 4, v, mask)
		case "metadata":
			oxm(FieldMetadata, 8, v, mask)
		case "dl_dst":
			oxm(fieldEthDst, 6, v, mask)
		case "dl_src":
			oxm(fieldEthSrc, 6, v, mask)
		case "dl_type":
			oxm(fieldEthType, 2, v, mask)
		case "dl_vlan":
			oxm(FieldVLANVID, 2, v|memory.FlowPresent, mask)
		case "vlan_vid":
			oxm(FieldVLANVID, 2, v, mask)
		case "vlan_tci":
			oxm(FieldVLANVID, 2, v&0x1fff, mask&0x1fff)
			if mask>>13&7 == 7 {
				oxm(FieldVLANPCP, 1, v>>13&7, ^uint64(0))
			}
		default:
			panic("ovs-ofctl: " + c)
		}
	}
	n := len(b)
	b = append(append(b, 0, 1, 0, byte(4+len(fields))), fields...)
	for (len(b)-n)%8 != 0 {
		b = append(b, 0)
	}
	return append(b, instructionsText(actions)...)
}

// maskedText is a number with a mask, which may be addresses.
func maskedText(text string) (v, mask uint64) {
	text, with, has := strings.Cut(text, "/")
	if v, mask = numberText(text), ^uint64(0); has {
		mask = numberText(with)
	}
	return v, mask
}

func numberText(text string) uint64 {
	if mac, err := net.ParseMAC(text); err == nil {
		return number(mac)
	}
	if text == "-1" {
		return ^uint64(0)
	}
	v, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		panic("ovs-ofctl: " + err.Error())
	}
	return v
}

// list splits a list at its commas, but for those within brackets.
func list(text string) (out []string) {
	depth := 0
	for _, part := range strings.SplitAfter(text, ",") {
		if part == "" {
			continue
		}
		if depth > 0 {
			out[len(out)-1] += part
		} else {
			out = append(out, part)
		}
		depth += strings.Count(part, "(") - strings.Count(part, ")")
	}
	for i := range out {
		out[i] = strings.TrimSuffix(out[i], ",")
	}
	return out
}

// instructionsText are the instructions of a flow.
func instructionsText(text string) (out []byte) {
	var apply, more []byte
	instruction := func(typ byte, body []byte) []byte {
		return append(order.AppendUint16([]byte{0, typ}, uint16(4+len(body))), body...)
	}
	for _, a := range list(text) {
		name, arg, _ := strings.Cut(a, ":")
		switch {
		case name == "goto_table":
			more = append(more, instruction(instGoto, []byte{byte(numberText(arg)), 0, 0, 0})...)
		case name == "write_metadata":
			v, mask := maskedText(arg)
			more = append(more, instruction(instMetadata, order.AppendUint64(order.AppendUint64(make([]byte, 4), v), mask))...)
		case name == "clear_actions":
			more = append(more, instruction(instClear, make([]byte, 4))...)
		case strings.HasPrefix(a, "write_actions("):
			inner := strings.TrimSuffix(strings.TrimPrefix(a, "write_actions("), ")")
			more = append(more, instruction(instWrite, append(make([]byte, 4), listText(inner)...))...)
		default:
			apply = append(apply, actionText(a)...)
		}
	}
	if apply != nil {
		out = instruction(instApply, append(make([]byte, 4), apply...))
	}
	return append(out, more...)
}

func listText(text string) (out []byte) {
	for _, a := range list(text) {
		out = append(out, actionText(a)...)
	}
	return out
}

func actionText(a string) []byte {
	name, arg, _ := strings.Cut(a, ":")
	output := func(port uint32) []byte {
		return append(order.AppendUint32([]byte{0, actOutput, 0, 16}, port), make([]byte, 8)...)
	}
	if port, is := reserved[name]; is {
		return output(port)
	}
	switch name {
	case "drop":
		return nil
	case "output":
		return output(uint32(numberText(arg)))
	case "pop_vlan":
		return []byte{0, actPopVLAN, 0, 8, 0, 0, 0, 0}
	case "push_vlan":
		return append(order.AppendUint16([]byte{0, actPushVLAN, 0, 8}, uint16(numberText(arg))), 0, 0)
	case "group":
		return order.AppendUint32([]byte{0, actGroup, 0, 8}, uint32(numberText(arg)))
	case "set_field":
		value, field, _ := strings.Cut(arg, "->")
		if field == "vlan_vid" {
			return append(order.AppendUint16([]byte{0, actSetField, 0, 16, 0x80, 0, FieldVLANVID << 1, 2}, uint16(numberText(value))), 0, 0, 0, 0, 0, 0)
		}
	case "resubmit(,10)": // an action of Nicira's
		return []byte{0xff, 0xff, 0, 16, 0, 0, 0x23, 0x20, 0, 14, 0xff, 0xf8, 10, 0, 0, 0}
	}
	panic("ovs-ofctl: action " + a)
}

// groupText is a group of ovs-ofctl as the body of a group_mod.
func groupText(text string, command uint16) []byte {
	head, rest, _ := strings.Cut(text, ",bucket=")
	b := append(order.AppendUint16(nil, command), 2, 0, 0, 0, 0, 0)
	for _, c := range strings.Split(head, ",") {
		switch name, value, _ := strings.Cut(c, "="); name {
		case "group_id":
			order.PutUint32(b[4:], uint32(numberText(value)))
		case "type":
			b[2] = map[string]byte{"all": 0, "indirect": 2}[value]
		}
	}
	for _, bucket := range strings.Split(rest, ",bucket=") {
		a := listText(strings.TrimPrefix(bucket, "actions="))
		b = append(order.AppendUint16(b, uint16(16+len(a))), 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0)
		b = append(b, a...)
	}
	return b
}
