package oftest

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/protocol/memnet"
)

// talker is a controller of single messages.
type talker struct {
	t   *testing.T
	c   net.Conn
	xid uint32
}

func talk(t *testing.T, c net.Conn, err error) *talker {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	k := &talker{t: t, c: c}
	k.send(TypeHello, nil)
	if m := k.next(); m.Type() != TypeHello {
		t.Fatalf("no hello: %x", m)
	}
	return k
}

func dialed(t *testing.T, p *Proxy) *talker {
	t.Helper()
	c, err := p.Dial(t.Context())
	return talk(t, c, err)
}

func (k *talker) send(typ uint8, body []byte) uint32 {
	k.t.Helper()
	k.xid++
	if _, err := k.c.Write(message(typ, k.xid, body)); err != nil {
		k.t.Fatal(err)
	}
	return k.xid
}

// next is the next message that is no question of the switch.
func (k *talker) next() Message {
	k.t.Helper()
	for {
		m, err := readMessage(k.c)
		if err != nil {
			k.t.Fatal(err)
		}
		if m.Type() != TypeEchoRequest {
			return m
		}
	}
}

// refused is the error that comes next, about a transaction.
func (k *talker) refused(xid uint32) Refusal {
	k.t.Helper()
	m := k.next()
	if m.Type() != TypeError || m.XID() != xid {
		k.t.Fatalf("%x in place of an error about %d", m, xid)
	}
	return Refusal{order.Uint16(m[8:]), order.Uint16(m[10:])}
}

func (k *talker) barrier() {
	k.t.Helper()
	xid := k.send(TypeBarrierReq, nil)
	if m := k.next(); m.Type() != TypeBarrierRep || m.XID() != xid {
		k.t.Fatalf("%x in place of the answer to barrier %d", m, xid)
	}
}

func (k *talker) part(typ uint16, body []byte) []Message {
	k.t.Helper()
	xid := k.send(TypeMultipartReq, append(append(order.AppendUint16(nil, typ), 0, 0, 0, 0, 0, 0), body...))
	var out []Message
	for {
		m := k.next()
		if m.XID() != xid || m.Type() != TypeMultipartRep {
			k.t.Fatalf("%x in place of an answer", m)
		}
		out = append(out, m)
		if _, flags := m.part(); flags&1 == 0 {
			return out
		}
	}
}

// flow is an add of one that sends what has a VID out of a port.
func flow(table uint8, vid uint16, instructions ...byte) []byte {
	b := make([]byte, 40)
	b[16], b[31] = table, 100
	for _, at := range []int{24, 28, 32} {
		order.PutUint32(b[at:], 0xffffffff)
	}
	order.PutUint16(b[22:], 100)
	b = append(b, 0, 1, 0, 10, 0x80, 0, 6<<1, 2)
	b = append(order.AppendUint16(b, 0x1000|vid), 0, 0, 0, 0, 0, 0)
	return append(b, instructions...)
}

// apply is an instruction with actions.
func apply(actions ...byte) []byte {
	return append(order.AppendUint16([]byte{0, 4}, uint16(8+len(actions))), append([]byte{0, 0, 0, 0}, actions...)...)
}

func output(port uint32) []byte {
	return append(order.AppendUint32([]byte{0, 0, 0, 16}, port), 0xff, 0xff, 0, 0, 0, 0, 0, 0)
}

// aFlow is what dump-flows shows of flow's.
func aFlow(vid int) string { return fmt.Sprintf("dl_vlan=%d", vid) }

func (s *Memory) has(vid int) bool {
	return slices.ContainsFunc(strings.FieldsFunc(s.Flow("dump-flows"), func(r rune) bool { return strings.ContainsRune(" ,\n", r) }), func(f string) bool { return f == aFlow(vid) })
}

// one is a switch in memory with one port.
func one() *Memory { return &Memory{Ports: []string{"p1"}} }

