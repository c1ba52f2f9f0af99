package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
)

// What csig agent keeps on Linux: CAP_NET_ADMIN, CAP_NET_RAW and CAP_SYS_ADMIN; one
// that does not know its platform yet keeps CAP_DAC_OVERRIDE, too.
const (
	linuxCaps = "0000000000203000"
	everyCap  = "0000000000283002"
)

// privilegesOf are the lines about privileges of all threads of a process, each
// once.
func privilegesOf(t *testing.T, pid int) string {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("threads %v, %v", threads, err)
	}
	found := map[string]bool{}
	for _, name := range threads {
		text, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue // the thread has ended
		}
		if err != nil {
			t.Fatal(err)
		}
		found[privileges(text)] = true
	}
	if len(found) != 1 {
		t.Fatalf("threads differ: %v", found)
	}
	for line := range found {
		return line
	}
	return ""
}

// privileges are the content of a status file of /proc: effective and permitted
// capabilities, and whether new privileges may come.
func privileges(status []byte) string {
	var out []string
	for _, key := range []string{"CapEff", "CapPrm", "NoNewPrivs"} {
		m := regexp.MustCompile(`(?m)^` + key + `:\s*(\S+)$`).FindSubmatch(status)
		if m == nil {
			return "no " + key
		}
		out = append(out, string(m[1]))
	}
	return strings.Join(out, " ")
}

// TestLongDaemonDropsPrivileges: a real agent keeps what its platform needs, on all
// threads, and does its work with it: a port that strips is repaired, too.
func TestLongDaemonDropsPrivileges(t *testing.T) {
	t.Parallel()
	b := newBed(t, quantize.Draft00)
	b.program = released(t)
	a := b.start(t, "--no-self-test")
	a.live()
	if got, want := privilegesOf(t, a.cmd.Process.Pid), linuxCaps+" "+linuxCaps+" 1"; got != want {
		t.Errorf("capabilities %s, want %s", got, want)
	}
	b.run(t, "nft", "delete", "table", "netdev", "csig")
	a.await("its table again", func(s *api.Status) bool { return s.Cycle.Repairs > 0 && first(s).State == api.StateLive })
	// Another agent: rules that change twice in a row are unknown for a while.
	if err := a.signal(syscall.SIGINT); err != nil {
		t.Error(err)
	}
	a = b.start(t, "--no-self-test")
	a.live()
	b.run(t, "ip", "link", "set", b.egress.Name, "name", "foo")
	s := a.await("the other name of its port", func(s *api.Status) bool { return first(s).State == api.StateRefused })
	if p := first(s); !strings.Contains(p.Reason, "its network device is called foo now") || len(p.Signals) != 0 {
		t.Errorf("%+v", p)
	}
	if rules := b.run(t, "nft", "list", "chain", "netdev", "csig", "p_"+b.egress.Name); !strings.Contains(rules, `hook egress device "foo"`) {
		t.Errorf("the rules are not on the device:\n%s", rules)
	}
	b.run(t, "ip", "link", "set", "foo", "name", b.egress.Name)
	if err := a.signal(syscall.SIGINT); err != nil {
		t.Error(err)
	}
	w := b.launch(t, filepath.Join(b.dir, "later.yaml"), filepath.Join(b.dir, "later.sock"), "--wait")
	w.await("that it waits", waits)
	if got, want := privilegesOf(t, w.cmd.Process.Pid), everyCap+" "+everyCap+" 1"; got != want {
		t.Errorf("without a configuration: capabilities %s, want %s", got, want)
	}
}

// TestLongSecretCommandsHaveNoCapabilities: what the fleet file names to fetch a secret
// runs with none of the agent's.
func TestLongSecretCommandsHaveNoCapabilities(t *testing.T) {
	t.Parallel()
	b := newBed(t, quantize.Draft00)
	b.program = released(t)
	seen := filepath.Join(b.dir, "seen")
	b.fleet.Devices[0].Address = "127.0.0.1"
	b.fleet.Devices[0].Counters = inventory.Counters{Source: "snmp", SNMP: &inventory.SNMP{
		Version: "2c", Port: 9, Timeout: 100 * time.Millisecond, Discards: "learn",
		Community: inventory.Secret{Command: []string{"/bin/sh", "-c", "cp /proc/self/status " + seen + ".new && mv " + seen + ".new " + seen + " && echo public"}},
	}}
	b.start(t, "--no-self-test")
	var text []byte
	if !within(patience, func() bool {
		var err error
		text, err = os.ReadFile(seen)
		return err == nil
	}) {
		t.Fatal("the command does not run")
	}
	if got, want := privileges(text), "0000000000000000 0000000000000000 1"; got != want {
		t.Errorf("the command has %s, want %s", got, want)
	}
}
