package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
)

// The counters of a device that is a network namespace of this machine are read
// there, and not here.
func TestFreshnessInANamespace(t *testing.T) {
	if os.Getenv("CSIG_TEST_INSIDE") == "" { // a user namespace of its own, so that any user may
		cmd := exec.Command("unshare", "--user", "--map-root-user", "--net", os.Args[0], "-test.run=^TestFreshnessInANamespace$")
		cmd.Env = append(os.Environ(), "CSIG_TEST_INSIDE=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("unshare (of util-linux): %v\n%s", err, out)
		}
		return
	}
	cmd := exec.Command("unshare", "--net", "sh", "-c", "ip link add there type veth peer name far && echo ready && exec sleep 60")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("unshare (of util-linux): %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the namespace: %q, %v", line, err)
	}
	fleet, err := inventory.Parse("fleet.yaml", fmt.Appendf(nil, `format: csig.fleet/v1
profile: {name: x, tpid: 0x9900, interval: 1s, signals: {abw: {buckets: log-10G}}}
devices:
  - {name: s1, platform: linux, management: {netns: /proc/%d/ns/net}, ports: [{name: there, speed: 10G}]}
  - {name: s2, platform: linux, management: {netns: /nowhere}, ports: [{name: there, speed: 10G}]}
  - {name: s3, platform: linux, ports: [{name: there, speed: 10G}]}
`, cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []freshnessOf{
		{readings: 3}, {note: "its counters cannot be read: its network namespace: open /nowhere: no such file or directory"},
		{note: "not read, as its kernel's counters are read on the device itself: csig assess there"},
	} {
		f := readFreshness(t.Context(), fleet, &fleet.Devices[i], &assessOptions{readings: 3, every: time.Millisecond, timeout: 20 * time.Second})
		if got := (freshnessOf{f.Readings, f.Note}); got != want || len(f.Ports) > 1 {
			t.Errorf("%s: %+v, want %+v", fleet.Devices[i].Name, f, want)
		}
	}
}

type freshnessOf struct {
	readings int
	note     string
}
