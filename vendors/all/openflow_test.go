package all

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/openflow"
	"github.com/csig-agent/csig/vendors/vendorstest/freeport"
	"github.com/csig-agent/csig/vlanrules"
)

const openFlowFleet = `
format: csig.fleet/v1
profile: {name: x, tpid: 0x88a8, interval: 1s, signals: {abw: {buckets: log-100M}}}
vlan_tpids: [0x8100]
devices:
  - name: hw1
    platform: %s
%s
    ports: [{name: p1, speed: 50M, lm: 5}]
`

// TestOpenFlowKeys is what fleet files can say of the switches of OpenFlow, and their
// mistakes.
func TestOpenFlowKeys(t *testing.T) {
	const address = "    address: 192.0.2.1\n"
	for _, tc := range []struct{ keys, fails string }{
		{address + "    management: {openflow: {plaintext: true}}", ""},
		{address + "    management: {openflow: {plaintext: true, listen: 192.0.2.5, datapath: 0x00000000000000a1}}", ""},
		{address + "    management: {openflow: {plaintext: true, listen: 192.0.2.5, datapath: \"0xa1\"}}", ""},
		{"    management: {openflow: {tls: {ca: /a, cert: /b, key: /c, server_name: hw1}, listen: 192.0.2.5, datapath: 0xa1}}", ""},
		{"    management: {openflow: {plaintext: true, listen: 192.0.2.5, datapath: 0xa1}}", `"address" is missing: csig connects there, or knows by it who connects without TLS`},
		{address + "    management: {openflow: {tls: {ca: /a, cert: /b, key: /c}, role: master, table: 3, ordinary_vlans: not-parsed}, daemon: {at: here, socket: /run/x.sock}}", ""},
		{address, "it says how csig speaks OpenFlow"},
		{"    management: {openflow: {plaintext: true}}", `"address" is missing`},
		{address + "    management: {openflow: {table: 3}}", "how the two ends know each other"},
		{address + "    management: {openflow: {plaintext: true, tls: {ca: /a, cert: /b, key: /c}}}", "found both"},
		{address + "    management: {openflow: {tls: {ca: /a}}}", "want ca, cert and key"},
		{address + "    management: {openflow: {plaintext: true, listen: 192.0.2.5}}", "which one it is"},
		{address + "    management: {openflow: {plaintext: true, datapath: a1}}", "hexadecimal digits"},
		{address + "    management: {openflow: {plaintext: true, table: 253}}", "253 is too large: want 1 to 252"},
		{address + "    management: {openflow: {plaintext: true, table: 0}}", "every frame begins in table 0"},
		{address + "    management: {openflow: {plaintext: true, table: 0}}", "x.yaml:9:53"},
		{address + "    management: {openflow: {plaintext: true, priority: 0, forwarding: [{in_port: p1, port: p2}]}}", "0 is too small: want 1 to 65532"},
		{"    management: {openflow: {plaintext: true, listen: nohost, datapath: 0xa1}}", "want an IP address of this machine"},
		{"    address: 192.0.2.1:6653\n    management: {openflow: {plaintext: true}}", "openflow: {port: 6653}"},
		{address + "    management: {openflow: {plaintext: true, port: 70000}}", "want 1 to 65535"},
		{address + "    management: {openflow: {plaintext: true, role: slave}}", "equal"},
	} {
		for _, name := range openflow.Names {
			f, err := inventory.Parse("x.yaml", fmt.Appendf(nil, openFlowFleet, name, tc.keys))
			switch {
			case tc.fails == "" && err != nil:
				t.Errorf("%s: %s: %v", name, tc.keys, err)
			case tc.fails != "" && (err == nil || !strings.Contains(err.Error(), tc.fails)):
				t.Errorf("%s: %s: %v, want %s", name, tc.keys, err, tc.fails)
			case err == nil && !f.Devices[0].Remote():
				t.Errorf("%s: %s: it is not remote", name, tc.keys)
			}
		}
	}
}

// TestOpenFlowListens: between two calls the address stays open, for a switch that dials
// only now and then; a call that does not find it says what to check.
func TestOpenFlowListens(t *testing.T) {
	at := freeport.Addr(t)
	_, port, _ := net.SplitHostPort(at)
	f, err := inventory.Parse("x.yaml", fmt.Appendf(nil, openFlowFleet, "openflow", "    address: 127.0.0.1\n    management: {openflow: {plaintext: true, listen: 127.0.0.1, datapath: 0xa1, port: "+port+"}}"))
	if err != nil {
		t.Fatal(err)
	}
	noted := make(chan string, 1)
	connect, done, err := OpenFlowSession(&f.Devices[0], func(what string) { noted <- what })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := connect(ctx); err == nil || !strings.Contains(err.Error(), "controller address") {
		t.Error(err)
	}
	if err := done(); err != nil {
		t.Error(err)
	}
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatalf("the address was closed: %v", err)
	}
	c.Close()
	if what := <-noted; !strings.Contains(what, "connection to "+at+" refused: 127.0.0.1: ") {
		t.Errorf("noted %q", what)
	}
}

