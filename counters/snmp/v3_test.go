package snmp

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/gosnmp/gosnmp"
)

// report answers every request to a socket with a report, as an SNMPv3 engine.
func report(t *testing.T, conn net.PacketConn, counter string) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1<<16)
		for n := uint32(1); ; n++ {
			size, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			req, err := (&gosnmp.GoSNMP{Version: gosnmp.Version3, SecurityModel: gosnmp.UserSecurityModel, SecurityParameters: &gosnmp.UsmSecurityParameters{UserName: "u"}}).SnmpDecodePacket(buf[:size])
			if err != nil {
				t.Errorf("engine: %v", err)
				continue
			}
			answer := &gosnmp.SnmpPacket{
				Version: gosnmp.Version3, MsgFlags: gosnmp.NoAuthNoPriv, SecurityModel: gosnmp.UserSecurityModel,
				SecurityParameters: &gosnmp.UsmSecurityParameters{AuthoritativeEngineID: "\x80\x00\x00\x01\x02", AuthoritativeEngineBoots: n, AuthoritativeEngineTime: 7},
				ContextEngineID:    "\x80\x00\x00\x01\x02",
				MsgID:              req.MsgID, RequestID: req.RequestID, PDUType: gosnmp.Report,
				Variables: []gosnmp.SnmpPDU{{Name: counter, Type: gosnmp.Counter32, Value: uint(n)}},
			}
			msg, err := answer.MarshalMsg()
			if err != nil {
				t.Errorf("engine: %v", err)
				return
			}
			if _, err := conn.WriteTo(msg, from); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
}

// An engine that does nothing but report never makes a reading, and never a loop.
func TestReports(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, counter string
		want          error
		text          string
	}{
		{"never in the time window", ".1.3.6.1.6.3.15.1.1.2.0", ErrNotInTimeWindow, "engine boots"},
		{"unknown user", ".1.3.6.1.6.3.15.1.1.3.0", ErrCredentials, "user u"},
		{"engine ID that never settles", ".1.3.6.1.6.3.15.1.1.4.0", ErrMalformed, ""},
		{"wrong digest", ".1.3.6.1.6.3.15.1.1.5.0", ErrCredentials, ""},
		{"decryption", ".1.3.6.1.6.3.15.1.1.6.0", ErrCredentials, ""},
		{"security level", ".1.3.6.1.6.3.15.1.1.1.0", ErrCredentials, ""},
		{"something else", ".1.3.6.1.6.3.99.1.0", ErrMalformed, ""},
	}
	for _, tt := range tests {
		bubble(t, tt.name, func(t *testing.T) {
			conn, cfg := silentAgent(t, V3)
			report(t, conn, tt.counter)
			s := open(t, cfg)
			for range 2 {
				list, err := s.Read(t.Context(), nil)
				if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) || len(list) != 0 {
					t.Errorf("%v, want %v with %q", err, tt.want, tt.text)
				}
			}
		})
	}
}
