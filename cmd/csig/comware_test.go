package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/comware/comwaretest"
	"github.com/csig-agent/csig/vendors/vrp/vrptest"
)

// TestComwarePage carries out the session of docs/comware.md: a fake switch, its agent, and
// the way from a plan to csig off. Afterwards the switch is as it was.
func TestComwarePage(t *testing.T) {
	sw := comwaretest.New("tor1", "Ten-GigabitEthernet1/0/1", "Ten-GigabitEthernet1/0/2")
	sw.Type("qinq ethernet-type customer-tag 9900")
	switchPage(t, "comware", clitest.New(t, sw.Shell), sw, "qos apply policy csig-Ten-GigabitEthernet1/0/1 outbound")
}

// TestVRPPage is TestComwarePage for docs/vrp.md.
func TestVRPPage(t *testing.T) {
	sw := vrptest.New("tor1", "XGigabitEthernet0/0/1", "XGigabitEthernet0/0/2")
	for _, port := range []string{"XGigabitEthernet0/0/1", "XGigabitEthernet0/0/2"} {
		sw.Type("interface "+port, "qinq protocol 9100")
	}
	switchPage(t, "vrp", clitest.New(t, sw.Shell), sw, "traffic-policy csig-XGigabitEthernet0/0/1 outbound")
}

// switchPage carries out the session of a platform's page against a fake switch, which has a
// line of its configuration after csig apply.
func switchPage(t *testing.T, name string, s *clitest.Server, sw interface {
	Running() string
	Saves() int
}, applied string) {
	t.Helper()
	page := filepath.Join("..", "..", "docs", name+".md")
	shown, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before := sw.Running()
	// Its length is always the same: csig breaks lines by it.
	dir := fmt.Sprintf("/tmp/csig-%s-%08x", name, rand.Uint32())
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	example, err := os.ReadFile(filepath.Join("..", "..", "examples", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	login := "ssh: {user: " + s.Login.User + ", port: " + strconv.Itoa(int(s.Login.Port)) + ", password: {file: " + s.Login.Password.File + "}, known_hosts: " + s.Login.KnownHosts + "}"
	fleet := strings.NewReplacer(
		"192.0.2.30", s.Address, "192.0.2.31", s.Address, "ssh: {user: csig, key: /etc/csig/id_ed25519}", login,
		"/run/csig/tor1.sock", filepath.Join(dir, "tor1.sock"), "/etc/csig/community", s.Login.Password.File).Replace(string(example))
	if err := os.WriteFile(filepath.Join(dir, "tor1.yaml"), []byte(fleet), 0o600); err != nil {
		t.Fatal(err)
	}
	startSwitchAgent(t, dir)
	var out bytes.Buffer
	inside, skip := false, false
	for line := range strings.Lines(string(shown)) {
		text := strings.TrimRight(line, "\n")
		switch {
		case text == "```console "+name:
			inside = true
		case text == "```":
			inside, skip = false, false
		}
		if command, ok := strings.CutPrefix(text, "$ csig "); inside && ok {
			out.WriteString(line)
			out.WriteString(masked(string(runShown(t, dir, strings.Fields(command))), dir))
			skip = true
			if strings.HasPrefix(command, "apply") && !strings.Contains(sw.Running(), applied) {
				t.Error("nothing was applied")
			}
		} else if !skip {
			out.WriteString(line)
		}
	}
	switch {
	case bytes.Equal(out.Bytes(), shown):
	case *update:
		if err := os.WriteFile(page, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s shows another session (go test ./cmd/csig -run %s -update):\n%s", page, t.Name(), out.String())
	}
	if after := sw.Running(); after != before || sw.Saves() != 0 {
		t.Errorf("saved %d times; csig off leaves\n%s", sw.Saves(), after)
	}
}

// startSwitchAgent starts the switch's agent, which ends with the test.
func startSwitchAgent(t *testing.T, dir string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "tor1.sock")
	agent := exec.Command(exe, "agent", "--wait", "-c", filepath.Join(dir, "agent.yaml"), "--socket", socket)
	agent.Args[0] = "csig"
	var log bytes.Buffer
	agent.Stdout, agent.Stderr = &log, &log
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = agent.Wait() // it is killed
	}()
	t.Cleanup(func() {
		_ = agent.Process.Kill()
		<-ended
		if t.Failed() {
			t.Log(log.String())
		}
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(socket); err == nil {
			return
		}
		select {
		case <-ended:
			t.Fatalf("the agent ended: %v", agent.ProcessState)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("the agent does not listen")
		}
	}
}

var (
	elapsed = regexp.MustCompile(`(?m)^ +[0-9.]+m?s`)
	differs = regexp.MustCompile(`\b[0-9a-f]{12,64}\b|\b[0-9.]+m?s\b`)
)

// masked is output without what differs from run to run.
func masked(text, dir string) string {
	text = elapsed.ReplaceAllString(strings.ReplaceAll(text, dir+"/", ""), "  …")
	return differs.ReplaceAllString(text, "…")
}
