package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/protocol/ssh/sshtest"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
)

const elsewhereText = `
format: csig.fleet/v1
profile: {name: elsewhere, tpid: 0x88a8, interval: 200ms, signals: {abw: {buckets: log-100M}}}
vlan_tpids: [0x8100]
defaults:
  management: {ssh: {user: %s, key: %s, known_hosts: %s, port: %d}}
devices:
  - name: vs1
    platform: ovs
    address: 127.0.0.1
    management: {ovs: {bridge: csig, run_dir: %s}, daemon: {at: here, socket: DIR/vs1.sock}}
    ports: [{name: swp1, speed: 50M, lm: 5}, {name: swp2, action: strip}]
  - name: sonic1
    platform: sonic
    experimental: true
    address: 127.0.0.1
    management: {redis: {databases: %s}, daemon: {at: here, socket: DIR/sonic1.sock}}
    ports: [{name: Ethernet0, speed: 100M, lm: 6}]
`

// elsewhere is two remote switches, of Open vSwitch and SONiC, and the machine that drives
// them over SSH.
type elsewhere struct {
	t     *testing.T
	vs    *ovstest.Switch
	sw    *sonictest.Switch
	redis *sonictest.Redis
	op    *operator
}

func newElsewhere(t *testing.T) *elsewhere {
	t.Helper()
	vs := ovstest.Start(t, ovstest.Options{Dummy: true})
	vs.AddBridge("csig")
	vs.AddWire("csig", "swp1", 1)
	vs.AddWire("csig", "swp2", 2)
	redis := sonictest.StartRedis(t)
	sw := sonictest.NewSwitch(t, redis, sonictest.R202511, "Ethernet0")
	redis.Do(2, "HSET", "COUNTERS_PORT_NAME_MAP", "Ethernet0", "oid:0x1000000000001")
	redis.Do(2, "HSET", "COUNTERS:oid:0x1000000000001", "SAI_PORT_STAT_IF_OUT_OCTETS", 0, "SAI_PORT_STAT_IF_OUT_UCAST_PKTS", 0, "SAI_PORT_STAT_IF_OUT_NON_UCAST_PKTS", 0)

	here := newHost(t, "here")
	sshd := sshtest.Start(t, sshtest.Options{Port: loopbackPort(), Start: func(cmd *exec.Cmd) error { return here.Do(cmd.Start) }})
	l := sshd.Login
	return &elsewhere{t, vs, sw, redis, newOperator(t, here, fmt.Sprintf(elsewhereText, l.User, l.Key, l.KnownHosts, l.Port, vs.Dir, redis.File))}
}

// has wants csig's rules on both switches, or on none.
func (e *elsewhere) has(want bool) {
	e.t.Helper()
	flows := strings.Contains(e.vs.Ofctl("dump-flows", "csig", "table=62"), "reg15") // what each port writes
	entries, _ := e.sw.Entries("")
	if flows != want || entries > 0 != want {
		e.t.Fatalf("csig is there: %v and %v, want %v", flows, entries > 0, want)
	}
}

// TestLongAgentsElsewhere runs an agent for each of two remote switches on one machine, which
// reach them over SSH and wait for a configuration: the fleet is planned, applied and taken
// off through them, and by csig off past one that hangs.
func TestLongAgentsElsewhere(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	run, start, dir, fleet, has := e.op.run, e.op.agent, e.op.dir, e.op.fleet, e.has
	vs1, sonic1 := start("vs1"), start("sonic1")
	out := run(2, "plan", "-i", fleet, "-o", filepath.Join(dir, "up.plan"))
	if !strings.Contains(out, "daemon "+dir+"/vs1.sock") {
		t.Errorf("the plan does not say how it reaches the agent:\n%s", out)
	}
	has(false)
	run(0, "apply", filepath.Join(dir, "up.plan"), "--soak", "50ms", "--allow-stale") // the counters of sonic1 rest
	vs1.await("that its port is live", live)
	sonic1.await("that it reads its port", func(s *api.Status) bool { return s.Cycle.Count > 2 }) // whose counters rest
	has(true)
	run(0, "plan", "-i", fleet)

	// A second agent for the same switch is refused, and the first goes on after a restart.
	second := start("sonic1-again")
	defer func() { _ = second.signal(syscall.SIGKILL) }() // how it exits is of no interest
	if text, err := os.ReadFile(filepath.Join(dir, "sonic1.yaml")); err != nil {
		t.Fatal(err)
	} else if err := second.client.Configure(t.Context(), text); err == nil || !strings.Contains(err.Error(), "another csig agent") {
		t.Errorf("a second agent for one switch: %v", err)
	}
	_ = vs1.signal(syscall.SIGTERM)
	vs1 = start("vs1")
	vs1.await("that its port is live again", live)

	// One hangs: csig off reaches the switch itself, and the agent finds the mark here.
	if err := vs1.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if out = run(0, "off", "-i", fleet); !strings.Contains(out, "its daemon does not answer") {
		t.Errorf("csig off:\n%s", out)
	}
	if _, err := os.Stat(api.OffMarker(filepath.Join(dir, "vs1.sock"))); err != nil {
		t.Error(err)
	}
	if err := vs1.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	vs1.await("that nothing is there", func(s *api.Status) bool { return s.DataPlane == api.DataPlaneAbsent })
	has(false)

	// The daemon that continues takes part in the next roll-out and in its rollback.
	again := filepath.Join(dir, "again.plan")
	run(2, "plan", "-i", fleet, "-o", again)
	run(0, "apply", again, "--soak", "50ms", "--allow-stale")
	has(true)
	run(0, "rollback", again+".journal")
	has(false)
}
