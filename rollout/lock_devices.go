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
// end with release or with the process. Root has a file of its own, too, since any
// user may put something else in the place of the shared one: warn receives that.
func LockDevices(f *inventory.Fleet, names []string, warn func(error)) (release func(), err error) {
	var files []lockFile
	if os.Geteuid() == 0 {
		files = append(files, lockFile{"/run/csig/devices.lock", 0o600})
	}
	shared, err := sharedLockFile()
	switch {
	case err == nil:
		files = append(files, lockFile{shared, 0o666})
	case len(files) == 0:
		return nil, fmt.Errorf("locking the devices: %w", err)
	default:
		warn(fmt.Errorf("locking the devices: %w", err))
	}
	return lockIn(files, f, names, warn)
}

// lockFile is a file for locks, with the mode that it is made with.
type lockFile struct {
	path string
	mode fs.FileMode
}

// errBusy is of a device at which another process is at work.
var errBusy = errors.New("wait for its end")

// lockIn locks in files of which one has to do.
func lockIn(files []lockFile, f *inventory.Fleet, names []string, warn func(error)) (release func(), err error) {
	var frees []func()
	release = func() {
		for _, free := range frees {
			free()
		}
	}
	var errs []error
	for _, file := range files {
		free, err := lockDevices(file.path, file.mode, f, names)
		if err == nil {
			frees = append(frees, free)
		}
		errs = append(errs, err)
	}
	err = errors.Join(errs...)
	if errors.Is(err, errBusy) || len(frees) == 0 {
		release()
		return nil, err
	}
	if err != nil {
		warn(err)
	}
	return release, nil
}

// lockDevices locks in a file that all fleets share, for each device, the bytes
// whose numbers stand for what identifies it.
func lockDevices(file string, mode fs.FileMode, f *inventory.Fleet, names []string) (release func(), err error) {
	lock, err := openShared(file, mode)
	if err != nil {
		return nil, fmt.Errorf("locking the devices: %w", err)
	}
	if info, err := lock.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("locking the devices: %s is no regular file", file), err, lock.Close())
	}
	for _, name := range names {
		d, ok := f.Device(name)
		if !ok {
			continue // it cannot be opened either
		}
		for _, id := range identities(d) {
			sum := sha256.Sum256([]byte(id))
			at := int64(binary.BigEndian.Uint64(sum[:]) >> 2)
			taken := fmt.Errorf("another csig apply or rollback is running on device %s (%s): %w", name, id, errBusy)
			if err := LockByte(lock, at, taken); err != nil {
				return nil, errors.Join(err, lock.Close())
			}
		}
	}
	return func() { lock.Close() }, nil
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
