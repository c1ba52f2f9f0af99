package device

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/plans/rollout"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/linux/netdev"
)

var errOtherAgent = errors.New("another csig agent programs the ports of this network namespace: stop it first (csig agent --dry-run runs beside it)")

// lockDevice makes this the only agent that programs the ports of this network
// namespace, or a remote device. The lock is an abstract socket: it belongs to the namespace, as
// the ports do, and goes with the process however that ends.
//
// Any process in the namespace may bind that name. Where a process that cannot
// program ports has bound it, a byte of a file beside the agent's usual socket, to
// which only its owner has access, is the lock instead; otherwise no file is made.
func lockDevice(remote, device string, log *logrus.Entry) (unlock func(), err error) {
	of, other := "", errOtherAgent
	if remote != "" {
		other = fmt.Errorf("another csig agent on this machine drives %s (%s): stop it first (csig agent --dry-run runs beside it)", device, remote)
		of = fmt.Sprintf("-%.16x", sha256.Sum256([]byte(remote)))
	}
	return patient(other, func() (func(), error) {
		return lock(vendors.AgentLock+of, filepath.Join(filepath.Dir(api.DefaultSocket()), "lock"+of), other, log)
	})
}

// How long, and how often, a lock is tried that another process has: one that was killed a moment
// ago has it until the kernel has done away with the process.
const (
	lockPatience = time.Second
	lockPause    = 20 * time.Millisecond
)

// patient tries a lock until it is free or has been taken for too long.
func patient(taken error, try func() (func(), error)) (func(), error) {
	for end := time.Now().Add(lockPatience); ; time.Sleep(lockPause) {
		unlock, err := try()
		if !errors.Is(err, taken) || !time.Now().Before(end) {
			return unlock, err
		}
	}
}

func lock(name, file string, other error, log *logrus.Entry) (func(), error) {
	ln, err := net.Listen("unix", name)
	switch {
	case err == nil:
		f, err := lockNamespace(file, false, other)
		if err != nil {
			return nil, errors.Join(err, ln.Close())
		}
		go hangUp(ln)
		return func() {
			_ = ln.Close() // with the process at the latest
			_ = f.Close()  // nil is fine: there was no file
		}, nil
	case !errors.Is(err, unix.EADDRINUSE):
		return nil, fmt.Errorf("locking the device: %w", err)
	}
	if holder, err := holderOf(name); err != nil || holder == "" {
		if pid := listenerPID(name); pid != 0 {
			other = fmt.Errorf("%w; it is process %d", other, pid)
		}
		return nil, errors.Join(other, err)
	}
	f, err := lockNamespace(file, true, other)
	if err != nil {
		return nil, err
	}
	// Again, behind the file: who bound the name in between may have found none.
	holder, err := holderOf(name)
	if err != nil || holder == "" {
		return nil, errors.Join(other, err, f.Close())
	}
	log.WithField("holder", holder).Warn("a process that cannot run an agent holds the lock's name " + name + ": " + file + " is the lock instead")
	return func() { _ = f.Close() }, nil
}

// hangUp ends every connection at once: a client connects to learn who listens,
// and connections that are not accepted would fill the queue.
func hangUp(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		_ = conn.Close()
	}
}

// holderOf describes who holds the name, where that is a process that cannot program
// our ports; it is "" for one who could.
func holderOf(name string) (string, error) {
	h, err := netdev.Listener(name)
	var dial *net.OpError
	switch {
	case errors.As(err, &dial) && dial.Op == "dial":
		// An agent listens from its first moment.
		return "a socket without a listener", nil
	case err != nil:
		return "", fmt.Errorf("locking the device: who holds %s: %w", name, err)
	case h.MayProgram():
		return "", nil
	}
	return fmt.Sprintf("process %d of user %d", h.PID, h.UID), nil
}

// lockNamespace locks, in a file that all network namespaces share, the byte that is
// this namespace's number. Without the file it returns nil, unless it may be
// made. The lock ends with the file's closing.
func lockNamespace(name string, create bool, other error) (*os.File, error) {
	flags := os.O_RDWR | unix.O_NOFOLLOW
	if create {
		flags |= os.O_CREATE
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return nil, fmt.Errorf("locking the device: another process holds the name %s, and %w", vendors.AgentLock, err)
		}
	}
	f, err := os.OpenFile(name, flags, 0o600)
	if err != nil {
		if !create && (errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission)) {
			return nil, nil // no process that can program ports made one
		}
		return nil, fmt.Errorf("locking the device: %w", err)
	}
	at, err := netdev.NamespaceByte()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking the device: %w", err), f.Close())
	}
	if err := rollout.LockByte(f, at, other); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
