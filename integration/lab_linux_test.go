package integration

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/fabric"
)

var update = flag.Bool("update", false, "rewrite the output that pages show")

// laboratory is a directory, and a mount namespace whose /run is empty, so that
// named network namespaces are its own and go with it.
type laboratory struct {
	t   testing.TB
	dir string
	pid int
}

func newLaboratory(t testing.TB) *laboratory {
	t.Helper()
	l := &laboratory{t: t, dir: t.TempDir()}
	cmd := exec.Command("/bin/sh", "-c", "mount --make-rprivate / && mount -t tmpfs laboratory /run && echo ready && exec sleep infinity")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.endAgents()
		_ = cmd.Process.Kill() // the namespaces go with it
		_ = cmd.Wait()         // it was killed
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("a mount namespace: %q, %v", line, err)
	}
	l.pid = cmd.Process.Pid
	return l
}

// endAgents ends the agents that the page has started.
func (l *laboratory) endAgents() {
	pids, err := os.ReadFile(filepath.Join(l.dir, "pids"))
	if err != nil {
		l.t.Error(err)
	}
	for _, pid := range strings.Fields(string(pids)) {
		n, err := strconv.Atoi(pid)
		if err == nil {
			err = syscall.Kill(n, syscall.SIGKILL)
		}
		if err != nil {
			l.t.Errorf("agent %s: %v", pid, err)
		}
	}
}

