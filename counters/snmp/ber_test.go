package snmp

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/gosnmp/gosnmp"
)

func TestOID(t *testing.T) {
	t.Parallel()
	for _, o := range []oid{{1, 3}, {2, 999, 3}, {1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 10, 1}, {1, 3, 127, 128, 16383, 16384, 1<<32 - 1}} {
		got, ok := parseDotted(o.dotted())
		if !ok || fmt.Sprint(got) != fmt.Sprint(o) {
			t.Errorf("%v is %q is %v", o, o.dotted(), got)
		}
		if o[0] == 2 {
			continue // gosnmp encodes the first two as one byte
		}
		p := &pdu{kind: gosnmp.GetRequest}
		p.ask(o, noPort, nColumns)
		if err := p.encode("public"); err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(p.msg, append([]byte{6, byte(len(o.encode(nil)))}, o.encode(nil)...)) {
			t.Errorf("%v: %x, gosnmp has %x", o, o.encode(nil), p.msg)
		}
	}
	base := ifName.oid()
	prefix := base.encode(nil)
	for _, index := range []uint32{0, 1, 127, 128, 436_207_616, 1<<32 - 1} {
		if got, ok := suffix(prefix, base.at(index).encode(nil)); !ok || got != index {
			t.Errorf("index %d is read as %d, %v", index, got, ok)
		}
	}
	for name, b := range map[string][]byte{
		"the prefix alone": prefix,
		"two indexes":      base.at(1, 2).encode(nil),
		"another column":   ifDescr.oid().at(1).encode(nil),
		"unfinished":       append(base.encode(nil), 0x81),
		"33 bits":          append(base.encode(nil), 0x90, 0x80, 0x80, 0x80, 0x00),
	} {
		if _, ok := suffix(prefix, b); ok {
			t.Errorf("%s is taken for an instance", name)
		}
	}
	for _, bad := range []string{"", ".", "1", ".1.", "1..3", "1.x", "1.4294967296", "3.1", "1.40"} {
		if o, ok := parseDotted(bad); ok {
			t.Errorf("%q is %v", bad, o)
		}
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		kind gosnmp.Asn1BER
		body []byte
		want uint64
		bad  bool
	}{
		{gosnmp.Counter64, []byte{0}, 0, false},
		{gosnmp.Counter64, []byte{0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 1<<64 - 1, false},
		{gosnmp.Counter64, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 1<<64 - 1, false},
		{gosnmp.Counter64, []byte{1, 0, 0, 0, 0, 0, 0, 0, 0}, 0, true},
		{gosnmp.Counter64, nil, 0, true},
		{gosnmp.Counter32, []byte{0, 0xff, 0xff, 0xff, 0xff}, 1<<32 - 1, false},
		{gosnmp.Counter32, []byte{0xff, 0xff, 0xff, 0xff}, 1<<32 - 1, false},
		{gosnmp.Counter32, []byte{1, 0, 0, 0, 0}, 0, true},
		{gosnmp.TimeTicks, []byte{1, 2, 3}, 0x10203, false},
		{gosnmp.Integer, []byte{0xff}, 1<<64 - 1, false},
		{gosnmp.Integer, []byte{0x7f}, 127, false},
		{gosnmp.Integer, []byte{1, 2, 3, 4, 5}, 0, true},
		{gosnmp.NoSuchInstance, []byte{1}, 0, true},
	}
	for _, tt := range tests {
		var b binding
		b.set(byte(tt.kind), tt.body)
		if bad := b.kind == damaged; bad != tt.bad || !bad && b.n != tt.want {
			t.Errorf("%v %x: %d %v", tt.kind, tt.body, b.n, b.kind)
		}
	}
}

// twoPorts is a source that knows two ports, for answers made up by a fuzzer.
func twoPorts(t testing.TB) (*Source, *pdu) {
	s, err := New(Config{Device: "d", Address: "192.0.2.1", Community: "public", Ports: []string{"swp1", "swp2"}})
	if err != nil {
		t.Fatal(err)
	}
	s.hasLastChange = true
	var has mask = 1<<nColumns - 1
	for i := range s.ports {
		p := &s.ports[i]
		p.index = uint32(i + 1)
		p.val[ifSpeed] = 1e9
		p.choose(ifName, has, &p.val, DiscardsLearn, false)
		p.got = 0
	}
	p := s.getPDU([]int32{0, 1}, (*port).fullColumns)
	if err := p.encode("public"); err != nil {
		t.Fatal(err)
	}
	return s, p
}

// answerTo makes a valid answer to p.
func answerTo(t testing.TB, p *pdu) []byte {
	answer := gosnmp.SnmpPacket{Version: gosnmp.Version2c, Community: "public", PDUType: gosnmp.GetResponse, RequestID: firstID}
	for i := range p.wants {
		w := &p.wants[i]
		v := gosnmp.SnmpPDU{Type: gosnmp.TimeTicks, Value: uint32(4711)}
		switch {
		case w.col == uptimeScalar:
			v.Name = sysUpTime.at(0).dotted()
		case w.col == lastChangeScalar:
			v.Name = ifTableLastChange.at(0).dotted()
		default:
			v.Name = w.col.oid().at(uint32(w.port + 1)).dotted()
			v.Type = columns[w.col].kind
			switch v.Type {
			case gosnmp.OctetString:
				v.Value = fmt.Appendf(nil, "swp%d", w.port+1)
			case gosnmp.Counter64:
				v.Value = uint64(1)<<40 + uint64(w.port)
			case gosnmp.TimeTicks:
				v.Value = uint32(3)
			case gosnmp.Integer:
				v.Value = 1
			default:
				v.Value = uint(1e9)
			}
		}
		answer.Variables = append(answer.Variables, v)
	}
	msg, err := answer.MarshalMsg()
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

// scripted is a session whose one answer is given.
type scripted struct {
	msg []byte
}

func (f *scripted) prepare(p *pdu) error { return p.encode("public") }
func (f *scripted) exchange(_ context.Context, _ *pdu, a *answer) error {
	a.sent, a.received = time.Unix(1, 0), time.Unix(2, 0)
	if f.msg == nil {
		return ErrNoAnswer
	}
	mine, err := a.parse(f.msg, firstID, "public")
	f.msg = nil
	if err == nil && !mine {
		err = ErrNoAnswer
	}
	return err
}
func (f *scripted) interrupt()   {}
func (f *scripted) close() error { return nil }

// FuzzAnswer gives the source arbitrary bytes as an answer. It must not crash,
// must agree with gosnmp about every message it accepts, and must not make a
// sample out of anything but a binding of the right name and type.
func FuzzAnswer(f *testing.F) {
	_, p := twoPorts(f)
	msg := answerTo(f, p)
	f.Add(msg)
	f.Add(msg[:len(msg)/2])
	spoilt := bytes.Clone(msg)
	spoilt[len(spoilt)-3] ^= 0xff
	f.Add(spoilt)
	f.Add([]byte{0x30, 0x84, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, msg []byte) {
		var r reply
		mine, err := r.parse(msg, firstID, "public")
		if mine && err == nil {
			agree(t, msg, &r)
		}
		openReport(msg)
		s, p := twoPorts(t)
		s.sess = &scripted{bytes.Clone(msg)}
		s.unknown = false
		s.plan = plan{full: []*pdu{p}}
		samples, err := s.Read(t.Context(), nil)
		if err != nil {
			return
		}
		for i, smp := range samples {
			if smp.Err != nil {
				if smp.Octets != 0 || smp.Packets != 0 {
					t.Errorf("error with values: %+v", smp)
				}
				continue
			}
			octets := s.ports[i].val[ifHCOutOctets]
			if smp.Octets != octets || !present(&r, ifHCOutOctets.oid().at(uint32(i+1)), gosnmp.Counter64, octets) {
				t.Errorf("%s: octets %d are not in the answer", smp.Port, smp.Octets)
			}
			if name := ifName.oid().at(uint32(i + 1)).encode(nil); !named(&r, name, smp.Port) {
				t.Errorf("%s: the answer does not name it", smp.Port)
			}
		}
	})
}

func present(r *reply, o oid, kind gosnmp.Asn1BER, n uint64) bool {
	for _, b := range r.binds {
		if bytes.Equal(b.oid, o.encode(nil)) && b.kind == kind && b.n == n {
			return true
		}
	}
	return false
}

func named(r *reply, name []byte, port string) bool {
	for _, b := range r.binds {
		if bytes.Equal(b.oid, name) && string(b.text) == port {
			return true
		}
	}
	return false
}

// agree compares a parsed message with what gosnmp makes of it.
func agree(t *testing.T, msg []byte, r *reply) {
	t.Helper()
	packet, err := (&gosnmp.GoSNMP{}).SnmpDecodePacket(bytes.Clone(msg))
	if err != nil {
		return // it is stricter about values that are not used here
	}
	if len(packet.Variables) != len(r.binds) || packet.RequestID != firstID || uint8(packet.Error) != uint8(r.status) {
		t.Fatalf("%d bindings, request %d, error %v; gosnmp: %d, %d, %d", len(r.binds), firstID, r.status, len(packet.Variables), packet.RequestID, packet.Error)
	}
	for i, v := range packet.Variables {
		b := r.binds[i]
		if b.kind == damaged {
			continue
		}
		if b.kind != v.Type {
			// gosnmp turns some damaged values into others.
			continue
		}
		switch value := v.Value.(type) {
		case uint64:
			if value != b.n {
				t.Errorf("binding %d: %d, gosnmp %d", i, b.n, value)
			}
		case uint:
			if uint64(value) != b.n {
				t.Errorf("binding %d: %d, gosnmp %d", i, b.n, value)
			}
		case uint32:
			if uint64(value) != b.n {
				t.Errorf("binding %d: %d, gosnmp %d", i, b.n, value)
			}
		case int:
			if uint64(int64(value)) != b.n {
				t.Errorf("binding %d: %d, gosnmp %d", i, int64(b.n), value)
			}
		case []byte:
			if b.kind == gosnmp.OctetString && !bytes.Equal(value, b.text) {
				t.Errorf("binding %d: %x, gosnmp %x", i, b.text, value)
			}
		}
	}
}

func TestAnswerTo(t *testing.T) {
	s, p := twoPorts(t)
	s.sess = &scripted{answerTo(t, p)}
	s.unknown = false
	s.plan = plan{full: []*pdu{p}}
	for i, smp := range mustRead(t, s) {
		if smp.Octets != 1<<40+uint64(i) {
			t.Errorf("%+v", smp)
		}
	}
}

func TestRequestID(t *testing.T) {
	_, p := twoPorts(t)
	if got := binary.BigEndian.Uint32(p.msg[p.idAt:]); got != firstID {
		t.Errorf("request-id %#x at %d", got, p.idAt)
	}
	binary.BigEndian.PutUint32(p.msg[p.idAt:], 0x7fffffff)
	packet, err := (&gosnmp.GoSNMP{}).SnmpDecodePacket(bytes.Clone(p.msg))
	if err != nil || packet.RequestID != 0x7fffffff || len(packet.Variables) == 0 {
		t.Errorf("%v, %v", packet, err)
	}
}
