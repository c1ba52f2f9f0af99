package main

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/csig-agent/csig/protocol/gnmi/oc"
	"github.com/csig-agent/csig/vendors/openconfig/octest"
)

// TestOpenConfigPage carries out the session of docs/openconfig.md: a gNMI target, its agent, and
// the way from a plan to a rollback and csig off. Afterwards the target is as it was.
func TestOpenConfigPage(t *testing.T) {
	gnmiPage(t, "openconfig", "core1", "192.0.2.40", octest.New("Ethernet1", "Ethernet2"), "Ethernet2")
}

// TestLongSRLinuxPage is TestOpenConfigPage for docs/srlinux.md.
func TestLongSRLinuxPage(t *testing.T) {
	target := octest.New("ethernet-1/1", "ethernet-1/2")
	target.Native, target.Most = true, 9500
	gnmiPage(t, "srlinux", "leaf1", "192.0.2.41", target, "ethernet-1/2")
}

// gnmiPage carries out the session of a platform's page with the device of its example, at whose
// target an operator has configured a port.
func gnmiPage(t *testing.T, name, device, address string, target *octest.Target, configured string) {
	t.Helper()
	dir := gnmiDevice(t, name, device, address, target, configured)
	before := target.Config()
	startAgent(t, dir, device)
	carryOutPage(t, filepath.Join("..", "..", "docs", name+".md"), "console "+name, dir, func(command string) {
		switch set := strings.Count(target.Config(), "TPID_0X88A8") >= 2; {
		case strings.HasPrefix(command, "apply") && !set:
			t.Error("nothing was applied")
		case (strings.HasPrefix(command, "off") || strings.HasPrefix(command, "rollback")) && target.Config() != before:
			t.Errorf("csig %s leaves %s", command, target.Config())
		}
	})
}

// gnmiDevice serves the device of a platform's example, and returns the folder with its fleet file.
func gnmiDevice(t *testing.T, name, device, address string, target *octest.Target, configured string) string {
	t.Helper()
	target.Username, target.Password = "csig", "secret"
	target.Serve(t)
	target.Configure(func(d *oc.Device) {
		mtu := uint16(9000)
		d.Interface[configured].Tpid, d.Interface[configured].Mtu = oc.VlanTypes_TPID_TYPES_TPID_0X9100, &mtu
	})
	dir, example := folderFor(t, name)
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte(target.Password), 0o600); err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(target.Address)
	if err != nil {
		t.Fatal(err)
	}
	fleet := strings.NewReplacer(address, host, "port: 9339", "port: "+port, "port: 57400", "port: "+port, "tls: {ca: /etc/csig/ca.pem}", "plaintext: true, allow_plaintext_password: true",
		"/etc/csig/"+device+".password", password, "/run/csig/"+device+".sock", filepath.Join(dir, device+".sock")).Replace(example)
	if err := os.WriteFile(filepath.Join(dir, device+".yaml"), []byte(fleet), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestKilledBeforeConfirm: an agent is killed between a change and its confirmation. Until the
// switch has taken that back, csig takes nothing of it for done; then the rollout is resumed.
func TestKilledBeforeConfirm(t *testing.T) {
	target := octest.New("Ethernet1", "Ethernet2")
	var agent atomic.Pointer[os.Process]
	var set atomic.Bool
	target.Fault = func(rpc string) error {
		switch {
		case rpc == "Set done":
			set.Store(true)
		case rpc == "Confirm" && set.Load():
			if p := agent.Swap(nil); p != nil {
				_ = p.Kill()
				return status.Error(codes.Unavailable, "nothing listens any more")
			}
		}
		return nil
	}
	dir := gnmiDevice(t, "openconfig", "core1", "192.0.2.40", target, "Ethernet2")
	before := target.Config()
	agent.Store(startAgent(t, dir, "core1"))
	run := func(exit int, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if code := csigHere(dir, nil, args, &out, &out); code != exit {
			t.Errorf("csig %s exits with %d, want %d: %s", strings.Join(args, " "), code, exit, out.Bytes())
		}
		return out.String()
	}
	run(2, "plan", "-i", "core1.yaml", "-o", "core1.plan")
	run(1, "apply", "core1.plan", "--soak", "0s")
	if !strings.Contains(target.Config(), "TPID_0X88A8") {
		t.Fatal("nothing is on trial")
	}
	if err := os.Remove(filepath.Join(dir, "core1.sock")); err != nil {
		t.Fatal(err)
	}
	startAgent(t, dir, "core1")
	for _, out := range []string{run(0, "plan", "-i", "core1.yaml"), run(1, "off", "-i", "core1.yaml")} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), "a commit on the switch is not confirmed yet") {
			t.Error(out)
		}
	}
	target.Expire()
	if target.Config() != before {
		t.Error(target.Config())
	}
	run(0, "apply", "--resume", "core1.plan.journal", "--soak", "0s")
	if !strings.Contains(target.Config(), "TPID_0X88A8") {
		t.Error("nothing was applied")
	}
	run(0, "off", "-i", "core1.yaml")
	if target.Config() != before {
		t.Error(target.Config())
	}
}
