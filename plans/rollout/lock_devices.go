package rollout

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/inventory"
)

// LockDevices keeps any other apply or rollback of this machine from devices,
// whatever plan, journal or fleet file has them, under whatever names. The locks
// end with release or with the process. Any user may lock in the file that all share, or
// put something else in its place. So root goes by a file of its own, in a folder of root's
// alone (/run/csig may be the controller's user's), and locks in the shared one for others
// to see: warn receives what is in the way there.
func LockDevices(f *inventory.Fleet, names []string, warn func(error)) (release func(), err error) {
	shared, err := sharedLockFile()
	if os.Geteuid() == 0 {
		if err != nil {
			warn(fmt.Errorf("locking the devices: %w", err))
		}
		return lockAsRoot("/run/csig-devices.lock", shared, f, names, warn)
	}
	if err != nil {
		return nil, fmt.Errorf("locking the devices: %w", err)
	}
	return lockDevices(shared, 0o666, f, names)
}

// errBusy is of a device at which another process is at work.
var errBusy = errors.New("wait for its end")

// lockAsRoot locks in root's own file, and in the shared one what no other user has locked
// there. Where there cannot be one of its own (root of a user namespace), the shared one has to do.
func lockAsRoot(own, shared string, f *inventory.Fleet, names []string, warn func(error)) (release func(), err error) {
	free, err := lockDevices(own, 0o600, f, names)
	switch {
	case errors.Is(err, errBusy), err != nil && shared == "":
		return nil, err
	case err != nil:
		freeShared, e := lockDevices(shared, 0o666, f, names)
		switch {
		case errors.Is(e, errBusy):
			return nil, e
		case e != nil:
			return nil, errors.Join(err, e)
		}
		warn(err)
		return freeShared, nil
	case shared == "":
		return free, nil
	}
	lock, err := openLock(shared, 0o666)
	if err != nil {
		warn(err)
		return free, nil
	}
	others, first := 0, ""
	err = lockEach(lock, f, names, func(name, id string, at int64) error {
		if others++; others == 1 {
			first = fmt.Sprintf("%s has the lock of device %s (%s) in %s", holderOf(lock, at), name, id, shared)
		}
		return nil
	})
	switch {
	case err != nil:
		warn(err)
	case others > 1:
		first += fmt.Sprintf(", and others' are taken, too (%d locks)", others)
		fallthrough
	case others == 1:
		warn(fmt.Errorf("%s: it is no csig of root, which therefore goes on; if it is a csig apply or rollback, interrupt this one and wait for its end", first))
	}
	return func() { free(); lock.Close() }, nil
}

// lockDevices locks in a file that all fleets share, for each device, the bytes
// whose numbers stand for what identifies it.
func lockDevices(file string, mode fs.FileMode, f *inventory.Fleet, names []string) (release func(), err error) {
	lock, err := openLock(file, mode)
	if err != nil {
		return nil, err
	}
	err = lockEach(lock, f, names, func(name, id string, at int64) error {
		return fmt.Errorf("another csig apply or rollback is running on device %s (%s): %s has its lock in %s: %w", name, id, holderOf(lock, at), file, errBusy)
	})
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return func() { lock.Close() }, nil
}

func openLock(file string, mode fs.FileMode) (*os.File, error) {
	lock, err := openShared(file, mode)
	if err != nil {
		return nil, fmt.Errorf("locking the devices: %w", err)
	}
	if info, err := lock.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("locking the devices: %s is no regular file", file), err, lock.Close())
	}
	return lock, nil
}

// lockEach locks devices in an open file; busy gets what another process has locked, and
// whose error ends it.
func lockEach(lock *os.File, f *inventory.Fleet, names []string, busy func(name, id string, at int64) error) error {
	for _, name := range names {
		d, ok := f.Device(name)
		if !ok {
			continue // it cannot be opened either
		}
		for _, id := range identities(d) {
			sum := sha256.Sum256([]byte(id))
			at := int64(binary.BigEndian.Uint64(sum[:]) >> 2)
			err := LockByte(lock, at, errBusy)
			if errors.Is(err, errBusy) {
				err = busy(name, id, at)
			} else if err == nil {
				markHolder(lock, at)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// openShared opens a file that all who have its mode may lock, and makes it where it is not
// there. It gets its mode before its name: another user who finds it may open it.
func openShared(file string, mode fs.FileMode) (*os.File, error) {
	// O_CREAT would fail, in a sticky folder, for a file of another user.
	const flags = os.O_RDWR | unix.O_NOFOLLOW | unix.O_NONBLOCK
	lock, err := os.OpenFile(file, flags, 0)
	if !errors.Is(err, fs.ErrNotExist) {
		return lock, err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	made, err := os.CreateTemp(filepath.Dir(file), ".csig-devices-*")
	if err != nil {
		return nil, err
	}
	defer os.Remove(made.Name())
	defer made.Close()
	if err := made.Chmod(mode); err != nil {
		return nil, err
	}
	if err := os.Link(made.Name(), file); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.OpenFile(file, flags, 0)
}

// LockByte locks a byte of a file until that is closed; where another process has it,
// taken says so.
func LockByte(f *os.File, at int64, taken error) error {
	err := unix.FcntlFlock(f.Fd(), setLock, &unix.Flock_t{Type: unix.F_WRLCK, Start: at, Len: 1})
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES):
		return taken
	case err != nil:
		return fmt.Errorf("locking %s: %w", f.Name(), err)
	}
	return nil
}

// sharedLockFile is where all users of this machine lock: in the first folder in which
// all may make files, and none may remove another's.
func sharedLockFile() (string, error) {
	folders := []string{"/run/lock", "/var/lock", "/tmp"}
	for _, folder := range folders {
		if info, err := os.Stat(folder); err == nil && info.IsDir() && info.Mode()&fs.ModeSticky != 0 && info.Mode().Perm()&0o002 != 0 {
			return filepath.Join(folder, "csig-devices.lock"), nil
		}
	}
	return "", fmt.Errorf("none of %s is a sticky folder in which every user may make files", strings.Join(folders, ", "))
}

// identities are what tells a device from every other: two devices are one where
// they share any.
func identities(d *inventory.Device) []string {
	m := &d.Management
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	bridge := m.Place(resolved, true)
	switch {
	case m.NetNS != "":
		add("network namespace %s%s", inode(m.NetNS), bridge)
	case d.Local:
		add("network namespace %s%s", inode("/proc/self/ns/net"), bridge)
	}
	if d.Address != "" {
		address := strings.TrimSuffix(strings.ToLower(d.Address), ".")
		ip, err := netip.ParseAddr(address)
		if err == nil {
			address = ip.Unmap().String()
		}
		if address == "localhost" || ip.IsLoopback() { // ports that are forwarded to other machines
			if m.SSH != nil {
				add("address %s%s", net.JoinHostPort(address, strconv.Itoa(int(m.SSH.Port))), bridge)
			}
			if m.Daemon != nil && m.Daemon.Socket == "" {
				add("address %s%s", net.JoinHostPort(address, strconv.Itoa(int(m.Daemon.Port))), bridge)
			}
		} else {
			add("address %s%s", address, bridge)
		}
	}
	if m.Daemon != nil && m.Daemon.Socket != "" && m.SSH == nil {
		add("socket %s", resolved(m.Daemon.Socket))
	}
	return out
}

// inode names a namespace by more than one of its paths.
func inode(path string) string {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return resolved(path) // it cannot be opened either
	}
	return fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}

// resolved is a path without links, as far as it exists.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
