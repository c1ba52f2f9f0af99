package oftest

import (
	"bytes"
	"net"
	"sync"
	"time"
)

// Memory is the control side of an OpenFlow 1.3 switch: it keeps flows and groups as it is
// sent them, with their timers, and forwards nothing. A thousand fit in a process, where an
// Open vSwitch each would not.
type Memory struct {
	Serial string
	Ports  []string // of the numbers 1, 2, …
	Speed  uint64   // of each, in bit/s

	// Bytes are what a port has sent, by its number, whenever it is asked.
	Bytes func(port int) uint64

	// Polled is called for each question about all ports' counters.
	Polled func()

	l  net.Listener
	mu sync.Mutex // guards the rest

	flows  map[string]*memoryFlow // by table, priority and match
	groups map[uint32][]byte      // the body of the group_mod that made it
	conns  map[net.Conn]bool
	closed bool
}

type memoryFlow struct {
	mod     []byte // body of the flow_mod
	since   time.Time
	expires time.Time // zero: never
}

// Bodies of messages of which a part is read (§7.3.4.1, §7.3.4.2).
const (
	flowModBody  = 40 // up to the match
	flowDelete   = 3
	strictDelete = 4
	memoryTables = 16
)

// Listen starts the switch at a port of this address.
func (s *Memory) Listen(address string) (err error) {
	s.flows, s.groups, s.conns = map[string]*memoryFlow{}, map[uint32][]byte{}, map[net.Conn]bool{}
	if s.l, err = net.Listen("tcp", address); err != nil {
		return err
	}
	go func() {
		for {
			c, err := s.l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			if s.closed {
				c.Close()
			} else {
				s.conns[c] = true
				go s.serve(c)
			}
			s.mu.Unlock()
		}
	}()
	return nil
}

// Addr is where it listens.
func (s *Memory) Addr() *net.TCPAddr { return s.l.Addr().(*net.TCPAddr) } //nolint:forcetypeassert // it listens on TCP

// Close ends the switch.
func (s *Memory) Close() {
	_ = s.l.Close() // it serves nothing more
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
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
		if answer := s.answer(m); answer != nil {
			if _, err := c.Write(answer); err != nil {
				return
			}
		}
	}
}

// answer carries a message out; nil where it has no answer.
func (s *Memory) answer(m Message) Message {
	body := m[headerLen:]
	reply := func(typ uint8, body []byte) Message { return message(typ, m.XID(), body) }
	switch m.Type() {
	case TypeEchoRequest:
		return reply(TypeEchoReply, body)
	case 5: // features
		out := order.AppendUint64(nil, uint64(s.Addr().Port))
		out = order.AppendUint32(out, 256) // buffers
		out = append(out, memoryTables, 0, 0, 0)
		return reply(6, order.AppendUint64(out, 1<<0|1<<2|1<<3)) // flow, port and group statistics
	case TypeBarrierReq:
		return reply(TypeBarrierRep, nil)
	case TypeRoleReq:
		return reply(TypeRoleRep, body)
	case TypeFlowMod, TypeGroupMod:
		if refused, is := s.change(m); is {
			return refused.of(m)
		}
		return nil
	case TypeMultipartReq:
		typ, _ := m.part()
		out, ok := s.part(typ, body)
		if !ok {
			return BadMultipart.of(m)
		}
		head := append(order.AppendUint16(nil, typ), make([]byte, 6)...)
		return reply(TypeMultipartRep, append(head, out...))
	}
	return nil // hello, asynchronous messages: nothing to say
}

func (s *Memory) change(m Message) (Refusal, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	body := bytes.Clone(m[headerLen:])
	if m.Type() == TypeGroupMod {
		if len(body) < 8 {
			return badLen, true
		}
		switch id := order.Uint32(body[4:]); order.Uint16(body) {
		case 0, 1:
			s.groups[id] = body
		case 2:
			delete(s.groups, id)
		default:
			return badGroupCommand, true
		}
		return Refusal{}, false
	}
	if len(body) < flowModBody+8 {
		return badLen, true
	}
	fields, _, ok := match(body[flowModBody:])
	if !ok {
		return badMatchField, true
	}
	key := string(body[16:17]) + string(body[22:24]) + string(body[flowModBody:][:order.Uint16(body[flowModBody+2:])])
	switch command := body[17]; command {
	case 0: // add
		f := &memoryFlow{mod: body, since: time.Now()}
		if hard := order.Uint16(body[20:]); hard > 0 {
			f.expires = f.since.Add(time.Duration(hard) * time.Second)
		}
		s.flows[key] = f
	case 1, 2: // modify: the timer stays
		if f := s.flows[key]; f != nil {
			f.mod = body
		}
	case strictDelete:
		delete(s.flows, key)
	case flowDelete: // with an empty match and a cookie: all of it
		cookie, mask := order.Uint64(body), order.Uint64(body[8:])
		for key, f := range s.flows {
			if (order.Uint64(f.mod)^cookie)&mask == 0 && (body[16] == 0xff || body[16] == f.mod[16]) && len(fields) == 0 {
				delete(s.flows, key)
			}
		}
	}
	return Refusal{}, false
}