// run types a command line, and returns what a terminal would show, and its
// status.
func (l *laboratory) run(line string) (string, int) {
	l.t.Helper()
	cmd := exec.Command("nsenter", fmt.Sprintf("--mount=/proc/%d/ns/mnt", l.pid), "/bin/sh", "-c", `cd "$0" && PATH="$1:$PATH:/usr/sbin:/sbin" && eval "$2"`, l.dir, filepath.Dir(csig), line)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		l.t.Fatalf("%v (Debian: apt-get install util-linux)", err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// The page's laboratory is built with the page's commands, and what its blocks
// show is what comes of theirs, one after the other.
func TestLongRollOutPage(t *testing.T) {
	t.Parallel()
	if !mayStrip(t) {
		return
	}
	newLaboratory(t).showsAgain("rollout.md", 10, timeless)
}

// The tutorial, too: it ends with nothing left.
func TestLongLegacyPage(t *testing.T) {
	t.Parallel()
	l := newLaboratory(t)
	examples, err := filepath.Abs("../examples")
	if err == nil {
		err = errors.Join(os.Symlink(examples, filepath.Join(l.dir, "examples")), os.WriteFile(filepath.Join(l.dir, "pids"), nil, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.run("examples/legacy-lab/lab down") })
	l.showsAgain("legacy.md", 16, func(block string) string { return numbers.ReplaceAllString(timeless(block), "N") })
	if left, _ := l.run("ls -A /run/netns /run/csig-lab 2>&1; ps ax -o args | grep '[c]sig-lab/'"); !strings.Contains(left, "No such file") || strings.Contains(left, "lab-") {
		t.Errorf("left behind: %s", left)
	}
}

// numbers are what is measured, and the space that they are aligned with.
var numbers = regexp.MustCompile(`(-?\b[\d.:–]+(ns|µs|ms|s|k|M|G|%)?\b%?| \+)|run [0-9a-f]{16}|=[0-9]+|  +`)

// showsAgain carries out the commands of a page, and compares what they print but for what alike takes out.
func (l *laboratory) showsAgain(name string, least int, alike func(block string) string) {
	t := l.t
	t.Helper()
	page, err := filepath.Abs("../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	var kind, block string // of the block we are in
	commands := 0
	for line := range strings.Lines(string(old)) {
		text := strings.TrimRight(line, "\n")
		switch {
		case kind == "" && strings.HasPrefix(text, "```"):
			kind, block = text, ""
			out.WriteString(line)
		case kind == "":
			out.WriteString(line)
		case text != "```":
			block += line
		default:
			until, repeat := strings.CutPrefix(kind, "```console lab until ")
			switch {
			case kind == "```yaml lab.yaml":
				if err := os.WriteFile(filepath.Join(l.dir, "lab.yaml"), []byte(block), 0o600); err != nil {
					t.Fatal(err)
				}
			case kind == "```sh lab":
				if text, status := l.run("set -e\n" + block); status != 0 {
					t.Fatalf("building the laboratory: %s", text)
				}
			case kind == "```console lab" || repeat:
				fresh := l.again(block)
				// The first that names it may have frames of before, too: they show two switches.
				same := func() bool { return *update || alike(fresh) == alike(block) }
				for end := time.Now().Add(2 * patience); repeat && (!strings.Contains(printed(fresh), until) || !same()); fresh = l.again(block) {
					if time.Now().After(end) {
						t.Fatalf("no %q comes as the page has it:\n%s", until, fresh)
					}
					time.Sleep(500 * time.Millisecond) // to look again
				}
				commands += strings.Count(fresh, "$ ")
				if alike(fresh) != alike(block) {
					block = fresh
				}
			}
			kind = ""
			out.WriteString(block + line)
		}
	}
	if commands < least {
		t.Errorf("only %d commands found: this test checks little", commands)
	}
	switch {
	case out.String() == string(old):
	case *update:
		if err := os.WriteFile(page, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s shows what csig does not print (go test ./integration -run %s -update):\n%s", name, t.Name(), difference(string(old), out.String()))
	}
}

// printed is a block without its commands.
func printed(block string) string {
	var out strings.Builder
	for line := range strings.Lines(block) {
		if !strings.HasPrefix(line, "$ ") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// again carries out the commands of a block.
func (l *laboratory) again(block string) string {
	l.t.Helper()
	var out strings.Builder
	for line := range strings.Lines(block) {
		command, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			continue
		}
		text, status := l.run(strings.TrimSpace(command))
		pending := strings.HasPrefix(command, "csig plan ") && status == 2
		paused := strings.Contains(command, " --stop-after ") && status == 3
		if status != 0 && !pending && !paused {
			l.t.Errorf("%s: exit code %d\n%s", strings.TrimSpace(command), status, text)
		}
		out.WriteString(line)
		out.WriteString(text)
	}
	return out.String()
}

var clock = regexp.MustCompile(`^ *\d+\.\d+s  (\S+)`)

// measuredAge is how old a signal gets, with the time that a reading took.
var measuredAge = regexp.MustCompile(`is up to [\d.]+m?s old`)

// timeless is a block without what differs from run to run: the time of each
// event, how long a reading took, and the order of those that are side by side, in one wave.
func timeless(block string) string {
	lines := strings.Split(measuredAge.ReplaceAllString(block, "is up to AGE old"), "\n")
	var waves []string
	for i, line := range lines {
		wave := ""
		if m := clock.FindStringSubmatchIndex(line); m != nil {
			wave = line[m[2]:m[3]]
			lines[i] = "TIME  " + line[m[2]:]
		}
		waves = append(waves, wave)
	}
	for i := 0; i < len(lines); {
		k := i + 1
		for k < len(lines) && waves[i] != "" && waves[k] == waves[i] {
			k++
		}
		slices.Sort(lines[i:k])
		i = k
	}
	return strings.Join(lines, "\n")
}

// difference is the lines that only one of two texts has, in short.
func difference(old, fresh string) string {
	var out bytes.Buffer
	has := func(text string) map[string]bool {
		m := map[string]bool{}
		for line := range strings.Lines(text) {
			m[line] = true
		}
		return m
	}
	inOld, inFresh := has(old), has(fresh)
	for line := range strings.Lines(old) {
		if !inFresh[line] {
			out.WriteString("- " + line)
		}
	}
	for line := range strings.Lines(fresh) {
		if !inOld[line] {
			out.WriteString("+ " + line)
		}
	}
	return out.String()
}

// The recipe's certificates are what an agent and its clients take: the operator's may change it, Prometheus' may read.
func TestLongCertificatesPage(t *testing.T) {
	t.Parallel()
	l := newLaboratory(t)
	if err := os.WriteFile(filepath.Join(l.dir, "pids"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l.showsAgain("certificates.md", 2, func(block string) string { return block })
	ns, err := fabric.NewNS("leaf1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ns.Close(); err != nil {
			t.Error(err)
		}
	})
	file := func(name string) string { return filepath.Join(l.dir, name) }
	const at = "127.0.0.1:7443"
	agent := ns.Command(csig, "agent", "-i", file("leaf1.yaml"), "--wait", "--socket", file("leaf1.sock"), "--listen", at,
		"--tls-cert", file("leaf1.pem"), "--tls-key", file("leaf1.key"), "--tls-client-ca", file("ca.pem"),
		"--tls-change", "ops.example.net", "--tls-read", "prometheus.example.net")
	agent.Stderr = os.Stderr
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = agent.Process.Kill() // it may have ended
		_ = agent.Wait()         // killed: nothing to learn
	})
	as := func(name string) *api.Client {
		files := api.TLSFiles{Cert: file(name + ".pem"), Key: file(name + ".key"), CA: file("ca.pem")}
		cfg, err := files.Client("leaf1.example.net")
		if err != nil {
			t.Fatal(err)
		}
		c := api.NewDialClient(at, func(ctx context.Context) (conn net.Conn, err error) {
			err = ns.Do(func() error {
				d := tls.Dialer{Config: cfg}
				conn, err = d.DialContext(ctx, "tcp", at)
				return err
			})
			return conn, err
		})
		t.Cleanup(c.Close)
		return c
	}
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) { // to ask again
		_, err := as("prometheus").Status(t.Context())
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("with Prometheus' certificate: ", err)
		}
	}
	for name, may := range map[string]bool{"ops": true, "prometheus": false} {
		if err := as(name).Remove(t.Context()); (err == nil) != may {
			t.Errorf("%s takes csig off: %v", name, err)
		}
	}
	if _, err := as("ctl1").Status(t.Context()); err == nil {
		t.Error("a certificate that is in no list reads the status")
	}
}
