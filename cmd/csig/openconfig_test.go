package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csig-agent/csig/vendors/openconfig/oc"
	"github.com/csig-agent/csig/vendors/openconfig/octest"
)

// TestOpenConfigPage carries out the session of docs/openconfig.md: a gNMI target, its agent, and
// the way from a plan to a rollback and csig off. Afterwards the target is as it was.
func TestOpenConfigPage(t *testing.T) {
	target := octest.New("Ethernet1", "Ethernet2")
	target.Username, target.Password = "csig", "secret"
	target.Serve(t)
	target.Configure(func(d *oc.Device) {
		mtu := uint16(9000)
		d.Interface["Ethernet2"].Tpid, d.Interface["Ethernet2"].Mtu = oc.VlanTypes_TPID_TYPES_TPID_0X9100, &mtu
	})
	before := target.Config()
	// Its length is always the same: csig breaks lines by it.
	dir := fmt.Sprintf("/tmp/csig-openconfig-%08x", rand.Uint32())
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte(target.Password), 0o600); err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile(filepath.Join("..", "..", "examples", "openconfig.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(target.Address)
	if err != nil {
		t.Fatal(err)
	}
	fleet := strings.NewReplacer("192.0.2.40", host, "port: 9339", "port: "+port, "tls: {ca: /etc/csig/ca.pem}", "plaintext: true, allow_plaintext_password: true",
		"/etc/csig/core1.password", password, "/run/csig/core1.sock", filepath.Join(dir, "core1.sock")).Replace(string(example))
	if err := os.WriteFile(filepath.Join(dir, "core1.yaml"), []byte(fleet), 0o600); err != nil {
		t.Fatal(err)
	}
	startAgent(t, dir, "core1")
	carryOutPage(t, filepath.Join("..", "..", "docs", "openconfig.md"), "console openconfig", dir, func(command string) {
		switch set := strings.Count(target.Config(), "TPID_0X88A8") >= 2; {
		case strings.HasPrefix(command, "apply") && !set:
			t.Error("nothing was applied")
		case (strings.HasPrefix(command, "off") || strings.HasPrefix(command, "rollback")) && target.Config() != before:
			t.Errorf("csig %s leaves %s", command, target.Config())
		}
	})
}
