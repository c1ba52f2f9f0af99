package ofp

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
)

func parseFlows(b []byte) (flows []Flow, err error) {
	err = eachFlow(b, func(f *Flow) error {
		flows = append(flows, *f)
		return nil
	})
	return flows, err
}

// flowStats is a flow as the switch answers it.
func flowStats(f *Flow) []byte {
	b := make([]byte, 48)
	b[2] = f.Table
	order.PutUint32(b[4:], f.Age)
	order.PutUint16(b[12:], f.Priority)
	order.PutUint16(b[14:], f.IdleTimeout)
	order.PutUint16(b[16:], f.HardTimeout)
	order.PutUint16(b[18:], f.Flags)
	order.PutUint64(b[24:], f.Cookie)
	order.PutUint64(b[32:], f.Packets)
	b = f.Match.append(b)
	b = f.appendInstructions(b)
	order.PutUint16(b, uint16(len(b)))
	return b
}

func sample() []Flow {
	m := Match{InPort: 7, EthType: 0x88a8, VID: VLANPresent | 5<<7, VIDMask: VLANPresent | 31<<7, PCP: 2, MatchPCP: true}
	m.Regs[15], m.Regs[14], m.Mark = Exactly(3), Masked{1 << 16, 1 << 16}, Masked{1 << 29, 3 << 29}
	exact := Match{VID: VLANPresent | 12, VIDMask: 0x1fff, Mark: Exactly(7)}
	every := Actions(nil).Load(14, 9).Move(FieldVLANVID, 0, Reg(13), 0, 12).PushVLAN(0x8100).PopVLAN().PushMPLS(0x8847).PopMPLS(0x88a8).Resubmit(64).LoadBits(FieldPktMark, 29, 2, 3).Group(7).Output(4).OutputReg(15)
	return []Flow{
		{Table: 60, Priority: 9, Cookie: 77, HardTimeout: 3, Age: 2, Match: m, Actions: every},
		{Table: 61, Match: exact, Actions: Actions(nil).Note([]byte("hello"))},
		{Table: 3, IdleTimeout: 7, Flags: FlagSendRemoved | FlagCheckOverlap, Packets: 1 << 40, Match: Match{Metadata: Masked64{5, 0xfff}, VID: VLANPresent, VIDMask: VLANPresent},
			Actions: Actions(nil).SetVID(0x105).SetPCP(3), Clear: true, Write: Actions(nil).PopVLAN().Output(3), Metadata: Masked64{1 << 40, 1<<40 | 1}, Goto: 7, Goes: true},
		{Table: 4, Match: Match{Metadata: Masked64{1 << 63, math.MaxUint64}}, Goes: true},
	}
}

func TestFlowsAreRead(t *testing.T) {
	var b []byte
	want := sample()
	for i := range want {
		b = append(b, flowStats(&want[i])...)
	}
	got, err := parseFlows(b)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v\nwant %+v", got, err, want)
	}
	if text := string(got[1].Actions.ReadNote()); !strings.HasPrefix(text, "hello") || strings.Trim(text[5:], "\x00") != "" {
		t.Errorf("the note says %q", text)
	}
	const every = "set_field:0x9->reg14,move:OXM_OF_VLAN_VID[0..11]->NXM_NX_REG13[0..11],push_vlan:0x8100,pop_vlan,push_mpls:0x8847,pop_mpls:0x88a8,resubmit(,64),load:0x3->NXM_NX_PKT_MARK[29..30],group:7,output:4,output:NXM_NX_REG15[]"
	if text := got[0].Actions.Text(); text != every {
		t.Errorf("%s", text)
	}
	if e := got[0].Actions.Effects(); !reflect.DeepEqual(e, Effects{Ports: []uint32{4}, Resubmits: []uint8{64}, Pushes: []uint16{0x8100}, Groups: []uint32{7}, Opaque: true}) {
		t.Errorf("%+v", e)
	}
}

// groupDesc is a group as the switch answers it.
func groupDesc(g *Group) []byte {
	b := g.appendBuckets(order.AppendUint32([]byte{0, 0, g.Type, 0}, g.ID))
	order.PutUint16(b, uint16(len(b)))
	return b
}

