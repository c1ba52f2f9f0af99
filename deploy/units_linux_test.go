package deploy

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/csig-agent/csig/agent/api"
)

var update = flag.Bool("update", false, "rewrite testdata/*.sandbox")

const (
	probes     = "/deb/csig" // a copy of the program, which stays when its package goes
	switchFile = "/etc/csig/switch.yaml"
	switchText = `
format: csig.fleet/v1
profile: {name: lab, tpid: 0x9900, interval: 100ms, signals: {abw: {buckets: log-10G}}}
devices:
  - name: s1
    platform: linux
    local: true
    ports: [{name: swp1, speed: 100M, action: strip}, {name: swp2, speed: 100M, lm: 2}]
`
	meshFile = "/etc/csig/mesh.yaml"
	meshKey  = "/etc/csig/mesh.key"
	meshText = `
format: csig.fleet/v1
profile: {name: lab, tpid: 0x9900, interval: 1s, signals: {abw: {buckets: log-10G}}}
devices:
  - name: s1
    platform: linux
    ports: [{name: swp1, speed: 10G, peer: h1}, {name: swp2, speed: 10G, peer: h2}]
hosts:
  - {name: h1, csig: true, local: true, address: 127.0.0.1, interface: lo}
  - {name: h2, csig: true, address: 127.0.0.2}
mesh: {key: {file: ` + meshKey + `}, interval: 1s}
`
	hostFile = "/etc/csig/host.yaml"
	hostText = `
format: csig.fleet/v1
profile: {name: lab, tpid: 0x88a8, interval: 1s, signals: {abw: {buckets: log-10G}}}
vlan_tpids: [0x8100]
devices:
  - name: s1
    platform: linux
    ports: [{name: swp1, speed: 10G, peer: h1}, {name: swp2, speed: 10G, peer: h2}]
hosts:
  - {name: h1, csig: true, local: true, address: 10.9.0.1, interface: host0, tcp: {to: [10.9.0.0/24], control: csig}}
  - {name: h2, csig: true, address: 10.9.0.2, tcp: {to: [10.9.0.0/24]}}
`
	fleetText = `
format: csig.fleet/v1
profile: {name: lab, tpid: 0x88a8, interval: 1s, signals: {abw: {buckets: log-10G}}}
vlan_tpids: [0x8100]
devices:
  - name: vs1
    platform: ovs
    address: 127.0.0.1
    management:
      ovs: {bridge: csig}
      ssh: {user: csig, key: /etc/csig/id_ed25519}
      daemon: {at: here, socket: /run/csig/vs1.sock}
    ports: [{name: swp1, speed: 10G, lm: 1}]
`
)

