package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csig-agent/csig/counters/snmp/snmptest"
)

// lldpFleet is the fleet of fabricAgents, with these cables.
func lldpFleet(t *testing.T, links string) string {
	t.Helper()
	agents := fabricAgents(t)
	t.Setenv("COMMUNITY", snmptest.Community)
	var b strings.Builder
	b.WriteString("format: csig.fleet/v1\nprofile: {name: lab, tpid: 0x9900, interval: 1s, signals: {abw: {buckets: log-1G}}}\ndefaults: {platform: sonic}\ndevices:\n")
	for _, name := range []string{"leaf1", "leaf2", "spine1"} {
		fmt.Fprintf(&b, "  - name: %s\n    address: 127.0.0.1\n    counters: {source: snmp, snmp: {version: 2c, port: %d, community: {env: COMMUNITY}}}\n    ports: [%s]\n",
			name, agents[name].Port, map[bool]string{true: "{name: swp1}, {name: swp2}, {name: swp3}", false: "{name: swp1}, {name: swp2}"}[name == "spine1"])
	}
	b.WriteString("  - {name: core9, platform: linux, address: 192.0.2.9, ports: [{name: swp1}]}\nlinks: |\n" + links)
	path := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The cables of the file are those that LLDP sees.
func TestLLDPAgrees(t *testing.T) {
	path := lldpFleet(t, "  leaf1:swp1 - spine1:swp1\n  leaf1:swp2 - gpu1\n  leaf2:swp1 - spine1:swp2\n  spine1:swp3 - core9:swp1\n")
	out, _, err := runHere(t, "inventory", "check", "-i", path, "--lldp")
	if err != nil || !strings.Contains(out, "LLDP: 3 devices asked, 6 neighbours; 4 of their 4 cables seen; not asked, since their counters are read neither by SNMP nor by gNMI: core9") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, _, err := runHere(t, "inventory", "check", "-i", path, "--timeout", "1s"); err == nil || !strings.Contains(err.Error(), "--timeout goes with --lldp") {
		t.Errorf("%v", err)
	}
}

// The page shows what is found where they do not agree.
func TestLLDPPage(t *testing.T) {
	path := lldpFleet(t, "  leaf1:swp1 - spine1:swp2\n  leaf2:swp1 - spine1:swp1\n  leaf2:swp2 - core9:swp1\n")
	out, errs, err := runHere(t, "inventory", "check", "-i", path, "--lldp")
	if err == nil {
		t.Error("no mistake")
	}
	var head strings.Builder // without the counts, which are not what it is about
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "profile ") || strings.HasPrefix(line, "abw: ") {
			continue
		}
		head.WriteString(line)
	}
	pageBlock(t, "fleet.md", "LLDP", "$ csig inventory check -i fleet.yaml --lldp\n"+strings.ReplaceAll(head.String()+errs, path, "fleet.yaml"))
}

func TestLLDPJSON(t *testing.T) {
	path := lldpFleet(t, "  leaf1:swp1 - spine1:swp2\n  leaf1:swp2 - gpu1\n")
	t.Setenv("COMMUNITY", "another one")
	out, _, err := runHere(t, "inventory", "check", "-i", path, "--lldp", "--json", "--timeout", "100ms")
	if err == nil {
		t.Error("no mistake")
	}
	var got checkResult
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if got.OK || len(got.Errors) != 3 || got.LLDP == nil || got.LLDP.Asked != 3 || len(got.LLDP.Findings) != 3 || got.LLDP.Findings[0].Kind != "unread" {
		t.Errorf("%s", out)
	}
	if strings.Contains(out, "another one") {
		t.Error("the community is shown")
	}
	t.Setenv("COMMUNITY", snmptest.Community)
	out, _, _ = runHere(t, "inventory", "check", "-i", path, "--lldp", "--json")
	got = checkResult{}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	kinds := make(map[string]int)
	for _, f := range got.LLDP.Findings {
		kinds[string(f.Kind)]++
		if f.At.Line == 0 || f.Device == "" {
			t.Errorf("%+v", f)
		}
	}
	// leaf1:swp1 and spine1:swp2 are connected otherwise; spine1:swp1 and swp3, and leaf2:swp1, are to
	// switches, without a cable in the file.
	if fmt.Sprint(kinds) != "map[other-peer:2 peer-missing:3]" || len(got.Errors) != 2 || len(got.Warnings) != 3 {
		t.Errorf("%v\n%s", kinds, out)
	}
}
