package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/counters/snmp/snmptest"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/iosxr/iosxrtest"
	"github.com/csig-agent/csig/vendors/junos/junostest"
	"github.com/csig-agent/csig/vendors/nxos/nxostest"
)

// TestNXOSPage is TestComwarePage for docs/nxos.md.
func TestNXOSPage(t *testing.T) {
	sw := nxostest.New("tor1", "Ethernet1/1", "Ethernet1/2")
	sw.Type("interface Ethernet1/2", "switchport dot1q ethertype 0x88a8", "exit")
	switchPage(t, "nxos", clitest.New(t, sw.Shell), sw, "switchport dot1q ethertype 0x9100", func(*os.Process) {})
}

// TestLongNXOSReasserted has the agent run when hardware loses the TPID, which the configuration
// keeps: the port has it again within little more than a minute.
func TestLongNXOSReasserted(t *testing.T) {
	t.Parallel() // it mostly waits
	const port = "Ethernet1/2"
	sw := nxostest.New("tor1", "Ethernet1/1", port)
	before := sw.Running()
	tpids := make(chan uint16, 64) // of the port, each time that hardware changes
	sw.Changed = func(list []nxostest.Port) { tpids <- list[1].TPID }
	s := clitest.New(t, sw.Shell)
	community := filepath.Join(t.TempDir(), "community")
	if err := os.WriteFile(community, []byte(snmptest.Community), 0o600); err != nil {
		t.Fatal(err)
	}
	counters := snmptest.StartPorts(t, nil, "Ethernet1/1", port)
	dir := exampleFolder(t, "nxos", s,
		"community: {file: /etc/csig/community}", "community: {file: "+community+"}, port: "+strconv.Itoa(int(counters.Port)))
	agent := startAgent(t, dir, "tor1")
	runShown(t, dir, []string{"plan", "-i", "tor1.yaml", "-o", "tor1.plan"})
	runShown(t, dir, []string{"apply", "tor1.plan", "--soak", "0s"})
	is := func(want uint16, within time.Duration) {
		t.Helper()
		for late := time.After(within); ; {
			select {
			case got := <-tpids:
				if got == want {
					return
				}
			case <-late:
				t.Fatalf("hardware does not get the TPID 0x%04x within %v", want, within)
			}
		}
	}
	is(0x9100, time.Minute)
	sw.Flap(port)
	is(0x8100, time.Minute)
	is(0x9100, 4*time.Minute)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) { // it reads back first
		status := string(runShown(t, dir, []string{"status", "--socket", filepath.Join(dir, "tor1.sock")}))
		if strings.Contains(status, "repairs: 1 ") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(status)
		}
	}
	// A killed agent leaves the setup; csig off from another process takes it away.
	if err := agent.Kill(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(sw.Running(), "ethertype 0x9100") {
		t.Error(sw.Running())
	}
	runShown(t, dir, []string{"off", "-i", "tor1.yaml"})
	if sw.Running() != before || sw.Saves() != 0 {
		t.Errorf("csig off leaves\n%s", sw.Running())
	}
}

// persistent is a device whose commits stay after a restart: there is nothing to save.
type persistent struct{ configured }

type configured interface{ Running() string }

func (persistent) Saves() int { return 0 }

// TestIOSXRPage is TestComwarePage for docs/iosxr.md.
func TestIOSXRPage(t *testing.T) {
	r := iosxrtest.New("tor1", "TenGigE0/0/0/1", "TenGigE0/0/0/2")
	switchPage(t, "iosxr", clitest.New(t, r.Shell), persistent{r}, "dot1q tunneling ethertype 0x9100", func(*os.Process) {})
}

// TestJunosPage is TestComwarePage for docs/junos.md.
func TestJunosPage(t *testing.T) {
	r := junostest.New("tor1", "ether-options", "xe-0/0/1", "xe-0/0/2")
	switchPage(t, "junos", clitest.New(t, r.Shell), persistent{r}, "tag-protocol-id 0x9100", func(*os.Process) {})
}
