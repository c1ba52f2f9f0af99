package vendors

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestUnsent: the kernel gives up what a guarded connection wrote as soon as the next owner
// counts on it.
func TestUnsent(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := (&Owner{MayWrite: func() error { return nil }}).Guard()(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.(*guarded).Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		ms, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
		if got := time.Duration(ms) * time.Millisecond; err != nil || got != Unsent {
			t.Errorf("%v, %v; want %v", got, err, Unsent)
		}
	}); err != nil {
		t.Fatal(err)
	}
}
