package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csig-agent/csig/counters/snmp/snmptest"
	"github.com/csig-agent/csig/inventory"
)

// A file that is there is never overwritten, and what is written is accepted.
func TestImportNetBox(t *testing.T) {
	out := filepath.Join(t.TempDir(), "fleet.yaml")
	args := []string{"inventory", "import", "netbox", "../../examples/netbox/netbox_devices.csv", "../../examples/netbox/netbox_interfaces.csv", "--role", "leaf", "--role", "spine", "-o", out}
	_, errs, err := runHere(t, args...)
	if err != nil || !strings.Contains(errs, "3 devices and 4 cables") || !strings.Contains(errs, "next: csig inventory check -i") {
		t.Fatalf("%v\n%s", err, errs)
	}
	if _, _, err := runHere(t, "inventory", "check", "-i", out); err != nil {
		t.Errorf("%v", err)
	}
	var res importResult
	text, _, err := runHere(t, append(args[:len(args)-2:len(args)-2], "--json")...)
	if err = errors.Join(err, json.Unmarshal([]byte(text), &res)); err != nil || res.Devices != 3 || res.Cables != 4 || res.FillIn == 0 || !strings.Contains(res.Fleet, "format: csig.fleet/v1") || res.Notes == nil {
		t.Errorf("%v, %+v", err, res)
	}
	was, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := runHere(t, args...); err == nil {
		t.Error("written again")
	}
	if is, err := os.ReadFile(out); err != nil || !bytes.Equal(is, was) {
		t.Errorf("%v: the file has changed", err)
	}
}

// fabricAgents are the SNMP agents of two leaves and a spine, by their names.
func fabricAgents(t *testing.T) map[string]*snmptest.Agent {
	all := make(map[string]*snmptest.Agent)
	for name, ports := range map[string][]string{
		"leaf1": {"mgmt0", "swp1", "swp2"}, "leaf2": {"mgmt0", "swp1", "swp2"}, "spine1": {"swp1", "swp2", "swp3"},
	} {
		all[name] = snmptest.StartPorts(t, nil, ports...)
		all[name].Name(name + ".example.net")
		all[name].Text("Linux "+name, 1, 3, 6, 1, 2, 1, 1, 1, 0)
	}
	all["leaf1"].Neighbor(2, "spine1.example.net", "swp1")
	all["leaf1"].Neighbor(3, "gpu1", "eth0")
	all["leaf2"].Neighbor(2, "spine1.example.net", "swp2")
	all["spine1"].Neighbor(1, "leaf1.example.net", "swp1")
	all["spine1"].Neighbor(2, "leaf2.example.net", "swp1")
	all["spine1"].Neighbor(3, "core9", "swp1")
	return all
}

func TestImportLLDP(t *testing.T) {
	t.Setenv("COMMUNITY", snmptest.Community)
	agents := fabricAgents(t)
	target := func(name string) string { return fmt.Sprintf("localhost:%d", agents[name].Port) }
	out := filepath.Join(t.TempDir(), "fleet.yaml")
	_, errs, err := runHere(t, "inventory", "import", "lldp", target("spine1"), target("leaf1"), target("leaf2"), "localhost:9", "-c", "env:COMMUNITY", "-t", "1", "-r", "0", "-o", out)
	if err == nil || !strings.Contains(err.Error(), "1 target of 4 did not answer") {
		t.Errorf("%v\n%s", err, errs)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	f, err := inventory.Load(out)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var links []string
	for _, l := range f.Links() {
		links = append(links, l.A.String()+" "+l.B.String())
	}
	if got, want := strings.Join(links, ", "), "leaf1:swp1 spine1:swp1, leaf1:swp2 gpu1, leaf2:swp1 spine1:swp2, spine1:swp3 core9"; got != want {
		t.Errorf("%s, want %s\n%s", got, want, text)
	}
	for _, want := range []string{
		"left out: mgmt0, swp2", "spine1:swp3 - core9  # FILL IN: a host, or a switch that was not asked; LLDP: core9 swp1", "nothing listens at this UDP port", "platform: linux",
		fmt.Sprintf("counters: {source: snmp, snmp: {version: 2c, port: %d, community: {env: \"COMMUNITY\"}}}", agents["leaf1"].Port),
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	// What was made of the answers reads the devices as they were asked.
	if _, _, err := runHere(t, "counters", "read", "-i", out, "--device", "leaf1", "--count", "2", "--every", "50ms"); err != nil {
		t.Errorf("%v", err)
	}
}

// How a target was asked is what the fleet file says, without any secret.
func TestTargetInFleetFile(t *testing.T) {
	for _, tt := range []struct {
		flags, want string
		fill        bool
	}{
		{"-c s3cret-words", "{source: snmp, snmp: {version: 2c, community: {env: SNMP_COMMUNITY}}}", true},
		{"-c file:/etc/csig/c", `{source: snmp, snmp: {version: 2c, community: {file: "/etc/csig/c"}}}`, false},
		{"-c file:community", "{source: snmp, snmp: {version: 2c, community: {env: SNMP_COMMUNITY}}}", true}, // relative to what
		{"-v3 -u me -n vrf1", `{source: snmp, snmp: {version: 3, user: "me", context: "vrf1"}}`, false},
		{"-v3 -u me -a SHA-256 -A s3cret-words -x AES-128 -X env:P", `{source: snmp, snmp: {version: 3, user: "me", auth: {protocol: sha256, key: {env: SNMP_AUTH}}, priv: {protocol: aes, key: {env: "P"}}}}`, true},
		{"--gnmi", "{source: gnmi, gnmi: {}}", false},
		{"--gnmi --insecure -u me -p s3cret-words", `{source: gnmi, gnmi: {plaintext: true, allow_plaintext_password: true, username: "me", password: {env: GNMI_PASSWORD}}}`, true},
		{"--gnmi --tls-ca /ca.pem --tls-cert /c.pem --tls-key /k.pem --target leaf1", `{source: gnmi, gnmi: {tls: {ca: "/ca.pem", cert: "/c.pem", key: "/k.pem"}, target: "leaf1"}}`, false},
		{"--gnmi --skip-verify", "{source: gnmi, gnmi: {tls: {insecure_skip_verify: true}}}", false},
	} {
		var f targetFlags
		cmd := newImportLLDP()
		cmd.ResetFlags()
		f.add(cmd)
		if err := cmd.ParseFlags(strings.Fields(tt.flags)); err != nil {
			t.Fatal(err)
		}
		if err := f.check(cmd); err != nil {
			t.Fatal(err)
		}
		_, got, fill, err := f.inFleetFile("leaf1.example.net")
		if err != nil || got != tt.want || (fill != "") != tt.fill {
			t.Errorf("%s: %s, %q, %v; want %s", tt.flags, got, fill, err, tt.want)
		}
		if _, err := inventory.Parse("f", fmt.Appendf(nil, "format: csig.fleet/v1\nprofile: {name: lab, tpid: 0x9900, interval: 1s, signals: {abw: {buckets: log-10G}}}\ndevices:\n  - {name: leaf1, platform: sonic, address: leaf1, counters: %s, ports: [{name: p1}]}\n", got)); err != nil {
			t.Errorf("%s: %v", tt.flags, err)
		}
	}
}
