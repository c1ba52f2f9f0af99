package rollout

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors/ovs"
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
		return inventory.Device{Local: true, Management: inventory.Management{Own: map[string]inventory.PlatformKeys{"ovs": &ovs.Keys{Bridge: name}}}}
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
			release, err := lockDevices(file, 0o666, a, []string{"a"})
			if err != nil {
				t.Fatal(err)
			}
			again, err := lockDevices(file, 0o666, b, []string{"b"})
			switch {
			case c.one && (err == nil || !strings.Contains(err.Error(), "another csig apply or rollback is running on device b (")):
				t.Errorf("both are locked: %v", err)
			case !c.one && err != nil:
				t.Error(err)
			}
			if err == nil {
				again()
			}
			release()
			if again, err = lockDevices(file, 0o666, b, []string{"b"}); err != nil {
				t.Fatalf("after the release: %v", err)
			}
			again()
		})
	}
	// Two devices of a fleet at one address are no two processes.
	both := &inventory.Fleet{Devices: []inventory.Device{local, local}}
	both.Devices[0].Name, both.Devices[1].Name = "a", "b"
	release, err := lockDevices(file, 0o666, both, []string{"a", "b", "of another file"})
	if err != nil {
		t.Fatal(err)
	}
	release()
	// No link is followed to what is to be locked.
	if err := os.Symlink(file, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := lockDevices(filepath.Join(dir, "link"), 0o666, both, nil); err == nil {
		t.Error("a link is followed")
	}
	// Users who find no file, side by side, make one, which all may lock.
	fresh := filepath.Join(dir, "new")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			release, err := lockDevices(fresh, 0o666, both, nil)
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

// TestLockAsRoot: what any user may put in the place of the shared file does not keep
// root from devices; a process at work there does.
func TestLockAsRoot(t *testing.T) {
	f := &inventory.Fleet{Devices: []inventory.Device{{Name: "a", Local: true}}}
	lock := func(own, shared string) (release func(), warned []error, err error) {
		release, err = lockIn([]lockFile{{own, 0o600}, {shared, 0o666}}, f, []string{"a"}, func(err error) { warned = append(warned, err) })
		return release, warned, err
	}
	for name, make := range map[string]func(path string) error{
		"folder": func(path string) error { return os.Mkdir(path, 0o777) },
		"FIFO":   func(path string) error { return unix.Mkfifo(path, 0o666) },
		"link":   func(path string) error { return os.Symlink("/dev/null", path) },
	} {
		dir := t.TempDir()
		own, shared := filepath.Join(dir, "csig", "own"), filepath.Join(dir, "shared")
		if err := make(shared); err != nil {
			t.Fatal(err)
		}
		release, warned, err := lock(own, shared)
		if err != nil || len(warned) != 1 {
			t.Fatalf("%s: %v, warned of %v", name, err, warned)
		}
		if info, err := os.Stat(own); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
		if _, _, err := lock(own, shared); !errors.Is(err, errBusy) {
			t.Errorf("%s: locked twice: %v", name, err)
		}
		release()
		if _, _, err := lock(shared, shared); err == nil { // neither will do
			t.Errorf("%s: nothing is locked", name)
		}
	}
	// Another user holds the shared lock.
	dir := t.TempDir()
	own, shared := filepath.Join(dir, "own"), filepath.Join(dir, "shared")
	free, err := lockDevices(shared, 0o666, f, []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := lock(own, shared); !errors.Is(err, errBusy) {
		t.Errorf("beside another user: %v", err)
	}
	free()
	release, warned, err := lock(own, shared) // and nothing is left of that try
	if err != nil || len(warned) > 0 {
		t.Fatalf("%v, %v", err, warned)
	}
	release()
}
