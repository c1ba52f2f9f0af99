package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/fabric"
)

// startLLDPD runs a real lldpd in a switch, as the subagent of its snmpd.
func startLLDPD(t *testing.T, in *fabric.Node, name, agentX string) {
	t.Helper()
	const path = "/usr/sbin/lldpd"
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("this test needs lldpd: apt-get install lldpd: %v", err)
	}
	log := filepath.Join(t.TempDir(), "log")
	// Its folder in /run is its service's to make; what it reads as another user is there, too.
	const script = `mount -t tmpfs none /run && mkdir /run/lldpd && printf 'configure system hostname %s\nconfigure lldp tx-interval 1\n' "$1" >/run/lldpd.conf && chmod 644 /run/lldpd.conf &&
		exec ` + path + ` -d -x -X "unix:$2" -O /run/lldpd.conf 2>"$3"`
	cmd := in.Command("unshare", "-m", "sh", "-c", script, "sh", name, agentX, log)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = cmd.Wait()
		if text, err := os.ReadFile(log); t.Failed() && err == nil {
			t.Logf("lldpd of %s wrote (it needs root of the machine):\n%s", name, text)
		}
	})
}

// TestLLDP lets two switches with a real lldpd find each other: csig makes a fleet file of what
// they see, finds its cables right, and finds two that are exchanged.
func TestLLDP(t *testing.T) {
	t.Parallel()
	f := newFabric(t)
	here := newHost(t, "here")
	switches, targets := make([]*fabric.Node, 2), make([]string, 2)
	for i := range switches {
		n, err := f.AddSwitch(fmt.Sprintf("s%d", i+1))
		if err != nil {
			t.Fatal(err)
		}
		switches[i], targets[i] = n, fmt.Sprintf("127.0.0.1:%d", snmpdPort+i)
	}
	for _, port := range []string{"swp1", "swp2"} {
		if _, _, err := f.Connect(fabric.End{Node: switches[0], Port: port}, fabric.End{Node: switches[1], Port: port}, 0); err != nil {
			t.Fatal(err)
		}
	}
	for i, n := range switches {
		port, agentX := uint16(snmpdPort+i), filepath.Join(t.TempDir(), "agentx")
		startSnmpd(t, n, port, nil, fmt.Sprintf("sysName s%d.example.net\nmaster agentx\nagentXSocket unix:%s\n", i+1, agentX))
		relayUDP(t, here, n, port)
		if !within(patience, func() bool { _, err := os.Stat(agentX); return err == nil }) {
			t.Fatal("snmpd opens no socket for subagents")
		}
		startLLDPD(t, n, fmt.Sprintf("s%d.example.net", i+1), agentX)
	}
	op := newOperator(t, here, "")
	op.env = []string{"COMMUNITY=public"}
	for i, target := range targets {
		var out string
		for end := time.Now().Add(patience); strings.Count(out, "s"+fmt.Sprint(2-i)+".example.net swp") < 2; time.Sleep(100 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s sees no neighbours:\n%s", target, out)
			}
			out = op.run(0, "counters", "scan", target, "-v2c", "-c", "env:COMMUNITY")
		}
	}
	fleet := filepath.Join(op.dir, "found.yaml")
	op.run(0, "inventory", "import", "lldp", targets[0], targets[1], "-v2c", "-c", "env:COMMUNITY", "-o", fleet)
	if out := op.run(0, "inventory", "check", "-i", fleet, "--lldp"); !strings.Contains(out, "LLDP: 2 devices asked, 4 neighbours; 2 of their 2 cables seen") {
		t.Error(out)
	}
	text := readFile(t, fleet)
	wrong := strings.NewReplacer("s1:swp1 - s2:swp1", "s1:swp1 - s2:swp2", "s1:swp2 - s2:swp2", "s1:swp2 - s2:swp1").Replace(string(text))
	writeFile(t, fleet, []byte(wrong))
	if out := op.run(1, "inventory", "check", "-i", fleet, "--lldp"); strings.Count(out, "LLDP sees s") != 4 {
		t.Error(out)
	}
}
