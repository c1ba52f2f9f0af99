package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/comware/comwaretest"
	"github.com/csig-agent/csig/vendors/vrp/vrptest"
)

// TestSwitchMTU: a plan raises the MTU at both ends of a cable between switches of Comware and
// of VRP where full-size frames would not fit with their tags; csig rollback and csig off give
// back what was there.
func TestSwitchMTU(t *testing.T) { switchMTU(t, "rollback") }

// TestLongSwitchMTU undoes it both ways, one after the other.
func TestLongSwitchMTU(t *testing.T) { switchMTU(t, "rollback", "off") }

func switchMTU(t *testing.T, ends ...string) {
	const xge, vrpPort = "Ten-GigabitEthernet1/0/2", "XGigabitEthernet0/0/1"
	one, two := comwaretest.New("tor1", "Ten-GigabitEthernet1/0/1", xge), vrptest.New("tor2", vrpPort)
	one.Type("interface "+xge, "undo jumboframe enable")
	two.Type("interface "+vrpPort, "jumboframe enable 1540", "quit")
	second := clitest.New(t, two.Shell)
	dir := exampleFolder(t, "comware", clitest.New(t, one.Shell), "    updates: cli", "    lease: none\n    updates: cli")
	file := filepath.Join(dir, "tor1.yaml")
	fleet, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(
		"devices:\n", "hosts:\n  - {name: h1, csig: true, mtu: 1554}\ndevices:\n",
		"lm: {abw: 6}}", `lm: {abw: 6}, peer: "tor2:`+vrpPort+`"}`,
	).Replace(string(fleet))
	text += `
  - name: tor2
    platform: vrp
    experimental: true
    lease: none
    updates: cli
    address: ` + second.Address + `
    management:
      ssh: {user: ` + second.Login.User + ", port: " + strconv.Itoa(int(second.Login.Port)) + ", password: {file: " + second.Login.Password.File + "}, known_hosts: " + second.Login.KnownHosts + `}
      daemon: {at: here, socket: ` + filepath.Join(dir, "tor2.sock") + `}
    counters:
      source: snmp
      snmp: {version: 2c, community: {file: ` + second.Login.Password.File + `}}
    ports:
      - {name: ` + vrpPort + `, speed: 10G, lm: {abw: 7}, peer: "tor1:` + xge + `"}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	startAgent(t, dir, "tor1")
	startAgent(t, dir, "tor2")
	before := one.Running() + two.Running()
	run := func(args ...string) string { return string(runShown(t, dir, args)) }
	undo := map[string][]string{"rollback": {"rollback", "rollback.plan.journal"}, "off": {"off", "-i", "tor1.yaml"}}
	for _, name := range ends {
		plan, end := name+".plan", undo[name]
		out := run("plan", "-i", "tor1.yaml", "-o", plan)
		for _, want := range []string{xge + ": mtu: 1514 -> 1554", vrpPort + ": mtu: 1522 -> 1554", "1. mtu: full-size frames fit"} {
			if !strings.Contains(out, want) {
				t.Fatalf("the plan lacks %s:\n%s", want, out)
			}
		}
		out = run("apply", plan, "--soak", "0s", "--allow-stale") // nothing answers SNMP here
		if !strings.Contains(one.Running(), " jumboframe enable 1576\n") || !strings.Contains(two.Running(), " jumboframe enable 1572\n") {
			t.Fatalf("%s\n%s\n%s", out, one.Running(), two.Running())
		}
		out = run(end...)
		if after := one.Running() + two.Running(); after != before || one.Saves()+two.Saves() > 0 {
			t.Fatalf("csig %s: %s\nleaves\n%s", name, out, after)
		}
	}
}