// write writes a file of the root.
func (r root) write(name, text string) {
	r.t.Helper()
	name = filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// agentUnit runs csig-agent with a fleet file on ports of the machine: what its restrictions
// let through, start, reload, a hang, stop, an upgrade by the given function, and a reboot.
// It leaves it running.
func (r root) agentUnit(upgrade func(m *machine)) *machine {
	t, m := r.t, r.boot()
	t.Helper()
	const unit = "csig-agent"
	if out, _ := m.try("systemctl", "is-enabled", unit); out != "disabled" {
		t.Errorf("the installation leaves %s %s", unit, out)
	}
	m.sandbox(unit, "/usr/bin/csig agent $ARGS")

	m.run("cp", "/usr/bin/csig", probes)
	r.write("etc/csig/agent.conf", "ARGS=-i "+switchFile+"\n")
	r.write(switchFile, switchText)
	m.ports()
	m.run("systemctl", "enable", "--now", "--quiet", unit)
	// With Type=notify it has started once it has said so, and answers from then on.
	m.run("csig", "status")
	await(t, "all ports are live", m.status(func(s *api.Status) bool { return s.SelfTest.Level == "full" }))
	m.reads("swp2 has written S", func(s uint32, lm uint16) bool { return s > 0 && s < 31 && lm == 2 })
	if rules := m.host("nft", "list", "ruleset"); !strings.Contains(rules, `comment "csig v1"`) {
		t.Errorf("the rules of csig are not there:\n%s", rules)
	}
	m.service(unit)
	// CAP_NET_ADMIN, CAP_NET_RAW and CAP_SYS_ADMIN; the last two are CAP_CHOWN and CAP_DAC_OVERRIDE.
	for name, want := range map[string]string{"NoNewPrivs": "1", "Seccomp": "2", "CapEff": "0000000000203000", "CapBnd": "0000000000203003"} {
		if got := m.processOf(unit)[name]; got != want {
			t.Errorf("%s of %s is %s, want %s", name, unit, got, want)
		}
	}
	if got := m.group(unit, "memory", "memory.limit_in_bytes", "memory.max"); got != "536870912" {
		t.Errorf("%s may have %s bytes of memory", unit, got)
	}
	if got := m.show(unit, "StatusText"); !strings.HasPrefix(got, "s1: ") {
		t.Errorf("the status of %s is %q", unit, got)
	}

	m.run("systemctl", "reload", unit)
	await(t, "the agent has read its file again", m.status(func(s *api.Status) bool { return s.Reload != nil && s.Reload.Error == "" }))
	if got := m.show(unit, "ActiveState"); got != "active" {
		t.Errorf("after the reload %s is %s", unit, got)
	}

	// The unit's own 30 s would be as long as all of this.
	r.write("etc/systemd/system/csig-agent.service.d/test.conf", "[Service]\nWatchdogSec=3s\n")
	m.run("systemctl", "daemon-reload")
	m.run("systemctl", "restart", unit)
	fed := m.show(unit, "WatchdogTimestampMonotonic")
	await(t, "the watchdog is fed", func() string {
		if m.show(unit, "WatchdogTimestampMonotonic") == fed {
			return "since " + fed
		}
		return ""
	})
	hung := m.show(unit, "MainPID")
	m.run("sh", "-c", "kill -STOP "+hung)
	await(t, "the watchdog restarts an agent that hangs", func() string {
		if now := m.show(unit, "MainPID"); now == "0" || now == hung {
			return "process " + now
		}
		return ""
	})
	await(t, "all ports are live again", m.status(nil))
	if got := m.show(unit, "NRestarts"); got != "1" {
		t.Errorf("%s restarts", got)
	}
	if err := os.RemoveAll(filepath.Join(r.dir, "etc/systemd/system/csig-agent.service.d")); err != nil {
		t.Fatal(err)
	}
	m.run("systemctl", "daemon-reload")

	m.run("systemctl", "stop", unit)
	m.reads("stopped, swp2 has the fallback", func(s uint32, lm uint16) bool { return s == 0 && lm == 125 })
	if got := m.show(unit, "Result"); got != "success" {
		t.Errorf("stopped, %s has the result %s", unit, got)
	}
	m.run("systemctl", "start", unit)
	await(t, "started again", m.status(nil))

	before := m.show(unit, "MainPID")
	upgrade(m)
	if got := m.show(unit, "MainPID"); got != before {
		t.Errorf("the upgrade has restarted %s", unit)
	}
	await(t, "the old version goes on", m.status(func(s *api.Status) bool { return s.Version == "0.1.0" }))
	if got := m.show(unit, "NeedDaemonReload"); got != "no" {
		t.Errorf("NeedDaemonReload is %s", got)
	}
	m.run("systemctl", "restart", unit)
	await(t, "the new version runs", m.status(func(s *api.Status) bool { return s.Version == "v0.2.0" }))

	m.halt()
	m = r.boot()
	m.ports()
	await(t, "after a reboot the agent runs by itself", m.status(nil))
	return m
}

// ports makes the agent's ports, with a host at each and a bridge between them, and has h1 send
// probes to h2.
func (m *machine) ports() {
	m.t.Helper()
	m.host("sh", "-ec", `
		ip link add swp1 type veth peer h1
		ip link add swp2 type veth peer h2
		ip link set h2 address 02:00:00:00:00:02
		ip link add br0 type bridge mcast_snooping 0
		ip link set swp1 master br0
		ip link set swp2 master br0
		for dev in br0 swp1 swp2 h1 h2; do
			ip link set $dev up
		done`)
	sender := exec.Command("nsenter", "--target", m.init, "--all", "--", probes, "probe", "send", "-I", "h1", "--dst", "02:00:00:00:00:02", "-i", switchFile, "--signal", "abw")
	if err := sender.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		m.halt()          // its processes end with it
		_ = sender.Wait() // killed
	})
}

