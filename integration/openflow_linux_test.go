package integration

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
)

const openflowText = `
format: csig.fleet/v1
profile: {name: openflow, tpid: 0x88a8, interval: 200ms, signals: {abw: {buckets: log-100M}}}
vlan_tpids: [0x8100]
devices:
  - name: hw1
    platform: openflow
    experimental: true
    address: 127.0.0.1
    management:
      openflow: {port: %d, plaintext: true, ordinary_vlans: not-handed-over}
      daemon: {at: here, socket: %s/hw1.sock}
    ports: [{name: p2, speed: 50M, lm: 5}, {name: p3, action: strip}]
`

// TestOpenFlowSwitch takes a switch of OpenFlow 1.3 through plan, apply, an agent that
// is killed and one that follows it, and csig off without one.
func TestOpenFlowSwitch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sw := oftest.StartSwitch(t, 3)
	for n := 1; n <= 3; n++ {
		sw.Flow("add-flow", fmt.Sprintf("table=0,priority=10,dl_dst=02:00:00:00:00:%02x,actions=write_metadata:%d/0xfff,goto_table:10", n, n))
	}
	operators := sw.Flow("dump-flows", "--no-stats", "table=0")
	here := newHost(t, "here")
	var proxy *oftest.Proxy
	if err := here.Do(func() error {
		proxy = oftest.Start(t, oftest.Options{Bridge: sw.Path()}, oftest.Faults{})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(proxy.Addr(), ":")
	fleet := filepath.Join(dir, "fleet.yaml")
	if err := os.WriteFile(fleet, []byte(fmt.Sprintf(strings.Replace(openflowText, "%d", port, 1), dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(code int, args ...string) string {
		t.Helper()
		cmd := here.Command(csig, args...)
		cmd.Dir = dir
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != code {
			t.Fatalf("csig %s: exit code %d, want %d\n%s", strings.Join(args, " "), got, code, out)
		}
		return string(out)
	}
	start := func() *agent {
		t.Helper()
		socket := filepath.Join(dir, "hw1.sock")
		a := launchIn(t, here.Command(csig, "agent", "--wait", "-c", filepath.Join(dir, "hw1.yaml"), "--socket", socket), socket)
		a.await("that it answers", func(s *api.Status) bool { return true })
		return a
	}
	const best, stale = 31<<7 | 126, 0<<7 | 125
	seq := uint32(0)
	// leaves is the tag with which a frame leaves a port that came with the best one; -1: none.
	leaves := func(to int) int {
		t.Helper()
		seq++
		f := append([]byte{2, 0, 0, 0, 0, byte(to), 2, 0, 0, 0, 1, 0, 0x88, 0xa8, best >> 8, best & 0xff, 0x88, 0xb5}, make([]byte, 46)...)
		binary.BigEndian.PutUint32(f[len(f)-4:], seq)
		sw.Settled()
		sw.Ports[0].Send(f)
		for {
			b := sw.Ports[to-1].Receive(patience)
			switch {
			case b == nil:
				t.Fatalf("no frame leaves port %d", to)
			case binary.BigEndian.Uint32(b[len(b)-4:]) != seq:
			case binary.BigEndian.Uint16(b[12:]) == 0x88a8:
				return int(binary.BigEndian.Uint16(b[14:]))
			default:
				return -1
			}
		}
	}
	until := func(what string, to int, is func(tci int) bool) {
		t.Helper()
		for limit := time.Now().Add(patience); ; {
			got := leaves(to)
			if is(got) {
				return
			}
			if time.Now().After(limit) {
				t.Fatalf("%s: it leaves with %04x", what, got)
			}
		}
	}
	isLive := func(tci int) bool { return tci&0x7f == 5 && tci>>7 > 0 && tci>>7 < 31 }

	// Of a switch that may have a cache, counters that rest say nothing: some traffic.
	ended, stop := make(chan struct{}), make(chan struct{})
	defer func() { close(stop); <-ended }()
	go func() {
		defer close(ended)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				sw.Ports[2].Send(append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 3, 0, 0x88, 0xb5}, make([]byte, 46)...))
			}
		}
	}()

	a := start()
	plan := filepath.Join(dir, "up.plan")
	run(2, "plan", "-i", fleet, "-o", plan)
	run(0, "apply", plan, "--soak", "50ms")
	a.await("that its port is live", func(s *api.Status) bool { return first(s).State == api.StateLive })
	until("an agent runs", 2, isLive)
	if got := leaves(3); got != -1 {
		t.Errorf("a port that strips: %04x", got)
	}
	run(0, "plan", "-i", fleet)
	if out := run(0, "status", "--socket", filepath.Join(dir, "hw1.sock")); !strings.Contains(out, "p2") {
		t.Errorf("csig status:\n%s", out)
	}

	_ = a.signal(syscall.SIGKILL)
	until("the agent was killed", 2, func(tci int) bool { return tci == stale })
	a = start()
	a.await("that its port is live again", func(s *api.Status) bool { return first(s).State == api.StateLive })
	until("another agent runs", 2, isLive)

	// An agent that does not answer is bypassed.
	_ = a.signal(syscall.SIGKILL)
	if out := run(0, "off", "-i", fleet); !strings.Contains(out, "its daemon does not answer") {
		t.Errorf("csig off:\n%s", out)
	}
	until("csig is off", 2, func(tci int) bool { return tci == best })
	until("csig is off", 3, func(tci int) bool { return tci == best })
	if now := sw.Flow("dump-flows", "--no-stats", "table=0"); now != operators {
		t.Errorf("the operator's flows are\n%s\nand were\n%s", now, operators)
	}
}
