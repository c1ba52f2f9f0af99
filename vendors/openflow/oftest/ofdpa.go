package oftest

import (
	"bytes"
	"fmt"
	"slices"
)

// OFDPA is a switch of OF-DPA 2.02: it takes what the grammar has, refuses all else,
// and has the bridge behind it carry out the rest. Its agent for OpenFlow refuses
// with few codes (floodlight/indigo, modules/OFStateManager, flow_mod_err_msg_send;
// Broadcom-Switch/of-dpa, src/ofagent/ofdpadriver).
//
//   - A flow that is there already, or overlaps one of its priority, is refused
//     (src/include/ofdpa_api.h, ofdpaFlowAdd).
//   - A group is modified by deleting its buckets and adding others: frames are
//     lost in between (ind_ofdpa_groups.c, ind_ofdpa_translate_group_buckets).
//   - A group that is deleted takes its flows with it; one that a group refers to
//     stays.
type OFDPA struct {
	Size int // of Policy ACL, in flows; 0: not limited
}

// Refusals of OF-DPA's agent.
var (
	NotPermitted = Refusal{5, 4} // OFPFMFC_EPERM, its word for most
	groupExists  = Refusal{6, 0}
	invalidGroup = Refusal{6, 1}
	unknownGroup = Refusal{6, 8}
	chainedGroup = Refusal{6, 9}
)

// Refused are the reasons of what the fake refused, for tests that fail.
func (p *Proxy) Refused() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.refused)
}

func (p *Proxy) refuse(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.refused) < maxHeld {
		p.refused = append(p.refused, fmt.Sprintf(format, args...))
	}
}

// ofdpa has the switch carry out a change as OF-DPA does.
func (s *session) ofdpa(f *Faults, m Message) error {
	refusal, why, err := Refusal{}, "", error(nil)
	switch m.Type() {
	case TypeFlowMod:
		refusal, why, err = s.ofdpaFlow(m)
	case TypeGroupMod:
		return s.ofdpaGroup(f, m)
	default:
		refusal, why = BadType, "it has no such change"
	}
	if err != nil {
		return err
	}
	if why != "" {
		s.p.refuse("%s", why)
		return s.send(controller, refusal.of(m))
	}
	return s.carryOut(f, m)
}

// flowsOf is what the switch has in a table: its flows, as they are in statistics.
func (s *session) flowsOf(table uint8) (out [][]byte, err error) {
	body := append([]byte{table, 0, 0, 0}, bytes.Repeat([]byte{0xff}, 8)...)
	parts, err := s.ask(partFlow, append(append(body, make([]byte, 20)...), 0, 1, 0, 4, 0, 0, 0, 0))
	for _, m := range parts {
		all, _ := records(m[headerLen+8:], 0, 56)
		out = append(out, all...)
	}
	return out, err
}

// groupsOf are the groups of the switch.
func (s *session) groupsOf() (map[uint32][][]byte, error) {
	parts, err := s.ask(partGroupDesc, nil)
	out := map[uint32][][]byte{}
	for _, m := range parts {
		all, _ := records(m[headerLen+8:], 0, 8)
		for _, g := range all {
			out[order.Uint32(g[4:])], _ = records(g[8:], 0, 16)
		}
	}
	return out, err
}

// ask asks the switch, and waits for the answer.
func (s *session) ask(part uint16, body []byte) ([]Message, error) {
	return s.await(message(TypeMultipartReq, s.newXID(), append(append(order.AppendUint16(nil, part), 0, 0, 0, 0, 0, 0), body...)), s.answers())
}