// reads waits until the tags that arrive at h2 are right.
func (m *machine) reads(what string, right func(s uint32, lm uint16) bool) {
	m.t.Helper()
	await(m.t, what, func() string {
		out := m.run(probes, "probe", "listen", "-I", "h2", "-i", switchFile, "--count", "1", "--json")
		var got struct {
			Frames []struct {
				Tag struct {
					S  uint32
					LM uint16
				}
			}
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Frames) != 1 {
			return fmt.Sprintf("%v\n%s", err, out)
		}
		if tag := got.Frames[0].Tag; !right(tag.S, tag.LM) {
			return fmt.Sprintf("S=%d, LM=%d", tag.S, tag.LM)
		}
		return ""
	})
}

// status is for await: whether all ports are live, and what else is asked for.
func (m *machine) status(also func(*api.Status) bool) func() string {
	return func() string {
		out, err := m.try("csig", "status", "--json")
		if err != nil {
			return out
		}
		var s api.Status
		if err := json.Unmarshal([]byte(out), &s); err != nil {
			return err.Error()
		}
		if out, err := m.try("csig", "status", "--check"); err != nil {
			return out
		}
		if also != nil && !also(&s) {
			return out
		}
		return ""
	}
}

// group is a file of a unit's control group, in the hierarchy of a controller or the only one.
func (m *machine) group(unit, controller, old, unified string) string {
	m.t.Helper()
	name, path := old, "/sys/fs/cgroup/"+controller
	if _, err := m.try("test", "-d", path); err != nil {
		name, path = unified, "/sys/fs/cgroup"
	}
	return m.run("cat", path+m.show(unit, "ControlGroup")+"/"+name)
}

// service wants properties of a unit that runs.
func (m *machine) service(unit string) {
	m.t.Helper()
	for property, want := range map[string]string{"Type": "notify", "Restart": "on-failure", "WatchdogUSec": "30s", "StartLimitIntervalUSec": "0", "Result": "success", "NeedDaemonReload": "no"} {
		if got := m.show(unit, property); got != want {
			m.t.Errorf("%s of %s is %s, want %s", property, unit, got, want)
		}
	}
}

// sandbox wants what the restrictions of a unit let through to be as in testdata.
func (m *machine) sandbox(unit, command string) {
	m.t.Helper()
	if got := m.show(unit, "ExecStart"); !strings.Contains(got, "argv[]="+command+" ;") {
		m.t.Errorf("%s runs %s", unit, got)
	}
	build := exec.Command("go", "build", "-o", filepath.Join(m.dir, "deb", "sandbox"), "./testdata/sandbox")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		m.t.Fatalf("%v\n%s", err, out)
	}
	conf := "etc/systemd/system/" + unit + ".service.d"
	m.write(conf+"/test.conf", "[Service]\nExecStart=\nExecStart=/deb/sandbox\nType=oneshot\nRestart=no\nStandardOutput=truncate:/deb/sandbox.out\n")
	m.run("systemctl", "daemon-reload")
	m.run("systemctl", "start", unit)
	if err := os.RemoveAll(filepath.Join(m.dir, conf)); err != nil {
		m.t.Fatal(err)
	}
	m.run("systemctl", "daemon-reload")
	got, err := os.ReadFile(filepath.Join(m.dir, "deb/sandbox.out"))
	if err != nil {
		m.t.Fatal(err)
	}
	golden := "testdata/" + unit + ".sandbox"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			m.t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(golden); err != nil || string(want) != string(got) {
		m.t.Errorf("%s: %v; go test ./deploy -run TestLongPackages -update\n%s\nwant\n%s", unit, err, got, want)
	}
}