func TestGroupsAreRead(t *testing.T) {
	want := []Group{{ID: 1, Type: GroupIndirect, Buckets: []Actions{Actions(nil).Resubmit(65)}}, {ID: 2, Buckets: []Actions{Actions(nil).Output(4), Actions(nil).Group(1)}}}
	b := append(groupDesc(&want[0]), groupDesc(&want[1])...)
	got, err := parseGroups(nil, b)
	if err != nil || !reflect.DeepEqual(got, want) || got[0].Same(&got[1]) || got[1].Buckets[1].Text() != "group:1" {
		t.Errorf("%+v, %v\nwant %+v", got, err, want)
	}
	for _, cut := range []int{4, 20, len(b) - 8} {
		if _, err := parseGroups(nil, b[:cut]); !errors.Is(err, ErrMalformed) {
			t.Errorf("%d bytes of it: %v", cut, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(groupDesc(&Group{ID: 1, Buckets: []Actions{Actions(nil).Output(4), nil}}))
	for _, flow := range sample() {
		f.Add(flowStats(&flow))
	}
	f.Add(make([]byte, 120))
	f.Fuzz(func(t *testing.T, b []byte) {
		flows, err := parseFlows(b)
		if err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("%v", err)
		}
		for i := range flows {
			again, rest, err := parseMatch(flows[i].Match.append(nil))
			if err != nil || len(rest) != 0 || again != flows[i].Match {
				t.Errorf("%+v is written and read as %+v, %v", flows[i].Match, again, err)
			}
			was, same := flows[i], flows[i]
			if err := same.instructions(was.appendInstructions(nil)); err != nil || !reflect.DeepEqual(same, was) {
				t.Errorf("%+v is written and read as %+v, %v", was, same, err)
			}
			flows[i].Actions.Effects()
			flows[i].Actions.ReadNote()
			_ = flows[i].Actions.Text()
		}
		Actions(b).Effects()
		_ = Actions(b).Text()
		groups, err := parseGroups(nil, b)
		if err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("%v", err)
		}
		for i := range groups {
			again, err := parseGroups(nil, groupDesc(&groups[i]))
			if err != nil || len(again) != 1 || !again[0].Same(&groups[i]) {
				t.Errorf("%+v is written and read as %+v, %v", groups[i], again, err)
			}
		}
		for _, v := range []Version{Version13, Version14} {
			_, _ = parsePorts(nil, v, b)
			_, _ = parsePortStats(nil, v, b)
		}
		_ = readError(b)
	})
}

// FuzzFeatures reads what switches say of themselves, in both versions.
func FuzzFeatures(f *testing.F) {
	f.Add(tableFeatures())
	f.Add(make([]byte, 4*descLen+serialLen))
	f.Add(make([]byte, 2*portLen13))
	f.Fuzz(func(t *testing.T, b []byte) {
		tables, err := parseTableFeatures(nil, b)
		if err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("%v", err)
		}
		for i := range tables {
			tables[i].Matches(FieldVLANVID)
			tables[i].Next.Has(255)
			if strings.ContainsFunc(tables[i].Name, unicode.IsControl) {
				t.Errorf("a name: %q", tables[i].Name)
			}
		}
		if d, err := parseDesc(b); err == nil && strings.ContainsFunc(d.Maker+d.Hardware+d.Software+d.Serial+d.Datapath, unicode.IsControl) {
			t.Errorf("%q", d)
		}
		_, _ = parseDatapath(b)
		theirs(received{version: Version13, body: b})
		if v := agree(1<<Version13, theirs(received{version: newest, body: b})); v != 0 && v != Version13 {
			t.Errorf("OpenFlow %s is agreed on", v)
		}
	})
}

// FuzzConn has a switch that sends anything to a connection with questions under way.
func FuzzConn(f *testing.F) {
	f.Add(message(byte(Version13), typeError, 3, 0, 5, 0, 1))
	f.Add(part(partDesc, 1, 4))
	f.Add(message(byte(Version13), typeEchoRequest, 9, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		o := &Conn{Version: Version13, pending: map[uint32]*request{}, echoes: make(chan []byte, 4), done: make(chan struct{}), c: &replay{b: b}}
		flows := 0
		for xid := range uint32(8) {
			want := request{xid: 10 * xid, low: 10*xid - min(xid, 5), typ: typeMultipartRep, part: partFlow, each: func(b []byte) error { flows += len(b); return nil }}
			if xid%2 == 0 {
				want.typ, want.first, want.mods = typeBarrierRep, want.low, adds(1, 2)
			}
			if _, err := o.expect(want); err != nil {
				t.Fatal(err)
			}
		}
		o.reader()
		if o.Err() == nil || len(o.pending) > 0 || len(o.late) > keptNames || flows > len(b) {
			t.Errorf("%v, %d questions wait", o.Err(), len(o.pending))
		}
	})
}