// TestAckToWireOfNothing: a delay of 0 is no measurement that a driver need not wait.
func TestAckToWireOfNothing(t *testing.T) {
	f, err := inventory.Parse("x.yaml", fmt.Appendf(nil, openFlowFleet, openflow.Names[0], "    address: 192.0.2.1\n    management: {openflow: {plaintext: true}}"))
	if err != nil {
		t.Fatal(err)
	}
	for _, delay := range []time.Duration{0, time.Millisecond} {
		d := f.Devices[0]
		d.Facts = &inventory.Facts{AckToWire: &delay}
		c, _, err := openFlowOf(&d)
		if err != nil || c.AckDelay != delay || (c.Measured != nil) != (delay > 0) {
			t.Errorf("%v: waits %v, measured %v, %v", delay, c.AckDelay, c.Measured, err)
		}
	}
}

// TestOpenFlowListenConflict: two agents of one machine cannot listen at one address.
func TestOpenFlowListenConflict(t *testing.T) {
	const conflict = ", where one agent of a machine can listen, is that of another device"
	for _, tc := range []struct{ first, second, fails string }{
		{"192.0.2.5", "listen: 192.0.2.5, port: 6653", "192.0.2.5:6653" + conflict},
		{"192.0.2.5", "listen: 192.0.2.5, port: 6654", ""},
		{"192.0.2.5", "listen: 192.0.2.6", ""},
		{"0.0.0.0", "listen: 192.0.2.6", "192.0.2.6:6653" + conflict},
		{"192.0.2.5", "listen: 0.0.0.0", "0.0.0.0:6653" + conflict},
		{"192.0.2.5", "listen: \"::\"", "[::]:6653" + conflict},
		{"0.0.0.0", "listen: \"::\"", "[::]:6653" + conflict},
		{"192.0.2.5", "listen: \"::ffff:192.0.2.5\"", "192.0.2.5]:6653" + conflict},
		{"0.0.0.0", "listen: 0.0.0.0, port: 6654", ""},
		{"0.0.0.0", "listen: \"2001:db8::1\"", ""},
	} {
		text := fmt.Sprintf(openFlowFleet, "openflow", "    address: 192.0.2.1\n    management: {openflow: {plaintext: true, listen: "+tc.first+", datapath: 0xa1}, daemon: {at: here, socket: /run/a.sock}}") +
			"  - {name: hw2, platform: openflow, address: 192.0.2.2, management: {openflow: {plaintext: true, datapath: 0xa2, " + tc.second + "}, daemon: {at: here, socket: /run/b.sock}}, ports: [{name: p1, speed: 50M, lm: 6}]}\n"
		_, err := inventory.Parse("x.yaml", []byte(text))
		if (err == nil) != (tc.fails == "") || err != nil && !(strings.Contains(err.Error(), tc.fails) && strings.Contains(err.Error(), "x.yaml:11:80")) {
			t.Errorf("%s, %s: %v, want %s", tc.first, tc.second, err, tc.fails)
		}
	}
}

// TestOpenFlowRefuses: a plan refuses what apply does, of a switch whose agent runs, too.
func TestOpenFlowRefuses(t *testing.T) {
	p, err := Default().Platform("openflow")
	if err != nil {
		t.Fatal(err)
	}
	for keys, refused := range map[string]bool{"plaintext: true": true, "plaintext: true, ordinary_vlans: not-parsed": false} {
		f, err := inventory.Parse("x.yaml", fmt.Appendf(nil, openFlowFleet, "openflow", "    address: 192.0.2.9\n    management: {openflow: {"+keys+"}}"))
		if err != nil {
			t.Fatal(err)
		}
		for action, looks := range map[vlanrules.Action]bool{vlanrules.Update: true, vlanrules.Strip: true, vlanrules.Passthrough: false} {
			err := p.Refuse(vendors.Config{Device: f.Devices[0]}, vendors.Setup{Ports: []vendors.PortSetup{{Port: "p1", Action: action}}})
			if (err != nil) != (refused && looks) || err != nil && !strings.Contains(err.Error(), "ordinary_vlans") {
				t.Errorf("%s, %s: %v", keys, action, err)
			}
		}
	}
}
