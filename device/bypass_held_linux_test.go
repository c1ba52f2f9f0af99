package device

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
)

// TestOffPastAnAgentThatListens: a stopped agent keeps the address that its switch dials,
// so that csig off reaches nothing, and names the process to end.
func TestOffPastAnAgentThatListens(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "hw1.sock")
	daemon := must(net.Listen("unix", socket)) // and answers nothing
	defer daemon.Close()
	held := must(net.Listen("tcp", "127.0.0.1:0"))
	_, port, _ := net.SplitHostPort(held.Addr().String())
	f := must(inventory.Parse("x.yaml", fmt.Appendf(nil, `
format: csig.fleet/v1
profile: {name: x, tpid: 0x88a8, interval: 1s, signals: {abw: {buckets: log-100M}}}
vlan_tpids: [0x8100]
devices:
  - name: hw1
    platform: openflow
    address: 127.0.0.1
    management:
      openflow: {plaintext: true, listen: 127.0.0.1, port: %s, datapath: 0xa1}
      daemon: {at: here, socket: %s}
    ports: [{name: p1, speed: 50M, lm: 5}]
`, port, socket)))
	o := NewOpener(f)
	bypassed := 0
	o.Bypassed = func(string, string, string) { bypassed++ }
	_, err := o.Open(t.Context(), "hw1")
	if err == nil || bypassed != 0 {
		t.Fatalf("bypassed %d times: %v", bypassed, err)
	}
	for _, want := range []string{"holds " + held.Addr().String(), fmt.Sprintf("kill -9 %d", os.Getpid()), "run csig off again"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %s", err, want)
		}
	}
	if _, err := os.Stat(api.OffMarker(socket)); err != nil {
		t.Error(err)
	}
	held.Close()
	target, err := o.Open(t.Context(), "hw1")
	if err != nil || bypassed != 1 {
		t.Fatalf("its process has ended: bypassed %d times: %v", bypassed, err)
	}
	if err := target.Close(); err != nil {
		t.Error(err)
	}
}
