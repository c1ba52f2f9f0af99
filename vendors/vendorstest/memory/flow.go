package memory

import (
	"encoding/binary"
	"slices"
)

// Flows are the tables and groups of an OpenFlow 1.3 switch, for a Pipeline: flows of several
// tables by their priorities, an action set, metadata, groups. They are data, and no functions as
// those of a Table: what a controller wrote is read back, compared, and has timers.
type Flows struct {
	tables [256]flowTable
	groups map[uint32]FlowGroup
}

type flowTable struct {
	flows  []*Flow
	sorted bool
}

// FlowMatch is a condition on a frame: its bits of Mask are those of Value. Two that are equal take
// the same frames.
type FlowMatch struct {
	Value, Mask FlowKey
	Never       bool // it wants a field that no frame of this switch has
}

// FlowKey are the fields of a frame: see SetFlowField.
type FlowKey [5]uint64

// FlowField is a field that flows match, by its number in OXM (OpenFlow 1.3.5 §7.2.3.7).
type FlowField uint8

// The fields that a frame has here.
const (
	FlowInPort   FlowField = 0
	FlowMetadata FlowField = 2
	FlowEthDst   FlowField = 3
	FlowEthSrc   FlowField = 4
	FlowEthType  FlowField = 5 // of what follows the tags
	FlowVID      FlowField = 6 // of the outermost tag, with FlowPresent
	FlowPCP      FlowField = 7 // of the outermost tag
	FlowIPv4Src  FlowField = 11
	FlowIPv4Dst  FlowField = 12
)

// FlowPresent is the bit of a VID that says that there is a tag.
const FlowPresent = 0x1000

// place is where a field is in a FlowKey.
func (f FlowField) place() (word, shift int, bits uint64, ok bool) {
	switch f {
	case FlowInPort:
		return 0, 32, 1<<32 - 1, true
	case FlowVID:
		return 0, 8, 1<<13 - 1, true
	case FlowPCP:
		return 0, 0, 7, true
	case FlowMetadata:
		return 1, 0, 1<<64 - 1, true
	case FlowEthDst:
		return 2, 16, 1<<48 - 1, true
	case FlowEthType:
		return 2, 0, 1<<16 - 1, true
	case FlowEthSrc:
		return 3, 0, 1<<48 - 1, true
	case FlowIPv4Src:
		return 4, 32, 1<<32 - 1, true
	case FlowIPv4Dst:
		return 4, 0, 1<<32 - 1, true
	}
	return 0, 0, 0, false
}

func (k *FlowKey) set(f FlowField, v uint64) {
	word, shift, bits, _ := f.place()
	k[word] = k[word]&^(bits<<shift) | v&bits<<shift
}

// Field is a field's condition; without one the mask is 0.
func (m *FlowMatch) Field(f FlowField) (value, mask uint64) {
	word, shift, bits, _ := f.place()
	return m.Value[word] >> shift & bits, m.Mask[word] >> shift & bits
}

// Want adds a condition on a field. One on a PCP wants a tag, too.
func (m *FlowMatch) Want(f FlowField, value, mask uint64) {
	if _, _, _, ok := f.place(); !ok {
		m.Never = true
		return
	}
	m.Value.set(f, value&mask)
	m.Mask.set(f, mask)
	if f == FlowPCP && mask != 0 {
		m.Value[0] |= FlowPresent << 8
		m.Mask[0] |= FlowPresent << 8
	}
}

// Within reports whether a condition is at least another one.
func (m *FlowMatch) Within(o *FlowMatch) bool {
	for i := range m.Mask {
		if o.Mask[i]&^m.Mask[i] != 0 || (m.Value[i]^o.Value[i])&o.Mask[i] != 0 {
			return false
		}
	}
	return m.Never || !o.Never
}

func (m *FlowMatch) takes(k *FlowKey) bool {
	for i := range k {
		if (k[i]^m.Value[i])&m.Mask[i] != 0 {
			return false
		}
	}
	return !m.Never
}

