package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestQualifyFlags: what is wrong with the command line is said before anything of the switch
// is opened, which does not answer here.
func TestQualifyFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "q.yaml")
	text := "format: csig.fleet/v1\nprofile: {name: x, tpid: 0x88a8, interval: 200ms, signals: {abw: {buckets: log-100M}}}\nvlan_tpids: [0x8100]\ndevices:\n  - {name: sw1, platform: ovs, address: sw1.invalid, management: {ovs: {bridge: b}, ssh: {user: u, key: /none, known_hosts: /none, port: 1}}, ports: [{name: p1, speed: 1G, lm: 5}, {name: p2, speed: 1G, lm: 6}]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--port", "p1=eth9", "--port", "p2=eth10", "--only", "nonsense"}, "there is no such experiment"},
		{[]string{"--port", "p1=eth9"}, "want two to four"},
		{[]string{"--port", "p1=eth9", "--port", "p2=eth10", "--restart", "true"}, "--restart goes with --destructive"},
		{[]string{"--port", "p1=eth9", "--port", "p2=eth10", "--routed", "198.51.100.9"}, "want MAC,ADDRESS"},
		{[]string{"--port", "p1=eth9", "--port", "p2=eth10", "--routed", "01:00:5e:00:00:01,198.51.100.9"}, "want MAC,ADDRESS"},
		{[]string{"--port", "p1=csig-none9", "--port", "p2=csig-none10"}, "csig-none9"},
	} {
		_, err := csig(append([]string{"qualify", "-i", file, "--device", "sw1", "-o", filepath.Join(t.TempDir(), "q")}, tc.args...)...)
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "sw1.invalid") {
			t.Errorf("%q: %v", tc.args, err)
		}
	}
}
