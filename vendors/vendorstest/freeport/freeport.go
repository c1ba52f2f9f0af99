// Package freeport has ports of this machine for tests' peers that are told where to listen.
package freeport

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
)

// Ports from first to last are below those that the kernel gives to connections (ip_local_port_range, from 32768
// on): one of those is taken now and then before the peer listens.
const first, last = 10_000, 29_999

// next counts the ports that were looked at. Tests of several processes begin at other ones.
var next atomic.Uint32

func init() { next.Store(rand.Uint32N(last - first)) }

// TCP is a port at 127.0.0.1 that nothing listens at, another one each time.
func TCP(t testing.TB) uint16 {
	t.Helper()
	for range last - first {
		port := first + next.Add(1)%(last-first)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return uint16(port)
	}
	t.Fatal("all ports of this machine are in use")
	return 0
}

// Addr is 127.0.0.1 with such a port.
func Addr(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(TCP(t))))
}