// Flow is an entry of a table. What it does is in the order of the fields.
type Flow struct {
	Table    uint8
	Priority uint16
	Match    FlowMatch

	Apply          []FlowAction
	Clear          bool
	Write          []FlowAction
	Metadata, Mask uint64 // bits of the mask that are written
	Goto           uint8
	Goes           bool

	Packets uint64
	Owner   any // what made it
}

// FlowAction is an action: exactly one of its kinds.
type FlowAction struct {
	Kind  FlowActionKind
	Arg   uint32    // a port, a group, a TPID
	Field FlowField // of SetField
	Value uint64
}

// FlowActionKind is what an action does.
type FlowActionKind uint8

// The kinds, in the order in which an action set has them carried out (§5.10).
const (
	FlowPop FlowActionKind = iota
	FlowPush
	FlowSet
	FlowToGroup // before FlowOutput, which is then left out
	FlowOutput
	FlowOther // one that does nothing to a frame here
)

// FlowGroup has each of its buckets carried out, with the frame as it is.
type FlowGroup struct{ Buckets [][]FlowAction }

// Add puts a flow into its table; there is none of its priority and condition there.
func (s *Flows) Add(f *Flow) {
	t := &s.tables[f.Table]
	t.flows, t.sorted = append(t.flows, f), false
}

// Delete takes flows out of a table.
func (s *Flows) Delete(table uint8, gone func(*Flow) bool) {
	t := &s.tables[table]
	t.flows = slices.DeleteFunc(t.flows, gone)
}

// Each calls f for the flows of a table.
func (s *Flows) Each(table uint8, f func(*Flow)) {
	for _, flow := range s.tables[table].flows {
		f(flow)
	}
}

// Len is how many flows a table has.
func (s *Flows) Len(table uint8) int { return len(s.tables[table].flows) }

// SetGroup makes a group, or changes it.
func (s *Flows) SetGroup(id uint32, g FlowGroup) {
	if s.groups == nil {
		s.groups = map[uint32]FlowGroup{}
	}
	s.groups[id] = g
}

// DeleteGroup deletes a group; flows that refer to it stay, and drop.
func (s *Flows) DeleteGroup(id uint32) { delete(s.groups, id) }

// lookup is the flow that a frame meets.
func (t *flowTable) lookup(k *FlowKey) *Flow {
	if !t.sorted {
		slices.SortStableFunc(t.flows, func(a, b *Flow) int { return int(b.Priority) - int(a.Priority) })
		t.sorted = true
	}
	for _, f := range t.flows {
		if f.Match.takes(k) {
			return f
		}
	}
	return nil
}

const (
	maxFlowTags   = 2 // tags that are parsed
	maxFlowGroups = 8 // groups within groups
)

// flowPacket is a packet on its way through the tables.
type flowPacket struct {
	*Packet
	key FlowKey
	set []FlowAction
}

// Forward has a packet that came in by the port of a number meet the flows. Port is the one of a
// number, nil where there is none. A packet that meets no flow is dropped, and none leaves by the
// port that it came by (§7.2.5, OFPP_IN_PORT).
func (s *Flows) Forward(packet *Packet, in uint32, port func(number uint32) *Port) {
	p := flowPacket{Packet: packet}
	p.parse()
	p.key.set(FlowInPort, uint64(in))
	for table := 0; ; {
		p.key[1] = p.Metadata
		f := s.tables[table].lookup(&p.key)
		if f == nil {
			return
		}
		f.Packets++
		s.apply(&p, f.Apply, port, 0)
		if f.Clear {
			p.set = p.set[:0]
		}
		for _, a := range f.Write {
			p.write(a)
		}
		p.Metadata = p.Metadata&^f.Mask | f.Metadata&f.Mask
		if !f.Goes {
			s.apply(&p, p.set, port, 0)
			return
		}
		table = int(f.Goto)
	}
}

