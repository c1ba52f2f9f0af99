package rollout

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
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

// TestLockAsRoot: neither what any user may put in the place of the shared file nor what
// another process has locked there keeps root from devices; a csig of root does.
func TestLockAsRoot(t *testing.T) {
	f := &inventory.Fleet{Devices: []inventory.Device{{Name: "a", Local: true}, {Name: "b", Address: "192.0.2.1"}}}
	lock := func(own, shared string) (release func(), warned []error, err error) {
		release, err = lockAsRoot(own, shared, f, []string{"a", "b"}, func(err error) { warned = append(warned, err) })
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
	dir := t.TempDir()
	own, shared := filepath.Join(dir, "own"), filepath.Join(dir, "shared")
	holder := holdLock(t, shared, "a")
	release, warned, err := lock(own, shared)
	if err != nil || len(warned) != 1 || !strings.Contains(warned[0].Error(), "pid "+strconv.Itoa(holder)+" (user ") || !strings.Contains(warned[0].Error(), "device a (") {
		t.Fatalf("beside another user: %v, warned of %v", err, warned)
	}
	if _, err := lockDevices(shared, 0o666, f, []string{"b"}); !errors.Is(err, errBusy) {
		t.Errorf("what the other user has not locked is not locked for all to see: %v", err)
	}
	// Of root's own, one error, once.
	if _, warned, err := lock(own, shared); !errors.Is(err, errBusy) || len(warned) > 0 || strings.Count(err.Error(), "another csig apply or rollback is running") != 1 {
		t.Errorf("beside root: %v, warned of %v", err, warned)
	}
	release()
	// Where root has none of its own, the shared one has to do.
	if _, _, err := lock("/proc/none", shared); !errors.Is(err, errBusy) || strings.Contains(err.Error(), "/proc/none") {
		t.Errorf("without a file of its own: %v", err)
	}
}

// holdLock has another process lock a device of this name, and returns its pid.
func holdLock(t *testing.T, file, name string) int {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestHoldLock$")
	cmd.Env = append(os.Environ(), "CSIG_TEST_HOLD="+file+" "+name)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "held\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return cmd.Process.Pid
}

// TestHoldLock is that process.
func TestHoldLock(t *testing.T) {
	file, name, ok := strings.Cut(os.Getenv("CSIG_TEST_HOLD"), " ")
	if !ok {
		t.Skip("it is another test's process")
	}
	f := &inventory.Fleet{Devices: []inventory.Device{{Name: name, Local: true}}}
	release, err := lockDevices(file, 0o666, f, []string{name})
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends
}

// TestHolder: who has a lock is named by the kernel's list, and without a right to that by
// the mark that every csig leaves; what a process says of itself is cleaned.
func TestHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shared")
	pid := holdLock(t, path, "a")
	f, err := openLock(path, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := &inventory.Device{Local: true}
	sum := sha256.Sum256([]byte(identities(d)[0]))
	at := int64(binary.BigEndian.Uint64(sum[:]) >> 2)
	if runtime.GOOS == "linux" {
		if got := listedHolder("/proc", f, at); got != pid {
			t.Errorf("the kernel lists pid %d, want %d", got, pid)
		}
		if got := listedHolder("/proc", f, at-1); got != 0 {
			t.Errorf("pid %d is listed for another byte", got)
		}
		if got := lockedBy(f, at|mark); got != pid {
			t.Errorf("marked is pid %d, want %d", got, pid)
		}
	}
	if text := holderOf(f, at); !strings.HasPrefix(text, "pid "+strconv.Itoa(pid)) {
		t.Error(text)
	}
	proc := t.TempDir()
	for name, text := range map[string]string{"status": "Name:\tx\nUid:\t4000000000\t4000000001\t0\t0\n", "cmdline": "csig\x00apply\x00\x1b]0;x\a" + strings.Repeat("y", 1<<20)} {
		if err := os.MkdirAll(filepath.Join(proc, "7"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(proc, "7", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if text := processText(proc, 7); !strings.HasPrefix(text, `pid 7 (uid 4000000001, csig apply \x1b]0;x\x07yyy`) || len(text) > 200 {
		t.Errorf("%q", text)
	}
	if text := processText(proc, 8); text != "pid 8" {
		t.Errorf("of a process that is gone: %q", text)
	}
}