// TestRefusesExtensions: what Open vSwitch has beyond OpenFlow 1.3 is refused, and
// does not reach it.
func TestRefusesExtensions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := one()
		p := Start(t, Options{Bench: s}, Faults{})
		k := dialed(t, p)
		nicira := []byte{0, 0, 0x23, 0x20}
		load := append([]byte{0xff, 0xff, 0, 16}, append(nicira, 0, 6, 0, 0, 0, 0, 0, 0)...)
		reg := flow(0, 1)
		copy(reg[44:], []byte{0, 1, 0, 2}) // register 0
		for _, tc := range []struct {
			name string
			typ  uint8
			body []byte
			want Refusal
		}{
			{"an experimenter", TypeExperimenter, append(nicira, 0, 0, 0, 24), BadExperimenter},
			{"a bundle of 1.4", 33, make([]byte, 8), BadType},
			{"a bundle of the ONF's for 1.3", TypeExperimenter, []byte{0x4f, 0x4e, 0x46, 0, 0, 0, 8, 0xfc}, BadExperimenter},
			{"an experimenter's statistics", TypeMultipartReq, []byte{0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x23, 0x20, 0, 0, 0, 0}, BadExperimenter},
			{"flow monitors of 1.4", TypeMultipartReq, []byte{0, 16, 0, 0, 0, 0, 0, 0}, BadMultipart},
			{"an action of Nicira's", TypeFlowMod, flow(0, 1, apply(load...)...), badActionVendor},
			{"a register", TypeFlowMod, reg, badMatchField},
			{"an instruction of 1.5", TypeFlowMod, flow(0, 1, 0, 7, 0, 8, 0, 0, 0, 0), badInstruction},
			{"a group added or replaced", TypeGroupMod, []byte{0x80, 0, 0, 0, 0, 0, 0, 1}, badGroupCommand},
			{"a message cut short", TypeFlowMod, make([]byte, 20), badLen},
			{"a match cut short", TypeFlowMod, append(flow(0, 1)[:42], 0xff, 0xff, 0, 0, 0, 0), badMatchType},
		} {
			if got := k.refused(k.send(tc.typ, tc.body)); got != tc.want {
				t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
			}
		}
		k.send(TypeFlowMod, flow(0, 7, apply(output(1)...)...))
		k.barrier()
		if got := s.Flow("dump-flows"); strings.Count(got, "cookie=") != 1 || !s.has(7) {
			t.Errorf("the bridge has\n%s", got)
		}
		if got := p.Counts(); got.FlowMods != 6 || got.GroupMods != 1 || got.Barriers != 1 || got.Multiparts != 2 || got.Messages != 14 || got.Connections != 1 {
			t.Errorf("%+v", got)
		}
		p.Reset()
		if got := p.Counts(); got != (Counts{}) {
			t.Errorf("%+v", got)
		}
	})
}

// TestOneByOne: a change has taken effect when After is called, and the next has
// not.
func TestOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := one()
		var saw []string
		p := Start(t, Options{Bench: s}, Faults{After: func(Message) {
			saw = append(saw, fmt.Sprint(s.has(1), s.has(2), s.has(3)))
		}})
		k := dialed(t, p)
		for vid := range uint16(3) {
			k.send(TypeFlowMod, flow(0, vid+1, apply(output(1)...)...))
		}
		k.barrier()
		if want := []string{"true false false", "true true false", "true true true"}; !slices.Equal(saw, want) {
			t.Errorf("%q", saw)
		}
	})
}

// TestReorders: changes between two barriers come in another order, the same for
// the same seed; a barrier holds.
func TestReorders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := one()
		var saw []byte
		p := Start(t, Options{Bench: s}, Faults{After: func(m Message) { saw = append(saw, m[57]) }}) // the VID's low byte
		k := dialed(t, p)
		orders := map[string]bool{}
		for seed := range uint64(6) {
			p.Set(func(f *Faults) { f.Reorder = seed + 1 })
			saw = nil
			for _, vids := range [][]uint16{{1, 2, 3, 4}, {5, 6}} {
				for _, vid := range vids {
					k.send(TypeFlowMod, flow(0, vid, apply(output(1)...)...))
				}
				k.barrier()
			}
			orders[string(saw)] = true
			slices.Sort(saw[:4])
			slices.Sort(saw[4:])
			if want := []byte{1, 2, 3, 4, 5, 6}; !bytes.Equal(saw, want) {
				t.Errorf("%v", saw)
			}
		}
		if len(orders) < 3 {
			t.Errorf("orders %v", orders)
		}
	})
}

// TestDialsBothWays: the switch dials, too, and csig is called for each connection.
func TestDialsBothWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := one()
		l := memnet.Listen("192.0.2.1:6653")
		defer l.Close()
		p := Start(t, Options{Bench: s, Controller: l.Dial}, Faults{})
		connect := func() (net.Conn, error) {
			there, err := p.Dial(t.Context())
			if err != nil {
				return nil, err
			}
			s.Serve(there)
			return l.Accept()
		}
		c, err := connect()
		k := talk(t, c, err)
		k.send(TypeFlowMod, flow(0, 9, apply(output(1)...)...))
		k.barrier()
		if !s.has(9) {
			t.Error("the flow is not there")
		}
		p.Cut()
		if _, err := readMessage(k.c); err == nil {
			t.Error("a message on a connection that was cut")
		}
		c, err = connect() // the switch comes back
		talk(t, c, err).barrier()
	})
}

