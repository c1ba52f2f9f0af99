package deploy

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// machine is a root in which systemd runs as process 1 of namespaces of its own, its network
// included.
type machine struct {
	root
	cmd  *exec.Cmd
	stop func() // closes its standard input
	init string // the process outside
}

// patience is how long a test waits for what has to come.
const patience = time.Minute

// boot starts the systemd of the root, and waits until it is up.
func (r root) boot() *machine {
	r.t.Helper()
	m := &machine{root: r, cmd: exec.Command("sh", "testdata/machine", r.dir)}
	stdin, err := m.cmd.StdinPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	stdout, err := m.cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	m.cmd.Stderr = os.Stderr
	if err := m.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	m.stop = func() { _ = stdin.Close() }
	r.t.Cleanup(m.halt)
	parent, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		r.t.Fatalf("no machine: %v", err)
	}
	parent = strings.TrimSpace(parent)
	await(r.t, "systemd runs", func() string {
		children, _ := os.ReadFile("/proc/" + parent + "/task/" + parent + "/children")
		m.init = strings.TrimSpace(string(children))
		name, _ := os.ReadFile("/proc/" + m.init + "/comm")
		if strings.TrimSpace(string(name)) != "systemd" {
			return "there is none yet"
		}
		out, _ := m.try("systemctl", "is-system-running", "--wait")
		if out == "running" {
			return ""
		}
		failed, _ := m.try("systemctl", "--failed", "--no-pager")
		return out + "\n" + failed
	})
	return m
}

// halt ends all of it, as when power fails; a second time it does nothing.
func (m *machine) halt() {
	if m.stop == nil {
		return
	}
	m.stop()
	m.stop = nil
	if err := m.cmd.Wait(); err != nil {
		m.t.Errorf("the end of the machine: %v", err)
	}
}

// try runs a command in the machine, and returns what it prints.
func (m *machine) try(name string, args ...string) (string, error) {
	cmd := exec.Command("nsenter", append([]string{"--target", m.init, "--all", "--", name}, args...)...)
	cmd.Env = []string{"DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "SYSTEMD_COLORS=0"}
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// run wants a command to succeed.
func (m *machine) run(name string, args ...string) string {
	m.t.Helper()
	out, err := m.try(name, args...)
	if err != nil {
		log, _ := m.try("journalctl", "--no-pager", "--lines=50", "--output=short-monotonic")
		m.t.Fatalf("%s %q: %v\n%s\n%s", name, args, err, out, log)
	}
	return out
}

// host runs a command of this machine in the network of that one.
func (m *machine) host(name string, args ...string) string {
	m.t.Helper()
	return run(m.t, nil, "nsenter", append([]string{"--target", m.init, "--net", "--", name}, args...)...)
}

// show is a property of a unit.
func (m *machine) show(unit, property string) string {
	m.t.Helper()
	return m.run("systemctl", "show", "--value", "--property="+property, unit)
}

// await waits until there is nothing that is missing.
func await(t *testing.T, what string, missing func() string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		why := missing()
		if why == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not in %v: %s: %s", patience, what, why)
		}
	}
}

// processOf are lines of /proc/PID/status of a unit's main process.
func (m *machine) processOf(unit string) map[string]string {
	m.t.Helper()
	text := m.run("cat", fmt.Sprintf("/proc/%s/status", m.show(unit, "MainPID")))
	lines := map[string]string{}
	for _, line := range strings.Split(text, "\n") {
		name, value, _ := strings.Cut(line, ":")
		lines[name] = strings.TrimSpace(value)
	}
	return lines
}
