//go:build !linux

package api

import (
	"errors"
	"net"
)

// knowsPeers is whether the kernel identifies the peer of a socket.
const knowsPeers = false

func uidOf(*net.UnixConn) (uid int, err error) { return 0, errors.ErrUnsupported }

func pidOf(net.Conn) int { return 0 }

// hungUp is not known here.
func hungUp(net.Conn) bool { return false }
