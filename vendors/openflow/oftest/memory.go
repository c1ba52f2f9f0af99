package oftest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/csig-agent/csig/protocol/memnet"
	"github.com/csig-agent/csig/vendors/vendorstest/memory"
)

// Memory is an OpenFlow 1.3 switch in memory: flows of many tables with their timers, groups, ports
// with counters, and frames that meet them. It needs no socket, so that tests run on the virtual
// time of testing/synctest, and a thousand fit in a process, where an Open vSwitch each would not.
// Every controller is EQUAL.
type Memory struct {
	Serial  string
	Ports   []string // of the numbers 1, 2, …, when the switch starts
	Speed   uint64   // of each, in bit/s
	ID      uint64   // datapath ID; 0: the number of the TCP port
	Tables  uint8    // 0: 16
	Entries uint32   // what each table's features promise; 0: 4096

	// Bytes are what a port has sent, by its number, whenever it is asked; nil: what it sent.
	Bytes func(port int) uint64

	// Polled is called for each question about all ports' counters.
	Polled func()

	l  net.Listener
	mu sync.Mutex // guards the rest

	sw     *memory.Switch
	ports  []*memoryPort
	flows  map[flowKey]*memoryFlow
	made   uint64    // flows so far
	next   time.Time // when the next one expires; zero: none does
	plane  memory.Flows
	groups map[uint32][]byte // the body of the group_mod that made it
	limits map[uint8]int     // of tables
	conns  map[net.Conn]bool
	closed bool
}

type memoryPort struct {
	number          uint32
	name            string
	since           time.Time
	port            *memory.Port
	packets, octets uint64   // that it had sent then
	out             [][]byte // what left and was not received yet
}

// addPort adds a port; mu is held.
func (s *Memory) addPort(name string, number uint32) {
	p := &memoryPort{number: number, name: name, since: time.Now()}
	p.port = s.sw.AddPort(name, func(frame []byte) { p.out = append(p.out, frame) })
	s.ports = append(s.ports, p)
}

// flowKey is what a table tells its flows apart by.
type flowKey struct {
	table    uint8
	priority uint16
	match    memory.FlowMatch
	rest     string // fields that are not in match
}

type memoryFlow struct {
	memory.Flow
	key          flowKey
	number       uint64 // when it was made
	cookie       uint64
	timeouts     [4]byte // idle and hard, as they are on the wire
	flags        [2]byte
	match        []byte // as they are on the wire
	instructions []byte
	since        time.Time
	expires      time.Time // zero: never
}

// Bodies of messages of which a part is read (§7.3.4.1, §7.3.4.2).
const (
	flowModBody  = 40 // up to the match
	flowAdd      = 0
	flowModify   = 1
	strictModify = 2
	flowDelete   = 3
	strictDelete = 4

	allTables = 0xff
	anyGroup  = 0xfffffffc // all of them, in a group_mod that deletes
)

func (s *Memory) start() {
	if s.flows != nil {
		return
	}
	if s.Tables == 0 {
		s.Tables = 16
	}
	if s.Entries == 0 {
		s.Entries = 4096
	}
	s.flows, s.groups, s.limits, s.conns = map[flowKey]*memoryFlow{}, map[uint32][]byte{}, map[uint8]int{}, map[net.Conn]bool{}
	s.sw = memory.New(memory.Config{Faults: memory.Faults{CountsNoFCS: true}, Pipeline: s.forward})
	for i, name := range s.Ports {
		s.addPort(name, uint32(i+1))
	}
}

// Listen starts the switch at a port of this address.
func (s *Memory) Listen(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.start()
	s.mu.Unlock()
	s.l = l
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.Serve(c)
		}
	}()
	return nil
}

// Addr is where it listens.
func (s *Memory) Addr() *net.TCPAddr { return s.l.Addr().(*net.TCPAddr) } //nolint:forcetypeassert // it listens on TCP

// Dial makes a connection in memory with the switch.
func (s *Memory) Dial(context.Context) (net.Conn, error) {
	here, there := memnet.Pipe("192.0.2.1:40000", "192.0.2.2:6653")
	if !s.Serve(there) {
		return nil, syscall.ECONNREFUSED
	}
	return here, nil
}

// Serve has the switch serve a connection in the background; false where it has ended.
func (s *Memory) Serve(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start()
	if s.closed {
		c.Close()
		return false
	}
	s.conns[c] = true
	go s.serve(c)
	return true
}

