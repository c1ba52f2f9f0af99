package openflow

import (
	"context"
	"errors"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"
)

// flowStats is a flow as the switch answers it.
func flowStats(f *Flow) []byte {
	b := make([]byte, 48)
	b[2] = f.Table
	order.PutUint32(b[4:], f.Age)
	order.PutUint16(b[12:], f.Priority)
	order.PutUint16(b[16:], f.HardTimeout)
	order.PutUint64(b[24:], f.Cookie)
	b = f.Match.append(b)
	b = order.AppendUint16(b, instApply)
	b = order.AppendUint16(b, uint16(8+len(f.Actions)))
	b = append(zeros(b, 4), f.Actions...)
	order.PutUint16(b, uint16(len(b)))
	return b
}

func sample() []Flow {
	m := Match{InPort: 7, EthType: 0x88a8, VID: VLANPresent | 5<<7, VIDMask: VLANPresent | 31<<7, PCP: 2, MatchPCP: true}
	m.Regs[15], m.Regs[14] = Exactly(3), Masked{1 << 16, 1 << 16}
	exact := Match{VID: VLANPresent | 12, VIDMask: 0x1fff}
	every := Actions(nil).Load(14, 9).Move(FieldVLANVID, 0, Reg(13), 0, 12).PushVLAN(0x8100).PopVLAN().PushMPLS(0x8847).PopMPLS(0x88a8).Resubmit(64).Output(4).OutputReg(15)
	return []Flow{
		{Table: 60, Priority: 9, Cookie: 77, HardTimeout: 3, Age: 2, Match: m, Actions: every},
		{Table: 61, Match: exact, Actions: Actions(nil).Note([]byte("hello"))},
	}
}

func TestFlowsAreRead(t *testing.T) {
	var b []byte
	want := sample()
	for i := range want {
		b = append(b, flowStats(&want[i])...)
	}
	got, err := parseFlows(nil, b)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v\nwant %+v", got, err, want)
	}
	if text := string(got[1].Actions.ReadNote()); !strings.HasPrefix(text, "hello") || strings.Trim(text[5:], "\x00") != "" {
		t.Errorf("the note says %q", text)
	}
	const every = "set_field:0x9->reg14,move:OXM_OF_VLAN_VID[0..11]->NXM_NX_REG13[0..11],push_vlan:0x8100,pop_vlan,push_mpls:0x8847,pop_mpls:0x88a8,resubmit(,64),output:4,output:NXM_NX_REG15[]"
	if text := got[0].Actions.Text(); text != every {
		t.Errorf("%s", text)
	}
	if e := got[0].Actions.Effects(); !reflect.DeepEqual(e, Effects{Ports: []uint32{4}, Resubmits: []uint8{64}, Pushes: []uint16{0x8100}, Opaque: true}) {
		t.Errorf("%+v", e)
	}
}

func FuzzParse(f *testing.F) {
	for _, flow := range sample() {
		f.Add(flowStats(&flow))
	}
	f.Add(make([]byte, 120))
	f.Fuzz(func(t *testing.T, b []byte) {
		flows, err := parseFlows(nil, b)
		if err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("%v", err)
		}
		for i := range flows {
			again, rest, err := parseMatch(flows[i].Match.append(nil))
			if err != nil || len(rest) != 0 || again != flows[i].Match {
				t.Errorf("%+v is written and read as %+v, %v", flows[i].Match, again, err)
			}
			flows[i].Actions.Effects()
			flows[i].Actions.ReadNote()
			_ = flows[i].Actions.Text()
		}
		Actions(b).Effects()
		_ = Actions(b).Text()
		_, _ = parsePorts(nil, b)
		_, _ = parsePortStats(nil, b)
		_ = readError(b)
	})
}

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
			if _, err := NewConn(ctx, bridge(t, tc.answers...)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %s", err, tc.want)
			}
		})
	}
}
