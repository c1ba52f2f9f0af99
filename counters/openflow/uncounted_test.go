package openflow

import (
	"context"
	"encoding/binary"
	"io"
	"math"
	"net"
	"testing"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/vendors/openflow/ofp"
)

// TestNotCounted has a switch that does not keep a counter, which it returns as all ones:
// that is no idle port.
func TestNotCounted(t *testing.T) {
	for name, tc := range map[string]struct {
		packets, octets uint64
		fails           bool
	}{"both": {7, 700, false}, "no bytes": {7, math.MaxUint64, true}, "no packets": {math.MaxUint64, 700, true}} {
		here, there := net.Pipe()
		go serve(there, tc.packets, tc.octets, 0)
		connect, done := ofp.Dialed(func(context.Context) (net.Conn, error) { return here, nil }, ofp.Version13)
		src, err := New(Config{Switch: "switch", Ports: []string{"p1"}, Connect: connect, Done: done})
		if err != nil {
			t.Fatal(err)
		}
		got, err := src.Read(t.Context(), nil)
		if err != nil || len(got) != 1 || (got[0].Err != nil) != tc.fails || !tc.fails && got[0].Octets != tc.octets {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestRestartedMeanwhile has a switch connect again: where its ports are younger than the
// time since the last reading has made them, they count from 0, even if they are older
// than they were then.
func TestRestartedMeanwhile(t *testing.T) {
	for name, tc := range map[string]struct {
		was, is uint32
		outage  time.Duration
		again   bool
	}{
		"it ran on":                  {10, 70, time.Minute, false},
		"its clock is slow":          {1000, 87000, 24 * time.Hour, false},
		"it restarted long ago":      {10, 50, time.Minute, true},
		"it restarted now":           {10, 3, time.Minute, true},
		"it was away for an instant": {10, 10, 300 * time.Millisecond, false},
		"it keeps no ages":           {math.MaxUint32, math.MaxUint32, time.Minute, true}, // it may have
	} {
		now, age := time.Unix(1e9, 0), tc.was
		connect, done := ofp.Dialed(func(context.Context) (net.Conn, error) {
			here, there := net.Pipe()
			go serve(there, 7, 700, age)
			return here, nil
		}, ofp.Version13)
		src, err := New(Config{Switch: "switch", Ports: []string{"p1"}, Connect: connect, Done: done, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		read := func() counters.Sample {
			got, err := src.Read(t.Context(), nil)
			if err != nil || len(got) != 1 {
				t.Fatalf("%s: %+v, %v", name, got, err)
			}
			return got[0]
		}
		before := read()
		if err := done(); err != nil {
			t.Fatal(err)
		}
		now, age = now.Add(tc.outage), tc.is
		if after := read(); (after.Epoch != before.Epoch) != tc.again {
			t.Errorf("%s: epoch %d, before %d", name, after.Epoch, before.Epoch)
		}
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	}
}

// serve is a switch of OpenFlow 1.3 with one port.
func serve(c net.Conn, packets, octets uint64, age uint32) {
	defer c.Close()
	send := func(typ byte, xid uint32, body []byte) error {
		b := binary.BigEndian.AppendUint16([]byte{4, typ}, uint16(8+len(body)))
		_, err := c.Write(append(binary.BigEndian.AppendUint32(b, xid), body...))
		return err
	}
	const hello, features, multipart, portStats = 0, 5, 18, 4
	for {
		var head [8]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint16(head[2:])-8)
		if _, err := io.ReadFull(c, body); err != nil {
			return
		}
		var err error
		switch xid := binary.BigEndian.Uint32(head[4:]); head[1] {
		case hello:
			err = send(hello, 1, nil)
		case features:
			err = send(features+1, xid, make([]byte, 24))
		case multipart:
			answer := append([]byte{body[0], body[1]}, make([]byte, 6)...)
			port := make([]byte, 64)
			if copy(port[16:], "p1"); body[1] == portStats {
				port = make([]byte, 112)
				binary.BigEndian.PutUint64(port[16:], packets)
				binary.BigEndian.PutUint64(port[32:], octets)
				binary.BigEndian.PutUint32(port[104:], age)
			}
			port[3] = 1
			err = send(multipart+1, xid, append(answer, port...))
		}
		if err != nil {
			return
		}
	}
}
