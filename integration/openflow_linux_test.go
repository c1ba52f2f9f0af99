package integration

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

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
      openflow: {port: PORT, plaintext: true, ordinary_vlans: not-handed-over}
      daemon: {at: here, socket: DIR/hw1.sock}
    ports: [{name: p2, speed: 50M, lm: 5}, {name: p3, action: strip}]
`

// TestOpenFlowSwitch takes a switch of OpenFlow 1.3 through plan, apply, an agent that
// is killed and one that follows it, and csig off without one.
func TestOpenFlowSwitch(t *testing.T) {
	t.Parallel()
	sw := oftest.StartSwitch(t, 3)
	handOver := func() {
		for n := 1; n <= 3; n++ {
			sw.Flow("add-flow", fmt.Sprintf("table=0,priority=10,dl_dst=02:00:00:00:00:%02x,actions=write_metadata:%d/0xfff,goto_table:10", n, n))
		}
	}
	handOver()
	operators := sw.Flow("dump-flows", "--no-stats", "table=0")
	h := newHardware(t, sw, oftest.Options{}, openflowText)

	h.traffic()

	a := h.agent("hw1")
	// The operator's flows hand over frames with any tag, which each of these says once.
	warns := func(what, out string) {
		t.Helper()
		if text := strings.Join(strings.Fields(out), " "); strings.Count(text, "3 flows hand frames over whatever VLAN tag they have (one is in table 0 with priority 10") != 1 {
			t.Errorf("csig %s:\n%s", what, out)
		}
	}
	assessed := h.run(0, "assess", "-i", h.fleet)
	warns("assess", assessed)
	if strings.Contains(assessed, "after csig off") {
		t.Errorf("csig assess speaks of what csig off leaves before there is a setup:\n%s", assessed)
	}
	plan := filepath.Join(h.dir, "up.plan")
	warns("plan", h.run(2, "plan", "-i", h.fleet, "-o", plan))
	h.run(0, "apply", plan, "--soak", "50ms")
	a.await("that its port is live", live)
	h.until("an agent runs", 2, ofAgent)
	if got := h.leaves(3); got != -1 {
		t.Errorf("a port that strips: %04x", got)
	}
	h.run(0, "plan", "-i", h.fleet)
	warns("status", h.run(0, "status", "--socket", filepath.Join(h.dir, "hw1.sock")))
	if out := h.run(0, "assess", "-i", h.fleet); !strings.Contains(out, "after csig off") {
		t.Errorf("csig assess of a switch that has a setup:\n%s", out)
	}

	_, second := proxyIn(t, h.host, oftest.Options{Bridge: sw.Path()})
	// Nothing else drives the switch, however its address is spelled.
	for what, text := range map[string]string{
		"drives hw1 (OpenFlow to 127.0.0.1:" + h.port: strings.Replace(openflowText, "address: 127.0.0.1", "address: localhost", 1),
		"drives hw1 (OpenFlow datapath 0x":            strings.Replace(openflowText, "PORT", second, 1),
	} {
		other := filepath.Join(h.dir, "other.yaml")
		text = strings.NewReplacer("PORT", h.port, "DIR/", h.dir+"/other-").Replace(text)
		writeFile(t, other, []byte(text))
		if out := h.run(1, "agent", "-i", other, "--socket", filepath.Join(h.dir, "other-hw1.sock")); !strings.Contains(out, what) {
			t.Errorf("a second agent:\n%s", out)
		}
		h.until("a second agent was refused", 2, ofAgent)
	}

	_ = a.signal(syscall.SIGKILL)
	h.until("the agent was killed", 2, fallsBack)
	a = h.agent("hw1")
	a.await("that its port is live again", live)
	h.until("another agent runs", 2, ofAgent)

	// The switch restarts without its flows: in the first cycle that reaches it the agent writes
	// all of them. Frames that are handed over from then on have its values or the fallback.
	repairs := a.await("its status", func(*api.Status) bool { return true }).Cycle.Repairs
	sw.StopSwitch()
	sw.StartSwitch()
	a.await("that it has restored what the restart lost", func(s *api.Status) bool { return s.Cycle.Repairs > repairs })
	handOver()
	h.until("the switch restarted", 2, func(tci int) bool {
		if !ofAgent(tci) && !fallsBack(tci) {
			t.Errorf("the switch restarted: the best tag leaves with %04x", tci)
		}
		return ofAgent(tci)
	})
	if got := h.leaves(3); got != -1 {
		t.Errorf("a port that strips, after a restart: %04x", got)
	}
	// An agent that does not answer is bypassed.
	_ = a.signal(syscall.SIGKILL)
	if text := a.log.String(); strings.Count(text, "rules lost in a restart of the device; restored") != 1 || strings.Contains(text, "rules changed by another process") {
		t.Errorf("the agent's log:\n%s", text)
	}
	if out := h.run(0, "off", "-i", h.fleet); !strings.Contains(out, "its daemon does not answer") {
		t.Errorf("csig off:\n%s", out)
	}
	h.until("csig is off", 2, isBest)
	h.until("csig is off", 3, isBest)
	if now := sw.Flow("dump-flows", "--no-stats", "table=0"); now != operators {
		t.Errorf("the operator's flows are\n%s\nand were\n%s", now, operators)
	}
}