// expire removes what has lived for its hard_timeout, mu held.
func (s *Memory) expire() {
	now := time.Now()
	for key, f := range s.flows {
		if !f.expires.IsZero() && now.After(f.expires) {
			delete(s.flows, key)
		}
	}
}

// part is the body of a multipart answer (§7.3.5); ok is false for one that it has not.
func (s *Memory) part(typ uint16, request []byte) (out []byte, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	switch typ {
	case 0: // description
		for _, d := range []struct {
			text string
			size int
		}{{"csig", 256}, {"memory", 256}, {"1", 256}, {s.Serial, 32}, {s.Serial, 256}} {
			field := make([]byte, d.size)
			copy(field[:d.size-1], d.text)
			out = append(out, field...)
		}
	case partFlow:
		if len(request) < 40 {
			return nil, false
		}
		table, cookie, mask := request[8], order.Uint64(request[24:]), order.Uint64(request[32:])
		for _, f := range s.flows {
			if (table == 0xff || table == f.mod[16]) && (order.Uint64(f.mod)^cookie)&mask == 0 {
				out = f.append(out)
			}
		}
	case 4: // port statistics
		if s.Polled != nil {
			s.Polled()
		}
		for i := range s.Ports {
			stats := make([]byte, 112)
			order.PutUint32(stats, uint32(i+1))
			order.PutUint64(stats[32:], s.Bytes(i+1))
			order.PutUint32(stats[104:], 3600)
			out = append(out, stats...)
		}
	case partGroupDesc:
		for id, mod := range s.groups {
			out = order.AppendUint16(out, uint16(len(mod)))
			out = order.AppendUint32(append(out, mod[2], 0), id)
			out = append(out, mod[8:]...)
		}
	case partGroupFeatures:
		out = make([]byte, 40)
		order.PutUint32(out, 0xf)
		order.PutUint32(out[4:], 1<<3)
	case partTableFeatures:
		for id := range uint8(memoryTables) {
			out = memoryTable(id).append(out)
		}
	case 13: // ports
		for i, name := range s.Ports {
			port := make([]byte, 64)
			order.PutUint32(port, uint32(i+1))
			copy(port[16:31], name)
			order.PutUint32(port[56:], uint32(s.Speed/1000))
			out = append(out, port...)
		}
	default:
		return nil, false
	}
	return out, true
}

// append is a flow as statistics have it (§7.3.5.2).
func (f *memoryFlow) append(out []byte) []byte {
	start := len(out)
	stats := make([]byte, 48)
	stats[2] = f.mod[16]
	order.PutUint32(stats[4:], uint32(time.Since(f.since)/time.Second))
	copy(stats[12:14], f.mod[22:24]) // priority
	copy(stats[14:18], f.mod[18:22]) // timeouts
	copy(stats[18:20], f.mod[36:38]) // flags
	copy(stats[24:32], f.mod[:8])    // cookie
	out = append(append(out, stats...), f.mod[flowModBody:]...)
	order.PutUint16(out[start:], uint16(len(out)-start))
	return out
}

// memoryTable is what csig has to find in a table: the fields with masks, the
// instructions and actions of OpenFlow 1.3, and all later tables.
func memoryTable(id uint8) *TableFeatures {
	t := &TableFeatures{ID: id, name: make([]byte, 32), rest: make([]byte, 4), MetadataMatch: ^uint64(0), MetadataWrite: ^uint64(0), MaxEntries: 4096}
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
	for n := id + 1; n < memoryTables; n++ {
		next = append(next, n)
	}
	matches := bytes.Join([][]byte{field(0, 4, false), field(2, 8, true), field(5, 2, false), field(6, 2, true), field(7, 1, false)}, nil) // IN_PORT, METADATA, ETH_TYPE, VLAN_VID, VLAN_PCP
	sets := bytes.Join([][]byte{field(6, 2, false), field(7, 1, false)}, nil)
	t.props = []prop{
		{PropInstructions, kinds(1, 2, 3, 4, 5)}, {2, next}, {4, kinds(0, 17, 18, 22, 25)}, {6, kinds(0, 17, 18, 22, 25)}, // 4, 6: written and applied actions
		{PropMatch, matches}, {PropWildcards, matches}, {PropWriteSetField, sets}, {PropApplySetField, sets},
	}
	return t
}
