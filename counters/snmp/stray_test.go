package snmp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gosnmp/gosnmp"
)

// strays are datagrams that are no answer to a request, made from an answer to it.
func strays(msg []byte) [][]byte {
	at, _ := requestIDLoose(msg)
	edit := func(f func(b []byte)) []byte {
		b := bytes.Clone(msg)
		f(b)
		return b
	}
	return [][]byte{
		nil, {0}, {0x30}, {0x30, 0x84, 0xff, 0xff, 0xff, 0xff}, []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
		bytes.Repeat([]byte{0x30, 0x80}, 3000), bytes.Repeat([]byte{0xff}, 60_000),
		msg[:at], msg[:at+2],
		edit(func(b []byte) { binary.BigEndian.PutUint32(b[at:], binary.BigEndian.Uint32(b[at:])+1) }),
		edit(func(b []byte) { binary.BigEndian.PutUint32(b[at:], binary.BigEndian.Uint32(b[at:])-1) }),
		edit(func(b []byte) { binary.BigEndian.PutUint32(b[at:], 0) }),
		edit(func(b []byte) { b[bytes.Index(b, []byte("public"))] = 'P' }),
		edit(func(b []byte) { b[bytes.Index(b, []byte{2, 1, 1})+2] = 0 }),
		edit(func(b []byte) { b[bytes.LastIndexByte(msg[:at], byte(gosnmp.GetResponse))] = byte(gosnmp.GetRequest) }),
		edit(func(b []byte) { b[bytes.LastIndexByte(msg[:at], byte(gosnmp.GetResponse))] = byte(gosnmp.Report) }),
	}
}

// No datagram that is no answer ends an exchange, shifts it to another answer or costs
// a retry, and request-ids cannot be foreseen.
func TestStrayDatagrams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t)
		cfg := a.config(a.many(3)...)
		cfg.Timeout, cfg.Retries = 5*time.Second, -1
		s := open(t, cfg)
		var ids []uint32
		var late []byte
		a.with(func() {
			a.before = func(n int, req *gosnmp.SnmpPacket) {
				ids = append(ids, req.RequestID)
				a.put(ifHCOutOctets.oid().at(1), gosnmp.Counter64, uint64(n))
			}
			a.send = func(_ int, _ *gosnmp.SnmpPacket, msg []byte) [][]byte {
				out := append(strays(msg), late, msg)
				late = msg
				return out
			}
		})
		last := uint64(0)
		for range 20 {
			list := mustRead(t, s)
			if list[0].Octets <= last || list[1].Octets != 2000 || list[2].Octets != 3000 {
				t.Errorf("%+v after %d", list, last)
			}
			last = list[0].Octets
		}
		a.with(func() {
			slices.Sort(ids)
			near := 0
			for i := 1; i < len(ids); i++ {
				if ids[i]-ids[i-1] < 1<<10 {
					near++
				}
			}
			if near > 2 || ids[0] < firstID {
				t.Errorf("request-ids that can be foreseen: %d", ids)
			}
		})
	})
}

// Strays alone are no answer, and say what they are.
func TestNothingButStrays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t)
		cfg := a.config(a.many(1)...)
		cfg.Timeout, cfg.Retries = 50*time.Millisecond, -1
		s := open(t, cfg)
		a.with(func() { a.send = func(_ int, _ *gosnmp.SnmpPacket, msg []byte) [][]byte { return strays(msg) } })
		if _, err := s.Read(t.Context(), nil); !errors.Is(err, ErrNoAnswer) || !errors.Is(err, ErrMalformed) {
			t.Errorf("%v", err)
		}
	})
}

// meddler passes datagrams on to an agent and back, with strays in front of each
// answer, and returns its port.
func meddler(t *testing.T, agent uint16, strays func(answer []byte) [][]byte) uint16 {
	t.Helper()
	in, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	out, err := net.DialUDP("udp", nil, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(agent)})
	if err != nil {
		in.Close()
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1<<16)
		for {
			n, from, err := in.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			if _, err = out.Write(buf[:n]); err != nil {
				return
			}
			if n, err = out.Read(buf); err != nil {
				return
			}
			answer := bytes.Clone(buf[:n])
			for _, msg := range append(strays(answer), answer) {
				if _, err := in.WriteToUDPAddrPort(msg, from); err != nil {
					return
				}
			}
		}
	}()
	t.Cleanup(func() {
		in.Close()
		out.Close()
		<-done
	})
	return uint16(in.LocalAddr().(*net.UDPAddr).Port)
}

// An answer has at most as many bindings as any request asks for.
func TestAnswerOfTooManyBindings(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]bool{maxBindings: true, maxBindings + 1: false} {
		packet := &gosnmp.SnmpPacket{Version: gosnmp.Version2c, Community: "public", PDUType: gosnmp.GetResponse, RequestID: firstID}
		for range n {
			packet.Variables = append(packet.Variables, gosnmp.SnmpPDU{Name: ".1.3.6", Type: gosnmp.Null})
		}
		msg, err := packet.MarshalMsg()
		if err != nil {
			t.Fatal(err)
		}
		var r reply
		if mine, err := r.parse(msg, firstID, "public"); !mine || (err == nil) != want || len(r.binds) > maxBindings {
			t.Errorf("%d bindings: %v, %v", n, mine, err)
		}
	}
}