// controllerUnit runs csig-controller with a fleet file: as its user, and with what files.
func (m *machine) controllerUnit() {
	t := m.t
	t.Helper()
	const unit = "csig-controller"
	m.sandbox(unit, "/usr/bin/csig-controller $ARGS")
	m.write("etc/csig/fleet.yaml", fleetText)
	m.run("systemctl", "enable", "--now", "--quiet", unit)
	await(t, "the controller's agent", func() string { // its agents begin one after another
		out, _ := m.try(probes, "status", "--socket", "/run/csig/vs1.sock")
		if strings.Contains(out, "WAITING") {
			return ""
		}
		return out
	})
	m.service(unit)
	status := m.processOf(unit)
	uid := m.run("id", "-u", "csig")
	for name, want := range map[string]string{"NoNewPrivs": "1", "Seccomp": "2", "CapEff": "0000000000000000", "CapBnd": "0000000000000000", "Uid": strings.Join([]string{uid, uid, uid, uid}, "\t")} {
		if status[name] != want {
			t.Errorf("%s of %s is %s, want %s", name, unit, status[name], want)
		}
	}
	for path, want := range map[string]string{"/run/csig": "csig 755", "/run/csig/vs1.sock": "csig 600", "/var/lib/csig": "csig 700", "/var/lib/csig/controller": "csig 700"} {
		if got := m.run("stat", "--format=%U %a", path); got != want {
			t.Errorf("%s belongs to %s, want %s", path, got, want)
		}
	}
	m.run("systemctl", "reload", unit)
	m.run("systemctl", "restart", unit)
	if got := m.show(unit, "ActiveState"); got != "active" {
		t.Errorf("%s is %s", unit, got)
	}
}

// meshUnit runs csig-mesh as a host that collects: as its user, with one capability, and by a fleet file that
// changes. It leaves it running.
func (m *machine) meshUnit() {
	t := m.t
	t.Helper()
	const unit = "csig-mesh"
	if out, _ := m.try("systemctl", "is-enabled", unit); out != "disabled" {
		t.Errorf("the installation leaves %s %s", unit, out)
	}
	m.sandbox(unit, "/usr/bin/csig mesh run --socket /run/csig-mesh/mesh.sock $ARGS")
	m.host("ip", "link", "set", "lo", "up")
	m.write("etc/csig/mesh.conf", "ARGS=-i "+meshFile+" --collect\n")
	m.write(meshFile, meshText)
	m.write(meshKey, "a key of sixteen bytes\n")
	m.run("chown", "csig-mesh:", meshKey)
	m.run("chmod", "0400", meshKey)
	m.run("systemctl", "enable", "--now", "--quiet", unit)
	status := func(want string) func() string {
		return func() string {
			out, err := m.try("csig", "mesh", "status")
			if err != nil || !strings.Contains(out, want) {
				return out
			}
			return ""
		}
	}
	await(t, "the collector has the host's rows", status("mesh lab: 1 of 2 hosts live"))
	m.service(unit)
	process, uid := m.processOf(unit), m.run("id", "-u", unit)
	for name, want := range map[string]string{"NoNewPrivs": "1", "Seccomp": "2", "CapEff": "0000000000002000", "CapBnd": "0000000000002000", "Uid": strings.Join([]string{uid, uid, uid, uid}, "\t")} {
		if process[name] != want {
			t.Errorf("%s of %s is %s, want %s", name, unit, process[name], want)
		}
	}
	if got := m.run("stat", "--format=%U %a", "/run/csig-mesh/mesh.sock"); got != "csig-mesh 600" {
		t.Errorf("the socket belongs to %s", got)
	}
	if got := m.show(unit, "StatusText"); got != "h1: probes 1 host" {
		t.Errorf("the status of %s is %q", unit, got)
	}
	m.write(meshFile, strings.Replace(meshText, "interval: 1s}\n", "interval: 2s}\n", 1))
	m.run("systemctl", "reload", unit)
	await(t, "the changed file is in force", status("a host is probed every 2s or more"))
	if got := m.show(unit, "ActiveState") + " " + m.show(unit, "NRestarts"); got != "active 0" {
		t.Errorf("after the reload %s is %s", unit, got)
	}
	m.run("systemctl", "stop", unit)
	if got := m.show(unit, "Result"); got != "success" {
		t.Errorf("stopped, %s has the result %s", unit, got)
	}
	m.run("systemctl", "start", unit)
}

