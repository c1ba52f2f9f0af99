package memory

import (
	"encoding/binary"
	"slices"
)

// Flows are the tables and groups of an OpenFlow 1.3 switch, as frames meet them: ordered
// flows of several tables, an action set, metadata, groups. It is not safe for concurrent use.
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

// IsTPID reports whether a type is one of a tag that is parsed.
func IsTPID(typ uint16) bool { return typ == 0x8100 || typ == 0x88a8 }

// packet is a frame on its way through the tables.
type packet struct {
	frame []byte
	own   bool // frame may be written to
	key   FlowKey
	set   []FlowAction
	out   func(port uint32, frame []byte)
}

// Forward has a frame that comes in by a port meet the flows, and calls out for each that leaves.
// Frames that meet no flow are dropped.
func (s *Flows) Forward(port uint32, frame []byte, out func(port uint32, frame []byte)) {
	p := packet{frame: frame, out: out}
	p.parse()
	p.key.set(FlowInPort, uint64(port))
	for table := 0; ; {
		f := s.tables[table].lookup(&p.key)
		if f == nil {
			break
		}
		f.Packets++
		s.apply(&p, f.Apply, 0)
		if f.Clear {
			p.set = p.set[:0]
		}
		for _, a := range f.Write {
			p.write(a)
		}
		p.key[1] = p.key[1]&^f.Mask | f.Metadata&f.Mask
		if !f.Goes {
			s.apply(&p, p.set, 0)
			return
		}
		table = int(f.Goto)
	}
}

// write adds an action to the set, in place of one of its kind.
func (p *packet) write(a FlowAction) {
	same := func(b FlowAction) bool { return a.Kind == b.Kind && (a.Kind != FlowSet || a.Field == b.Field) }
	p.set = append(slices.DeleteFunc(p.set, same), a)
	slices.SortStableFunc(p.set, func(a, b FlowAction) int { return int(a.Kind) - int(b.Kind) })
	if len(p.set) > 1 && p.set[len(p.set)-1].Kind == FlowOutput && p.set[len(p.set)-2].Kind == FlowToGroup {
		p.set = p.set[:len(p.set)-1]
	}
}

// parse reads the fields that actions may change.
func (p *packet) parse() {
	b := p.frame
	if len(b) < 14 {
		return
	}
	p.key.set(FlowEthDst, uint64(binary.BigEndian.Uint16(b))<<32|uint64(binary.BigEndian.Uint32(b[2:])))
	p.key.set(FlowEthSrc, uint64(binary.BigEndian.Uint16(b[6:]))<<32|uint64(binary.BigEndian.Uint32(b[8:])))
	typ, at := binary.BigEndian.Uint16(b[12:]), 14
	p.key.set(FlowVID, 0)
	p.key.set(FlowPCP, 0)
	for tags := 0; tags < maxFlowTags && IsTPID(typ) && len(b) >= at+4; tags++ {
		if tags == 0 {
			tci := binary.BigEndian.Uint16(b[at:])
			p.key.set(FlowVID, uint64(tci&0xfff|FlowPresent))
			p.key.set(FlowPCP, uint64(tci>>13))
		}
		typ, at = binary.BigEndian.Uint16(b[at+2:]), at+4
	}
	p.key.set(FlowEthType, uint64(typ))
	p.key[4] = 0
	if typ == 0x0800 && len(b) >= at+20 {
		p.key.set(FlowIPv4Src, uint64(binary.BigEndian.Uint32(b[at+12:])))
		p.key.set(FlowIPv4Dst, uint64(binary.BigEndian.Uint32(b[at+16:])))
	}
}

// apply carries actions out, one after the other.
func (s *Flows) apply(p *packet, actions []FlowAction, depth int) {
	for _, a := range actions {
		switch a.Kind {
		case FlowOutput:
			p.out(a.Arg, p.frame)
			p.own = false
		case FlowToGroup:
			if depth == maxFlowGroups {
				return
			}
			for _, b := range s.groups[a.Arg].Buckets {
				q := packet{frame: p.frame, key: p.key, out: p.out}
				for _, a := range b { // a bucket is an action set
					q.write(a)
				}
				s.apply(&q, q.set, depth+1)
			}
			p.own = false
		case FlowPop:
			if IsTPID(p.typ()) && len(p.frame) >= 18 {
				p.frame = slices.Concat(p.frame[:12], p.frame[16:])
				p.changed()
			}
		case FlowPush:
			tag := binary.BigEndian.AppendUint32(nil, a.Arg<<16) // of VID and PCP 0, as Open vSwitch's
			p.frame = slices.Concat(p.frame[:12], tag, p.frame[12:])
			p.changed()
		case FlowSet:
			p.setField(a)
		}
	}
}

func (p *packet) typ() uint16 {
	if len(p.frame) < 14 {
		return 0
	}
	return binary.BigEndian.Uint16(p.frame[12:])
}

func (p *packet) changed() {
	p.own = true
	p.parse()
}

func (p *packet) setField(a FlowAction) {
	if a.Field == FlowMetadata || len(p.frame) < 14 || (a.Field == FlowVID || a.Field == FlowPCP) && (!IsTPID(p.typ()) || len(p.frame) < 16) {
		return
	}
	if !p.own {
		p.frame = slices.Clone(p.frame)
	}
	switch v := a.Value; a.Field {
	case FlowVID:
		binary.BigEndian.PutUint16(p.frame[14:], binary.BigEndian.Uint16(p.frame[14:])&0xf000|uint16(v)&0xfff)
	case FlowPCP:
		binary.BigEndian.PutUint16(p.frame[14:], binary.BigEndian.Uint16(p.frame[14:])&0x1fff|uint16(v)<<13)
	case FlowEthDst:
		binary.BigEndian.PutUint16(p.frame, uint16(v>>32))
		binary.BigEndian.PutUint32(p.frame[2:], uint32(v))
	case FlowEthSrc:
		binary.BigEndian.PutUint16(p.frame[6:], uint16(v>>32))
		binary.BigEndian.PutUint32(p.frame[8:], uint32(v))
	}
	p.changed()
}
