//go:build !linux

package api

import (
	"errors"
	"net"
)

// knowsPeers is whether the kernel says who is at the other end of a socket.
const knowsPeers = false

func uidOf(*net.UnixConn) (uid int, err error) { return 0, errors.ErrUnsupported }

// hungUp cannot be told here.
func hungUp(net.Conn) bool { return false }
