package api

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// knowsPeers is whether the kernel says who is at the other end of a socket.
const knowsPeers = true

// peerOf is the user that connected (unix(7), SO_PEERCRED).
func peerOf(c *net.UnixConn) (uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var got error
	err = raw.Control(func(fd uintptr) {
		cred, got = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, got); err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}