// TestAcksBeforeTheWire: barrier and statistics show what the switch does not do
// yet; statistics of its ports are those of the switch.
func TestAcksBeforeTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := one()
		const delay = time.Second
		p := Start(t, Options{Bench: s, Shadow: one()}, Faults{AckToWire: delay})
		k := dialed(t, p)
		k.send(TypeFlowMod, flow(0, 5, apply(output(1)...)...))
		bad := k.send(TypeFlowMod, flow(0, 6, 0, 1, 0, 8, 0, 0, 0, 0)) // goto_table:0 of table 0
		if got := k.refused(bad); got != (Refusal{3, 2}) {
			t.Errorf("%+v", got)
		}
		k.barrier()
		told := k.part(partFlow, slices.Concat([]byte{0xff, 0, 0, 0}, bytes.Repeat([]byte{0xff}, 8), make([]byte, 20), []byte{0, 1, 0, 4, 0, 0, 0, 0}))
		if !bytes.Contains(bytes.Join(toBytes(told), nil), []byte{0x80, 0, 12, 2, 0x10, 5}) {
			t.Errorf("statistics do not show the flow: %x", told)
		}
		if s.has(5) {
			t.Error("the switch has it already")
		}
		if time.Sleep(delay - time.Millisecond); s.has(5) {
			t.Error("the switch has it too early")
		}
		time.Sleep(time.Millisecond)
		if synctest.Wait(); !s.has(5) {
			t.Error("the flow does not come")
		}
		if got := k.part(13, nil); !bytes.Contains(got[0], []byte("p1\x00")) {
			t.Errorf("ports %x", got)
		}
		k.barrier() // the second error, of the switch itself, does not come
	})
}

func toBytes(in []Message) (out [][]byte) {
	for _, m := range in {
		out = append(out, m)
	}
	return out
}

// TestRejectsLate: the barrier is answered first, and the change is not made.
func TestRejectsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := one()
		for _, after := range []time.Duration{0, 50 * time.Millisecond} {
			p := Start(t, Options{Bench: s}, Faults{RejectLate: func(m Message) *Late {
				if bytes.Contains(m, []byte{0x80, 0, 12, 2, 0x10, 2}) {
					return &Late{TableFull, after}
				}
				return nil
			}})
			k := dialed(t, p)
			k.send(TypeFlowMod, flow(0, 1, apply(output(1)...)...))
			xid := k.send(TypeFlowMod, flow(0, 2, apply(output(1)...)...))
			k.barrier()
			if got := k.refused(xid); got != TableFull {
				t.Errorf("%+v", got)
			}
			if !s.has(1) || s.has(2) {
				t.Errorf("the bridge has\n%s", s.Flow("dump-flows"))
			}
		}
	})
}

// TestLimits: a table of a capacity refuses what is more.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := one()
		s.Limit(0, 2)
		p := Start(t, Options{Bench: s}, Faults{Refuse: func(m Message) *Refusal {
			if m.Type() == TypeRoleReq {
				return &Refusal{11, 1}
			}
			return nil
		}})
		k := dialed(t, p)
		for vid := range uint16(2) {
			k.send(TypeFlowMod, flow(0, vid+1))
		}
		if got := k.refused(k.send(TypeFlowMod, flow(0, 3))); got != TableFull {
			t.Errorf("%+v", got)
		}
		if got := k.refused(k.send(TypeRoleReq, make([]byte, 16))); got != (Refusal{11, 1}) {
			t.Errorf("%+v", got)
		}
	})
}

// TestDies: a switch that is silent or dead to its controller, and comes back.
func TestDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := one()
		p := Start(t, Options{Bench: s}, Faults{})
		k := dialed(t, p)
		p.Set(func(f *Faults) { f.Silent = true })
		k.send(TypeBarrierReq, nil)
		if err := k.c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if m, err := readMessage(k.c); err == nil {
			t.Errorf("%x", m)
		}
		p.Set(func(f *Faults) { f.Dead, f.Silent = true, false })
		p.Cut()
		c, err := p.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if m, err := readMessage(c); err == nil {
			t.Errorf("%x", m)
		}
		c.Close()
		p.Set(func(f *Faults) { f.Dead = false })
		dialed(t, p).barrier()
		if synctest.Wait(); p.Connections() != 1 {
			t.Errorf("%d connections", p.Connections())
		}
	})
}
