package openflow

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
)

func open(t *testing.T, s *ovstest.Switch, ports ...string) *Source {
	t.Helper()
	connect, done := ofp.Dialed(func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(s.Dir, "br0.mgmt"))
	}, ofp.Version14)
	src, err := New(Config{Switch: "bridge br0", Ports: ports, Live: true, Connect: connect, Done: done})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	})
	return src
}

func read(t *testing.T, src *Source) []counters.Sample {
	t.Helper()
	got, err := src.Read(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestSource(t *testing.T) {
	s := ovstest.Start(t, ovstest.Options{Dummy: true})
	s.AddBridge("br0")
	in, out := s.AddWire("br0", "p1", 1), s.AddWire("br0", "p2", 2)
	s.Ofctl("add-flow", "br0", "in_port=1,actions=output:2")
	src := open(t, s, "p2", "p1", "p9")
	before := read(t, src)
	if len(before) != 3 || before[0].Port != "p2" || before[0].Err != nil || before[2].Err == nil || !strings.Contains(before[2].Err.Error(), "no such port") {
		t.Fatalf("%+v", before)
	}
	frame := make([]byte, 100)
	frame[0], frame[12], frame[13] = 2, 0x88, 0xb5
	const frames = 20
	for range frames {
		in.Send(frame)
		if out.Receive(3*time.Second) == nil {
			t.Fatal("a frame does not arrive")
		}
	}
	after := read(t, src)
	p2, p1 := after[0], after[1]
	if p2.Octets-before[0].Octets != frames*100 || p2.Packets-before[0].Packets != frames || p1.Octets != before[1].Octets {
		t.Errorf("%d frames of 100 bytes: %+v, before %+v", frames, p2, before[0])
	}
	if p2.Epoch != before[0].Epoch || !p2.Live || !p2.Up || p2.Bits != 64 || p2.Overhead != 24 || !p2.At.After(before[0].At) {
		t.Errorf("%+v", p2)
	}

	s.Ofctl("mod-port", "br0", "p2", "down")
	if got := read(t, src); got[0].Up || !got[1].Up {
		t.Errorf("p2 is down: %+v", got)
	}
	s.Ofctl("mod-port", "br0", "p2", "up")
	if got := read(t, src); !got[0].Up {
		t.Errorf("p2 is up: %+v", got)
	}

	// Another device under the same name counts from 0.
	s.Vsctl("del-port", "br0", "p1")
	if got := read(t, src); got[1].Err == nil || got[0].Err != nil {
		t.Errorf("p1 is gone: %+v", got)
	}
	s.Vsctl("add-port", "br0", "p1", "--", "set", "interface", "p1", "type=dummy", "ofport_request=7")
	if got := read(t, src); got[1].Err != nil || got[1].Epoch == p1.Epoch {
		t.Errorf("p1 is another: %+v, before %+v", got[1], p1)
	}

	// So does one of the same number.
	for limit := time.Now().Add(10 * time.Second); src.ports[0].age < 1; read(t, src) {
		if time.Now().After(limit) {
			t.Fatal("p2 does not age")
		}
	}
	epoch := read(t, src)[0].Epoch
	s.Vsctl("del-port", "br0", "p2")
	s.Vsctl("add-port", "br0", "p2", "--", "set", "interface", "p2", "type=dummy", "ofport_request=2")
	if got := read(t, src); got[0].Err != nil || src.ports[0].number != 2 || got[0].Epoch == epoch {
		t.Errorf("p2 is another: %+v, before epoch %d", got[0], epoch)
	}

	s.StopSwitch()
	if _, err := src.Read(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "bridge br0") {
		t.Errorf("ovs-vswitchd is gone: %v", err)
	}
	if _, err := src.Read(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "bridge br0: dial") {
		t.Errorf("ovs-vswitchd is gone: %v", err)
	}
	s.StartSwitch()
	if got := read(t, src); got[0].Err != nil {
		t.Errorf("ovs-vswitchd is back: %+v", got[0])
	}
}

func TestNoSource(t *testing.T) {
	connect := func(context.Context) (*ofp.Conn, error) { return nil, nil }
	for name, cfg := range map[string]Config{"no ports": {Connect: connect}, "no way": {Ports: []string{"p1"}}} {
		if _, err := New(cfg); err == nil {
			t.Error(name)
		}
	}
}