// replay is a connection on which bytes come, and then its end.
type replay struct {
	net.Conn
	b []byte
}

func (r *replay) Read(b []byte) (int, error) {
	if len(r.b) == 0 {
		return 0, io.EOF
	}
	n := copy(b, r.b)
	r.b = r.b[n:]
	return n, nil
}

func (r *replay) Close() error { return nil }

// bridge answers with what it is told, whatever it is asked.
func bridge(t *testing.T, answers ...[]byte) net.Conn {
	here, there := net.Pipe()
	t.Cleanup(func() { here.Close(); there.Close() })
	go func() {
		for _, a := range answers {
			if _, err := there.Write(a); err != nil {
				return
			}
		}
	}()
	go func() {
		b := make([]byte, 1<<16)
		for {
			if _, err := there.Read(b); err != nil {
				return
			}
		}
	}()
	return here
}

// version is that of most tests, Open vSwitch's.
const version = Version14

func message(v, typ byte, xid uint32, body ...byte) []byte {
	b := append([]byte{v, typ, 0, 0, 0, 0, 0, 0}, body...)
	order.PutUint32(b[4:], xid)
	end(b, 0)
	return b
}

// TestBridgesThatAreNone has answers that no Open vSwitch 2.8 gives.
func TestBridgesThatAreNone(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		answers    [][]byte
	}{
		{"another version", "no OpenFlow version in common", [][]byte{message(1, typeHello, 1)}},
		{"another protocol", "malformed OpenFlow", [][]byte{[]byte("SSH-2.0-OpenSSH\r\n")}},
		{"a message without a length", "malformed OpenFlow", [][]byte{{5, 0, 0, 4, 0, 0, 0, 0}}},
		{"a refusal", "no OpenFlow version in common", [][]byte{message(1, typeError, 1, 0, 0, 0, 0)}},
		{"silence", "no answer", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("no answer"))
			defer cancel()
			if _, err := NewConn(ctx, bridge(t, tc.answers...), version); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %s", err, tc.want)
			}
		})
	}
}

