package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/rollout"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic"
	"github.com/csig-agent/csig/vendors/sonic/sonicdb"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
	"github.com/csig-agent/csig/vlanrules"
)

const hostileFleet = `
format: csig.fleet/v1
profile:
  name: lab
  tpid: 0x88a8
  interval: 1s
  signals:
    abw: {buckets: log-100G}
policy: {on_stale: conservative}
vlan_tpids: [0x8100]
defaults:
  management: {ssh: {user: admin, key: /none}}
devices:
  - {name: good, platform: sonic, address: 192.0.2.1, ports: [{name: Ethernet0, speed: 100G}]}
  - {name: "bad-[1-%d]", platform: sonic, address: "192.0.3.[1-%[1]d]", ports: [{name: Ethernet0, speed: 100G}]}
`

// TestSonicHostile: csig off takes a healthy switch off beside others whose Redis does
// every harm, and names each of these.
func TestSonicHostile(t *testing.T) {
	t.Parallel()
	hostilities := sonictest.Hostilities()
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, hostileFleet, len(hostilities)), 0o644); err != nil {
		t.Fatal(err)
	}
	fleet, err := inventory.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	real := sonictest.StartRedis(t)
	sw := sonictest.NewSwitch(t, real, sonictest.R202511, "Ethernet0")
	files := map[string]string{"good": real.File}
	for i, h := range hostilities {
		files[fmt.Sprintf("bad-%d", i+1)] = sonictest.StartHostile(t, h, nil, 0).File
	}
	open := func(_ context.Context, device string) (rollout.Target, error) {
		limit := time.Second // until one that hangs is given up
		if device == "good" {
			limit = patience
		}
		return sonic.Open(sonic.Config{Redis: sonicdb.New(sonicdb.Options{Dial: sonictest.Dial, File: files[device], Timeout: limit,
			ReadFile: func(_ context.Context, path string) ([]byte, error) { return os.ReadFile(path) }})}), nil
	}
	d, err := open(t.Context(), "good")
	if err != nil {
		t.Fatal(err)
	}
	want := vendors.Setup{TPID: 0x88a8, Signals: []quantize.Signal{quantize.MinABW}, OnStale: inventory.Conservative,
		Ports: []vendors.PortSetup{{Port: "Ethernet0", Action: vlanrules.Update}}}
	if err := d.Apply(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	_ = d.Close()
	if n, _ := sw.Entries(""); n == 0 {
		t.Fatal("nothing is there to take off")
	}
	off := &rollout.Off{Fleet: fleet, Open: open, Parallel: 32, Limit: patience}
	err = off.Run(t.Context())
	if n, _ := sw.Entries(""); n != 0 || sw.Tables() != 0 || real.Hash(4, "PORT|Ethernet0")["tpid"] != "0x8100" {
		t.Errorf("%d entries, %d tables, %v", n, sw.Tables(), real.Hash(4, "PORT|Ethernet0"))
	}
	if err == nil || strings.Contains(err.Error(), "device good") || strings.ContainsRune(err.Error(), '\x1b') {
		t.Errorf("%v", err)
	}
	for i, h := range hostilities {
		quiet := h.Name == "nothing" || h.Name == "scan without an end" // which looks as if there were nothing
		if named := strings.Contains(err.Error(), fmt.Sprintf("device bad-%d:", i+1)); !named && !quiet {
			t.Errorf("%s is not named", h.Name)
		}
	}
}
