package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/counters/snmp/snmptest"
	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/protocol/gnmi/gnmitest"
	"github.com/csig-agent/csig/protocol/ssh/sshtest"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
)

// mostMemory is what csig may need beside hostile peers, in MiB.
const mostMemory = 300

// mostResident is the most memory that a process has had until it ended, in MiB. What
// the kernel reports at its end includes the tests', of which it is a fork.
func mostResident(pid int, ended <-chan struct{}) (most float64) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return most
		case <-tick.C:
			if mib, ok := memory(pid, "VmHWM:"); ok {
				most = max(most, mib)
			}
		}
	}
}

// measured runs csig where the peers are, and holds it to its memory and to a time
// in which no hang goes unnoticed. It returns all that csig wrote.
func measured(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience) // with ten other programs per processor, a watch of 10 s took 35
	defer cancel()
	cmd := exec.CommandContext(ctx, released(t), args...)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	cmd.Env = append(os.Environ(), "CSIG_TEST_COMMUNITY=public")
	cmd.WaitDelay = time.Second
	began := time.Now()
	most, ended := 0.0, make(chan struct{})
	err := cmd.Start()
	if err == nil {
		go func() {
			defer close(ended)
			err = cmd.Wait()
		}()
		most = mostResident(cmd.Process.Pid, ended)
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("csig %s: %v\n%.3000s", args[0], err, text.String())
	}
	t.Logf("csig %s: exit code %d after %v, %.0f MiB", args[0], cmd.ProcessState.ExitCode(), time.Since(began).Round(10*time.Millisecond), most)
	if most > mostMemory {
		t.Errorf("csig %s took %.0f MiB", args[0], most)
	}
	if strings.ContainsAny(text.String(), "\x1b\x07") {
		t.Errorf("csig %s shows escape sequences:\n%.3000q", args[0], text.String())
	}
	return text.String(), cmd.ProcessState.ExitCode()
}

