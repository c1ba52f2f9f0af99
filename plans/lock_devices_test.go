package plans

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/csig-agent/csig/inventory"
)

// TestLockDevices locks what two fleets call by different names, and by
// different ways to it.
func TestLockDevices(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "lock"), filepath.Join(dir, "ns")
	if err := os.Symlink("/proc/self/ns/net", link); err != nil {
		t.Fatal(err)
	}
	ssh := func(address string, port uint16) inventory.Device {
		return inventory.Device{Address: address, Management: inventory.Management{SSH: &inventory.SSH{User: "csig", Port: port}}}
	}
	tls := func(address string, port uint16) inventory.Device {
		return inventory.Device{Address: address, Management: inventory.Management{Daemon: &inventory.Daemon{Port: port}}}
	}
	bridge := func(name string) inventory.Device {
		return inventory.Device{Local: true, Management: inventory.Management{OVS: &inventory.OVS{Bridge: name}}}
	}
	netns := func(path string) inventory.Device {
		return inventory.Device{Management: inventory.Management{NetNS: path}}
	}
	socket := func(path string) inventory.Device {
		return inventory.Device{Management: inventory.Management{Daemon: &inventory.Daemon{Socket: path}}}
	}
	local := inventory.Device{Local: true}
	for name, c := range map[string]struct {
		a, b inventory.Device
		one  bool // device
	}{
		"address":                        {ssh("192.0.2.1", 22), ssh("192.0.2.1", 22), true},
		"address, by another way":        {ssh("192.0.2.1", 22), tls("192.0.2.1", 7443), true},
		"addresses":                      {ssh("192.0.2.1", 22), ssh("192.0.2.2", 22), false},
		"address, written otherwise":     {ssh("2001:db8::1", 22), ssh("2001:0db8:0::0001", 22), true},
		"name, written otherwise":        {ssh("leaf1.example.net", 22), ssh("LEAF1.example.net.", 22), true},
		"ports of this machine":          {ssh("127.0.0.1", 2201), ssh("127.0.0.1", 2202), false},
		"port of this machine":           {ssh("127.0.0.1", 2201), ssh("127.0.0.1", 2201), true},
		"this machine":                   {local, local, true},
		"this machine and its namespace": {local, netns("/proc/self/ns/net"), true},
		"namespace by a link":            {netns(link), netns("/proc/self/ns/net"), true},
		"bridges":                        {bridge("a"), bridge("b"), false},
		"bridge":                         {bridge("a"), bridge("a"), true},
		"sockets":                        {socket("/run/a.sock"), socket("/run/b.sock"), false},
		"socket":                         {socket("/run/a.sock"), socket("/run/../run/a.sock"), true},
		"socket and another's address":   {socket("/run/a.sock"), ssh("192.0.2.1", 22), false},
	} {
		t.Run(name, func(t *testing.T) {
			c.a.Name, c.b.Name = "a", "b"
			a, b := &inventory.Fleet{Devices: []inventory.Device{c.a}}, &inventory.Fleet{Devices: []inventory.Device{c.b}}
			release, err := lockDevices(file, a, []string{"a"})
			if err != nil {
				t.Fatal(err)
			}
			again, err := lockDevices(file, b, []string{"b"})
			switch {
			case c.one && (err == nil || !strings.Contains(err.Error(), "another csig apply or rollback is at work on device b (")):
				t.Errorf("both are locked: %v", err)
			case !c.one && err != nil:
				t.Error(err)
			}
			if err == nil {
				again()
			}
			release()
			if again, err = lockDevices(file, b, []string{"b"}); err != nil {
				t.Fatalf("after the release: %v", err)
			}
			again()
		})
	}
	// Two devices of a fleet at one address are no two processes.
	both := &inventory.Fleet{Devices: []inventory.Device{local, local}}
	both.Devices[0].Name, both.Devices[1].Name = "a", "b"
	release, err := lockDevices(file, both, []string{"a", "b", "of another file"})
	if err != nil {
		t.Fatal(err)
	}
	release()
	// No link is followed to what is to be locked.
	if err := os.Symlink(file, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := lockDevices(filepath.Join(dir, "link"), both, nil); err == nil {
		t.Error("a link is followed")
	}
	// Users who find no file, side by side, make one, which all may lock.
	fresh := filepath.Join(dir, "new")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			release, err := lockDevices(fresh, both, nil)
			if err != nil {
				t.Error(err)
				return
			}
			release()
		})
	}
	all.Wait()
	if info, err := os.Stat(fresh); err != nil || info.Mode() != 0o666 {
		t.Errorf("%v, %v", info, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".csig-*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := sharedLockFile(); err != nil {
		t.Error(err)
	}
}
