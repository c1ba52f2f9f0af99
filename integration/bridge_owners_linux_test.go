package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/protocol/ssh/sshtest"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
)

// Without role: master, beside which another OpenFlow controller may be.
const bridgeText = `  - name: vs1
    platform: ovs
    address: 127.0.0.1
    management: {ovs: {bridge: csig, run_dir: %s}, ssh: {user: %s, key: %s, known_hosts: %s, port: %d}, daemon: {at: here, socket: DIR/vs1.sock}}
    ports: [{name: swp1, speed: 50M, lm: 6}, {name: swp2, action: strip}]
`

const bridgeAloneText = `
format: csig.fleet/v1
profile: {name: bridge, tpid: 0x88a8, interval: 200ms, signals: {abw: {buckets: log-100M}}}
vlan_tpids: [0x8100]
devices:
`

// bridge is a real Open vSwitch behind a real sshd.
type bridge struct {
	node *fabric.Node
	vs   *ovstest.Switch
	port int
	text string
}

func newBridge(t *testing.T, sshd ...string) *bridge {
	t.Helper()
	b := &bridge{node: newHost(t, "bridge"), vs: ovstest.Start(t, ovstest.Options{Dummy: true})}
	b.vs.AddBridge("csig")
	b.vs.AddWire("csig", "swp1", 1)
	b.vs.AddWire("csig", "swp2", 2)
	l := sshtest.Start(t, sshtest.Options{
		Extra: sshd,
		Start: func(cmd *exec.Cmd) error { return b.node.Do(cmd.Start) },
	}).Login
	b.port = int(l.Port)
	b.text = fmt.Sprintf(bridgeText, b.vs.Dir, l.User, l.Key, l.KnownHosts, l.Port)
	return b
}

// writer is who has the bridge, by its own database.
func (b *bridge) writer(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(b.vs.Vsctl("--if-exists", "get", "bridge", "csig", "external_ids:csig-writer"))
}

// bridgeFaults take a machine away: its power fails and nothing says so to the switch, its processes
// hang, or it is cut off from everybody.
var bridgeFaults = []string{"lost", "hung", "cut off"}

// isolate has a machine neither send nor receive anything.
func isolate(t *testing.T, host *fabric.Node) {
	t.Helper()
	exits(t, 0, host.Command("nft", "table inet cut { chain in { type filter hook input priority 0; drop; }; chain out { type filter hook output priority 0; drop; }; }"))
}

// befalls has it happen, and returns what ends it; of a machine that was lost, its process is to be started again.
func befalls(t *testing.T, kind string, host *fabric.Node, a *agent, cut func()) (over func()) {
	t.Helper()
	heal := func() { exits(t, 0, host.Command("nft", "delete", "table", "inet", "cut")) }
	switch kind {
	case "hung":
		if err := a.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := a.cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
		}
	case "lost":
		isolate(t, host)
		_ = a.signal(syscall.SIGKILL)
		return heal
	}
	cut()
	return heal
}

