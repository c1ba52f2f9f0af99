package vendors

import (
	"errors"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// Unsent is how long the kernel goes on sending what a process wrote to a guarded connection
// and the device has not acknowledged.
const Unsent = 10 * time.Second

// BoundUnsent has the kernel keep to Unsent.
func BoundUnsent(c net.Conn) error {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(Unsent.Milliseconds()))
	})
	return errors.Join(err, set)
}