// TestConditions reads conditions that csig makes none of: they are kept as they
// are where Match has no place for them.
func TestConditions(t *testing.T) {
	condition := func(class uint16, field int, masked bool, value ...byte) []byte {
		return append(oxm(nil, class, field, masked, uint8(len(value))), value...)
	}
	every := []byte{0xff, 0xff, 0xff, 0xff}
	for _, tc := range []struct {
		name string
		b    []byte
		want Match
		kept bool // in Else
	}{
		{"a port", condition(classBasic, fieldInPort, false, 0, 0, 0, 7), Match{InPort: 7}, false},
		{"part of a port", condition(classBasic, fieldInPort, true, 0, 0, 0, 7), Match{}, true},
		{"a port of two bytes", condition(classBasic, fieldInPort, false, 0, 7), Match{}, true},
		{"port 0", condition(classBasic, fieldInPort, false, 0, 0, 0, 0), Match{}, true},
		{"the same field of another class", condition(classNXM1, registers, false, 0, 0, 0, 7), Match{}, true},
		{"an ethertype", condition(classBasic, fieldEthType, false, 8, 0), Match{EthType: 0x800}, false},
		{"part of an ethertype", condition(classBasic, fieldEthType, true, 8, 0), Match{}, true},
		{"an ethertype of one byte", condition(classBasic, fieldEthType, false, 8), Match{}, true},
		{"ethertype 0", condition(classBasic, fieldEthType, false, 0, 0), Match{}, true},
		{"a VID", condition(classBasic, fieldVLANVID, false, 0x10, 5), Match{VID: 0x1005, VIDMask: 0x1fff}, false},
		{"a VID of one byte", condition(classBasic, fieldVLANVID, false, 5), Match{}, true},
		{"part of a VID", condition(classBasic, fieldVLANVID, true, 0x10, 0, 0x10, 0), Match{VID: 0x1000, VIDMask: 0x1000}, false},
		{"nothing of a VID", condition(classBasic, fieldVLANVID, true, 0, 0, 0, 0), Match{}, true},
		{"part of a VID without its mask", condition(classBasic, fieldVLANVID, true, 0x10, 0), Match{}, true},
		{"metadata", condition(classBasic, fieldMetadata, false, 0, 0, 0, 0, 0, 0, 1, 7), Match{Metadata: Masked64{0x107, math.MaxUint64}}, false},
		{"part of the metadata", condition(classBasic, fieldMetadata, true, 0, 0, 0, 0, 0, 0, 1, 7, 0, 0, 0, 0, 0, 0, 15, 255), Match{Metadata: Masked64{0x107, 0xfff}}, false},
		{"nothing of the metadata", condition(classBasic, fieldMetadata, true, make([]byte, 16)...), Match{}, true},
		{"metadata of four bytes", condition(classBasic, fieldMetadata, false, 0, 0, 1, 7), Match{}, true},
		{"a PCP", condition(classBasic, fieldVLANPCP, false, 0), Match{MatchPCP: true}, false},
		{"part of a PCP", condition(classBasic, fieldVLANPCP, true, 1, 1), Match{}, true},
		{"a PCP of two bytes", condition(classBasic, fieldVLANPCP, false, 0, 1), Match{}, true},
		{"a register", condition(classNXM1, 0, false, 0, 0, 0, 7), Match{Regs: [registers]Masked{Exactly(7)}}, false},
		{"part of a register", condition(classNXM1, 0, true, append([]byte{0, 0, 0, 7}, every...)...), Match{Regs: [registers]Masked{Exactly(7)}}, false},
		{"nothing of a register", condition(classNXM1, 0, true, make([]byte, 8)...), Match{}, true},
		{"a register of two bytes", condition(classNXM1, 0, false, 0, 7), Match{}, true},
		{"a register that csig does not know", condition(classNXM1, registers, false, 0, 0, 0, 7), Match{}, true},
		{"part of one", condition(classNXM1, registers, true, append([]byte{0, 0, 0, 7}, every...)...), Match{}, true},
		{"a field of another class", condition(2, 0, true, append([]byte{0, 0, 0, 7}, every...)...), Match{}, true},
	} {
		b := append([]byte{0, 1, 0, byte(4 + len(tc.b))}, tc.b...)
		if tc.kept {
			tc.want.Else = string(tc.b)
		}
		m, rest, err := parseMatch(append(pad(b, 0), 0xaa))
		if err != nil || m != tc.want || len(rest) != 1 {
			t.Errorf("%s: %+v and %x, %v", tc.name, m, rest, err)
		}
	}
	cut := append([]byte{0, 1, 0, 10}, make([]byte, 12)...)
	for _, b := range [][]byte{nil, {0, 1, 0}, {0, 2, 0, 4, 0, 0, 0, 0}, {0, 1, 0, 3, 0, 0, 0, 0}, {0, 1, 0, 9, 0, 0, 0, 0}, {0, 1, 0, 7, 0, 0, 0, 0}, {0, 1, 0, 8, 0, 0, 0, 1}} {
		if _, _, err := parseMatch(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%x: %v", b, err)
		}
	}
	for _, b := range [][]byte{{0}, make([]byte, 47)} {
		if _, err := parseFlows(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%x: %v", b, err)
		}
	}
	// A flow whose condition or instructions are malformed is no flow.
	head := make([]byte, 48)
	for _, rest := range [][]byte{cut, {0, 1, 0, 4, 0, 0, 0, 0, 0, instApply, 0, 7, 0, 0, 0, 0}} {
		b := slices.Concat(head, rest)
		order.PutUint16(b, uint16(len(b)))
		if flows, err := parseFlows(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%x: %+v, %v", rest, flows, err)
		}
	}
}

