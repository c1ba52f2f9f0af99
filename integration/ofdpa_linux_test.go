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

const ofdpaText = `
format: csig.fleet/v1
profile: {name: ofdpa, tpid: 0x88a8, interval: 200ms, signals: {abw: {buckets: log-100M}}}
vlan_tpids: [0x8100]
devices:
  - name: dpa1
    platform: ofdpa
    experimental: true
    address: 127.0.0.1
    management:
      openflow: {port: PORT, plaintext: true, ordinary_vlans: not-handed-over, entries: 200, forwarding: [{in_port: p1, port: p2}, {in_port: p3, port: p2}]}
      daemon: {at: here, socket: DIR/dpa1.sock}
    ports: [{name: p2, speed: 50M, lm: 5}]
`

// TestOFDPASwitch takes a switch of OF-DPA from plan to csig off, with an agent that is
// killed on the way.
func TestOFDPASwitch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sw := oftest.StartSwitch(t, 3)
	sw.BuiltIn()
	sw.Flow("add-group", fmt.Sprintf("group_id=%d,type=indirect,bucket=output:2", 0xb0000002))
	for _, n := range []int{1, 3} {
		sw.Flow("add-flow", fmt.Sprintf("table=10,priority=7,in_port=%d,vlan_vid=0x1000/0x1000,actions=goto_table:20", n))
		sw.Flow("add-flow", fmt.Sprintf("table=60,priority=5,in_port=%d,actions=write_actions(group:%d)", n, 0xb0000002))
	}
	operators := sw.Flow("dump-flows", "--no-stats") + sw.Flow("dump-groups")
	here := newHost(t, "here")
	var proxy *oftest.Proxy
	if err := here.Do(func() error {
		proxy = oftest.Start(t, oftest.Options{Bridge: sw.Path(), OFDPA: &oftest.OFDPA{Size: 200}}, oftest.Faults{})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(proxy.Addr(), ":")
	fleet := filepath.Join(dir, "fleet.yaml")
	if err := os.WriteFile(fleet, []byte(strings.NewReplacer("PORT", port, "DIR", dir).Replace(ofdpaText)), 0o600); err != nil {
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
	const best, stale = 31<<7 | 126, 0<<7 | 125
	seq := uint32(0)
	until := func(what string, is func(tci uint16) bool) {
		t.Helper()
		for limit := time.Now().Add(patience); ; {
			seq++
			f := append([]byte{2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 1, 0, 0x88, 0xa8, best >> 8, best & 0xff, 0x88, 0xb5}, make([]byte, 46)...)
			binary.BigEndian.PutUint32(f[len(f)-4:], seq)
			sw.Flushed()
			sw.Ports[0].Send(f)
			b := sw.Ports[1].Receive(patience)
			if b == nil {
				t.Fatalf("%s: no frame leaves", what)
			}
			tci := binary.BigEndian.Uint16(b[14:])
			if is(tci) {
				return
			}
			if time.Now().After(limit) {
				t.Fatalf("%s: it leaves with %04x", what, tci)
			}
		}
	}
	socket := filepath.Join(dir, "dpa1.sock")
	a := launchIn(t, here.Command(csig, "agent", "--wait", "-c", filepath.Join(dir, "dpa1.yaml"), "--socket", socket), socket)
	a.await("that it answers", func(s *api.Status) bool { return true })
	plan := filepath.Join(dir, "up.plan")
	run(2, "plan", "-i", fleet, "-o", plan)
	if out := run(0, "assess", "-i", fleet); !strings.Contains(strings.Join(strings.Fields(out), " "), "one signal needs 49 entries (23 for each of 2 forwarding flows, and 3)") {
		t.Errorf("csig assess:\n%s", out)
	}
	run(0, "apply", plan, "--soak", "50ms")
	until("an agent runs", func(tci uint16) bool { return tci&0x7f == 5 && tci>>7 > 0 && tci>>7 < 31 })
	run(0, "plan", "-i", fleet)
	_ = a.signal(syscall.SIGKILL)
	until("the agent was killed", func(tci uint16) bool { return tci == stale })
	run(0, "off", "-i", fleet)
	until("csig is off", func(tci uint16) bool { return tci == best })
	if now := sw.Flow("dump-flows", "--no-stats") + sw.Flow("dump-groups"); now != operators {
		t.Errorf("the operator's flows and groups are\n%s\nand were\n%s", now, operators)
	}
	if got := proxy.Refused(); got != nil {
		t.Errorf("refused %q", got)
	}
}