// write adds an action to the set, in place of one of its kind. Output is left out beside a group.
func (p *flowPacket) write(a FlowAction) {
	same := func(b FlowAction) bool { return a.Kind == b.Kind && (a.Kind != FlowSet || a.Field == b.Field) }
	p.set = append(slices.DeleteFunc(p.set, same), a)
	slices.SortStableFunc(p.set, func(a, b FlowAction) int { return int(a.Kind) - int(b.Kind) })
	if n := len(p.set); n > 1 && p.set[n-1].Kind == FlowOutput && p.set[n-2].Kind == FlowToGroup {
		p.set = p.set[:n-1]
	}
}

// parse reads the fields that actions may change.
func (p *flowPacket) parse() {
	b := p.Bytes
	p.key.set(FlowEthDst, uint64(binary.BigEndian.Uint16(b))<<32|uint64(binary.BigEndian.Uint32(b[2:])))
	p.key.set(FlowEthSrc, uint64(binary.BigEndian.Uint16(b[6:]))<<32|uint64(binary.BigEndian.Uint32(b[8:])))
	p.key.set(FlowVID, 0)
	p.key.set(FlowPCP, 0)
	if tci := p.TCI(); p.tagged() {
		p.key.set(FlowVID, uint64(tci&0xfff|FlowPresent))
		p.key.set(FlowPCP, uint64(tci>>13))
	}
	at := macs
	for tags := 0; tags < maxFlowTags && isTag(typeAt(b, at)) && len(b) >= at+tagSize+2; tags++ {
		at += tagSize
	}
	p.key.set(FlowEthType, uint64(typeAt(b, at)))
	p.key[4] = 0
	if at += 2; typeAt(b, at-2) == 0x0800 && len(b) >= at+20 {
		p.key.set(FlowIPv4Src, uint64(binary.BigEndian.Uint32(b[at+12:])))
		p.key.set(FlowIPv4Dst, uint64(binary.BigEndian.Uint32(b[at+16:])))
	}
}

func isTag(typ uint16) bool { return typ == cTag || typ == sTag }

// tagged reports whether the packet has a tag.
func (p *flowPacket) tagged() bool { return isTag(p.Type()) && len(p.Bytes) >= header+tagSize }

// apply carries actions out, one after the other.
func (s *Flows) apply(p *flowPacket, actions []FlowAction, port func(number uint32) *Port, depth int) {
	for _, a := range actions {
		switch a.Kind {
		case FlowOutput:
			if to := port(a.Arg); to != nil && to != p.In {
				p.Output(to)
			}
			continue
		case FlowToGroup:
			if depth == maxFlowGroups {
				return
			}
			for _, bucket := range s.groups[a.Arg].Buckets {
				q := flowPacket{Packet: p.Copy(), key: p.key}
				for _, a := range bucket { // it is an action set
					q.write(a)
				}
				s.apply(&q, q.set, port, depth+1)
			}
			continue
		case FlowPop:
			if p.tagged() {
				p.Pop()
			}
		case FlowPush:
			p.Push(uint16(a.Arg), 0) // of VID and PCP 0, as Open vSwitch's
		case FlowSet:
			p.setField(a)
		}
		p.parse()
	}
}

func (p *flowPacket) setField(a FlowAction) {
	v := a.Value
	switch a.Field {
	case FlowVID:
		if p.tagged() {
			p.SetTCI(uint16(v), 0xfff)
		}
	case FlowPCP:
		if p.tagged() {
			p.SetTCI(uint16(v)<<13, 0xe000)
		}
	case FlowEthDst:
		copy(p.Bytes, binary.BigEndian.AppendUint64(nil, v)[2:])
	case FlowEthSrc:
		copy(p.Bytes[6:], binary.BigEndian.AppendUint64(nil, v)[2:])
	}
}
