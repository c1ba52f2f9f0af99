package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/comware/comwaretest"
	"github.com/csig-agent/csig/vendors/vrp/vrptest"
)

// TestComwarePage carries out the session of docs/comware.md: a fake switch, its agent, and
// the way from a plan to csig off. Afterwards the switch is as it was. Of pages whose drivers have
// most in common one is here, and the others are named TestLong….
func TestComwarePage(t *testing.T) {
	sw := comwaretest.New("tor1", "Ten-GigabitEthernet1/0/1", "Ten-GigabitEthernet1/0/2")
	go func() {
		for !strings.Contains(sw.Running(), "nqa schedule") {
			if wait(t.Context(), 20*time.Millisecond) != nil {
				return
			}
		}
		fireDeadMan(t.Context(), sw)
	}()
	switchPage(t, "comware", clitest.New(t, sw.Shell), sw, "qos apply policy csig-Ten-GigabitEthernet1/0/1 outbound", func(agent *os.Process) {
		stoppedAgent(t, sw, agent)
	})
}

// fallback is a line of a port that has fallen back.
const fallback = "\n qos apply policy csig-dead-man outbound"

// stoppedAgent stops an agent, which no longer answers the switch's probes, though its kernel
// runs: the ports fall back within the time that was stated. Then the agent continues.
func stoppedAgent(t *testing.T, sw *comwaretest.Switch, agent *os.Process) {
	was := false
	ask := func(address string) bool {
		is := probeAnswered(t.Context(), address, 50*time.Millisecond)
		was = was || is
		return is
	}
	for try := 0; !was && try < 100; try++ { // a busy machine
		sw.Skip(2*time.Second, ask)
	}
	if !was || strings.Contains(sw.Running(), fallback) {
		t.Errorf("an agent that runs answers a probe: %t, and its ports have not fallen back:\n%s", was, sw.Running())
	}
	if err := agent.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	was = false
	sw.Skip(24*time.Second, ask)
	if was || !strings.Contains(sw.Running(), fallback) {
		t.Errorf("a stopped agent answers a probe: %t; within 24 s its ports have to fall back:\n%s", was, sw.Running())
	}
	if err := agent.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// fireDeadMan has an agent answer one probe of the switch's dead-man, which it needs to be
// armed, and then lets the switch's time go by without one, a minute at most. Once ports have
// fallen back it stands still: the agent arms it again, and is not answered for here.
func fireDeadMan(ctx context.Context, sw *comwaretest.Switch) {
	seen := false
	probe := func(address string) bool {
		for !seen && ctx.Err() == nil {
			if seen = probeAnswered(ctx, address, 200*time.Millisecond); seen {
				return true
			}
		}
		return false
	}
	for second := 0; second < 60 && !strings.Contains(sw.Running(), fallback); second++ {
		sw.Skip(time.Second, probe)
	}
}

// probeAnswered sends a probe as the switch does, and reports whether it comes back.
func probeAnswered(ctx context.Context, address string, within time.Duration) bool {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "udp", address)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(within))
	var b [16]byte
	if _, err = conn.Write([]byte("probe")); err == nil {
		_, err = conn.Read(b[:])
	}
	return err == nil
}

// TestLongVRPPage is TestComwarePage for docs/vrp.md.
func TestLongVRPPage(t *testing.T) {
	sw := vrptest.New("tor1", "XGigabitEthernet0/0/1", "XGigabitEthernet0/0/2")
	switchPage(t, "vrp", clitest.New(t, sw.Shell), sw, "traffic-policy csig-XGigabitEthernet0/0/1 outbound", func(*os.Process) {})
}

// switchPage carries out the session of a platform's page against a fake switch, which has a
// line of its configuration after csig apply. Then the agent runs.
func switchPage(t *testing.T, name string, s *clitest.Server, sw interface {
	Running() string
	Saves() int
}, applied string, runs func(agent *os.Process)) {
	t.Helper()
	page := filepath.Join("..", "..", "docs", name+".md")
	before := sw.Running()
	dir := exampleFolder(t, name, s)
	agent := startAgent(t, dir, "tor1")
	carryOutPage(t, page, "console "+name, dir, func(command string) {
		if !strings.HasPrefix(command, "apply") {
			return
		}
		if !strings.Contains(sw.Running(), applied) {
			t.Error("nothing was applied")
		}
		runs(agent)
	})
	if after := sw.Running(); after != before || sw.Saves() != 0 {
		t.Errorf("saved %d times; csig off leaves\n%s", sw.Saves(), after)
	}
}

// exampleFolder has a platform's example as tor1.yaml, whose device is a fake; texts to replace
// and their replacements may follow.
func exampleFolder(t *testing.T, name string, s *clitest.Server, more ...string) string {
	t.Helper()
	dir, example := folderFor(t, name)
	login := "ssh: {user: " + s.Login.User + ", port: " + strconv.Itoa(int(s.Login.Port)) + ", password: {file: " + s.Login.Password.File + "}, known_hosts: " + s.Login.KnownHosts + "}"
	fleet := strings.NewReplacer(append([]string{
		"interval: 10s", "interval: 500ms", "192.0.2.30", s.Address, "192.0.2.31", s.Address, "ssh: {user: csig, key: /etc/csig/id_ed25519}", login,
		"/run/csig/tor1.sock", filepath.Join(dir, "tor1.sock"), "/etc/csig/community", s.Login.Password.File,
	}, more...)...).Replace(example)
	if err := os.WriteFile(filepath.Join(dir, "tor1.yaml"), []byte(fleet), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
