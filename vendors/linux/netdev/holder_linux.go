package netdev

import (
	"bufio"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Holder is the process that listens at a unix socket.
type Holder struct {
	PID int // 0: of another process namespace, or unknown
	UID int
}

// Listener returns who listens at a unix socket.
func Listener(name string) (Holder, error) {
	conn, err := net.DialTimeout("unix", name, time.Second)
	if err != nil {
		return Holder{}, err
	}
	defer conn.Close()
	return PeerOf(conn.(*net.UnixConn))
}

// PeerOf returns who listens at the other end of a connection.
func PeerOf(conn *net.UnixConn) (Holder, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return Holder{}, err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, credErr); err != nil {
		return Holder{}, err
	}
	return Holder{PID: int(cred.Pid), UID: int(cred.Uid)}, nil
}

// MayProgram reports whether the process can program the namespace's ports. Others may bind
// the name of an agent's lock, too.
func (h Holder) MayProgram() bool {
	return h.UID == 0 || h.UID == os.Geteuid() || mayProgram(h.PID)
}

// AgentOf returns the agent that programs the ports of the thread's network namespace, nil
// where there is none. The name of a socket, at which it listens as soon as it has it, is its
// lock; where a process that cannot program ports had bound that, a byte of a file is, which
// does not name its process.
func AgentOf(name, file string) (*Holder, error) {
	switch h, err := Listener(name); {
	case err == nil && h.MayProgram():
		return &h, nil
	case err != nil && !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, os.ErrPermission):
		return nil, err // somebody listens
	}
	f, err := os.Open(file)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, os.ErrPermission):
		return nil, nil // no process that can program the ports of who asks made one
	case err != nil:
		return nil, err
	}
	defer f.Close()
	at, err := NamespaceByte()
	if err != nil {
		return nil, err
	}
	has := unix.Flock_t{Type: unix.F_WRLCK, Start: at, Len: 1}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &has); err != nil || has.Type == unix.F_UNLCK {
		return nil, err
	}
	return &Holder{}, nil
}

// NamespaceByte is which byte of the lock's file stands for the thread's network
// namespace.
func NamespaceByte() (int64, error) {
	var ns unix.Stat_t
	err := unix.Stat("/proc/thread-self/ns/net", &ns)
	return int64(ns.Ino), err
}

// mayProgram reports whether a process has CAP_NET_ADMIN in our user namespace.
// One that cannot be looked at may.
func mayProgram(pid int) bool {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	theirs, err := os.Stat(filepath.Join(proc, "ns", "user"))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	ours, err := os.Stat("/proc/self/ns/user")
	if err != nil {
		return true
	}
	if !os.SameFile(theirs, ours) {
		return false // what it may in a user namespace of its own is none of ours
	}
	f, err := os.Open(filepath.Join(proc, "status"))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if hex, ok := strings.CutPrefix(lines.Text(), "CapEff:"); ok {
			caps, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			return err != nil || caps>>unix.CAP_NET_ADMIN&1 != 0
		}
	}
	return true
}