// TestLongLostOwnerOfABridge: controllers that share a bridge of Open vSwitch over SSH, without role: master. The
// machine of its owner is lost, hangs, or is cut off: another drives it after the wait that
// docs/controller.md states, though the former one still has its login and the bridge's lock.
func TestLongLostOwnerOfABridge(t *testing.T) {
	t.Parallel()
	b := newBridge(t) // sshd keeps what is silent for ever
	c := newControllers(t, 2*time.Second, controllersText+b.text)
	for i := range c.ops {
		relayTCP(t, c.ops[i].host, b.node, b.port)
		c.start(i)
	}
	any := func(*api.Status) bool { return true }
	c.owner(0, 1, 2)
	c.driven("the start", "vs1", 2*patience, any, 0, 1, 2)
	up := filepath.Join(c.dir, "up.plan")
	c.ops[0].run(2, "plan", "-i", c.ops[0].fleet, "-o", up)
	c.ops[0].run(0, "apply", up, "--soak", "50ms")
	for _, kind := range bridgeFaults {
		owner := c.driven("before it is "+kind, "vs1", 2*patience, live, 0, 1, 2)
		begin := time.Now()
		over := befalls(t, kind, c.ops[owner].host, c.where[owner], func() { c.cut(owner) })
		next := c.driven(fmt.Sprintf("c%d is %s", owner+1, kind), "vs1", 2*patience, live, others(owner)...)
		t.Logf("c%d was %s: c%d drives vs1, live %v later", owner+1, kind, next+1, time.Since(begin).Round(10*time.Millisecond))
		over()
		if kind == "lost" {
			c.start(owner)
		}
		// When it is back NATS may elect its leaders once more, and the switch may change its owner. The former one never is it.
		var s *api.Status
		if !within(2*patience, func() (is bool) {
			is, s = c.drives(owner, "vs1")
			return !is && s != nil && strings.Contains(s.Waiting, "drives vs1; this one takes over")
		}) {
			t.Fatalf("c%d is back, and does not know who drives vs1: %+v", owner+1, s)
		}
		if now := c.driven(fmt.Sprintf("c%d is back", owner+1), "vs1", 2*patience, live, others(owner)...); now != next {
			t.Logf("c%d is back: now c%d drives vs1", owner+1, now+1)
		}
	}
}

// TestLongLostAgentOfABridge: the agent on one machine drives the bridge, that on another waits for its
// lock, which is free when sshd gives the first one's connection up.
func TestLongLostAgentOfABridge(t *testing.T) {
	t.Parallel()
	b := newBridge(t, "ClientAliveInterval 1", "ClientAliveCountMax 3")
	var ops [2]*operator
	var where [2]*agent
	for i := range ops {
		ops[i] = newOperator(t, newHost(t, fmt.Sprintf("a%d", i+1)), bridgeAloneText+b.text)
		relayTCP(t, ops[i].host, b.node, b.port)
	}
	start := func(i int) {
		socket := filepath.Join(ops[i].dir, "vs1.sock")
		where[i] = launchIn(t, ops[i].elsewhere("agent", "--wait", "-i", filepath.Join(ops[i].dir, "vs1.yaml"), "--socket", socket), socket)
		where[i].await("that it answers", func(*api.Status) bool { return true })
	}
	start(0)
	up := filepath.Join(ops[0].dir, "up.plan")
	ops[0].run(2, "plan", "-i", ops[0].fleet, "-o", up)
	ops[0].run(0, "apply", up, "--soak", "50ms")
	where[0].await("that its port is live", live)
	text, err := os.ReadFile(filepath.Join(ops[0].dir, "vs1.yaml"))
	if err == nil {
		err = os.WriteFile(filepath.Join(ops[1].dir, "vs1.yaml"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	start(1)
	for i, kind := range bridgeFaults {
		owner, next := where[i%2], where[1-i%2]
		next.await("that the other has the bridge", func(s *api.Status) bool { return first(s).State != api.StateLive })
		was, begin := b.writer(t), time.Now()
		host := ops[i%2].host
		over := befalls(t, kind, host, owner, func() { isolate(t, host) })
		next.await("its machine was "+kind+", that the next one is live", live)
		now := b.writer(t)
		t.Logf("the agent's machine was %s: live again %v later; %s, then %s", kind, time.Since(begin).Round(10*time.Millisecond), was, now)
		if now == was {
			t.Errorf("the bridge has %s, as before", now)
		}
		over()
		if kind != "lost" { // back, it changes nothing
			owner.await("that it has lost the bridge", func(s *api.Status) bool { return first(s).State != api.StateLive })
			if w := b.writer(t); w != now {
				t.Errorf("it is back, and the bridge has %s, not %s", w, now)
			}
			_ = owner.signal(syscall.SIGKILL)
			<-owner.ended
		}
		start(i % 2)
	}
}
