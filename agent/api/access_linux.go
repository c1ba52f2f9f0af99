package api

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// knowsPeers is whether the kernel identifies the peer of a socket.
const knowsPeers = true

// uidOf is the user that connected.
func uidOf(c *net.UnixConn) (uid int, err error) {
	cred, err := credentials(c)
	if err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}

// pidOf is the process that listens where a connection leads to; 0: it is not known.
func pidOf(c net.Conn) int {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return 0
	}
	cred, err := credentials(u)
	if err != nil {
		return 0
	}
	return int(cred.Pid)
}

// credentials are those of the other end (unix(7), SO_PEERCRED).
func credentials(c *net.UnixConn) (cred *unix.Ucred, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var got error
	err = raw.Control(func(fd uintptr) {
		cred, got = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	return cred, errors.Join(err, got)
}

// hungUp reports whether the peer of a connection has closed it, also when what
// it sent before has not been read yet (poll(2), POLLRDHUP).
func hungUp(c net.Conn) bool {
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return true // closed here
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(p, 0)
		gone = err == nil && n > 0 && p[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
	})
	return gone || err != nil
}
