package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csig-agent/csig/vendors/sonic/sonictest"
)

// A spine between leaves whose ASICs do CSIG themselves: they are not csig's to
// drive, and strip at their hosts.
const sonicSpine = `
format: csig.fleet/v1
profile:
  name: lab
  tpid: 0x88a8
  interval: 1s
  signals:
    abw: {buckets: log-100G}
policy: {on_stale: conservative}
vlan_tpids: [0x8100]
devices:
  - name: spine-1
    platform: sonic
    experimental: true
    local: true
    management: {redis: {databases: %s}, daemon: {socket: DIR/spine.sock}}
    ports:
      - {name: Ethernet0, speed: 100G}
      - {name: Ethernet4, speed: 100G}
  - name: "leaf-[1-2]"
    platform: silicon
    level: {is: native, reason: "its ASIC compares and replaces"}
    ports:
      - {name: up, speed: 100G, action: passthrough}
      - {name: down, speed: 25G, action: strip}
hosts:
  - {name: "h[1-2]", mtu: 1500, csig: true}
links: |
  spine-1:Ethernet0 - leaf-1:up
  spine-1:Ethernet4 - leaf-2:up
  leaf-[1-2]:down - h[1-2]
`

// TestSonicRollout plans, applies, finds drift, rolls back and stops.
func TestSonicRollout(t *testing.T) {
	t.Parallel()
	r := sonictest.StartRedis(t)
	sw := sonictest.NewSwitch(t, r, sonictest.R202511, "Ethernet0", "Ethernet4")
	op := newOperator(t, newHost(t, "spine"), fmt.Sprintf(sonicSpine, r.File)) // the lock belongs to its namespace
	run, file, plan := op.run, op.fleet, filepath.Join(op.dir, "fleet.plan")
	op.agent("spine")
	out := run(2, "plan", "-i", file, "-o", plan)
	if !strings.Contains(out, "ACL_CSIG_EGRESS_TABLE") || !strings.Contains(out, "ordinary VLANs") {
		t.Errorf("%s", out)
	}
	t.Logf("\n%s", out)
	t.Logf("\n%s", run(0, "apply", plan, "--soak", "50ms", "--allow-stale"))
	if n, _ := sw.Entries(""); n == 0 || r.Hash(4, "PORT|Ethernet4")["tpid"] != "0x88a8" {
		t.Fatalf("%d entries, %v; refused %v", n, r.Hash(4, "PORT|Ethernet4"), sw.Refusals())
	}
	run(0, "plan", "-i", file)
	r.Do(4, "HSET", "PORT|Ethernet4", "tpid", "0x8100") // and without counters the agent programs nothing
	if out = run(2, "plan", "-i", file); !strings.Contains(out, "its TPID in CONFIG_DB is 0x8100") {
		t.Errorf("drift: %s", out)
	}
	r.Do(4, "HSET", "PORT|Ethernet4", "tpid", "0x88a8")
	// What the switch refuses during the assessment takes csig off no device.
	r.Do(6, "HSET", "SWITCH_CAPABILITY|switch", "PORT_TPID_CAPABLE", "false")
	refused := filepath.Join(op.dir, "refused.plan")
	out = run(1, "plan", "-i", file, "-o", refused)
	if _, err := os.Stat(refused); err == nil || strings.Contains(out, "remove") || strings.Contains(out, "No changes") ||
		!strings.Contains(out, "it has csig, and cannot update tags as it is") || !strings.Contains(strings.Join(strings.Fields(out), " "), "PORT_TPID_CAPABLE is false); repair that (csig assess -i "+file+" --device spine-1") {
		t.Errorf("refused: %v %s", err, out)
	}
	if out = run(2, "plan", "-i", file, "--remove"); !strings.Contains(out, "disturb ordinary traffic") {
		t.Errorf("a removal that changes TPIDs: %s", out)
	}
	r.Do(6, "HSET", "SWITCH_CAPABILITY|switch", "PORT_TPID_CAPABLE", "true")
	run(0, "rollback", plan+".journal")
	if n, _ := sw.Entries(""); n != 0 || sw.Tables() != 0 || r.Hash(4, "PORT|Ethernet4")["tpid"] != "0x8100" || len(r.Keys(6, "CSIG*")) > 0 {
		t.Errorf("after rollback: %d entries, %v, %v", n, r.Hash(4, "PORT|Ethernet4"), r.Keys(6, "CSIG*"))
	}
	run(2, "plan", "-i", file, "-o", plan)
	run(0, "apply", plan, "--soak", "50ms", "--journal", plan+".2", "--allow-stale")
	run(0, "off", "-i", file)
	run(0, "off", "-i", file)
	if n, _ := sw.Entries(""); n != 0 || sw.Tables() != 0 {
		t.Errorf("after off: %d entries, %d tables", n, sw.Tables())
	}

	// Ordinary VLANs are in the way, and named; a TPID from before a reboot is given
	// back as the default, and named, too.
	r.Do(4, "HSET", "VLAN_MEMBER|Vlan100|Ethernet4", "tagging_mode", "tagged")
	if out = run(1, "plan", "-i", file); !strings.Contains(out, "Ethernet4") || !strings.Contains(out, "tagged in Vlan100") {
		t.Errorf("%s", out)
	}
	r.Do(4, "DEL", "VLAN_MEMBER|Vlan100|Ethernet4")
	r.Do(4, "HSET", "PORT|Ethernet0", "tpid", "0x88a8")
	if out = strings.Join(strings.Fields(run(2, "plan", "-i", file, "-o", plan)), " "); !strings.Contains(out, "csig off gives it 0x8100") {
		t.Errorf("%s", out)
	}
	run(0, "apply", plan, "--soak", "50ms", "--journal", plan+".3", "--allow-stale")
	out = strings.Join(strings.Fields(run(0, "off", "-i", file)), " ")
	if !strings.Contains(out, "what TPID Ethernet0 had before csig is not known") || r.Hash(4, "PORT|Ethernet0")["tpid"] != "0x8100" {
		t.Errorf("%s\n%v", out, r.Hash(4, "PORT|Ethernet0"))
	}
}