// Close ends the switch.
func (s *Memory) Close() {
	if s.l != nil {
		_ = s.l.Close() // it serves nothing more
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.cut()
}

func (s *Memory) cut() {
	for c := range s.conns {
		_ = c.Close()
	}
}

func (s *Memory) serve(c net.Conn) {
	defer func() {
		c.Close()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
	if _, err := c.Write(message(TypeHello, 0, nil)); err != nil {
		return
	}
	for {
		m, err := readMessage(c)
		if err != nil {
			return
		}
		for _, answer := range s.answer(m) {
			if _, err := c.Write(answer); err != nil {
				return
			}
		}
	}
}

// answer carries a message out; nil where it has no answer.
func (s *Memory) answer(m Message) []Message {
	body := m[headerLen:]
	reply := func(typ uint8, body []byte) []Message { return []Message{message(typ, m.XID(), body)} }
	switch m.Type() {
	case TypeEchoRequest:
		return reply(TypeEchoReply, body)
	case 5: // features
		id := s.ID
		if id == 0 && s.l != nil {
			id = uint64(s.Addr().Port)
		}
		out := order.AppendUint32(order.AppendUint64(nil, id), 256) // buffers
		out = append(out, s.Tables, 0, 0, 0)
		return reply(6, order.AppendUint64(out, 1<<0|1<<2|1<<3)) // flow, port and group statistics
	case TypeBarrierReq:
		return reply(TypeBarrierRep, nil)
	case TypeRoleReq:
		return reply(TypeRoleRep, body)
	case TypeFlowMod, TypeGroupMod:
		if refused, is := s.change(m); is {
			return []Message{refused.of(m)}
		}
		return nil
	case TypeMultipartReq:
		typ, _ := m.part()
		records, ok := s.part(typ, body)
		if !ok {
			return []Message{BadMultipart.of(m)}
		}
		return parts(typ, m.XID(), records)
	}
	return nil // hello, asynchronous messages: nothing to say
}

// parts are the messages that records fit in.
func parts(typ uint16, xid uint32, records [][]byte) (out []Message) {
	for {
		n, size := 0, 0
		for n < len(records) && size+len(records[n]) < 1<<16-headerLen-8 {
			size += len(records[n])
			n++
		}
		head := [8]byte{byte(typ >> 8), byte(typ)}
		if n < len(records) {
			head[3] = 1
		}
		m := append(make(Message, 0, headerLen+8+size), message(TypeMultipartRep, xid, head[:])...)
		for _, r := range records[:n] {
			m = append(m, r...)
		}
		order.PutUint16(m[2:], uint16(len(m)))
		records, out = records[n:], append(out, m)
		if len(records) == 0 {
			return out
		}
	}
}

func (s *Memory) change(m Message) (Refusal, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start()
	s.expire()
	if m.Type() == TypeGroupMod {
		return s.changeGroup(bytes.Clone(m[headerLen:]))
	}
	return s.changeFlow(bytes.Clone(m[headerLen:]))
}

// Refusals of the switch itself.
var (
	badGoto    = Refusal{3, 2}
	badSetType = Refusal{2, 13}
	badCommand = Refusal{5, 6}
	noGroup    = Refusal{2, 9}
	noTable    = Refusal{5, 2}
)

func (s *Memory) changeGroup(body []byte) (Refusal, bool) {
	if len(body) < 8 {
		return badLen, true
	}
	id := order.Uint32(body[4:])
	_, there := s.groups[id]
	switch command := order.Uint16(body); {
	case command == 0 && there:
		return groupExists, true
	case command == 1 && !there:
		return unknownGroup, true
	case command > 2:
		return badGroupCommand, true
	case command == 2:
		for _, id := range slices.Collect(maps.Keys(s.groups)) {
			if id == order.Uint32(body[4:]) || order.Uint32(body[4:]) == anyGroup {
				s.deleteGroup(id)
			}
		}
		return Refusal{}, false
	}
	buckets, ok := records(body[8:], 0, 16)
	if !ok {
		return badLen, true
	}
	var g memory.FlowGroup
	for _, b := range buckets {
		actions, refused, bad := readActions(b[16:])
		if bad {
			return refused, true
		}
		g.Buckets = append(g.Buckets, actions)
	}
	s.groups[id] = body
	s.plane.SetGroup(id, g)
	return Refusal{}, false
}

// deleteGroup deletes a group and the flows that refer to it.
func (s *Memory) deleteGroup(id uint32) {
	delete(s.groups, id)
	s.plane.DeleteGroup(id)
	to := func(a memory.FlowAction) bool { return a.Kind == memory.FlowToGroup && a.Arg == id }
	s.deleteFlows(allTables, func(f *memoryFlow) bool {
		return slices.ContainsFunc(f.Apply, to) || slices.ContainsFunc(f.Write, to)
	})
}

// deleteFlows deletes those flows of a table, or of all, that some are.
func (s *Memory) deleteFlows(table uint8, some func(*memoryFlow) bool) {
	for t := range s.Tables {
		if table != t && table != allTables {
			continue
		}
		s.plane.Delete(t, func(o *memory.Flow) bool {
			f := owner(o)
			gone := some(f)
			if gone {
				delete(s.flows, f.key)
			}
			return gone
		})
	}
}

func owner(f *memory.Flow) *memoryFlow { return f.Owner.(*memoryFlow) } //nolint:forcetypeassert // it made them all

// changeFlow carries a flow_mod out.
func (s *Memory) changeFlow(body []byte) (Refusal, bool) {
	if len(body) < flowModBody+8 {
		return badLen, true
	}
	f, refused, bad := s.readFlow(body)
	if bad {
		return refused, true
	}
	command, mask := body[17], order.Uint64(body[8:])
	mine := func(o *memoryFlow) bool {
		switch {
		case (o.cookie^f.cookie)&mask != 0 && command != flowAdd:
			return false
		case command == flowModify || command == flowDelete:
			return o.Match.Within(&f.Match) && (f.key.rest == "" || f.key.rest == o.key.rest)
		}
		return o.key == f.key
	}
	switch command {
	case flowAdd:
		return s.add(f)
	case flowModify, strictModify: // timers, cookies and counters stay
		change := func(o *memoryFlow) {
			if mine(o) {
				o.Apply, o.Clear, o.Write, o.Metadata, o.Mask, o.Goto, o.Goes = f.Apply, f.Clear, f.Write, f.Metadata, f.Mask, f.Goto, f.Goes
				o.instructions = f.instructions
			}
		}
		if o := s.flows[f.key]; command == strictModify && o != nil {
			change(o)
		} else if command == flowModify {
			s.each(f.Table, change)
		}
	case strictDelete:
		if o := s.flows[f.key]; o != nil && mine(o) {
			s.deleteFlows(f.Table, func(x *memoryFlow) bool { return x == o })
		}
	case flowDelete:
		s.deleteFlows(f.Table, mine)
	default:
		return badCommand, true
	}
	return Refusal{}, false
}

func (s *Memory) add(f *memoryFlow) (Refusal, bool) {
	old := s.flows[f.key]
	if limit, limited := s.limits[f.Table]; limited && old == nil && s.plane.Len(f.Table) >= limit {
		return TableFull, true
	}
	s.made++
	f.number, f.since = s.made, time.Now()
	if hard := order.Uint16(f.timeouts[2:]); hard > 0 {
		f.expires = f.since.Add(time.Duration(hard) * time.Second)
		if s.next.IsZero() || f.expires.Before(s.next) {
			s.next = f.expires
		}
	}
	if s.flows[f.key] = f; old != nil {
		s.plane.Delete(f.Table, func(o *memory.Flow) bool { return o == &old.Flow })
	}
	f.Owner = f
	s.plane.Add(&f.Flow)
	return Refusal{}, false
}

// expire removes what has lived for its hard_timeout, mu held.
func (s *Memory) expire() {
	now := time.Now()
	if s.next.IsZero() || now.Before(s.next) {
		return
	}
	s.next = time.Time{}
	s.deleteFlows(allTables, func(f *memoryFlow) bool {
		switch {
		case f.expires.IsZero():
			return false
		case !now.Before(f.expires):
			return true
		case s.next.IsZero() || f.expires.Before(s.next):
			s.next = f.expires
		}
		return false
	})
}

// readFlow reads the flow of a flow_mod.
func (s *Memory) readFlow(body []byte) (*memoryFlow, Refusal, bool) {
	in, rest, ok := match(body[flowModBody:])
	if !ok {
		return nil, badMatchType, true
	}
	f := &memoryFlow{
		Flow:     memory.Flow{Table: body[16], Priority: order.Uint16(body[22:])},
		cookie:   order.Uint64(body),
		timeouts: [4]byte(body[18:22]), flags: [2]byte(body[36:38]),
		match: body[flowModBody : len(body)-len(rest)], instructions: rest,
	}
	deletes := body[17] >= flowDelete
	if f.Table >= s.Tables && !(deletes && f.Table == allTables) {
		return nil, noTable, true
	}
	for _, x := range in {
		value, mask := x.bits()
		if x.class != classBasic || len(value) > 8 || len(value) != len(mask) {
			f.Match.Never = true
		} else {
			f.Match.Want(memory.FlowField(x.id), number(value), number(mask))
		}
		if f.Match.Never { // all that is not understood tells flows apart
			f.key.rest += fmt.Sprintf("%04x %d %v %x ", x.class, x.id, x.masked, x.value)
		}
	}
	f.key.table, f.key.priority, f.key.match = f.Table, f.Priority, f.Match
	if deletes {
		return f, Refusal{}, false
	}
	instructions, ok := records(rest, 2, 8)
	if !ok {
		return nil, badLen, true
	}
	for _, i := range instructions {
		var refused Refusal
		bad := false
		switch typ := order.Uint16(i); typ {
		case instGoto:
			if f.Goto, f.Goes = i[4], true; f.Goto <= f.Table || f.Goto >= s.Tables {
				return nil, badGoto, true
			}
		case instMetadata:
			f.Metadata, f.Mask = order.Uint64(i[8:]), order.Uint64(i[16:])
		case instWrite:
			f.Write, refused, bad = readActions(i[8:])
		case instApply:
			f.Apply, refused, bad = readActions(i[8:])
		case instClear:
			f.Clear = true
		default:
			return nil, badInstruction, true
		}
		if bad {
			return nil, refused, true
		}
	}
	for _, a := range slices.Concat(f.Apply, f.Write) {
		if a.Kind == memory.FlowToGroup && s.groups[a.Arg] == nil {
			return nil, noGroup, true
		}
	}
	return f, Refusal{}, false
}

// Types of instructions (§7.2.4) and actions (§7.2.5).
const (
	instGoto     = 1
	instMetadata = 2
	instWrite    = 3
	instApply    = 4
	instClear    = 5

	actOutput   = 0
	actPushVLAN = 17
	actPopVLAN  = 18
	actGroup    = 22
	actSetField = 25
)

// number is one of up to 8 bytes.
func number(b []byte) (v uint64) {
	for _, x := range b {
		v = v<<8 | uint64(x)
	}
	return v
}

// readActions reads a list of actions; those of experimenters do nothing.
func readActions(b []byte) (out []memory.FlowAction, refused Refusal, bad bool) {
	list, ok := records(b, 2, 8)
	if !ok {
		return nil, badLen, true
	}
	for _, a := range list {
		switch typ := order.Uint16(a); {
		case typ == actOutput && len(a) == 16:
			out = append(out, memory.FlowAction{Kind: memory.FlowOutput, Arg: order.Uint32(a[4:])})
		case typ == actPushVLAN:
			out = append(out, memory.FlowAction{Kind: memory.FlowPush, Arg: uint32(order.Uint16(a[4:]))})
		case typ == actPopVLAN:
			out = append(out, memory.FlowAction{Kind: memory.FlowPop})
		case typ == actGroup:
			out = append(out, memory.FlowAction{Kind: memory.FlowToGroup, Arg: order.Uint32(a[4:])})
		case typ == actSetField && len(a) >= 16 && order.Uint16(a[4:]) == classBasic && int(a[7]) <= 8:
			out = append(out, memory.FlowAction{Kind: memory.FlowSet, Field: memory.FlowField(a[6] >> 1), Value: number(a[8 : 8+a[7]])})
		case typ == actSetField:
			return nil, badSetType, true
		case typ == 0xffff:
			out = append(out, memory.FlowAction{Kind: memory.FlowOther})
		default:
			return nil, badActionType, true
		}
	}
	return out, Refusal{}, false
}

// part are the records of a multipart answer (§7.3.5); ok is false for one that it has not.
func (s *Memory) part(typ uint16, request []byte) (out [][]byte, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start()
	s.expire()
	switch typ {
	case 0: // description
		var desc []byte
		for _, d := range []struct {
			text string
			size int
		}{{"csig", 256}, {"memory", 256}, {"1", 256}, {s.Serial, 32}, {s.Serial, 256}} {
			field := make([]byte, d.size)
			copy(field[:d.size-1], d.text)
			desc = append(desc, field...)
		}
		out = append(out, desc)
	case partFlow:
		if len(request) < 40 {
			return nil, false
		}
		table, cookie, mask := request[8], order.Uint64(request[24:]), order.Uint64(request[32:])
		for _, f := range s.list(table, func(f *memoryFlow) bool { return (f.cookie^cookie)&mask == 0 }) {
			out = append(out, f.stats())
		}
	case 4: // port statistics
		if s.Polled != nil {
			s.Polled()
		}
		for _, p := range s.ports {
			stats := make([]byte, 112)
			order.PutUint32(stats, p.number)
			octets, packets := p.port.Sent()
			order.PutUint64(stats[16:], packets-p.packets)
			if octets -= p.octets; s.Bytes != nil {
				octets = s.Bytes(int(p.number))
			}
			order.PutUint64(stats[32:], octets)
			order.PutUint32(stats[104:], 3600+uint32(time.Since(p.since)/time.Second))
			out = append(out, stats)
		}
	case partGroupDesc:
		for _, id := range slices.Sorted(maps.Keys(s.groups)) {
			mod := s.groups[id]
			g := order.AppendUint16(nil, uint16(len(mod)))
			out = append(out, append(order.AppendUint32(append(g, mod[2], 0), id), mod[8:]...))
		}
	case partGroupFeatures:
		f := make([]byte, 40)
		order.PutUint32(f, 0xf)
		order.PutUint32(f[4:], 1<<3)
		out = append(out, f)
	case partTableFeatures:
		for id := range s.Tables {
			out = append(out, s.table(id).append(nil))
		}
	case 13: // ports
		for _, p := range s.ports {
			port := make([]byte, 64)
			order.PutUint32(port, p.number)
			copy(port[16:31], p.name)
			order.PutUint32(port[56:], uint32(s.Speed/1000))
			out = append(out, port)
		}
	default:
		return nil, false
	}
	return out, true
}

// each calls do for the flows of a table, or of all; mu is held.
func (s *Memory) each(table uint8, do func(*memoryFlow)) {
	for t := range s.Tables {
		if table == t || table == allTables {
			s.plane.Each(t, func(f *memory.Flow) { do(owner(f)) })
		}
	}
}

// list are those flows of a table, or of all, that some are, in the order in which they were made; mu is held.
func (s *Memory) list(table uint8, some func(*memoryFlow) bool) (out []*memoryFlow) {
	s.each(table, func(f *memoryFlow) {
		if some(f) {
			out = append(out, f)
		}
	})
	slices.SortFunc(out, func(a, b *memoryFlow) int { return cmp.Compare(a.number, b.number) })
	return out
}

// stats is a flow as statistics have it (§7.3.5.2).
func (f *memoryFlow) stats() []byte {
	b := make([]byte, 48, 48+len(f.match)+len(f.instructions))
	b[2] = f.Table
	order.PutUint32(b[4:], uint32(time.Since(f.since)/time.Second))
	order.PutUint16(b[12:], f.Priority)
	copy(b[14:18], f.timeouts[:])
	copy(b[18:20], f.flags[:])
	order.PutUint64(b[24:], f.cookie)
	order.PutUint64(b[32:], f.Packets)
	b = append(append(b, f.match...), f.instructions...)
	order.PutUint16(b, uint16(len(b)))
	return b
}

// table is what csig has to find in a table: the fields with masks, the instructions and
// actions of OpenFlow 1.3, and all later tables.
func (s *Memory) table(id uint8) *TableFeatures {
	t := &TableFeatures{ID: id, name: make([]byte, 32), rest: make([]byte, 4), MetadataMatch: ^uint64(0), MetadataWrite: ^uint64(0), MaxEntries: s.Entries}
	kinds := func(list ...uint16) (b []byte) {
		for _, k := range list {
			b = order.AppendUint16(order.AppendUint16(b, k), 4)
		}
		return b
	}
	field := func(id, size byte, masked bool) []byte {
		if masked {
			return []byte{0x80, 0, id<<1 | 1, 2 * size}
		}
		return []byte{0x80, 0, id << 1, size}
	}
	var next []byte
	for n := id + 1; n < s.Tables; n++ {
		next = append(next, n)
	}
	matches := bytes.Join([][]byte{field(fieldInPort, 4, false), field(FieldMetadata, 8, true), field(fieldEthDst, 6, true), field(fieldEthSrc, 6, true),
		field(fieldEthType, 2, false), field(FieldVLANVID, 2, true), field(FieldVLANPCP, 1, false), field(11, 4, true), field(12, 4, true)}, nil) // IPV4_SRC, IPV4_DST
	sets := bytes.Join([][]byte{field(fieldEthDst, 6, false), field(fieldEthSrc, 6, false), field(FieldVLANVID, 2, false), field(FieldVLANPCP, 1, false)}, nil)
	actions := kinds(actOutput, actPushVLAN, actPopVLAN, actGroup, actSetField)
	t.props = []prop{
		{PropInstructions, kinds(instGoto, instMetadata, instWrite, instApply, instClear)}, {2, next}, {4, actions}, {6, actions}, // 4, 6: written and applied actions
		{PropMatch, matches}, {PropWildcards, matches}, {PropWriteSetField, sets}, {PropApplySetField, sets},
	}
	return t
}