// hostUnit runs csig-host on an interface of the machine, with three capabilities, and its congestion control. It
// leaves it running.
func (m *machine) hostUnit() {
	t := m.t
	t.Helper()
	const unit = "csig-host"
	if out, _ := m.try("systemctl", "is-enabled", unit); out != "disabled" {
		t.Errorf("the installation leaves %s %s", unit, out)
	}
	m.sandbox(unit, "/usr/bin/csig host run --socket /run/csig-host/host.sock $ARGS")
	m.host("sh", "-ec", `
		ip link add host0 mtu 1504 type veth peer host1
		ip link set host0 up
		ip link set host1 up
		ip route add 10.9.0.0/24 dev host0 mtu 1500`)
	m.run("mount", "-t", "bpf", "-o", "mode=0700", "bpf", "/sys/fs/bpf") // as systemd does outside of containers
	m.write("etc/csig/host.conf", "ARGS=-i "+hostFile+"\n")
	m.write(hostFile, hostText)
	m.run("systemctl", "enable", "--now", "--quiet", unit)
	await(t, "connections may have tags, and csig's congestion control", func() string {
		out, err := m.try("csig", "host", "status", "--check")
		if err != nil || !strings.HasPrefix(out, "OK: csig host: host h1 at host0: 0 connections") {
			return out
		}
		return ""
	})
	if out := m.run("csig", "host", "status", "--json"); !strings.Contains(out, `"no_maps":""`) && !strings.Contains(out, `"no_maps": ""`) {
		t.Errorf("programs cannot read the signals of their connections: %s", out)
	}
	if out := m.run("stat", "--format=%a", "/run/csig-host/host-signals.sock"); out != "666" {
		t.Errorf("the socket of signals has the mode %s", out)
	}
	m.run("systemctl", "reload", unit)
	m.service(unit)
	for name, want := range map[string]string{"NoNewPrivs": "1", "Seccomp": "2", "CapEff": "000000c000001000", "CapBnd": "000000c000001000"} {
		if got := m.processOf(unit)[name]; got != want {
			t.Errorf("%s of %s is %s, want %s", name, unit, got, want)
		}
	}
	if got := m.show(unit, "StatusText"); got != "h1: TCP has tags at host0" {
		t.Errorf("the status of %s is %q", unit, got)
	}
	m.run("systemctl", "stop", unit)
	if got := m.show(unit, "Result"); got != "success" {
		t.Errorf("stopped, %s has the result %s", unit, got)
	}
	m.run("systemctl", "start", unit)
}

// removeCrashed removes a package whose unit waits for its next start after a crash: what it made is
// still there, and nothing could take it away. It is refused once, and the unit runs again after.
func (m *machine) removeCrashed(program, unit string) {
	t := m.t
	t.Helper()
	with := filepath.Join("/proc", m.init, "root/run/systemd/system", unit+".service.d")
	later := filepath.Join(with, "later.conf")
	if err := errors.Join(os.MkdirAll(with, 0o755), os.WriteFile(later, []byte("[Service]\nRestartSec=1h\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	m.run("systemctl", "daemon-reload")
	m.run("systemctl", "kill", "--kill-who=main", "--signal=SIGKILL", unit)
	await(t, "its next start is waited for", func() string {
		if got := m.show(unit, "SubState"); got != "auto-restart" {
			return got
		}
		return ""
	})
	if out, err := m.try("dpkg", "--remove", program); err == nil || !strings.Contains(out, "csig off removes it") {
		t.Errorf("removed after a crash: %v\n%s", err, out)
	}
	m.run("csig", "version")
	if err := os.Remove(later); err != nil { // it was not the package's
		t.Errorf("the removal took what an operator made: %v", err)
	}
	m.run("systemctl", "daemon-reload")
	m.run("systemctl", "enable", "--now", unit)
}

// purge removes packages while their units run, and wants nothing of them to be left in what
// ends with the machine.
func (m *machine) purge(program, unit string) {
	t := m.t
	t.Helper()
	if got := m.show(unit, "ActiveState"); got != "active" {
		t.Errorf("before the purge %s is %s", unit, got)
	}
	m.run("dpkg", "--purge", program)
	if got := m.show(unit, "LoadState") + " " + m.show(unit, "ActiveState"); got != "not-found inactive" {
		t.Errorf("purged, %s is %s", unit, got)
	}
	if out := m.run("find", "/run", "/sys/fs/cgroup", "-name", "*csig*", "-not", "-name", "csig-test*"); out != "" {
		t.Errorf("purged, and there is %s", out)
	}
}
