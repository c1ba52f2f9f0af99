package oftest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// soon is how long what must come may take on a busy machine.
const soon = 30 * time.Second

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
	if err := c.SetDeadline(time.Now().Add(2 * soon)); err != nil {
		t.Fatal(err)
	}
	k := &talker{t: t, c: c}
	k.send(TypeHello, nil)
	if m := k.next(); m.Type() != TypeHello {
		t.Fatalf("no hello: %x", m)
	}
	return k
}

func dialed(t *testing.T, p *Proxy) *talker {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
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

func (s *Switch) has(vid int) bool {
	return slices.ContainsFunc(strings.FieldsFunc(s.Flow("dump-flows"), func(r rune) bool { return strings.ContainsRune(" ,\n", r) }), func(f string) bool { return f == aFlow(vid) })
}

// TestRefusesExtensions: what Open vSwitch has beyond OpenFlow 1.3 is refused, and
// does not reach it.
func TestRefusesExtensions(t *testing.T) {
	t.Parallel()
	s := StartSwitch(t, 1)
	p := Start(t, Options{Bridge: s.Path()}, Faults{})
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
	if got := s.Flow("dump-flows"); strings.Count(got, "n_packets") != 1 || !s.has(7) {
		t.Errorf("the bridge has\n%s", got)
	}
	if got := p.Counts(); got.FlowMods != 6 || got.GroupMods != 1 || got.Barriers != 1 || got.Multiparts != 2 || got.Messages != 14 || got.Connections != 1 {
		t.Errorf("%+v", got)
	}
	p.Reset()
	if got := p.Counts(); got != (Counts{}) {
		t.Errorf("%+v", got)
	}
}

// TestOneByOne: a change has taken effect when After is called, and the next has
// not.
func TestOneByOne(t *testing.T) {
	t.Parallel()
	s := StartSwitch(t, 1)
	var saw []string
	p := Start(t, Options{Bridge: s.Path()}, Faults{After: func(Message) {
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
}

// TestReorders: changes between two barriers come in another order, the same for
// the same seed; a barrier holds.
func TestReorders(t *testing.T) {
	t.Parallel()
	s := StartSwitch(t, 1)
	var saw []byte
	p := Start(t, Options{Bridge: s.Path()}, Faults{After: func(m Message) { saw = append(saw, m[57]) }}) // the VID's low byte
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
}

// TestDialsBothWays: the switch dials, too, and csig is called for each connection.
func TestDialsBothWays(t *testing.T) {
	t.Parallel()
	s := StartSwitch(t, 1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := Start(t, Options{Controller: func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
	}}, Faults{})
	s.Vsctl("set-controller", s.Bridge, "tcp:"+p.Addr(), "--", "set", "controller", s.Bridge, "max_backoff=1000")
	c, err := l.Accept()
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
	c, err = l.Accept() // the switch comes back
	talk(t, c, err).barrier()
}

// TestAcksBeforeTheWire: barrier and statistics show what the switch does not do
// yet; statistics of its ports are those of the switch.
func TestAcksBeforeTheWire(t *testing.T) {
	t.Parallel()
	s := StartSwitch(t, 1)
	const delay = time.Second
	p := Start(t, Options{Bridge: s.Path(), Shadow: s.Shadow()}, Faults{AckToWire: delay})
	k := dialed(t, p)
	start := time.Now()
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
	for !s.has(5) {
		if time.Since(start) > soon {
			t.Fatal("the flow never comes")
		}
		<-time.After(10 * time.Millisecond) // to look again
	}
	if d := time.Since(start); d < delay {
		t.Errorf("after %v", d)
	}
	if got := k.part(13, nil); !bytes.Contains(got[0], []byte("p1\x00")) {
		t.Errorf("ports %x", got)
	}
	k.barrier() // the second error, of the switch itself, does not come
}

func toBytes(in []Message) (out [][]byte) {
	for _, m := range in {
		out = append(out, m)
	}
	return out
}

// TestRejectsLate: the barrier is answered first, and the change is not made.
func TestRejectsLate(t *testing.T) {
	t.Parallel()
	s := StartSwitch(t, 1)
	for _, after := range []time.Duration{0, 50 * time.Millisecond} {
		p := Start(t, Options{Bridge: s.Path()}, Faults{RejectLate: func(m Message) *Late {
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
}

// TestLimits: a table of a capacity refuses what is more.
func TestLimits(t *testing.T) {
	t.Parallel()
	s := StartSwitch(t, 1)
	s.Limit(0, 2)
	p := Start(t, Options{Bridge: s.Path()}, Faults{Refuse: func(m Message) *Refusal {
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
}

// TestFeatures: what the switch says of its tables is rewritten, and refused.
func TestFeatures(t *testing.T) {
	t.Parallel()
	s := StartSwitch(t, 1)
	p := Start(t, Options{Bridge: s.Path()}, Faults{})
	k := dialed(t, p)
	plain := tablesOf(t, k.part(partTableFeatures, nil))
	if len(plain) < 100 {
		t.Fatalf("%d tables", len(plain))
	}
	five := plain[5]
	if !five.can(PropMatch, FieldVLANVID, true) || !five.can(PropMatch, FieldMetadata, true) || !five.can(PropApplySetField, FieldVLANVID, false) || five.MetadataWrite == 0 {
		t.Fatalf("%+v", five)
	}
	p.Set(func(f *Faults) { f.Features = func(*TableFeatures) {} })
	again := tablesOf(t, k.part(partTableFeatures, nil))
	for i := range plain {
		if !bytes.Equal(plain[i].append(nil), again[i].append(nil)) {
			t.Errorf("table %d changed", i)
		}
	}
	p.Set(func(f *Faults) {
		f.NoMetadata = true
		f.Features = func(t *TableFeatures) {
			if t.ID == 5 {
				t.Unmask(FieldVLANVID)
				t.Drop(FieldVLANPCP)
				t.DropSet(FieldVLANVID)
				t.MaxEntries = 12
			}
		}
	})
	got := tablesOf(t, k.part(partTableFeatures, nil))
	five, six := got[5], got[6]
	if !five.can(PropMatch, FieldVLANVID, false) || five.can(PropMatch, FieldVLANVID, true) || five.can(PropMatch, FieldVLANPCP, false) || five.can(PropWildcards, FieldVLANPCP, false) ||
		five.can(PropApplySetField, FieldVLANVID, false) || five.can(PropWriteSetField, FieldVLANVID, false) || five.MaxEntries != 12 {
		t.Errorf("%+v", five)
	}
	if !six.can(PropMatch, FieldVLANVID, true) || !six.can(PropApplySetField, FieldVLANVID, false) || six.MaxEntries == 12 {
		t.Errorf("%+v", six)
	}
	for _, x := range got {
		if x.can(PropMatch, FieldMetadata, false) || x.can(PropMatch, FieldMetadata, true) || x.MetadataWrite != 0 || x.MetadataMatch != 0 {
			t.Errorf("table %d has metadata", x.ID)
		}
	}
	if got := k.refused(k.send(TypeFlowMod, flow(0, 1, 0, 2, 0, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1))); got != unsupMetadata {
		t.Errorf("write_metadata: %+v", got)
	}
	p.Set(func(f *Faults) { f.NoFeatures = true })
	if got := k.refused(k.send(TypeMultipartReq, []byte{0, partTableFeatures, 0, 0, 0, 0, 0, 0})); got != BadMultipart {
		t.Errorf("%+v", got)
	}
}

func tablesOf(t *testing.T, parts []Message) (out []*TableFeatures) {
	t.Helper()
	for _, m := range parts {
		all, ok := records(m[16:], 0, featuresLen)
		if !ok {
			t.Fatalf("%x", m)
		}
		for _, b := range all {
			f, ok := parseFeatures(b)
			if !ok {
				t.Fatalf("%x", b)
			}
			out = append(out, f)
		}
	}
	return out
}

// can reports whether a property names a field.
func (f *TableFeatures) can(typ uint16, id uint8, masked bool) bool {
	for _, p := range f.props {
		in, _ := fields(p.body, false)
		if p.typ == typ && slices.ContainsFunc(in, func(x field) bool { return x.class == classBasic && x.id == id && x.masked == masked }) {
			return true
		}
	}
	return false
}

// TestDies: a switch that is silent or dead to its controller, and comes back.
func TestDies(t *testing.T) {
	t.Parallel()
	s := StartSwitch(t, 1)
	p := Start(t, Options{Bridge: s.Path()}, Faults{})
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
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if m, err := readMessage(c); err == nil {
		t.Errorf("%x", m)
	}
	c.Close()
	p.Set(func(f *Faults) { f.Dead = false })
	dialed(t, p).barrier()
	if p.Connections() != 1 {
		t.Errorf("%d connections", p.Connections())
	}
}
