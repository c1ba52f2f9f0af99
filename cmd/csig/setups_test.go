package main

import (
	"os"
	"strings"
	"testing"

	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/iosxr/iosxrtest"
	"github.com/csig-agent/csig/vendors/junos/junostest"
	"github.com/csig-agent/csig/vendors/nxos/nxostest"
)

// TestLongNXOSPage is TestComwarePage for docs/nxos.md.
func TestLongNXOSPage(t *testing.T) {
	sw := nxostest.New("tor1", "Ethernet1/1", "Ethernet1/2")
	sw.Type("interface Ethernet1/2", "switchport dot1q ethertype 0x88a8", "exit")
	switchPage(t, "nxos", clitest.New(t, sw.Shell), sw, "switchport dot1q ethertype 0x9100", func(*os.Process) {})
}

// TestLongNXOSKilled: a killed agent leaves the setup; csig off from another process takes it away. What a running
// one does where hardware loses the TPID, TestAgentReasserts of vendors/nxos has.
func TestLongNXOSKilled(t *testing.T) {
	sw := nxostest.New("tor1", "Ethernet1/1", "Ethernet1/2")
	before := sw.Running()
	dir := exampleFolder(t, "nxos", clitest.New(t, sw.Shell))
	agent := startAgent(t, dir, "tor1")
	runShown(t, dir, []string{"plan", "-i", "tor1.yaml", "-o", "tor1.plan"})
	runShown(t, dir, []string{"apply", "tor1.plan", "--soak", "0s"})
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

// TestLongIOSXRPage is TestComwarePage for docs/iosxr.md.
func TestLongIOSXRPage(t *testing.T) {
	r := iosxrtest.New("tor1", "TenGigE0/0/0/1", "TenGigE0/0/0/2")
	switchPage(t, "iosxr", clitest.New(t, r.Shell), persistent{r}, "dot1q tunneling ethertype 0x9100", func(*os.Process) {})
}

// TestJunosPage is TestComwarePage for docs/junos.md.
func TestJunosPage(t *testing.T) {
	r := junostest.New("tor1", "ether-options", "xe-0/0/1", "xe-0/0/2")
	switchPage(t, "junos", clitest.New(t, r.Shell), persistent{r}, "tag-protocol-id 0x9100", func(*os.Process) {})
}
