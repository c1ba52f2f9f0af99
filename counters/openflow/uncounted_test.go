package openflow

import (
	"context"
	"encoding/binary"
	"io"
	"math"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/protocol/memnet"
	"github.com/csig-agent/csig/protocol/ofp"
)

// TestNotCounted has a switch that does not keep a counter, which it returns as all ones:
// that is no idle port.
func TestNotCounted(t *testing.T) {
	for name, tc := range map[string]struct {
		packets, octets uint64
		fails           bool
	}{"both": {7, 700, false}, "no bytes": {7, math.MaxUint64, true}, "no packets": {math.MaxUint64, 700, true}} {
		synctest.Test(t, func(t *testing.T) {
			src, got := one(t, func() (uint64, uint64, uint32) { return tc.packets, tc.octets, 0 })
			if sample := got(); (sample.Err != nil) != tc.fails || !tc.fails && sample.Octets != tc.octets {
				t.Errorf("%s: %+v", name, sample)
			}
			if err := src.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// one is a source of a switch in memory with one port, of which it returns packets, octets and age,
// and what reads it.
func one(t *testing.T, port func() (packets, octets uint64, age uint32)) (*Source, func() counters.Sample) {
	t.Helper()
	connect, done := ofp.Dialed(func(context.Context) (net.Conn, error) {
		here, there := memnet.Pipe("192.0.2.1:40000", "192.0.2.2:6653")
		packets, octets, age := port()
		go serve(there, packets, octets, age)
		return here, nil
	}, ofp.Version13)
	src, err := New(Config{Switch: "switch", Ports: []string{"p1"}, Connect: connect, Done: done})
	if err != nil {
		t.Fatal(err)
	}
	return src, func() counters.Sample {
		t.Helper()
		got, err := src.Read(t.Context(), nil)
		if err != nil || len(got) != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		return got[0]
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
		synctest.Test(t, func(t *testing.T) {
			age := tc.was
			src, read := one(t, func() (uint64, uint64, uint32) { return 7, 700, age })
			before := read()
			if err := src.Close(); err != nil { // the next reading connects again
				t.Fatal(err)
			}
			time.Sleep(tc.outage)
			age = tc.is
			if after := read(); (after.Epoch != before.Epoch) != tc.again {
				t.Errorf("%s: epoch %d, before %d", name, after.Epoch, before.Epoch)
			}
			if err := src.Close(); err != nil {
				t.Error(err)
			}
		})
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
