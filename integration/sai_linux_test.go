package integration

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/protocol/ssh/sshtest"
	"github.com/csig-agent/csig/vendors/sai"
	"github.com/csig-agent/csig/vendors/sai/saitest"
)

const saiFleet = `
format: csig.fleet/v1
profile:
  name: pod
  tpid: 0x9900
  wide_tpid: 0x9901
  layout: uec
  interval: 1ms
  signals:
    abw: {buckets: log-400G, quantum: 524288bit/s}
    pd: {buckets: log-1ms, quantum: 64ns}
policy: {schedule: "@every 1s"}
devices:
  - name: leaf-1
    platform: sai
    experimental: true
    local: true
    management: {redis: {databases: %s}, daemon: {socket: %s}}
    ports:
      - {name: Ethernet0, speed: 400G, lm: 5, peer: gpu-1}
      - {name: Ethernet4, speed: 400G, action: strip, peer: storage-1}
hosts: [{name: gpu-1, csig: true}, {name: storage-1, csig: false}]
`

// TestSAISwitch is a switch whose chip does CSIG, from the fleet file to the objects and back: csig agent on it finds orchagent among
// the machine's processes and sets it up, csig plan has nothing left to do, what is changed behind csig's back is made again, orchagent's
// restarts are in csig's status until all is there again, and csig off leaves nothing.
func TestSAISwitch(t *testing.T) {
	t.Parallel()
	sw := saitest.New(t, "Ethernet0", "Ethernet4")
	host := newHost(t, "leaf-1")
	orchagent := 0
	start := func() {
		t.Helper()
		if err := host.Do(func() error { orchagent = sw.RunProcess(); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	end := func() {
		t.Helper()
		if err := syscall.Kill(orchagent, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	start()
	flexCounters(t, sw, 2)
	dir := t.TempDir()
	file, sock := filepath.Join(dir, "pod.yaml"), filepath.Join(sw.Redis.Dir, "agent.sock")
	if err := os.WriteFile(file, fmt.Appendf(nil, saiFleet, sw.Redis.File, sock), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(csig, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("csig %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	var log bytes.Buffer
	agent := host.Command(csig, "agent", "-i", file, "--socket", sock, "--wait")
	agent.Stderr = &log
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = agent.Process.Kill()
		_ = agent.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	}()
	until := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(patience); !is(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s does not come about: %v and %v\n%s", what, sw.Objects("SAI_OBJECT_TYPE_TAM_INT"), sw.Object("oid:0x1000000000002"), log.String())
			}
		}
	}
	until("a socket", func() bool { _, err := os.Stat(sock); return err == nil })
	made := func() bool {
		return len(sw.Objects("SAI_OBJECT_TYPE_TAM_INT")) == 4 && len(sw.Objects("SAI_OBJECT_TYPE_TAM")) == 1 && sw.Object("oid:0x1000000000002")["SAI_PORT_ATTR_INT_METADATA"] == "5" && sw.Object("oid:0x1000000000003")["SAI_PORT_ATTR_INT_DELETE"] == "true"
	}
	until("the setup", made)
	if out := run("plan", "-i", file); !strings.Contains(out, "No changes: every device has the setup of the fleet file.") {
		t.Errorf("%s", out)
	}
	sw.Do("SAI_OBJECT_TYPE_PORT:oid:0x1000000000002", "set", "SAI_PORT_ATTR_INT_METADATA", "9")
	until("the repair", made)
	until("what it was", func() bool {
		return strings.Contains(run("status", "--socket", sock), "SAI_PORT_ATTR_INT_METADATA is 9, want 5")
	})
	status := func() string { return strings.Join(strings.Fields(run("status", "--socket", sock)), " ") }
	for _, row := range []struct {
		what, says string
		do         func() (over func())
	}{
		{"config reload", "PortInitDone", func() (over func()) {
			end()
			defer start()
			return sw.Reload()
		}},
		{"warm restart", "is in a warm restart", func() (over func()) {
			end()
			defer start()
			return sw.WarmRestart()
		}},
		{"kill -9", sai.ErrNoOrchagent.Error(), func() (over func()) {
			end()
			sw.Kill()
			return func() {
				sw.Reload()()
				start()
			}
		}},
	} {
		over := row.do()
		// What is lost is seen by reading: in a warm restart all is there until syncd takes it away.
		sw.Do("SAI_OBJECT_TYPE_PORT:oid:0x1000000000002", "set", "SAI_PORT_ATTR_INT_METADATA", "9")
		until("what is wrong, by csig status, after the "+row.what, func() bool {
			text := status()
			return strings.Contains(text, row.says) && strings.Contains(text, "Ethernet0 lost")
		})
		if made() {
			t.Errorf("%s: it is made all the same", row.what)
		}
		over()
		until("the setup after the "+row.what, made)
		until("that csig status says so", func() bool {
			text := status()
			return !strings.Contains(text, "last error") && !strings.Contains(text, "Ethernet0 lost")
		})
	}
	t.Log(run("off", "-i", file, "--yes"))
	if left := append(sw.Objects("SAI_OBJECT_TYPE_TAM_INT"), sw.Objects("SAI_OBJECT_TYPE_TAM")...); len(left) > 0 || sw.Object("oid:0x1000000000003")["SAI_PORT_ATTR_INT_DELETE"] != "false" || sw.Died() != nil {
		t.Errorf("left: %v, %v", left, sw.Died())
	}
}

const saiElsewhere = `
format: csig.fleet/v1
profile: {name: pod, tpid: 0x9900, layout: uec, interval: 1ms, signals: {abw: {buckets: log-400G}}}
policy: {schedule: "@every 1s"}
devices:
  - name: leaf-1
    platform: sai
    experimental: true
    address: 127.0.0.1
    management: {ssh: {user: %s, key: %s, known_hosts: %s, port: %d}, redis: {databases: %s}, daemon: {at: here, socket: DIR/leaf-1.sock}}
    ports: [{name: Ethernet0, speed: 400G, lm: 5, peer: gpu-1}, {name: Ethernet4, speed: 400G, action: strip, peer: storage-1}]
hosts: [{name: gpu-1, csig: true}, {name: storage-1, csig: false}]
`

// TestSAIElsewhere drives such a switch through SSH: csig apply by an agent beside csig, a repair, and csig off past the agent after kill -9.
func TestSAIElsewhere(t *testing.T) {
	t.Parallel()
	sw := saitest.New(t, "Ethernet0", "Ethernet4")
	flexCounters(t, sw, 2)
	here := newHost(t, "here")
	if err := here.Do(func() error { sw.RunProcess(); return nil }); err != nil {
		t.Fatal(err)
	}
	l := sshtest.Start(t, sshtest.Options{Port: loopbackPort(), Start: func(cmd *exec.Cmd) error { return here.Do(cmd.Start) }}).Login
	op := newOperator(t, here, fmt.Sprintf(saiElsewhere, l.User, l.Key, l.KnownHosts, l.Port, sw.Redis.File))
	agent := op.agent("leaf-1")
	plan := filepath.Join(op.dir, "up.plan")
	if out := op.run(2, "plan", "-i", op.fleet, "-o", plan); !strings.Contains(out, "Ethernet4: strip") {
		t.Errorf("%s", out)
	}
	if out := op.run(2, "plan", "-i", op.fleet, "--commands"); !strings.Contains(out, "|c|SAI_OBJECT_TYPE_TAM_INT:") || !strings.Contains(out, "|s|SAI_OBJECT_TYPE_PORT:Ethernet4|SAI_PORT_ATTR_INT_DELETE=true") {
		t.Errorf("%s", out)
	}
	op.run(0, "apply", plan, "--soak", "50ms")
	agent.await("that its chip measures", func(s *api.Status) bool { return s.DataPlane == api.DataPlaneNative && live(s) })
	op.run(0, "plan", "-i", op.fleet)
	if out := op.run(0, "status", "--check", "--socket", filepath.Join(op.dir, "leaf-1.sock")); !strings.Contains(out, "1 live, 1 strip") {
		t.Errorf("%s", out)
	}
	port := func(n int) map[string]string { return sw.Object(fmt.Sprintf("oid:0x100000000000%d", n)) }
	if port(2)["SAI_PORT_ATTR_INT_METADATA"] != "5" || port(3)["SAI_PORT_ATTR_INT_DELETE"] != "true" || len(sw.Objects("SAI_OBJECT_TYPE_TAM_INT")) != 1 {
		t.Errorf("%v, %v", port(2), port(3))
	}
	sw.Do("SAI_OBJECT_TYPE_PORT:oid:0x1000000000002", "set", "SAI_PORT_ATTR_INT_METADATA", "9")
	agent.await("the repair", func(*api.Status) bool { return port(2)["SAI_PORT_ATTR_INT_METADATA"] == "5" })
	agent.stopped(t)
	op.run(0, "off", "-i", op.fleet, "--yes")
	if left := append(sw.Objects("SAI_OBJECT_TYPE_TAM_INT"), sw.Objects("SAI_OBJECT_TYPE_TAM")...); len(left) > 0 || port(3)["SAI_PORT_ATTR_INT_DELETE"] != "false" || sw.Died() != nil {
		t.Errorf("left: %v, %v, %v", left, port(3), sw.Died())
	}
}