func (s *session) ofdpaFlow(m Message) (Refusal, string, error) {
	table, command, priority := m[24], m[25], order.Uint16(m[30:])
	if command >= 3 { // deletes
		if _, known := grammar[table]; !known && table != 0xff {
			return NotPermitted, fmt.Sprintf("there is no table %d", table), nil
		}
		return Refusal{}, "", nil
	}
	in, rest, ok := match(m[48:])
	instructions, ok2 := records(rest, 2, 8)
	types, known := grammar[table]
	switch {
	case !ok || !ok2:
		return badMatchType, "malformed", nil
	case !known:
		return NotPermitted, fmt.Sprintf("there is no table %d", table), nil
	case priority == 0:
		return NotPermitted, "flows of priority 0 are built in", nil
	}
	whys := ""
	for i := range types {
		why := types[i].takes(in, instructions)
		if why == "" {
			whys = ""
			break
		}
		whys += fmt.Sprintf("table %d, %s: %s. ", table, types[i].name, why)
	}
	if whys != "" || command != 0 {
		return NotPermitted, whys, nil
	}
	have, err := s.flowsOf(table)
	if err != nil {
		return Refusal{}, "", err
	}
	if table == TableACL && s.p.o.OFDPA.Size > 0 && len(have)-1 >= s.p.o.OFDPA.Size { // one is built in
		return TableFull, "Policy ACL is full", nil
	}
	for _, h := range have {
		if order.Uint16(h[12:]) != priority {
			continue
		}
		if other, _, ok := match(h[48:]); ok && overlaps(in, other) {
			return NotPermitted, fmt.Sprintf("a flow of table %d and priority %d overlaps one that is there", table, priority), nil
		}
	}
	return Refusal{}, "", nil
}

// overlaps reports whether a frame can meet both matches, as far as single fields
// tell.
func overlaps(a, b []field) bool {
	for _, x := range a {
		for _, y := range b {
			if x.class == y.class && x.id == y.id && !x.meets(y) {
				return false
			}
		}
	}
	return true
}

// bits are a field's value and mask.
func (f field) bits() (value, mask []byte) {
	if n := len(f.value) / 2; f.masked {
		return f.value[:n], f.value[n:]
	}
	return f.value, bytes.Repeat([]byte{0xff}, len(f.value))
}

func (f field) meets(o field) bool {
	v1, m1 := f.bits()
	v2, m2 := o.bits()
	for i := range min(len(v1), len(v2)) {
		if (v1[i]^v2[i])&m1[i]&m2[i] != 0 {
			return false
		}
	}
	return true
}

func (s *session) ofdpaGroup(f *Faults, m Message) error {
	id, command := order.Uint32(m[12:]), order.Uint16(m[8:])
	buckets, _ := records(m[16:], 0, 16)
	have, err := s.groupsOf()
	if err != nil {
		return err
	}
	_, there := have[id]
	refuse := func(r Refusal, why string) error {
		s.p.refuse("group %08x: %s", id, why)
		return s.send(controller, r.of(m))
	}
	if command == 2 {
		for other, b := range have {
			if other != id && slices.Contains(refs(b), id) {
				return refuse(chainedGroup, fmt.Sprintf("group %08x refers to it", other))
			}
		}
		return s.carryOut(f, m)
	}
	m, buckets = plainBuckets(m, buckets)
	if why := groupContent(id, m[10], buckets); why != "" {
		return refuse(invalidGroup, why)
	}
	for _, r := range refs(buckets) {
		if _, ok := have[r]; !ok {
			return refuse(unknownGroup, fmt.Sprintf("it refers to group %08x, which is not there", r))
		}
	}
	switch {
	case command == 0 && there:
		return refuse(groupExists, "it is there")
	case command == 1 && !there:
		return refuse(unknownGroup, "it is not there")
	case command == 1: // its buckets go first
		empty := append(slices.Clone(m[:16]), 0, 16, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0)
		order.PutUint16(empty[2:], uint16(len(empty)))
		if err := s.carryOut(f, empty); err != nil {
			return err
		}
	}
	return s.carryOut(f, m)
}

// plainBuckets leaves OF-DPA's own field ALLOW_VLAN_TRANSLATION out of a group,
// which Open vSwitch does not have.
func plainBuckets(m Message, buckets [][]byte) (Message, [][]byte) {
	out, plain := slices.Clone(m[:16]), [][]byte(nil)
	for _, b := range buckets {
		actions, ok := records(b[16:], 2, 8)
		kept := slices.Clone(b[:16])
		for _, a := range actions {
			if order.Uint16(a) != 25 || order.Uint16(a[4:]) != 0xffff || len(a) < 16 || order.Uint32(a[8:]) != 0x1018 {
				kept = append(kept, a...)
			}
		}
		if !ok {
			kept = b
		}
		order.PutUint16(kept, uint16(len(kept)))
		plain, out = append(plain, kept), append(out, kept...)
	}
	order.PutUint16(out[2:], uint16(len(out)))
	return out, plain
}
