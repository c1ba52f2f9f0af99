package oftest

import (
	"context"
	"net"
	"slices"
	"time"

	"github.com/csig-agent/csig/vendors/vendorstest/memory"
)

// Bench is a switch that a test operates, and sends frames through: a real Open vSwitch (Switch),
// or one in memory (Memory).
type Bench interface {
	// Dial makes a connection of OpenFlow with the switch itself.
	Dial(ctx context.Context) (net.Conn, error)

	// Flow carries a command of ovs-ofctl out, as an operator does with flows of their own, and
	// returns what that prints.
	Flow(command string, args ...string) string

	// Limit gives a table a capacity.
	Limit(table, entries int)

	// BuiltIn makes what OF-DPA's tables do with a frame that meets no flow.
	BuiltIn()

	// Settled has frames from now on take what the switch's tables have now.
	Settled()

	// Send has frames come in by a port.
	Send(port int, frames ...[]byte)

	// Receive is the next frame that leaves a port; nil where none comes.
	Receive(port int) []byte

	AddPort(name string, number int)
	RemovePort(name string)

	// StopSwitch has the switch end without notice, and StartSwitch start again without its flows.
	StopSwitch()
	StartSwitch()
}

var _ Bench = (*Memory)(nil)

// Send has frames come in by a port.
func (s *Memory) Send(port int, frames ...[]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start()
	s.expire()
	for _, frame := range frames {
		s.port(uint32(port)).port.Receive(frame)
	}
}

// forward has a frame meet the flows.
func (s *Memory) forward(p *memory.Packet) {
	in := slices.IndexFunc(s.ports, func(o *memoryPort) bool { return o.port == p.In })
	s.plane.Forward(p, s.ports[in].number, func(number uint32) *memory.Port {
		if to := s.port(number); to != nil {
			return to.port
		}
		return nil
	})
}

// Receive is the next frame that leaves a port; nil where none did.
func (s *Memory) Receive(port int) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.port(uint32(port))
	if p == nil || len(p.out) == 0 {
		return nil
	}
	frame := p.out[0]
	p.out = p.out[1:]
	return frame
}

func (s *Memory) port(number uint32) *memoryPort {
	for _, p := range s.ports {
		if p.number == number {
			return p
		}
	}
	return nil
}

// Settled does nothing: a frame takes what the tables have.
func (s *Memory) Settled() {}

// Limit gives a table a capacity.
func (s *Memory) Limit(table, entries int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start()
	s.limits[uint8(table)] = entries
}

// AddPort adds a port.
func (s *Memory) AddPort(name string, number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start()
	s.addPort(name, uint32(number))
}

// RemovePort removes the port of a name.
func (s *Memory) RemovePort(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ports = slices.DeleteFunc(s.ports, func(p *memoryPort) bool { return p.name == name })
}

// StartSwitch starts the switch again, without its flows.
func (s *Memory) StartSwitch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = false
}

// StopSwitch ends every connection; flows and groups are gone.
func (s *Memory) StopSwitch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.cut()
	s.deleteFlows(allTables, func(*memoryFlow) bool { return true })
	for id := range s.groups {
		s.deleteGroup(id)
	}
	for _, p := range s.ports {
		p.since, p.out = time.Now(), nil
		p.octets, p.packets = p.port.Sent()
	}
}

// Bloat adds flows to a table until their statistics have so many bytes, and returns how many: each is of another source
// address, and has actions of an experimenter's that do nothing.
func (s *Memory) Bloat(table uint8, cookie uint64, size int) (flows int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start()
	const actions = 60_000
	f := flowText("priority=7,dl_src=06:00:00:00:00:00", flowAdd)
	f[16] = table
	order.PutUint64(f, cookie)
	f = append(f, 0, instApply, (8+actions)>>8, (8+actions)&0xff, 0, 0, 0, 0, 0xff, 0xff, actions>>8, actions&0xff)
	f = append(f, make([]byte, actions-4)...)
	for ; flows*len(f) < size; flows++ {
		f = slices.Clone(f)
		order.PutUint32(f[flowModBody+9:], uint32(flows)) // the middle of the address
		if refused, bad := s.changeFlow(f); bad {
			panic(refused)
		}
	}
	return flows
}

// Count is how many flows the switch has.
func (s *Memory) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	return len(s.flows)
}

// BuiltIn makes what OF-DPA's tables do with a frame that meets no flow.
func (s *Memory) BuiltIn() { builtIn(s) }

// builtIn makes what OF-DPA's tables do with a frame that meets no flow (built_in_flow_mods of its
// table type pattern).
func builtIn(b Bench) {
	for _, flow := range []string{
		"table=0,priority=0,actions=goto_table:10",
		"table=10,priority=0,actions=clear_actions,goto_table:60",
		"table=20,priority=0,actions=goto_table:50",
		"table=50,priority=0,actions=goto_table:60",
		"table=60,priority=0,actions=drop", // the end of the pipeline: the action set is carried out
	} {
		b.Flow("add-flow", flow)
	}
}
