package integration

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

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
	sw := oftest.StartSwitch(t, 3)
	sw.BuiltIn()
	sw.Flow("add-group", fmt.Sprintf("group_id=%d,type=indirect,bucket=output:2", 0xb0000002))
	for _, n := range []int{1, 3} {
		sw.Flow("add-flow", fmt.Sprintf("table=10,priority=7,in_port=%d,vlan_vid=0x1000/0x1000,actions=goto_table:20", n))
		sw.Flow("add-flow", fmt.Sprintf("table=60,priority=5,in_port=%d,actions=write_actions(group:%d)", n, 0xb0000002))
	}
	operators := sw.Flow("dump-flows", "--no-stats") + sw.Flow("dump-groups")
	h := newHardware(t, sw, oftest.Options{OFDPA: &oftest.OFDPA{Size: 200}}, ofdpaText)
	a := h.agent("dpa1")
	plan := filepath.Join(h.dir, "up.plan")
	h.run(2, "plan", "-i", h.fleet, "-o", plan)
	if out := h.run(0, "assess", "-i", h.fleet); !strings.Contains(strings.Join(strings.Fields(out), " "), "one signal needs 49 entries (23 for each of 2 forwarding flows, and 3)") {
		t.Errorf("csig assess:\n%s", out)
	}
	h.run(0, "apply", plan, "--soak", "50ms", "--allow-stale") // nothing sends
	h.until("an agent runs", 2, ofAgent)
	h.run(0, "plan", "-i", h.fleet)
	_ = a.signal(syscall.SIGKILL)
	h.until("the agent was killed", 2, fallsBack)
	h.run(0, "off", "-i", h.fleet)
	h.until("csig is off", 2, isBest)
	if now := sw.Flow("dump-flows", "--no-stats") + sw.Flow("dump-groups"); now != operators {
		t.Errorf("the operator's flows and groups are\n%s\nand were\n%s", now, operators)
	}
	if got := h.proxy.Refused(); got != nil {
		t.Errorf("refused %q", got)
	}
}