// TestActionText writes actions of others: what csig does not make is counted, not
// read as something else.
func TestActionText(t *testing.T) {
	vendor := func(length int, subtype uint16) Actions {
		return zeros(Actions(nil).vendor(length, subtype), length-10)
	}
	for _, tc := range []struct {
		want string
		a    Actions
	}{
		{"clone(output:5,resubmit(,61))", append(zeros(Actions(nil).vendor(48, nxClone), 6), Actions(nil).Output(5).Resubmit(61)...)},
		{"note:68.69.00.00.00.00", Actions(nil).Note([]byte("hi"))},
		{"action 65535/1", vendor(24, 1)},
		{"action 65535/1", vendor(16, 1)},
		{"action 65535/15", vendor(32, nxOutputReg)},
		{"action 65535/6", vendor(32, nxRegMove)},
		{"action 65535/0", Actions{0xff, 0xff, 0, 16, 0, 0, 0x4f, 0x4e, 0, 15, 0, 0, 0, 0, 0, 0}},
		{"action 65535/0", Actions{0xff, 0xff, 0, 8, 0, 0, 0x23, 0x20}},
		{"set_field:4357->vlan_vid,set_field:3->vlan_pcp", Actions(nil).SetVID(0x105).SetPCP(3)},
		{"action 25/0", Actions{0, actSetField, 0, 16, 0x80, 0, 10, 2, 16, 5, 0, 0, 0, 0, 0, 0}},
		{"action 25/0", Actions{0, actSetField, 0, 16, 0x80, 0, 0, 4, 0, 0, 0, 7, 0, 0, 0, 0}},
		{"action 25/0", append(Actions{0, actSetField, 0, 24, 0, 1, 0, 4}, make([]byte, 16)...)},
		{"malformed", Actions{0, 0, 0, 7, 0, 0, 0, 0}},
	} {
		if got := tc.a.Text(); got != tc.want {
			t.Errorf("%x: %s, want %s", []byte(tc.a), got, tc.want)
		}
	}
	if text := append(Actions(nil).OutputReg(1).Note([]byte("first!")), Actions(nil).Note([]byte("second"))...).ReadNote(); string(text) != "first!" {
		t.Errorf("the first note is %q", text)
	}
}

// TestSame compares actions that a switch may return otherwise than they were written.
func TestSame(t *testing.T) {
	output := func(port uint32, most uint16) Actions {
		return zeros(order.AppendUint16(order.AppendUint32(Actions{0, actOutput, 0, 16}, port), most), 6)
	}
	padded := func(a Actions, at int) Actions { a[at] = 1; return a }
	for _, tc := range []struct {
		name string
		a, b Actions
		want bool
	}{
		{"none", nil, Actions{}, true},
		{"how much of it a port gets", output(7, 0), output(7, 0xffff), true},
		{"how much of it a controller gets", output(PortController, 0), output(PortController, 0xffff), false},
		{"another port", output(7, 0), output(8, 0), false},
		{"padding of a VID", Actions(nil).SetVID(5), padded(Actions(nil).SetVID(5), 12), true},
		{"another VID", Actions(nil).SetVID(5), Actions(nil).SetVID(6), false},
		{"another field", Actions(nil).SetPCP(5), Actions(nil).SetVID(5), false},
		{"padding of a pop", Actions(nil).PopVLAN(), padded(Actions(nil).PopVLAN(), 7), true},
		{"padding of a push", Actions(nil).PushVLAN(0x8100), padded(Actions(nil).PushVLAN(0x8100), 7), true},
		{"another TPID", Actions(nil).PushVLAN(0x8100), Actions(nil).PushVLAN(0x88a8), false},
		{"another group", Actions(nil).Group(1), Actions(nil).Group(2), false},
		{"one more", Actions(nil).SetVID(5).Output(1), Actions(nil).SetVID(5), false},
		{"another order", Actions(nil).SetVID(5).Output(1), Actions(nil).Output(1).SetVID(5), false},
		{"malformed and the same", Actions{0, 0, 0, 7, 0, 0, 0, 0}, Actions{0, 0, 0, 7, 0, 0, 0, 0}, true},
		{"another register's value", Actions(nil).Load(1, 5), Actions(nil).Load(1, 6), false},
		{"cut within", Actions(nil).Output(1), Actions(nil).Output(1)[:12], false},
		{"cut within, of another padding", Actions(nil).SetVID(1), padded(Actions(nil).SetVID(1), 14)[:15], false},
		{"cut short", Actions{0, 0, 0}, Actions{0, 0, 0, 0}, false},
	} {
		if got := tc.a.Same(tc.b); got != tc.want || tc.b.Same(tc.a) != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
	plain := Flow{Actions: Actions(nil).Output(1), Goto: 3, Goes: true}
	for name, f := range map[string]Flow{"actions": {Goto: 3, Goes: true}, "no goto": {Actions: plain.Actions}, "goto": {Actions: plain.Actions, Goto: 4, Goes: true}} {
		if !f.Plain() || f.SameInstructions(&plain) {
			t.Errorf("%s: %+v", name, f)
		}
	}
	for name, change := range map[string]func(*Flow){"other": func(f *Flow) { f.Other = true }, "clear": func(f *Flow) { f.Clear = true }, "write": func(f *Flow) { f.Write = plain.Actions }, "metadata": func(f *Flow) { f.Metadata.Mask = 1 }} {
		f := plain
		if change(&f); f.Plain() || f.SameInstructions(&plain) || !f.SameInstructions(&f) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