// hostileDevices are the lines of a fleet file for switches that are broken in
// every way that they can be reached.
func hostileDevices(t *testing.T) (devices []string) {
	add := func(platform, management string, args ...any) {
		if strings.HasPrefix(management, "%s") { // by SSH
			platform += ", address: 127.0.0.1"
		}
		devices = append(devices, fmt.Sprintf("  - {name: bad%d, platform: %s, management: {%s}, ports: [{name: Ethernet0, speed: 50M, lm: {abw: 3, abwc: 3}}]}\n", len(devices), platform, fmt.Sprintf(management, args...)))
	}
	login := func(s *sshtest.Server) string {
		text := fmt.Sprintf("ssh: {user: %s, port: %d, known_hosts: %s, ", s.Login.User, s.Login.Port, s.Login.KnownHosts)
		if s.Login.Key != "" {
			return text + "key: " + s.Login.Key + "}"
		}
		return text + "password: {file: " + s.Login.Password.File + "}, sudo: true}"
	}
	for i, how := range sshtest.Hostilities {
		way := [][2]string{{"sonic", "%s"}, {"ovs", "%s, ovs: {bridge: br0}"}}[i%2]
		add(way[0], way[1], login(sshtest.Hostile(t, how)))
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := uint16(ln.Addr().(*net.TCPAddr).Port)
	ln.Close()
	sshd := login(sshtest.Start(t, sshtest.Options{Port: port, Extra: []string{"MaxStartups 200", "MaxSessions 100"}}))
	for _, how := range append(sonictest.Hostilities(), sonictest.Flood()) {
		add("sonic", "%s, redis: {databases: %s}", sshd, sonictest.StartHostile(t, how, nil, 0).File)
	}
	dir, err := os.MkdirTemp("", "csig") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	real := ovstest.Start(t, ovstest.Options{Dummy: true})
	real.AddBridge("csig")
	bridge := func(database, mgmt func(io.ReadWriteCloser)) {
		run, err := os.MkdirTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		for name, serve := range map[string]func(io.ReadWriteCloser){"db.sock": database, "csig.mgmt": mgmt} {
			if at := filepath.Join(run, name); serve != nil {
				listenUnix(t, at, func(c net.Conn) { serve(c) })
			} else if err := os.Symlink(filepath.Join(real.Dir, name), at); err != nil {
				t.Fatal(err)
			}
		}
		add("ovs", "%s, ovs: {bridge: csig, run_dir: %s}", sshd, run)
	}
	for _, h := range ovstest.HostileDatabases() {
		bridge(h.Serve, nil)
	}
	for _, h := range ovstest.HostileBridges() {
		bridge(nil, h.Serve)
	}
	const head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
	for name, serve := range map[string]func(net.Conn){
		"closes":  func(net.Conn) {},
		"silent":  func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
		"blanks":  pours(head, " "),
		"string":  pours(head+`{"format":"`, "x"),
		"headers": pours("HTTP/1.1 200 OK\r\n", "X: y\r\n"),
		"early":   pours("", "HTTP/1.1 103 Early Hints\r\n\r\n"),
		"ranges": func(c net.Conn) {
			_, _ = io.WriteString(c, head+`{"format":"csig.setup/v1","setup":{"layout":"draft-00","signals":["abw"],"on_stale":"conservative","ports":[{"action":"update","prefix":"x","first":9223372036854775806,"last":9223372036854775807}]}}`)
		},
		"escapes": func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 500 Oops\r\n\r\n"+`{"format":"csig.error/v1","error":"\u001b[2J\u0007\n[x](http://evil.example)"}`)
		},
	} {
		socket := filepath.Join(dir, name+".sock")
		listenUnix(t, socket, serve)
		add("linux", "daemon: {socket: %s}", socket)
	}
	return devices
}

// pours is a peer that writes text again and again, after a beginning.
func pours(begin, text string) func(net.Conn) {
	chunk := []byte(strings.Repeat(text, max(1, 1<<16/len(text))))
	return func(c net.Conn) {
		go func() { _, _ = io.Copy(io.Discard, c) }()
		_, err := io.WriteString(c, begin)
		for err == nil {
			_, err = c.Write(chunk)
		}
	}
}

// listenUnix serves every connection to a socket until stop, or the test's end. The socket is of a namespace of
// its own, where the csig of another test does not find it when it looks for all bridges of its own.
func listenUnix(t *testing.T, path string, serve func(net.Conn)) (stop func()) {
	t.Helper()
	ns, err := fabric.NewNS("hostile")
	if err != nil {
		t.Fatal(err)
	}
	var ln net.Listener
	err = ns.Do(func() (err error) {
		ln, err = net.Listen("unix", path)
		return err
	})
	if err := errors.Join(err, ns.Close()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stop = func() { cancel(); ln.Close() }
	t.Cleanup(stop)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(ctx, func() { c.Close() })
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return stop
}

// TestLongHostilePeers has one fleet of healthy switches and of peers that flood, lie,
// stall and hang up in all protocols of csig: every command finishes the healthy
// ones, in bounded time and memory, and shows no escape sequence.
func TestLongHostilePeers(t *testing.T) {
	t.Parallel()
	if !mayStrip(t) {
		return
	}
	loopback(t)
	r := newMixedRow(t, byRow, byDaemon, byRow)
	daemons := r.daemons()
	before := r.rulesets()
	bad := hostileDevices(t)

	// A device that turns bad between plan and apply: apply ends, and has changed
	// nothing.
	if out, code := measured(t, "plan", "-i", r.fleet, "-o", r.path("plan")); code != 2 {
		t.Fatalf("plan of the healthy ones: exit code %d\n%s", code, out)
	}
	for _, serve := range []func(net.Conn){pours("HTTP/1.1 200 OK\r\n\r\n", " "), func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }} {
		if err := daemons[0].signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		stop := listenUnix(t, r.socket(1), serve)
		journal := filepath.Join(t.TempDir(), "journal")
		if out, code := measured(t, "apply", r.path("plan"), "--soak", "0s", "--timeout", "2s", "--journal", journal); code != 1 || !strings.Contains(out, "device s2: ") {
			t.Errorf("apply past a bad daemon: exit code %d\n%s", code, out)
		}
		r.wantRules(before, "after an apply that could not begin")
		stop()
		daemons[0] = r.daemon(1)
	}
	if out, code := measured(t, "apply", r.path("plan"), "--soak", "0s"); code != 0 {
		t.Fatalf("apply: exit code %d\n%s", code, out)
	}
	daemons[0].live()
	if out, code := measured(t, "status", "--socket", r.socket(1)); code != 0 || !strings.Contains(out, "east") {
		t.Errorf("status: exit code %d\n%s", code, out)
	}

	r.edit("links:\n", strings.Join(bad, "")+"links:\n")
	for _, command := range []string{"plan", "assess"} {
		out, _ := measured(t, command, "-i", r.fleet, "--json", "--timeout", "5s", "--parallel", "64")
		for i := range bad {
			if name := fmt.Sprintf(`"bad%d"`, i); !strings.Contains(out, name) {
				t.Errorf("%s does not name %s", command, name)
			}
		}
		if strings.Contains(out, "please report it") {
			t.Errorf("%s: %.3000s", command, out)
		}
	}
	out, code := measured(t, "off", "-i", r.fleet, "--timeout", "10s", "--parallel", "64")
	if code != 1 || strings.Contains(out, "please report it") {
		t.Errorf("off: exit code %d\n%.3000s", code, out)
	}
	r.wantRules(before, "after off")
	if t.Failed() {
		t.Logf("off: %s", out)
	}
}

// loopback gives the tests' own namespace a loopback interface that is up.
func loopback(t *testing.T) {
	t.Helper()
	if _, err := fabric.Loopback(); err != nil {
		t.Fatal(err)
	}
}

// TestLongHostileCounters reads healthy agents beside hostile ones.
func TestLongHostileCounters(t *testing.T) {
	t.Parallel()
	loopback(t)
	var text strings.Builder
	text.WriteString(`format: csig.fleet/v1
profile:
  name: polled
  tpid: 0x9900
  interval: 2s
  signals: {abw: {buckets: log-100G}}
defaults: {platform: linux}
devices:
`)
	n := 0
	add := func(name, source, port string) {
		fmt.Fprintf(&text, "  - {name: %s, address: 127.0.0.1, counters: {%s}, ports: [{name: %s, speed: 100G, lm: 3}]}\n", name, source, port)
		n++
	}
	snmp := func(name string, a *snmptest.Agent) {
		add(name, fmt.Sprintf("source: snmp, snmp: {version: 2c, port: %d, community: {env: CSIG_TEST_COMMUNITY}}", a.Port), a.Ports[0])
	}
	gnmi := func(name string, g gnmitest.Target) {
		_, port, err := net.SplitHostPort(g.Serve(t, "Ethernet1"))
		if err != nil {
			t.Fatal(err)
		}
		add(name, "source: gnmi, gnmi: {plaintext: true, port: "+port+"}", "Ethernet1")
	}
	snmp("well1", snmptest.Start(t, 4, nil))
	gnmi("well2", gnmitest.Healthy())
	for _, do := range snmptest.Hostile() {
		snmp(fmt.Sprint("bad", n), snmptest.Start(t, 4, do))
	}
	for _, g := range gnmitest.Hostile() {
		gnmi(fmt.Sprint("bad", n), g)
	}
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	out, code := measured(t, "counters", "watch", "-i", file, "--duration", "10s", "--json", "--report", "1h")
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	good := map[string]bool{}
	for line := range strings.Lines(out) {
		var d struct {
			Device        string
			Reads, Failed int
			Ports         []struct{ State string }
		}
		if !strings.Contains(line, `"csig.watch-device/`) {
			continue // the fleet's, and what is wrong with devices
		}
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatalf("%v: %.300s", err, line)
		}
		good[d.Device] = good[d.Device] || d.Reads > d.Failed && len(d.Ports) == 1 && d.Ports[0].State == "ok"
	}
	if !good["well1"] || !good["well2"] {
		t.Errorf("the healthy ones are not well:\n%.3000s", out)
	}
	t.Logf("%d devices", n)
}
